"""A run over a cluster and its workers, on a simulated cluster: no Ray is needed."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from polyhop import Answer, Pipeline, ScriptedLM, __version__, errors
from polyhop.cli.app import app
from polyhop.common import ray as cluster
from polyhop.engine.models import Models
from polyhop.errors import IndexFolderError, MissingExtra, PolyhopError, ServiceError, UnknownName, UsageError
from polyhop.evaluation import ray as module
from polyhop.evaluation.ray import (
    Ray,
    Workers,
    WorkerShare,
    check_serialisable,
    divide_run,
)
from polyhop.evaluation.ray_worker import RemoteError, Worker, WorkerSetup
from polyhop.evaluation.runner import run_settings
from polyhop.net.limits import MINUTE
from polyhop.types import Question
from tests.kit.openai_server import FakeServer, in_thread, thinker
from tests.kit.virtual_clock import run_virtually

CAPS = st.dictionaries(
    st.sampled_from(["max_concurrency", "requests_per_minute", "tokens_per_minute"]), st.integers(1, 10**6)
)


class Lost(Exception):
    """The error that Ray raises for a call whose actor is gone."""


class Ref:
    """A call under way."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, Any]:
        return self._work().__await__()


class Played:
    """A worker that answers with the question's text after a second, unless a deadly one comes to it."""

    def __init__(self, scene: Scene, caps: Mapping[str, int]) -> None:
        self.scene, self.caps, self.gone = scene, caps, asyncio.Event()
        self.busy = 0
        for name in ("opened", "ask", "close"):
            method = getattr(self, f"_{name}")
            setattr(self, name, SimpleNamespace(remote=lambda *given, method=method: Ref(lambda: method(*given))))

    async def _opened(self) -> tuple[str, RemoteError | None]:
        return "machine", self.scene.failures.pop(0) if self.scene.failures else None

    async def _ask(self, question: Question, learnt: Mapping[str, Any]) -> Any:
        self.scene.asked[question.id] += 1
        self.scene.learnt.append(learnt)
        self.busy += 1
        self.scene.most = max(self.scene.most, sum(worker.busy for worker in self.scene.living))
        try:
            if question.id in self.scene.deadly:
                await asyncio.sleep(0.5)
                self.gone.set()
                raise Lost("killed")
            async with asyncio.timeout(1):
                await self.gone.wait()
            raise Lost("killed")
        except TimeoutError:
            return question.text, {"thinking": ["default"]}
        finally:
            self.busy -= 1

    async def _close(self) -> None: ...


class Scene:
    """The part of Ray that is used; ``deadly`` questions take their worker down, ``failures`` hinder the next ones."""

    exceptions = SimpleNamespace(RayError=Lost, RayTaskError=type("RayTaskError", (Lost,), {}))

    def __init__(self, deadly: set[str] | None = None) -> None:
        self.deadly, self.failures = deadly or set(), list[RemoteError]()
        self.asked, self.living, self.begun, self.most = Counter[str](), list[Played](), 0, 0
        self.models, self.learnt = Models({"default": ScriptedLM({})}), list[Mapping[str, Any]]()

    def put(self, value: Any) -> Any:
        return value

    def remote(self, kind: type) -> Any:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._begin))

    def _begin(self, setup: Any, caps: Mapping[str, int]) -> Played:
        self.living.append(worker := Played(self, caps))
        self.begun += 1
        for name in caps:
            assert sum(each.caps[name] for each in self.living) <= 100
        return worker

    def wait(self, refs: list[Ref], num_returns: int = 1, timeout: float = 0) -> tuple[list[Ref], list[Ref]]:
        return refs, []

    def get(self, ref: Ref) -> Any:
        try:
            ref.__await__().send(None)
        except StopIteration as stopped:
            return stopped.value

    def kill(self, worker: Played) -> None:
        self.living.remove(worker)


def workers(scene: Scene, of: list[WorkerShare]) -> Workers:
    setup: Any = None
    begun = Workers(scene, setup, of, scene.models)
    begun.start()
    return begun


def asked(scene: Scene, of: list[WorkerShare], count: int) -> tuple[list[Any], float]:
    """The outcomes of N questions asked at once, and the seconds that they took."""

    async def play() -> tuple[list[Any], float]:
        begun = workers(scene, of)
        work = [begun.aask(Question(str(n), f"text {n}")) for n in range(count)]
        found = await asyncio.gather(*work, return_exceptions=True)
        seconds = asyncio.get_running_loop().time()
        begun.close()
        return found, seconds

    return run_virtually(play())


@given(st.integers(1, 64), st.integers(1, 300), CAPS)
def test_parts_make_the_whole(most: int, concurrency: int, caps: dict[str, int]) -> None:
    made = divide_run(most, concurrency, caps)
    assert len(made) == min([most, concurrency, *caps.values()])
    assert sum(part.concurrency for part in made) == concurrency
    assert min(part.concurrency for part in made) >= 1
    for name, cap in caps.items():
        each = [part.caps[name] for part in made]
        assert sum(each) == cap
        assert min(each) >= 1
        assert max(each) - min(each) <= 1


@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 30), st.none() | st.integers(0, 29))
def test_a_question_that_kills_its_workers_fails_alone(
    many: int, concurrency: int, count: int, deadly: int | None
) -> None:
    scene = Scene({str(deadly)} if deadly is not None else set())
    found, _ = asked(scene, divide_run(many, concurrency, {"max_concurrency": 100}), count)
    for number, answer in enumerate(found):
        if number == deadly:
            assert isinstance(answer, PolyhopError)
            assert "lost 3 times" in str(answer)
        else:
            assert answer == f"text {number}"
            assert scene.asked[str(number)] <= 3
    assert scene.most <= concurrency
    assert not scene.living


def test_what_one_worker_learns_of_a_model_goes_to_all() -> None:
    scene = Scene()
    asked(scene, divide_run(2, 2, {}), 4)
    assert scene.learnt == [{}, {}, *[{"thinking": ["default"]}] * 2]
    assert scene.models.learnt() == {"thinking": ["default"]}


def test_a_limit_a_minute_holds_over_a_loss() -> None:
    scene = Scene({"0"})
    found, seconds = asked(scene, divide_run(1, 1, {"requests_per_minute": 100}), 2)
    assert isinstance(found[0], PolyhopError)
    assert found[1] == "text 1"
    assert scene.begun == 3
    assert seconds > 2 * MINUTE


def test_without_a_worker_left_the_run_ends() -> None:
    scene = Scene({"0", "1"})

    async def play() -> list[Any]:
        begun = workers(scene, divide_run(2, 4, {}))
        scene.failures = [RemoteError("UsageError", "no index")] * 9
        return await asyncio.gather(*(begun.aask(Question(str(n), "")) for n in range(8)), return_exceptions=True)

    ends = run_virtually(play())
    assert {type(end) for end in ends if not isinstance(end, str)} == {ServiceError}
    assert "all workers of the cluster were lost" in str(ends[0])


def test_a_worker_that_cannot_open_the_drivers_files_is_an_error() -> None:
    scene = Scene()
    scene.failures = [RemoteError.of(IndexFolderError("not an index", "/data/wiki"))]
    with pytest.raises(IndexFolderError, match=r"the worker on machine cannot .* the same files .*/data/wiki: not an"):
        workers(scene, divide_run(2, 2, {}))


@pytest.mark.parametrize(
    "error",
    [UnknownName("method", "tro", ["tor"]), MissingExtra("hf", "hf"), IndexFolderError("gone", "x"), KeyError("x")],
)
def test_an_error_comes_through_whole(error: Exception) -> None:
    failure = RemoteError.of(error)
    again = RemoteError(failure.kind, failure.message).error()
    assert type(again) is (type(error) if isinstance(error, PolyhopError) else PolyhopError)
    assert str(again) == (str(error) if isinstance(error, PolyhopError) else repr(error))
    assert again.exit_code == getattr(error, "exit_code", 1)


@pytest.mark.parametrize("kind", [name for name, each in vars(errors).items() if isinstance(each, type)])
def test_every_error_can_be_recreated(kind: str) -> None:
    if issubclass(getattr(errors, kind), PolyhopError):
        assert str(RemoteError(kind, "why").error("where: ")) == "where: why"


def worker_setup(**changes: Any) -> WorkerSetup:
    given: dict[str, Any] = {
        "corpus": None,
        "method": "direct",
        "lm": "pocket",
        "options": {},
        "settings": {},
        "telemetry": False,
    }
    return WorkerSetup(**{**given, "folder": os.getcwd(), "environment": {}, "collect": gc.get_threshold(), **changes})


def opened(worker_setup: WorkerSetup) -> RemoteError:
    _, failure = asyncio.run(Worker(worker_setup, {}).opened())
    assert failure is not None
    return failure


def test_a_worker_says_what_it_lacks(tmp_path: Path) -> None:
    assert "missing" in opened(worker_setup(corpus=tmp_path / "missing")).message
    assert opened(worker_setup(method="no-such")).kind == "UnknownName"
    assert opened(worker_setup(options={"abstain_below": 0})).message.startswith(
        "budget is {'max_calls': None"
    )  # the first of the settings that differ


async def test_a_worker_starts_with_what_others_have_learnt() -> None:
    with in_thread(FakeServer(thinker(300, "Answer: Rome"))) as server:
        lm, options = f"openai:tiny@{server.url}", {"cache": False}
        async with Pipeline(None, "direct", lm, cache=False) as pipeline:
            settings = {"polyhop": __version__, **run_settings(pipeline, "")}
        worker = Worker(worker_setup(lm=lm, options=options, settings=settings), {})
        answer, learnt = await worker.ask(Question("q", "Who?"), {"thinking": ["default"]})
        await worker.close()
        assert isinstance(answer, Answer)
        assert (answer.text, learnt["thinking"], len(server.requests)) == ("Rome", ["default"], 1)


@pytest.mark.parametrize(
    "options",
    [
        {"lm": ScriptedLM({})},
        {"lm": {"default": "pocket", "reader": ScriptedLM({})}},
        {"retriever": lambda query, k: []},
        {"reader": lambda question, passages: []},
    ],
)
def test_objects_of_this_program_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(options))}=.* is an object of this program"):
        check_serialisable(options)


def test_names_and_numbers_can_be_sent() -> None:
    check_serialisable(
        {"lm": {"default": "pocket"}, "prompts": Path("p"), "widths": (5, 3), "seed": None, "prices": "1:2"}
    )


class Silent:
    """Ray, installed, where nothing runs."""

    @staticmethod
    def is_initialized() -> bool:
        return False


def test_an_address_without_a_cluster_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "require", lambda *_: Silent)
    with (
        pytest.raises(ServiceError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 .*ray start --head"),
        cluster.connected("127.0.0.1:1"),
    ):
        pass


PLAYED = """
import os, signal, sys, types
from polyhop.common import ray as cluster

def init(**_):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
    if sys.argv[1] == "early":
        os.kill(os.getpid(), signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: os.abort())

played = types.SimpleNamespace(is_initialized=lambda: False, init=init, shutdown=lambda: print("left", flush=True))
cluster.require = lambda *_: played
if sys.argv[1] == "own":
    signal.signal(signal.SIGTERM, lambda *_: print("own", flush=True))
with cluster.connected(None):
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("when", "printed", "code"),
    [("late", "left\n", -signal.SIGTERM), ("early", "left\n", -signal.SIGTERM), ("own", "own\nleft\n", 0)],
)
def test_sigterm_ends_the_program_once_the_cluster_is_left(when: str, printed: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", PLAYED, when], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (printed, "", code)


def test_more_workers_than_there_is_room_for() -> None:
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 2.0})
    assert cluster.worker_count(ray, None) == 2
    assert cluster.worker_count(ray, 4) == 4
    with pytest.raises(UsageError, match="5 workers: the cluster has room for 4, 2 per core"):
        cluster.worker_count(ray, 5)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--workers", "2"], "--workers requires --engine ray"),
        (["--address", "auto"], "--address requires --engine ray"),
        (["--engine", "dask"], "unknown engine 'dask'"),
        (["--engine", "ray", "--batch", "b", "--out", "o"], "leave out --engine"),
    ],
)
def test_what_the_command_refuses(given: list[str], why: str) -> None:
    done = CliRunner().invoke(app, ["run", "--dataset", "demo", "--lm", "openai:x@http://127.0.0.1:1/v1", *given])
    assert why in str(done.exception)


def test_a_run_that_is_whole_needs_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyhop import evaluate

    monkeypatch.setattr(module, "connected", None)  # calling it would fail
    given: dict[str, Any] = {"dataset": "demo", "corpus": "demo", "method": "bm25", "out": tmp_path / "run", "limit": 3}
    whole = evaluate(**given)
    assert evaluate(**given, engine=Ray()).to_dict() == whole.to_dict()
