"""Tree of Thoughts with retrieval: each thought is a sub-question that is searched; the best states are kept.

Yao, Yu, Zhao, Shafran, Griffiths, Cao, Narasimhan: "Tree of Thoughts: Deliberate Problem Solving with Large Language
Models", 2023; with retrieval as in SearChain §4.1.2, which gives no details.

Followed: Algorithm 1, breadth first. From every kept state, one call proposes thoughts (the propose prompt, §3). Each
new state is valued alone as sure, likely or impossible, which count 20, 1 and 0.001 as in the official code; the best
are kept. The numbers are the paper's for its tasks in words (Appendix B.1): 5 thoughts per state, 1 state kept.
Settled here: a thought is a sub-question with the passages of its search and the answer that the valuation reads in
them; a state is a path of thoughts. There are 3 steps, the turns of ToR §4.3; each state has one value, greedy (the
paper: ``values=3``, sampled). A thought without passages is impossible, without a call. A sure state ends the search,
and so does a step without a new thought. One more call answers from the thoughts and passages of the best state or, if
it has no passages, from those of all thoughts; without any, the question is answered by ``cot``. The best state's
passages are ranked first. Needs nothing beyond completion; more than one value needs a model that samples.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Of the thoughts of step 1, "Who led the
Kon-Tiki expedition?" finds Thor Heyerdahl: likely, the best. Of step 2, "In which town was Thor Heyerdahl born?" finds
Larvik: sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.text import distinct
from polyhop.methods.baselines.one_shot import chain_of_thought
from polyhop.methods.context import fit_to_context
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.decomposition import TOT_IR_ANSWER, TOT_IR_PROPOSE, TOT_IR_VALUE, Valuation
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

WORTH = {"sure": 20.0, "likely": 1.0, "impossible": 0.001}


@dataclass(frozen=True, slots=True)
class Thought:
    """A sub-question, the passages of its search, and its answer once it is valued."""

    sub_question: str
    passages: tuple[Passage, ...] = ()
    answer: str | None = None


State = tuple[Thought, ...]


@method(
    "tot-ir",
    family="iterative",
    calls=5,
    paper="Tree of Thoughts (Yao et al., 2023)",
    layers=lambda settings: 2 * int(settings["steps"]) + 1,
    needs=("retriever",),
)
async def tree_of_thoughts(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3
    steps: Positive = 3,  # ToR §4.3: maximum number of thoughts on a path
    breadth: Positive = 5,  # App. B.1: number of thoughts per state
    keep: Positive = 1,  # App. B.1: number of states kept
    values: Positive = 1,  # number per state; §4.1: 3
    temperature: Annotated[float, Ge(0)] = 0.7,  # §4
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Propose thoughts, search for them, rate the resulting states, and answer from the best one (Algorithm 1)."""
    options: Options = {"shots": shots}
    kept: list[State] = [()]
    found: list[Thought] = []
    valued = 0

    def fitted(task: Task[Any], passages: Sequence[Passage], **fields: Any) -> dict[str, Any]:
        """Return the fields of a call, with as many ``passages`` as ``context_tokens`` allows."""
        fields["question"] = question
        return fit_to_context(task, passages, run, options=options, context_tokens=context_tokens, **fields)

    async def propose(state: State) -> list[State]:
        """Extend the state by each of its next thoughts, searched (G)."""
        proposed = await run.ask(
            TOT_IR_PROPOSE, options=options, question=question, history=_history(state), count=breadth
        )
        queries = distinct(proposed.sub_questions, but=[thought.sub_question for thought in state])[:breadth]
        hits = await run.gather(*(run.search(query, k) for query in queries))
        return [(*state, Thought(query, tuple(of))) for query, of in zip(queries, hits, strict=True)]

    async def value(state: State) -> tuple[float, State]:
        """Return the value of the state, and the state with its last thought's answer (V)."""
        *before, last = state
        if not last.passages:  # there is nothing to read an answer from
            return WORTH["impossible"] * values, state
        fields = fitted(TOT_IR_VALUE, last.passages, history=_history(before), sub_question=last.sub_question)
        drawing: Options = {**options, "temperature": temperature} if values > 1 else options
        drawn: list[Valuation] = await run.gather(
            *(run.ask(TOT_IR_VALUE, options=drawing, **fields) for _ in range(values))
        )
        answer = next((vote.answer for vote in drawn if vote.answer), None)
        grown = (*before, Thought(last.sub_question, last.passages, answer))
        return sum(WORTH[vote.value] for vote in drawn), grown

    with run.gathering():
        for step in range(1, steps + 1):
            with run.branch("step", f"step {step}") as branch:
                grown = [state for states in await run.gather(*(propose(state) for state in kept)) for state in states]
                found += [state[-1] for state in grown]
                ranked = sorted(await run.gather(*(value(state) for state in grown)), key=lambda pair: -pair[0])
                valued += len(ranked)
                if not ranked:
                    branch.verdict = "no thought"
                    break
                best, kept = ranked[0][0], [state for _, state in ranked[:keep]]
                branch.verdict = "sure" if best == WORTH["sure"] * values else "go on"
                if branch.verdict == "sure":
                    break

    best_state = kept[0]
    statistics = {"steps": len(best_state), "searches": len(found), "states": valued}
    read = _passages(best_state) or _passages(found)
    if not read:
        return replace(await chain_of_thought(question, run, shots=shots), statistics=statistics)
    fields = fitted(TOT_IR_ANSWER, read, history=_history(best_state))
    response = await run.ask(TOT_IR_ANSWER, options=options, final=True, **fields)
    answered = [thought for thought in best_state if thought.passages and thought.answer]
    evidence = tuple(Evidence(thought.passages, thought.answer) for thought in answered)
    return Answer(
        response.answer,
        passages=_passages([*best_state, *found])[:rank_limit],
        evidence=evidence,
        statistics=statistics,
    )


def _passages(thoughts: Sequence[Thought]) -> tuple[Passage, ...]:
    """Return the distinct passages of the thoughts, in order."""
    return tuple(dict.fromkeys(passage for thought in thoughts for passage in thought.passages))


def _history(state: Sequence[Thought]) -> list[dict[str, str | None]]:
    return [{"sub_question": thought.sub_question, "answer": thought.answer} for thought in state]
