"""Shards worked on by workers that may be lost: each is processed once, in order; on a fake cluster."""

from __future__ import annotations

import json
import operator
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from polyhop.cli.app import app
from polyhop.data.corpora import open_corpus
from polyhop.errors import ServiceError, UsageError
from polyhop.retrieval import links, sharding, vectors
from polyhop.retrieval.encoders import local
from polyhop.retrieval.index import build_index, open_index
from polyhop.retrieval.sharding import MapShards
from polyhop.types import Passage


class Lost(Exception):
    """The error that Ray raises for a call whose actor is gone."""


class Wrong(Lost):
    """The error that Ray raises for a call that raised one."""


class Scene:
    """The part of Ray that is used; of ``losses`` calls the worker is lost."""

    exceptions = SimpleNamespace(RayError=Lost, RayTaskError=Wrong)

    def __init__(self, seed: int = 0, losses: int = 0, error: Exception | None = None) -> None:
        self.draw, self.losses, self.error = random.Random(seed), losses, error
        self.living: list[Any] = []
        self.begun = self.joined = self.put_there = self.fetched = self.at_hand = self.most = 0

    @contextmanager
    def join(self, address: str | None) -> Iterator[Scene]:
        self.joined += 1
        yield self

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 8.0}

    def put(self, thing: Any) -> tuple[int, bytes]:
        self.put_there += 1
        return self.put_there, pickle.dumps(thing)

    def remote(self, kind: type) -> Any:
        return SimpleNamespace(options=lambda num_cpus: SimpleNamespace(remote=lambda *args: self._begin(kind, *args)))

    def _begin(self, kind: type, fetch: Any, *given: Any) -> Any:
        assert fetch == self.get
        worker = SimpleNamespace(gone=False, itself=kind(self._fetch, *given))
        worker.do = SimpleNamespace(remote=lambda sent, shard: self._sent(worker, sent, shard))
        self.living.append(worker)
        self.begun += 1
        return worker

    def _fetch(self, work: tuple[int, bytes]) -> Any:
        self.fetched += 1
        return pickle.loads(work[1])  # noqa: S301 - our own

    def _sent(self, worker: Any, *given: Any) -> Any:
        self.at_hand += 1
        self.most = max(self.most, self.at_hand)
        return worker, given

    def get(self, sent: Any) -> Any:
        worker, given = sent
        self.at_hand -= 1
        if self.error:
            raise self.error
        if self.losses and self.draw.random() < 0.5:
            self.losses -= 1
            worker.gone = True
        if worker.gone:
            raise Lost("killed")
        try:
            return worker.itself.do(*given)
        except Exception as error:
            raise Wrong(f"Traceback …\n{type(error).__name__}: {error}") from error

    def kill(self, worker: Any) -> None:
        self.living.remove(worker)


@contextmanager
def played(scene: Scene, many: int = 2) -> Iterator[MapShards]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharding, "connected", scene.join)
        with sharding.cluster_map(None, many) as map_shards:
            yield map_shards


@given(st.integers(1, 5), st.integers(0, 40), st.integers(0, 2), st.integers(0, 99))
def test_what_is_made_comes_in_order_whatever_is_lost(many: int, count: int, losses: int, seed: int) -> None:
    scene = Scene(seed, losses)
    with played(scene, many) as map_shards:
        assert list(map_shards(abs, range(count))) == list(range(count))
    assert not scene.living
    if not losses:
        assert scene.begun == scene.fetched == min(many, count)
        assert scene.most <= many * sharding.SHARDS_PER_WORKER


@given(st.integers(1, 4), st.lists(st.integers(0, 9), max_size=4), st.integers(0, 2), st.integers(0, 99))
def test_the_same_workers_do_all_that_there_is(many: int, counts: list[int], losses: int, seed: int) -> None:
    scene = Scene(seed, losses)
    with played(scene, many) as map_shards:
        for number, count in enumerate(counts):
            assert list(map_shards(partial(operator.add, number), range(count))) == list(range(number, number + count))
        assert len(scene.living) == min(many, max(counts, default=0))
    assert not scene.living
    if not losses:
        assert scene.begun == min(many, max(counts, default=0))
        assert scene.fetched == sum(min(many, count) for count in counts)


def test_work_that_cannot_be_done_ends_it_with_the_reason() -> None:
    wrong, gone = Scene(), Scene(error=Lost("killed for its memory"))
    with (
        played(wrong) as map_shards,
        pytest.raises(ServiceError, match="a worker cannot go on: TypeError: bad operand"),
    ):
        list(map_shards(abs, ["one", "two"]))
    with played(gone) as map_shards, pytest.raises(ServiceError, match=r"3 workers were lost .* killed for its memory"):
        list(map_shards(abs, range(9)))
    assert not wrong.living
    assert not gone.living


def test_an_encoder_goes_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [Passage(str(number), "", f"Text {number}.") for number in range(3)]
    with played(Scene()) as map_shards:
        made = list(sharding.encode_by_name("pocket", map_shards)(not_to_be_sent, [passages[:2], passages[2:]]))
        none = sharding.encode_by_name("onnx:no-such-folder", map_shards)(not_to_be_sent, [passages])
        with pytest.raises(ServiceError, match=r"a worker cannot go on: .*no-such-folder"):
            list(none)
    encoder = local.PocketEncoder()
    assert [one.tobytes() for one in made] == [encoder.passages(p).tobytes() for p in (passages[:2], passages[2:])]


def not_to_be_sent(passages: Any) -> Any:
    raise AssertionError


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small corpus of several shards."""
    monkeypatch.setattr(links, "_SHARD", 8)
    monkeypatch.setattr(vectors, "_SHARD", 8)
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f"{json.dumps(each.to_dict())}\n" for each in islice(open_corpus("demo"), 40)))
    return path


def own_links(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    linked = (row | {"links": [other["title"] for other in rows[number % 7 :: 9]]} for number, row in enumerate(rows))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in linked))


def link_files(index: Path) -> dict[str, bytes]:
    state = open_index(index).state
    return {path.name: path.read_bytes() for path in state.iterdir() if path.name.startswith(("links.", "names."))}


@pytest.mark.slow
@pytest.mark.parametrize("change", [lambda path: None, own_links], ids=["mentions", "own"])
@pytest.mark.parametrize("losses", [0, 2])
def test_links_found_all_over_are_those_of_one_process(
    corpus: Path, tmp_path: Path, change: Callable[[Path], None], losses: int
) -> None:
    change(corpus)
    one, scene = build_index(open_corpus(corpus), tmp_path / "one"), Scene(losses=losses)
    with played(scene, 3) as map_shards:
        two = build_index(open_corpus(corpus), tmp_path / "two", map_shards=map_shards)
    assert scene.begun == 3 + losses
    assert one.facts["mentions"] == two.facts["mentions"] > 40
    assert link_files(one.folder) == link_files(two.folder)


@pytest.mark.slow
def test_a_build_that_loses_its_workers_can_be_repeated(corpus: Path, tmp_path: Path) -> None:
    with (
        played(Scene(error=Lost("killed"))) as map_shards,
        pytest.raises(ServiceError, match="give the same command again"),
    ):
        build_index(open_corpus(corpus), tmp_path / "index", map_shards=map_shards)
    assert build_index(open_corpus(corpus), tmp_path / "index").facts["mentions"]


@pytest.mark.slow
@pytest.mark.parametrize("dense", [[], ["--dense", "pocket"]], ids=["links", "dense"])
def test_the_command_joins_a_cluster_once_for_all_work(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dense: list[str]
) -> None:
    scene = Scene()
    monkeypatch.setattr(sharding, "connected", scene.join)
    for name, elsewhere in (("one", []), ("two", ["--engine", "ray", "--workers", "2"])):
        made = CliRunner().invoke(
            app, ["index", "build", str(corpus), "--out", str(tmp_path / name), *dense, *elsewhere]
        )
        assert made.exit_code == 0, made.output
    assert (scene.joined, scene.begun, scene.living) == (1, 2, [])
    assert link_files(tmp_path / "one") == link_files(tmp_path / "two")
    one, two = (sorted((tmp_path / name).glob("state-*/vectors-*/vectors")) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert len(one) == bool(dense)


def test_without_links_and_encoder_there_is_nothing_to_spread() -> None:
    made = CliRunner().invoke(app, ["index", "build", "demo", "--out", "nowhere", "--links", "none", "--engine", "ray"])
    assert isinstance(made.exception, UsageError)
    assert "name an encoder (--dense)" in str(made.exception)
