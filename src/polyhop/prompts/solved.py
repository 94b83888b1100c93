"""Solved questions: one set for each kind of question but ``qa``, from which all prompts draw demonstrations of it.

A line of ``solved.jsonl`` is a question with its steps and its answer; ``turns`` makes demonstrations of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from polyhop.prompts.loading import read_passage
from polyhop.types import Kind, Passage


@dataclass(frozen=True, slots=True)
class Step:
    """A query, and the sentence, passage and triplet that answer it."""

    query: str
    planned: str
    """The query as it is before the answers to earlier ones are known."""
    answer: str
    """The answer in a few words; the sentence if the question is long, or if nothing is known."""
    is_known: bool
    sentence: str
    passage: Passage
    triplet: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """A question with its steps and its answer; that to a long question is all its sentences."""

    kind: Kind
    question: str
    steps: tuple[Step, ...]
    conclusion: str
    """The last sentence of the reasoning; "" if the answer follows from the steps without one."""
    rationale: str
    answer: str
    short: str
    """The answer in a few words."""
    wrong: str
    """An answer that is not right."""
    quotation: str
    """The sentence of the passages that settles the question."""
    other: Passage
    """A passage that does not help."""
    seen: int
    """The number of steps that a task of a single turn has behind it."""
    odd: bool
    """True for every second question: a demonstration with two sides then takes the second."""

    @property
    def sentences(self) -> list[str]:
        """The sentence of each step, and the conclusion."""
        return [*(step.sentence for step in self.steps), *filter(None, [self.conclusion])]

    @property
    def summary(self) -> str:
        """The facts that the answer follows from."""
        return " ".join(step.sentence for step in self.steps)

    @property
    def passages(self) -> list[Passage]:
        """The passage of each step, with the one that does not help among them."""
        found = [step.passage for step in self.steps]
        return [*found[: not self.odd], self.other, *found[not self.odd :]]

    @property
    def analysis(self) -> str:
        """The last part of the reasoning, in one sentence."""
        return self.rationale if self.kind == "long" else self.sentences[-1]

    def said(self, seen: int) -> str | None:
        """The sentence of the last of the steps seen."""
        return self.steps[seen - 1].sentence if seen else None

    def thought(self, seen: int) -> list[str]:
        """A thought in two parts: what is known after some of the steps, and what is missing."""
        known = " ".join(self.sentences[:seen]) if seen else "No fact is known yet."
        is_last = seen == len(self.steps)
        return [known, "No fact is missing." if is_last else f"Next to look up: {self.steps[seen].query}"]


@cache
def solved() -> tuple[Solved, ...]:
    """Read the solved questions."""
    text = (resources.files("polyhop.prompts") / "files" / "solved.jsonl").read_text(encoding="utf-8")
    return tuple(_solved(json.loads(line), number) for number, line in enumerate(text.splitlines()))


def _solved(row: dict[str, Any], number: int) -> Solved:
    steps = tuple(map(_step, row["steps"]))
    text = " ".join(filter(None, [*(step.sentence for step in steps), row.get("conclusion")]))
    own: dict[str, Any] = {"steps": steps, "other": read_passage(row["other"]), "odd": number % 2 == 1}
    texts: dict[str, Any] = {"conclusion": "", "rationale": text, "answer": text, "short": row.get("answer")}
    return Solved(**texts | row | own)


def _step(row: dict[str, Any]) -> Step:
    answer = row.get("answer", row["sentence"])
    own = {"answer": answer or row["sentence"], "is_known": answer is not None, "passage": read_passage(row["passage"])}
    return Step(**{"planned": row["query"]} | row | own)
