"""GE-Reasoning: the question as a graph of triplets with variables; each triplet a sub-question, each answer a binding.

Park, Patel, Khan, Kim, Kim: "Graph Elicitation for Guiding Multi-Step Reasoning in Large Language Models", 2024. No
public code.

Followed: Algorithm 1 and all of §3, with every ablation of Tables 2 to 5 as a setting.
Settled here where the paper is silent: the values of k1 and k2 (``retrieve_below``, ``keep_above``), and ten draws
(line 23 reads as nine, footnote 1 says ten). The first candidate in order is drawn (``sample`` draws at random, as in
the paper). A draw counts whether it is kept or not. A dropped triplet stays a candidate, behind all others; after three
draws it is given up. Greedy calls are made once per question, so a second draw of a triplet begins at its sub-answer.
Both sub-answers see the history (line 14 shows the second none). The answer from retrieved knowledge replaces the first
even if it is less sure; if the search finds nothing, the first answer stays. If no triplet can be extracted from the
passages, they are read themselves; if the filter leaves no triplet, the sub-question is answered without knowledge; if
its reply cannot be read, it leaves all. An empty answer is never kept, nor is a non-answer, whose confidence is 0. A
graph without a candidate is answered without guidance. There, dropped sub-questions are shown without an answer, and a
sub-question that repeats an answered one, or was dropped three times, is the end. A triplet without a sub-question is
asked as it is. An answer whose probability is unknown is as sure as the least sure step it follows from, which
``keep_above`` limits.

Example: "Who is the spouse of the director of The Golden Calf?" The graph is (The Golden Calf; director; name: #1) and
(name: #1; spouse; name: #2). The first has one variable: who directed it? The answer is bound to #1 in both; now the
second has one: who is his spouse? Its answer leaves no candidate, and the question is answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.confidence import BY_TOKENS, Confidence, announce_samples, confidence_needs, confident_answer
from polyhop.methods.context import fit_fields
from polyhop.methods.graph import QuestionGraph, Triplet, distinct, triplet_text
from polyhop.methods.registry import method, select
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.ge import (
    GE_ANSWER,
    GE_EXTRACT,
    GE_FILTER,
    GE_GRAPH,
    GE_SUBANSWER,
    GE_SUBQUESTION,
    GE_TRIPLETS,
)
from polyhop.prompts.triplets import key, named_triplets
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run

TRIES = 3
"""Draws of one triplet, or of one sub-question without guidance, that may be dropped before it is given up."""

Share: TypeAlias = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True, slots=True)
class Step:
    """A draw: its sub-question, its answer with its confidence, and the passages retrieved for it.

    ``sources``: those of the passages whose knowledge the answer was given.
    """

    sub_question: str
    sentence: str = ""
    answer: str = ""
    confidence: float = 0.0
    passages: tuple[Passage, ...] = ()
    sources: tuple[Passage, ...] = ()

    @property
    def pair(self) -> dict[str, str]:
        """The step as the history shows it."""
        return {"sub_question": self.sub_question, "sentence": self.sentence, "answer": self.answer}


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The knowledge for a sub-answer: triplets, or whole passages, and the passages it comes from."""

    triplets: Sequence[Triplet] = ()
    passages: Sequence[Passage] = ()
    sources: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that the steps of Algorithm 1 read, under the names of the method's."""

    k: int
    retrieve_below: float
    keep_above: float
    temperature: float
    shots: int
    typed_variables: bool
    query: Literal["subquestion", "question"]
    refine: bool
    triplet_filter: bool
    filter: bool
    open_book: bool
    sample: bool
    confidence: Confidence
    samples: int
    context_tokens: int
    extract: Literal["passage", "query"]
    parallel: bool

    @property
    def options(self) -> Any:
        """The options of every call."""
        return {"shots": self.shots}

    def fit(self, task: Task[Any], run: Run, **fields: Any) -> dict[str, Any]:
        """Return the fields of a call, shortened to ``context_tokens``."""
        return fit_fields(task, run, options=self.options, context_tokens=self.context_tokens, **fields)


@dataclass(slots=True)
class State:
    """The state of one question: its graph, the triplets still to answer, and the history."""

    question: str
    graph: QuestionGraph = field(default_factory=QuestionGraph)
    queue: list[Triplet] = field(default_factory=list)  # the triplets of the graph; a dropped one goes to the back
    history: list[Step] = field(default_factory=list)
    retrieved: dict[Passage, None] = field(default_factory=dict)
    failures: Counter[Any] = field(default_factory=Counter)  # dropped draws, by triplet or sub-question
    counts: Counter[str] = field(default_factory=Counter)


def _layers(settings: Mapping[str, Any]) -> int:
    """Count the layers: a graph; per draw a sub-question and its answer, with retrieval triplets, filter and answer."""
    resampled: bool = settings["confidence"] in BY_TOKENS and settings["samples"] > 1
    tries = 1 + resampled  # one more if a reply comes without log-probabilities
    filtered: bool = settings["triplet_filter"] and settings["extract"] == "passage"
    knowledge = settings["refine"] * (1 + filtered) + tries
    step: int = 1 + tries + knowledge * (settings["open_book"] and settings["retrieve_below"] > 0)
    return int(settings["guidance"]) + step * int(settings["max_steps"]) + 1


def _needs(settings: Mapping[str, Any]) -> list[str]:
    needs = confidence_needs(settings["confidence"], settings["temperature"])
    return [*needs, "retriever"] if settings["open_book"] else needs


@method(
    "ge",
    family="system",
    calls=11,
    paper="GE-Reasoning (Park et al., 2024)",
    layers=_layers,
    needs=_needs,
)
async def ge_reasoning(
    question: str,
    run: Run,
    *,
    k: Positive = 2,  # Appendix B
    max_steps: Positive = 10,  # §3.6, footnote 1: maximum number of draws
    retrieve_below: Share = 0.9,  # k1, §3.4: a less confident answer is looked up
    keep_above: Share = 0.4,  # k2, §3.5: a less confident answer is dropped
    temperature: Annotated[float, Ge(0)] = 0.6,  # §3.3, of the sub-answers
    shots: NonNegative = 6,  # Appendix B
    typed_variables: bool = True,  # §3.1, Table 5: `place: #1`, not `#1`
    guidance: bool = True,  # §3.2, Table 2: the graph guides; false: the model names the next sub-question
    query: Literal["subquestion", "question"] = "subquestion",  # §3.4, Table 2: what is searched
    refine: bool = True,  # §3.4, Table 3: triplets of the passages instead of the passages
    triplet_filter: bool = True,  # §3.4: only those relevant to the sub-question
    filter: bool = True,  # §3.5, Table 3: drop answers below keep_above
    open_book: bool = True,  # Table 4: false searches nothing
    sample: bool = False,  # Algorithm 1, line 8: draw at random
    confidence: Confidence = "mean",  # of the answer's tokens or the sentence's; share of samples; the model's number
    samples: Positive = 5,  # number of answers per sub-question that "agreement" compares
    context_tokens: Positive = 4096,  # ToR §4.4: of a whole prompt
    extract: Literal["passage", "query"] = "passage",  # beyond the paper: query makes one call of extraction and filter
    parallel: bool = False,  # beyond the paper: draw a candidate for every variable at once
) -> Answer:
    """Elicit the question's graph, answer its triplets one by one to bind variables, then answer the question (§3)."""
    settings = select(Settings, locals())
    state = State(question)
    announce_samples(confidence, samples, run)
    with run.gathering():
        if guidance:
            state.graph = await construct_graph(question, run, settings)  # lines 3 to 6
        if not state.graph.triplets:
            await answer_freely(state, run, settings, max_steps)
        state.queue = distinct(state.graph.triplets)
        while (draws := max_steps - state.counts["draws"]) and (drawn := draw(state, run, settings)[:draws]):  # line 23
            if len(drawn) == 1:
                steps = [await answer_triplet(drawn[0], state, run, settings)]
            else:
                steps = await run.gather(*(answer_triplet(triplet, state, run, settings) for triplet in drawn))
            for triplet, step in zip(drawn, steps, strict=True):
                state.retrieved.update(dict.fromkeys(step.passages))
                if is_kept(step, settings):
                    state.history.append(step)
                    bind(triplet, step.answer, state, run)
                else:
                    state.counts["dropped"] += 1
                    postpone(triplet, state, run)

    fields = settings.fit(GE_ANSWER, run, question=question, history=[step.pair for step in state.history])
    response = await run.ask(GE_ANSWER, options=settings.options, final=True, **fields)  # line 27
    evidence = tuple(Evidence(step.sources, step.answer) for step in state.history if step.sources)
    names = ("draws", "bindings", "dropped", "retrievals", "retrievals_saved")
    return Answer(
        response.answer,
        passages=tuple(state.retrieved),
        evidence=evidence,
        confidence=_overall_confidence(response, state.history),
        statistics={"triplets": len(state.graph.triplets), **{name: state.counts[name] for name in names}},
    )


async def construct_graph(question: str, run: Run, settings: Settings) -> QuestionGraph:
    """Elicit the graph of the question (§3.1; lines 3 to 6)."""
    found = await run.ask(GE_GRAPH, options=settings.options, question=question, typed=settings.typed_variables)
    triplets = [triplet.model_dump() for triplet in found.triplets]
    graph = QuestionGraph.of(triplets, typed=settings.typed_variables)
    if graph.triplets:
        run.note("graph", triplets=[triplet_text(triplet) for triplet in graph.triplets])
    else:
        run.note("empty graph", fallback="no guidance")
    return graph


def draw(state: State, run: Run, settings: Settings) -> list[Triplet]:
    """Draw a triplet with one unbound variable; with ``parallel`` one for every variable (lines 6, 8 and 22)."""
    candidates = [triplet for triplet in state.queue if len(state.graph.unbound(triplet)) == 1]  # C, lines 6 and 22
    if settings.sample:
        run.random.shuffle(candidates)
    if not settings.parallel:
        return candidates[:1]  # line 8
    by_variable = {state.graph.unbound(triplet): triplet for triplet in reversed(candidates)}
    return [triplet for triplet in candidates if by_variable[state.graph.unbound(triplet)] is triplet]


async def answer_triplet(triplet: Triplet, state: State, run: Run, settings: Settings) -> Step:
    """Ask for the triplet's sub-question and answer it (lines 9 to 14)."""
    now = state.graph.shown(triplet)
    with run.branch("triplet", triplet_text(now)) as branch:
        asked = await run.ask_once(  # line 9
            GE_SUBQUESTION, options=settings.options, triplet=now, question=None, history=None
        )
        step = await answer_sub_question(asked.sub_question or triplet_text(now), state, run, settings)
        branch.verdict = "bound" if is_kept(step, settings) else "dropped"
    return step


async def answer_sub_question(sub_question: str, state: State, run: Run, settings: Settings) -> Step:
    """Answer from the model's own knowledge; if it is not sure, from retrieved knowledge (§3.3, §3.4)."""
    state.counts["draws"] += 1
    step = await sub_answer(sub_question, Knowledge(), state, run, settings)  # line 10
    if not settings.open_book:
        return step
    if step.confidence >= settings.retrieve_below:
        state.counts["retrievals_saved"] += 1
        return step
    state.counts["retrievals"] += 1
    query = sub_question if settings.query == "subquestion" else state.question
    hits = await run.search(query, settings.k)  # line 12
    if not hits:
        return step
    knowledge = await refine(hits, sub_question, run, settings)  # line 13
    step = await sub_answer(sub_question, knowledge, state, run, settings)  # line 14
    return replace(step, passages=tuple(hits))


async def sub_answer(sub_question: str, knowledge: Knowledge, state: State, run: Run, settings: Settings) -> Step:
    """Answer a sub-question from the given knowledge, and measure the model's confidence (§3.3)."""
    fields = settings.fit(
        GE_SUBANSWER,
        run,
        question=state.question,
        history=[step.pair for step in state.history],
        sub_question=sub_question,
        triplets=list(knowledge.triplets) or None,
        passages=list(knowledge.passages) or None,
        verbal=settings.confidence == "verbal",
    )
    options: Any = {**settings.options, "temperature": settings.temperature}
    reply, confidence = await confident_answer(run, settings.confidence, settings.samples, options=options, **fields)
    if reply.declines(reply.answer):  # "unknown" is no answer
        return Step(sub_question)
    sources = _shown(knowledge.sources, fields) if knowledge.passages else knowledge.sources
    return Step(sub_question, reply.sentence, reply.answer, confidence, sources=sources)


async def refine(hits: Sequence[Passage], sub_question: str, run: Run, settings: Settings) -> Knowledge:
    """Extract the triplets of the passages and filter them by the sub-question (§3.4, line 13)."""
    if not settings.refine:
        return Knowledge(passages=hits, sources=tuple(hits))
    if settings.extract == "query":
        return await extract_relevant(hits, sub_question, run, settings)
    by_passage = await run.gather(*(extract(hit, run, settings) for hit in hits))
    triplets = distinct(triplet for found in by_passage for triplet in found)
    if not triplets:
        return Knowledge(passages=hits, sources=tuple(hits))
    if settings.triplet_filter:
        fields = settings.fit(GE_FILTER, run, triplets=triplets, sub_question=sub_question)
        chosen = await run.ask_once(GE_FILTER, options=settings.options, **fields)
        if chosen.parsed:
            triplets = named_triplets([triplet.model_dump() for triplet in chosen.triplets], fields["triplets"])
    kept = set(map(key, triplets))
    sources = [hit for hit, found in zip(hits, by_passage, strict=True) if kept.intersection(map(key, found))]
    return Knowledge(triplets=triplets, sources=tuple(sources))


async def extract(passage: Passage, run: Run, settings: Settings) -> list[Triplet]:
    """Extract all triplets of a passage (§3.4)."""
    fields = settings.fit(GE_TRIPLETS, run, passage=passage)
    if not fields["passage"]:
        return []
    found = await run.ask_once(GE_TRIPLETS, options=settings.options, **fields)
    return [triplet.model_dump() for triplet in found.triplets]


def is_kept(step: Step, settings: Settings) -> bool:
    """Keep an answer unless the model is less sure of it than k2 (§3.5, line 16)."""
    return bool(step.answer) and not (settings.filter and step.confidence < settings.keep_above)


def bind(triplet: Triplet, answer: str, state: State, run: Run) -> None:
    """Bind the triplet's variable to the answer in the whole graph (§3.5, line 19)."""
    (number,) = state.graph.unbound(triplet)
    state.graph = state.graph.bind(triplet, answer)
    state.counts["bindings"] += 1
    triplets = [triplet_text(state.graph.shown(triplet)) for triplet in state.graph.triplets]
    run.note("binding", variable=f"#{number}", answer=answer, graph=triplets)


def postpone(triplet: Triplet, state: State, run: Run) -> None:
    """Put a dropped triplet behind all others; after its last try, remove it."""
    state.queue.remove(triplet)
    state.failures[key(triplet)] += 1
    if state.failures[key(triplet)] < TRIES:
        state.queue.append(triplet)
    else:
        run.note("given up", triplet=triplet_text(state.graph.shown(triplet)))


async def answer_freely(state: State, run: Run, settings: Settings, max_steps: int) -> None:
    """Let the model name each next sub-question until it names none or repeats one (Table 2, no guidance)."""
    pairs: list[dict[str, str]] = []  # the history, and the dropped sub-questions without their answers
    while state.counts["draws"] < max_steps:
        with run.branch("step", f"({len(state.history) + 1})") as branch:
            fields = settings.fit(GE_SUBQUESTION, run, triplet=None, question=state.question, history=list(pairs))
            asked = await run.ask_once(GE_SUBQUESTION, options=settings.options, **fields)
            name = normalise(asked.sub_question or "")
            answered = {normalise(step.sub_question) for step in state.history}
            if asked.sub_question is None or name in answered or state.failures[name] == TRIES:
                branch.verdict = "end"
                return
            step = await answer_sub_question(asked.sub_question, state, run, settings)
            kept = is_kept(step, settings)
            branch.verdict = "kept" if kept else "dropped"
        state.retrieved.update(dict.fromkeys(step.passages))
        pairs = [pair for pair in pairs if normalise(pair["sub_question"]) != name]
        if kept:
            state.history.append(step)
            pairs.append(step.pair)
        else:
            state.failures[name] += 1
            state.counts["dropped"] += 1
            pairs.append(Step(step.sub_question).pair)


def _shown(hits: Sequence[Passage], fields: Mapping[str, Any]) -> tuple[Passage, ...]:
    """Return the hits of which the prompt shows more than the title."""
    with_text = {passage.id for passage in fields["passages"] or () if passage.text}
    return tuple(hit for hit in hits if hit.id in with_text)


def _overall_confidence(response: Response, history: Sequence[Step]) -> float | None:
    """Return the model's own probability of the answer; if it is unknown, the least confidence of the steps."""
    if not response.answer:
        return 0.0
    probability = response.probability(response.answer)
    return min((step.confidence for step in history), default=None) if probability is None else probability


# --- beyond the paper ------------------------------------------------------------------------------------------------


async def extract_relevant(hits: Sequence[Passage], sub_question: str, run: Run, settings: Settings) -> Knowledge:
    """Extract, in one call, only the triplets that help to answer the sub-question."""
    fields = settings.fit(GE_EXTRACT, run, passages=list(hits), sub_question=sub_question)
    found = await run.ask_once(GE_EXTRACT, options=settings.options, **fields)
    triplets = distinct(triplet.model_dump() for triplet in found.triplets)
    return Knowledge(triplets=triplets, sources=_shown(hits, fields) if triplets else ())
