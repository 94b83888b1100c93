"""Look-ups of a method in progress: links, documents, similarity, lengths. They cost no call and leave no step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyhop.engine.call import Options
from polyhop.engine.equipment import Equipment
from polyhop.engine.models import count_tokens, truncate
from polyhop.lm.base import Capabilities
from polyhop.prompts.tasks import task_name
from polyhop.readers.base import DEFAULT_THRESHOLD
from polyhop.types import Passage, TypedTask


class Lookups:
    """The part of a ``Run`` that only looks things up in its engine and retriever."""

    def __init__(self, engine: Equipment) -> None:
        self._engine, self._retriever = engine, engine.retriever

    def capabilities(self, task: str) -> Capabilities:
        """Return the capabilities of the model for a task."""
        return self._engine.model_of(task).capabilities

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages that ``passage`` links to, known to the retriever or to a corpus beside it."""
        return self._retriever.links(passage) if self._retriever else []

    def document(self, passage: Passage) -> list[Passage]:
        """Return the passages of the document of ``passage``, in order; it alone if its corpus is not known."""
        return (self._engine.documents(passage) if self._engine.documents else []) or [passage]

    def similarity(self, text: str, texts: Sequence[str], *, lexical: bool = False) -> list[float]:
        """Return the similarity of ``text`` to each of ``texts``, from 0 to 1: the cosine of their vectors by the
        retriever's encoder or, if it has none or ``lexical`` is set, by TF-IDF fitted on them."""
        return self._engine.similarity(text, texts, lexical=lexical)

    @property
    def encode(self) -> Callable[[Sequence[str]], Any] | None:
        """The function that turns questions into vectors, (texts, size), if the retriever has an encoder."""
        encoder = self._retriever and self._retriever.encoder
        return encoder.queries if encoder else None

    @property
    def reader_has_tokenizer(self) -> bool:
        """True if the reader cuts what it is shown by the tokens of its own checkpoint."""
        return self._engine.needed_reader.has_tokenizer

    @property
    def reader_threshold(self) -> float:
        """The confidence above which the reader's answers can be trusted, on the reader's own scale."""
        return self._engine.reader.threshold if self._engine.reader else DEFAULT_THRESHOLD

    def count_tokens(self, text: str, task: str | None = None) -> int:
        """Count tokens by the tokenizer of the model for ``task`` or the default one; without one, by 4 characters."""
        return count_tokens(self._engine.model_of(task) if task else self._engine.models.default, text)

    def truncate(self, text: str, tokens: int, task: str | None = None) -> str:
        """Cut ``text`` at the end to at most ``tokens`` tokens, counted as in ``count_tokens``."""
        return truncate(self._engine.model_of(task) if task else self._engine.models.default, text, tokens)

    def prompt_tokens(self, task: TypedTask[Any] | str, *, options: Options | None = None, **fields: Any) -> int:
        """Count the tokens of the prompt of ``ask`` or ``score``: instruction, demonstrations and input."""
        return self._engine.prompt_tokens(task_name(task), fields, options)

    def demonstrations(self, task: str) -> Sequence[Mapping[str, Any]]:
        """Return the demonstrations in the prompt file of a scored task: their fields, and a ``kind``."""
        return self._engine.prompts.scored(task).demonstrations
