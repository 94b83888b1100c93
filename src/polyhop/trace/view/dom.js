// Elements made by hand. Every text becomes a text node: nothing that is shown can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `el("p.dim", {id: "a"}, "text", other)`. Null, false and undefined are left out; `on…` listen. */
export function el(name, attributes = {}, ...children) {
  return made((tag) => document.createElement(tag), name, attributes, children);
}

/** An SVG element, in the same way. */
export function svg(name, attributes = {}, ...children) {
  return made((tag) => document.createElementNS(SVG, tag), name, attributes, children);
}

function made(create, name, attributes, children) {
  const [tag, ...classes] = name.split(".");
  const element = create(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(
    ...children
      .flat(Infinity)
      .filter((child) => child || child === 0)
      .map((child) => (child instanceof Node ? child : balanced(String(child)))),
  );
  return element;
}

const OPENING = /[\u202a\u202b\u202d\u202e\u2066-\u2068]/;
const DIRECTIONS = /[\u202a-\u202e\u2066-\u2069]/g;
const [POP_EMBEDDING, POP_ISOLATE] = ["\u202c", "\u2069"];

/** A text whose characters of direction (embeddings, overrides, isolates) end within it: it turns nothing beside it. */
export function balanced(text) {
  const open = []; // the characters that end the open directions
  const closed = text.replace(DIRECTIONS, (mark) => {
    if (OPENING.test(mark)) {
      open.push(mark < "\u2066" ? POP_EMBEDDING : POP_ISOLATE);
      return mark;
    }
    const from = mark === POP_EMBEDDING && open.at(-1) !== mark ? -1 : open.lastIndexOf(mark);
    return from < 0 ? "" : open.splice(from).reverse().join("");
  });
  return closed + open.reverse().join("");
}

/** A folded part, filled when it is first opened. */
export function folded(title, fill, { open = false, name = "details" } = {}) {
  const inside = el("div.inside");
  const part = el(name, { open }, el("summary", {}, title), inside);
  const once = () => part.open && !inside.hasChildNodes() && inside.append(...[fill()].flat(Infinity).filter(Boolean));
  part.addEventListener("toggle", once);
  once();
  return part;
}

/** A `<select>` with its label; `options` are `[value, text]`, or `[group, [[value, text], …]]`. */
export function choice(title, name, options, value, onchange) {
  const option = ([of, text]) =>
    Array.isArray(text)
      ? el("optgroup", { label: of }, text.map(option))
      : el("option", { value: of, selected: of === value }, text);
  return el("label.field", {}, el("span", {}, title), el("select", { name, onchange }, options.map(option)));
}

/** Terms and their values; those without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "dl.facts",
    {},
    known.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
  );
}

/** Mark an element as the current one of its kind, `value`; without a value, remove the mark. */
export function current(element, value) {
  if (value) element.setAttribute("aria-current", value);
  else element.removeAttribute("aria-current");
}

/** Move the focus to a part that is not a control, so that a screen reader continues there. */
export function focus(element) {
  element.setAttribute("tabindex", "-1");
  element.focus({ preventScroll: true });
}
