"""Dense indexes by faiss: what they find beside every product, how they are chosen, kept, and made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.cli import corpora as cli_corpora
from polyhop.common import extras
from polyhop.data.corpora import open_corpus
from polyhop.errors import IndexFolderError, MissingExtra, UnknownName, UsageError
from polyhop.retrieval import Index, approximate, build_index
from polyhop.retrieval.approximate import INVERTED, KIND, VERSION, DenseIndex, check_kind, dense_index, dense_indexes
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.exact import Hit, nearest
from polyhop.retrieval.sealed_folder import write_manifest
from polyhop.retrieval.vectors import encodings
from polyhop.types import Passage
from tests.kit.encoders import WordEncoder

ROWS, SIZE = 3000, 24
ENCODER = ("dense:drawn", "drawn")
WITH_FAISS = find_spec("faiss") is not None


def extra(test: Any) -> Any:
    return pytest.mark.extra(pytest.mark.skipif(not WITH_FAISS, reason="faiss is not installed")(test))


def index_of(count: int, folder: Path) -> Index:
    return build_index(open_corpus([Passage(f"p{number:05}", "", "word") for number in range(count)]), folder)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return index_of(5, tmp_path / "index")  # its passages are never looked at, but by Dense


def drawn(count: int, size: int = SIZE, seed: int = 0) -> Any:
    """Vectors of length 1 in one cloud, some numbers of which matter more."""
    rows = np.random.default_rng(seed).normal(size=(count, size)) / np.sqrt(np.arange(1, size + 1))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


VECTORS, QUERIES = drawn(ROWS).astype(np.float16), drawn(40, seed=1)


def recall(found: Sequence[Sequence[Hit]], k: int) -> float:
    goals = nearest(VECTORS, QUERIES, k)
    shared = [len({row for _, row in a} & {row for _, row in b}) for a, b in zip(found, goals, strict=True)]
    return sum(shared) / k / len(goals)


# --- what is found ------------------------------------------------------------------------------------------------


@extra
def test_what_is_found_has_the_exact_scores_and_most_of_the_first(index: Index) -> None:
    found = dense_index(index, VECTORS, ENCODER, INVERTED).nearest(QUERIES, 10)
    assert recall(found, 10) >= 0.9
    for query, hits in zip(QUERIES, found, strict=True):
        assert len(hits) == 10
        assert hits == sorted(hits, key=lambda hit: (-hit[0], hit[1]))
        for score, row in hits:
            assert score == float((VECTORS[row].astype(np.float64) * query).sum())


@extra
def test_where_all_is_read_it_is_exact(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "_RERANKS", (ROWS,))
    monkeypatch.setattr(approximate, "TARGET", 1.0)
    monkeypatch.setattr(approximate, "_steps", lambda first, last: [last])
    found = dense_index(index, VECTORS, ENCODER, INVERTED)
    assert found.nearest(QUERIES, 7) == nearest(VECTORS, QUERIES, 7)
    (facts,) = dense_indexes(index)
    assert facts["recall"] == 1.0


@extra
def test_no_result_depends_on_other_queries_or_on_when_it_was_made(index: Index, tmp_path: Path) -> None:
    first = dense_index(index, VECTORS, ENCODER, INVERTED).nearest
    together = first(QUERIES, 10)
    assert together == first(QUERIES, 10) == [first(query[None], 10)[0] for query in QUERIES]
    again = index_of(5, tmp_path / "again")
    assert dense_index(again, VECTORS, ENCODER, INVERTED).nearest(QUERIES, 10) == together


@extra
@pytest.mark.parametrize(("rows", "size"), [(1, 8), (2, 3), (5, 7), (40, 33)])
def test_small_corpora_are_searched_exactly(index: Index, rows: int, size: int) -> None:
    vectors, asked = drawn(rows, size).astype(np.float16), drawn(6, size, seed=1)
    find = dense_index(index, vectors, ENCODER, INVERTED).nearest
    for k in (1, 3, 100):
        assert [hits[:k] for hits in find(asked, k)] == [hits[:k] for hits in nearest(vectors, asked, k)]


@extra
def test_many_passages_of_one_vector_tie(index: Index) -> None:
    vectors = VECTORS.copy()
    vectors[100:108] = vectors[100]
    hits = dense_index(index, vectors, ENCODER, INVERTED).nearest(vectors[100:101].astype(np.float32), 3)[0]
    assert [row for _, row in hits] == list(range(100, 108))


@extra
def test_more_than_the_lists_hold_is_found_all_the_same(index: Index) -> None:
    found = dense_index(index, VECTORS, ENCODER, INVERTED).nearest(QUERIES[:2], ROWS)
    assert found == nearest(VECTORS, QUERIES[:2], ROWS)


# --- what is chosen, and kept -------------------------------------------------------------------------------------


def test_up_to_so_many_it_is_exact(index: Index) -> None:
    found = dense_index(index, VECTORS, ENCODER)
    assert found.how == "300,000 passages or fewer: exact"
    assert found.nearest(QUERIES, 5) == nearest(VECTORS, QUERIES, 5)
    assert dense_indexes(index) == []


@extra
def test_more_are_searched_by_inverted_lists_with_recall_reported(index: Index) -> None:
    found = dense_index(index, VECTORS, ENCODER, exact_up_to=ROWS - 1)
    (facts,) = dense_indexes(index)
    assert (facts["index"], facts["why"], facts["encoder"]) == ("ivf-rabitq", "more than 2,999 passages", "dense:drawn")
    assert (facts["passages"], facts["size"], facts["lists"], facts["queries"]) == (ROWS, SIZE, 64, 400)
    assert facts["recall"] >= facts["target"] == 0.95
    assert 1 <= facts["probes"] <= 64
    assert facts["rerank"] in (10, 15, 20, 25, 30, 40, 50)
    assert found.how.startswith(f"more than 2,999 passages: ivf-rabitq, recall@10 {facts['recall']:.3f} (")
    assert abs(recall(found.nearest(QUERIES, 10), 10) - facts["recall"]) < 0.06


@extra
def test_a_target_out_of_reach_is_reported(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "_RERANKS", (1,))
    found = dense_index(index, VECTORS, ENCODER, "ivf-rabitq")
    assert "short of 0.95: what is nearest is hard to tell here" in found.how


@extra
def test_a_higher_target_takes_more_effort(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    efforts = []
    for target in (0.5, 0.99):
        monkeypatch.setattr(approximate, "TARGET", target)
        dense_index(index, VECTORS, ("dense:drawn", str(target)), INVERTED)
        efforts.append(next(facts for facts in dense_indexes(index) if facts["target"] == target))
    assert efforts[0]["probes"] < efforts[1]["probes"]
    assert efforts[0]["recall"] < 0.99 <= efforts[1]["recall"]


@extra
def test_what_was_made_is_what_auto_finds_until_another_is_asked_for(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    fill = approximate.fill

    def noted(folder: Path, vectors: Any) -> dict[str, Any]:
        made.append(INVERTED)
        return fill(folder, vectors)

    monkeypatch.setattr(approximate, "fill", noted)
    for kind in (INVERTED, "auto", INVERTED, "auto"):
        found = dense_index(index, VECTORS, ENCODER, kind)
        assert found.how.startswith(f"asked for: {INVERTED}")
    assert made == [INVERTED]
    assert dense_index(index, VECTORS, ENCODER, "exact").how == "asked for: exact"
    assert dense_index(index, VECTORS, ENCODER, exact_up_to=1).how == "asked for: exact"
    assert [facts["index"] for facts in dense_indexes(index)] == ["exact"]


@extra
def test_other_vectors_have_an_index_of_their_own(index: Index) -> None:
    dense_index(index, VECTORS, ENCODER, INVERTED)
    other = VECTORS.copy()
    other[0] = -other[0]
    for vectors, encoder in ((other, ENCODER), (VECTORS, ("dense:drawn", "another")), (VECTORS[:-1], ENCODER)):
        assert dense_index(index, vectors, encoder).how == "300,000 passages or fewer: exact"


@extra
def test_removed_passages_are_never_found(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = np.zeros(ROWS, np.bool_)
    removed[[row for hits in nearest(VECTORS, QUERIES, 3) for _, row in hits]] = True
    monkeypatch.setattr(index.passages, "removed", removed)
    found = dense_index(index, VECTORS, ENCODER, INVERTED).nearest(QUERIES, 10)
    assert not any(removed[row] for hits in found for _, row in hits)


# --- what goes wrong ----------------------------------------------------------------------------------------------


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(
        UnknownName, match=r"unknown dense index 'ivf-rabit'; did you mean 'ivf-rabitq'\? Valid: auto, "
    ):
        check_kind("ivf-rabit")


def test_without_faiss_the_install_line_is_shown(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"the dense index ivf-rabitq needs .*pip install 'polyhop\[dense\]'"):
        check_kind(INVERTED)
    with pytest.raises(MissingExtra, match=r"of more than 9 passages \(unless it is to be exact\) needs an extra"):
        dense_index(index, VECTORS, ENCODER, exact_up_to=9)
    assert not list(index.state.glob("*nearest*"))
    for kind in ("auto", "exact"):
        assert dense_index(index, VECTORS, ENCODER, kind).nearest(QUERIES, 2)


def folder_of(index: Index) -> Path:
    (folder,) = (folder for folder in index.state.glob("nearest-*") if folder.is_dir())
    return folder


@extra
@pytest.mark.parametrize("harm", ["truncated", "changed", "missing"])
def test_a_damaged_folder_is_refused_or_rebuilt_by_kind(index: Index, harm: str) -> None:
    found = dense_index(index, VECTORS, ENCODER, INVERTED).nearest(QUERIES, 10)
    file = folder_of(index) / "faiss"
    data = file.read_bytes()
    match harm:
        case "truncated":
            file.write_bytes(data[:-1])
        case "changed":
            file.write_bytes(data[:500] + bytes([data[500] ^ 1]) + data[501:])
        case "missing":
            file.unlink()
    with pytest.raises(IndexFolderError, match=r"faiss is .*build the dense index again"):
        dense_index(index, VECTORS, ENCODER)
    with pytest.raises(IndexFolderError, match="build the dense index again"):
        dense_indexes(index)
    assert dense_index(index, VECTORS, ENCODER, INVERTED).nearest(QUERIES, 10) == found


@extra
@pytest.mark.parametrize("kind", ["ivf-sq8", "hnsw"])
def test_an_index_of_a_former_kind_says_to_build_it_again(index: Index, kind: str) -> None:
    dense_index(index, VECTORS, ENCODER, INVERTED)
    facts = dense_indexes(index)[0] | {"index": kind}
    write_manifest(folder_of(index), kind=KIND, version=VERSION, facts=facts)
    message = rf"of the kind {kind}, which is no longer read; build it again: --dense-index ivf-rabitq or exact"
    with pytest.raises(IndexFolderError, match=message):
        dense_index(index, VECTORS, ENCODER)
    with pytest.raises(IndexFolderError, match=message):
        dense_indexes(index)
    assert dense_index(index, VECTORS, ENCODER, "exact").how == "asked for: exact"
    with pytest.raises(UnknownName, match=f"unknown dense index '{kind}'"):
        check_kind(kind)


@extra
def test_what_faiss_cannot_read_is_refused(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    faiss: Any = extras.require("faiss", "dense", "a test")
    monkeypatch.setattr(faiss, "write_index", lambda index, path: Path(path).write_bytes(b"IwZZ" + bytes(99)))
    with pytest.raises(IndexFolderError, match=r"faiss [0-9.]+ cannot read it; build the dense index again"):
        dense_index(index, VECTORS, ENCODER, INVERTED)


@extra
def test_a_stopped_build_leaves_nothing(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(approximate, "_least_effort", stop)
        with pytest.raises(KeyboardInterrupt):
            dense_index(index, VECTORS, ENCODER, "ivf-rabitq")
    assert [path for path in index.state.glob("*nearest*") if path.is_dir()] == []
    assert [path for path in index.state.glob(".nearest*") if path.is_dir()] == []


KILLED = """
import sys, time
import numpy as np
from polyhop.retrieval import approximate, open_index
from tests.retrieval.test_approximate import ENCODER, VECTORS
least = approximate._least_effort
def slow(*given):
    print("half", flush=True)
    time.sleep(60)
approximate._least_effort = slow
approximate.dense_index(open_index(sys.argv[1]), VECTORS, ENCODER, "ivf-rabitq")
"""


@extra
@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
def test_a_killed_build_leaves_no_index(index: Index) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(index.folder)], stdout=subprocess.PIPE, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    assert dense_indexes(index) == []
    assert dense_index(index, VECTORS, ENCODER).how == "300,000 passages or fewer: exact"
    dense_index(index, VECTORS, ENCODER, INVERTED)
    assert [facts["index"] for facts in dense_indexes(index)] == [INVERTED]
    assert [path for path in index.state.glob(".nearest*") if path.is_dir()] == []


# --- through the retriever and the command line -------------------------------------------------------------------


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus' file, over which the encoder's name ``words`` opens."""
    encoder = WordEncoder()
    monkeypatch.setattr("polyhop.retrieval.encoders.open_encoder", {"words": encoder}.__getitem__)
    corpus = tmp_path / "corpus.jsonl"
    rows = [
        {"id": f"p{number}", "title": "", "text": f"river {number % 7} city {number % 11}"} for number in range(300)
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return corpus


def build(corpus: Path, out: Path, kind: str, dense: str | None = "words") -> None:
    cli_corpora.index_build(corpus, out, dense=dense, dense_index=kind)


@extra
def test_from_the_command_to_the_passage(words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "index"
    build(words, out, "auto")
    assert "dense index, 300,000 passages or fewer: exact" in capsys.readouterr().err
    build(words, out, "ivf-rabitq")
    output = capsys.readouterr()
    assert "dense index, asked for: ivf-rabitq, recall@10 " in output.err
    assert "dense index of dense:words, asked for: ivf-rabitq, recall@10 " in output.out
    cli_corpora.index_info(out, as_json=True)
    (facts,) = json.loads(capsys.readouterr().out)["dense_indexes"]
    assert (facts["index"], facts["passages"], facts["encoder"]) == ("ivf-rabitq", 300, "dense:words")
    index = Index(out)
    dense, plain = Dense(index, WordEncoder()), Dense(index, WordEncoder(), kind="exact")
    assert "ivf-rabitq" in dense.how
    queries = ["river 3 city 4", "city 10", ""]
    scores = [[score for _, score in hits] for hits in dense.search_many_scored(queries, 5)]
    assert scores == [[score for _, score in hits] for hits in plain.search_many_scored(queries, 5)]
    assert [len(hits) for hits in scores] == [5, 5, 0]
    assert [facts["encoder"] for facts in encodings(index)] == ["dense:words"]


def test_an_unknown_kind_is_refused_before_the_work(words: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--dense-index ivf-rabitq: requires an encoder; name one \(--dense\)"):
        build(words, tmp_path / "index", INVERTED, dense=None)
    with pytest.raises(UnknownName, match="unknown dense index 'flat'"):
        build(words, tmp_path / "index", "flat")
    assert not (tmp_path / "index").exists()


@extra
def test_threads_share_one(index: Index) -> None:
    from concurrent.futures import ThreadPoolExecutor

    found: DenseIndex = dense_index(index, VECTORS, ENCODER, "ivf-rabitq")
    expected = found.nearest(QUERIES, 10)
    begun = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: found.nearest(QUERIES, 10), range(8))) == [expected] * 8
    assert time.monotonic() - begun < 60
