"""Updates: an index after additions and removals finds what one built anew of the same passages finds."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.cli import main
from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, IndexFolderError
from polyhop.retrieval import Index, build_index, open_index, updating, vectors
from polyhop.retrieval import sealed_folder as folder_module
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.links import LinkMode
from polyhop.retrieval.tfidf import BigramTfIdf, TfIdf
from polyhop.retrieval.updating import add_passages, remove_passages
from polyhop.types import Passage
from tests.kit.encoders import WordEncoder

TITLES = [
    "New York",
    "New York City",
    "York",
    "Oakdale Park, New York",
    "Chatterbox (1936 film)",
    "Chatterbox",
    "The Who",
    "émile zola",
    "Émile Zola",
    "İstanbul",
    "Foo\nNew_York",
    "iPhone X",
    "Łódź",
    "the of",
    "1984",
    "?!",
    "",
]
WORDS = [
    "kiln",
    "oboe",
    "zinc",
    "river",
    "film",
    "1936",
    "(",
    ")",
    "and",
    ",",
    "Emile",
    "Istanbul",
    "\nNew York",
    "\\York",
    "iPhone",
    "b.md",
    "clause 7.2",
    "INC-204",
    "\nINC-204 is",
    "\nAda Byron lives",
]
OF_FILES: list[dict[str, Any]] = [
    {"source": "a.md", "heading": "7.2 York", "targets": ["b.md#zinc", "c/d.md"]},
    {"source": "b.md", "heading": "Zinc"},
    {"source": "c/d.md", "targets": ["a.md#72york"]},
]

texts = st.lists(st.sampled_from([*TITLES[:-2], *WORDS]), min_size=1, max_size=8).map(
    lambda parts: "x " + " ".join(parts)
)
ids = st.sampled_from("abcdefgh")
passages = st.builds(
    Passage,
    ids,
    st.sampled_from(TITLES),
    texts,
    st.lists(st.sampled_from(TITLES), max_size=2).map(tuple) | st.just(()) | st.just(()),
    st.just({}) | st.just({"page": 1}) | st.sampled_from(OF_FILES),
)
corpora = st.lists(passages, min_size=1, max_size=6, unique_by=lambda passage: passage.id)
updates = st.lists(corpora | st.sets(ids, min_size=1, max_size=5), min_size=1, max_size=4)


EXAMPLES = 12 if os.environ.get("POLYHOP_HYPOTHESIS", "steady") == "steady" else 300


@pytest.fixture(scope="module")
def _no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_module, "_on_disk", lambda path: None)
        yield


def found(index: Index, *, scores: bool = True) -> dict[str, Any]:
    """Everything that searches of an index return; without BM25's order and scores if those may differ."""
    content: dict[str, Any] = {
        "passages": [passage.to_dict() for passage in index.passages],
        "corpus": [passage.to_dict() for passage in open_corpus(index.folder)],
        "by id": {id: None if (at := index.passages.by_id(id)) is None else at.to_dict() for id in "abcdefgh"},
        "links": {passage.id: [target.id for target in index.links(passage)] for passage in index.passages},
        "facts": {name: index.facts[name] for name in ("passages", "mentions", "links", "linking")},
        "size": len(index),
    }
    engines: list[TfIdf | Dense | BM25] = [TfIdf(index), BigramTfIdf(index), Dense(index, WordEncoder()), BM25(index)]
    for engine in engines:
        for query in ("kiln New York", "film oboe zinc 1936", "zola", "x"):
            for k in (1, 3, 20):
                hits = [
                    (passage.id, pytest.approx(score, rel=1e-5)) for passage, score in engine.search_scored(query, k)
                ]
                if engine.name == "bm25" and not scores:
                    content[f"bm25 {query} {k}"] = len(hits) if k < 20 else sorted(id for id, _ in hits)
                else:
                    content[f"{engine.name} {query} {k}"] = hits
    return content


def applied(live: list[Passage], folder: Path, update: list[Passage] | set[str]) -> list[Passage]:
    """The passages that are there after an update, which is done."""
    if isinstance(update, set):
        kept = [passage for passage in live if passage.id not in update]
        if kept:
            done = remove_passages(folder, sorted(update), missing_ok=True)
            assert done.removed == len(live) - len(kept)
        return kept or live
    known = {passage.id: passage for passage in live}
    new = [p for p in update if p.id not in known or known[p.id].to_dict() != p.to_dict()]
    done = add_passages(folder, open_corpus(update), replace=True)
    replaced = {passage.id for passage in new} & known.keys()
    assert (done.added, done.replaced, done.standing) == (
        len(new) - len(replaced),
        len(replaced),
        len(update) - len(new),
    )
    return [passage for passage in live if passage.id not in replaced] + new


@pytest.mark.slow
@pytest.mark.usefixtures("_no_waiting_for_the_disk")
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    most_removed=st.sampled_from([0, 0.1, 1]),
    links=st.sampled_from(["titles", "own", False]),
    first=corpora,
    then=updates,
)
def test_an_updated_index_finds_what_one_built_anew_finds(
    most_removed: float, links: LinkMode, first: list[Passage], then: list[list[Passage] | set[str]]
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(updating, "MAX_REMOVED_SHARE", most_removed)
        folder = Path(name) / "index"
        build_index(open_corpus(first), folder, links=links)
        live = first
        for update in then:
            live = applied(live, folder, update)
        index = open_index(folder)
        anew = build_index(open_corpus(live), Path(name) / "anew", links=links)
        exact = index.rows == len(index)
        assert found(index, scores=exact) == found(anew, scores=exact)
        if most_removed == 0:
            assert exact


ADA = Passage("a", "Ada Lovelace", "She wrote the first program in London.", metadata={"pages": (1, 2)})
LONDON = Passage("l", "London", "A city on the Thames.")
PARIS = Passage("p", "Paris", "A city; Ada Lovelace was there.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_index(open_corpus([ADA, LONDON]), tmp_path / "index")
    return tmp_path / "index"


def test_adding_what_stands_changes_nothing(folder: Path) -> None:
    before = (folder / "manifest.json").read_bytes()
    done = add_passages(folder, open_corpus([LONDON, ADA]))
    assert (done.added, done.replaced, done.standing, len(done.index)) == (0, 0, 2, 2)
    assert (folder / "manifest.json").read_bytes() == before
    assert len([*folder.glob("state-*")]) == 1


@pytest.mark.slow
def test_links_go_both_ways_between_old_and_new(folder: Path) -> None:
    done = add_passages(folder, open_corpus([PARIS, Passage("t", "Thames", "A river.")]))
    assert [target.id for target in done.index.links(PARIS)] == ["a"]
    assert [target.id for target in done.index.links(LONDON)] == ["t"]
    assert done.index.links(ADA) == [LONDON]
    assert remove_passages(folder, ["t", "a"]).index.links(LONDON) == []


def test_another_passage_of_an_id_is_only_replaced_when_asked(folder: Path) -> None:
    other = Passage("l", "London", "The capital.")
    with pytest.raises(DataError, match="it has another passage with the id 'l'; nothing is added"):
        add_passages(folder, open_corpus([PARIS, other]))
    assert len(open_index(folder)) == 2
    done = add_passages(folder, open_corpus([PARIS, other, ADA]), replace=True)
    assert (done.added, done.replaced, done.standing) == (1, 1, 1)
    assert [passage.id for passage in done.index.passages] == ["a", "p", "l"]


def test_an_unknown_id_is_an_error_that_names_it_and_removes_nothing(folder: Path) -> None:
    with pytest.raises(DataError, match="no passage has the id 'x', 'y'; nothing is removed"):
        remove_passages(folder, ["a", "x", "y"])
    with pytest.raises(DataError, match=r"'9' and 5 more"):
        remove_passages(folder, map(str, range(15)))
    with pytest.raises(DataError, match="all its passages would be removed"):
        remove_passages(folder, ["a", "l", "a"])
    assert len(open_index(folder)) == 2
    assert remove_passages(folder, ["x"], missing_ok=True).removed == 0
    assert remove_passages(folder, ["x", "a", "a"], missing_ok=True).removed == 1


def test_a_corpus_that_is_malformed_changes_nothing(folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": 1, "text": "one"}\n{"id": 1, "text": "two"}\n')
    with pytest.raises(DataError, match=r"bad\.jsonl:2: duplicate id '1'"):
        add_passages(folder, open_corpus(bad))
    with pytest.raises(DataError, match="cannot be written as JSON"):
        add_passages(folder, open_corpus([Passage("x", "", "text", metadata={"when": {1}})]))
    with pytest.raises(IndexFolderError, match="no such folder"):
        add_passages(tmp_path / "none", open_corpus([PARIS]))
    with pytest.raises(IndexFolderError, match="not a polyhop index"):
        add_passages(tmp_path, open_corpus([PARIS]))
    assert not (tmp_path / "writer.lock").exists()
    assert len([*folder.glob("state-*")]) == 1
    assert add_passages(folder, open_corpus(bad, skip_bad=True)).added == 1


def test_the_fingerprint_tells_every_state_from_the_others(folder: Path) -> None:
    seen = [open_index(folder).fingerprint]
    seen.append(add_passages(folder, open_corpus([PARIS])).index.fingerprint)
    seen.append(remove_passages(folder, ["l"]).index.fingerprint)
    seen.append(add_passages(folder, open_corpus([LONDON])).index.fingerprint)
    assert len(set(seen)) == 4
    with pytest.raises(IndexFolderError, match="in another state"):
        open_index(folder, corpus=open_corpus([ADA, LONDON]))


@pytest.mark.slow
@pytest.mark.parametrize("most_removed", [0, 1])
def test_only_what_is_new_is_encoded(tmp_path: Path, most_removed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_SHARD", 4)
    monkeypatch.setattr(updating, "MAX_REMOVED_SHARE", most_removed)
    standing = [Passage(f"p{number}", "", f"text {number}") for number in range(40)]
    encoder = WordEncoder()
    Dense(build_index(open_corpus(standing), tmp_path / "index"), encoder)
    encoder.encoded.clear()
    remove_passages(tmp_path / "index", ["p0", "p39"])
    index = add_passages(tmp_path / "index", open_corpus([Passage("new", "", "oboe")])).index
    assert [passage.id for passage in Dense(index, encoder).search("oboe", 1)] == ["new"]
    assert encoder.encoded == ["new"]


@pytest.mark.slow
def test_damaged_vectors_are_not_carried_on(folder: Path) -> None:
    index = open_index(folder)
    Dense(index, WordEncoder())
    (file,) = index.state.glob("vectors-*/vectors")
    file.write_bytes(b"\1" * file.stat().st_size)
    encoder = WordEncoder()
    Dense(add_passages(folder, open_corpus([PARIS])).index, encoder)
    assert encoder.encoded == ["a", "l", "p"]


def test_an_index_that_may_not_be_written_to_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise PermissionError
        return opened(path, flags, mode)

    opened = os.open
    monkeypatch.setattr("polyhop.common.files.os.open", refuse)
    with pytest.raises(IndexFolderError, match="cannot be written to"):
        remove_passages(folder, ["a"])


@pytest.mark.slow
def test_removed_passages_are_kept_as_marks_until_they_are_many(tmp_path: Path) -> None:
    standing = [Passage(f"p{number}", "", f"text {number}") for number in range(40)]
    build_index(open_corpus(standing), tmp_path / "index")
    index = remove_passages(tmp_path / "index", ["p0", "p1", "p2", "p3"]).index
    assert (index.rows, len(index)) == (40, 36)
    with pytest.raises(IndexError, match="passage 3 was removed"):
        index.passages.get(3)
    index = remove_passages(tmp_path / "index", ["p4"]).index
    assert (index.rows, len(index)) == (35, 35)


def test_the_command_line_adds_and_removes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run_cli(*arguments: str) -> str:
        with pytest.MonkeyPatch.context() as patch, suppress(SystemExit):
            patch.setattr(sys, "argv", ["polyhop", "index", *arguments])
            main()
        output, errors = capsys.readouterr()
        return output + errors

    (tmp_path / "more.jsonl").write_bytes(orjson.dumps(PARIS.to_dict()))
    (tmp_path / "ids").write_text("l\r\na\n\n")
    assert run_cli("add", str(folder), str(tmp_path / "more.jsonl")).endswith("1 added; the index has 3 passages\n")
    assert run_cli("add", str(folder), str(tmp_path / "more.jsonl")).endswith("1 unchanged; the index has 3 passages\n")
    (tmp_path / "bad.jsonl").write_bytes(orjson.dumps(PARIS.to_dict()) + b'\n{"id":\n')
    said = run_cli("add", str(folder), str(tmp_path / "bad.jsonl"), "--skip-bad")
    assert said.endswith("1 unchanged; the index has 3 passages\n1 passage; left out: 1 malformed line\n")
    assert "no passage has the id 'x'" in run_cli("remove", str(folder), "x")
    assert "which passages?" in run_cli("remove", str(folder))
    assert run_cli("remove", str(folder), "x", "--missing-ok") == "nothing to do; the index has 3 passages\n"
    removed = orjson.loads(run_cli("remove", str(folder), "--ids", str(tmp_path / "ids"), "--json"))
    assert removed == {
        "added": 0,
        "replaced": 0,
        "standing": 0,
        "removed": 2,
        "passages": 1,
        "fingerprint": open_index(folder).fingerprint,
    }
    assert "none: cannot be read" in run_cli("remove", str(folder), "--ids", str(tmp_path / "none"))
    (tmp_path / "ids").write_bytes(b"\xff")
    assert "ids: is not UTF-8 text" in run_cli("remove", str(folder), "--ids", str(tmp_path / "ids"))
