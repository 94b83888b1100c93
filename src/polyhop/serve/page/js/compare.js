// Two runs beside each other: each metric's difference, and the questions that only one got right.

import { el } from "../view/dom.js";
import { NO_ANSWER, count } from "../view/words.js";
import { at, get } from "./api.js";
import { metricName } from "./runs.js";

export async function compareView(a, b) {
  const comparison = await get(`v1/runs/compare?${new URLSearchParams({ a, b })}`);
  const names = [a, b];
  const flips = {
    first: comparison.flipped.filter((row) => row.right === "first"),
    second: comparison.flipped.filter((row) => row.right === "second"),
  };
  return {
    title: `${a} and ${b}`,
    element: el(
      "section.compare",
      {},
      el("p.back", {}, el("a", { href: "#/runs" }, "All runs")),
      el("h1", {}, a, el("span.dim", {}, " and "), b),
      el("div.scroll", { tabindex: 0, role: "region", "aria-label": "Metrics" }, metrics(comparison, names)),
      el("h2", {}, "What flipped"),
      el("div.flips", {}, flipped("first", a), flipped("second", b)),
    ),
  };

  function flipped(which, name) {
    const rows = flips[which];
    return el(
      "section",
      {},
      el("h3", {}, `Only ${name} is right: ${count(rows.length, "question")}`),
      el(
        "ol.flipped",
        {},
        rows.map((row) => flip(row, names)),
      ),
    );
  }
}

/** A difference in points: +8.3, −4.2, 0.0. */
function signed(value) {
  const points = Math.abs(100 * value).toFixed(1);
  return Number(points) ? `${value < 0 ? "−" : "+"}${points}` : points;
}

function metrics(comparison, names) {
  const heads = ["Metric", ...names, "Difference", "95 % interval", "p"];
  const row = ([name, each]) => {
    const sure = each.low > 0 || each.high < 0;
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, metricName(name)),
      [each.first, each.second].map((value) => el("td.number", {}, (100 * value).toFixed(1))),
      el(sure ? "td.number.telling" : "td.number", {}, signed(each.second - each.first)),
      el("td.number.dim", {}, `${signed(each.low)} to ${signed(each.high)}`),
      el("td.number", {}, each.p.toFixed(3)),
    );
  };
  return el(
    "table",
    {},
    el("caption.unseen", {}, "Metrics of both runs"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        heads.map((name, place) => el(place ? "th.number" : "th", { scope: "col" }, name)),
      ),
    ),
    el("tbody", {}, Object.entries(comparison.metrics).map(row)),
  );
}

function flip(row, names) {
  const given = (which, place) =>
    el(
      "p",
      {},
      el("a", { href: `#/runs/${at(names[place], row.id)}` }, names[place]),
      ": ",
      row[which] || NO_ANSWER,
      " ",
      el(row.right === which ? "span.right" : "span.wrong", {}, row.right === which ? "right" : "wrong"),
    );
  return el(
    "li",
    {},
    el("p.asked", {}, row.question),
    given("first", 0),
    given("second", 1),
    el("p.dim", {}, `gold: ${row.answers.slice(0, 2).join(" · ")}`),
  );
}
