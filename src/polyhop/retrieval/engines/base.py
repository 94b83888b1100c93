"""The operations of every engine, and the retriever over it: same ids, same passages, same protocol as over an index.

An engine keeps with each passage the ids of those it links to, and with all of them a manifest: which corpus this is,
how its texts became terms, whose vectors it has, and whether it is whole.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from polyhop._version import __version__
from polyhop.common.text import counted
from polyhop.errors import RetrievalError, UsageError
from polyhop.net.failures import backoff
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.base import ScoringRetriever
from polyhop.retrieval.engines.address import EngineAddress
from polyhop.retrieval.hybrid import Fusion, fused
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

T = TypeVar("T")
Hits: TypeAlias = "list[tuple[Passage, float]]"

FORMAT = 1
DEPTH = 100
"""Hits of each ranking that are fused, more where more are asked for."""

_ATTEMPTS = 8


class Row(NamedTuple):
    """A passage as it is loaded: ``linked``: the ids of those it links to; ``vector``: (size,), where it has one."""

    passage: Passage
    linked: Sequence[str]
    vector: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Manifest:
    """The description of an engine's content: its corpus, the analysis of its texts, and the encoder of its vectors, if
    any. ``facts``: kept for the engine itself."""

    corpus: str
    fingerprint: str
    passages: int
    language: str
    stem: bool
    stop_words: bool
    encoder: str | None = None
    encoder_key: str | None = None
    size: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = False
    polyhop: str = __version__
    format: int = FORMAT

    @classmethod
    def of(cls, index: Index, encoder: Encoder | None) -> Manifest:
        """The manifest of an index's corpus, to be loaded with the vectors of an encoder."""
        terms = index.analysis
        described = cls(index.name, index.fingerprint, len(index), terms.language, terms.stem, terms.stop_words)
        if encoder is None:
            return described
        return replace(described, encoder=encoder.name, encoder_key=short_key(encoder), size=encoder.size)

    @property
    def analysis(self) -> Analysis:
        """The analysis that turned its texts into terms."""
        return Analysis(self.language, self.stem, self.stop_words)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return asdict(self)

    @classmethod
    def read(cls, data: object, shown: str) -> Manifest:
        """Read the values of ``to_dict`` from an engine. ``UsageError`` for others, ``Unfit`` for another format."""
        needed = {item.name for item in fields(cls) if item.default is item.default_factory is MISSING}
        names = set(data) if isinstance(data, Mapping) else set()
        if not isinstance(data, Mapping) or "format" not in names or not (needed <= names or data["format"] != FORMAT):
            raise UsageError(
                f"{shown} was not loaded by polyhop, so it is neither searched nor written to; name another, and load "
                "it by polyhop index load"
            )
        if data["format"] != FORMAT:
            raise Unfit(
                f"{shown} was loaded in format {data['format']} by polyhop {data.get('polyhop')}; this polyhop reads "
                f"format {FORMAT}: load it again with --overwrite"
            )
        return cls(**{item.name: data[item.name] for item in fields(cls) if item.name in data})

    def same(self, other: Manifest) -> bool:
        """True if both describe the same passages, terms and vectors."""
        return self._content() == other._content()

    def _content(self) -> Manifest:
        return replace(self, facts={}, complete=False, polyhop="")

    @property
    def vectors(self) -> str:
        """Its vectors and their encoder, in words."""
        return f"vectors of {counted(self.size, 'numbers')} by {self.encoder}" if self.encoder else "no vectors"

    def __str__(self) -> str:
        content = f"{counted(self.passages, 'passages')}, {self.fingerprint[:8]}; {self.analysis}; {self.vectors}"
        return f"{self.corpus!r} ({content})"


def short_key(encoder: Encoder) -> str:
    """An encoder's ``key`` in 16 digits."""
    return sha256(encoder.key.encode()).hexdigest()[:16]


class Unfit(UsageError):
    """A load by polyhop that is in another format or was changed since: it may be overwritten."""


class Busy(RetrievalError):
    """An engine that asks to be asked again; ``wait``: after so many seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


def patiently(call: Callable[[], T]) -> T:
    """Call, again with growing pauses while the engine is busy."""
    for failures in range(_ATTEMPTS - 1):
        try:
            return call()
        except Busy as busy:
            time.sleep(backoff(failures, busy.wait))
    try:
        return call()
    except Busy as busy:
        raise RetrievalError(f"{busy} ({_ATTEMPTS} attempts); load or ask it more slowly") from None


@contextmanager
def readable(shown: str) -> Iterator[None]:
    """Raise ``RetrievalError`` for a reply that is whole and yet of another shape than the engine's own."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise RetrievalError(
            f"{shown} answers what cannot be read ({type(error).__name__}): is it such an engine, and its data whole?"
        ) from error


class Store(ABC):
    """A corpus in an engine: the operations of loading and searching. Safe across threads.

    Every method may raise ``RetrievalError``, after the retries are spent. ``manifest`` is known once ``find`` or
    ``create`` has returned. ``max_vector_size``: in numbers.
    """

    max_vector_size: ClassVar[int]
    manifest: Manifest

    def __init__(self, address: EngineAddress) -> None:
        self.address = address

    def facts(self, index: Index) -> dict[str, Any]:
        """Compute the facts about a corpus that the engine needs before loading; they are kept in the manifest."""
        return {}

    @abstractmethod
    def find(self) -> Manifest | None:
        """Find the manifest of an earlier load, whole or not; None if nothing is stored there.

        Raises:
            UsageError: it is not ours; or ``Unfit``: it is not as we made it.
        """

    @abstractmethod
    def create(self, manifest: Manifest) -> None:
        """Make an empty one, to be filled."""

    @abstractmethod
    def drop(self) -> None:
        """Remove all of it. Called only after ``find`` returned a manifest or raised ``Unfit``."""

    @abstractmethod
    def known(self, ids: Sequence[str]) -> Collection[str]:
        """Those of these ids whose passages are here already."""

    @abstractmethod
    def add(self, rows: Sequence[Row]) -> None:
        """Write passages, whole when it returns; one of the same id is the same passage."""

    @abstractmethod
    def finish(self) -> int:
        """Make all that was added searchable; how many passages there are."""

    @abstractmethod
    def keep(self, manifest: Manifest) -> None:
        """Replace the manifest."""

    @abstractmethod
    def by_terms(self, query: str, k: int) -> Hits:
        """The ``k`` best passages for a query's words, best first."""

    @abstractmethod
    def by_vector(self, vector: NDArray[np.float32], k: int) -> Hits:
        """The ``k`` passages of the largest inner product, best first, as far as an approximate index finds them."""

    @abstractmethod
    def linked(self, id: str) -> Sequence[str]:
        """The ids of the passages that this one links to; none for an id that is not here."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """The passages of these ids, those there are, in one request."""


class Remote(ScoringRetriever):
    """Search in an engine, over the corpus that was loaded there. Safe across threads.

    Without an encoder by terms, with one by vectors, with ``fusion`` by both, fused here. Passages are the corpus'
    own; those of equal score are in the order of their ids.
    """

    def __init__(self, store: Store, encoder: Encoder | None = None, fusion: Fusion | None = None) -> None:
        self.name, self.encoder, self.fusion = store.address.name, encoder, fusion
        self._store = store
        shown = store.address.shown
        with readable(shown):
            manifest = store.find()
        if manifest is None:
            raise nothing_loaded(store.address)
        if not manifest.complete:
            raise UsageError(f"the load of {manifest} into {shown} was stopped; the same load goes on where it was")
        if encoder is not None and (manifest.encoder_key, manifest.size) != (short_key(encoder), encoder.size):
            raise UsageError(
                f"{shown} has {manifest.vectors}, not {counted(encoder.size, 'numbers')} by {encoder.name}; "
                "load it with these: polyhop index load … --dense … --overwrite"
            )
        self.fingerprint, self.analysis = manifest.fingerprint, manifest.analysis

    def _scored_many(self, queries: Sequence[str], k: int) -> list[Hits]:
        queries = [_sendable(query) for query in queries]
        asked = [query for query in dict.fromkeys(queries) if query]
        found = dict(zip(asked, self._found(asked, k), strict=True)) if asked else {}
        return [found.get(query, []) for query in queries]

    def _found(self, queries: Sequence[str], k: int) -> list[Hits]:
        if self.encoder is None:
            return [self._by_terms(query, k) for query in queries]
        vectors = self.encoder.queries(queries)
        if self.fusion is None:
            return [self._by_vector(vector, k) for vector in vectors]
        depth = max(k, DEPTH)
        return [
            fused([(self._by_terms(query, depth), 1), (self._by_vector(vector, depth), 1)], self.fusion)[:k]
            for query, vector in zip(queries, vectors, strict=True)
        ]

    def _by_terms(self, query: str, k: int) -> Hits:
        with readable(self._store.address.shown):
            return self._store.by_terms(query, k)

    def _by_vector(self, vector: NDArray[np.float32], k: int) -> Hits:
        with readable(self._store.address.shown):
            return self._store.by_vector(vector, k)

    async def aclose(self) -> None:
        """Close the connections."""
        self._store.close()

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to, as the index had them that was loaded."""
        with readable(self._store.address.shown):
            ids = list(self._store.linked(passage.id))
            found = self._store.get(ids) if ids else {}
        return [found[id] for id in ids if id in found]


def nothing_loaded(address: EngineAddress) -> UsageError:
    """Build the error for an address with nothing to search."""
    return UsageError(f"nothing is loaded at {address.shown}; first: polyhop index load CORPUS '{address.shown}'")


def _sendable(query: str) -> str:
    """A query without what no engine takes: NUL, and half a surrogate pair.

    >>> _sendable(" Ada\\0Lovelace\\ud800 ")
    'Ada Lovelace?'
    """
    return query.encode(errors="replace").decode().replace("\0", " ").strip()


def by_id(hits: Hits, k: int) -> Hits:
    """The first ``k`` of hits, those of equal score in the order of their ids."""
    return sorted(hits, key=lambda hit: (-hit[1], hit[0].id))[:k]
