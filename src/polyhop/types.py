"""The nouns of the house: what a method is given and what it gives back.

Everything here is a plain value: frozen, comparable, printable, with nothing behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Gt, Le

if TYPE_CHECKING:
    from polyhop.trace import Trace, Usage

Kind: TypeAlias = Literal["qa", "boolean", "slot", "fact", "long"]
"""The form of a task (not a benchmark's own question type, which is ``Question.metadata["type"]``)."""


SpanChoice: TypeAlias = Literal["joint", "independent"]
"""How a reader picks a span: by the best sum of start and end, or the likeliest start and end each by itself."""


MAX_INTEGER = 2**53 - 1
"""The largest setting or limit: every reader of JSON holds an integer up to it exactly."""

Positive: TypeAlias = Annotated[int, Gt(0), Le(MAX_INTEGER)]
"""A setting that counts at least one."""

NonNegative: TypeAlias = Annotated[int, Ge(0), Le(MAX_INTEGER)]
"""A setting that counts, or is 0 for none."""


FileName: TypeAlias = Annotated[str, "names a file"]
"""A setting that names a file of the user's own: a server takes none from its clients."""


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """One passage of a corpus; equal and hashed by ``id``.

    ``links`` holds the titles this passage links to when the corpus has hyperlinks of its own.
    """

    id: str
    title: str
    text: str
    links: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Passage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def to_dict(self) -> dict[str, Any]:
        """The passage as JSON-ready values; empty ``links`` and ``metadata`` are left out."""
        row: dict[str, Any] = {"id": self.id, "title": self.title, "text": self.text}
        if self.links:
            row["links"] = list(self.links)
        if self.metadata:
            row["metadata"] = dict(self.metadata)
        return row


@dataclass(frozen=True, slots=True)
class Question:
    """A question and, where a dataset has it, its gold: answers with aliases, passages, supporting facts, steps.

    A method is only ever handed ``text`` and ``kind``; the rest is for evaluation. Hashed by ``id``.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    kind: Kind = "qa"
    gold_ids: tuple[str, ...] = ()
    gold_titles: tuple[str, ...] = ()
    supporting: tuple[tuple[str, int], ...] = ()
    steps: tuple[Mapping[str, Any], ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True, slots=True)
class Span:
    """An answer read from a passage: ``text == passage.text[start:end]``; ``confidence`` on the reader's own scale."""

    passage_id: str
    text: str
    start: int
    end: int
    confidence: float
    answerable: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """Passages that together bear on the answer, and what was concluded from them (ToR §3.2: the *brief analysis*)."""

    passages: tuple[Passage, ...]
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """A numbered reference to a passage; ``start:end`` is where its text carries the answer, when it does verbatim."""

    marker: int
    passage_id: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method found. A method fills the first five; the engine adds citations, the trace and usage.

    ``passages`` are ranked, best first, distinct. ``supported``: retrieved evidence backs the answer. ``confidence``, 0
    to 1: the model's own probability of the answer's words, else the share of evidence that came to it, else None.
    ``content``: the reasoning of a short answer, or the whole of a long one, with the marks [1] of its ``citations``;
    of a method that writes one.
    ``abstained``: there is no answer: the method came to none ("unknown"), or it was withheld because it fell short of
    ``abstain_below``; the trace has it.
    """

    text: str
    passages: tuple[Passage, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    supported: bool = False
    confidence: float | None = None
    abstained: bool = False
    statistics: Mapping[str, float] = field(default_factory=dict)
    citations: tuple[Citation, ...] = ()
    content: str = ""
    trace: Trace = field(default=None, repr=False)  # type: ignore[assignment]  # the engine always fills it
    usage: Usage = field(default=None, repr=False)  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values, the trace included."""
        return {
            "answer": self.text,
            "content": self.content,
            "confidence": self.confidence,
            "supported": self.supported,
            "abstained": self.abstained,
            "passages": [passage.to_dict() for passage in self.passages],
            "evidence": [
                {"passages": [passage.id for passage in piece.passages], "answer": piece.answer}
                for piece in self.evidence
            ],
            "citations": [
                {"marker": c.marker, "passage_id": c.passage_id, "start": c.start, "end": c.end} for c in self.citations
            ],
            "statistics": dict(self.statistics),
            "usage": self.usage.to_dict() if self.usage else None,
            "trace": self.trace.to_dict() if self.trace else None,
        }


Search: TypeAlias = Callable[[str, int], "Sequence[Passage] | Awaitable[Sequence[Passage]]"]
"""Anything that retrieves: ``(query, k) -> passages``, best first, at most k; sync or async."""

Read: TypeAlias = Callable[[str, Sequence[Passage]], "Sequence[Span] | Awaitable[Sequence[Span]]"]
"""Anything that reads: ``(question, passages) -> spans``, best first; sync or async."""
