// One question by one method: its answer, the drawing of its reasoning, its sources.

import { cost, reply, sources } from "./answer.js";
import { el } from "./dom.js";
import { Drawing } from "./drawing.js";
import { Story } from "./story.js";
import { count } from "./words.js";

const PACE = 160; // milliseconds per step of a replay

export class Panel {
  /** `inspector` shows the nodes that are picked; several panels may share one. */
  constructor(inspector) {
    this.inspector = inspector;
    this.story = new Story();
    this.head = el("header.of");
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
      this.reasoning,
      this.sources,
    );
  }

  /** Show a finished story. */
  open(story) {
    this.story = story;
    this.showHead();
    this.showAll();
  }

  showHead() {
    const { method, corpus } = this.story;
    this.head.replaceChildren(
      ...[method && el("h2", {}, method), corpus && el("span.dim", {}, `over ${corpus}`)].filter(Boolean),
    );
  }

  showSteps() {
    this.reasoning.hidden = this.story.steps.size === 0;
    this.drawing.show(this.story);
  }

  showAll() {
    this.showHead();
    this.showSteps();
    if (!this.story.answer) return;
    this.answer.replaceChildren(...reply(this.story, this.element));
    this.sources.replaceChildren(...[sources(this.story)].filter(Boolean));
    this.cost.replaceChildren(...[cost(this.story)].filter(Boolean));
    this.offerReplay();
  }

  inspect(node, button) {
    this.inspector.show(this.story, node, button);
    this.inspector.onclose = () => this.drawing.mark(null);
  }

  /** A slider over the steps, and a button that plays them. */
  offerReplay() {
    const total = this.story.steps.size;
    this.replay.hidden = total < 3;
    const shown = el("output", {}, count(total, "step"));
    const slider = el("input", {
      type: "range",
      min: 1,
      max: total,
      value: total,
      "aria-label": "Steps shown",
      oninput: () => {
        halt();
        show();
      },
    });
    const play = el("button.plain", { type: "button", onclick: () => (this.timer ? halt() : start()) }, "Replay");
    const show = () => {
      shown.textContent = Number(slider.value) === total ? count(total, "step") : `${slider.value} of ${total}`;
      this.drawing.show(this.story.upTo(Number(slider.value)));
    };
    const halt = () => {
      clearInterval(this.timer);
      this.timer = null;
      play.textContent = "Replay";
    };
    const start = () => {
      if (Number(slider.value) === total) slider.value = 1;
      play.textContent = "Pause";
      show();
      this.timer = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        show();
        if (Number(slider.value) === total || !this.element.isConnected) halt();
      }, PACE);
    };
    this.replay.replaceChildren(play, slider, shown);
  }
}
