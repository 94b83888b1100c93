// One question by one method: its answer, the drawing of its reasoning, its sources; live, replayed or kept.

import { Problem, ask, at, get } from "./api.js";
import { cost, reply, sources } from "./answer.js";
import { el } from "./dom.js";
import { Drawing } from "./drawing.js";
import { Story } from "./story.js";
import { brief, count, cut, gist, taskOf } from "./words.js";

const PACE = 160; // milliseconds a step of a replay

export class Panel {
  /** `inspector` shows the nodes that are picked. */
  constructor(inspector) {
    this.inspector = inspector;
    this.story = new Story();
    this.stop = new AbortController();
    this.head = el("header.of");
    this.status = el("p.status");
    this.answer = el("div.answer", { "aria-live": "polite" });
    this.cost = el("div.cost");
    this.drawing = new Drawing((node, button) => this.inspect(node, button));
    this.replay = el("div.replay", { hidden: true });
    this.sources = el("div");
    this.reasoning = el(
      "section.reasoning",
      { hidden: true },
      el("div.bar", {}, el("h3", {}, "Reasoning"), this.replay),
      this.drawing.element,
    );
    this.element = el(
      "section.panel",
      {},
      this.head,
      el("div.outcome", {}, this.answer, this.cost),
      this.status,
      this.reasoning,
      this.sources,
    );
  }

  /** Ask and watch; true when there is an answer. What goes wrong is told in the panel. */
  async ask(body) {
    this.story = new Story({ question: body.question, method: body.method, corpus: body.corpus ?? "" });
    this.story.running = true;
    this.named();
    this.element.setAttribute("aria-busy", "true");
    try {
      for await (const { event, data } of ask(body, this.stop.signal)) {
        if (event === "error") throw new Problem(data.message);
        this.story.take(event, data);
        this.soon();
      }
      if (!this.story.answer) throw new Problem("The server ended without an answer.");
      this.story = await get(`v1/traces/${at(this.story.id)}`).then(Story.of, () => this.story); // in the algorithm's order
    } catch (error) {
      this.failed(error);
    } finally {
      this.story.running = false;
      this.element.removeAttribute("aria-busy");
    }
    this.whole();
    return this.story.answer !== null;
  }

  /** Show a story that has been told. */
  open(story) {
    this.story = story;
    this.named();
    this.whole();
  }

  cancel() {
    this.stop.abort();
  }

  named() {
    const { method, corpus } = this.story;
    const stop = this.story.running && el("button.stop", { type: "button", onclick: () => this.cancel() }, "Stop");
    this.head.replaceChildren(
      el("h2", {}, method),
      ...[corpus && el("span.dim", {}, `over ${corpus}`), stop].filter(Boolean),
    );
  }

  /** Draw at most once a frame, however fast steps come. */
  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.story.running) this.now(this.story);
    });
  }

  now(story) {
    this.reasoning.hidden = story.steps.size === 0;
    this.drawing.show(story);
    this.status.textContent = story.running ? doing(story) : "";
    this.status.hidden = !story.running;
  }

  whole() {
    this.named();
    this.now(this.story);
    if (!this.story.answer) return;
    this.answer.replaceChildren(...reply(this.story, this.element));
    this.sources.replaceChildren(...[sources(this.story)].filter(Boolean));
    this.cost.replaceChildren(...[cost(this.story)].filter(Boolean));
    this.replayed();
  }

  failed(error) {
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

  inspect(node, button) {
    this.inspector.show(this.story, node, button);
    this.inspector.onclose = () => this.drawing.mark(null);
  }

  /** A slider over the steps, and a button that goes through them at a pace one can follow. */
  replayed() {
    const many = this.story.steps.size;
    this.replay.hidden = many < 3;
    const told = el("output", {}, count(many, "step"));
    const slider = el("input", {
      type: "range",
      min: 1,
      max: many,
      value: many,
      "aria-label": "Steps shown",
      oninput: () => {
        halt();
        show();
      },
    });
    const play = el("button.plain", { type: "button", onclick: () => (this.timer ? halt() : start()) }, "Replay");
    const show = () => {
      told.textContent = Number(slider.value) === many ? count(many, "step") : `${slider.value} of ${many}`;
      this.drawing.show(this.story.upTo(Number(slider.value)));
    };
    const halt = () => {
      clearInterval(this.timer);
      this.timer = null;
      play.textContent = "Replay";
    };
    const start = () => {
      if (Number(slider.value) === many) slider.value = 1;
      play.textContent = "Pause";
      show();
      this.timer = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        show();
        if (Number(slider.value) === many || !this.element.isConnected) halt();
      }, PACE);
    };
    this.replay.replaceChildren(play, slider, told);
  }
}

/** What a question is at, in a line. */
function doing(story) {
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
