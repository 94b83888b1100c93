// A question of a run: the gold answer, and how the run came to its own.

import { outcome } from "../view/answer.js";
import { el, facts } from "../view/dom.js";
import { Inspector } from "../view/inspector.js";
import { Panel } from "../view/panel.js";
import { Story } from "../view/story.js";
import { NO_ANSWER, cut } from "../view/words.js";
import { at, get } from "./api.js";

export async function runQuestionView(run, id) {
  const { method, row, answer, trace } = await get(`v1/runs/${at(run)}/questions/${at(id)}`);
  const inspector = new Inspector();
  const panel = new Panel(inspector);
  const story = trace && Story.of({ question: row.question, method, answer, trace, gold: row.gold });
  if (story) requestAnimationFrame(() => panel.open(story));
  return {
    title: cut(row.question, 60),
    element: el(
      "section.question-of-run",
      {},
      el("p.back", {}, el("a", { href: `#/runs/${at(run)}` }, `All questions of ${run}`)),
      el("h1.asked", {}, row.question),
      facts([
        ["Gold answer", row.answers.join(" · ")],
        ["Answer", [row.answer || NO_ANSWER, " ", outcome(row.right, row.error)]],
        ["Type", row.type],
        ["Gold passages", (row.gold?.titles ?? row.gold?.ids ?? []).join(" · ")],
      ]),
      story
        ? el("div.stage", {}, el("div.results", {}, panel.element), inspector.element)
        : el("p.dim", {}, "The trace of this question is not there any more."),
    ),
  };
}
