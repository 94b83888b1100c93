"""PostgreSQL: full-text search by ``ts_rank_cd`` over a GIN index, and nearest vectors by pgvector's HNSW.

``ts_rank_cd`` is not BM25: it does not know how rare a word is, but how close the query's words stand together (Clarke,
Cormack and Tudhope, "Relevance Ranking for One to Three Term Queries", 2000). Of its normalisations the sum of 1 and 4,
by length and by distance, found most in the training questions of three benchmarks. Passages with any word of the query
are ranked; words are made by PostgreSQL's own configuration of the language, in English with accents dropped before, as
ours are. Vectors are of 16 bits (``halfvec``), as our own are.

Values are always bound, names always quoted. The manifest is the table's comment.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from polyhop.common.extras import require
from polyhop.common.text import normalise_unicode, printable
from polyhop.errors import RetrievalError, SettingError, UsageError
from polyhop.redaction import register_secret, summary
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.engines.address import EngineAddress
from polyhop.retrieval.engines.base import Busy, Hits, Manifest, Row, Store, Unfit, patiently
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_OLDEST, _OLDEST_VECTOR = 120000, (0, 7)
_MAX_NAME_BYTES = 63  # bytes, of PostgreSQL
_MAX_EF_SEARCH = 1000  # hnsw.ef_search
_SPARE = 20
"""Neighbours fetched beyond ``k``, so that the order of ids decides a small tie at the cut."""

_COLUMNS = "id, title, text, links, metadata"


class PostgresStore(Store):
    """A table of PostgreSQL. Passages of equal rank are in the order of their ids, also at the cut; of equal vectors,
    where no more than ``_SPARE`` tie there."""

    max_vector_size = 4000

    def __init__(self, address: EngineAddress) -> None:
        super().__init__(address)
        parts = address.collection.split(".")
        if any(not part or "\0" in part or len(part.encode()) > _MAX_NAME_BYTES for part in parts) or len(parts) > 2:
            raise SettingError(
                f"{address.shown}: {address.collection!r} is no name of a table: TABLE or SCHEMA.TABLE, each of up to "
                f"{_MAX_NAME_BYTES} bytes"
            )
        self._psycopg = require("psycopg", "pgvector", "the retriever postgres:")
        self._sql = require("psycopg.sql", "pgvector", "the retriever postgres:")
        self._name = self._sql.Identifier(*parts).as_string()
        self._idle: LifoQueue[Any] = LifoQueue()
        version = self._one("SELECT current_setting('server_version_num')::int")[0]
        if version < _OLDEST:
            raise UsageError(f"{address.shown}: PostgreSQL {version // 10000} is too old: 12 or newer is needed")

    def find(self) -> Manifest | None:
        """As ``Store.find``."""
        oid, comment = self._one(
            "SELECT to_regclass(%s), obj_description(to_regclass(%s), 'pg_class')", [self._name] * 2
        )
        if oid is None:
            return None
        self.manifest = Manifest.read(_json(comment), self.address.shown)
        column = self._all(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = "
            "'vector' AND NOT attisdropped",
            [self._name],
        )
        there, wanted = column[0][0] if column else None, f"halfvec({self.manifest.size})"
        if (there or "").rpartition(".")[2] != (wanted if self.manifest.size else ""):
            raise Unfit(
                f"the table of {self.address.shown} was changed: its vectors are {there}, not {wanted}; load it again "
                "with --overwrite"
            )
        return self.manifest

    def create(self, manifest: Manifest) -> None:
        """As ``Store.create``."""
        if manifest.size:
            self._check_vectors()
        self._do(
            self._formatted(
                'CREATE TABLE {table} (id text COLLATE "C" PRIMARY KEY, title text NOT NULL, text text NOT NULL, '
                "links text[] NOT NULL, metadata json NOT NULL, linked text[] NOT NULL, body tsvector NOT NULL"
                + (", vector halfvec({size}) NOT NULL)" if manifest.size else ")"),
                size=self._literal(manifest.size),
            ),
            self._comment(manifest),
        )
        self.manifest = manifest

    def drop(self) -> None:
        """As ``Store.drop``."""
        self._do(self._formatted("DROP TABLE {table}"))

    def known(self, ids: Sequence[str]) -> Collection[str]:
        """As ``Store.known``."""
        return {id for (id,) in self._all(self._formatted("SELECT id FROM {table} WHERE id = ANY(%s)"), [list(ids)])}

    def add(self, rows: Sequence[Row]) -> None:
        """As ``Store.add``: all rows as one value, in one statement."""
        values = [_values(row, self.manifest.analysis) for row in rows]
        if nul := next((row.passage.id for row in rows if _has_nul(row.passage)), None):
            raise UsageError(f"PostgreSQL holds no NUL character (U+0000), and the passage {nul!r} has one")
        vector, of_type = (", vector", ", vector halfvec") if self.manifest.size else ("", "")
        statement = self._formatted(
            f"INSERT INTO {{table}} ({_COLUMNS}, linked, body{vector}) "
            f"SELECT {_COLUMNS}, linked, to_tsvector({{language}}, body){vector} FROM json_to_recordset(%s::json) AS "
            f"given(id text, title text, text text, links text[], metadata json, linked text[], body text{of_type}) "
            "ON CONFLICT (id) DO NOTHING"
        )
        self._do(statement, values=[orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY).decode()])

    def finish(self) -> int:
        """As ``Store.finish``: the indexes are built at the end, which is faster."""
        steps = [self._formatted("CREATE INDEX ON {table} USING gin (body)")]
        if self.manifest.size:
            steps.append(self._formatted("CREATE INDEX ON {table} USING hnsw (vector halfvec_ip_ops)"))
        (there,) = self._one("SELECT count(*) FROM pg_index WHERE indrelid = to_regclass(%s)", [self._name])
        if there == 1:  # its key's alone
            self._do(*steps)
        self._do(self._formatted("ANALYZE {table}"))
        return int(self._one(self._formatted("SELECT count(*) FROM {table}"))[0])

    def keep(self, manifest: Manifest) -> None:
        """As ``Store.keep``."""
        self._do(self._comment(manifest))
        self.manifest = manifest

    def by_terms(self, query: str, k: int) -> Hits:
        """As ``Store.by_terms``: passages with any of the words, by ``ts_rank_cd``."""
        statement = self._formatted(
            # what plainto_tsquery joins by "and", joined by "or": its words are quoted, so nothing else is touched
            "WITH asked AS (SELECT replace(plainto_tsquery({language}, %s)::text, $$' & '$$, $$' | '$$)::tsquery AS q) "
            f"SELECT {_COLUMNS}, ts_rank_cd(body, q, 5) AS score FROM {{table}}, asked WHERE body @@ q "
            "ORDER BY score DESC, id LIMIT %s"
        )
        return self._hits(statement, [_prepared(query, self.manifest.analysis), k])

    def by_vector(self, vector: NDArray[np.float32], k: int) -> Hits:
        """As ``Store.by_vector``; exact, and slower, for more than a thousand."""
        wanted, numbers = k + _SPARE, "[" + ",".join(map(str, vector.tolist())) + "]"
        statement = self._formatted(
            f"SELECT {_COLUMNS}, -distance FROM (SELECT {_COLUMNS}, vector <#> %s::halfvec AS distance FROM {{table}} "
            "ORDER BY distance LIMIT %s) AS near ORDER BY distance, id LIMIT %s"
        )
        deep = f"SET LOCAL hnsw.ef_search = {max(100, wanted)}"
        if wanted > _MAX_EF_SEARCH:
            deep = "SET LOCAL enable_indexscan = off"
        return self._hits(statement, [numbers, wanted, k], first=deep)

    def linked(self, id: str) -> Sequence[str]:
        """As ``Store.linked``."""
        found = self._all(self._formatted("SELECT linked FROM {table} WHERE id = %s"), [id])
        return list(found[0][0]) if found else []

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """As ``Store.get``."""
        statement = self._formatted(f"SELECT {_COLUMNS} FROM {{table}} WHERE id = ANY(%s)")
        return {row[0]: _passage(row) for row in self._all(statement, [list(ids)])}

    def close(self) -> None:
        """As ``Store.close``."""
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _hits(self, statement: Any, values: Sequence[Any], first: str | None = None) -> Hits:
        def ask(cursor: Any) -> list[Any]:
            if first:
                cursor.execute(first)
            return list(cursor.execute(statement, values).fetchall())

        return [(_passage(row), float(row[5])) for row in self._with(ask)]

    def _check_vectors(self) -> None:
        try:
            self._do("CREATE EXTENSION IF NOT EXISTS vector")
        except RetrievalError as error:
            raise UsageError(f"{self.address.shown} has no vectors: {error}; install pgvector 0.7 or newer") from None
        found = self._one("SELECT extversion FROM pg_extension WHERE extname = 'vector'")[0]
        if tuple(map(int, found.split(".")[:2])) < _OLDEST_VECTOR:
            raise UsageError(f"{self.address.shown}: pgvector {found} is too old: 0.7 or newer is needed")

    def _comment(self, manifest: Manifest) -> Any:
        comment = orjson.dumps({"polyhop": manifest.to_dict()}).decode()
        return self._formatted("COMMENT ON TABLE {table} IS {comment}", comment=self._literal(comment))

    def _formatted(self, text: str, **parts: Any) -> Any:
        if "{language}" in text:
            parts["language"] = self._sql.SQL("{}::regconfig").format(self._literal(_config(self.manifest.analysis)))
        return self._sql.SQL(text).format(table=self._plain(self._name), **parts)

    def _literal(self, value: object) -> Any:
        return self._plain(self._sql.Literal(value).as_string())

    def _plain(self, text: str) -> Any:
        """A part of a statement in which a per cent sign marks no value."""
        return self._sql.SQL(text.replace("%", "%%"))

    def _one(self, statement: Any, values: Sequence[Any] = ()) -> Any:
        return self._all(statement, values)[0]

    def _all(self, statement: Any, values: Sequence[Any] = ()) -> list[Any]:
        return self._with(lambda cursor: list(cursor.execute(statement, values).fetchall()))

    def _do(self, *statements: Any, values: Sequence[Any] = ()) -> None:
        def run(cursor: Any) -> None:
            for statement in statements:
                cursor.execute(statement, values)

        self._with(run)

    def _with(self, work: Callable[[Any], T]) -> T:
        """Run ``work`` on a cursor, in one transaction on its own connection."""

        def once() -> T:
            with self._connection() as connection, connection.transaction(), connection.cursor() as cursor:
                return work(cursor)

        return patiently(once)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection that is idle, or a new one; kept for the next, unless it broke."""
        connection = None
        try:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                connection = self._connect()
            yield connection
        except self._psycopg.Error as error:
            raise self._explained(error, broken=connection is not None and connection.closed) from None
        finally:
            if connection is not None and not connection.closed:
                self._idle.put(connection)

    def _connect(self) -> Any:
        dsn = self.address.server
        dsn = f"postgresql:{dsn}" if dsn.startswith("//") else dsn
        try:
            given = self._psycopg.conninfo.conninfo_to_dict(dsn)
        except self._psycopg.Error:  # its words hold the string
            raise SettingError(
                f"{self.address.kind}: the connection string cannot be read: write postgres://HOST/DATABASE#TABLE"
            ) from None
        register_secret(os.environ.get("PGPASSWORD"), *map(given.get, ("user", "password", "sslpassword")))
        given = {"connect_timeout": 15, "application_name": "polyhop", **given}
        # nothing is prepared: a pooler between may hand on each transaction to another session
        return self._psycopg.connect(**given, autocommit=True, prepare_threshold=None)

    def _explained(self, error: Exception, *, broken: bool) -> Exception:
        state = getattr(error, "sqlstate", None)
        said = printable(summary(str(error)))
        shown = self.address.shown
        if broken:  # a connection that was idle, as after a restart: another is made
            return Busy(f"the connection to PostgreSQL at {shown} broke: {said}")
        if state is None and isinstance(error, self._psycopg.OperationalError):
            return RetrievalError(
                f"PostgreSQL cannot be reached at {shown}: {said}; user and password come from PGUSER and "
                "PGPASSWORD, or by the connection string"
            )
        if state in ("53300", "57P03", "40001", "40P01", "55P03"):  # too many connections, starting up, a deadlock
            return Busy(f"PostgreSQL at {shown} is busy: {said}")
        if state in ("42501", "28P01", "28000"):
            return RetrievalError(f"PostgreSQL at {shown} does not permit it: {said}")
        if state == "42P01":
            return RetrievalError(f"{shown} is gone: {said}")
        return RetrievalError(f"PostgreSQL at {shown} refuses: {said}")


def _values(row: Row, analysis: Analysis) -> dict[str, Any]:
    passage = row.passage
    return {
        "id": passage.id,
        "title": passage.title,
        "text": passage.text,
        "links": list(passage.links),
        "metadata": dict(passage.metadata),
        "linked": list(row.linked),
        "body": _prepared(f"{passage.title}\n{passage.text}", analysis),
        **({} if row.vector is None else {"vector": row.vector}),
    }


def _has_nul(passage: Passage) -> bool:
    return any("\0" in text for text in (passage.id, passage.title, passage.text, *passage.links))


def _passage(row: Sequence[Any]) -> Passage:
    id, title, text, links, metadata = row[:5]
    return Passage(id, title, text, tuple(links), metadata)


def _config(analysis: Analysis) -> str:
    """PostgreSQL's configuration of a language, which drops stop words too; ``simple`` does neither.

    >>> _config(Analysis("german")), _config(Analysis("chinese")), _config(Analysis(stem=False))
    ('german', 'simple', 'simple')
    """
    return analysis.stemmer or "simple"


def _prepared(text: str, analysis: Analysis) -> str:
    """A text as it is made words of: in pairs of characters where it is written without blanks; in English without
    accents.

    >>> _prepared("Antonín Dvořák", Analysis())
    'Antonin Dvorak'
    """
    if analysis.language != "english":
        return analysis.prepared(text)
    return (
        text if text.isascii() else "".join(c for c in normalise_unicode("NFD", text) if not unicodedata.combining(c))
    )


def _json(comment: str | None) -> object:
    try:
        found = orjson.loads(comment or "")
    except orjson.JSONDecodeError:
        return None
    return found.get("polyhop") if isinstance(found, Mapping) else None
