"""Parts that a service opens once for all its pipelines: models, prompts, reader, indexes and retrievers.

Also the facts of a corpus that a person sees before asking: its size, some titles and, for the demo, questions to try.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyhop.common.text import SECTION
from polyhop.data import demo_file
from polyhop.data.corpora import open_corpus
from polyhop.data.corpus import Corpus
from polyhop.data.questions import read_questions
from polyhop.engine.models import Models
from polyhop.engine.options import LM, Searcher, Source
from polyhop.engine.parts import close_parts, open_models
from polyhop.methods.registry import method_named
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.readers import as_reader, open_reader
from polyhop.retrieval import RunRetriever, as_retriever, brings_corpus, open_reranker, open_retriever
from polyhop.retrieval.index import Index, index_for
from polyhop.telemetry import traced

TITLES = 6
QUESTIONS = 3

SAMPLED = 60
"""Number of passages whose titles are sampled, spread over the index."""

MAX_READ = 20_000
"""Maximum passages of an index whose files are counted, since counting reads each passage."""


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """The size of a corpus and examples of its content.

    Attributes:
        passages: their number; None if a retriever brings its own passages.
        files: the number of documents they were cut from; None if it is not known.
        titles: some of the titles, at most ``TITLES``, in the order of the passages.
        questions: questions that the corpus can answer, at most ``QUESTIONS``. Only the demo has them: questions are
            never made up.
        left_out: what was not read of an upload, in words.
        guesses: the documents of an upload whose encoding was guessed, in words.
    """

    passages: int | None = None
    files: int | None = None
    titles: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()


@dataclass(eq=False)
class Resources:
    """Opens pipelines over shared parts. Thread-safe. A pipeline need not be closed, since all its parts are shared.

    ``corpora``: sources by name, None for a retriever that brings its own passages. ``options``: arguments of
    ``Pipeline`` that apply to every pipeline. ``telemetry``: report every question to OpenTelemetry.
    """

    corpora: Mapping[str, Source | None]
    lm: LM
    retriever: str | Searcher | None
    options: dict[str, Any]
    telemetry: bool = False
    _indexes: dict[str, Index] = field(default_factory=dict)
    _facts: dict[str, CorpusFacts] = field(default_factory=dict)
    _retrievers: dict[tuple[str, str], RunRetriever] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        given = self.options
        models, self._cache = open_models(self.lm, given.pop("cache", None), given.pop("lm_options", None) or {})
        self.models = Models(models)
        self.prompts: PromptBook = opened(PromptBook, given.get("prompts")) or PromptBook()
        reader = opened(open_reader, given.get("reader", "pocket"))
        self._shared = {
            **given,
            "prompts": self.prompts,
            "reader": reader and as_reader(reader),
            "rerank": opened(open_reranker, given.get("rerank")),
        }

    @property
    def over_corpora(self) -> bool:
        """True if the retriever searches the corpora, False if it brings its own passages."""
        return self.retriever is None or (isinstance(self.retriever, str) and not brings_corpus(self.retriever))

    def pipeline(self, corpus: str, method: str, settings: Mapping[str, Any], limits: Mapping[str, Any]) -> Pipeline:
        """Return a pipeline over a corpus. The first call opens or builds the index, which is slow."""
        with self._lock:
            index, retriever = self._index(corpus), self._retriever(corpus, method)
        lm = dict(self.models.by_name)
        made = Pipeline(index, method, lm, retriever=retriever, **{**self._shared, **limits}, **settings)
        return traced(made, corpus=corpus) if self.telemetry else made

    def facts(self, corpus: str) -> CorpusFacts:
        """Return the facts of a corpus. The first call opens the index, which is slow."""
        with self._lock:
            if corpus not in self._facts:
                self._facts[corpus] = facts_of(self._index(corpus))
            return self._facts[corpus]

    def add(self, corpus: str, index: Index, method: str) -> None:
        """Add a corpus, such as an uploaded one, and open its retriever for a method, which may be slow."""
        name = self._retriever_name(method)
        opened = {(corpus, name): as_retriever(open_retriever(name, index))} if isinstance(name, str) else {}
        with self._lock:
            self._indexes[corpus] = index
            self._retrievers.update(opened)

    def forget(self, corpus: str) -> None:
        """Forget a corpus that was added and that nobody reads. Does not wait for others, which may be slow."""
        self._indexes.pop(corpus, None)
        self._facts.pop(corpus, None)
        for key in list(self._retrievers):
            if key[0] == corpus:
                self._retrievers.pop(key, None)

    def language(self, corpus: str) -> str | None:
        """Return the language of a corpus; None if a retriever brings its own passages."""
        with self._lock:
            index = self._index(corpus)
        return index.analysis.language if index else None

    async def aclose(self) -> None:
        """Close the connections of models and retrievers, and the cache."""
        own = [] if self.retriever is None or isinstance(self.retriever, str) else [as_retriever(self.retriever)]
        await close_parts(self.models, [*self._retrievers.values(), *own], self._cache)

    def _index(self, corpus: str) -> Index | None:
        if corpus in self._indexes:
            return self._indexes[corpus]
        source = self.corpora[corpus]
        if isinstance(source, Index) or source is None:
            return source
        self._indexes[corpus] = index_for(source if isinstance(source, Corpus) else open_corpus(source))
        return self._indexes[corpus]

    def _retriever_name(self, method: str) -> str | Searcher | None:
        own = method_named(method).retriever
        return own if self.retriever is None or method == own else self.retriever

    def _retriever(self, corpus: str, method: str) -> Searcher | None:
        """Return the service's retriever, or the method's own if there is none or the method is a retriever itself."""
        name = self._retriever_name(method)
        if not isinstance(name, str):
            return name
        if (corpus, name) not in self._retrievers:
            index = self._index(corpus)
            if index is None and not brings_corpus(name):
                return None
            self._retrievers[corpus, name] = as_retriever(open_retriever(name, index))
        return self._retrievers[corpus, name]


def opened(open: Any, given: Any) -> Any:
    """Open a name or path; return anything else unchanged."""
    return open(given) if isinstance(given, str | Path) else given


def facts_of(index: Index | None) -> CorpusFacts:
    """Return the facts of an index; None is a corpus that a retriever brings. Reads each passage of a small index."""
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
    passages = (index.passages.get(row) for row in spread if index.passages.is_live(row))
    titles = dict.fromkeys(passage.title.partition(SECTION)[0].strip() for passage in passages)
    found = [title for title in titles if title]
    return tuple(found[:: max(1, len(found) // TITLES)][:TITLES])


def _questions(index: Index) -> tuple[str, ...]:
    if index.fingerprint != open_corpus(demo_file("passages")).fingerprint:
        return ()
    return tuple(question.text for question in read_questions(demo_file("questions"), limit=QUESTIONS))
