// The files that a person chose: which can be sent, and what is left out.

import { count, whole } from "../view/words.js";

const HIDDEN = /(^|\/)\./; // as in a folder that the server reads itself

/** What can be sent of the chosen files, `[{file, path}]`: the `files`, a `name` for them, the `summary`, what is left
 * out with the reasons, and the `problem` if they cannot be sent. */
export function lookThrough(chosen, limits) {
  const shown = chosen.filter(({ path }) => !HIDDEN.test(path));
  const reasons = new Map();
  const files = shown.filter((each) => {
    const why = reasonOf(each, limits);
    if (why) reasons.set(why, (reasons.get(why) ?? 0) + 1);
    return !why;
  });
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  const tops = new Set(shown.map(({ path }) => (path.includes("/") ? path.split("/")[0] : "")));
  const name = tops.size === 1 ? [...tops][0] : "";
  return {
    files,
    name: name || (files.length === 1 ? files[0].path.replace(/\.[^.]+$/, "") : "My files"),
    summary: files.length ? `${count(files.length, "file")}, ${megabytes(bytes)} to send` : "",
    leftOut: [...reasons].map(([why, n]) => `${whole(n)} ${n > 1 ? why.replace(/^file/, "files") : why}`),
    problem: problemOf(files, bytes, limits),
  };
}

function reasonOf({ file, path }, { kinds, max_file_bytes }) {
  const name = path.toLowerCase().split("/").pop();
  const kind = /\.[^.]+$/.exec(name)?.[0] ?? name; // a few names without a suffix are kinds
  if (!Object.hasOwn(kinds, kind)) {
    return kind.startsWith(".") ? `${kind.slice(0, 20)} (not a supported kind)` : "file without a suffix";
  }
  if (kinds[kind]) return `${kind} (${kinds[kind]})`;
  return file.size > max_file_bytes ? `file larger than ${megabytes(max_file_bytes)}` : "";
}

function problemOf(files, bytes, { max_files, max_bytes }) {
  if (!files.length) return "None of these files can be read.";
  if (files.length > max_files) return `At most ${count(max_files, "file")} can be sent at once.`;
  if (bytes > max_bytes) return `At most ${megabytes(max_bytes)} can be sent at once.`;
  return "";
}

/** The files that were dropped, those of folders at any depth too. */
export async function filesOf(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const dropped = items.map((item) => item.webkitGetAsEntry() ?? { isFile: true, plain: item.getAsFile() });
  return (await Promise.all(dropped.map(filesIn))).flat();
}

async function filesIn(entry) {
  if (entry.plain) return [{ file: entry.plain, path: entry.plain.name }];
  if (entry.isFile) {
    const file = await new Promise((resolve) => entry.file(resolve, () => resolve(null)));
    return file ? [{ file, path: entry.fullPath.replace(/^\//, "") }] : [];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const batch = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([]))); // at most 100
    if (!batch.length) break;
    found.push(...batch);
  }
  return (await Promise.all(found.map(filesIn))).flat();
}

/** A size in words. */
export function megabytes(bytes) {
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3)).toLocaleString("en")} kB`;
  return `${Number((bytes / 1e6).toPrecision(3)).toLocaleString("en")} MB`;
}
