// The questions of a report: a list with filters, and a view of each with its traces. Text is only ever written as text.
"use strict";

const { runs, errors, questions } = JSON.parse(document.getElementById("data").textContent);
const PAGE = 100;
const ALL = "";
const state = { text: "", result: ALL, error: ALL, type: ALL, hops: ALL, run: ALL, shown: PAGE };

// --- elements

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function folded(title, fill, options = {}) {
  const inside = element("div", { class: "inside" });
  const made = element("details", { class: options.class, open: options.open }, element("summary", {}, title), inside);
  const once = () => made.open && !inside.hasChildNodes() && inside.append(...[fill()].flat());
  made.addEventListener("toggle", once);
  if (options.open) once();
  return made;
}

const chip = (text, style) => element("span", { class: `chip ${style || ""}`, title: errors[text] }, text);
const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const dim = (text) => element("span", { class: "dim" }, text);
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));

// --- the list

function matching() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  return questions.map((question, place) => [question, place]).filter(([question]) => {
    if (state.type !== ALL && question.type !== state.type) return false;
    if (state.hops !== ALL && String(question.hops) !== state.hops) return false;
    const cells = seen(question);
    if (!cells.length) return false;
    if (state.result === "wrong" && !cells.some((cell) => cell.right === false)) return false;
    if (state.result === "right" && !cells.every((cell) => cell.right === true)) return false;
    if (state.result === "differ" && new Set(cells.map((cell) => cell.right)).size < 2) return false;
    if (state.error !== ALL && !cells.some((cell) => cell.error === state.error)) return false;
    const text = [question.id, question.text, ...question.answers, ...cells.map((cell) => cell.answer)].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

const chosen = () => runs.map((name, number) => number).filter((number) => state.run === ALL || runs[number] === state.run);
const seen = (question) => chosen().map((number) => question.runs[number]).filter(Boolean);

function outcome(cell) {
  if (cell.right === true) return element("span", { class: "right" }, "✓ right");
  if (cell.right === false) return element("span", { class: "wrong" }, "✗ ", chip(cell.error));
  return dim("not scored by EM");
}

function row([question, place]) {
  const link = element("a", { href: `#q${place}` }, question.text);
  const cells = chosen().map((number) => {
    const cell = question.runs[number];
    const told = cell ? [cell.answer || dim("(none)"), " ", outcome(cell)] : [dim("not answered")];
    return element("td", { class: "answer", "data-name": runs[number] }, told);
  });
  return element("tr", {},
    element("td", {}, link, question.type ? [" ", dim(question.type)] : ""),
    element("td", { "data-name": "gold" }, question.answers.slice(0, 3).join(" · ")),
    cells);
}

function list() {
  const found = matching();
  const names = ["question", "gold", ...chosen().map((number) => runs[number])];
  const head = element("thead", {}, element("tr", {}, names.map((name) => element("th", { scope: "col" }, name))));
  const body = element("tbody", {}, found.slice(0, state.shown).map(row));
  document.getElementById("list").replaceChildren(element("table", {}, head, body));
  document.getElementById("count").textContent = `${found.length} of ${count(questions.length, "question")}`;
  const left = found.length - state.shown;
  const more = document.getElementById("more");
  more.hidden = left <= 0;
  more.textContent = `Show ${Math.min(PAGE, left)} more`;
}

function choice(name, title, options) {
  const pick = (event) => change(name, event.target.value);
  const made = options.map(([value, text]) => element("option", { value }, text));
  return element("label", {}, title, element("select", { name, onchange: pick }, made));
}

function change(name, value) {
  state[name] = value;
  state.shown = PAGE;
  list();
}

function filters() {
  const values = (of) => [...new Set(questions.map(of).flat().filter((value) => value !== null && value !== undefined))].map(String).sort();
  const found = new Set(values((question) => question.runs.map((cell) => cell && cell.error)));
  const classes = Object.keys(errors).filter((name) => found.has(name));
  const types = values((question) => question.type);
  const hops = values((question) => question.hops);
  const results = [[ALL, "all"], ["wrong", "a wrong answer"], ["right", "right"]];
  if (runs.length > 1) results.push(["differ", "right in some runs only"]);
  const plain = (names) => [[ALL, "all"], ...names.map((name) => [name, name])];
  const text = element("input", { type: "search", oninput: (event) => change("text", event.target.value) });
  const form = document.getElementById("filters");
  form.append(element("label", {}, "words", text), choice("result", "answers", results));
  if (runs.length > 1) form.append(choice("run", "method", plain(runs)));
  if (classes.length) form.append(choice("error", "error", [[ALL, "all"], ...classes.map((name) => [name, `${name}: ${errors[name]}`])]));
  if (types.length > 1) form.append(choice("type", "type", plain(types)));
  if (hops.length > 1) form.append(choice("hops", "hops", plain(hops)));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  document.getElementById("more").addEventListener("click", () => { state.shown += PAGE; list(); });
}

// --- one question

function view(place) {
  const question = questions[place];
  const order = matching().map(([, number]) => number);
  const at = order.indexOf(place);
  const beside = (number, text) => (number === undefined ? "" : element("a", { href: `#q${number}` }, text));
  const golds = question.gold.titles || question.gold.ids || [];
  return [
    element("nav", { class: "nav", "aria-label": "questions" },
      element("a", { href: "#questions" }, "↑ all questions"),
      at > 0 ? beside(order[at - 1], "← previous") : "",
      at >= 0 ? beside(order[at + 1], "next →") : ""),
    element("h2", {}, question.text),
    facts([
      ["id", question.id],
      ["gold answer", question.answers.join(" · ") || "(none)"],
      ["gold passages", golds.join(" · ")],
      ["type", question.type],
      ["hops", question.hops],
    ]),
    ...question.runs.map((cell, number) => cell && run(question, place, cell, number)).filter(Boolean),
  ];
}

function run(question, place, cell, number) {
  const scores = Object.entries(cell.metrics).map(([name, value]) => `${name} ${Math.round(1000 * value) / 10}`);
  const held = document.getElementById(`t-${place}-${number}`);
  const made = element("section", { class: "run" },
    element("h3", {}, `${runs[number]}: `, cell.answer || dim("(no answer)"), " ", outcome(cell)),
    facts([
      ["error", cell.error && errors[cell.error]],
      ["scores", scores.join(" · ")],
      ["confidence", cell.confidence === null ? null : cell.confidence.toFixed(2)],
      ["supported by evidence", cell.supported ? "yes" : "no"],
      ["budget", cell.budget],
      ["cost", `model calls ${cell.calls} · searches ${cell.searches} · tokens ${cell.tokens.toLocaleString("en")}`],
    ]));
  if (held === null) {
    made.append(element("p", { class: "dim" }, `The trace is not in this page; in the run's folder it is ${cell.trace}.`));
    return made;
  }
  const trace = JSON.parse(held.textContent);
  made.append(...citations(question, trace), ...ranking(question, trace), ...steps(question, trace));
  return made;
}

const facts = (pairs) => {
  const told = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element("dl", {}, told.map(([name, value]) => [element("dt", {}, name), element("dd", {}, String(value))]));
};

function isGold(question, name, passage) {
  const { ids, titles } = question.gold;
  return ids ? ids.includes(name) : Boolean(titles && passage && titles.includes(passage.title));
}

function passage(question, trace, name, before = "", marked = null) {
  const known = trace.passages[name];
  const gold = isGold(question, name, known);
  const where = known && known.place ? `${known.place} · ${name}` : name;
  const title = [before, known ? known.title : name, gold ? [" ", chip("gold", "gold")] : "", " ", dim(where)].flat(2);
  const fill = () => (known ? element("p", {}, marked ? highlighted(known.text, ...marked) : known.text) : dim("its text is not known"));
  return folded(title.filter(Boolean), fill, { class: gold ? "gold" : null });
}

const highlighted = (text, start, end) => [text.slice(0, start), element("mark", {}, text.slice(start, end)), text.slice(end)];

function citations(question, trace) {
  if (!trace.citations.length) return [];
  const cited = new Map();
  for (const citation of [...trace.citations].sort((a, b) => a.marker - b.marker)) {
    if (!cited.has(citation.passage_id)) cited.set(citation.passage_id, []);
    cited.get(citation.passage_id).push(citation);
  }
  const at = new Map();
  const told = [...cited].map(([name, all]) => {
    const marked = all.find(({ start }) => start !== null);
    const marks = all.map(({ marker }) => `[${marker}]`).join("");
    const made = passage(question, trace, name, `${marks} `, marked ? [marked.start, marked.end] : null);
    for (const { marker } of all) at.set(marker, made);
    return made;
  });
  const evidence = trace.evidence.filter((piece) => piece.answer).map((piece) =>
    element("p", { class: "leaf" }, dim(piece.passages.map((name) => (trace.passages[name] || { title: name }).title).join(" → ") + ": "), piece.answer));
  const content = trace.content ? [element("h4", {}, "Content"), element("p", {}, linked(trace.content, at))] : [];
  return [...content, element("h4", {}, "Citations"), ...told, ...(evidence.length ? [element("h4", {}, "Evidence"), ...evidence] : [])];
}

// A text with each of its marks, [1] or [1, 3], as buttons that open what they cite.
function linked(text, at) {
  return text.split(/(\[\d+(?:[,; ]+\d+)*\])/).map((part, place) => (place % 2 ? part.match(/\d+/g).map((number) => mark(Number(number), at)) : part));
}

function mark(number, at) {
  const cited = at.get(number);
  if (!cited) return `[${number}]`;
  const open = () => { cited.open = true; cited.querySelector("summary").focus(); cited.scrollIntoView({ block: "nearest" }); };
  return element("button", { type: "button", class: "mark", "aria-label": `citation ${number}`, onclick: open }, `[${number}]`);
}

function ranking(question, trace) {
  if (!trace.ranked.length) return [];
  const wanted = question.gold.ids || question.gold.titles || [];
  const found = trace.ranked.filter((name) => isGold(question, name, trace.passages[name])).length;
  const told = wanted.length ? ` (${found} gold of ${wanted.length})` : "";
  const fill = () => trace.ranked.map((name, rank) => passage(question, trace, name, `${rank + 1}. `));
  return [element("h4", {}, "Passages"), folded(`${trace.ranked.length} ranked${told}`, fill)];
}

// --- the trace

function steps(question, trace) {
  const under = new Map();
  for (const step of trace.steps) {
    if (!under.has(step.parent)) under.set(step.parent, []);
    under.get(step.parent).push(step);
  }
  const grow = (parent) => (under.get(parent) || []).map((step) => (DRAW[step.kind] || ((other) => leaf(other.kind)))(step));
  const names = (ids) => ids.map((name) => passage(question, trace, name));
  const gold = (ids) => (ids.some((name) => isGold(question, name, trace.passages[name])) ? [" ", chip("gold", "gold")] : []);
  const kind = (text) => element("span", { class: "kind" }, text + " ");
  const DRAW = {
    branch: (step) => folded(
      [kind(step.name), step.label, ...gold(step.passages), " ", chip(step.verdict || "cut short", VERDICTS[step.verdict])],
      () => [...names(step.passages), ...grow(step.id)], { open: true }),
    search: (step) => folded(
      [kind("search"), step.query, dim(` → ${step.passages.length} of ${step.k}`), ...gold(step.passages)],
      () => [...names(step.passages), ...grow(step.id)]),
    read: (step) => folded(
      [kind("read"), step.question, dim(` → ${step.spans.map((span) => span.text).slice(0, 3).join(" · ") || "nothing"}`)],
      () => [...step.spans.map((span) => leaf(`${span.text} (${span.confidence})`)), ...names(step.passages), ...grow(step.id)]),
    ask: (step) => folded(
      [kind(step.task), step.final ? [chip("final"), " "] : [], step.output ? dim(cut(brief(step.output), 160)) : chip("could not be read", "wrong")].flat(),
      () => [...call(step, names), ...grow(step.id)]),
    score: (step) => folded(
      [kind(step.task), dim(`scored ${count(step.targets.length, "text")}`)],
      () => step.targets.map((target) => leaf(target))),
    note: (step) => folded([kind("note"), step.name, dim(` ${cut(brief(step.data), 160)}`)], () => fields(step.data, names)),
  };
  return [element("h4", {}, "Trace"), ...(trace.steps.length ? grow(null) : [dim("nothing was done")])];
}

const VERDICTS = { accept: "right", reject: "wrong" };
const leaf = (text) => element("div", { class: "leaf" }, text);
const brief = (values) => Object.entries(values).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("; ");

function call(step, names) {
  const told = [dim(`${step.model} · ${step.prompt_tokens} + ${count(step.completion_tokens, "token")} · ${step.finish_reason}${step.attempt > 1 ? ` · attempt ${step.attempt}` : ""}`)];
  if (step.problem) told.push(element("p", { class: "wrong" }, step.problem));
  told.push(element("h4", {}, "Asked with"), ...fields(step.fields, names));
  if (step.output) told.push(element("h4", {}, "Output"), ...fields(step.output, names));
  if (step.reasoning) told.push(folded("Reasoning", () => element("pre", {}, step.reasoning)));
  told.push(folded("Reply as it came", () => element("pre", {}, step.text || "(nothing)")));
  return told;
}

function fields(values, names) {
  return Object.entries(values).filter(([, value]) => value !== null).map(([name, value]) => {
    if (name === "passages" && Array.isArray(value) && value.every((each) => typeof each === "string")) {
      return folded([dim("passages "), String(value.length)], () => names(value));
    }
    return element("div", { class: "leaf" }, dim(`${name}: `), typeof value === "object" ? element("pre", {}, shown(value)) : String(value));
  });
}

// --- which of the two is seen

function show() {
  const told = /^#q(\d+)$/.exec(location.hash);
  const place = told ? Number(told[1]) : -1;
  const one = questions[place] !== undefined;
  const summary = document.getElementById("summary");
  const question = document.getElementById("question");
  const was = !question.hidden;
  summary.hidden = one;
  question.hidden = !one;
  question.replaceChildren(...(one ? view(place) : []));
  if (one) {
    question.focus({ preventScroll: true });
    scrollTo(0, 0);
  } else if (was) {
    document.getElementById("questions").scrollIntoView();
    document.getElementById("questions-head").focus({ preventScroll: true });
  }
}

filters();
list();
addEventListener("hashchange", show);
show();
