"""The base of search engines: the address of a corpus in one, and the operations of each.

An engine stores with each passage the ids of the passages it links to, and once a manifest: which corpus this is, how
its texts became terms, which encoder made its vectors, and whether the load is complete.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar, cast, get_args
from urllib.parse import unquote

from polyhop.common.registry import path_and_options
from polyhop.common.text import printable
from polyhop.data.lines import check_depth, json_type, mapping_of, strings_of
from polyhop.errors import RetrievalError, SettingError, UsageError, brief
from polyhop.net.client import Address
from polyhop.net.failures import backoff
from polyhop.redaction import summary
from polyhop.retrieval.engines.manifest import Manifest
from polyhop.retrieval.hybrid import Fusion
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from polyhop.retrieval.index import Index

T = TypeVar("T")
Hits: TypeAlias = "list[tuple[Passage, float]]"

SPARE = 20
"""Hits fetched beyond ``k``, so that a small tie at the cut is broken by passage id."""

_ATTEMPTS = 8
_FORMS = {
    "elastic": "elastic:http://localhost:9200/INDEX",
    "opensearch": "opensearch:https://localhost:9200/INDEX",
    "qdrant": "qdrant:http://localhost:6333/COLLECTION or qdrant:FOLDER",
    "postgres": "postgres://localhost/DATABASE#TABLE",
}
_EXAMPLE = "dense=intfloat/e5-base-v2"
_DSN_SCHEMES = ("", "postgres:", "postgresql:")
_DSN_SHOWN = ("host", "port", "dbname")


# --- the address ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EngineAddress:
    """The address of a corpus in an engine, read from a retriever's name.

    Attributes:
        server: a URL, a connection string or a folder as given, with its secrets: never shown.
        shown: the retriever's name without secrets and options.
        dense: the encoder of the vectors to search; without ``fusion``, only the vectors are searched.
        ca: a file with the certificates that sign the server's.
    """

    kind: str
    server: str = field(repr=False)
    collection: str
    shown: str
    dense: str | None = None
    fusion: Fusion | None = None
    ca: str | None = None

    @property
    def name(self) -> str:
        """The retriever's name without secrets."""
        pairs = {"dense": self.dense, "fusion": self.fusion}
        options = "&".join(f"{name}={value}" for name, value in pairs.items() if value)
        return f"{self.shown}?{options}" if options else self.shown


def address_of(kind: str, rest: str) -> EngineAddress:
    """Parse the part after ``elastic:``, ``opensearch:``, ``qdrant:`` or ``postgres:``.

    >>> address_of("elastic", "http://ada:secret@localhost:9200/wiki?dense=intfloat/e5-base-v2&fusion=rrf").name
    'elastic:http://localhost:9200/wiki?dense=intfloat/e5-base-v2&fusion=rrf'
    >>> address_of("postgres", "//ada:secret@localhost/db#wiki").name
    'postgres://localhost/db#wiki'
    >>> address_of("qdrant", "my-folder").collection
    'polyhop'

    Raises:
        SettingError: it cannot be read, or has an unknown option.
    """
    if kind == "postgres":
        server, mark, tail = rest.rpartition("#")
        collection, given = path_and_options(kind, tail if mark else "", _EXAMPLE)
        shown = f"postgres:{_shown_dsn(server)}#{collection}"
    elif kind == "qdrant" and "://" not in rest:
        server, given = path_and_options(kind, rest, _EXAMPLE)
        collection, shown = "polyhop" if server else "", f"qdrant:{server}"
    else:
        path, given = path_and_options(kind, rest, _EXAMPLE)
        server, _, collection = path.rpartition("/")
        shown = f"{kind}:{Address(server).redacted_url}/{collection}" if collection and "://" in server else kind
        collection = collection if "://" in server else ""
    if not collection:
        raise SettingError(f"{kind}: does not say what to search: write {_FORMS[kind]}")
    options = {name: unquote(str(value)) for name, value in given.items()}
    if unknown := sorted(set(options) - {"dense", "fusion", "ca"}):
        raise SettingError(
            f"{shown}: unknown option {unknown[0]!r}; the options are dense=ENCODER, fusion=rrf|relative|zscore "
            "and ca=FILE (write a question mark or ampersand inside one as %3F or %26)"
        )
    fusion = options.get("fusion")
    if fusion is not None and fusion not in get_args(Fusion):
        raise SettingError(f"{shown}: fusion={fusion!r}: must be {' or '.join(get_args(Fusion))}")
    if fusion and not options.get("dense"):
        raise SettingError(f"{shown}: fusion={fusion} needs the vectors of an encoder, as dense=intfloat/e5-base-v2")
    return EngineAddress(
        kind, server, collection, shown, options.get("dense"), cast(Fusion | None, fusion), options.get("ca")
    )


def _shown_dsn(dsn: str) -> str:
    """Remove user, password and parameters from a connection string.

    >>> _shown_dsn("//ada:se@cret@host:5432/db?sslmode=require"), _shown_dsn("postgresql://ada@host/db")
    ('//host:5432/db', '//host/db')
    >>> _shown_dsn("host=localhost dbname=db password='my secret'"), _shown_dsn("")
    ('dbname=db host=localhost', '')
    >>> _shown_dsn("//ada:se?cret@host/db")  # libpq allows a question mark in a password
    '//'
    """
    scheme, slashes, rest = dsn.partition("//")
    if slashes and scheme in _DSN_SCHEMES:
        host, _, options = rest.partition("?")
        return "//" if "@" in options else "//" + host.rpartition("@")[2]
    words = (word.partition("=") for word in dsn.split())
    return " ".join(sorted(f"{name}={value}" for name, _, value in words if name in _DSN_SHOWN))


# --- the content ------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A passage to load, the ids of the passages it links to, and its vector, (size,), if the load has vectors."""

    passage: Passage
    linked: Sequence[str]
    vector: NDArray[np.float32] | None = None


class Busy(RetrievalError):
    """An engine that cannot answer now; ``wait`` is the number of seconds that it asks to wait."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


def patiently(call: Callable[[], T]) -> T:
    """Call, and repeat with growing pauses while the engine is busy."""
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
    """Raise ``RetrievalError`` for a complete reply that does not have the engine's shape."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        why = printable(summary(f"{type(error).__name__}: {error}"))
        raise RetrievalError(
            f"{shown} sent an unreadable answer ({why}): is it such an engine, and its data complete?"
        ) from error


class Store(ABC):
    """A corpus in an engine: the operations of loading and searching. Safe across threads.

    Every method may raise ``RetrievalError``, once the retries are used up. ``manifest`` is known after ``find`` or
    ``create``. ``max_vector_size`` is in numbers.
    """

    max_vector_size: ClassVar[int]
    manifest: Manifest

    def __init__(self, address: EngineAddress) -> None:
        self.address = address

    def facts(self, index: Index) -> dict[str, Any]:
        """Compute the facts about a corpus that the engine needs before loading, for the manifest."""
        return {}

    @abstractmethod
    def find(self) -> Manifest | None:
        """Find the manifest of an earlier load, complete or not; None if nothing is stored there.

        Raises:
            UsageError: polyhop did not load it.
            Unfit: it was changed since.
        """

    @abstractmethod
    def create(self, manifest: Manifest) -> None:
        """Create it empty."""

    @abstractmethod
    def drop(self) -> None:
        """Remove everything. Called only after ``find`` returned a manifest or raised ``Unfit``."""

    @abstractmethod
    def known(self, ids: Sequence[str]) -> Collection[str]:
        """Return those of these ids whose passages are stored already."""

    @abstractmethod
    def add(self, rows: Sequence[Row]) -> None:
        """Write passages; they are stored when it returns. A passage with a known id is the same one."""

    @abstractmethod
    def finish(self) -> int:
        """Make everything that was added searchable; return the number of passages."""

    @abstractmethod
    def keep(self, manifest: Manifest) -> None:
        """Replace the manifest."""

    @abstractmethod
    def by_terms(self, query: str, k: int) -> Hits:
        """Search for the words of a query: the ``k`` best passages, best first."""

    @abstractmethod
    def by_vector(self, vector: NDArray[np.float32], k: int) -> Hits:
        """Search for the ``k`` passages with the largest inner products, best first, in an approximate index."""

    @abstractmethod
    def linked(self, id: str) -> Sequence[str]:
        """Return the ids of the passages that this one links to; none for an unknown id."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return the stored passages with these ids, in one request."""


def body_of(passage: Passage) -> str:
    """Write the text that is searched for terms."""
    return f"{passage.title}\n{passage.text}"


def read_passage(row: Mapping[str, Any]) -> Passage:
    """Read a passage from the fields that an engine stored. ``ValueError`` names a field of another type."""
    for name in ("id", "title", "text"):
        if not isinstance(row[name], str):
            raise ValueError(f"{name!r} is {json_type(row[name])}, expected a string")
    metadata = mapping_of(row, "metadata")
    check_depth(metadata)
    return Passage(row["id"], row["title"], row["text"], strings_of(row, "links"), metadata)


def read_score(value: Any) -> float:
    """Read the score of a hit. Raises ``ValueError`` for anything but a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"a score is {brief(value)}, expected a number")
    return float(value)


def read_ids(value: Any) -> list[str]:
    """Read a list of passage ids. Raises ``ValueError`` for anything else."""
    if not isinstance(value, list | tuple) or not all(isinstance(id, str) for id in value):
        raise ValueError(f"the ids of linked passages are {brief(value)}, expected strings")
    return list(value)


def by_id(hits: Hits, k: int) -> Hits:
    """Return the ``k`` best of hits, each passage once; ties are broken by passage id."""
    best: dict[str, tuple[Passage, float]] = {}
    for hit in sorted(hits, key=lambda hit: (-hit[1], hit[0].id)):
        best.setdefault(hit[0].id, hit)
    return list(best.values())[:k]


def check_version(server: str, version: str, oldest: Sequence[int]) -> None:
    """Raise ``UsageError`` if the version of a server is older than ``oldest``."""
    if tuple(int(part) for part in re.findall(r"\d{1,9}", version)[: len(oldest)]) < tuple(oldest):
        needed = ".".join(map(str, oldest))
        raise UsageError(f"{server} {printable(summary(version))} is too old: {needed} or newer is needed")
