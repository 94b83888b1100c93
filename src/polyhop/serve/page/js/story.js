// One question as it is known so far: its passages, steps and answer, folded from events or read from a kept trace.

export class Story {
  constructor({ question = "", method = "", corpus = "" } = {}) {
    Object.assign(this, {
      id: null,
      question,
      method,
      corpus,
      settings: {},
      answer: null,
      budget: null,
      running: false,
    });
    this.passages = new Map();
    this.steps = new Map();
    this.ended = new Set();
  }

  /** A story told to its end: what `GET /v1/traces/{id}` gives. */
  static of(told) {
    const story = new Story(told);
    Object.assign(story, {
      id: told.trace_id ?? null,
      settings: told.settings ?? {},
      budget: told.trace.budget ?? null,
    });
    for (const passage of [...(told.answer?.passages ?? []), ...Object.values(told.trace.passages ?? {})])
      story.passages.set(passage.id, passage);
    for (const step of told.trace.steps) story.take("step", step);
    story.steps.forEach((step) => story.ended.add(step.id));
    story.answer = told.answer ?? null;
    return story;
  }

  /** Take in one event of the stream. */
  take(event, data) {
    if (event === "start") {
      Object.assign(this, {
        id: data.trace_id,
        question: data.question,
        method: data.method,
        corpus: data.corpus,
        settings: data.settings ?? {},
      });
    } else if (event === "passages") {
      for (const [id, passage] of Object.entries(data)) this.passages.set(id, passage);
    } else if (event === "step") {
      if (this.steps.has(data.id) || data.kind !== "branch") this.ended.add(data.id);
      this.steps.set(data.id, data);
    } else if (event === "answer") {
      this.answer = data;
      for (const passage of data.passages ?? []) this.passages.set(passage.id, passage);
    }
  }

  /** The steps in the algorithm's order. */
  get inOrder() {
    return [...this.steps.values()].sort((one, other) => one.id - other.id);
  }

  /** The story as it stood when it had `many` steps: a branch whose parts were still to come had no verdict yet. */
  upTo(many) {
    const all = this.inOrder;
    if (many >= all.length) return this;
    const then = Object.assign(new Story(this), {
      id: this.id,
      settings: this.settings,
      passages: this.passages,
      running: true,
    });
    const shown = all.slice(0, many);
    const open = new Set();
    for (const step of all.slice(many))
      for (let up = step.parent; up !== null && up !== undefined; up = this.steps.get(up)?.parent) open.add(up);
    if (shown.length) open.add(shown.at(-1).id);
    for (const step of shown) {
      const under = step.kind === "branch" && open.has(step.id);
      then.steps.set(step.id, under ? { ...step, verdict: null } : step);
      if (!under) then.ended.add(step.id);
    }
    return then;
  }

  titleOf(id) {
    return this.passages.get(id)?.title || id;
  }

  /** Where a passage's text was used, as `[start, end]` in characters: cited for the answer, or read off it. */
  spans(id) {
    const cited = (this.answer?.citations ?? []).filter(
      (each) => each.passage_id === id && Number.isInteger(each.start),
    );
    const read = this.inOrder.flatMap((step) =>
      step.kind === "read" ? (step.spans ?? []).filter((span) => span.passage_id === id).slice(0, 1) : [],
    );
    return [...cited, ...read].map(({ start, end }) => [start, end]);
  }

  /** The numbers under which an answer cites a passage. */
  markers(id) {
    return (this.answer?.citations ?? []).filter((each) => each.passage_id === id).map((each) => each.marker);
  }
}
