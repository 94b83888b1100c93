"""GE-Reasoning: the question as a graph of triplets with variables; each triplet a sub-question, each answer a binding.

Park, Patel, Khan, Kim, Kim: "Graph Elicitation for Guiding Multi-Step Reasoning in Large Language Models", 2024. No
public code.

Followed: Algorithm 1, §3 whole, with every ablation of Tables 2 to 5 as a setting.
Settled here where the paper is silent: k1 and k2 (``retrieve_below``, ``keep_above``; it names no values); of the
candidates the first in order is drawn (``sample`` draws at random, as the paper); a draw counts, kept or not; a dropped
triplet stays a candidate behind all others, its next draw asks everything again, and after three draws in vain it is
given up; the answer from retrieved knowledge replaces the first even if less sure; a search that finds nothing leaves
the first answer as it is; an empty answer is never kept, nor is a non-answer, whose confidence is 0; a graph without a
candidate is answered without guidance, where sub-questions that were dropped are shown without an answer, and one that
is asked again, though answered or dropped three times, is the end; a triplet that gets no sub-question is asked as it
stands; an answer whose probability the model does not tell is as sure as the least sure step it follows from, which is
what ``keep_above`` bounds.

Example: "Who is the spouse of the director of The Golden Calf?" The graph is (The Golden Calf; director; name: #1) and
(name: #1; spouse; name: #2). The first has one variable: who directed it? The answer is bound to #1 in both; now the
second has one: who is his spouse? Its answer leaves no candidate, and the question is answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.graph import QuestionGraph, Triplet, key, told
from polyhop.methods.registry import method
from polyhop.methods.voting import majority
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.ge import StepAnswer, SubQuestion, Triplets
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run

TRIES = 3
"""Draws of one triplet, or of one sub-question without guidance, that may be dropped before it is given up."""

Share: TypeAlias = Annotated[float, Ge(0), Le(1)]
Confidence: TypeAlias = Literal["mean", "min", "agreement", "verbal"]


@dataclass(frozen=True, slots=True)
class Step:
    """One draw: its sub-question, its answer, how sure that is, and the passages that were retrieved for it."""

    sub_question: str
    sentence: str
    answer: str
    confidence: float
    passages: tuple[Passage, ...] = ()

    @property
    def pair(self) -> dict[str, str]:
        """The step as the history shows it."""
        return {"sub_question": self.sub_question, "sentence": self.sentence, "answer": self.answer}


def _layers(settings: Mapping[str, Any]) -> int:
    """A graph, then for each draw a sub-question, its answer, and with retrieval triplets, filter and answer again."""
    told_apart: bool = settings["confidence"] in ("mean", "min") and settings["samples"] > 1
    tries = 1 + told_apart  # one more where a reply comes without log-probabilities
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
    max_steps: Positive = 10,  # §3.6, footnote 1: draws at most
    retrieve_below: Share = 0.8,  # k1, §3.4: an answer less sure is looked up
    keep_above: Share = 0.4,  # k2, §3.5: one less sure is dropped
    temperature: Annotated[float, Ge(0)] = 0.6,  # §3.3, of the sub-answers
    shots: NonNegative = 6,  # Appendix B
    typed_variables: bool = True,  # §3.1, Table 5: `place: #1`, not `#1`
    guidance: bool = True,  # §3.2, Table 2: by the graph; without, the model names the next sub-question
    query: Literal["subquestion", "question"] = "subquestion",  # §3.4, Table 2: what is searched
    refine: bool = True,  # §3.4, Table 3: triplets of the passages instead of the passages
    triplet_filter: bool = True,  # §3.4: only those that bear on the sub-question
    filter: bool = True,  # §3.5, Table 3: drop what is less sure than keep_above
    open_book: bool = True,  # Table 4: false searches nothing
    sample: bool = False,  # Algorithm 1, line 8: draw at random
    confidence: Confidence = "mean",  # of the answer's tokens; the share of samples; or its own word
    samples: Positive = 5,  # answers of one sub-question that "agreement" compares
    parallel: bool = False,  # beyond the paper: a round draws a candidate for every variable at once
) -> Answer:
    """Elicit the question's graph, answer its triplets one by one, binding their variables, then the question (§3)."""
    shown: Any = {"shots": shots}
    history: list[Step] = []
    retrieved: dict[Passage, None] = {}
    count: Counter[str] = Counter()
    graph = QuestionGraph()
    queue: list[Triplet] = []  # the graph's triplets; a dropped one goes to the back
    tries: Counter[Any] = Counter()  # draws in vain, by triplet or sub-question

    async def construct_graph() -> QuestionGraph:
        found: Triplets = await run.ask("ge.graph", options=shown, question=question, typed=typed_variables)
        graph = QuestionGraph.of([triplet.model_dump() for triplet in found.triplets], typed=typed_variables)
        if graph.triplets:
            run.note("graph", triplets=[told(triplet) for triplet in graph.triplets])
        else:
            run.note("empty graph", fallback="no guidance")
        return graph

    def drawn() -> list[Triplet]:
        candidates = [triplet for triplet in queue if len(graph.unbound(triplet)) == 1]  # C, lines 6 and 22
        if sample:
            run.random.shuffle(candidates)
        if not parallel:
            return candidates[:1]
        by_variable = {graph.unbound(triplet): triplet for triplet in reversed(candidates)}
        return [triplet for triplet in candidates if by_variable[graph.unbound(triplet)] is triplet]

    async def draw(triplet: Triplet) -> Step:
        now = graph.shown(triplet)
        with run.branch("triplet", told(now)) as place:
            asked: SubQuestion = await run.ask(  # line 9
                "ge.subquestion", options=shown, triplet=now, question=None, history=None
            )
            step = await answered(asked.sub_question or told(now))
            place.verdict = "bound" if kept(step) else "dropped"
        return step

    async def answered(sub_question: str) -> Step:
        count["draws"] += 1
        step = await sub_answer(sub_question, {"triplets": None, "passages": None})  # line 10
        if not open_book:
            return step
        if step.confidence >= retrieve_below:
            count["retrievals_saved"] += 1
            return step
        count["retrievals"] += 1
        hits = await run.search(sub_question if query == "subquestion" else question, k)  # line 12
        if not hits:
            return step
        return await sub_answer(sub_question, await knowledge(hits, sub_question), tuple(hits))  # line 14

    async def sub_answer(sub_question: str, known: Mapping[str, Any], hits: tuple[Passage, ...] = ()) -> Step:
        options: Any = {**shown, "temperature": temperature, "logprobs": confidence in ("mean", "min")}
        fields: dict[str, Any] = {
            "question": question,
            "history": [step.pair for step in history],
            "sub_question": sub_question,
        }
        verbal = confidence == "verbal"

        async def ask() -> StepAnswer:
            reply: StepAnswer = await run.ask("ge.subanswer", options=options, **fields, **known, verbal=verbal)
            return reply

        agreed = confidence == "agreement"
        replies = await run.gather(*(ask() for _ in range(samples))) if agreed else [await ask()]
        sure = None if agreed else _sureness(replies[0], confidence)
        if sure is None:  # agreement, or a model that gives no log-probabilities
            replies += await run.gather(*(ask() for _ in range(samples - len(replies))))
        vote = majority(replies)
        best = (vote.winners or replies)[0]
        if best.declines(best.answer):  # "unknown" is no answer, and sure of nothing
            return Step(sub_question, "", "", 0.0, hits)
        return Step(sub_question, best.sentence, best.answer, vote.share if sure is None else sure, hits)

    async def knowledge(hits: Sequence[Passage], sub_question: str) -> dict[str, Any]:
        raw = {"triplets": None, "passages": list(hits)}
        if not refine:
            return raw

        async def extract(passage: Passage) -> list[dict[str, str]]:
            found: Triplets = await run.ask("ge.triplets", options=shown, passage=passage)
            return [triplet.model_dump() for triplet in found.triplets]

        found = await run.gather(*map(extract, hits))
        extracted = list({key(triplet): triplet for triplets in found for triplet in triplets}.values())
        if not extracted:
            return raw
        if triplet_filter:  # line 13
            chosen: Triplets = await run.ask("ge.filter", options=shown, triplets=extracted, sub_question=sub_question)
            relevant = {key(triplet.model_dump()) for triplet in chosen.triplets}
            extracted = [triplet for triplet in extracted if key(triplet) in relevant] or extracted
        return {"triplets": extracted, "passages": None}

    def kept(step: Step) -> bool:
        return bool(step.answer) and not (filter and step.confidence < keep_above)  # line 16

    def conclude(triplet: Triplet | None, step: Step) -> None:
        nonlocal graph
        retrieved.update(dict.fromkeys(step.passages))  # here, in the order of the draws, also where they went together
        if not kept(step):
            count["dropped"] += 1
            if triplet is not None:
                postpone(triplet)
            return
        history.append(step)
        if triplet is not None:
            number = min(graph.unbound(triplet))
            graph = graph.bind(triplet, step.answer)  # line 19
            count["bindings"] += 1
            bound = [told(graph.shown(each)) for each in graph.triplets]
            run.note("binding", variable=f"#{number}", answer=step.answer, graph=bound)

    def postpone(triplet: Triplet) -> None:
        """Put a dropped triplet behind all others; after its last try, leave it out."""
        queue.remove(triplet)
        tries[key(triplet)] += 1
        if tries[key(triplet)] < TRIES:
            queue.append(triplet)
        else:
            run.note("given up", triplet=told(graph.shown(triplet)))

    async def follow_the_graph() -> None:
        queue.extend({key(triplet): triplet for triplet in graph.triplets}.values())
        while count["draws"] < max_steps and (round_ := drawn()[: max_steps - count["draws"]]):  # lines 8 and 23
            if len(round_) == 1:
                conclude(round_[0], await draw(round_[0]))
                continue
            for triplet, step in zip(round_, await run.gather(*map(draw, round_)), strict=True):
                conclude(triplet, step)

    async def ask_freely() -> None:
        pairs: list[dict[str, str]] = []  # the history, and what was dropped from it without its answer
        while count["draws"] < max_steps:
            with run.branch("step", f"({len(history) + 1})") as place:
                asked: SubQuestion = await run.ask(
                    "ge.subquestion", options=shown, triplet=None, question=question, history=list(pairs)
                )
                wanted = normalise(asked.sub_question or "")
                before = {normalise(step.sub_question) for step in history}
                if asked.sub_question is None or wanted in before or tries[wanted] == TRIES:
                    place.verdict = "end"
                    return
                step = await answered(asked.sub_question)
                place.verdict = "kept" if kept(step) else "dropped"
            pairs = [pair for pair in pairs if normalise(pair["sub_question"]) != wanted]
            pairs.append(step.pair if kept(step) else {"sub_question": step.sub_question, "sentence": "", "answer": ""})
            tries[wanted] += not kept(step)
            conclude(None, step)

    with run.gathering():
        if guidance:
            graph = await construct_graph()  # lines 3 to 6
        await (follow_the_graph() if graph.triplets else ask_freely())

    response: Response = await run.ask(  # line 27
        "ge.answer", options=shown, final=True, question=question, history=[step.pair for step in history]
    )
    evidence = tuple(Evidence(step.passages, step.answer) for step in history if step.passages)
    names = ("draws", "bindings", "dropped", "retrievals", "retrievals_saved")
    return Answer(
        response.answer,
        passages=tuple(retrieved),
        evidence=evidence,
        supported=bool(evidence),
        confidence=_sure_of_all(response, history),
        statistics={"triplets": len(graph.triplets), **{name: count[name] for name in names}},
    )


def _sureness(reply: StepAnswer, confidence: Confidence) -> float | None:
    """How sure a model is of its answer, 0 where it gave none; None where its reply does not tell."""
    if reply.answer and reply.declines(reply.answer):
        return 0.0
    if confidence == "verbal":
        return (reply.confidence or 0.0) if reply.answer else 0.0
    if not reply.answer:
        return 0.0 if reply.completion.logprobs else None
    return reply.probability(reply.answer, least=confidence == "min")


def _sure_of_all(response: Response, history: Sequence[Step]) -> float | None:
    """How sure the answer is: by the model's own probability of it, else by the least sure of the steps."""
    if not response.answer:
        return 0.0
    told = response.probability(response.answer)
    return min((step.confidence for step in history), default=None) if told is None else told
