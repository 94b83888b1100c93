"""A corpus as a person who may ask it sees it first: its size, some titles and, of the demo's, questions to try."""

from __future__ import annotations

from dataclasses import dataclass

from polyhop.data import demo_file
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import read_questions
from polyhop.retrieval.index import Index

TITLES = 6
QUESTIONS = 3

SAMPLED = 60
"""Passages that titles are taken from, spread over the index."""

MAX_READ = 20_000
"""In an index of more passages the files are not counted: that takes reading each passage."""


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """The size of a corpus and examples of its content.

    Attributes:
        passages: their number; None if a retriever brings its passages, so that none is known.
        files: the number of documents they were cut from; None if it is not known.
        titles: some of the titles, at most ``TITLES``, in the order of the passages.
        questions: questions that the corpus can answer, at most ``QUESTIONS``; none but of the corpus that ships
            inside, since questions are never made up.
    """

    passages: int | None = None
    files: int | None = None
    titles: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


def facts_of(index: Index | None) -> CorpusFacts:
    """Look into an index; None is a corpus that a retriever brings. Reads each passage of a small one."""
    if index is None:
        return CorpusFacts()
    return CorpusFacts(len(index), _files(index), _titles(index), _questions(index))


def _files(index: Index) -> int | None:
    if len(index) > MAX_READ:
        return None
    sources = {passage.metadata.get("source") for passage in index.passages}
    return len({source for source in sources if isinstance(source, str)}) or None


def _titles(index: Index) -> tuple[str, ...]:
    spread = range(0, index.rows, max(1, index.rows // SAMPLED))
    titles = dict.fromkeys(index.passages.get(row).title.strip() for row in spread if index.passages.is_live(row))
    found = [title for title in titles if title]
    return tuple(found[:: max(1, len(found) // TITLES)][:TITLES])


def _questions(index: Index) -> tuple[str, ...]:
    if index.fingerprint != open_corpus(demo_file("passages")).fingerprint:
        return ()
    return tuple(question.text for question in read_questions(demo_file("questions"), limit=QUESTIONS))
