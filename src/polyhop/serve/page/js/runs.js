// The list of runs, with what each question cost and scored, and the choice of two to compare.

import { choice, el } from "../view/dom.js";
import { count, whole } from "../view/words.js";
import { at, get, picture } from "./api.js";

const COSTS = [
  ["calls", "model calls"],
  ["tokens", "tokens"],
  ["seconds", "seconds"],
];

export async function runsView() {
  const { runs } = await get("v1/runs");
  if (!runs.length)
    return {
      title: "Runs",
      element: el(
        "section",
        {},
        el("h1", {}, "Runs"),
        el(
          "p.dim",
          {},
          "There are no runs in the folder of this server. ",
          el("code", {}, "polyhop run"),
          " makes one.",
        ),
      ),
    };
  const chosen = new Set();
  const button = el(
    "button.go",
    {
      type: "button",
      disabled: true,
      onclick: () => {
        location.hash = `#/compare/${[...chosen].map((name) => at(name)).join("/")}`;
      },
    },
    "Compare two",
  );
  const pick = (event) => {
    if (event.target.checked) chosen.add(event.target.value);
    else chosen.delete(event.target.value);
    button.disabled = chosen.size !== 2;
    button.textContent = chosen.size === 2 ? "Compare these" : "Compare two";
  };
  const metrics = headline(runs);
  const body = el("tbody");
  const status = el("p.dim", { role: "status" });
  const shown = { method: "", search: "" };
  const list = () => {
    const words = shown.search.toLowerCase();
    const found = runs.filter(
      (run) =>
        (!shown.method || run.method === shown.method) &&
        [run.run, run.method, run.lm, run.dataset].join(" ").toLowerCase().includes(words),
    );
    body.replaceChildren(...found.map((run) => line(run, metrics, chosen, pick)));
    status.textContent =
      found.length === runs.length ? count(runs.length, "run") : `${found.length} of ${count(runs.length, "run")}`;
  };
  const filter = (event) => {
    shown[event.target.name] = event.target.value;
    list();
  };
  const methods = [...new Set(runs.map((run) => run.method).filter(Boolean))].sort();
  list();
  return {
    title: "Runs",
    element: el(
      "section.runs",
      {},
      el("h1", {}, "Runs"),
      el(
        "form.filters",
        { onsubmit: (event) => event.preventDefault(), "aria-label": "Filters" },
        methods.length > 1 &&
          choice("Method", "method", [["", "all"], ...methods.map((each) => [each, each])], "", filter),
        el(
          "label.field",
          {},
          el("span", {}, "Search"),
          el("input", { type: "search", name: "search", oninput: filter }),
        ),
        status,
        button,
      ),
      el("div.scroll", { tabindex: 0, role: "region", "aria-label": "Runs" }, table(metrics, body)),
      frontier(runs),
    ),
  };
}

/** The metrics that runs have, the usual ones first, at max `max`. */
function headline(runs, max = 5) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.metrics ?? {})))];
  const usual = ["em", "f1", "cover_em", "recall_mean@5", "recall_all@5"].filter((name) => names.includes(name));
  return [...usual, ...names.filter((name) => !usual.includes(name))].slice(0, max);
}

const COLUMNS = ["Run", "Method", "Model", "Questions"];

function table(metrics, body) {
  const heads = [...COLUMNS, ...metrics.map(metricName), "Calls", "Tokens"];
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, el("span.unseen", {}, "Compare")),
    heads.map((name, place) => el(place > 2 ? "th.number" : "th", { scope: "col" }, name)),
  );
  return el(
    "table.stacked",
    {},
    el("caption.unseen", {}, "Runs, the newest first; calls and tokens are those of a question"),
    el("thead", {}, head),
    body,
  );
}

function line(run, metrics, chosen, pick) {
  if (run.error)
    return el(
      "tr",
      {},
      el("td"),
      el("th", { scope: "row" }, run.run),
      el("td.problem", { colspan: COLUMNS.length + metrics.length + 1 }, run.error),
    );
  const box = el("input", {
    type: "checkbox",
    value: run.run,
    checked: chosen.has(run.run),
    "aria-label": `Compare ${run.run}`,
    onchange: pick,
  });
  const name = el(
    "th",
    { scope: "row" },
    el("a", { href: `#/runs/${at(run.run)}` }, run.run),
    run.finished === false && el("span.dim", {}, " under way"),
  );
  const per = (value) => (typeof value === "number" && run.questions ? whole(value / run.questions) : "");
  const { calls, prompt_tokens: asked = 0, completion_tokens: written = 0 } = run.usage ?? {};
  return el(
    "tr",
    {},
    el("td", {}, box),
    name,
    el("td", { "data-name": "Method" }, run.method ?? ""),
    el("td", { "data-name": "Model" }, run.lm ?? ""),
    number("Questions", whole(run.questions)),
    metrics.map((metric) => score(metricName(metric), percent(run.metrics[metric]), interval(run.metrics[metric]))),
    number("Calls", per(calls)),
    number("Tokens", per(asked + written)),
  );
}

const number = (name, text) => el("td.number", { "data-name": name }, text);
const score = (name, text, title) => el("td.number.score", { "data-name": name, title }, text);

/** `cover_em` as cover EM, `recall_mean@5` as recall mean@5. */
export const metricName = (name) =>
  name.replaceAll("_", " ").replace(/\b(em|f1|ar)\b/, (short) => short.toUpperCase());
export const percent = (mean) => (typeof mean?.value === "number" ? (100 * mean.value).toFixed(1) : "");
const interval = (mean) =>
  typeof mean?.low === "number"
    ? `${(100 * mean.low).toFixed(1)} to ${(100 * mean.high).toFixed(1)}, ${count(mean.n, "question")}`
    : null;

/** What a question costs against what is scored, drawn by the server for the runs of one dataset. */
function frontier(runs) {
  const whole = runs.filter((run) => !run.error);
  const sets = [...Map.groupBy(whole, (run) => run.dataset)]
    .map(([name, each]) => ({ name, runs: each, metrics: shared(each) }))
    .filter((set) => set.metrics.length);
  if (!sets.length) return null;
  const figure = el("div.plot");
  let latest = 0;
  const draw = async () => {
    const mine = ++latest;
    const query = new URLSearchParams([
      ["cost", cost.value],
      ["metric", metric.value],
      ...chosen().runs.map((run) => ["run", run.run]),
    ]);
    const without = chosen().runs.filter((run) => !(metric.value in run.metrics));
    const left = without.length ? `; left out, without it: ${without.map((run) => run.run).join(", ")}` : "";
    const alt = `Runs by ${cost.value} per question and ${metricName(metric.value)}; the table above has the figures${left}`;
    const shown = await picture(`v1/runs/frontier.svg?${query}`).then(
      (src) => el("img", { src, alt }),
      (error) => el("p.dim", {}, error.message),
    );
    if (mine === latest) figure.replaceChildren(shown); // else another choice was made meanwhile
  };
  const option = ([value, text]) => el("option", { value }, text);
  const offer = () => metric.replaceChildren(...chosen().metrics.map((name) => option([name, metricName(name)])));
  const cost = el("select", { "aria-label": "Cost", onchange: draw }, COSTS.map(option));
  const metric = el("select", { "aria-label": "Metric", onchange: draw });
  const dataset = el(
    "select",
    { "aria-label": "Dataset", onchange: () => (offer(), draw()) },
    sets.map(({ name }, place) => option([place, name])),
  );
  const chosen = () => sets[dataset.value];
  offer();
  draw();
  return el(
    "section.frontier",
    {},
    el(
      "div.bar",
      {},
      el("h2", {}, "What it costs"),
      metric,
      el("span.dim", {}, "against"),
      cost,
      el("span.dim", {}, "per question"),
      sets.length > 1 && [el("span.dim", {}, "of"), dataset],
    ),
    figure,
  );
}

/** The metrics that at least two of these runs have, the usual ones first: F1 before all. */
const shared = (runs) =>
  headline(runs, Infinity)
    .filter((name) => runs.filter((run) => name in run.metrics).length > 1)
    .sort((one, other) => (other === "f1") - (one === "f1"));
