// Passages, with the used spans marked.

import { el } from "./dom.js";

/** A passage's text, the `spans` marked. They count characters as Python does: code points, not UTF-16 units. */
export function marked(text, spans) {
  const letters = Array.from(text);
  const parts = [];
  let done = 0;
  for (const [start, end] of merged(spans, letters.length)) {
    parts.push(letters.slice(done, start).join(""), el("mark", {}, letters.slice(start, end).join("")));
    done = end;
  }
  return [...parts, letters.slice(done).join("")];
}

/** Spans in order, without overlap, within a text of `length` characters. */
function merged(spans, length) {
  const whole = [];
  const right = spans.filter(([start, end]) => start >= 0 && start < end && end <= length);
  for (const [start, end] of right.sort((one, other) => one[0] - other[0])) {
    const last = whole.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else whole.push([start, end]);
  }
  return whole;
}

/** The first occurrence of words in a text, in any case, as a list of spans. */
export function found(words, text) {
  const [letters, wanted] = [text, words ?? ""].map((each) => Array.from(each, (letter) => letter.toLowerCase()));
  if (!wanted.length) return [];
  const start = letters.findIndex((_, place) => wanted.every((letter, far) => letters[place + far] === letter));
  return start < 0 ? [] : [[start, start + wanted.length]];
}

/** The location of a passage in a document: its file, page and heading, unless its title names this. */
export function locationOf({ title = "", metadata = {} }) {
  const { source, page, last_page: last, heading } = metadata;
  if (typeof source !== "string") return "";
  return [source, last ? `pp. ${page}–${last}` : page ? `p. ${page}` : "", ` › ${title}`.endsWith(` › ${heading}`) ? "" : heading].filter(Boolean).join(", ");
}

/** A passage as an article; `words`, such as a node's answer, are marked besides the spans that the story used. */
export function passage(story, id, { words = null, markers = [], level = "h4" } = {}) {
  const known = story.passages.get(id);
  const title = el(
    level,
    {},
    markers.map((marker) => [el("span.marker", {}, `[${marker}]`), " "]),
    known?.title || id,
    story.isGold(id) && [" ", el("span.gold", {}, "gold")],
  );
  if (!known) return el("article.passage", {}, title, el("p.dim", {}, "Its text is not known here."));
  const spans = [...story.spans(id), ...found(words, known.text)];
  const where = [locationOf(known), id].filter(Boolean).join(" · ");
  return el(
    "article.passage",
    { "data-passage": id },
    title,
    el("p", {}, marked(known.text, spans)),
    el("p.where", {}, where),
  );
}
