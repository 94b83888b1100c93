// Which view is seen: by what stands after the # of the address.

import { current, el, focus } from "../view/dom.js";
import { keep } from "./api.js";
import { askView } from "./ask.js";
import { compareView } from "./compare.js";
import { runQuestionView } from "./question.js";
import { runView } from "./run.js";
import { runsView } from "./runs.js";
import { themed } from "./theme.js";

const main = document.getElementById("main");
let view = null;
let latest = 0;

const ROUTES = [
  [/^(?:\?.*)?$/, "ask", () => askView()],
  [/^trace\/([^/]+)$/, "ask", (ids) => askView(ids.split(","))],
  [/^runs$/, "runs", runsView],
  [/^runs\/([^/]+)$/, "runs", runView],
  [/^runs\/([^/]+)\/([^/]+)$/, "runs", runQuestionView],
  [/^compare\/([^/]+)\/([^/]+)$/, "runs", compareView],
];
const NOWHERE = [/^/, "", () => ({ element: wrong("There is no such page."), title: "Nothing here" })];

async function show() {
  const mine = ++latest;
  const path = location.hash.replace(/^#\/?/, "");
  const [pattern, name, make] = ROUTES.find(([each]) => each.test(path)) ?? NOWHERE;
  view?.leave?.();
  main.setAttribute("aria-busy", "true");
  const made = await Promise.resolve()
    .then(() => make(...pattern.exec(path).slice(1).map(decodeURIComponent)))
    .catch((error) => ({ element: failed(error), title: "Problem" }));
  if (mine !== latest) {
    made.leave?.();
    return;
  }
  view = made;
  main.removeAttribute("aria-busy");
  main.replaceChildren(view.element);
  document.title = `${view.title} · polyhop`;
  for (const link of document.querySelectorAll("nav a")) current(link, link.dataset.name === name && "page");
  if (mine === 1) return;
  scrollTo(0, 0);
  focus(main);
}

const wrong = (text) => el("p.problem", { role: "alert" }, text);

function failed(error) {
  if (error.status !== 401) {
    if (!error.status) console.error(error);
    return wrong(error.message);
  }
  const field = el("input", { type: "password", name: "key", required: true, autocomplete: "current-password" });
  const submit = (event) => {
    event.preventDefault();
    keep(field.value);
    show();
  };
  return el(
    "form.key",
    { onsubmit: submit },
    el("p", {}, "This server asks for a key."),
    el("label.field", {}, el("span", {}, "Key"), field),
    el("button.go", { type: "submit" }, "Continue"),
  );
}

themed(document.getElementById("theme"));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  focus(main);
  main.scrollIntoView();
});
addEventListener("hashchange", show);
show();
