"""``polyhop run`` in the distractor setting, and its offer of that if there is no corpus."""

from __future__ import annotations

from pathlib import Path

import orjson

from tests.data.test_formats import HOTPOTQA, array, lines
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]


def test_a_run_over_contexts_and_a_sweep(tmp_path: Path, cli: Cli) -> None:
    path = array(tmp_path / "dev.json", HOTPOTQA, {**HOTPOTQA, "_id": "two"})
    done = cli("run", "--dataset", str(path), "--corpus", "contexts", "--json", "--method", "one-r,full-context,gold")
    assert (done.code, [*orjson.loads(done.out)["reports"]]) == (0, ["one-r", "full-context", "gold"])
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[run]\ndataset = "{path}"\ncorpus = "contexts"\n[grid]\nmethod = ["one-r", "gold"]\n')
    assert cli("sweep", str(plan), "--out", str(tmp_path / "swept")).code == 0
    line = orjson.loads((tmp_path / "swept" / "method=gold" / "predictions.jsonl").read_bytes().splitlines()[0])
    assert line["titles"] == ["Emma (novel)"]


def test_without_a_corpus_the_contexts_are_offered(tmp_path: Path, cli: Cli) -> None:
    path = array(tmp_path / "hotpotqa_official.json", HOTPOTQA)
    refused = cli("run", "--dataset", str(path), "--method", "one-r")
    said = " ".join(refused.err.split())
    assert refused.code == 2
    assert "one-r searches, and there is no corpus. The records of hotpotqa_official.json have contexts" in said
    assert "--corpus contexts answers each question from its own" in said
    some = cli("run", "--dataset", str(path), "--method", "one-r,cot")
    assert some.code == 0
    assert "--corpus contexts answers" in " ".join(some.err.split())


def test_a_dataset_without_contexts_has_no_such_corpus(tmp_path: Path, cli: Cli) -> None:
    path = lines(tmp_path / "q.jsonl", {"question": "Who?", "answer": "Ann"})
    refused = cli("run", "--dataset", str(path), "--corpus", "contexts")
    assert "contexts: the questions have no contexts of their own" in refused.err
    assert "one-r searches a corpus: give one" in cli("run", "--dataset", str(path), "--method", "one-r").err
