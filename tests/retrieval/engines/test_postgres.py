"""PostgreSQL, a real one with pgvector (PGlite, over TCP)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polyhop import evaluate
from polyhop.common.extras import require as extra
from polyhop.data.corpora import open_corpus
from polyhop.errors import RetrievalError, SettingError, UsageError
from polyhop.redaction import register_secret
from polyhop.retrieval import Index, build_index
from polyhop.retrieval.engines import open_store, parse_address
from polyhop.types import Passage, Question
from tests.kit import postgres
from tests.kit.encoders import WordEncoder
from tests.kit.engine_contract import PASSAGES, EngineContract, built, ids, index, load, opened

__all__ = ["built", "index"]

pytestmark = [pytest.mark.extra, pytest.mark.postgres]

_GIVEN = "postgres://u5er:s3cret%20word%2F%2541@127.0.0.1:{port}/postgres?sslmode=disable#"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    pytest.importorskip("psycopg")
    if why := postgres.lacking():
        pytest.skip(why)
    with postgres.serving() as started:
        yield started


@pytest.fixture
def sql(port: int) -> Iterator[Any]:
    psycopg = extra("psycopg", "pgvector", "these tests")
    with psycopg.connect(f"host=127.0.0.1 port={port} dbname=postgres sslmode=disable", autocommit=True) as connection:
        yield connection


@pytest.fixture
def table(sql: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PGSSLMODE", "disable")
    sql.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return "wiki"


class TestPostgreSQL(EngineContract):
    @pytest.fixture
    def address(self, port: int, table: str) -> str:
        return f"postgres://127.0.0.1:{port}/postgres#{table}"

    @pytest.mark.parametrize(
        "name", ['wiki"; DROP TABLE other; --', "select", "Wiki Π", "it's", "%s{}", "x" * 63, "more.wiki"]
    )
    def test_a_table_may_be_called_anything(self, address: str, name: str, index: Index, sql: Any) -> None:
        sql.execute("CREATE TABLE other (a int); CREATE SCHEMA IF NOT EXISTS more; DROP TABLE IF EXISTS more.wiki")
        address = address.removesuffix("wiki") + name
        load(index, address, WordEncoder())
        assert ids(opened(address).search("kiln", 3)) == ["5 %s {table}"]
        assert opened(f"{address}?dense=words").search("kiln", 1)
        assert load(index, address, WordEncoder(), overwrite=True) == "loaded"
        tables = sql.execute("SELECT tablename FROM pg_tables WHERE schemaname IN ('public', 'more')")
        assert {row[0] for row in tables} == {"other", name.removeprefix("more.")}

    @pytest.mark.parametrize("name", ["x" * 64, "Π" * 32, "a.b.c", "a.", "nul\0"])
    def test_a_name_that_it_would_cut_is_refused(self, address: str, name: str) -> None:
        with pytest.raises(SettingError, match="is not a valid table name"):
            open_store(parse_address(address.removesuffix("wiki") + name))

    def test_a_table_of_others_is_neither_searched_nor_overwritten(self, address: str, index: Index, sql: Any) -> None:
        sql.execute("CREATE TABLE wiki (a int); INSERT INTO wiki VALUES (7)")
        for comment in (None, "ours", '{"polyhop": 3}'):
            sql.execute(f"COMMENT ON TABLE wiki IS {'NULL' if comment is None else repr(comment)}")
            for overwrite in (False, True):
                with pytest.raises(UsageError, match="was not loaded by polyhop"):
                    load(index, address, overwrite=overwrite)
            with pytest.raises(UsageError, match="was not loaded by polyhop"):
                opened(address)
        assert sql.execute("SELECT a FROM wiki").fetchall() == [(7,)]

    def test_a_table_that_was_changed_is_reported(self, address: str, index: Index, sql: Any) -> None:
        load(index, address, WordEncoder())
        sql.execute("ALTER TABLE wiki DROP COLUMN vector")
        with pytest.raises(UsageError, match=r"was changed: its vectors are None, not halfvec\(32\)"):
            opened(address)
        sql.execute("ALTER TABLE wiki ADD COLUMN vector halfvec(16)")
        with pytest.raises(UsageError, match=r"its vectors are halfvec\(16\), not halfvec\(32\)"):
            opened(address)
        assert load(index, address, WordEncoder(), overwrite=True) == "loaded"

    def test_another_format_is_reported(self, address: str, index: Index, sql: Any) -> None:
        load(index, address)
        sql.execute('COMMENT ON TABLE wiki IS \'{"polyhop": {"corpus": 1, "fingerprint": 2, "format": 9}}\'')
        with pytest.raises(UsageError, match="was loaded in format 9 by polyhop None; this polyhop reads format 1"):
            opened(address)

    def test_passages_that_were_lost_are_reported(
        self, address: str, index: Index, sql: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = type(open_store(parse_address(address)))
        finish = store.finish

        def losing(self: Any) -> int:
            sql.execute("DELETE FROM wiki WHERE id = '1'")
            return finish(self)

        with monkeypatch.context() as patched:
            patched.setattr(store, "finish", losing)
            with pytest.raises(RetrievalError, match="holds 10 passages after a load of 11; load again"):
                load(index, address)
        assert load(index, address) == "loaded to its end"
        assert ids(opened(address).search("Rolf Anders", 9)) == ["2", "1"]

    def test_its_indexes_are_used_and_made_once(self, address: str, index: Index, sql: Any) -> None:
        load(index, address, WordEncoder())
        made = [
            row[0]
            for row in sql.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'wiki' AND schemaname = 'public'")
        ]
        assert len(made) == 3
        assert any("USING gin (body)" in each for each in made)
        assert any("USING hnsw (vector halfvec_ip_ops)" in each for each in made)
        sql.execute("SET enable_seqscan = off")
        plan = sql.execute("EXPLAIN SELECT id FROM wiki ORDER BY vector <#> array_fill(1, ARRAY[32])::halfvec LIMIT 3")
        assert "wiki_vector_idx" in str(plan.fetchall())
        sql.execute("RESET enable_seqscan")

    def test_more_neighbours_than_the_index_searches_are_found_exactly(self, address: str, index: Index) -> None:
        load(index, address, WordEncoder())
        assert len(opened(f"{address}?dense=words").search("film", 5000)) == len(PASSAGES)

    def test_a_passage_with_a_nul_is_named(self, address: str, tmp_path: Path) -> None:
        corpus = build_index(open_corpus([Passage("odd", "", "a\0b")]), tmp_path / "odd")
        with pytest.raises(UsageError, match=r"no NUL character \(U\+0000\), and the passage 'odd' has one"):
            load(corpus, address)
        literal = build_index(open_corpus([Passage("even", "", "a\\u0000b")]), tmp_path / "even")
        load(literal, address, overwrite=True)
        assert opened(address).search("u0000b", 1)[0].text == "a\\u0000b"

    def test_a_connection_that_broke_is_made_again(
        self, address: str, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        load(index, address)
        retriever = opened(address)
        store: Any = retriever._store
        connection = store._idle.get_nowait()
        connection.pgconn.finish()
        store._idle.put(connection)
        assert ids(retriever.search("kiln", 1)) == ["5 %s {table}"]

    def test_a_password_is_shown_nowhere(
        self, port: int, table: str, index: Index, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        address = _GIVEN.format(port=port) + table
        caplog.set_level("DEBUG")
        load(index, address)
        retriever = opened(address)
        assert retriever.name == f"postgres://127.0.0.1:{port}/postgres#wiki"
        evaluate([Question("q", "Bremen?")], None, "one-r", "pocket", retriever=address, out=tmp_path / "run")
        with pytest.raises(UsageError) as missing:
            opened(address + "2")
        with pytest.raises(UsageError) as misspelt:
            opened("postgress" + address.removeprefix("postgres"))
        with pytest.raises(RetrievalError) as gone:
            opened(_GIVEN.format(port=1) + table)
        with pytest.raises(UsageError) as unread:
            opened(_GIVEN.format(port="1").replace("127.0.0.1", "[::1") + table)
        shown = [str(each.value) for each in (missing, misspelt, gone, unread)]
        shown += [caplog.text, repr(retriever), *(path.read_text() for path in (tmp_path / "run").rglob("*.json*"))]
        for text in shown:
            assert "s3cret" not in text
            assert "u5er" not in text


def test_a_server_that_is_not_there_says_so() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(RetrievalError, match=r"cannot be reached at postgres://127.0.0.1:1/db#wiki: .*PGPASSWORD"):
        open_store(parse_address("postgres://127.0.0.1:1/db#wiki"))


def test_errors_are_classified_by_kind() -> None:
    psycopg = pytest.importorskip("psycopg")
    from polyhop.retrieval.engines.postgres import PostgresStore

    store = object.__new__(PostgresStore)
    store.address, store._psycopg = parse_address("postgres://h/db#wiki"), psycopg
    register_secret("s3cret")
    for kind, message in (
        ("InsufficientPrivilege", r"at postgres://h/db#wiki does not permit it: no \*\*\*"),
        ("InvalidPassword", "does not permit it"),
        ("UndefinedTable", "wiki is gone"),
        ("ProgramLimitExceeded", "refuses"),
        ("TooManyConnections", "is busy"),
    ):
        found = store._explained(getattr(psycopg.errors, kind)("no s3cret"), broken=False)
        assert isinstance(found, RetrievalError)
        with pytest.raises(RetrievalError, match=message):
            raise found
