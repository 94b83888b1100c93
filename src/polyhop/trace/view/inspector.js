// The details of one node: its passages with the used spans marked, its calls, tokens and time.

import { el, facts, focus } from "./dom.js";
import { passage } from "./passages.js";
import { step } from "./steps.js";
import { count, seconds, whole } from "./words.js";

const SHOWN = 5;

export class Inspector {
  constructor() {
    this.element = el("aside.inspector", {
      "aria-label": "The chosen step",
      hidden: true,
      onkeydown: (event) => event.key === "Escape" && this.close(),
    });
    this.onclose = () => {};
  }

  /** Show a node of a story. `button`: what was pressed, which gets the focus back. */
  show(story, node, button) {
    if (this.button !== button) this.onclose();
    this.button = button;
    const head = el("h3", {}, node.heading ?? node.title);
    const close = el(
      "button.close",
      { type: "button", "aria-label": "Close the step", onclick: () => this.close() },
      "Close",
    );
    this.element.replaceChildren(
      el(
        "div.inspected",
        { "data-tone": node.tone },
        el("div.top", {}, el("span.label", {}, node.label || node.kind), close),
        head,
        sums(node),
      ),
      ...around(story, node),
    );
    this.element.hidden = false;
    this.element.scrollTop = 0;
    button.scrollIntoView({ block: "nearest" }); // it may cover what was pressed
    focus(head);
  }

  close() {
    this.element.hidden = true;
    this.onclose();
    this.button?.focus();
  }
}

function sums(node) {
  const calls = node.steps.filter((one) => one.kind === "ask" || one.kind === "score");
  const add = (of) => node.steps.reduce((sum, one) => sum + (of(one) ?? 0), 0);
  const about = calls.some((one) => one.estimated || one.kind === "score") ? "about " : "";
  const searches = node.steps.filter((one) => one.kind === "search").length;
  return facts([
    ["calls", calls.length ? count(calls.length, "model call") : null],
    ["searches", searches ? count(searches, "search") : null],
    [
      "tokens",
      calls.length
        ? `${about}${whole(add((one) => one.prompt_tokens))} in, ${whole(add((one) => one.completion_tokens))} out`
        : null,
    ],
    ["time", node.steps.length ? seconds(add((one) => one.volatile?.seconds)) : null],
  ]);
}

function around(story, node) {
  const words =
    node.said?.noun === "answer" || node.said?.noun === "read"
      ? node.said.text
      : node.kind === "end"
        ? node.title
        : null;
  const ids = node.passages ?? [];
  const article = (id) => passage(story, id, { words, level: "h5", markers: story.markers(id) });
  return [
    ids.length > 0 &&
      el(
        "section",
        {},
        el("h4", {}, ids.length > 1 ? "Passages" : "Passage"),
        ids.slice(0, SHOWN).map(article),
        rest(ids.slice(SHOWN), article),
      ),
    node.steps.length > 0 &&
      el(
        "section",
        {},
        el("h4", {}, "Steps"),
        node.steps.map((one) => step(story, one)),
      ),
    !ids.length && !node.steps.length && el("p.dim", {}, "Nothing was done here."),
  ].filter(Boolean);
}

function rest(ids, article) {
  if (!ids.length) return null;
  const button = el(
    "button.plain",
    { type: "button", onclick: () => button.replaceWith(...ids.map(article)) },
    `Show ${count(ids.length, "more passage")}`,
  );
  return button;
}
