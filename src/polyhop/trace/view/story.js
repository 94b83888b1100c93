// One question as it is known so far: its passages, steps and answer, gathered from events or read from a saved trace.

export class Story {
  constructor({ question = "", method = "", corpus = "", gold = null } = {}) {
    Object.assign(this, {
      id: null,
      question,
      method,
      corpus,
      gold, // of a question of a dataset: `{ids}` or `{titles}` of its gold passages
      settings: {},
      answer: null,
      budget: null,
      running: false,
    });
    this.passages = new Map();
    this.steps = new Map();
    this.ended = new Set();
  }

  /** A finished story, of an object as `GET /v1/traces/{id}` returns it. */
  static of(saved) {
    const story = new this(saved);
    Object.assign(story, {
      id: saved.trace_id ?? null,
      settings: saved.settings ?? {},
      budget: saved.trace.budget ?? null,
    });
    for (const passage of [...(saved.answer?.passages ?? []), ...Object.values(saved.trace.passages ?? {})])
      story.passages.set(passage.id, passage);
    for (const step of saved.trace.steps) story.take("step", step);
    story.steps.forEach((step) => story.ended.add(step.id));
    story.answer = saved.answer ?? null;
    return story;
  }

  /** The address of the story, if it has one; then the messages of its calls can be fetched too. */
  get permalink() {
    return null;
  }

  /** A promise of the messages of a call. */
  promptOf() {
    return Promise.resolve([]);
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
    const then = Object.assign(new this.constructor(this), {
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

  isGold(id) {
    const { ids, titles } = this.gold ?? {};
    return Boolean(ids ? ids.includes(id) : titles?.includes(this.passages.get(id)?.title));
  }

  /** The spans of a passage's text that were used, as `[start, end]` in characters: cited for the answer, or found by the reader. */
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
