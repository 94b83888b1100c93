"""The parts that a question in progress uses, which stay open between questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from polyhop.engine.budget import Budget
from polyhop.engine.calibration import Calibration
from polyhop.engine.caller import Caller
from polyhop.errors import UsageError
from polyhop.readers.base import RunReader
from polyhop.retrieval.analysis import ENGLISH, Analysis
from polyhop.retrieval.base import RunRetriever
from polyhop.retrieval.tfidf import similarities
from polyhop.types import Passage, PathScorer, SupportReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment(Caller):
    """The models, prompts, retriever and reader, the scorer of paths, the reader of support, and the budget of each
    question. ``documents`` returns the passages of the document of a passage, in order, if the corpus is known."""

    retriever: RunRetriever | None = None
    documents: Callable[[Passage], list[Passage]] | None = None
    reader: RunReader | None = None
    path_scorer: PathScorer | None = None
    support_reader: SupportReader | None = None
    verify_support: bool = False
    calibration: Calibration | None = None
    budget: Budget = field(default_factory=Budget)
    seed: int | None = None
    analysis: Analysis = ENGLISH

    @property
    def needed_reader(self) -> RunReader:
        """The reader; raises ``UsageError`` if there is none."""
        if self.reader is None:
            raise UsageError(
                "this method reads passages: give reader= a name or a (question, passages) -> spans callable"
            )
        return self.reader

    @property
    def needed_path_scorer(self) -> PathScorer:
        """The path scorer; raises ``UsageError`` if there is none."""
        if self.path_scorer is None:
            raise UsageError("this method scores paths: give the engine a path_scorer")
        return self.path_scorer

    def similarity(self, text: str, texts: Sequence[str], *, lexical: bool) -> list[float]:
        """Return the similarity of ``text`` to each of ``texts``, as ``Run.similarity`` does."""
        if not lexical and (encoder := self.retriever and self.retriever.encoder):
            from polyhop.retrieval.encoders.base import similarities as cosines  # imports numpy, which few methods need

            return cosines(encoder, text, texts)
        return similarities(text, texts, self.analysis)
