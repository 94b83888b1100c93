"""Runs on a real Ray cluster of two nodes: the files of one process, whatever is killed or stopped on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cluster import REPLY, questions
from typer.testing import CliRunner

from polyhop import evaluate
from polyhop.cli.app import app
from polyhop.common.extras import is_installed
from polyhop.data import DEMO
from polyhop.data.corpora import open_corpus
from polyhop.evaluation.ray import Ray
from polyhop.retrieval import links, vectors
from tests.evaluation.test_resume import stopping_after
from tests.evaluation.test_store import files
from tests.kit.openai_server import FakeServer, in_thread

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("ray") or sys.platform != "linux", reason="needs Ray, and /proc"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of two nodes with a core each, this process connected to it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()  # by the ids of its processes


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with in_thread(FakeServer(REPLY)) as running:
        yield running


@pytest.fixture
def arguments(server: FakeServer) -> dict[str, Any]:
    return {
        "corpus": DEMO,
        "method": "resp",
        "lm": f"openai:tiny@{server.url}",
        "cache": False,
        "rendering": "text",  # in auto the first calls are asked in JSON, as many as are under way
        "concurrency": 6,
    }


def workers(cluster: Any) -> list[int]:
    """The processes of the run's workers."""
    raylets = {each.process.pid for node in cluster.list_all_nodes() for each in node.all_processes["raylet"]}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, parent = (folder / "cmdline").read_text(), (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if name.startswith("ray::Worker") and int(parent) in raylets:
            found.append(int(folder.name))
    return found


def test_200_questions_on_two_workers_are_those_of_one_process(
    nodes: Any, arguments: dict[str, Any], server: FakeServer, tmp_path: Path
) -> None:
    before = len(server.requests)
    evaluate(questions(200), **arguments, out=tmp_path / "one")
    calls = len(server.requests) - before
    evaluate(questions(200), **arguments, out=tmp_path / "two", engine=Ray(workers=2))
    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert len(server.requests) - before == 2 * calls


def test_a_killed_worker_changes_nothing(nodes: Any, arguments: dict[str, Any], tmp_path: Path) -> None:
    killed = []

    def kill(done: int, total: int) -> None:
        if done == 30:
            killed.append(max(found := workers(nodes)))
            assert len(found) == 2
            os.kill(killed[0], signal.SIGKILL)

    evaluate(questions(100), **arguments, out=tmp_path / "killed", engine=Ray(workers=2), progress=kill)
    assert killed
    evaluate(questions(100), **arguments, out=tmp_path / "one")
    assert files(tmp_path / "killed") == files(tmp_path / "one")


def test_stopped_it_leaves_nothing_behind_and_goes_on(
    nodes: Any, arguments: dict[str, Any], server: FakeServer, tmp_path: Path
) -> None:
    dataset, out = tmp_path / "dev.jsonl", tmp_path / "stopped"
    rows = [{"id": each.id, "question": each.text, "answers": each.answers} for each in questions(100)]
    dataset.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            evaluate(dataset, **arguments, out=out, engine=Ray(workers=1), progress=stopping_after(20))
    finally:
        signal.signal(signal.SIGINT, before)
    assert 20 <= kept(out) < 100
    assert not left(nodes)
    interrupted = kept(out)
    terminate(nodes, server, dataset, out)
    assert interrupted < kept(out) < 100
    assert not left(nodes)
    asked, finished = len(server.requests), kept(out)
    evaluate(dataset, **arguments, out=out, engine=Ray(workers=1))
    asked_again = len(server.requests) - asked
    evaluate(dataset, **arguments, out=tmp_path / "one")
    assert files(out) == files(tmp_path / "one")
    assert asked_again == 3 * (100 - finished), "a finished question was asked again"


def terminate(cluster: Any, server: FakeServer, dataset: Path, out: Path) -> None:
    """Let a command go on with a run, and end it by SIGTERM: it ends as any run, and Ray says nothing."""
    model = ["--lm", f"openai:tiny@{server.url}", "--rendering", "text", "--no-cache"]
    options = ["--corpus", DEMO, "--method", "resp", *model]
    elsewhere = ["--engine", "ray", "--workers", "1", "--address", cluster.address]
    process = subprocess.Popen(
        [sys.executable, "-m", "polyhop", "run", "--dataset", dataset, *options, *elsewhere, "--out", out],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        before, until = kept(out), time.monotonic() + 300
        while kept(out) < before + 20 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        process.terminate()
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGTERM, output
    assert "SIGTERM" not in output
    assert "Traceback" not in output


def kept(out: Path) -> int:
    """Questions that a run has answered."""
    return (out / "predictions.jsonl").read_bytes().count(b"\n")


def left(cluster: Any) -> list[int]:
    """The workers that are still there a while after a run."""
    until = time.monotonic() + 60
    while workers(cluster) and time.monotonic() < until:
        time.sleep(0.05)
    return workers(cluster)


def test_an_index_made_all_over_is_that_of_one_process(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in (links, vectors):
        monkeypatch.setattr(part, "_SHARD", 8)  # several shards of a small corpus
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(f"{json.dumps(each.to_dict())}\n" for each in islice(open_corpus(DEMO), 40)))
    for name, elsewhere in (("one", []), ("two", ["--engine", "ray", "--workers", "2"])):
        made = CliRunner().invoke(
            app, ["index", "build", str(corpus), "--out", str(tmp_path / name), "--dense", "pocket", *elsewhere]
        )
        assert made.exit_code == 0, made.output
    for file in ("links.names", "links.starts", "names.text", "vectors-*/vectors"):
        one, two = (next((tmp_path / name).glob(f"state-*/{file}")).read_bytes() for name in ("one", "two"))
        assert one == two, file
