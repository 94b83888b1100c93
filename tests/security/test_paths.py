"""No name out of a corpus, a dataset, a run or an index leads to a file outside of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.data.corpora import open_corpus
from polyhop.data.index_folder import INDEX_MANIFEST, INDEX_PASSAGES, INDEX_REMOVED
from polyhop.errors import DataError, IndexFolderError, UsageError
from polyhop.evaluation.pages.page import page
from polyhop.evaluation.store import PREDICTIONS, read_report, trace_file
from polyhop.lm.replay import ReplayLM
from polyhop.retrieval import build_index, open_index
from polyhop.retrieval.sealed_folder import _checksum
from tests.kit.hostile_runs import plain_run

NAMES = (
    "../../secret",
    "/etc/hostname",
    "..",
    ".",
    "C:\\secret",
    "a/b",
    "a\x00b",
    "~/.ssh/id",
    "%2e%2e/secret",
    "con",
    "x" * 999,
)


def test_ids_of_a_corpus_and_a_dataset_are_no_paths(tmp_path: Path) -> None:
    passages = [Passage(name, name, f"About {number}.", links=(name,)) for number, name in enumerate(NAMES)]
    build_index(polyhop.open_corpus(passages), tmp_path / "held" / "index")
    assert [passage.id for passage in open_index(tmp_path / "held" / "index").passages] == list(NAMES)
    polyhop.evaluate(
        [Question(name, f"Who {name!r}?") for name in NAMES],
        method="one-r",
        lm=ScriptedLM(lambda task, fields: {"answer": "Ada"}),
        retriever=lambda query, k: passages,
        out=tmp_path / "held" / "run",
    )
    assert {path.name for path in tmp_path.iterdir()} <= {"held", "cache"}
    traces = {path.name for path in (tmp_path / "held" / "run" / "traces").iterdir()}
    assert traces == {f"{number:05d}.json" for number in range(len(NAMES))}


@pytest.mark.parametrize("named", ["../../secret.json", "traces/../../../secret.json", "{outside}"])
def test_a_strangers_run_cannot_name_a_trace_outside_of_it(tmp_path: Path, named: str) -> None:
    run = tmp_path / "runs" / "one"
    plain_run(run)
    secret = tmp_path / "secret.json"
    secret.write_text((run / "traces" / "00000.json").read_text().replace("Town 0", "Secret town"))
    lines = [json.loads(line) for line in (run / PREDICTIONS).read_text().splitlines()]
    rows = [{**line, "trace": named.format(outside=secret)} for line in lines]
    (run / PREDICTIONS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        assert trace_file(run, row).parent == run / "traces"
    assert "Secret town" not in page({str(run): read_report(run)})
    assert "Secret town" not in str(read_report(run, metrics="recall").to_dict())


@pytest.mark.parametrize("named", ["../other/{state}", "{outside}", "..", "", "state-0123456789abcdeg"])
def test_a_strangers_index_cannot_name_a_state_outside_of_it(tmp_path: Path, named: str) -> None:
    for name in ("one", "other"):
        build_index(polyhop.open_corpus([Passage("p", "Title", f"About {name}.")]), tmp_path / name)
    (state,) = (tmp_path / "other").glob("state-*")
    manifest = tmp_path / "one" / INDEX_MANIFEST
    written = json.loads((tmp_path / "other" / INDEX_MANIFEST).read_text())
    manifest.write_text(json.dumps({**written, "state": named.format(state=state.name, outside=state)}))
    with pytest.raises(IndexFolderError):
        open_index(tmp_path / "one")


def edit(folder: Path, **changes: Any) -> None:
    """Change an index's manifest as one may who knows its checksum."""
    manifest = json.loads((folder / INDEX_MANIFEST).read_text()) | changes
    manifest.pop("checksum")
    manifest["checksum"] = _checksum(manifest)
    (folder / INDEX_MANIFEST).write_text(json.dumps(manifest))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    build_index(open_corpus([Passage("p", "Title", "Of a kiln."), Passage("q", "Kiln", "Title")]), tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize("state", ["{outside}", "../secret", "secret", "x" * 5000, "a\0b", 7, None, ["../secret"]])
def test_a_folder_of_documents_names_no_state_outside_of_it(tmp_path: Path, state: Any) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / INDEX_PASSAGES).write_text(json.dumps({"id": "s", "text": "The secret."}))
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "a.txt").write_text("Ada wrote it.")
    named = state.format(outside=tmp_path / "secret") if isinstance(state, str) else state
    (documents / INDEX_MANIFEST).write_text(json.dumps({"state": named}))
    corpus = open_corpus(documents)
    assert not corpus.is_index
    assert [passage.text for passage in corpus] == ["Ada wrote it."]


@pytest.mark.parametrize("state", ["../secret", "x" * 5000, 7, None, ["state-0123456789abcdef"], {}])
def test_a_manifest_with_a_right_checksum_names_no_other_state(index: Path, state: Any) -> None:
    edit(index, state=state)
    with pytest.raises(IndexFolderError):
        open_index(index)


_OTHER: list[Any] = [None, 7, [], {}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("name", "fingerprint", "stop_words") for value in _OTHER),
        ("language", 7),
        ("language", []),
        ("language", "klingon"),
        ("files", 7),
        ("files", [7]),
        ("files", {"../../secret": [0, 0]}),
        ("files", {"a\0b": [0, 0]}),
        ("files", {"": [0, 0]}),
        ("links", []),
        ("stemmer", 7),
        ("kind", {}),
        ("version", []),
    ],
)
def test_a_manifest_of_other_facts_is_an_error(index: Path, name: str, value: Any) -> None:
    edit(index, **{name: value})
    with pytest.raises(UsageError):
        open_index(index)


def link(path: Path) -> None:
    outside = path.parents[3] / "outside"
    outside.write_bytes(path.read_bytes() if path.exists() else b"")
    path.unlink(missing_ok=True)
    path.symlink_to(outside)


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize(
    ("replace", "is_listed"), [(link, True), (pipe, True), (folder, True), (link, False), (pipe, False)]
)
def test_no_file_of_an_index_is_a_link_out_or_a_pipe(
    index: Path, replace: Callable[[Path], None], is_listed: bool
) -> None:
    (state,) = index.glob("state-*")
    manifest = (index / INDEX_MANIFEST).read_bytes()
    for path in sorted(path for path in state.rglob("*") if path.is_file() and path.suffix != ".lock"):
        held = path.read_bytes()
        if not is_listed:
            edit(index, files={})
        replace(path)
        with pytest.raises(DataError) as caught:
            polyhop.Pipeline(index).search("kiln")
        assert str(index) in str(caught.value)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        path.write_bytes(held)
        (index / INDEX_MANIFEST).write_bytes(manifest)
    assert polyhop.Pipeline(index).search("kiln")


@pytest.mark.parametrize("replace", [link, pipe, folder])
@pytest.mark.parametrize("name", [INDEX_PASSAGES, INDEX_REMOVED])
def test_nothing_outside_an_index_is_read_as_a_corpus(index: Path, name: str, replace: Callable[[Path], None]) -> None:
    (state,) = index.glob("state-*")
    replace(state / name)
    with pytest.raises(DataError):
        list(open_corpus(index))


@pytest.mark.parametrize("replace", [link, pipe, folder])
def test_a_manifest_that_is_a_link_out_or_a_pipe_is_none(index: Path, replace: Callable[[Path], None]) -> None:
    deep = index / "deep" / "deeper"
    deep.mkdir(parents=True)
    replace(deep / INDEX_MANIFEST)
    (deep / "a.txt").write_text("Ada wrote it.")
    assert [passage.text for passage in open_corpus(deep)] == ["Ada wrote it."]
    with pytest.raises(IndexFolderError):
        open_index(deep)


def test_a_state_that_is_a_link_out_is_refused(index: Path, tmp_path: Path) -> None:
    (state,) = index.glob("state-*")
    state.rename(tmp_path / "elsewhere")
    state.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IndexFolderError, match="leads out of the folder"):
        open_index(index)
    assert not open_corpus([Passage("p", "", "x")]).is_index
    with pytest.raises(DataError):
        list(open_corpus(index))


@pytest.mark.parametrize("replace", [link, pipe, folder])
@pytest.mark.parametrize("name", ["run.json", PREDICTIONS, "traces/00000.json"])
def test_no_file_of_a_run_is_a_link_out_or_a_pipe(tmp_path: Path, name: str, replace: Callable[[Path], None]) -> None:
    run = tmp_path / "runs" / "one"
    plain_run(run, limit=1)
    replace(run / name)
    works: tuple[Callable[[], object], ...] = (
        lambda: read_report(run),
        lambda: page({"one": read_report(run)}),
        lambda: read_report(run, metrics="recall"),
        lambda: ReplayLM(run),
        lambda: plain_run(run, limit=1),
    )
    refused = []
    for work in works:
        try:
            work()
        except UsageError as error:
            refused.append(str(error))
    assert refused
    assert all(str(run) in message for message in refused)


def test_results_of_a_batch_are_no_pipe(tmp_path: Path) -> None:
    from polyhop.lm.batches.folder import ImportCounts, read_results

    os.mkfifo(tmp_path / "results.jsonl")
    with pytest.raises(OSError, match="not a regular file"):
        list(read_results(tmp_path / "results.jsonl", ImportCounts(), skip_bad=False))
