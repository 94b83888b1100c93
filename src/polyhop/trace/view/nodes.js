// A story as nodes to draw: the question, each branch of the reasoning with its steps, and its end.

import { graphOf } from "./graph.js";
import { pathsOf, rankingOf } from "./paths.js";
import { brief, count, gist, taskOf, verdictOf } from "./words.js";

/** `{shape, nodes, edges}`; the shape is a tree (places that hold passages), a chain or a graph (of triplets). */
export function drawn(story) {
  const graph = graphOf(story);
  if (graph) return graph;
  const nodes = placed(story);
  const follow = nodes.slice(1).map((node, place) => [nodes[place].id, node.id]);
  if (!nodes.some((node) => node.holds?.length)) return { shape: "chain", nodes, edges: follow };
  const grown = nodes.slice(1).filter((node) => node.kind !== "end");
  return { shape: "tree", nodes, edges: [...grown.map((node) => [node.parent, node.id]), ...fused(nodes)] };
}

/** An end comes of the nodes that are good, or of the question where none is. */
function fused(nodes) {
  const good = nodes.filter((node) => node.tone === "good");
  return nodes
    .filter((node) => node.kind === "end")
    .flatMap((end) => (good.length ? good : [nodes[0]]).map((node) => [node.id, end.id]));
}

function placed(story) {
  const root = { id: "question", parent: null, depth: 0, kind: "question", title: story.question, steps: [] };
  const nodes = [root];
  const holder = new Map(); // the node that a step belongs to
  const branches = [...story.steps.values()].some((step) => step.kind === "branch");
  const ranking = branches ? undefined : rankingOf(story);
  for (const step of story.inOrder) {
    const above = holder.get(step.parent) ?? null;
    if (step.kind === "branch") nodes.push(within(above ?? root, { kind: "branch", branch: step }, step));
    else if (above) above.steps.push(step);
    else alone(step);
    holder.set(step.id, above && step.kind !== "branch" ? above : nodes.at(-1));
  }
  return nodes.map((node) => described(story, node));

  function within(parent, rest, step) {
    return { id: `step-${step.id}`, parent: parent.id, depth: parent.depth + 1, steps: [], ...rest };
  }
  // A step outside all branches: before the first it belongs to the question; after, to an end or, without branches, to a new node.
  function alone(step) {
    const last = nodes.at(-1);
    if (step === ranking) return nodes.push(...pathsOf(story, ranking, root));
    if ((branches || ranking) && last === root && !step.final) return root.steps.push(step);
    if (step.kind === "note" && last.kind === "path") return root.steps.push(step);
    const joins =
      step.kind === "note" ? last !== root : last.kind === "end" && (branches || last.steps[0].kind === step.kind);
    if (joins) return last.steps.push(step);
    const node = within(root, { kind: "end" }, step);
    node.steps.push(step);
    return nodes.push(node);
  }
}

function described(story, node) {
  if (node.kind === "question") return { ...node, tone: "root", label: "", open: false };
  if (node.kind === "path") return node;
  return node.kind === "branch" ? place(story, node) : end(story, node);
}

function place(story, node) {
  const { branch } = node;
  const open = story.running && !story.ended.has(branch.id);
  const [words, tone] = branch.verdict ? verdictOf(branch.verdict) : [open ? "under way" : "", open ? "open" : "still"];
  return {
    ...node,
    title: itself(story, named(node)),
    label: words,
    tone,
    open,
    said: tone === "low" ? null : conclusion(node.steps),
    holds: branch.passages ?? [],
    passages: passagesOf(node),
  };
}

function end(story, node) {
  const step = node.steps.find((each) => each.kind === "ask" && each.final) ?? node.steps[0];
  const base = { ...node, tone: step.final ? "end" : "still", label: "", open: false, passages: passagesOf(node) };
  switch (step.kind) {
    case "search":
      return {
        ...base,
        title: itself(story, step.query),
        label: "search",
        said: { noun: "found", text: count(step.passages.length, "passage") },
      };
    case "read":
      return { ...base, title: surest(node.steps) || "nothing found", label: "read" };
    case "score":
      return { ...base, title: count(node.steps.length, "scored batch"), label: taskOf(step.task) };
    case "ask":
      return {
        ...base,
        title: gist(step.output).text || "could not be read",
        label: step.final ? "answer" : taskOf(step.task),
      };
    default:
      return { ...base, title: step.name, label: "note", said: { noun: "", text: brief(step.data) } };
  }
}

/** The span of the readings with the highest confidence. */
function surest(steps) {
  const spans = steps.flatMap((step) => (step.kind === "read" ? (step.spans ?? []).slice(0, 1) : []));
  return spans.sort((one, other) => other.confidence - one.confidence)[0]?.text;
}

/** The name of a branch: its label or, if that is only a number, the sub-question that was asked in it. */
function named({ branch, steps }) {
  const asked =
    /^\(\d+\)$/.test(branch.label) && steps.find((step) => step.kind === "ask" && step.output?.sub_question);
  return asked ? asked.output.sub_question : branch.label;
}

/** A query in words that do not repeat the question. */
const itself = (story, query) => (query === story.question ? "The question as it stands" : query);

/** The result of a branch, as `{noun, text}`: its answer, else the text of its last reading or call. A rewritten chain
    is not a result: it leads to the next branch. */
function conclusion(steps) {
  const says = (step) =>
    step.kind === "ask"
      ? !step.output?.nodes && gist(step.output).noun !== "enough" && gist(step.output).text
      : step.kind === "read" && step.spans.length;
  const last = steps.findLast((step) => step.kind === "ask" && step.output?.answer) ?? steps.findLast(says);
  if (!last) return null;
  return last.kind === "read" ? { noun: "read", text: last.spans[0].text } : gist(last.output);
}

/** The passages a node is about: its own, else those its searches found. */
export function passagesOf(node) {
  if (node.branch?.passages?.length) return node.branch.passages;
  return [...new Set(node.steps.filter((step) => step.kind === "search").flatMap((step) => step.passages))];
}
