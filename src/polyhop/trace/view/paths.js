// Ranked paths of passages, of hops and PromptRank: the best of them as a tree, whose branches share what they begin with.

import { count } from "./words.js";

const MAX_PATHS = 8; // paths that are drawn

/** The note that ranks paths, if the question's own steps have one: `[{passages, score}]`, the best first. */
export const rankingOf = (story) =>
  story.inOrder.find((step) => step.kind === "note" && (step.parent ?? null) === null && rankedOf(step).length > 0);

const rankedOf = ({ data }) =>
  Array.isArray(data?.ranked) ? data.ranked.filter((path) => Array.isArray(path?.passages) && path.passages.length) : [];

/** The best paths as nodes under `root`, each node a passage after those before it, a path's end with its rank. */
export function pathsOf(story, ranking, root) {
  const ranked = rankedOf(ranking);
  const top = { node: root, under: new Map() };
  ranked.slice(0, MAX_PATHS).forEach(({ passages, score }, place) => {
    let at = top;
    passages.forEach((id, depth) => {
      if (!at.under.has(id)) {
        const node = standing(story, passages.slice(0, depth + 1), at.node);
        at.under.set(id, { node, under: new Map() });
      }
      at = at.under.get(id);
    });
    if (at.node.label) return;
    Object.assign(at.node, {
      label: place ? `${nth(place + 1)} of ${ranked.length}` : `best of ${count(ranked.length, "path")}`,
      tone: place ? "still" : "good",
      said: typeof score === "number" ? { noun: "score", text: score.toFixed(2) } : null,
    });
  });
  return below(top);
}

function standing(story, passages, parent) {
  const id = passages.at(-1);
  return {
    id: `${parent.id}/${id}`,
    parent: parent.id,
    depth: parent.depth + 1,
    kind: "path",
    title: story.titleOf(id),
    heading: passages.map((each) => story.titleOf(each)).join(" → "),
    label: "",
    tone: "still",
    open: false,
    holds: [id],
    passages,
    steps: [],
  };
}

const nth = (rank) => `${rank}${{ 2: "nd", 3: "rd" }[rank] ?? "th"}`;

const below = ({ under }) => [...under.values()].flatMap((each) => [each.node, ...below(each)]);
