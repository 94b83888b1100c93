// The drawing of a story: real buttons, placed by a computed layout over lines in SVG, walked by the arrow keys.

import { current, el, svg } from "./dom.js";
import { GAP, arranged, plan, widthOf } from "./layout.js";
import { drawn } from "./nodes.js";
import { cut } from "./words.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const MARKER = { x: 14.5, y: 18, r: 6 }; // the middle of a node's mark, as the style sheet has it
const TONES = ["low", "plain", "good"]; // of lines, the last on top
const MAX_TITLES = 3;

export class Drawing {
  /** `onpick(node)` is called when a node is clicked, or Enter is pressed on it. */
  constructor(onpick) {
    this.onpick = onpick;
    this.lines = svg("svg.lines", { "aria-hidden": "true" });
    this.list = el("ol.nodes", {
      "aria-label": "Steps of the reasoning; move with the arrow keys",
      onkeydown: (event) => this.walk(event),
    });
    this.element = el("div.drawing", {}, this.lines, this.list);
    this.items = new Map(); // by node: its list item, its button and the text it shows
    this.story = null;
    this.active = null;
    this.places = new Map();
    new ResizeObserver(() => this.story && this.element.clientWidth !== this.space && this.show(this.story)).observe(
      this.element,
    );
  }

  /** Draw the story as it is now; nodes that are there already stay what they are. */
  show(story) {
    this.story = story;
    const picture = drawn(story);
    this.space = this.element.clientWidth;
    if (!this.space) return;
    const ways = plan(picture, this.space);
    this.element.dataset.shape = picture.shape; // both give nodes their style, and so the heights that are measured below
    this.element.dataset.way = ways.way;
    this.nodes = new Map(picture.nodes.map((node) => [node.id, node]));
    this.edges = picture.edges.filter(([from, to]) => this.nodes.has(from) && this.nodes.has(to));
    picture.nodes.forEach((node) => this.put(node, widthOf(node, ways), story));
    this.order(picture.nodes);
    const heights = new Map(picture.nodes.map((node) => [node.id, this.items.get(node.id).row.offsetHeight]));
    const { places, height } = arranged(picture, ways, heights);
    this.places = places;
    for (const [id, place] of places) {
      const { row, button } = this.items.get(id);
      row.style.transform = `translate(${place.x}px, ${place.y}px)`;
      place.end = place.x + button.offsetWidth;
    }
    this.element.style.height = `${height}px`;
    this.draw(ways, height);
    this.reach(this.nodes.has(this.active) ? this.active : picture.nodes[0].id);
    if (document.fonts.status === "loading") document.fonts.ready.then(() => this.show(this.story)); // measured too early
  }

  put(node, width, story) {
    let item = this.items.get(node.id);
    if (!item) {
      const button = el("button.node", { type: "button", "data-id": node.id, onclick: () => this.pick(node.id) });
      item = { row: el("li", {}, button), button, shown: "" };
      this.items.set(node.id, item);
    }
    item.row.style.width = `${width}px`;
    item.button.dataset.tone = node.tone;
    item.button.dataset.kind = node.kind;
    const parts = faces(node, story);
    const shown = JSON.stringify(parts);
    if (shown === item.shown) return;
    item.shown = shown;
    item.button.replaceChildren(...parts.map(face));
  }

  /** The list in the nodes' order, without those that are gone; none is moved that stands right, or it would lose the focus. */
  order(nodes) {
    for (const [id, { row }] of this.items) {
      if (this.nodes.has(id)) continue;
      row.remove();
      this.items.delete(id);
    }
    nodes.forEach(({ id }, place) => {
      const { row } = this.items.get(id);
      if (this.list.children[place] !== row) this.list.insertBefore(row, this.list.children[place] ?? null);
    });
  }

  draw({ way }, height) {
    this.lines.setAttribute("width", this.space);
    this.lines.setAttribute("height", height);
    const good = this.leading();
    const start = ([from, to]) => (way === "indented" && this.joins(to) ? this.nodes.get(to).parent : from);
    const edges = this.edges.map((edge) => [start(edge), edge[1]]);
    const paths = edges
      .filter(([from, to], place) => edges.findIndex((edge) => edge[0] === from && edge[1] === to) === place)
      .map(([from, to]) => {
        const tone = good.has(to) ? "good" : this.nodes.get(to).tone === "low" ? "low" : "plain";
        const d = line(this.places.get(from), this.places.get(to), way);
        return [tone, svg(`path.${tone}`, { d, "data-from": from, "data-to": to })];
      });
    this.lines.replaceChildren(
      ...TONES.flatMap((tone) => paths.filter(([each]) => each === tone).map(([, path]) => path)),
    );
  }

  /** True if a node of a tree has other sources than its parent; in an outline it is still below its parent. */
  joins(id) {
    return this.element.dataset.shape === "tree" && this.nodes.get(id).kind === "end";
  }

  /** The nodes that are good or an end, and those on the way to them. */
  leading() {
    const found = new Set(
      [...this.nodes.values()].filter((node) => node.tone === "good" || node.tone === "end").map((node) => node.id),
    );
    for (const id of found) {
      const { parent } = this.nodes.get(id);
      if (parent) found.add(parent);
    }
    return found;
  }

  pick(id) {
    this.reach(id);
    this.mark(id);
    this.onpick(this.nodes.get(id), this.items.get(id).button);
  }

  /** Show which node is looked at; null for none. */
  mark(id) {
    for (const [each, { button }] of this.items) current(button, each === id && "true");
  }

  /** One node alone is reached by Tab. */
  reach(id) {
    this.active = id;
    for (const [each, { button }] of this.items) button.tabIndex = each === id ? 0 : -1;
  }

  walk(event) {
    const order = [...this.nodes.keys()];
    const ends = { Home: order[0], End: order.at(-1) };
    const to = ends[event.key] ?? (ARROWS[event.key] && this.beside(this.active, ARROWS[event.key]));
    if (!to) return;
    event.preventDefault();
    this.reach(to);
    this.items.get(to).button.focus();
  }

  /** The nearest node in a direction; sideways, one that a line leads to comes first. */
  beside(id, [dx, dy]) {
    const here = this.places.get(id);
    const tied = new Set(this.edges.filter((edge) => edge.includes(id)).flat());
    const found = [...this.places]
      .filter(([each]) => each !== id)
      .map(([each, place]) => {
        const [right, down] = [place.x - here.x, place.y - here.y];
        const [along, aside] = dx ? [right * dx, Math.abs(down)] : [down * dy, Math.abs(right)];
        return { each, along, cost: along + 3 * aside - (dx && tied.has(each) ? 1e6 : 0) };
      });
    return found.filter(({ along }) => along > 1).sort((one, other) => one.cost - other.cost)[0]?.each;
  }
}

const face = ([name, what]) => el(`span.${name}`, {}, Array.isArray(what) ? what.map(face) : what, " ");

/** The text of a node: `[class, text or such pairs]`, in order. */
function faces(node, story) {
  const found = node.kind === "branch" && !node.holds.length ? node.passages : [];
  const titles = found
    .slice(0, MAX_TITLES)
    .map((id) => story.titleOf(id))
    .join(", ");
  const marks = (node.holds ?? []).flatMap((id) => story.markers(id));
  return [
    ["title", cut(node.title, 200)],
    ["label", node.label],
    ["gold", (node.holds?.length ? node.holds : (node.passages ?? [])).some((id) => story.isGold(id)) && "gold"],
    ["marks", marks.map((mark) => `[${mark}]`).join("")],
    [
      "said",
      node.said?.text && [
        ["noun", node.said.noun],
        ["words", cut(node.said.text, 160)],
      ],
    ],
    [
      "found",
      titles && `found ${titles}${found.length > MAX_TITLES ? ` and ${found.length - MAX_TITLES} more` : ""}`,
    ],
  ].filter(([, text]) => text);
}

/** A line between two positions: a curve sideways; downwards, from mark to mark, an elbow or a straight line. */
function line(from, to, way) {
  if (way !== "indented") {
    const [x1, y1, x2, y2] = [from.end, from.y + MARKER.y, to.x + MARKER.x - MARKER.r, to.y + MARKER.y];
    const x = Math.max(x1, to.x - GAP.column); // level to the last gap, where no other node stands
    const bend = (x2 - x) / 2;
    return `M${x1} ${y1}H${x}C${x + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  const [x, below] = [from.x + MARKER.x, from.y + MARKER.y + MARKER.r];
  if (from.x === to.x) return `M${x} ${below}V${to.y + MARKER.y - MARKER.r}`;
  const y = to.y + MARKER.y;
  return `M${x} ${below}V${y - 6}Q${x} ${y} ${x + 6} ${y}H${to.x + MARKER.x - MARKER.r}`;
}
