// A story as nodes to draw: the question, each place of the reasoning with the steps in it, and how it ended.

import { graphOf } from "./graph.js";
import { brief, count, gist, taskOf, verdictOf } from "./words.js";

/** `{shape, nodes, edges}`; the shape is a tree (places that hold passages), a chain or a graph (of triplets). */
export function drawn(story) {
  const graph = graphOf(story);
  if (graph) return graph;
  const nodes = placed(story);
  const follow = nodes.slice(1).map((node, place) => [nodes[place].id, node.id]);
  if (!nodes.some((node) => node.branch?.passages?.length)) return { shape: "chain", nodes, edges: follow };
  const grown = nodes.filter((node) => node.kind === "branch").map((node) => [node.parent, node.id]);
  return { shape: "tree", nodes, edges: [...grown, ...fused(nodes)] };
}

/** An end comes of the accepted nodes, or of the question where there is none. */
function fused(nodes) {
  const accepted = nodes.filter((node) => node.branch?.verdict === "accept");
  return nodes
    .filter((node) => node.kind === "end")
    .flatMap((end) => (accepted.length ? accepted : [nodes[0]]).map((node) => [node.id, end.id]));
}

function placed(story) {
  const root = { id: "question", parent: null, depth: 0, kind: "question", title: story.question, steps: [] };
  const nodes = [root];
  const holder = new Map(); // the node that a step belongs to
  const branches = [...story.steps.values()].some((step) => step.kind === "branch");
  for (const step of story.inOrder) {
    const above = holder.get(step.parent) ?? null;
    if (step.kind === "branch") nodes.push(within(above ?? root, { kind: "branch", branch: step }, step));
    else if (above) above.steps.push(step);
    else alone(step);
    holder.set(step.id, above && step.kind !== "branch" ? above : nodes.at(-1));
  }
  return nodes.map((node) => told(story, node));

  function within(parent, rest, step) {
    return { id: `step-${step.id}`, parent: parent.id, depth: parent.depth + 1, steps: [], ...rest };
  }
  // What stands under no place: before the first, the question's own; after, an end or, with no places, a node of its own.
  function alone(step) {
    const last = nodes.at(-1);
    if (branches && last === root && !step.final) return root.steps.push(step);
    const joins =
      step.kind === "note" && !step.data?.ranked
        ? last !== root
        : last.kind === "end" && (branches || last.steps[0].kind === step.kind);
    if (joins) return last.steps.push(step);
    const node = within(root, { kind: "end" }, step);
    node.steps.push(step);
    return nodes.push(node);
  }
}

function told(story, node) {
  if (node.kind === "question") return { ...node, tone: "root", label: "", open: false };
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
    passages: passagesOf(node),
  };
}

function end(story, node) {
  const step = node.steps.find((each) => each.kind === "ask" && each.final) ?? node.steps[0];
  const told = { ...node, tone: step.final ? "end" : "still", label: "", open: false, passages: passagesOf(node) };
  switch (step.kind) {
    case "search":
      return {
        ...told,
        title: itself(story, step.query),
        label: "search",
        said: { noun: "found", text: count(step.passages.length, "passage") },
      };
    case "read":
      return { ...told, title: step.spans[0]?.text || "nothing found", label: "read" };
    case "score":
      return { ...told, title: count(node.steps.length, "scored batch"), label: taskOf(step.task) };
    case "ask":
      return {
        ...told,
        title: gist(step.output).text || "could not be read",
        label: step.final ? "answer" : taskOf(step.task),
      };
    default:
      return { ...told, ...note(story, step) };
  }
}

function note(story, step) {
  const [best] = step.data?.ranked ?? [];
  if (!best?.passages) return { title: step.name, label: "note", said: { noun: "", text: brief(step.data) } };
  return {
    title: best.passages.map((id) => story.titleOf(id)).join(" → "),
    label: `best of ${count(step.data.ranked.length, "path")}`,
    passages: best.passages,
    tone: "good",
  };
}

/** A place by its label; one that is but numbered, by the sub-question that was asked there. */
function named({ branch, steps }) {
  const asked =
    /^\(\d+\)$/.test(branch.label) && steps.find((step) => step.kind === "ask" && step.output?.sub_question);
  return asked ? asked.output.sub_question : branch.label;
}

/** A query in words that do not repeat the question. */
const itself = (story, query) => (query === story.question ? "The question as it stands" : query);

/** What a place came to, as `{noun, text}`: its answer, else what its last reading or call said. A chain written anew
    is no conclusion: it is the next place that it leads to. */
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
