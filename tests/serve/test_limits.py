"""Keys, rates, metrics and logs."""

from __future__ import annotations

import io
import json
import logging
import random
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from polyhop.answer import Answer
from polyhop.cli.serve import ListenAddress, corpora_of, keys_of
from polyhop.errors import DataError, SettingError, UsageError
from polyhop.serve.errors import TooManyRequests
from polyhop.serve.limits import ClientLimits, Keys
from polyhop.serve.logs import REQUEST, JsonLines, log_answers
from polyhop.serve.metrics import BOUNDS, Metrics
from polyhop.serve.service import AskRequest, AskResponse
from polyhop.trace import Trace, Usage

ANN, BEN = "ann-has-this-key-1", "ben-has-this-key-2"
ANSWER = Answer(
    "Oslo", support="supported", trace=Trace("Q", "tor", ()), usage=Usage(calls=3, prompt_tokens=40, elapsed=1.5)
)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_has_a_holder_and_only_its_hash_is_kept() -> None:
    keys = Keys.of(["# ours", "", f"ann:{ANN}", f"  {BEN}  "], "keys.txt")
    assert [keys.holder(key) for key in (ANN, BEN, "ann", "", "\ud83d")] == ["ann", "key 4", None, None, None]
    assert len(keys) == 2
    assert ANN not in repr(vars(keys))


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ([], DataError, "contains no key"),
        (["# nothing", " "], DataError, "contains no key"),
        ([f"ann:{ANN}", f"ann:{BEN}"], DataError, "keys.txt:2: not a key, or the second key of a name"),
        ([f"ann:{ANN} {BEN}"], DataError, "keys.txt:1: not a key"),
        (["ann:short"], SettingError, "the key of ann has 5 characters"),
        ([f"ann:{ANN}", f"ben:{ANN}"], SettingError, "two names have the same key"),
    ],
)
def test_invalid_keys_are_errors_that_show_no_key(entries: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        Keys.of(entries, "keys.txt")
    assert ANN not in str(raised.value)
    assert "short" not in str(raised.value)


def test_keys_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYHOP_API_KEYS", raising=False)
    assert keys_of(None) is None
    monkeypatch.setenv("POLYHOP_API_KEYS", f"ann:{ANN},ben:{BEN}")
    found = keys_of(None)
    assert found is not None
    assert found.holder(BEN) == "ben"
    file = tmp_path / "keys.txt"
    file.write_text(f"zoe:{ANN}\n")
    found = keys_of(file)
    assert found is not None
    assert (found.holder(ANN), found.holder(BEN)) == ("zoe", None)
    with pytest.raises(DataError, match=r"absent\.txt: cannot be read"):
        keys_of(tmp_path / "absent.txt")


# --- the door --------------------------------------------------------------------------------------------------------


def address(
    host: str, *, without_keys: bool = False, allow: tuple[str, ...] = (), keys: Path | None = None
) -> ListenAddress:
    return ListenAddress(host=host, port=0, keys=keys, without_keys=without_keys, allow_host=allow)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "wiki.example"])
def test_a_public_address_needs_keys_unless_allowed_without(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POLYHOP_API_KEYS", raising=False)
    with pytest.raises(UsageError, match=r"give --keys FILE .* or --without-keys"):
        address(host).checked()
    assert address(host, without_keys=True).checked() == (None, None)
    file = tmp_path / "keys.txt"
    file.write_text(ANN)
    keys, hosts = address(host, keys=file, allow=("wiki.example",)).checked()
    assert keys is not None
    assert hosts == frozenset({"wiki.example"})


def test_the_loopback_needs_no_key_and_answers_to_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYHOP_API_KEYS", raising=False)
    keys, hosts = address("127.0.0.1", allow=("wiki.example",)).checked()
    assert keys is None
    assert hosts == frozenset({"localhost", "127.0.0.1", "[::1]", "wiki.example"})


def test_corpora_are_named(tmp_path: Path) -> None:
    file = tmp_path / "films=old.jsonl"
    file.write_text('{"id": "1", "text": "Alien is a film."}\n')
    assert list(corpora_of([], None, False, None)) == ["demo"]
    assert list(corpora_of([str(file), f"films={file}"], None, False, None)) == ["films=old", "films"]
    assert corpora_of([], None, False, "http://localhost:1") == {"default": None}
    with pytest.raises(UsageError, match="a corpus 'a' exists already"):
        corpora_of([f"a={file}", f"a={file}"], None, False, None)


# --- rates -----------------------------------------------------------------------------------------------------------


class Clock:
    """Stands still unless it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_client_asks_no_more_at_once_than_it_may() -> None:
    clients = ClientLimits(at_once=2)
    with ExitStack() as under_way:
        for _ in range(2):
            under_way.enter_context(clients.admitted("ann"))
        with (
            pytest.raises(TooManyRequests, match="at most 2 requests of yours may run at once"),
            clients.admitted("ann"),
        ):
            pass
        with clients.admitted("ben"):
            pass
    with clients.admitted("ann"):
        pass


def test_retry_after_gives_the_seconds_to_wait() -> None:
    clock = Clock()
    clients = ClientLimits(per_minute=3, clock=clock)
    for _ in range(3):
        with clients.admitted("ann"):
            pass
    with pytest.raises(TooManyRequests, match="more than 3 requests per minute") as raised, clients.admitted("ann"):
        pass
    assert raised.value.retry_after == pytest.approx(20)
    with clients.admitted("ben"):
        pass
    clock.now += 20
    with clients.admitted("ann"):
        pass


@pytest.mark.parametrize("rate", [1, 2, 5])
def test_no_minute_exceeds_twice_the_rate_and_a_slow_client_is_never_refused(rate: int) -> None:
    clock, draw = Clock(), random.Random(rate)
    clients = ClientLimits(per_minute=rate, clock=clock)
    admitted: list[float] = []
    for _ in range(100):
        clock.now += draw.choice((0, 0, 0, 1, 10, 40, 200))
        try:
            with clients.admitted("ann"):
                admitted.append(clock.now)
        except TooManyRequests as refused:
            clock.now += refused.retry_after
            with clients.admitted("ann"):
                admitted.append(clock.now)
    assert max(sum(0 <= at - start < 60 for at in admitted) for start in admitted) in range(rate, 2 * rate + 1)


def test_clients_that_are_gone_are_forgotten() -> None:
    clock = Clock()
    clients = ClientLimits(per_minute=10, clock=clock)
    for number in range(10_001):
        with clients.admitted(f"10.0.{number}"):
            pass
    clock.now += 61
    with clients.admitted("ann"):
        pass
    assert len(clients._uses) == 1


def test_a_limit_is_at_least_one() -> None:
    for made in (partial(ClientLimits, per_minute=0), partial(ClientLimits, at_once=-1)):
        with pytest.raises(SettingError, match="must be at least 1"):
            made()


# --- what is counted and logged --------------------------------------------------------------------------------------


def test_metrics_are_prometheus_text() -> None:
    metrics = Metrics()
    with metrics.question("tor") as ended, metrics.now("running"):
        assert "polyhop_questions_running 1\n" in metrics.text()
        ended(ANSWER)
    with pytest.raises(RuntimeError), metrics.question("tor"):
        raise RuntimeError
    metrics.responded(200)
    lines = metrics.text().splitlines()
    assert 'polyhop_questions_total{method="tor",outcome="answered"} 1' in lines
    assert 'polyhop_questions_total{method="tor",outcome="failed"} 1' in lines
    assert 'polyhop_question_seconds_bucket{method="tor",le="+Inf"} 2' in lines
    assert 'polyhop_question_seconds_count{method="tor"} 2' in lines
    assert 'polyhop_lm_calls_total{method="tor"} 3' in lines
    assert 'polyhop_tokens_total{method="tor",kind="prompt"} 40' in lines
    assert "polyhop_questions_running 0" in lines
    assert sum("_bucket" in line for line in lines) == len(BOUNDS) + 1
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert all(line.split(" ", 2)[1] in ("HELP", "TYPE") for line in lines if line.startswith("#"))


@pytest.mark.parametrize("with_text", [False, True])
def test_a_log_line_is_json_without_questions_by_default(with_text: bool) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("polyhop.serve")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    token = REQUEST.set("r1")
    try:
        log_answers(with_text=with_text)(AskResponse("t1", AskRequest("Why?", method="tor", corpus="wiki"), ANSWER))
        try:
            raise RuntimeError("broken")
        except RuntimeError:
            logger.exception("an unexpected error")
    finally:
        REQUEST.reset(token)
        logger.removeHandler(handler)
        logger.setLevel(before)
    answered, failed = map(json.loads, stream.getvalue().splitlines())
    assert (answered["event"], answered["request"], answered["trace_id"]) == ("answered", "r1", "t1")
    assert (answered["method"], answered["calls"], answered["tokens"], answered["seconds"]) == ("tor", 3, 40, 1.5)
    assert ("Why?" in stream.getvalue()) is with_text
    assert ("Oslo" in stream.getvalue()) is with_text
    assert (failed["level"], "RuntimeError: broken" in failed["error"]) == ("error", True)


def test_a_person_at_a_terminal_is_told_where_the_server_is() -> None:
    facts = {"facts": {"url": "http://127.0.0.1:8000"}}
    record = logging.makeLogRecord({"msg": "serving", "levelname": "INFO", **facts})
    assert JsonLines(greets=True).format(record) == "polyhop is at http://127.0.0.1:8000 (Ctrl-C ends it)"
    assert json.loads(JsonLines().format(record))["url"] == "http://127.0.0.1:8000"
