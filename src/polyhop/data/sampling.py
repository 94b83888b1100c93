"""A seeded sample of a dataset: the same questions on every machine, whatever their order in the file."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping

from polyhop.common.text import counted
from polyhop.data.questions import Dataset, Record
from polyhop.data.statistics import hops
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.types import Question

_OWN = ("kind", "hops")


def sample(dataset: Dataset, n: int, *, seed: int = 0, stratify: str | None = None) -> list[Record]:
    """``n`` records of a dataset in its order; ``stratify`` (``type``, ``kind``, ``hops`` or a field of the metadata)
    keeps the share of each of its values.

    A question is drawn by a hash of the seed and its id, so others that come or go change few draws.

    Raises:
        SettingError: ``n`` is below 1.
        UsageError: the dataset has fewer questions.
        UnknownName: no question has the field.
    """
    if n < 1:
        raise SettingError(f"n is {n}; it is a number of questions, at least 1")
    strata: defaultdict[str, list[tuple[bytes, int]]] = defaultdict(list)
    fields: set[str] = set(_OWN)
    for number, question in _questions(dataset):
        draw = hashlib.blake2b(f"{seed}\0{question.id}".encode(), digest_size=16).digest()
        strata[str(_value(question, stratify))].append((draw, number))
        fields |= {name for name, value in question.metadata.items() if isinstance(value, Hashable)}
    if stratify is not None and stratify not in fields:
        raise UnknownName("field to stratify by", stratify, fields)
    sizes = {name: len(drawn) for name, drawn in strata.items()}
    if n > sum(sizes.values()):
        raise UsageError(f"a sample of {n} was asked for; the dataset has {counted(sum(sizes.values()), 'questions')}")
    chosen = {number for name, count in shares(sizes, n).items() for _, number in sorted(strata[name])[:count]}
    return [record for record in dataset.good() if record.number in chosen]


def shares(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """``n`` divided in proportion to sizes, by the largest remainders; equal ones go by name.

    >>> shares({"bridge": 80, "comparison": 20}, 9)
    {'bridge': 7, 'comparison': 2}
    """
    total = sum(sizes.values())
    found = {name: n * size // total for name, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda name: (-(n * sizes[name] % total), name))
    for name in by_remainder[: n - sum(found.values())]:
        found[name] += 1
    return found


def _value(question: Question, field: str | None) -> object:
    if field is None:
        return ""
    return {"kind": question.kind, "hops": hops(question)}.get(field, question.metadata.get(field))


def _questions(dataset: Dataset) -> Iterator[tuple[int, Question]]:
    for record in dataset.good():
        if isinstance(record.question, Question):
            yield record.number, record.question
