// What an empty page offers: the corpus that is asked, what was left out of it or guessed, and questions to begin with.

import { el } from "../view/dom.js";
import { count } from "../view/words.js";
import { at, get } from "./api.js";
import { leftOut } from "./upload.js";

/** Tell in `part` what a corpus holds. `ask(question)` is called with the example that is clicked. `upload`, if it is
 * one: `drop()` deletes it, `notSent` is what the page left out of it. */
export async function welcome(part, corpus, ask, upload) {
  part.dataset.corpus = corpus;
  const facts = await get(`v1/corpora/${at(corpus)}`).catch(() => ({}));
  if (part.dataset.corpus !== corpus) return; // another was chosen meanwhile
  const { questions = [], titles = [], left_out = [], guesses = [] } = facts;
  part.replaceChildren(
    el("h2", {}, corpus, " ", el("span.dim", {}, sizeOf(facts))),
    ...[leftOut([...left_out, ...(upload?.notSent ?? [])]), guessed(guesses)].filter(Boolean),
    ...(questions.length ? examples(questions, ask) : titles.length ? content(titles) : []),
    ...(upload ? [el("button.plain", { type: "button", onclick: upload.drop }, "Delete these files")] : []),
  );
}

const sizeOf = ({ passages, files }) =>
  typeof passages === "number"
    ? `${count(passages, "passage")}${typeof files === "number" ? ` of ${count(files, "file")}` : ""}`
    : "";

const guessed = (items) =>
  items.length ? el("p.dim.guessed", {}, `Encoding guessed: ${items.join(", ")}.`) : null;

const examples = (questions, ask) => [
  el("p.dim", {}, "Questions to try:"),
  el(
    "ul.examples",
    {},
    questions.map((question) =>
      el("li", {}, el("button", { type: "button", onclick: () => ask(question) }, question)),
    ),
  ),
];

const content = (titles) => [
  el("p.dim", {}, "Among its titles:"),
  el(
    "ul.titles",
    {},
    titles.map((title) => el("li", {}, el("bdi", {}, title))),
  ),
];
