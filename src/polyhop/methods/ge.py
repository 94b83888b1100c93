"""GE-Reasoning: the question as a graph of triplets with variables; each triplet a sub-question, each answer a binding.

Park, Patel, Khan, Kim, Kim: "Graph Elicitation for Guiding Multi-Step Reasoning in Large Language Models", 2024. No
public code.

Followed: Algorithm 1 and all of §3, with every ablation of Tables 2 to 5 as a setting.
Settled here where the paper is silent: the values of k1 and k2 (``retrieve_below``, ``keep_above``). The first
candidate in order is drawn (``sample`` draws at random, as in the paper). A draw counts whether it is kept or not. A
dropped triplet stays a candidate, behind all others; its next draw asks everything again, and after three draws it is
given up. The answer from retrieved knowledge replaces the first even if it is less sure; if the search finds nothing,
the first answer stays. An empty answer is never kept, nor is a non-answer, whose confidence is 0. A graph without a
candidate is answered without guidance. There, dropped sub-questions are shown without an answer, and a sub-question
that repeats an answered one, or was dropped three times, is the end. A triplet without a sub-question is asked as it
is. An answer whose probability is unknown is as sure as the least sure step it follows from, which ``keep_above``
limits.

Example: "Who is the spouse of the director of The Golden Calf?" The graph is (The Golden Calf; director; name: #1) and
(name: #1; spouse; name: #2). The first has one variable: who directed it? The answer is bound to #1 in both; now the
second has one: who is his spouse? Its answer leaves no candidate, and the question is answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.graph import QuestionGraph, Triplet, key, triplet_text
from polyhop.methods.registry import method, select
from polyhop.methods.voting import majority
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.ge import (
    GE_ANSWER,
    GE_FILTER,
    GE_GRAPH,
    GE_SUBANSWER,
    GE_SUBQUESTION,
    GE_TRIPLETS,
    StepAnswer,
)
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run

TRIES = 3
"""Draws of one triplet, or of one sub-question without guidance, that may be dropped before it is given up."""

Share: TypeAlias = Annotated[float, Ge(0), Le(1)]
Confidence: TypeAlias = Literal["mean", "min", "agreement", "verbal"]


@dataclass(frozen=True, slots=True)
class Step:
    """A draw: its sub-question, its answer with its confidence, and the passages that were retrieved for it."""

    sub_question: str
    sentence: str
    answer: str
    confidence: float
    passages: tuple[Passage, ...] = ()

    @property
    def pair(self) -> dict[str, str]:
        """The step as the history shows it."""
        return {"sub_question": self.sub_question, "sentence": self.sentence, "answer": self.answer}


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
    parallel: bool

    @property
    def options(self) -> Any:
        """The options of every call."""
        return {"shots": self.shots}


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
    resampled: bool = settings["confidence"] in ("mean", "min") and settings["samples"] > 1
    tries = 1 + resampled  # one more if a reply comes without log-probabilities
    knowledge = settings["refine"] + (settings["refine"] and settings["triplet_filter"]) + tries
    step: int = 1 + tries + knowledge * (settings["open_book"] and settings["retrieve_below"] > 0)
    return int(settings["guidance"]) + step * int(settings["max_steps"]) + 1


@method(
    "ge",
    family="system",
    calls=11,
    paper="GE-Reasoning (Park et al., 2024)",
    layers=_layers,
    needs=("retriever",),
)
async def ge_reasoning(
    question: str,
    run: Run,
    *,
    k: Positive = 2,  # Appendix B
    max_steps: Positive = 10,  # §3.6, footnote 1: maximum number of draws
    retrieve_below: Share = 0.8,  # k1, §3.4: a less sure answer is looked up
    keep_above: Share = 0.4,  # k2, §3.5: a less sure answer is dropped
    temperature: Annotated[float, Ge(0)] = 0.6,  # §3.3, of the sub-answers
    shots: NonNegative = 6,  # Appendix B
    typed_variables: bool = True,  # §3.1, Table 5: `place: #1`, not `#1`
    guidance: bool = True,  # §3.2, Table 2: by the graph; without, the model names the next sub-question
    query: Literal["subquestion", "question"] = "subquestion",  # §3.4, Table 2: what is searched
    refine: bool = True,  # §3.4, Table 3: triplets of the passages instead of the passages
    triplet_filter: bool = True,  # §3.4: only those relevant to the sub-question
    filter: bool = True,  # §3.5, Table 3: drop answers less sure than keep_above
    open_book: bool = True,  # Table 4: false searches nothing
    sample: bool = False,  # Algorithm 1, line 8: draw at random
    confidence: Confidence = "mean",  # of the answer's tokens; the share of samples; or the model's own number
    samples: Positive = 5,  # number of answers per sub-question that "agreement" compares
    parallel: bool = False,  # beyond the paper: a round draws a candidate for every variable at once
) -> Answer:
    """Elicit the question's graph, answer its triplets one by one, binding their variables, then the question (§3)."""
    settings = select(Settings, locals())
    state = State(question)
    with run.gathering():
        if guidance:
            state.graph = await construct_graph(question, run, settings)  # lines 3 to 6
        if not state.graph.triplets:
            await answer_freely(state, run, settings, max_steps)
        state.queue = list({key(triplet): triplet for triplet in state.graph.triplets}.values())
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

    pairs = [step.pair for step in state.history]
    response = await run.ask(  # line 27
        GE_ANSWER, options=settings.options, final=True, question=question, history=pairs
    )
    evidence = tuple(Evidence(step.passages, step.answer) for step in state.history if step.passages)
    names = ("draws", "bindings", "dropped", "retrievals", "retrievals_saved")
    return Answer(
        response.answer,
        passages=tuple(state.retrieved),
        evidence=evidence,
        supported=bool(evidence),
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
        asked = await run.ask(  # line 9
            GE_SUBQUESTION, options=settings.options, triplet=now, question=None, history=None
        )
        step = await answer_sub_question(asked.sub_question or triplet_text(now), state, run, settings)
        branch.verdict = "bound" if is_kept(step, settings) else "dropped"
    return step


async def answer_sub_question(sub_question: str, state: State, run: Run, settings: Settings) -> Step:
    """Answer from the model's own knowledge; if it is not sure, from retrieved knowledge (§3.3, §3.4)."""
    state.counts["draws"] += 1
    own_knowledge = {"triplets": None, "passages": None}
    step = await sub_answer(sub_question, own_knowledge, (), state, run, settings)  # line 10
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
    return await sub_answer(sub_question, knowledge, tuple(hits), state, run, settings)  # line 14


async def sub_answer(
    sub_question: str,
    knowledge: Mapping[str, Any],
    hits: tuple[Passage, ...],
    state: State,
    run: Run,
    settings: Settings,
) -> Step:
    """Answer a sub-question from the given knowledge, and measure the model's confidence (§3.3)."""
    logprobs = settings.confidence in ("mean", "min")
    options: Any = {**settings.options, "temperature": settings.temperature, "logprobs": logprobs}
    fields: dict[str, Any] = {
        "question": state.question,
        "history": [step.pair for step in state.history],
        "sub_question": sub_question,
        **knowledge,
        "verbal": settings.confidence == "verbal",
    }

    async def ask() -> StepAnswer:
        return await run.ask(GE_SUBANSWER, options=options, **fields)

    agreement = settings.confidence == "agreement"
    replies = await run.gather(*(ask() for _ in range(settings.samples))) if agreement else [await ask()]
    confidence = None if agreement else _confidence(replies[0], settings.confidence)
    if confidence is None:  # agreement, or a model that gives no log-probabilities
        replies += await run.gather(*(ask() for _ in range(settings.samples - len(replies))))
    vote = majority(replies)
    best = (vote.winners or replies)[0]
    if best.declines(best.answer):  # "unknown" is no answer, and has no confidence
        return Step(sub_question, "", "", 0.0, hits)
    return Step(sub_question, best.sentence, best.answer, vote.share if confidence is None else confidence, hits)


async def refine(hits: Sequence[Passage], sub_question: str, run: Run, settings: Settings) -> dict[str, Any]:
    """Extract the triplets of the passages and filter them by the sub-question (§3.4, line 13)."""
    passages_only = {"triplets": None, "passages": list(hits)}
    if not settings.refine:
        return passages_only

    async def extract(passage: Passage) -> list[dict[str, str]]:
        found = await run.ask(GE_TRIPLETS, options=settings.options, passage=passage)
        return [triplet.model_dump() for triplet in found.triplets]

    by_passage = await run.gather(*map(extract, hits))
    triplets = list({key(triplet): triplet for found in by_passage for triplet in found}.values())
    if not triplets:
        return passages_only
    if settings.triplet_filter:
        chosen = await run.ask(GE_FILTER, options=settings.options, triplets=triplets, sub_question=sub_question)
        relevant = {key(triplet.model_dump()) for triplet in chosen.triplets}
        triplets = [triplet for triplet in triplets if key(triplet) in relevant] or triplets
    return {"triplets": triplets, "passages": None}


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
            asked = await run.ask(
                GE_SUBQUESTION, options=settings.options, triplet=None, question=state.question, history=list(pairs)
            )
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
            pairs.append({"sub_question": step.sub_question, "sentence": "", "answer": ""})


def _confidence(reply: StepAnswer, confidence: Confidence) -> float | None:
    """The model's confidence in its answer, 0 if it gave none; None if its reply does not tell."""
    if reply.answer and reply.declines(reply.answer):
        return 0.0
    if confidence == "verbal":
        return (reply.confidence or 0.0) if reply.answer else 0.0
    if not reply.answer:
        return 0.0 if reply.completion.logprobs else None
    return reply.probability(reply.answer, least=confidence == "min")


def _overall_confidence(response: Response, history: Sequence[Step]) -> float | None:
    """The model's own probability of the answer; if it is unknown, the least confidence of the steps."""
    if not response.answer:
        return 0.0
    probability = response.probability(response.answer)
    return min((step.confidence for step in history), default=None) if probability is None else probability
