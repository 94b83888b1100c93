"""Tests that every search engine passes: a class to inherit from, with an address to load into."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from polyhop import evaluate
from polyhop.cli import main
from polyhop.data.corpora import open_corpus
from polyhop.errors import SettingError, UsageError
from polyhop.pipeline import Pipeline
from polyhop.retrieval import Index, build_index, encoders, engines, open_index, open_plain_retriever
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.engines import Remote, open_store, parse_address
from polyhop.retrieval.engines.base import Row, Store
from polyhop.retrieval.hybrid import fused
from polyhop.retrieval.updating import remove_passages
from polyhop.types import Passage, Question
from tests.kit.encoders import WordEncoder

PASSAGES = [
    Passage("1", "Dark Mill", "Dark Mill is a film of 1931 by Rolf Anders.", metadata={"page": 3, "at": ["a", None]}),
    Passage("2", "Rolf Anders", "Rolf Anders was born in Bremen in 1899 and directed Dark Mill."),
    Passage("日本/3?x=1#y", "Antonín Dvořák", "Antonín Dvořák wrote operas; Dark Mill he never saw."),
    Passage('it\'s "4" é', "Bremen", "Bremen is a city on the river Weser.\nIts harbour is old — and wide."),
    Passage("5 %s {table}", "Kiln", "A kiln is hot. A kiln of 1931 was hotter than the film's lamps."),
    Passage("6\\", "Weser", "The Weser flows through Bremen to the North Sea.", metadata={"Ж": {"deep": 1.5}}),
    *(Passage(f"same-{letter}", "", "Ferries cross the water.") for letter in "dcba"),
    Passage("7", "Empty of words", "?!"),
]

HOSTILE = (
    '{"match_all": {}} kiln',
    'kiln AND NOT (title:hot) OR _exists_:id ~5 "unclosed',
    "kiln'; DROP TABLE passages; --",
    "kiln & ! ( :* <-> | \\ %s %(x)s {} $$ '",
    "kiln* ki?n /.*/ [1 TO 2] ^9 && || +- :",
    "kiln \0 \ud800 \u2028 \U0001f525",
)
"""Queries of one word of the corpus and what query languages are made of."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(open_corpus(PASSAGES), tmp_path_factory.mktemp("engines") / "index").folder


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Index:
    return open_index(shutil.copytree(built, tmp_path / "index"))


def load(index: Index, spec: str, encoder: Any = None, **options: Any) -> str:
    store = open_store(parse_address(spec))
    try:
        return engines.load(index, store, encoder, **options)
    finally:
        store.close()


def opened(spec: str) -> Remote:
    found = open_plain_retriever(spec, None)
    assert isinstance(found, Remote)
    return found


def ids(found: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in found]


class EngineContract:
    """Inherit and give the fixture ``address``: a retriever's name without options, fresh for each test."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engines, "_BATCH", 4)
        monkeypatch.setattr(encoders, "open_encoder", lambda spec: WordEncoder())

    @pytest.fixture(autouse=True)
    def _closed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Close whatever the test opened: a folder is for one client at a time."""
        stores: list[Store] = []
        made = Store.__init__

        def noted(store: Store, *given: Any) -> None:
            made(store, *given)
            stores.append(store)

        monkeypatch.setattr(Store, "__init__", noted)
        yield
        for store in stores:
            with suppress(AttributeError):  # one that was refused before it was open
                store.close()

    def test_passages_come_back_as_the_corpus_has_them(self, address: str, index: Index) -> None:
        assert load(index, address) == "loaded"
        retriever = opened(address)
        assert retriever.name == address
        for passage in PASSAGES[:6]:
            (found,) = (each for each in retriever.search(passage.title, 5) if each == passage)
            assert found.to_dict() == passage.to_dict()
        queries = ["Weser", "kiln", "Weser"]
        assert retriever.search_many(queries, 2) == [retriever.search(query, 2) for query in queries]

    def test_equal_scores_are_in_the_order_of_ids_at_the_cut_too(self, address: str, index: Index) -> None:
        load(index, address, WordEncoder())
        for name in (address, f"{address}?dense=words"):
            retriever = opened(name)
            whole = ids(retriever.search("ferries cross water", 99))
            assert [id for id in whole if id.startswith("same")] == ["same-a", "same-b", "same-c", "same-d"]
            for k in range(1, len(whole)):
                assert ids(retriever.search("ferries cross water", k)) == whole[:k]
            retriever._store.close()

    def test_what_says_nothing_finds_nothing(self, address: str, index: Index) -> None:
        load(index, address)
        retriever = opened(address)
        for query in ("", "  ", "the of and", "?!", "zzzz", "\0"):
            assert retriever.search(query, 3) == []
        with pytest.raises(UsageError, match="k is 0"):
            retriever.search("kiln", 0)

    def test_a_query_is_words_and_nothing_else(self, address: str, index: Index) -> None:
        load(index, address)
        retriever = opened(address)
        for query in HOSTILE:
            assert ids(retriever.search(query, 1)) == ["5 %s {table}"]
        assert len(retriever.search("kiln", 99)) == 1

    def test_accents_make_no_difference(self, address: str, index: Index) -> None:
        load(index, address)
        retriever = opened(address)
        assert ids(retriever.search("dvorak", 1)) == ids(retriever.search("Dvořák", 1)) == ["日本/3?x=1#y"]

    def test_vectors_rank_as_over_the_index(self, address: str, index: Index) -> None:
        encoder = WordEncoder()
        load(index, address, encoder)
        ours, theirs = Dense(index, encoder), opened(f"{address}?dense=words")
        for query in ("film of 1931", "Bremen harbour", "ferries"):
            expected, found = ours.search_scored(query, 3), theirs.search_scored(query, 3)
            assert [passage.id for passage, _ in found] == [passage.id for passage, _ in expected]
            assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-3)

    def test_an_updated_index_is_loaded_as_it_stands(self, address: str, index: Index) -> None:
        Dense(index, WordEncoder())
        updated = remove_passages(index.folder, ["1"]).index
        load(updated, address, WordEncoder())
        ours, theirs = Dense(updated, WordEncoder()), opened(f"{address}?dense=words")
        for query in ("Bremen is a city", "hot kiln", "Dark Mill"):
            assert ids(theirs.search(query, 1)) == ids(ours.search(query, 1))

    @pytest.mark.parametrize("fusion", ["rrf", "zscore"])
    def test_words_and_vectors_are_fused_by_our_own_rule(self, address: str, index: Index, fusion: Any) -> None:
        load(index, address, WordEncoder())
        parts = []
        for name in (address, f"{address}?dense=words"):
            retriever = opened(name)
            parts.append((retriever.search_scored("the film of Bremen", 100), 1.0))
            retriever._store.close()
        both = opened(f"{address}?dense=words&fusion={fusion}")
        assert both.name == f"{address}?dense=words&fusion={fusion}"
        expected = [passage.id for passage, _ in fused(parts, fusion)][:5]
        assert ids(both.search("the film of Bremen", 5)) == expected

    def test_links_are_the_index(self, address: str, index: Index) -> None:
        load(index, address)
        retriever = opened(address)
        for passage in PASSAGES:
            assert [found.to_dict() for found in retriever.links(passage)] == [
                linked.to_dict() for linked in index.links(passage)
            ]
        assert len(retriever.links(PASSAGES[1])) == 2
        assert retriever.links(Passage("unknown", "", "")) == []

    def test_many_threads_search_at_once(self, address: str, index: Index) -> None:
        load(index, address)
        retriever = opened(address)
        titles = ["Weser", "Kiln", "Bremen", "Dark Mill"] * 4
        expected = [retriever.search(title, 3) for title in titles]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda title: retriever.search(title, 3), titles)) == expected

    def test_loading_again_does_nothing(self, address: str, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder = WordEncoder()
        load(index, address, encoder)
        assert len(encoder.encoded) == len(PASSAGES)
        sent = self._noted(address, monkeypatch)
        assert load(index, address, encoder) == "already loaded"
        assert sent == []
        assert len(encoder.encoded) == len(PASSAGES)

    @pytest.mark.parametrize("after", [0, 1, 2])
    def test_a_stopped_load_goes_on(
        self, address: str, index: Index, after: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as stopping:
            self._noted(address, stopping, stop_after=after)
            with pytest.raises(KeyboardInterrupt):
                load(index, address, WordEncoder())
        with pytest.raises(UsageError, match="was stopped; repeat it, and it continues"):
            opened(address)
        sent = self._noted(address, monkeypatch)
        assert load(index, address, WordEncoder()) == "loaded to its end"
        assert sent == ids(PASSAGES[4 * after :])
        assert {p.id for p in opened(f"{address}?dense=words").search("a film", 99)} == {p.id for p in PASSAGES}

    def test_another_corpus_is_refused_by_name_unless_overwritten(
        self, address: str, index: Index, tmp_path: Path
    ) -> None:
        load(index, address)
        other = tmp_path / "50%s {}.jsonl"
        other.write_text(json.dumps({"id": "9", "title": "Ulm", "text": "A town."}))
        towns = build_index(open_corpus(other), tmp_path / "towns")
        with pytest.raises(UsageError, match=r"holds 'passages' \(11 passages.*, not '50%s {}' \(1 passage"):
            load(towns, address)
        with pytest.raises(UsageError, match=r"english; no vectors\), not .*vectors of 32 numbers by dense:words"):
            load(index, address, WordEncoder())
        plain = build_index(open_corpus(PASSAGES), tmp_path / "plain", stem=False)
        with pytest.raises(UsageError, match=r"not .*english, not stemmed"):
            load(plain, address)
        assert load(towns, address, overwrite=True) == "loaded"
        assert ids(opened(address).search("town kiln", 5)) == ["9"]

    def test_an_encoder_that_did_not_make_the_vectors_is_refused(
        self, address: str, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        load(index, address)
        with pytest.raises(UsageError, match="has no vectors, not 32 numbers by dense:words"):
            opened(f"{address}?dense=words")
        load(index, address, WordEncoder(), overwrite=True)
        monkeypatch.setattr(encoders, "open_encoder", lambda spec: WordEncoder(16))
        with pytest.raises(UsageError, match="has vectors of 32 numbers by dense:words, not 16"):
            opened(f"{address}?dense=words")

    def test_nothing_there_says_how_to_load(self, address: str) -> None:
        with pytest.raises(UsageError, match=f"nothing is loaded at .*; first: polyhop index load CORPUS '{address}'"):
            opened(address)

    def test_options_are_checked(self, address: str) -> None:
        for options, message in (
            ("k1=2", "unknown option 'k1'"),
            ("fusion=rrf", "needs the vectors of an encoder"),
            ("dense=x&fusion=best", "must be zscore or relative or rrf"),
            ("dense", "names no options"),
        ):
            with pytest.raises(SettingError, match=message):
                parse_address(f"{address}?{options}")
        assert (
            parse_address(f"{address}?dense=x%3Fpooling=mean%26dtype=bfloat16").dense == "x?pooling=mean&dtype=bfloat16"
        )

    def test_another_language_is_cut_as_it_is_written(self, address: str, tmp_path: Path) -> None:
        chinese = [Passage("a", "鲁迅", "鲁迅生于绍兴。"), Passage("b", "北京", "北京是首都。")]
        load(build_index(open_corpus(chinese, language="chinese"), tmp_path / "chinese"), address)
        assert ids(opened(address).search("绍兴在哪里", 5)) == ["a"]

    def test_a_method_answers_over_it_without_a_corpus(self, address: str, index: Index, tmp_path: Path) -> None:
        load(index, address)
        asked = [Question("q", "On which river does Bremen lie?", answers=("Weser",), gold_ids=("6\\",))]
        evaluate(asked, None, "one-r", "pocket", retriever=address, out=tmp_path / "run")
        settings = json.loads((tmp_path / "run" / "run.json").read_text())
        assert settings["retriever"] == address
        assert settings["corpus"] == index.fingerprint
        (row,) = map(json.loads, (tmp_path / "run" / "predictions.jsonl").read_text().splitlines())
        assert "6\\" in json.dumps(row).replace("\\\\", "\\")

    def test_it_is_a_part_of_a_hybrid(self, address: str, index: Index) -> None:
        load(index, address)
        with Pipeline(index, "one-r", retriever=f"hybrid:rrf:bm25+{address}*0.5") as pipeline:
            assert ids(pipeline.search("kiln", 1)) == ["5 %s {table}"]
            assert getattr(pipeline.engine.retriever, "name", "") == f"hybrid:rrf:bm25+{address}*0.5"

    def test_the_command_loads(
        self, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        corpus = tmp_path / "corpus.jsonl"
        corpus.write_text("".join(json.dumps(passage.to_dict()) + "\n" for passage in PASSAGES))
        for outcome in ("loaded", "already loaded"):
            monkeypatch.setattr("sys.argv", ["polyhop", "index", "load", str(corpus), address, "--json"])
            with pytest.raises(SystemExit) as ended:
                main()
            assert not ended.value.code
            report = json.loads(capsys.readouterr().out)
            assert (report["outcome"], report["passages"], report["complete"]) == (outcome, 11, True)

    def test_vectors_it_cannot_hold_are_refused_before_the_work(self, address: str, index: Index) -> None:
        encoder = WordEncoder(100_000)
        with pytest.raises(UsageError, match=r"gives vectors of 100000; .* holds up to"):
            load(index, address, encoder)
        assert encoder.encoded == []

    def _noted(self, address: str, monkeypatch: pytest.MonkeyPatch, stop_after: int | None = None) -> list[str]:
        """Record the ids that are sent; interrupt the load after ``stop_after`` batches."""
        store = open_store(parse_address(address))
        store.close()
        kind, sent, batches = type(store), list[str](), list[int]()
        add = kind.add

        def noting(store: Store, rows: Sequence[Row]) -> None:
            if stop_after is not None and len(batches) == stop_after:
                raise KeyboardInterrupt
            batches.append(len(rows))
            sent.extend(row.passage.id for row in rows)
            add(store, rows)

        monkeypatch.setattr(kind, "add", noting)
        return sent
