"""DSPy: a retriever, a retrieval model and a module over a polyhop pipeline.

Written for the interface of DSPy 2.6 to 3: ``dspy.Retrieve`` and ``dspy.Module`` with ``forward`` and ``aforward``,
``dspy.Prediction``, and a retrieval model ``rm(query, k=…)`` whose passages have a ``long_text``. It was checked
against the public source code, and is tested with an imitation of it, not with DSPy itself.
"""

from __future__ import annotations

from typing import Any

from polyhop.adapters.base import OpenPipeline, answer_row, sources
from polyhop.answer import Answer
from polyhop.engine.options import Searcher, Source
from polyhop.pipeline import Pipeline
from polyhop.types import Kind, Passage

try:
    import dspy
except ImportError as error:
    raise ImportError("polyhop.adapters.dspy needs DSPy, which is no extra of polyhop: pip install dspy") from error


def to_text(passage: Passage) -> str:
    """Return a passage in the form of DSPy's own Wikipedia: the title, a bar, the text.

    >>> to_text(Passage("7", "Ada Lovelace", "She wrote the first program."))
    'Ada Lovelace | She wrote the first program.'
    """
    return f"{passage.title} | {passage.text}" if passage.title else passage.text


class PolyhopRetriever(dspy.Retrieve):
    """A ``dspy.Retrieve`` that searches by itself, without ``dspy.settings.rm``.

    ``source``: an open ``Pipeline``, whose retriever and reranker are asked, else a retriever or a corpus, opened with
    ``options`` of a ``Pipeline``. ``k``: passages per search. Its predictions have ``passages`` (texts) and, beside
    them, ``ids``, ``titles`` and ``scores`` (None for a retriever without any).
    """

    def __init__(self, source: Pipeline | Source | Searcher | None, *, k: int = 3, **options: Any) -> None:
        super().__init__(k=k)
        self._opened = OpenPipeline(source, options)

    def forward(self, query: str, k: int | None = None) -> dspy.Prediction:
        """Return the ``k`` best passages, best first."""
        return self._opened.wait(self.aforward(query, k))

    async def aforward(self, query: str, k: int | None = None) -> dspy.Prediction:
        """Search as ``forward`` does, asynchronously."""
        hits = await self._opened.search(query, self.k if k is None else k)
        return dspy.Prediction(
            passages=[to_text(passage) for passage, _ in hits],
            ids=[passage.id for passage, _ in hits],
            titles=[passage.title for passage, _ in hits],
            scores=[score for _, score in hits],
        )

    def close(self) -> None:
        """Close what this object opened."""
        self._opened.close()


class PolyhopRM:
    """A retrieval model for ``dspy.configure(rm=…)``, so that a program's ``dspy.Retrieve(k=…)`` searches with polyhop.

    Arguments as for ``PolyhopRetriever``.
    """

    def __init__(self, source: Pipeline | Source | Searcher | None, *, k: int = 3, **options: Any) -> None:
        self.k = k
        self._opened = OpenPipeline(source, options)

    def __call__(self, query: str, k: int | None = None, **ignored: Any) -> list[dspy.Prediction]:
        """Return the ``k`` best passages, each with its ``long_text``, ``id``, ``title`` and ``score``."""
        hits = self._opened.wait(self._opened.search(query, self.k if k is None else k))
        return [
            dspy.Prediction(long_text=to_text(passage), id=passage.id, title=passage.title, score=score)
            for passage, score in hits
        ]

    def close(self) -> None:
        """Close what this object opened."""
        self._opened.close()


class PolyhopModule(dspy.Module):
    """A module ``question -> answer`` that answers by a polyhop method; ``module(question=…)`` or ``await acall(…)``.

    ``source``: an open ``Pipeline``, else what a ``Pipeline`` takes for its corpus, opened with ``options``.
    ``kind``: the kind of its questions. A prediction has ``answer``, ``passages`` (texts), ``citations``,
    ``confidence``, ``support`` and the other fields of ``Answer.to_dict``, with the ``trace`` on request. The module
    has no predictors of DSPy: an optimiser finds nothing to change in it, and its calls are not in DSPy's history.
    """

    def __init__(
        self,
        source: Pipeline | Source | Searcher | None = None,
        *,
        kind: Kind = "qa",
        trace: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.kind, self.trace = kind, trace
        self._opened = OpenPipeline(source, options)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer a question."""
        return self._opened.wait(self.aforward(question))

    async def aforward(self, question: str) -> dspy.Prediction:
        """Answer as ``forward`` does, asynchronously."""
        answer: Answer = await self._opened.pipeline.aask(question, kind=self.kind)
        row = answer_row(answer, trace=self.trace)
        return dspy.Prediction(**row, passages=[to_text(passage) for passage in sources(answer)])

    def close(self) -> None:
        """Close what this object opened."""
        self._opened.close()
