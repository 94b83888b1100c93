"""Statistics of a dataset, and seeded samples of it: the same questions on every machine, in any order of the file."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyhop.common.text import counted, normalise
from polyhop.data.questions import Dataset, Record
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.types import Passage, Question

_LEVELS = ("type", "level", "answerable")


@dataclass(slots=True)
class DatasetStatistics:
    """Counts of questions by kind, hops and metadata; lengths in words; counts of gold annotations."""

    questions: int = 0
    by: dict[str, Counter[str]] = field(default_factory=dict)
    question_words: list[int] = field(default_factory=list)
    answer_words: list[int] = field(default_factory=list)
    aliases: int = 0
    unanswered: int = 0
    yes_or_no: int = 0
    with_gold: int = 0
    with_supporting: int = 0
    with_steps: int = 0
    gold: GoldInCorpus | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values; shares of questions are 0 to 1."""
        n = max(1, self.questions)
        answered = max(1, self.questions - self.unanswered)
        return {
            "questions": self.questions,
            "by": {name: dict(sorted(counts.items())) for name, counts in self.by.items()},
            "question_words": _spread(self.question_words),
            "answer_words": _spread(self.answer_words),
            "answers": {
                "without": self.unanswered,
                "yes_or_no": self.yes_or_no / n,
                "aliases_per_question": self.aliases / answered,
            },
            "with_gold_passages": self.with_gold / n,
            "with_supporting_facts": self.with_supporting / n,
            "with_steps": self.with_steps / n,
            "gold_in_corpus": self.gold.to_dict() if self.gold else None,
        }


@dataclass(frozen=True, slots=True)
class GoldInCorpus:
    """The gold that a corpus contains: ``found`` of ``passages`` distinct gold passages, and ``whole`` of ``questions``
    questions with all of theirs."""

    passages: int
    found: int
    questions: int
    whole: int

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values; shares are 0 to 1."""
        return {
            "passages": self.passages,
            "share_of_passages": self.found / max(1, self.passages),
            "questions": self.questions,
            "share_of_questions": self.whole / max(1, self.questions),
        }


def dataset_statistics(questions: Sequence[Question], corpus: Iterable[Passage] | None = None) -> DatasetStatistics:
    """Compute the statistics of a dataset, with those of its gold in a corpus if one is given."""
    found = DatasetStatistics(by={"kind": Counter(), "hops": Counter()})
    for question in questions:
        _count(question, found)
    found.gold = gold_in_corpus(questions, corpus) if corpus is not None else None
    return found


def gold_in_corpus(questions: Iterable[Question], corpus: Iterable[Passage]) -> GoldInCorpus:
    """Count the gold passages that a corpus contains, by id if a question has gold ids, else by title."""
    golds = [_gold(question) for question in questions]
    wanted = {key for gold in golds for key in gold}
    present = {key for passage in corpus for key in (("id", passage.id), ("title", passage.title)) if key in wanted}
    with_gold = [gold for gold in golds if gold]
    return GoldInCorpus(len(wanted), len(present), len(with_gold), sum(gold <= present for gold in with_gold))


def hops(question: Question) -> int | None:
    """Return the number of a question's steps, or of its gold passages if it has none; None if neither is known."""
    return len(question.steps) or len(set(question.gold_ids or question.gold_titles)) or None


def _gold(question: Question) -> set[tuple[str, str]]:
    if question.gold_ids:
        return {("id", id) for id in question.gold_ids}
    return {("title", title) for title in question.gold_titles}


def _count(question: Question, found: DatasetStatistics) -> None:
    found.questions += 1
    found.by["kind"][question.kind] += 1
    found.by["hops"][str(hops(question) or "unknown")] += 1
    for name in _LEVELS:
        if (value := question.metadata.get(name)) is not None:
            found.by.setdefault(name, Counter())[str(value)] += 1
    found.question_words.append(len(question.text.split()))
    if question.answers:
        found.answer_words.append(len(question.answers[0].split()))
        found.aliases += len(question.answers) - 1
        found.yes_or_no += normalise(question.answers[0]) in ("yes", "no")
    else:
        found.unanswered += 1
    found.with_gold += bool(question.gold_ids or question.gold_titles)
    found.with_supporting += bool(question.supporting)
    found.with_steps += bool(question.steps)


def _spread(lengths: Sequence[int]) -> dict[str, float] | None:
    """Return mean, median and maximum lengths in words.

    >>> _spread([1, 2, 6])
    {'mean': 3.0, 'median': 2, 'most': 6}
    """
    if not lengths:
        return None
    ordered = sorted(lengths)
    return {"mean": sum(ordered) / len(ordered), "median": ordered[len(ordered) // 2], "most": ordered[-1]}


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
    fields: set[str] = {"kind", "hops"}
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
