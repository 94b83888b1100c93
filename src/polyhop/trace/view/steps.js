// One step in full: a call with its prompt and output, a search, a reading, a note.

import { el, facts, folded } from "./dom.js";
import { marked } from "./passages.js";
import { brief, count, cut, gist, seconds, share, taskOf, whole } from "./words.js";

const MAX_ITEMS = 10; // items of a long list that are shown at first

/** A step, folded; its head shows its result. */
export function step(story, one) {
  const [name, said, fill] = KINDS[one.kind]?.(story, one) ?? [one.kind, "", () => []];
  const took = one.kind === "note" ? "" : seconds(one.volatile?.seconds);
  const head = [el("span.task", {}, name), " ", el("span.gist", {}, cut(said, 140)), " ", el("span.took", {}, took)];
  return folded(head, fill);
}

const KINDS = {
  __proto__: null,
  ask: (story, one) => [
    taskOf(one.task),
    one.output ? gist(one.output).text : "could not be read",
    () => call(story, one),
  ],
  search: (story, one) => ["search", one.query, () => hits(story, one)],
  read: (story, one) => [
    "read",
    one.spans.map((span) => span.text).join(" · ") || "nothing found",
    () => readings(story, one),
  ],
  score: (story, one) => [`score ${taskOf(one.task)}`, count(one.targets.length, "text"), () => scores(one)],
  note: (story, one) => [one.name, brief(one.data), () => values(story, one.data)],
};

function call(story, one) {
  const moving = one.volatile ?? {};
  return [
    one.problem && el("p.problem", {}, one.problem),
    facts([
      ["task", one.task],
      ["model", one.model],
      ["tokens", `${one.estimated ? "about " : ""}${whole(one.prompt_tokens)} in, ${whole(one.completion_tokens)} out`],
      ["thoughts", one.reasoning_tokens ? `${whole(one.reasoning_tokens)} tokens of these` : null],
      ["time", seconds(moving.seconds)],
      ["ended by", one.finish_reason],
      ["attempt", one.attempt > 1 ? one.attempt : null],
      ["from the cache", moving.cached ? "yes" : null],
    ]),
    one.output && el("h5", {}, "Output"),
    one.output && values(story, one.output),
    one.reasoning && folded("Reasoning of the model", () => el("pre", {}, one.reasoning)),
    folded("Raw reply", () => el("pre", {}, one.text || "(nothing)")),
    folded("Input", () => values(story, one.fields)),
    story.permalink && folded("Prompt", () => prompt(story, one.id)),
  ];
}

/** The messages of a call, fetched when they are opened. */
function prompt(story, id) {
  const part = el("div.prompt", { "aria-busy": "true" }, el("p.dim", {}, "Fetching…"));
  story
    .promptOf(id)
    .then((messages) =>
      messages.map(({ role, content }) => [
        el("h5", {}, role),
        el("pre", {}, typeof content === "string" ? content : JSON.stringify(content, null, 1)),
      ]),
    )
    .catch((error) => [el("p.problem", {}, error.message)])
    .then((parts) => {
      part.replaceChildren(...parts.flat());
      part.removeAttribute("aria-busy");
    });
  return part;
}

function hits(story, one) {
  if (!one.passages.length) return [el("p.dim", {}, "Nothing was found.")];
  return [
    el("p.dim", {}, `Found ${one.passages.length} of at most ${one.k}:`),
    listed(one.passages, (id) => story.titleOf(id)),
  ];
}

function readings(story, one) {
  return one.spans.slice(0, MAX_ITEMS).map((span) => {
    const text = story.passages.get(span.passage_id)?.text;
    const around = text ? marked(text, [[span.start, span.end]]) : span.text;
    return el(
      "div.reading",
      {},
      el("p.dim", {}, `${story.titleOf(span.passage_id)} · confidence ${share(span.confidence)}`),
      el("p", {}, around),
    );
  });
}

const scores = (one) => [
  listed(
    one.targets.map((target, place) => `${share(one.logprobs[place])}  ${target}`),
    (text) => text,
  ),
];

/** Named values: passages by their titles, all else as words. */
export function values(story, mapping) {
  return facts(
    Object.entries(mapping ?? {}).map(([name, value]) => [name.replaceAll("_", " "), shown(story, name, value)]),
  );
}

function shown(story, name, value) {
  if (value === null || value === undefined || value === "") return null;
  if (Array.isArray(value)) return value.length ? listed(value, (each) => shown(story, name, each)) : "none";
  if (name === "passages" || name === "passage") return story.titleOf(value);
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : share(value);
  if (typeof value !== "object") return brief(value);
  if ("head" in value && "tail" in value) return brief(value);
  return values(story, value);
}

function listed(items, tell) {
  const row = (item) => el("li", {}, tell(item));
  const rest = items.slice(MAX_ITEMS);
  return [
    el("ol.list", {}, items.slice(0, MAX_ITEMS).map(row)),
    rest.length > 0 && folded(`${rest.length} more`, () => el("ol.list", { start: MAX_ITEMS + 1 }, rest.map(row))),
  ];
}
