"""The typed steps of a trace, as JSON-ready data and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from polyhop.common.text import printable
from polyhop.types import Passage, Span

_MAX_CHARACTERS = 160
"""Maximum length of a text in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a question. ``started`` counts seconds from the start of the question, on the event loop's clock.

    ``seconds`` includes waiting for a turn, ``own`` does not: it is the time of a call, search or reading by itself; a
    cached reply has that of the call that made it. ``chain``: if calls were prefetched, the seconds of their slowest
    chain so far. None if they are not known.
    """

    kind: ClassVar[str] = "step"
    volatile: ClassVar[frozenset[str]] = frozenset({"started", "seconds", "own", "chain"})

    id: int
    parent: int | None = None
    after: tuple[int, ...] = ()
    started: float = 0.0
    seconds: float = 0.0
    own: float | None = None
    chain: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values, passages by id; those that may differ between equal runs are under ``volatile``."""
        row: dict[str, Any] = {"kind": self.kind}
        volatile: dict[str, Any] = {}
        for item in fields(self):
            (volatile if item.name in self.volatile else row)[item.name] = plain(getattr(self, item.name))
        return {**row, "volatile": volatile}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Step):
    """A language model call."""

    kind: ClassVar[str] = "ask"
    volatile: ClassVar[frozenset[str]] = Step.volatile | {"cached", "retries", "depth"}

    task: str
    model: str
    fields: Mapping[str, Any]
    output: Mapping[str, Any] | None
    text: str
    reasoning: str | None = None
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """Those of ``completion_tokens`` that are thoughts; 0 if the server does not count them."""
    prompt_words: int = 0
    completion_words: int = 0
    estimated: bool = False
    prompt_hash: str = ""
    """A hash of the messages sent; with ``sample`` and ``max_tokens`` it identifies the call."""
    rendering: str | None = None
    """The form that the prompt asked for, ``text`` or ``json``; None in older traces."""
    shots: int | None = None
    """The number of demonstrations in the prompt; None in older traces."""
    max_tokens: int | None = None
    """The token cap of the call; None in older traces."""
    sample: int = 0
    """The number of identical calls of the question before this one."""
    tokens: tuple[str, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    attempt: int = 1
    """2 or 3 for a corrective retry, and for a retry with a larger token cap after a reply whose cap was spent."""
    retry_of: int | None = None
    """The id of the call that this one retries."""
    problem: str | None = None
    """The fault in the form of the reply; ``output`` is None then."""
    final: bool = False
    cached: bool = False
    retries: int = 0
    depth: int | None = None
    """The length of the chain of calls that leads to this reply, if calls were prefetched."""

    @property
    def ran_out(self) -> bool:
        """True if the token cap was spent before any text came."""
        return self.finish_reason == "length" and self.output is None and not self.text.strip()

    @property
    def was_cut(self) -> bool:
        """True if the token cap was spent before the text could be read, on thoughts or on nothing."""
        thought = bool(self.reasoning) or self.reasoning_tokens > 0
        return self.finish_reason == "length" and self.output is None and (thought or not self.text.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class AskWithTools(Ask):
    """A language model call that offers tools. ``output`` shows its calls, ``text`` is without them.

    The history after the prompt is that of the step that it ``continues``, if it does, and ``turns``.
    """

    tools: tuple[Mapping[str, Any], ...] = ()
    """The definitions of the tools."""
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    in_text: bool = False
    """True if the tools were a part of the messages; ``text`` is then as it was written, with the calls."""
    turns: tuple[Mapping[str, Any], ...] = ()
    continues: int | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """The calls in the reply: id, name, the text of the arguments, what is wrong with them."""
    carried: Mapping[str, Any] | None = None
    """Fields of the reply that go back to the server with its calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score(Step):
    """A batch of scored targets: the summed log-probability of each target, and those of its ``tokens``."""

    kind: ClassVar[str] = "score"
    volatile: ClassVar[frozenset[str]] = Step.volatile | {"retries"}

    task: str
    model: str
    targets: tuple[str, ...]
    logprobs: tuple[float, ...]
    tokens: tuple[tuple[float, ...], ...] = ()
    prompt_hash: str = ""
    """A hash of the prompt that the targets follow."""
    temperature: float = 1.0
    prompt_tokens: int = 0
    """An estimate: the tokens of the prompt and a target, summed over the targets."""
    prompt_words: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched(Step):
    """A search: at most ``k`` passages for ``query``, best first."""

    kind: ClassVar[str] = "search"

    query: str
    k: int
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readout(Step):
    """A call of the reader: spans of ``passages`` that answer ``question``, best first."""

    kind: ClassVar[str] = "read"

    question: str
    passages: tuple[Passage, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(Step):
    """A branch of the reasoning, with steps under it: a node of a tree, a round, a triplet. ``verdict`` is its end."""

    kind: ClassVar[str] = "branch"

    name: str
    label: str
    passages: tuple[Passage, ...] = ()
    verdict: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Step):
    """A note of the method or the engine: a fallback, a spent budget, the state of a memory."""

    kind: ClassVar[str] = "note"

    name: str
    data: Mapping[str, Any]


CALLS = (Ask, Score)


def plain(value: Any) -> Any:
    """Convert a value of a step to JSON-ready data: passages to ids, mappings and sequences in depth.

    >>> plain({"passages": (Passage("p1", "T", "x"),), "n": 1})
    {'passages': ['p1'], 'n': 1}
    """
    match value:
        case Passage():
            return value.id
        case Span():
            return {name: getattr(value, name) for name in ("passage_id", "text", "start", "end", "confidence")}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case str() | int() | float() | None:
            return value
        case Sequence() | set() | frozenset():
            return [plain(item) for item in value]
        case _:
            return str(value)


def passages_in(value: Any) -> Iterator[Passage]:
    """Yield the passages in a step, or in the values of its fields; one that occurs again is yielded again."""
    match value:
        case Passage():
            yield value
        case str() | int() | float() | None:
            return
        case Step():
            for item in fields(value):
                yield from passages_in(getattr(value, item.name))
        case Mapping():
            for item in value.values():
                yield from passages_in(item)
        case Sequence():
            for item in value:
                if isinstance(item, Passage):
                    yield item
                else:
                    yield from passages_in(item)


# --- as text --------------------------------------------------------------------------------------------------------


def line_of(step: Step) -> str:
    """Return a step as a line of printable text.

    >>> line_of(Searched(id=0, query="director of Alien", k=5, passages=()))
    'search: director of Alien → nothing found'
    """
    match step:
        case Branch():
            return f"{_cut(step.label)}: {step.verdict}" if step.verdict else _cut(step.label)
        case Searched():
            return f"search: {_cut(step.query)} → {_titles(step)}"
        case Ask() if step.output is None:
            return f"{step.task}: could not be read: {_cut(step.problem or '')}"
        case Ask():
            return f"{step.task}: {_pairs(step.output or {})}"
        case Score():
            return f"{step.task}: {len(step.targets)} scored"
        case Readout():
            return f"read: {_cut(step.question)} → {_cut(step.spans[0].text) if step.spans else 'nothing found'}"
        case Note():
            return f"{step.name}: {_pairs(step.data)}"
        case _:
            return step.kind


def _titles(step: Searched) -> str:
    return _cut(", ".join(passage.title for passage in step.passages)) or "nothing found"


def _pairs(values: Any) -> str:
    return _cut("; ".join(f"{name}: {plain(value)}" for name, value in values.items() if value is not None))


def _cut(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 1] + "…"
