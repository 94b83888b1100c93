// One run: its figures, and its questions with filters.

import { outcome } from "../view/answer.js";
import { choice, el, facts, folded } from "../view/dom.js";
import { NO_ANSWER, brief, count, share, whole } from "../view/words.js";
import { at, get } from "./api.js";
import { metricName, percent } from "./runs.js";

const PAGE = 50;
const MANY = 30; // settings within a setting that are folded, such as the fingerprints of prompts
const kept = new Map(); // by run: its filters when the view was left

export async function runView(name) {
  const run = await get(`v1/runs/${at(name)}`);
  const state = kept.get(name) ?? { wrong: "", type: "", search: "" };
  kept.set(name, state);
  const body = el("tbody");
  const status = el("p.dim", { role: "status" });
  const more = el(
    "button.plain",
    { type: "button", hidden: true, onclick: () => load(body.childElementCount) },
    "Show more",
  );
  const type = el("div.slot");
  let latest = 0;
  let typed = null;

  async function load(offset) {
    const mine = ++latest;
    const query = new URLSearchParams({ offset, limit: PAGE });
    for (const [key, value] of Object.entries(state)) if (value) query.set(key, value);
    const found = await get(`v1/runs/${at(name)}/questions?${query}`).catch((error) => error);
    if (mine !== latest) return;
    if (found instanceof Error) {
      status.textContent = found.message;
      return;
    }
    if (!offset) body.replaceChildren();
    body.append(...found.questions.map((row) => line(name, row, found.errors)));
    status.textContent = `${whole(found.total)} of ${count(run.questions, "question")}`;
    more.hidden = body.childElementCount >= found.total;
    if (found.types.length > 1 && !type.hasChildNodes())
      type.append(
        choice("Type", "type", [["", "all"], ...found.types.map((each) => [each, each])], state.type, (event) =>
          change("type", event.target.value),
        ),
      );
  }

  function change(key, value) {
    state[key] = value;
    return load(0);
  }

  const filters = el(
    "form.filters",
    { onsubmit: (event) => event.preventDefault(), "aria-label": "Filters" },
    choice(
      "Answers",
      "wrong",
      [
        ["", "all"],
        ["true", "wrong"],
        ["false", "right"],
      ],
      state.wrong,
      (event) => change("wrong", event.target.value),
    ),
    type,
    el(
      "label.field",
      {},
      el("span", {}, "Search"),
      el("input", {
        type: "search",
        name: "search",
        value: state.search,
        oninput: (event) => {
          clearTimeout(typed);
          typed = setTimeout(() => change("search", event.target.value), 150);
        },
      }),
    ),
    status,
  );
  await load(0);
  const columns = ["Question", "Answer", "Gold", "Confidence", "Calls"];
  return {
    title: name,
    element: el(
      "section.run",
      {},
      el("p.back", {}, el("a", { href: "#/runs" }, "All runs")),
      el("h1", {}, name),
      figures(run),
      folded("Settings of the run", () => named(run.settings)),
      filters,
      el(
        "table.questions.stacked",
        {},
        el("caption.unseen", {}, "Questions of the run"),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            columns.map((each) =>
              el(each === "Calls" || each === "Confidence" ? "th.number" : "th", { scope: "col" }, each),
            ),
          ),
        ),
        body,
      ),
      more,
    ),
  };
}

/** Settings by their names, also those within others. */
function named(settings) {
  const shown = ([name, value]) => [name.replaceAll("_", " "), isMapping(value) ? inner(value) : brief(value)];
  return facts(Object.entries(settings).map(shown));
}

function inner(settings) {
  if (!brief(settings)) return null;
  const size = Object.keys(settings).length;
  return size > MANY ? folded(count(size, "value"), () => named(settings)) : named(settings);
}

const isMapping = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function figures(run) {
  const shown = Object.entries(run.metrics).filter(([name]) => /^(em|f1|cover_em|accuracy|recall_mean@5)$/.test(name));
  const rest = Object.entries(run.metrics).filter(([name]) => !shown.some(([each]) => each === name));
  const tell = ([name, mean]) => [metricName(name), percent(mean)];
  return [
    el(
      "div.figures",
      {},
      facts([
        ["Method", run.method],
        ["Model", run.lm],
        ["Questions", whole(run.questions)],
        ...shown.map(tell),
        ["Under way", run.finished === false ? "yes" : null],
      ]),
    ),
    rest.length > 0 && folded("All metrics", () => facts(rest.map(tell))),
  ];
}

function line(run, row, errors = {}) {
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row" },
      el("a", { href: `#/runs/${at(run, row.id)}` }, row.question),
      row.type && el("span.dim", {}, ` ${row.type}`),
    ),
    el(
      "td",
      { "data-name": "Answer" },
      row.answer || el("span.dim", {}, NO_ANSWER),
      " ",
      el("br"),
      outcome(row.right, row.error, errors[row.error]),
    ),
    el("td", { "data-name": "Gold" }, row.answers.slice(0, 2).join(" · ")),
    el("td.number", { "data-name": "Confidence" }, typeof row.confidence === "number" ? share(row.confidence) : "–"),
    el("td.number", { "data-name": "Calls" }, row.calls),
  );
}
