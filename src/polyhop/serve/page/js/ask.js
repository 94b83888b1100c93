// The view in which one asks: a question, one method or two side by side, and what was asked lately.

import { choice, el, folded } from "../view/dom.js";
import { Inspector } from "../view/inspector.js";
import { NO_ANSWER, count, cut, seconds } from "../view/words.js";
import { at, get, remove } from "./api.js";
import { LivePanel, ServedStory } from "./live.js";
import { parted, settingFields } from "./settings.js";
import { takesDrops, uploadPart } from "./upload.js";
import { welcome } from "./welcome.js";

const KINDS = [
  ["qa", "a short answer"],
  ["boolean", "yes or no"],
  ["slot", "a slot to fill"],
  ["fact", "a claim to check"],
  ["long", "a long answer"],
];
let known = null; // methods and corpora, asked for once
let chosen = {}; // what the form held last
const notSent = new Map(); // of uploads: what the page left out, in words

/** The view; `ids` are of kept traces to show (one, or two beside each other). */
export async function askView(ids = []) {
  known ??= Promise.all([get("v1/methods"), get("v1/corpora")]).catch((error) => {
    known = null;
    throw error;
  });
  const [methods, corpora] = await known;
  const linked = Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? ""));
  if (linked.question) chosen = linked;
  const inspector = new Inspector();
  const results = el("div.results");
  const stage = el("div.stage", { hidden: true }, results, inspector.element);
  const start = el("section.start");
  const recent = el("section.recent");
  const upload = corpora.uploads && uploadPart(corpora.uploads, added);
  const form = formOf(methods, corpora, (bodies) => run(bodies), greet, upload?.button);
  const element = el("div.ask", {}, form.element, upload?.element, stage, start, recent);
  if (upload) takesDrops(element, upload.choose);
  let panels = [];
  if (ids.length) await open();
  else await Promise.all([greet(), lately(recent)]);
  return {
    element,
    title: ids.length ? cut(form.question(), 60) : "Ask",
    leave: () => {
      panels.forEach((panel) => panel.cancel());
      upload?.leave();
    },
  };

  async function greet() {
    const corpus = form.corpus();
    const own = corpora.uploads?.corpora.includes(corpus) && { drop: () => drop(corpus), notSent: notSent.get(corpus) };
    if (!panels.length) await welcome(start, corpus, form.ask, own);
  }

  /** A corpus was uploaded: choose it, and show the view of one who has not asked yet. */
  async function added({ corpus, files, passages }, leftOut) {
    notSent.set(corpus, leftOut);
    const fresh = await get("v1/corpora").catch(() => null); // older uploads may be gone
    Object.assign(corpora, fresh);
    form.offer(corpus);
    panels.forEach((panel) => panel.cancel());
    panels = [];
    inspector.element.hidden = stage.hidden = true;
    start.hidden = recent.hidden = false;
    form.element.classList.remove("answered");
    if (location.hash) history.pushState(null, "", "#/");
    await greet();
    form.focus(`${corpus} is ready: ${count(files, "file")}, ${count(passages, "passage")}.`);
  }

  async function drop(corpus) {
    await remove(`v1/corpora/${at(corpus)}`).catch((error) => console.error(error));
    Object.assign(corpora, await get("v1/corpora"));
    form.offer(corpora.default);
    await greet();
    form.focus(`${corpus} was deleted.`);
  }

  function put(fresh) {
    panels.forEach((panel) => panel.cancel());
    panels = fresh;
    inspector.element.hidden = true;
    stage.hidden = false;
    form.element.classList.add("answered");
    start.hidden = recent.hidden = true;
    stage.classList.toggle("beside", panels.length > 1);
    results.replaceChildren(...panels.map((panel) => panel.element));
  }

  async function run(bodies) {
    put(bodies.map(() => new LivePanel(inspector)));
    form.busy(true);
    if (stage.getBoundingClientRect().top > innerHeight) stage.scrollIntoView(); // below opened settings
    const mine = panels;
    await Promise.all(bodies.map((body, place) => mine[place].ask(body)));
    if (mine !== panels || !results.isConnected) return;
    form.busy(false);
    const finished = mine.map((panel) => panel.story).filter((story) => story.answer && story.id);
    if (finished.length) history.pushState(null, "", `#/trace/${finished.map((story) => at(story.id)).join(",")}`);
  }

  async function open() {
    const stories = await Promise.all(ids.map((id) => ServedStory.fetch(id)));
    put(stories.map(() => new LivePanel(inspector)));
    form.fill(stories);
    requestAnimationFrame(() => panels.forEach((panel, place) => panel.open(stories[place])));
  }
}

function formOf(methods, corpora, submit, oncorpus, upload) {
  const names = grouped(methods.methods);
  const said = el("p.unseen", { role: "status" });
  const corpus = choice("Corpus", "corpus", [], "", () => oncorpus());
  const offer = (name) => {
    const option = (each) => el("option", { value: each, selected: each === name }, each);
    corpus.querySelector("select").replaceChildren(...corpora.corpora.map(option));
    corpus.hidden = corpora.corpora.length < 2;
  };
  const about = el("p.about.dim");
  const settings = el("fieldset.settings");
  const tell = () => {
    const method = methods.methods.find((each) => each.name === element.elements.method.value);
    if (!method) return;
    about.textContent = [does(method), method.paper].filter(Boolean).join(" · ");
    settings.hidden = !method.fields.length;
    settings.replaceChildren(
      el("legend", {}, `Settings of ${method.name}`),
      ...settingFields(method.fields, method.name === chosen.method ? chosen : {}),
    );
  };
  const text = el("textarea", {
    name: "question",
    rows: 2,
    required: true,
    placeholder: "Ask what takes more than one passage to answer",
    "aria-label": "Question",
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      element.requestSubmit();
    },
  });
  const button = el("button.go", { type: "submit" }, "Ask");
  const more = () => [
    choice("Kind of answer", "kind", KINDS, chosen.kind ?? "qa"),
    number("Model calls, at most", "max_calls", { min: 1, step: 1, placeholder: "no limit" }),
    number("Time limit (s)", "max_seconds", { min: 0.1, step: "any", placeholder: "no limit" }),
    number("Minimum confidence", "abstain_below", { min: 0.01, max: 1, step: "any", placeholder: "none" }),
    settings,
  ];
  const element = el(
    "form.question",
    {
      onsubmit: (event) => {
        event.preventDefault();
        submit(bodies());
      },
    },
    el("h1.unseen", {}, "Ask a question"),
    text,
    el(
      "div.controls",
      {},
      choice("Method", "method", names, chosen.method ?? methods.default, tell),
      choice("Compare with", "beside", [["", "no other method"], ...names], chosen.beside ?? ""),
      corpus,
      upload,
      button,
    ),
    said,
    about,
    folded("Limits and settings", more),
  );
  text.value = chosen.question ?? "";
  offer(corpora.corpora.includes(chosen.corpus) ? chosen.corpus : corpora.default);
  tell();
  return {
    element,
    busy: (yes) => {
      button.textContent = yes ? "Ask again" : "Ask";
    },
    question: () => text.value,
    corpus: () => element.elements.corpus.value,
    offer,
    focus: (words) => {
      said.textContent = words;
      text.focus();
    },
    ask: (question) => {
      text.value = question;
      element.requestSubmit();
    },
    fill: (stories) => {
      text.value = stories[0].question;
      element.elements.method.value = stories[0].method;
      element.elements.beside.value = stories[1]?.method ?? "";
      if (corpora.corpora.includes(stories[0].corpus)) element.elements.corpus.value = stories[0].corpus;
      tell();
    },
  };

  function bodies() {
    const values = Object.fromEntries([...new FormData(element)].filter(([, value]) => value.trim()));
    chosen = values;
    const [settings, { method, beside, ...rest }] = parted(values);
    for (const name of ["max_calls", "max_seconds", "abstain_below"]) if (rest[name]) rest[name] = Number(rest[name]);
    const one = { ...rest, method, settings };
    return beside ? [one, { ...rest, method: beside }] : [one];
  }
}

const number = (title, name, rest) =>
  el("label.field", {}, el("span", {}, title), el("input", { type: "number", name, value: chosen[name], ...rest }));

/** What a method does, in a sentence without the sections of its paper. */
const does = ({ summary }) =>
  summary
    .replace(/ \([^()]*(§|Algorithm)[^()]*\)/, "")
    .replaceAll("``", "")
    .replace(/\.$/, "");

/** Methods as options, by family. */
function grouped(methods) {
  const families = Map.groupBy(methods, (each) => each.family ?? "methods");
  return [...families].map(([family, each]) => [
    family,
    each.map((method) => [method.name, `${method.name} · ${cut(does(method), 90)}`]),
  ]);
}

/** The newest answers. */
async function lately(part) {
  const recent = await get("v1/traces").catch(() => ({ traces: [] }));
  const rows = recent.traces.slice(0, 8);
  if (!rows.length)
    return part.replaceChildren(
      el(
        "p.dim.first",
        {},
        "The answer comes with its reasoning: every search, passage and model call, drawn as it happens.",
      ),
    );
  const row = (each) =>
    el(
      "li",
      {},
      el("a", { href: `#/trace/${at(each.trace_id)}` }, each.question),
      el("span.given", {}, each.answer || NO_ANSWER),
      el("span.dim", {}, [each.method, seconds(each.seconds)].join(" · ")),
    );
  part.replaceChildren(el("h2", {}, "Recent questions"), el("ul", {}, rows.map(row)));
}
