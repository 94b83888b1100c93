// The question's graph of GE-Reasoning: triplets of entities and variables; a variable that is bound shows its value.

import { gist, verdictOf } from "./words.js";

/** Nodes and edges of the triplets, or null if there is no graph. Entities and relations are both nodes. */
export function graphOf(story) {
  const notes = story.inOrder.filter((step) => step.kind === "note");
  const first = notes.find((step) => step.name === "graph");
  if (!first) return null;
  const bindings = notes.filter((step) => step.name === "binding");
  const nodes = new Map();
  const edges = [];
  const versions = [first.data.triplets, ...bindings.map((step) => step.data.graph)];
  const branches = story.inOrder.filter((step) => step.kind === "branch");
  first.data.triplets.forEach((text, place) => {
    const [head, relation, tail] = parts(text);
    const draws = branches.filter((branch) => versions.some((version) => version[place] === branch.label));
    const link = triplet(story, versions, place, relation, draws);
    const from = entity(head);
    nodes.set(link.id, link);
    edges.push([from.id, link.id], [link.id, entity(tail).id]);
  });
  const depth = levels([...nodes.keys()], edges);
  nodes.forEach((node) => (node.depth = depth.get(node.id)));
  const root = story.inOrder.filter((step) => (step.parent ?? null) === null && step.kind !== "branch");
  const final = root.filter((step) => step.kind === "ask" && step.final);
  const start = {
    id: "question",
    kind: "question",
    depth: 0,
    tone: "root",
    title: story.question,
    label: "",
    steps: root.filter((step) => step.id <= first.id),
  };
  const end = final.map((step) => ({
    id: `step-${step.id}`,
    kind: "end",
    depth: 0,
    tone: "end",
    title: gist(step.output).text || "could not be read",
    label: "answer",
    steps: [step],
  }));
  return { shape: "graph", nodes: [start, ...nodes.values(), ...end], edges };

  function entity(text) {
    const number = /^(?:[^:#]*:\s*)?#(\d+)$/.exec(text)?.[1];
    const id = number ? `variable-${number}` : `entity-${text}`;
    if (!nodes.has(id))
      nodes.set(
        id,
        number
          ? variable(id, number, text, bindings)
          : { id, kind: "entity", tone: "still", title: text, label: "", steps: [] },
      );
    return nodes.get(id);
  }
}

/** `(head; relation; tail)`; a relation may hold a semicolon. */
function parts(text) {
  const pieces = text.replace(/^\(|\)$/g, "").split("; ");
  return pieces.length < 3 ? [text, "", ""] : [pieces[0], pieces.slice(1, -1).join("; "), pieces.at(-1)];
}

function variable(id, number, text, bindings) {
  const bound = bindings.filter((step) => step.data.variable === `#${number}`);
  const answer = bound.at(-1)?.data.answer;
  const kind = text.includes(":") ? text.split(":")[0] : "unknown";
  return {
    id,
    kind: "variable",
    tone: answer ? "good" : "open",
    title: answer ?? "?",
    label: `#${number} ${kind}`,
    steps: bound,
  };
}

function triplet(story, versions, place, relation, draws) {
  const ids = new Set(draws.map((branch) => branch.id));
  const last = draws.at(-1);
  const open = story.running && last !== undefined && !story.ended.has(last.id);
  const [words, tone] = last?.verdict ? verdictOf(last.verdict) : [open ? "under way" : "", open ? "open" : "still"];
  const steps = story.inOrder.filter((step) => ids.has(step.parent));
  const passages = [...new Set(steps.filter((step) => step.kind === "search").flatMap((step) => step.passages))];
  return {
    id: `triplet-${place}`,
    kind: "relation",
    title: relation,
    heading: versions.at(-1)[place],
    label: words,
    tone,
    open,
    steps,
    passages,
    branch: last,
  };
}

/** The column of each node: the maximum number of edges before it. A cycle ends where it returns. */
function levels(ids, edges) {
  const found = new Map();
  const level = (id, seen) => {
    if (found.has(id)) return found.get(id);
    const before = edges.filter(([from, to]) => to === id && !seen.has(from)).map(([from]) => from);
    const at = Math.max(-1, ...before.map((each) => level(each, new Set([...seen, id])))) + 1;
    found.set(id, at);
    return at;
  };
  ids.forEach((id) => level(id, new Set()));
  return found;
}
