// A question that is asked now: its panel follows the steps as they happen; and the stories that the server keeps.

import { el } from "../view/dom.js";
import { Panel } from "../view/panel.js";
import { Story } from "../view/story.js";
import { brief, count, cut, gist, taskOf } from "../view/words.js";
import { Problem, ask, at, get } from "./api.js";

export class ServedStory extends Story {
  static async fetch(id) {
    return ServedStory.of(await get(`v1/traces/${at(id)}`));
  }

  get permalink() {
    return this.id && `#/trace/${at(this.id)}`;
  }

  /** A link to the question, which any server over these documents understands. */
  get questionLink() {
    const { question, method, corpus } = this;
    return `#/?${new URLSearchParams({ question, method, corpus })}`;
  }

  async promptOf(step) {
    return (await get(`v1/traces/${at(this.id)}/steps/${at(step)}/prompt`)).messages;
  }
}

export class LivePanel extends Panel {
  constructor(inspector) {
    super(inspector);
    this.stop = new AbortController();
    this.status = el("p.status");
    this.reasoning.before(this.status);
  }

  /** Ask, and show each step; true if there is an answer. An error is shown in the panel. */
  async ask(body) {
    this.story = new ServedStory({ question: body.question, method: body.method, corpus: body.corpus ?? "" });
    this.story.running = true;
    this.showHead();
    this.element.setAttribute("aria-busy", "true");
    try {
      for await (const { event, data } of ask(body, this.stop.signal)) {
        if (event === "error") throw new Problem(data.message);
        this.story.take(event, data);
        this.showSoon();
      }
      if (!this.story.answer) throw new Problem("The server ended without an answer.");
      this.story = await ServedStory.fetch(this.story.id).catch(() => this.story); // in the algorithm's order
    } catch (error) {
      this.showError(error);
    } finally {
      this.story.running = false;
      this.element.removeAttribute("aria-busy");
    }
    this.showAll();
    return this.story.answer !== null;
  }

  cancel() {
    this.stop.abort();
  }

  showHead() {
    super.showHead();
    if (this.story.running)
      this.head.append(el("button.stop", { type: "button", onclick: () => this.cancel() }, "Stop"));
  }

  /** Draw at most once per frame, however fast steps come. */
  showSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.story.running) this.showSteps();
    });
  }

  showSteps() {
    super.showSteps();
    this.status.textContent = this.story.running ? progress(this.story) : "";
    this.status.hidden = !this.story.running;
  }

  showError(error) {
    const stopped = error.name === "AbortError" || this.stop.signal.aborted;
    if (!stopped && !(error instanceof Problem)) console.error(error);
    this.answer.replaceChildren(
      el(
        stopped ? "p.notice" : "p.problem",
        { role: stopped ? null : "alert" },
        stopped ? "Stopped before there was an answer." : error.message,
      ),
    );
  }
}

/** The latest step of a question in one line. */
function progress(story) {
  const last = story.inOrder.at(-1);
  if (!last) return "Under way…";
  const said =
    {
      search: () => `searched ${last.query}`,
      ask: () => `${taskOf(last.task)}: ${gist(last.output).text}`,
      read: () => `read ${last.spans[0]?.text ?? "nothing"}`,
      branch: () => last.label,
      note: () => `${last.name}: ${brief(last.data)}`,
    }[last.kind]?.() ?? last.kind;
  return `${count(story.steps.size, "step")} · ${cut(said, 90)}`;
}
