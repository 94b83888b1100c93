// An answer: its words with numbered citations, its confidence, its support by evidence, and its cost.

import { el, facts } from "./dom.js";
import { locationOf, passage } from "./passages.js";
import { NO_ANSWER, cut, seconds, share, whole } from "./words.js";

const AROUND = 60; // characters of an excerpt before what it shows
const READER = /(?=\bAnswered by )/; // begins the part of a notice that is the same for every answer of a model

/** The answer's words, confidence and support; a citation jumps to its passage among the sources of `panel`. */
export function reply(story, panel) {
  const { answer } = story;
  const { answer: words, content = "", citations = [] } = answer;
  const known = new Set(citations.map((each) => each.marker));
  const jump = (marker) =>
    el(
      "a.cite",
      { href: "#", "aria-label": `Source ${marker}`, onclick: (event) => jumped(event, panel, marker) },
      `[${marker}]`,
    );
  const carrying = citations
    .filter((each) => !content && Number.isInteger(each.start))
    .map(({ marker }) => [" ", jump(marker)]);
  const long = content && plain(content) === plain(words); // an answer that is its own content, written with its marks
  const missing = answer.abstained ? "The documents do not say." : words ? null : NO_ANSWER;
  const notice = answer.abstained ? answer.notice?.replace(missing, "").trim() : answer.notice;
  return [
    missing && el("p.reply.none", {}, missing),
    !missing && !long && el("p.reply", {}, words, carrying),
    !answer.abstained && content && el("p.content", {}, cited(content, known, jump)),
    sure(answer),
    quoted(answer, jump),
    noticed(notice ?? ""),
    story.budget && el("p.notice", {}, `A limit was reached: ${story.budget}.`),
  ]
    .flat()
    .filter(Boolean);
}

/** A notice: what it says of the answer, then what it says of the model. */
const noticed = (notice) =>
  notice
    .split(READER)
    .map((part) => part.trim() && el(READER.test(part) ? "p.notice.reader" : "p.notice", {}, optionsWhole(part)));

/** A text in whose options (`--lm openai:MODEL`) no line breaks. */
const optionsWhole = (text) =>
  text.split(/(--[a-z-]+(?: \w+:\w+)?)/).map((part, place) => (place % 2 ? el("code", {}, part) : part));

const plain = (text) =>
  text
    .replace(/\[\d+\]/g, "")
    .replace(/\s+/g, " ")
    .replace(/ ([.,;:!?])/g, "$1")
    .trim();

function cited(text, markers, jump) {
  return text.split(/(\[\d+\])/).map((part) => {
    const marker = /^\[(\d+)\]$/.exec(part);
    return marker && markers.has(Number(marker[1])) ? jump(Number(marker[1])) : part;
  });
}

function jumped(event, panel, marker) {
  event.preventDefault();
  const source = panel.querySelector(`.sources [data-marker="${CSS.escape(marker)}"]`)?.closest("details");
  if (!source) return;
  source.open = true;
  source.scrollIntoView({
    block: "center",
    behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
  });
  source.querySelector("summary").focus({ preventScroll: true });
}

const SUPPORT = {
  supported: ["backed", "Supported"],
  "not verified": ["unverified", "Not verified"],
  contradicted: ["unbacked", "Contradicted"],
};

/** Confidence and support; older runs only say whether the answer was supported. */
function sure({ confidence, abstained, supported, support = supported ? "supported" : "not verified" }) {
  const known = typeof confidence === "number";
  const bar = known && gauge(confidence);
  const [style, label] = SUPPORT[support];
  return el(
    "p.sure",
    {},
    !abstained && el(`span.${style}`, {}, label),
    el("span.confidence", {}, bar, ` confidence ${share(confidence)}`),
  );
}

/** The sentence from which the support of the answer was judged; for a contradiction, what it says instead. */
function quoted({ quotation, support, citations = [] }, jump) {
  if (!quotation) return null;
  const cited = citations.find((each) => each.passage_id === quotation.passage_id);
  const says = support === "contradicted" ? `The passages say ${quotation.answer}: ` : "";
  return el("p.quotation", {}, `${says}“${quotation.text}” `, cited && jump(cited.marker));
}

function gauge(value) {
  const level = el("span");
  level.style.width = `${100 * value}%`;
  return el(
    "span.gauge",
    { role: "meter", "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": value, "aria-label": "Confidence" },
    level,
  );
}

/** The passages that the answer cites, each folded under its numbers; then those that were read, and those that were only
 * found. */
export function sources(story) {
  const { citations = [], passages = [] } = story.answer;
  const cited = Map.groupBy(citations, (each) => each.passage_id);
  const others = passages.filter(({ id }) => id && !cited.has(id) && story.passages.has(id));
  const [read, found] = [others.filter((each) => each.read !== false), others.filter((each) => each.read === false)];
  const list = (title, entries) => entries.length > 0 && [el("h3", {}, title), entries];
  const folded = (each) => each.map(({ id }) => source(story, id, []));
  if (!cited.size && !others.length) return null;
  return el(
    "section.sources",
    {},
    list("Sources", [...cited].map(([id, all]) => source(story, id, all))),
    cited.size
      ? [list("Read, not cited", folded(read)), list("Found, not read", folded(found))]
      : list("Nearest passages", folded(others)),
  );
}

function source(story, id, citations) {
  const marks = citations.map(({ marker }) => el("span.marker", { "data-marker": marker }, `[${marker}]`));
  const { start, end } = citations.find((each) => Number.isInteger(each.start)) ?? {};
  const head = [
    marks,
    " ",
    el("span.name", {}, story.titleOf(id)),
    " ",
    el("span.location", {}, locationOf(story.passages.get(id) ?? {})),
    " ",
    story.isGold(id) && [el("span.gold", {}, "gold"), " "],
    el("span.excerpt", {}, excerpt(story.passages.get(id)?.text ?? "", start, end)),
  ];
  return el("details.source", {}, el("summary", {}, head), passage(story, id));
}

/** The words around what carries the answer, it marked; else the beginning. */
function excerpt(text, start, end) {
  const letters = Array.from(text);
  if (!Number.isInteger(start)) return cut(text, AROUND * 3);
  const part = (from, to) => letters.slice(Math.max(0, from), to).join("");
  const before = start > AROUND ? ["…", part(start - AROUND, start).replace(/^\S*\s/, "")] : [part(0, start)];
  return [before, el("mark", {}, part(start, end)), cut(part(end, letters.length), AROUND * 2)];
}

/** The cost of the question, as terms and numbers. */
export function cost(story) {
  const { usage } = story.answer;
  if (!usage) return null;
  const { layers, seconds: own, elapsed: took = own } = usage.volatile ?? {};
  const tokens = usage.prompt_tokens + usage.completion_tokens;
  return facts([
    [
      "Model calls",
      `${whole(usage.calls)}${layers > 1 ? `, ${layers === usage.calls ? "all" : whole(layers)} in a row` : ""}`,
    ],
    ["Searches", whole(usage.searches)],
    ["Tokens", `${usage.tokens_estimated ? "about " : ""}${whole(tokens)}`],
    ["Time", seconds(took)],
    ["Link", story.permalink && links(story)],
  ]);
}

const links = (story) => [
  el("a", { href: story.permalink }, "answer"),
  " · ",
  el("a", { href: story.questionLink }, "question"),
];

/** Right or wrong, in words that need no colour; for a wrong answer, the class of its error. */
export function outcome(right, error = null, meaning = null) {
  if (right === null || right === undefined) return el("span.dim", {}, "not judged");
  return right
    ? el("span.right", {}, "right")
    : [el("span.wrong", {}, "wrong"), error && el("span.error", { title: meaning }, ` ${error}`)];
}
