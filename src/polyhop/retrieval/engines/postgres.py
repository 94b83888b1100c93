"""PostgreSQL: full-text search by ``ts_rank_cd`` over a GIN index, and nearest vectors by pgvector's HNSW.

``ts_rank_cd`` is not BM25: it ignores how rare a word is, and counts how close the words of the query are to each other
(Clarke, Cormack and Tudhope, "Relevance Ranking for One to Three Term Queries", 2000). Of its normalisations, the sum
of 1 and 4 (by length and by distance) had the best recall on the training questions of three benchmarks. Every passage
with a word of the query is ranked. PostgreSQL's own configuration of the language makes the words; in English, accents
are removed before, as in our own analysis. Vectors have 16 bits (``halfvec``), as our own.

Values are always bound, and names always quoted. The manifest is the comment of the table.
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
from polyhop.retrieval.engines.base import (
    SPARE,
    Busy,
    EngineAddress,
    Hits,
    Row,
    Store,
    body_of,
    by_id,
    check_version,
    patiently,
    read_ids,
    read_passage,
    read_score,
)
from polyhop.retrieval.engines.manifest import Manifest, Unfit
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_OLDEST, _OLDEST_VECTOR = (12,), (0, 7)
_MAX_NAME_BYTES = 63  # PostgreSQL's own limit
_MAX_EF_SEARCH = 1000  # pgvector's maximum of hnsw.ef_search
_FIELDS = ("id", "title", "text", "links", "metadata")
_COLUMNS = ", ".join(_FIELDS)


class PostgresStore(Store):
    """A table of PostgreSQL. Ties of ranks are broken by passage id, also at the cut; ties of vectors too, if at most
    ``SPARE`` tie there."""

    max_vector_size = 4000

    def __init__(self, address: EngineAddress) -> None:
        super().__init__(address)
        parts = address.collection.split(".")
        if any(not part or "\0" in part or len(part.encode()) > _MAX_NAME_BYTES for part in parts) or len(parts) > 2:
            raise SettingError(
                f"{address.shown}: {address.collection!r} is not a valid table name: TABLE or SCHEMA.TABLE, each up to "
                f"{_MAX_NAME_BYTES} bytes"
            )
        self._psycopg = require("psycopg", "pgvector", "the retriever postgres:")
        self._sql = require("psycopg.sql", "pgvector", "the retriever postgres:")
        self._name = self._sql.Identifier(*parts).as_string()
        self._idle: LifoQueue[Any] = LifoQueue()
        version = self._one("SELECT current_setting('server_version_num')::int")[0]
        check_version(f"{address.shown}: PostgreSQL", str(version // 10000), _OLDEST)

    def find(self) -> Manifest | None:
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
        self._do(self._formatted("DROP TABLE {table}"))

    def known(self, ids: Sequence[str]) -> Collection[str]:
        return {id for (id,) in self._all(self._formatted("SELECT id FROM {table} WHERE id = ANY(%s)"), [list(ids)])}

    def add(self, rows: Sequence[Row]) -> None:
        """Write passages in one statement, all rows as one value."""
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
        """Build the indexes, which is faster after the load than before it."""
        steps = [self._formatted("CREATE INDEX ON {table} USING gin (body)")]
        if self.manifest.size:
            steps.append(self._formatted("CREATE INDEX ON {table} USING hnsw (vector halfvec_ip_ops)"))
        (there,) = self._one("SELECT count(*) FROM pg_index WHERE indrelid = to_regclass(%s)", [self._name])
        if there == 1:  # only that of its key
            self._do(*steps)
        self._do(self._formatted("ANALYZE {table}"))
        return int(self._one(self._formatted("SELECT count(*) FROM {table}"))[0])

    def keep(self, manifest: Manifest) -> None:
        self._do(self._comment(manifest))
        self.manifest = manifest

    def by_terms(self, query: str, k: int) -> Hits:
        """Search for passages with any of the words, by ``ts_rank_cd``."""
        statement = self._formatted(
            # plainto_tsquery joins words by "and", this by "or"; its words are quoted, so nothing else changes
            "WITH asked AS (SELECT replace(plainto_tsquery({language}, %s)::text, $$' & '$$, $$' | '$$)::tsquery AS q) "
            f"SELECT {_COLUMNS}, ts_rank_cd(body, q, 5) AS score FROM {{table}}, asked WHERE body @@ q "
            "ORDER BY score DESC, id LIMIT %s"
        )
        return self._hits(statement, [_prepared(query, self.manifest.analysis), k], k)

    def by_vector(self, vector: NDArray[np.float32], k: int) -> Hits:
        """Search for the nearest vectors; exactly, and more slowly, for more than a thousand."""
        wanted, numbers = k + SPARE, "[" + ",".join(map(str, vector.tolist())) + "]"
        statement = self._formatted(
            f"SELECT {_COLUMNS}, -distance FROM (SELECT {_COLUMNS}, vector <#> %s::halfvec AS distance FROM {{table}} "
            "ORDER BY distance LIMIT %s) AS near ORDER BY distance, id LIMIT %s"
        )
        deep = f"SET LOCAL hnsw.ef_search = {max(100, wanted)}"
        if wanted > _MAX_EF_SEARCH:
            deep = "SET LOCAL enable_indexscan = off"
        return self._hits(statement, [numbers, wanted, k], k, first=deep)

    def linked(self, id: str) -> Sequence[str]:
        found = self._all(self._formatted("SELECT linked FROM {table} WHERE id = %s"), [id])
        return read_ids(found[0][0]) if found else []

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        statement = self._formatted(f"SELECT {_COLUMNS} FROM {{table}} WHERE id = ANY(%s)")
        found = [read_passage(dict(zip(_FIELDS, row, strict=True))) for row in self._all(statement, [list(ids)])]
        return {passage.id: passage for passage in found}

    def close(self) -> None:
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _hits(self, statement: Any, values: Sequence[Any], k: int, first: str | None = None) -> Hits:
        def ask(cursor: Any) -> list[Any]:
            if first:
                cursor.execute(first)
            return list(cursor.execute(statement, values).fetchall())

        found = [(read_passage(dict(zip(_FIELDS, row, strict=False))), read_score(row[5])) for row in self._with(ask)]
        return by_id(found, k)

    def _check_vectors(self) -> None:
        try:
            self._do("CREATE EXTENSION IF NOT EXISTS vector")
        except RetrievalError as error:
            raise UsageError(f"{self.address.shown} has no vectors: {error}; install pgvector 0.7 or newer") from None
        found = self._one("SELECT extversion FROM pg_extension WHERE extname = 'vector'")[0]
        check_version(f"{self.address.shown}: pgvector", found, _OLDEST_VECTOR)

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
        """Return a part of a statement in which a percent sign marks no value."""
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
        """Run ``work`` on a cursor, in one transaction on a connection of its own."""

        def once() -> T:
            with self._connection() as connection, connection.transaction(), connection.cursor() as cursor:
                return work(cursor)

        return patiently(once)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """Yield an idle connection, or a new one; it is kept for later use unless it broke."""
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
        except self._psycopg.Error:  # its message contains the string
            raise SettingError(
                f"{self.address.kind}: the connection string cannot be read: write postgres://HOST/DATABASE#TABLE"
            ) from None
        register_secret(os.environ.get("PGPASSWORD"), *map(given.get, ("user", "password", "sslpassword")))
        given = {"connect_timeout": 15, "application_name": "polyhop", **given}
        # nothing is prepared: a pooler may run each transaction in another session
        return self._psycopg.connect(**given, autocommit=True, prepare_threshold=None)

    def _explained(self, error: Exception, *, broken: bool) -> Exception:
        state = getattr(error, "sqlstate", None)
        said = printable(summary(str(error)))
        shown = self.address.shown
        if broken:  # it was idle, as after a restart: the next attempt connects again
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
        "body": _prepared(body_of(passage), analysis),
        **({} if row.vector is None else {"vector": row.vector}),
    }


def _has_nul(passage: Passage) -> bool:
    return any("\0" in text for text in (passage.id, passage.title, passage.text, *passage.links))


def _config(analysis: Analysis) -> str:
    """Return PostgreSQL's configuration of a language, which stems and drops stop words; ``simple`` does neither.

    >>> _config(Analysis("german")), _config(Analysis("chinese")), _config(Analysis(stem=False))
    ('german', 'simple', 'simple')
    """
    return analysis.stemmer or "simple"


def _prepared(text: str, analysis: Analysis) -> str:
    """Prepare a text for PostgreSQL: English without accents, languages without blanks in pairs of characters.

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
