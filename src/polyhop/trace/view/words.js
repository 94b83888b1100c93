// Numbers, verdicts and values as text.

const VERDICTS = {
  __proto__: null,
  accept: ["accepted", "good"],
  sufficient: ["enough", "good"],
  bound: ["bound", "good"],
  kept: ["kept", "good"],
  sure: ["sure", "good"],
  stands: ["stands", "good"],
  search: ["continues searching", "on"],
  plan: ["continues planning", "on"],
  "go on": ["continues", "on"],
  complete: ["filled in", "on"],
  verify: ["corrected", "on"],
  edited: ["edited", "on"],
  searched: ["searched", "on"],
  observed: ["observed", "on"],
  inserted: ["inserted", "on"],
  pass: ["passed", "good"],
  reject: ["rejected", "low"],
  dropped: ["dropped", "low"],
  "no plan": ["no plan", "low"],
  "no thought": ["no thought", "low"],
  "nothing found": ["nothing found", "low"],
  limit: ["limit reached", "still"],
  stop: ["stopped", "still"],
  end: ["end", "still"],
};

/** A verdict as `[words, tone]`; the tone is good, on, low or still. */
export const verdictOf = (verdict) => VERDICTS[verdict] || [verdict, "still"];

export const NO_ANSWER = "(no answer)"; // in lists; a single abstention is said in a sentence

export const count = (number, noun) =>
  `${whole(number)} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;
export const whole = (number) => Math.round(number).toLocaleString("en");
export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1).replace(/[\s.,;:]+$/, "")}…` : text);
export const share = (value) => (typeof value === "number" ? value.toFixed(2) : "unknown");

export function seconds(value) {
  if (typeof value !== "number") return "";
  if (value < 0.0995) return `${Math.max(1, Math.round(value * 1000))} ms`;
  return value < 10 ? `${value.toFixed(1)} s` : `${whole(value)} s`;
}

/** A task by its last word: `tor.review` is a review. */
export const taskOf = (task) => String(task).split(".").pop().replaceAll("_", " ");

/** Any value on one line. */
export function brief(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(brief).join(" · ");
  if (typeof value !== "object") return String(value);
  if ("head" in value && "tail" in value) return `(${value.head}; ${value.relation}; ${value.tail})`;
  return Object.values(value).map(brief).filter(Boolean).join(" → ");
}

const TELLING = {
  answer: "answer",
  final: "answer",
  response: "answer",
  sub_question: "next",
  summary: "summary",
  query: "next",
  information: "next",
  content: "says",
  sufficient: "enough",
  triplets: "triplets",
  nodes: "chain",
  rationale: "thinks",
};

/** The gist of a model's output, as `{noun, text}`. */
export function gist(output) {
  if (!output) return { noun: "", text: "" };
  const name = Object.keys(TELLING).find((each) => brief(output[each]) !== "");
  return name ? { noun: TELLING[name], text: brief(output[name]) } : { noun: "", text: brief(output) };
}
