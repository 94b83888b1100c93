// A method's settings as fields of a form, each with its meaning.

import { el } from "../view/dom.js";

const PREFIX = "set:";

/** The fields of a method's settings; an empty one keeps its default. `given`: what the form held before. */
export const settingFields = (fields, given = {}) =>
  fields.map((field) => {
    const name = `${PREFIX}${field.name}`;
    const usual = shown(field.default);
    const meaning = el("span.meaning", { id: `about-${field.name}` }, field.meaning);
    const control = controlOf(field, { name, "aria-describedby": meaning.id }, given[name], usual);
    return el("label.field", {}, el("span.name", {}, field.name.replaceAll("_", " ")), control, meaning);
  });

function controlOf({ kind, values }, attributes, given, usual) {
  if (kind === "switch" || kind === "choice") {
    const words = kind === "switch" ? ["true", "false"] : values.map(String);
    const option = (value, text) => el("option", { value, selected: value === (given ?? "") }, text);
    const others = words.filter((word) => word !== usual).map((word) => option(word, said(word)));
    return el("select", attributes, option("", `${said(usual)} (default)`), others);
  }
  const type = kind === "number" ? { type: "number", step: "any" } : { type: "text", spellcheck: "false" };
  return el("input", { ...attributes, ...type, placeholder: usual, value: given, autocomplete: "off" });
}

const said = (word) => ({ true: "yes", false: "no" })[word] ?? word;
const shown = (value) => (value === null || value.length === 0 ? "not set" : String(value));

/** The settings of a filled form, `values`; and those without them. The server reads text. */
export function parted(values) {
  const settings = Object.entries(values).filter(([name]) => name.startsWith(PREFIX));
  const rest = Object.entries(values).filter(([name]) => !name.startsWith(PREFIX));
  const named = settings.map(([name, value]) => [name.slice(PREFIX.length), value]);
  return [Object.fromEntries(named), Object.fromEntries(rest)];
}
