"""Passages, questions, spans, evidence and citations: plain values, frozen and comparable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar, overload

from annotated_types import Ge, Gt, Le

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Kind: TypeAlias = Literal["qa", "boolean", "slot", "fact", "long"]
"""The form of a task (not a benchmark's own question type, which is ``Question.metadata["type"]``)."""


Support: TypeAlias = Literal["supported", "not verified", "contradicted"]
"""The verdict of the cited passages, read alone, on an answer: they give it, do not show it, or give another one."""

SpanChoice: TypeAlias = Literal["joint", "independent"]
"""A reader's choice of a span: the best sum of start and end, or the most probable start and end independently."""


MAX_INTEGER = 2**53 - 1
"""The largest setting or limit: every reader of JSON holds an integer up to it exactly."""

Positive: TypeAlias = Annotated[int, Gt(0), Le(MAX_INTEGER)]
"""An integer setting of at least 1."""

NonNegative: TypeAlias = Annotated[int, Ge(0), Le(MAX_INTEGER)]
"""An integer setting of at least 0; 0 means none."""


FileName: TypeAlias = Annotated[str, "names a file"]
"""A setting that names a file of the user; a server accepts none from its clients."""


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """One passage of a corpus; equal and hashed by ``id``.

    ``links`` holds the titles to which this passage links, if the corpus has hyperlinks. Those of own documents lead to
    files, and are in the metadata (``data/documents.py``).
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
        """Return JSON-ready values, without empty ``links`` and ``metadata``."""
        row: dict[str, Any] = {"id": self.id, "title": self.title, "text": self.text}
        if self.links:
            row["links"] = list(self.links)
        if self.metadata:
            row["metadata"] = dict(self.metadata)
        return row


def are_of_documents(passages: Iterable[Passage]) -> bool:
    """Return True if passages, at least one, are parts of files, not articles."""
    of_documents = False
    for passage in passages:
        of_documents = "source" in passage.metadata
        if not of_documents:
            break
    return of_documents


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold passages of a question that a corpus has, and the names (ids or titles) of those that it lacks."""

    passages: tuple[Passage, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """The data of a question beyond its text that its method's needs name: ``gold``; ``corpus``, every passage that a
    search for it can find. Without the need each is None."""

    gold: Gold | None = None
    corpus: Iterable[Passage] | None = None


NOTHING = Given()


@dataclass(frozen=True, slots=True)
class Question:
    """A question and, if a dataset has them, its gold answers with aliases, passages, supporting facts and steps.

    A method is given only ``text`` and ``kind``, and what its needs name (``Given``); the rest is for evaluation.
    ``contexts``: the passages of its own to which its searches are restricted; () for none. ``conversation``: the
    earlier turns of a chat, (role, text) each, with which a language model rewrites a follow-up question. ``gold``:
    found for methods that need it. Hashed by ``id``.
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
    contexts: tuple[Passage, ...] = ()
    conversation: tuple[tuple[str, str], ...] = ()
    gold: Gold | None = None

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def answerable(self) -> bool | None:
        """The ``answerable`` of its metadata, else True if it has gold answers; None if neither tells."""
        stated = self.metadata.get("answerable")
        return stated if isinstance(stated, bool) else bool(self.answers) or None


@dataclass(frozen=True, slots=True)
class Span:
    """An answer read from a passage: ``text == passage.text[start:end]``; ``confidence`` on the reader's own scale.

    ``read_path`` alone also gives words that are in no text ("yes", "no", a title): they start and end at 0."""

    passage_id: str
    text: str
    start: int
    end: int
    confidence: float
    answerable: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """Passages that bear on the answer together, the conclusion from them, and the sentence that explains it (ToR §3.2:
    the *brief analysis*)."""

    passages: tuple[Passage, ...]
    answer: str | None = None
    analysis: str | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """A numbered reference to a passage; ``text[start:end]`` is the answer, if the passage contains it verbatim."""

    marker: int
    passage_id: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Quotation:
    """The sentence ``text[start:end]`` of a cited passage from which its support was judged, and the ``answer`` that
    the cited passages give when they are read alone."""

    passage_id: str
    start: int
    end: int
    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class BlindReading:
    """The result of reading passages alone for a question: an answer, if any, its probability if known, and the
    ``words`` of the passages that state it, by default its own. ``agrees``: the reader's own comparison, if it made
    one, with the answer to be checked. ``features``: what a calibration makes the probability of."""

    answer: str | None
    probability: float | None = None
    words: str | None = None
    agrees: bool | None = None
    features: Mapping[str, float] = field(default_factory=dict)


Search: TypeAlias = Callable[[str, int], "Sequence[Passage] | Awaitable[Sequence[Passage]]"]
"""A retriever: ``(query, k) -> passages``, best first, at most k; sync or async."""

Read: TypeAlias = Callable[[str, Sequence[Passage]], "Sequence[Span] | Awaitable[Sequence[Span]]"]
"""A reader: ``(question, passages) -> spans``, best first; sync or async."""


class SplitQuestion(Protocol):
    """A question about something that it only describes, split in two."""

    @property
    def inner(self) -> str:
        """The question of what is described."""

    def about(self, name: str) -> str:
        """Return the rest of the question, about the answer to the inner one."""
        ...


class PathScorer(Protocol):
    """A part that scores paths of passages without a language model; a higher score is better. ``found``: the passages
    of the first search, best first. It also reads the steps of a question."""

    async def scores(
        self, question: str, paths: Sequence[Sequence[Passage]], found: Sequence[Passage]
    ) -> Sequence[float]:
        """Score each path with all that the scorer has."""
        ...

    def linear_scores(
        self, question: str, paths: Sequence[Sequence[Passage]], found: Sequence[Passage]
    ) -> Sequence[float]:
        """Score each path with a linear model alone, which is fast."""
        ...

    def likelihood_scores(self, question: str, paths: Sequence[Sequence[Passage]]) -> Sequence[float]:
        """Score each path by the likelihood of the question after it."""
        ...

    async def leads(self, question: str, path: Sequence[Passage], max_leads: int) -> list[str]:
        """Extract at most ``max_leads`` names to search for next from a path, most probable first."""
        ...

    async def split(self, question: str) -> SplitQuestion | None:
        """Split a question about something that it only describes; None for any other."""
        ...

    async def read_step(
        self, question: str, passages: Sequence[Passage], known: Sequence[str]
    ) -> tuple[str, Passage] | None:
        """Read the answer to a step of a question off one of the passages; None if none of them has it. ``known``: what
        the step is about, which is no answer to it."""
        ...


class SupportReader(Protocol):
    """A part that reads cited passages alone, without a language model call."""

    async def read_alone(self, question: str, passages: Sequence[Passage], kind: Kind) -> BlindReading:
        """Answer the question from the passages and nothing else."""
        ...


class TypedTask(Protocol[T_co]):
    """A prompt task whose output has a known type."""

    @property
    def name(self) -> str: ...

    @property
    def output(self) -> type[T_co]: ...


class QuestionRun(Protocol):
    """The part of a question's ``Run`` that a retriever or reranker uses: its calls and searches stay within the
    question's budget, trace and cache."""

    @overload
    async def ask(self, task: TypedTask[T], *, options: Any = None, **fields: Any) -> T:
        """Make one language model call; return the task's typed output."""

    @overload
    async def ask(self, task: str, *, options: Any = None, **fields: Any) -> Any: ...

    async def search(self, query: str, k: int) -> list[Passage]:
        """Search with the base retriever; return up to ``k`` passages, best first."""
        ...

    async def gather(self, *work: Coroutine[Any, Any, T], finish_all: bool = False) -> list[T]:
        """Run coroutines at once; return their results in order. With ``finish_all`` an error cancels no other."""
        ...

    def capabilities(self, task: str) -> Any:
        """Return the capabilities of the model for a task."""
        ...

    def truncate(self, text: str, tokens: int) -> str:
        """Cut ``text`` at the end to at most ``tokens`` tokens."""
        ...

    def gathering(self) -> AbstractContextManager[None]:
        """Leave the block when the budget is spent."""
        ...
