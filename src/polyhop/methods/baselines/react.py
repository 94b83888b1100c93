"""ReAct: the model thinks and acts in turn; each action returns an observation, until the model finishes.

- ``react``: Yao, Zhao, Yu, Du, Shafran, Narasimhan, Cao, "ReAct: Synergizing Reasoning and Acting in Language Models",
  2023, in the set-up of Tree of Reviews §4.3: top 5 per search, at most 3 turns, 3 demonstrations.
- ``react-cot-sc``: the same paper's ReAct → CoT-SC (§3.2): if ReAct does not finish within its turns, the vote of
  ``cot-sc`` answers, without the passages.

Followed: Thought, Action, Observation; Search, Lookup (the next sentence with the keyword in the passages of the last
search) and Finish (§3.1). Each observation follows its action, which distinguishes ReAct from self-ask (ToR §4.3).
Settled here: Search uses the run's retriever and shows the first 5 sentences of each passage, as the paper does of a
page; it offers no similar titles. A turn is a search or a lookup: the paper's 7 steps on HotpotQA, the last of which
finishes, are ``max_turns=6``. After the last turn ``react`` must finish, while the paper leaves the question
unanswered; ``react-cot-sc`` has one more step to finish, as in the paper, else it votes over 5 samples (the paper:
``samples=21``). A reply that cannot be read ends the acting. If the prompt is longer than ``context_tokens``, the
oldest observations are cut. Needs nothing beyond completion; the vote needs a model that samples.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Search[leader of the Kon-Tiki expedition] shows
Thor Heyerdahl; Search[Thor Heyerdahl] shows the beginning of his page; Lookup[born], if that sentence was not shown;
Finish[Larvik].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.sentences import sentences
from polyhop.common.text import normalise
from polyhop.methods.context import answer_from_passages, cut_oldest, first_retrieved
from polyhop.methods.registry import method
from polyhop.methods.voting import majority, sampled
from polyhop.prompts.tasks.acting import REACT_ACT, REACT_FINISH, Move
from polyhop.prompts.tasks.answers import ANSWER_COT
from polyhop.types import NonNegative, Passage, Positive, T, TypedTask

if TYPE_CHECKING:
    from polyhop.engine.run import Run


@method(
    "react",
    family="iterative",
    calls=2,
    paper="ReAct (Yao et al., 2023)",
    layers=lambda settings: int(settings["max_turns"]) + 1,
    needs=("retriever",),
)
async def react(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3
    max_turns: Positive = 3,  # ToR §4.3
    sentences_shown: Positive = 5,  # §3.1: maximum number per passage; a lookup reads all
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Think, act and observe until the model finishes, at the latest after the last turn (§2)."""
    episode = Episode(question, run, k, sentences_shown, shots, context_tokens)
    answer: str | None = None
    with run.gathering():
        answer = await episode.play(max_turns)
    if answer is None:
        response = await episode.ask(REACT_FINISH, final=True)
        answer = response.answer
    return episode.answer(answer, rank_limit)


@method(
    "react-cot-sc",
    family="iterative",
    calls=2,
    paper="ReAct (Yao et al., 2023)",
    layers=lambda settings: int(settings["max_turns"]) + 2,
    needs=("retriever",),
)
async def react_or_vote(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3
    max_turns: Positive = 3,  # ToR §4.3
    sentences_shown: Positive = 5,  # §3.1: maximum number per passage; a lookup reads all
    samples: Positive = 5,  # as cot-sc, if ReAct does not finish
    temperature: Annotated[float, Ge(0)] = 0.7,  # §3.2
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Run ReAct; if it does not finish, take the majority answer of several chains of thought (§3.2)."""
    episode = Episode(question, run, k, sentences_shown, shots, context_tokens)
    answer: str | None = None
    with run.gathering():
        answer = await episode.play(max_turns, last_word=True)
    if answer is not None:
        return episode.answer(answer, rank_limit, votes=0)
    replies = await sampled(
        run, ANSWER_COT, [{"question": question}] * samples, options={"shots": shots, "temperature": temperature}
    )
    vote = majority(replies)
    result = episode.answer("", rank_limit, votes=vote.cast, agreement=vote.share)
    return replace(result, text=vote.answer, confidence=vote.share)


@dataclass(slots=True)
class Episode:
    """Thoughts, actions and observations so far: the steps as the model sees them, and the passages."""

    question: str
    run: Run
    k: int
    sentences_shown: int
    shots: int
    context_tokens: int
    steps: list[dict[str, Any]] = field(default_factory=list)
    found: list[list[Passage]] = field(default_factory=list)

    async def play(self, turns: int, *, last_word: bool = False) -> str | None:
        """Act at most ``turns`` times, with ``last_word`` plus one more step to finish; return the answer with which
        the model finishes, or None."""
        for turn in range(turns + last_word):
            move = await self.ask(REACT_ACT)
            if move.action is None or move.action == "Finish":
                return move.argument or None
            if turn < turns:
                await self.observe(move)
        return None

    async def observe(self, move: Move) -> None:
        """Carry out a search or a lookup; record its observation."""
        step = {"thought": move.thought, "action": move.action, "argument": move.argument}
        with self.run.branch("action", f"{move.action}[{move.argument}]") as action:
            if move.declines(move.argument):  # "unknown" is no query
                shown: list[Passage] = []
            elif move.action == "Search":
                self.found.append(await self.run.search(move.argument, self.k))
                shown = [_opening(passage, self.sentences_shown) for passage in self.found[-1]]
            else:
                shown = looked_up(move.argument, self.found, self.steps)
                self.run.note("lookup", keyword=move.argument, found=[passage.text for passage in shown])
            action.verdict = "observed" if shown else "nothing found"
        self.steps.append({**step, "passages": shown})

    async def ask(self, task: TypedTask[T], *, final: bool = False) -> T:
        """Make a call with the steps so far, as many as ``context_tokens`` allows."""

        def fits(steps: list[Mapping[str, Any]]) -> bool:
            length = self.run.prompt_tokens(task, options={"shots": self.shots}, question=self.question, steps=steps)
            return length <= self.context_tokens

        steps = cut_oldest(self.steps, fits, self.run)
        return await self.run.ask(task, options={"shots": self.shots}, final=final, question=self.question, steps=steps)

    def answer(self, answer: str, rank_limit: int, **statistics: float) -> Answer:
        """Build the answer, with all passages as its evidence."""
        passages = first_retrieved(self.found, rank_limit)
        turns, searches = len(self.steps), len(self.found)
        return answer_from_passages(
            passages,
            answer,
            statistics={"turns": turns, "searches": searches, "lookups": turns - searches, **statistics},
        )


def looked_up(keyword: str, found: Sequence[Sequence[Passage]], steps: Sequence[Mapping[str, Any]]) -> list[Passage]:
    """Return the next sentence with ``keyword`` in the passages of the last search that found any, as a passage of that
    sentence alone; [] after the last. Each lookup of the same keyword returns the next one.

    >>> found = [[Passage("p", "T", "It opened. It was shut. It opened again.")]]
    >>> [passage.text for passage in looked_up("OPENED", found, [])]
    ['It opened.']
    >>> seen = {"action": "Lookup", "argument": "opened", "passages": [found[0][0]]}
    >>> [passage.text for passage in looked_up("opened", found, [seen])]
    ['It opened again.']
    """
    passages = next((hits for hits in reversed(found) if hits), [])
    holding = [
        replace(passage, text=sentence)
        for passage in passages
        for sentence in sentences(passage.text)
        if keyword.casefold() in sentence.casefold()
    ]
    before = 0
    for step in reversed(steps):
        if step["action"] == "Search" and step["passages"]:
            break
        before += step["action"] == "Lookup" and normalise(step["argument"]) == normalise(keyword)
    return holding[before : before + 1]


def _opening(passage: Passage, count: int) -> Passage:
    """Cut a passage to its first sentences."""
    all_sentences = sentences(passage.text)
    return replace(passage, text=" ".join(all_sentences[:count])) if len(all_sentences) > count else passage
