"""The address of a corpus in an engine, read from a retriever's name: server, collection and options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast, get_args
from urllib.parse import unquote

from polyhop.common.registry import path_and_options
from polyhop.errors import SettingError
from polyhop.net.client import Address
from polyhop.retrieval.hybrid import Fusion

_FORMS = {
    "elastic": "elastic:http://localhost:9200/INDEX",
    "opensearch": "opensearch:https://localhost:9200/INDEX",
    "qdrant": "qdrant:http://localhost:6333/COLLECTION or qdrant:FOLDER",
    "postgres": "postgres://localhost/DATABASE#TABLE",
}
_EXAMPLE = "dense=intfloat/e5-base-v2"


@dataclass(frozen=True)
class EngineAddress:
    """``server``: a URL, a connection string or a folder, as it was given, secrets and all: never shown.

    ``shown``: the retriever's name up to its options, without secrets. ``dense``: the encoder whose vectors are
    searched, without ``fusion`` by them alone. ``ca``: a file of certificates that the server's is signed by.
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
        """The retriever's name, without secrets."""
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
        SettingError: it cannot be read, or has an option there is not.
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
        raise SettingError(f"{kind}: names no place to search: write {_FORMS[kind]}")
    options = {name: unquote(str(value)) for name, value in given.items()}
    if unknown := sorted(set(options) - {"dense", "fusion", "ca"}):
        raise SettingError(
            f"{shown}: there is no option {unknown[0]!r}, but dense=ENCODER, fusion=rrf|zscore and ca=FILE (a question "
            "mark or ampersand within one is written %3F or %26)"
        )
    fusion = options.get("fusion")
    if fusion is not None and fusion not in get_args(Fusion):
        raise SettingError(f"{shown}: fusion={fusion!r}: must be {' or '.join(get_args(Fusion))}")
    if fusion and not options.get("dense"):
        raise SettingError(f"{shown}: fusion={fusion} fuses with vectors: say whose, as dense=intfloat/e5-base-v2")
    return EngineAddress(
        kind, server, collection, shown, options.get("dense"), cast(Fusion | None, fusion), options.get("ca")
    )


def _shown_dsn(dsn: str) -> str:
    """A connection string without user, password and parameters.

    >>> _shown_dsn("//ada:se@cret@host:5432/db?sslmode=require"), _shown_dsn("postgresql://ada@host/db")
    ('//host:5432/db', '//host/db')
    >>> _shown_dsn("host=localhost dbname=db password='my secret'"), _shown_dsn("")
    ('dbname=db host=localhost', '')
    >>> _shown_dsn("//ada:se?cret@host/db")  # libpq takes a question mark in a password as it stands
    '//'
    """
    scheme, slashes, rest = dsn.partition("//")
    if slashes and scheme in _SCHEMES:
        host, _, options = rest.partition("?")
        return "//" if "@" in options else "//" + host.rpartition("@")[2]
    words = (word.partition("=") for word in dsn.split())
    return " ".join(sorted(f"{name}={value}" for name, _, value in words if name in get_args(_Shown)))


_SCHEMES = ("", "postgres:", "postgresql:")
_Shown = Literal["host", "port", "dbname"]
