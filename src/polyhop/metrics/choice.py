"""The choice of profiles for a dataset, by the contents of its questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from polyhop.metrics.profiles import DEFAULT, profiles_named
from polyhop.types import Question

_OF_KIND = {"boolean": "strategyqa", "fact": "fever", "long": "rouge-l"}
_MUSIQUE_ID = re.compile(r"[2-4]hop\d?__\d")


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """The profiles of a run, and the reason for them."""

    names: tuple[str, ...]
    why: str

    def to_dict(self) -> dict[str, object]:
        """Return the choice as in ``run.json``."""
        return {"profiles": list(self.names), "why": self.why}


Metrics: TypeAlias = str | Sequence[str] | ProfileChoice | None
"""Profiles as a caller names them: ``"hotpot,recall"``, a list, or an earlier choice; None lets the dataset decide."""


def choose_profiles(questions: Sequence[Question], metrics: Metrics = None) -> ProfileChoice:
    """Return the profiles that ``metrics`` names, else ``default`` and that of the questions' benchmark.

    >>> choose_profiles([Question("q", "Is it so?", ("yes",), "boolean")])
    ProfileChoice(names=('default', 'strategyqa'), why='every question is of kind boolean')
    """
    if isinstance(metrics, ProfileChoice):
        return metrics
    if metrics is not None:
        return ProfileChoice(profiles_named(metrics), "asked for")
    name, why = _benchmark(questions)
    return ProfileChoice((DEFAULT, name) if name else (DEFAULT,), why)


def _benchmark(questions: Sequence[Question]) -> tuple[str | None, str]:
    kinds = {question.kind for question in questions}
    if len(kinds) == 1 and (name := _OF_KIND.get(kind := next(iter(kinds)))):
        return name, f"every question is of kind {kind}"
    if any(question.metadata.get("evidences") for question in questions):
        return "2wiki", "questions have evidence triples"
    if any("answerable" in question.metadata for question in questions):
        return "musique", "questions say whether they can be answered"
    if any(_MUSIQUE_ID.match(question.id) for question in questions):
        return "musique", "questions have MuSiQue's ids"
    if any(question.supporting for question in questions):
        return "hotpot", "questions have supporting facts"
    return None, "nothing in the questions indicates a benchmark with its own metrics"
