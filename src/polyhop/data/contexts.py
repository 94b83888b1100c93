"""The passages that HotpotQA's, 2WikiMultiHopQA's and MuSiQue's records bring along: together they are a corpus.

A passage's id is made from its title and text, so that the same passage has the same id whichever file it came from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polyhop.data.formats import objects_of
from polyhop.data.lines import json_type, mapping_of, require, text_of
from polyhop.data.questions import Dataset
from polyhop.errors import DataError
from polyhop.types import Passage, Question


@dataclass(frozen=True, slots=True)
class Context:
    """A passage of a record: its number there, its sentences as given (``in_sentences``) or its text as one, and
    whether it is marked as gold (MuSiQue)."""

    number: int
    title: str
    sentences: tuple[str, ...]
    gold: bool = False
    in_sentences: bool = True

    @property
    def text(self) -> str:
        """The sentences as one text, single spaces between words."""
        return " ".join(" ".join(self.sentences).split())

    @property
    def starts(self) -> list[int]:
        """Where each sentence begins in the text: what supporting facts are numbered by. An empty one begins where the
        next does.

        >>> Context(0, "Emma", ("Emma is a novel.", " ", " It is by Jane Austen.")).starts
        [0, 17, 17]
        """
        starts, place = [], 0
        for sentence in self.sentences:
            starts.append(min(place, len(self.text)))
            place += len(plain) + 1 if (plain := " ".join(sentence.split())) else 0
        return starts

    @property
    def id(self) -> str:
        """What the passage is called in a corpus from contexts."""
        return passage_id(self.title, self.text)

    @property
    def passage(self) -> Passage:
        """The context as a passage of a corpus; its metadata tell where sentences begin, where the record does."""
        metadata = {"sentences": self.starts} if self.in_sentences else {}
        return Passage(self.id, self.title, self.text, metadata=metadata)


def passage_id(title: str, text: str) -> str:
    """20 hex digits of a title and text, whatever the spaces between words.

    >>> passage_id("Emma", "Emma is  a novel.") == passage_id("Emma", "Emma is a novel. ")
    True
    """
    plain = "\0".join(" ".join(part.split()) for part in (title, text))
    return hashlib.blake2b(plain.encode(), digest_size=10).hexdigest()


def contexts_of(row: Mapping[str, Any]) -> list[Context]:
    """A record's passages that have text; [] for a record of a format that has none.

    >>> contexts_of({"context": [["Emma", ["Emma is a novel.", " It is by Jane Austen."]]]})[0].text
    'Emma is a novel. It is by Jane Austen.'

    Raises:
        ValueError: they are malformed.
    """
    row = row if row.keys() & {"context", "paragraphs"} else mapping_of(row, "metadata")  # FlashRAG has them there
    found = _paragraphs(row) if row.get("paragraphs") is not None else _pairs(row.get("context"))
    return [context for context in found if context.text]


def unique_passages(datasets: Iterable[Dataset]) -> Iterator[Passage]:
    """The passages of all records, each once, in order of appearance.

    Raises:
        DataError: a record is malformed, or none of a dataset has a context.
    """
    seen: set[str] = set()
    for dataset in datasets:
        some = False
        for _, contexts in _with_contexts(dataset):
            some = some or bool(contexts)
            for context in contexts:
                if (id := context.id) not in seen:
                    seen.add(id)
                    yield context.passage
        if not some:
            wanted = "the 'context' of HotpotQA and 2Wiki or the 'paragraphs' of MuSiQue"
            raise DataError(f"its records have no contexts; looked for {wanted}", dataset.source.path)


def grounded_questions(dataset: Dataset) -> Iterator[Question]:
    """The questions with ids of gold passages, of their steps' and of their contexts, as a corpus from contexts has
    them. A question whose gold is not wholly among its contexts (as in fullwiki) keeps titles alone."""
    for question, contexts in _with_contexts(dataset):
        yield _grounded(question, contexts)


def _grounded(question: Question, contexts: Sequence[Context]) -> Question:
    marked = [context for context in contexts if context.gold]
    gold = marked or [context for context in contexts if context.title in question.gold_titles]
    by_number = {context.number: context.id for context in contexts}
    places = [(step, step.get("paragraph_support_idx")) for step in question.steps]
    steps = tuple(
        {**step, "pid": by_number[place]} if isinstance(place, int) and place in by_number else step
        for step, place in places
    )
    whole = set(question.gold_titles) <= {context.title for context in gold} and question.gold_titles
    return replace(
        question,
        gold_ids=tuple(dict.fromkeys(context.id for context in gold)) if whole else question.gold_ids,
        steps=steps,
        metadata={**question.metadata, "context_pids": list(dict.fromkeys(by_number.values()))},
    )


def _with_contexts(dataset: Dataset) -> Iterator[tuple[Question, list[Context]]]:
    for number, row, question in dataset.valid_records():
        try:
            contexts = contexts_of(row or {})
        except ValueError as error:
            if not dataset.skip_bad:
                raise dataset.source.fault(number, str(error)) from None
            dataset.skipped += 1
            continue
        if isinstance(question, Question):
            yield question, contexts


def _pairs(value: Any) -> list[Context]:
    if value is None:
        return []
    if isinstance(value, dict):
        titles = value.get("title")
        texts = value.get("sentences", value.get("content"))
        if not (isinstance(titles, list) and isinstance(texts, list) and len(titles) == len(texts)):
            raise ValueError("'context' is an object without arrays 'title' and 'sentences' of one length")
        value = [list(pair) for pair in zip(titles, texts, strict=True)]
    if not isinstance(value, list):
        raise ValueError(f"'context' is {json_type(value)}, expected an array of [title, sentences] pairs")
    found = []
    for number, pair in enumerate(value):
        match pair:
            case [str() as title, list() as sentences] if all(isinstance(each, str) for each in sentences):
                found.append(Context(number, title, tuple(sentences)))
            case _:
                raise ValueError(f"'context' holds {str(pair)[:80]}, expected [title, sentences] pairs")
    return found


def _paragraphs(row: Mapping[str, Any]) -> list[Context]:
    found = []
    for place, each in enumerate(objects_of(row, "paragraphs")):
        number = each["idx"] if isinstance(each.get("idx"), int) else place
        text = text_of(each, require(each, ("paragraph_text",)))
        title = text_of(each, require(each, ("title",)))
        found.append(Context(number, title, (text,), each.get("is_supporting") is True, in_sentences=False))
    return found
