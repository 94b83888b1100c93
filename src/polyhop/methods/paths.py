"""How likely a question is after a path of passages: the score by which PromptRank ranks paths (§2.1 to §2.3).

A path's prompt is its passages, an instruction and a slot for the question; the score is the log-probability of the
question's tokens there, averaged. Instructions and demonstrations can be several, one prompt for each and the scores
put together.

What is cut, when a prompt is too long, is its passages: first each to ``passage_tokens``, then the longest of them.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from polyhop.errors import SettingError
from polyhop.methods.beam import Path
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.engine.run import Run

Position: TypeAlias = Literal["after", "before"]
Ensemble: TypeAlias = Literal["max", "mean", "token-mean", "token-max", "token-median"]

TASK, REVERSE = "promptrank.path", "promptrank.question"
NO_INSTRUCTION = "none"
DEMONSTRATION_TOKENS = 100
"""Of each passage of a demonstration."""
LEAST = -100.0
"""What a token counts that a model holds impossible: paths can still be told apart by the others."""

_POOLS: Mapping[str, Callable[[Iterable[float]], float]] = {"max": max, "mean": fmean, "median": median}


class Frame(NamedTuple):
    """What stands around a path: the instruction (None: the prompt file's own), where, and the demonstrations."""

    instruction: str | None
    position: Position | None
    demonstrations: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """How paths are scored: PromptRank's settings of the same names."""

    passage_tokens: int
    prompt_tokens: int | None
    instruction: str | None
    instructions: Sequence[str]
    instruction_position: Position
    ensemble: Ensemble
    temperature: float | None
    demos: int
    demo_ensemble: Literal["max", "mean"]
    demo_seed: int | None
    titles: bool
    order: Literal["link", "inverted"]
    joint: bool
    normalise: Literal["mean", "sum"]
    direction: Literal["question", "path"]

    @property
    def told_instructions(self) -> list[tuple[str | None, Position | None]]:
        """The instructions and where they stand; one that opens with "before:" or "after:" says it itself."""
        return [self._placed(told) for told in self.instructions or (self.instruction,)]

    @property
    def heat(self) -> float:
        """The temperature: §3's 1.4, and 1 without an instruction (Table 1, "no instruction")."""
        bare = all(position is None for _, position in self.told_instructions)
        return self.temperature if self.temperature is not None else 1.0 if bare else 1.4

    @property
    def needs(self) -> tuple[str, ...]:
        """What the model must be able to do."""
        task = TASK if self.direction == "question" else REVERSE
        return (f"score:{task}", *([f"score_temperature:{task}"] if self.heat != 1.0 else []))

    def _placed(self, told: str | None) -> tuple[str | None, Position | None]:
        if told is None:
            return None, self.instruction_position
        for position in ("before", "after"):
            if told.startswith(f"{position}:"):
                return told.removeprefix(f"{position}:").strip() or None, position
        return (None, None) if told.strip() in ("", NO_INSTRUCTION) else (told, self.instruction_position)


class PathScores:
    """The scores of one question's paths, each scored once. ``known`` holds them, the better the higher."""

    def __init__(self, how: Likelihood, question: str, run: Run) -> None:
        self.how, self.run = how, run
        self.question = question if question.rstrip().endswith("?") else f"{question.rstrip()}?"
        self.known: dict[Path, float] = {}
        self._cuts: dict[tuple[str, int], str] = {}
        self.limit = how.prompt_tokens or (1024 if how.demos else 600)
        self.frames = [Frame(*told, shown) for shown in self._demonstrations() for told in self._instructions()]

    async def score(self, paths: Sequence[Path]) -> None:
        """Score the paths, all at once; those that a budget cuts short stay unknown."""
        alone = ((passage,) for path in paths for passage in path)
        wanted = [path for path in dict.fromkeys(paths if self.how.joint else alone) if path not in self.known]
        told: dict[Path, dict[int, Sequence[float]]] = {path: {} for path in wanted}

        async def one(path: Path, at: int) -> None:
            told[path][at] = await self._logprobs(path, self.frames[at])

        places = range(len(self.frames))
        try:
            await self.run.gather(*(one(path, at) for path in wanted for at in places), finish_all=True)
        finally:
            for path, rows in told.items():
                if len(rows) == len(places):
                    self.known[path] = self._together([rows[at] for at in places])
            for path in paths:  # §4.1, single-hop: a passage's score is its own, and a path's their mean
                if path not in self.known and all((passage,) in self.known for passage in path):
                    self.known[path] = fmean(self.known[passage,] for passage in path)

    def _together(self, rows: Sequence[Sequence[float]]) -> float:
        """A path's score from its tokens' log-probabilities, a row for each frame (§2.2, §2.3)."""
        width = len(self._instructions())
        by_demonstrations = (rows[at : at + width] for at in range(0, len(rows), width))
        return _POOLS[self.how.demo_ensemble](map(self._over_instructions, by_demonstrations))

    def _over_instructions(self, scored: Sequence[Sequence[float]]) -> float:
        unit, _, pool = self.how.ensemble.rpartition("-")
        if unit == "token":
            return self._value([_POOLS[pool](each) for each in zip(*scored, strict=False)])
        return _POOLS[pool](map(self._value, scored))

    def _value(self, logprobs: Sequence[float]) -> float:
        total = sum(max(LEAST, logprob) for logprob in logprobs)
        return total / max(1, len(logprobs)) if self.how.normalise == "mean" else total

    async def _logprobs(self, path: Path, frame: Frame) -> Sequence[float]:
        ordered = path[::-1] if self.how.order == "inverted" else path
        told: dict[str, Any]
        if self.how.direction == "path":  # §2.1, note 6: the path after the question
            passages = [self._cut(passage, self.how.passage_tokens) for passage in ordered]
            told, task, target = {"question": self.question}, REVERSE, " ".join(passage.text for passage in passages)
        else:
            told, task, target = self._around(frame), TASK, self.question
            passages = self._fitting(ordered, told)
        heat = self.how.heat
        (scores,) = await self.run.score(task, [f" {target}"], temperature=heat, passages=passages, **told)
        return scores.logprobs

    def _around(self, frame: Frame) -> dict[str, Any]:
        """All fields of the prompt but the passages."""
        return {"question": self.question, "titles": self.how.titles, **frame._asdict()}

    def _fitting(self, path: Path, told: Mapping[str, Any]) -> list[Passage]:
        """The passages, the longest cut until the prompt fits: to the same length, the most that will do."""

        def at(most: int) -> list[Passage]:
            return [self._cut(passage, most) for passage in path]

        def overlong(cut: int) -> bool:
            tokens = self.run.prompt_tokens(TASK, passages=at(self.how.passage_tokens - cut), **told)
            return tokens > self.limit

        most = self.how.passage_tokens
        cut = bisect_left(range(most), True, key=lambda cut: not overlong(cut)) if overlong(0) else 0
        return at(most - cut)

    def _cut(self, passage: Passage, tokens: int) -> Passage:
        """The passage's first tokens, ended with a full stop where that is missing."""
        key = (passage.text, tokens)  # not by its id: two demonstrations may show one page in other words
        if key not in self._cuts:
            text = self.run.truncate(passage.text, tokens).rstrip()
            self._cuts[key] = text if text[-1:] in ("", ".", "!", "?") else f"{text}."
        return replace(passage, text=self._cuts[key])

    def _instructions(self) -> list[tuple[str | None, Position | None]]:
        return self.how.told_instructions if self.how.direction == "question" else [(None, None)]

    def _demonstrations(self) -> list[tuple[Mapping[str, Any], ...]]:
        """The demonstrations of each prompt: a question that goes from passage to passage, and one that compares."""
        wanted = self.how.demos // 2
        if not wanted or self.how.direction == "path":
            return [()]
        held = self.run.demonstrations(TASK)
        kinds = [[demo for demo in held if demo["kind"] == kind] for kind in ("bridge", "comparison")]
        if (there := min(map(len, kinds))) < wanted:
            raise SettingError(
                f"demos={self.how.demos}: the prompt file has {2 * there}, in pairs of bridge and comparison"
            )
        if self.how.demo_seed is not None:
            draw = random.Random(self.how.demo_seed)
            kinds = [draw.sample(demos, wanted) for demos in kinds]
        return [tuple(map(self._short, pair)) for pair in zip(*(demos[:wanted] for demos in kinds), strict=True)]

    def _short(self, demonstration: Mapping[str, Any]) -> Mapping[str, Any]:
        passages = [self._cut(passage, DEMONSTRATION_TOKENS) for passage in demonstration["passages"]]
        return {"question": demonstration["question"], "passages": passages}
