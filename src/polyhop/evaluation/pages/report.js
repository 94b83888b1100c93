// The questions of a report: a list with filters, and a view of each question with its traces.

import { outcome } from "./answer.js";
import { choice, el, facts, folded } from "./dom.js";
import { Inspector } from "./inspector.js";
import { Panel } from "./panel.js";
import { passage } from "./passages.js";
import { Story } from "./story.js";
import { NO_ANSWER, count, share, whole } from "./words.js";

const byId = (id) => document.getElementById(id);
const { runs, errors, questions } = JSON.parse(byId("data").textContent);
const PAGE = 100;
const ALL = "";
const state = { text: "", result: ALL, error: ALL, type: ALL, hops: ALL, run: ALL, shown: PAGE };
const dim = (text) => el("span.dim", {}, text);
const judged = (result) => outcome(result.right, result.error, errors[result.error]);

// --- the list

const chosenRuns = () => [...runs.keys()].filter((run) => state.run === ALL || runs[run] === state.run);

/** The questions that pass the filters, as `[question, index]`. */
function matching() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  return questions
    .map((question, index) => [question, index])
    .filter(([question]) => {
      if (state.type !== ALL && question.type !== state.type) return false;
      if (state.hops !== ALL && String(question.hops) !== state.hops) return false;
      const results = chosenRuns().flatMap((run) => question.runs[run] ?? []);
      if (!results.length) return false;
      if (state.result === "wrong" && !results.some(({ right }) => right === false)) return false;
      if (state.result === "right" && !results.every(({ right }) => right === true)) return false;
      if (state.result === "differ" && new Set(results.map(({ right }) => right)).size < 2) return false;
      if (state.error !== ALL && !results.some(({ error }) => error === state.error)) return false;
      const answers = results.map(({ answer }) => answer);
      const text = [question.id, question.text, ...question.answers, ...answers].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
}

function row([question, index]) {
  const cell = (run) => {
    const result = question.runs[run];
    const shown = result ? [result.answer || dim(NO_ANSWER), el("br"), judged(result)] : dim("not answered");
    return el("td", { "data-name": runs[run] }, shown);
  };
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("a", { href: `#q${index}` }, question.text), " ", question.type && dim(question.type)),
    el("td", { "data-name": "Gold" }, question.answers.slice(0, 3).join(" · ")),
    chosenRuns().map(cell),
  );
}

function list() {
  const found = matching();
  const names = ["Question", "Gold", ...chosenRuns().map((run) => runs[run])];
  const head = el("tr", {}, names.map((name) => el("th", { scope: "col" }, name))); // prettier-ignore
  const body = el("tbody", {}, found.slice(0, state.shown).map(row));
  byId("list").replaceChildren(el("table.stacked", {}, el("thead", {}, head), body));
  byId("count").textContent = `${whole(found.length)} of ${count(questions.length, "question")}`;
  const left = found.length - state.shown;
  byId("more").hidden = left <= 0;
  byId("more").textContent = `Show ${Math.min(PAGE, left)} more`;
}

function change(name, value) {
  Object.assign(state, { [name]: value, shown: PAGE });
  list();
}

function filters() {
  const values = (of) => {
    const found = questions.flatMap(of).filter((value) => value !== null && value !== undefined);
    return [...new Set(found)].map(String).sort();
  };
  const select = (title, name, options) =>
    choice(title, name, [[ALL, "all"], ...options], ALL, (event) => change(name, event.target.value));
  const plain = (names) => names.map((name) => [name, name]);
  const several = runs.length > 1;
  const found = values((question) => question.runs.map((result) => result?.error));
  const classes = Object.keys(errors).filter((name) => found.includes(name));
  const [types, hops] = [values(({ type }) => type), values((question) => question.hops)];
  const results = [["wrong", "a wrong answer"], ["right", "right"]]; // prettier-ignore
  const form = byId("filters");
  form.append(
    ...[
      select("Answers", "result", several ? [...results, ["differ", "right in some runs only"]] : results),
      several && select("Run", "run", plain(runs)),
      classes.length && select("Error", "error", classes.map((name) => [name, `${name}: ${errors[name]}`])),
      types.length > 1 && select("Type", "type", plain(types)),
      hops.length > 1 && select("Hops", "hops", plain(hops)),
      el(
        "label.field",
        {},
        el("span", {}, "Search"),
        el("input", { type: "search", oninput: (event) => change("text", event.target.value) }),
      ),
    ].filter(Boolean),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  byId("more").addEventListener("click", () => {
    state.shown += PAGE;
    list();
  });
}

// --- one question

function view(index) {
  const question = questions[index];
  const order = matching().map(([, each]) => each);
  const position = order.indexOf(index);
  const link = (to, text) => to !== undefined && el("a", { href: to }, text);
  const neighbour = (step, text) => position >= 0 && order[position + step] !== undefined && link(`#q${order[position + step]}`, text);
  const inspector = new Inspector();
  const results = question.runs.map((result, run) => result && answered(question, index, result, run, inspector));
  return [
    el(
      "nav.beside",
      { "aria-label": "Questions" },
      link("#questions", "All questions"),
      neighbour(-1, "← previous"),
      neighbour(1, "next →"),
    ),
    el("h2", {}, question.text),
    facts([
      ["Id", question.id],
      ["Gold answer", question.answers.join(" · ") || "(none)"],
      ["Gold passages", (question.gold.titles ?? question.gold.ids ?? []).join(" · ")],
      ["Type", question.type],
      ["Hops", question.hops],
    ]),
    el("div.stage", {}, el("div.results", {}, results), inspector.element),
  ];
}

/** The result of one run on a question: its scores, and its trace if the page holds it. */
function answered(question, index, result, run, inspector) {
  const scores = Object.entries(result.metrics).map(([name, value]) => `${name} ${Math.round(1000 * value) / 10}`);
  const saved = byId(`t-${index}-${run}`);
  const known = [["Error", errors[result.error]], ["Scores", scores.join(" · ")]]; // prettier-ignore
  const head = el("h3", {}, `${runs[run]} `, judged(result));
  if (!saved)
    return el(
      "section.run",
      {},
      head,
      facts([
        ["Answer", result.answer || NO_ANSWER],
        ...known,
        ["Confidence", typeof result.confidence === "number" ? share(result.confidence) : null],
        ["Supported by evidence", result.supported ? "yes" : "no"],
        ["Limit reached", result.budget],
        ["Cost", `${count(result.calls, "model call")}, ${count(result.searches, "search")}, ${count(result.tokens, "token")}`],
      ]),
      el("p.dim", {}, `The trace is not in this page; in the run's folder it is ${result.trace}.`),
    );
  const { answer, ranked, trace } = JSON.parse(saved.textContent);
  const story = Story.of({ question: question.text, answer, trace, gold: question.gold });
  const panel = new Panel(inspector);
  requestAnimationFrame(() => panel.open(story));
  return el("section.run", {}, head, facts(known), panel.element, evidence(story), ranking(question, story, ranked));
}

function evidence(story) {
  const pieces = story.answer.evidence.filter(({ answer }) => answer);
  const line = ({ passages, answer }) => el("li", {}, dim(`${passages.map((id) => story.titleOf(id)).join(" → ")}: `), answer);
  return pieces.length > 0 && folded(count(pieces.length, "evidence path"), () => el("ul", {}, pieces.map(line)));
}

function ranking(question, story, ranked) {
  const wanted = (question.gold.ids ?? question.gold.titles ?? []).length;
  const found = ranked.filter((id) => story.isGold(id)).length;
  const title = `${count(ranked.length, "ranked passage")}${wanted ? ` (${found} of ${wanted} gold)` : ""}`;
  return ranked.length > 0 && folded(title, () => el("ol.list", {}, ranked.map((id) => el("li", {}, passage(story, id)))));
}

// --- the list or a question

function show() {
  const index = /^#q(\d+)$/.exec(location.hash)?.[1];
  const [summary, part] = [byId("summary"), byId("question")];
  const one = questions[index] !== undefined;
  const was = !part.hidden;
  summary.hidden = one;
  part.hidden = !one;
  part.replaceChildren(...(one ? view(Number(index)) : []));
  if (one) {
    part.focus({ preventScroll: true });
    scrollTo(0, 0);
  } else if (was) {
    byId("questions").scrollIntoView();
    byId("questions-head").focus({ preventScroll: true });
  }
}

filters();
list();
addEventListener("hashchange", show);
show();
