"""No name out of a corpus, a dataset, a run or an index leads to a file outside of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.data.corpora import INDEX_MANIFEST
from polyhop.errors import IndexFolderError
from polyhop.evaluation.pages.page import page
from polyhop.evaluation.store import PREDICTIONS, read_report, trace_file
from polyhop.retrieval import build_index, open_index
from tests.kit.evil import plain_run

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
    told = json.loads((tmp_path / "other" / INDEX_MANIFEST).read_text())
    manifest.write_text(json.dumps({**told, "state": named.format(state=state.name, outside=state)}))
    with pytest.raises(IndexFolderError):
        open_index(tmp_path / "one")
