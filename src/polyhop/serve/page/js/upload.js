// Your own files: chosen or dropped, looked through before they are sent, and read by the server while a bar follows.

import { el } from "../view/dom.js";
import { count, whole } from "../view/words.js";
import { Problem, send } from "./api.js";
import { filesOf, lookThrough, megabytes } from "./files.js";

/** The part in which files are chosen and sent. `limits` are the server's; `added(corpus, leftOut)` is called with the
 * facts of the new corpus and what was not sent. `button` opens and closes it, `choose(files)` takes dropped files. */
export function uploadPart(limits, added) {
  let sending = null;
  const inside = el("div.inside");
  const head = el(
    "div.head",
    {},
    el("h2", { id: "upload-title" }, "Ask your own files"),
    el("button.close", { type: "button", onclick: close }, "Close"),
  );
  const attributes = { id: "upload", hidden: true, "aria-labelledby": "upload-title" };
  const element = el("section.upload", attributes, head, inside);
  const button = el(
    "button.plain",
    { type: "button", "aria-expanded": "false", "aria-controls": "upload", onclick: () => toggle(element.hidden) },
    "Ask your own files",
  );
  offer();
  return { element, button, choose, leave: () => sending?.abort() };

  function toggle(open) {
    element.hidden = !open;
    button.setAttribute("aria-expanded", open);
    if (open) inside.querySelector("button")?.focus();
  }

  function close() {
    sending?.abort();
    offer();
    toggle(false);
    button.focus();
  }

  function put(...parts) {
    inside.replaceChildren(...parts.flat().filter(Boolean));
  }

  /** Choose files, a folder, or drop them. */
  function offer() {
    const input = (attributes) =>
      el("input", {
        type: "file",
        multiple: true,
        hidden: true,
        onchange: (event) => choose([...event.target.files].map((file) => ({ file, path: pathOf(file) }))),
        ...attributes,
      });
    const [files, folder] = [input({ name: "files" }), input({ name: "folder", webkitdirectory: true })];
    put(
      el(
        "p.dim",
        {},
        "Text, Markdown, HTML, PDF, Word, spreadsheets, presentations, mail, notebooks and code: ",
        `up to ${count(limits.max_files, "file")} and ${megabytes(limits.max_bytes)}. `,
        "They stay on this server until it stops.",
      ),
      el(
        "div.drop",
        {},
        el("button.go", { type: "button", onclick: () => files.click() }, "Choose files"),
        el("button.plain", { type: "button", onclick: () => folder.click() }, "Choose a folder"),
        el("span.dim.by-mouse", {}, "or drop them here"),
        files,
        folder,
      ),
    );
  }

  /** Show what will be sent, before it is. */
  function choose(chosen) {
    if (sending) return;
    toggle(true);
    const found = lookThrough(chosen, limits);
    const again = el("button.plain", { type: "button", onclick: () => (offer(), toggle(true)) }, "Choose others");
    const name = el("input", { type: "text", name: "name", maxlength: 60, value: found.name, autocomplete: "off" });
    const start = el("button.go", { type: "submit" }, found.files.length === 1 ? "Read this file" : "Read these files");
    put(
      el("p", { role: "status" }, el("strong", {}, found.summary)),
      found.problem && el("p.problem", { role: "alert" }, found.problem),
      leftOut(found.leftOut),
      found.problem
        ? el("div.bar", {}, again)
        : el(
            "form.bar",
            {
              onsubmit: (event) => {
                event.preventDefault();
                read(chosen, found, name.value.trim());
              },
            },
            el("label.field", {}, el("span", {}, "Name"), name),
            start,
            again,
          ),
    );
    (found.problem ? again : start).focus();
  }

  /** Send the files and follow their reading. */
  async function read(chosen, found, name) {
    sending = new AbortController();
    const bar = el("progress", { max: 1, value: 0, "aria-label": "Progress of the upload" });
    const status = el("p", { role: "status" });
    const stop = el("button.stop", { type: "button", onclick: () => sending.abort() }, "Cancel");
    put(status, bar, el("div.bar", {}, stop));
    stop.focus();
    const tell = ([words, share]) => {
      if (status.textContent !== words) status.textContent = words;
      if (share === null) bar.removeAttribute("value");
      else bar.value = share;
    };
    try {
      let corpus = null;
      for await (const { event, data } of send(formOf(found.files, name), sending.signal)) {
        if (event === "error") throw new Problem(data.message);
        if (event === "corpus") corpus = data;
        else tell(stageOf(event, data, found.files.length));
      }
      if (!corpus) throw new Problem("The server ended before the files were read.");
      sending = null;
      offer();
      toggle(false);
      added(corpus, found.leftOut);
    } catch (error) {
      const stopped = sending.signal.aborted;
      sending = null;
      if (element.hidden) return; // closed
      if (!stopped && !(error instanceof Problem)) console.error(error);
      choose(chosen);
      if (!element.isConnected) return;
      const said = stopped ? "Cancelled; nothing of it was kept." : error.message;
      inside.prepend(el(stopped ? "p.notice" : "p.problem", { role: stopped ? "status" : "alert" }, said));
    }
  }
}

/** Let files be dropped anywhere on a part. */
export function takesDrops(part, take) {
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  part.addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    part.classList.add("dropping");
  });
  part.addEventListener("dragleave", (event) => {
    if (!part.contains(event.relatedTarget)) part.classList.remove("dropping");
  });
  part.addEventListener("drop", async (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    part.classList.remove("dropping");
    take(await filesOf(event.dataTransfer));
  });
}

const pathOf = (file) => file.webkitRelativePath || file.name;

function formOf(files, name) {
  const form = new FormData();
  if (name) form.append("name", name);
  for (const { file, path } of files) form.append("files", file, path);
  return form;
}

/** A stage of an upload in words, and its share from 0 to 1; null if it is unknown. */
function stageOf(event, data, files) {
  if (event === "sent") return [`Sending: ${megabytes(data.done)} of ${megabytes(data.total)}`, data.done / data.total];
  if (event === "start") return [`Reading ${count(files, "file")}…`, null];
  const { stage, done, total, passages } = data;
  const share = total ? done / total : null;
  if (stage === "files")
    return [`Reading: ${whole(done)} of ${count(total, "file")}, ${count(passages, "passage")} so far`, share];
  return [`Indexing: ${whole(done)}${total ? ` of ${whole(total)}` : ""} ${stage}`, share];
}

/** What was left out, in a line; nothing if that is so. */
export const leftOut = (items) => (items.length ? el("p.dim.left-out", {}, `Left out: ${items.join(", ")}.`) : null);
