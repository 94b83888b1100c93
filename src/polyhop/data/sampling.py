"""Seeded samples of a dataset: the same questions on every machine, in whatever order the file has them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping

from polyhop.common.text import counted
from polyhop.data.questions import Dataset, Record
from polyhop.data.statistics import hops
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.types import Question

_FIELDS = ("kind", "hops")


def sample(dataset: Dataset, n: int, *, seed: int = 0, stratify: str | None = None) -> list[Record]:
    """Draw ``n`` records of a dataset, in its order; ``stratify`` (``type``, ``kind``, ``hops`` or a field of the
    metadata) preserves the share of each of its values.

    Questions are drawn by a hash of the seed and their ids, so adding or removing others changes few draws.

    Raises:
        SettingError: ``n`` is below 1.
        UsageError: the dataset has fewer questions.
        UnknownName: no question has the field.
    """
    if n < 1:
        raise SettingError(f"n is {n}; it is a number of questions, at least 1")
    strata: defaultdict[str, list[tuple[bytes, int]]] = defaultdict(list)
    fields: set[str] = set(_FIELDS)
    for number, question in _questions(dataset):
        draw = hashlib.blake2b(f"{seed}\0{question.id}".encode(), digest_size=16).digest()
        strata[str(_field_value(question, stratify))].append((draw, number))
        fields |= {name for name, value in question.metadata.items() if isinstance(value, Hashable)}
    if stratify is not None and stratify not in fields:
        raise UnknownName("field to stratify by", stratify, fields)
    sizes = {name: len(drawn) for name, drawn in strata.items()}
    if n > sum(sizes.values()):
        raise UsageError(f"a sample of {n} was asked for; the dataset has {counted(sum(sizes.values()), 'questions')}")
    chosen = {number for name, count in shares(sizes, n).items() for _, number in sorted(strata[name])[:count]}
    return [record for record in dataset.valid_records() if record.number in chosen]


def shares(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Divide ``n`` in proportion to sizes, by the largest remainders; ties are broken by name.

    >>> shares({"bridge": 80, "comparison": 20}, 9)
    {'bridge': 7, 'comparison': 2}
    """
    total = sum(sizes.values())
    found = {name: n * size // total for name, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda name: (-(n * sizes[name] % total), name))
    for name in by_remainder[: n - sum(found.values())]:
        found[name] += 1
    return found


def _field_value(question: Question, field: str | None) -> object:
    if field is None:
        return ""
    return {"kind": question.kind, "hops": hops(question)}.get(field, question.metadata.get(field))


def _questions(dataset: Dataset) -> Iterator[tuple[int, Question]]:
    for record in dataset.valid_records():
        if isinstance(record.question, Question):
            yield record.number, record.question
