"""The service: its answers and limits, the pipelines it keeps open and drops, and its shutdown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from polyhop import Passage, ScriptedLM, open_corpus
from polyhop.answer import UNCITED
from polyhop.errors import LMError, PolyhopError, SettingError, UnknownName, UsageError
from polyhop.lm.base import Completion, Request
from polyhop.pipeline import Pipeline
from polyhop.retrieval.index import Index, build_index
from polyhop.serve.answer_cache import bytes_of
from polyhop.serve.errors import Busy, OutOfTime, Stopping, UnknownTrace
from polyhop.serve.limits import CLIENT
from polyhop.serve.schemas import answer_row, notice_of, trace_row
from polyhop.serve.service import AskRequest, AskResponse, AskStarted, Service
from polyhop.trace import Ask, Searched, Step, Trace

OSLO = Passage("oslo", "Oslo", "Oslo is the capital of Norway.")
BERN = Passage("bern", "Bern", "Bern is the seat of Switzerland's government.")
QUESTION = "What is the capital of Norway?"


class Model(ScriptedLM):
    """Says Oslo after ``latency`` seconds; knows how many calls are under way, were at most, and were given up."""

    def __init__(self, reply: Any = None, latency: float = 0.0) -> None:
        super().__init__(lambda task, fields: reply or {"answer": "Oslo"}, latency=latency)
        self.under_way = self.most = self.given_up = self.closed = 0

    async def complete(self, request: Request) -> Completion:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await super().complete(request)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        finally:
            self.under_way -= 1

    async def aclose(self) -> None:
        self.closed += 1


Serving = Callable[..., Service]


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Index]:
    folder = tmp_path_factory.mktemp("indexes")
    towns = {"north": OSLO, "south": BERN}
    return {name: build_index(open_corpus([town]), folder / name, links=False) for name, town in towns.items()}


@pytest.fixture
def serving(indexes: dict[str, Index]) -> Serving:
    """A service over two towns, by the method ``one-r`` where nothing else is said."""

    def made(lm: Any = None, **options: Any) -> Service:
        return Service(indexes, **{"method": "one-r", "lm": lm or Model(), **options})

    return made


def holds(text: str, service: Service) -> bool:
    return text in service.metrics.text()


async def until(happened: Callable[[], object]) -> None:
    while not happened():  # noqa: ASYNC110 - what is waited for has no event of its own
        await asyncio.sleep(0.001)


# --- asking ----------------------------------------------------------------------------------------------------------


async def test_a_response_has_the_settings_in_use(serving: Serving) -> None:
    service = serving(settings={"k": 1})
    answered = await service.ask(AskRequest(QUESTION))
    assert (answered.request.method, answered.request.corpus) == ("one-r", "north")
    assert answered.request.settings == {
        "k": 1, "style": "direct", "shots": 3, "context_tokens": 4096, "rank_limit": 15,
    }  # fmt: skip
    row = answer_row(answered)
    assert (row["answer"], row["supported"], row["trace_id"]) == ("Oslo", True, answered.trace_id)
    assert [passage["id"] for passage in row["passages"]] == ["oslo"]
    assert "trace" not in row
    assert "notice" not in row
    assert trace_row(answered)["trace"]["steps"][0]["passages"] == ["oslo"]
    await service.aclose()


async def test_settings_of_the_default_method_apply_to_it_only(serving: Serving) -> None:
    service = serving(settings={"k": 1})
    other = await service.ask(AskRequest(QUESTION, method="direct"))
    assert other.request.settings == {"shots": 3}
    own = await service.ask(AskRequest(QUESTION, settings={"rank_limit": 2}))
    assert (own.request.settings["k"], own.request.settings["rank_limit"]) == (1, 2)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (AskRequest(" "), UsageError, "the question is empty"),
        (AskRequest("why? " * 20), UsageError, "has 100 characters; the maximum is 80"),
        (AskRequest("half \ud83d"), UsageError, "not valid Unicode"),
        (AskRequest(QUESTION, method="one-rr"), UnknownName, "did you mean 'one-r'"),
        (AskRequest(QUESTION, corpus="west"), UnknownName, "Valid: north, south"),
        (AskRequest(QUESTION, kind="quiz"), UnknownName, "kind of question 'quiz'"),  # type: ignore[arg-type]
        (AskRequest(QUESTION, settings={"kk": 1}), UnknownName, "did you mean 'k'"),
        (AskRequest(QUESTION, settings={"k": 0}), SettingError, "k=0"),
        (AskRequest(QUESTION, settings={"k": 101}), SettingError, "more than 100, the maximum"),
        (
            AskRequest(QUESTION, method="tor", settings={"widths": [5, 10**9]}),
            SettingError,
            "widths=1000000000 is more than",
        ),
        (AskRequest(QUESTION, settings={"k": "101"}), SettingError, "k=101 is more than 100,"),
        (AskRequest(QUESTION, settings={"k": 10**30}), SettingError, "k=10{30}: Input should be less"),
        (AskRequest(QUESTION, max_calls=10**30), SettingError, "max_calls=10{30}: must be above 0 and at most"),
        (AskRequest(QUESTION, method="auto-cot", settings={"pool": "/etc/hosts"}), SettingError, "pool names a file"),
        (AskRequest(QUESTION, max_calls=0), SettingError, "max_calls=0: must be above 0"),
        (AskRequest(QUESTION, max_seconds=float("nan")), SettingError, "max_seconds=nan"),
        (AskRequest(QUESTION, abstain_below=1.5), SettingError, "abstain_below=1.5"),
    ],
)
async def test_an_invalid_request_is_an_error_before_any_call(
    serving: Serving, asked: AskRequest, error: type[Exception], message: str
) -> None:
    lm = Model()
    service = serving(lm, max_question_chars=80)
    with pytest.raises(error, match=message):
        await service.ask(asked)
    with pytest.raises(error, match=message):
        await anext(service.stream(asked))
    assert not lm.calls


def test_a_service_with_wrong_arguments_is_an_error_at_once(serving: Serving) -> None:
    for arguments in ({"method": "two-r"}, {"concurrency": 0}, {"timeout": -1}, {"settings": {"kk": 1}}, {"lm": 3}):
        with pytest.raises(UsageError):
            serving(**arguments)
    with pytest.raises(UsageError, match="needs a corpus"):
        Service({})


async def test_a_request_may_be_stricter_than_the_service_but_never_looser(serving: Serving) -> None:
    service = serving(max_calls=5, max_seconds=9.0, abstain_below=0.5)
    laxer = service.resolved(AskRequest(QUESTION, max_calls=50, max_tokens=70, max_seconds=90, abstain_below=0.1))
    assert (laxer.max_calls, laxer.max_tokens, laxer.max_seconds, laxer.abstain_below) == (5, 70, 9.0, 0.5)
    stricter = service.resolved(AskRequest(QUESTION, max_calls=2, max_seconds=1, abstain_below=0.9))
    assert (stricter.max_calls, stricter.max_seconds, stricter.abstain_below) == (2, 1, 0.9)
    plain = service.resolved(AskRequest(QUESTION))
    assert (plain.max_calls, plain.max_tokens, plain.max_seconds, plain.abstain_below) == (5, None, 9.0, 0.5)


async def test_the_limits_reach_the_method(serving: Serving) -> None:
    service = serving(method="tor")
    answered = await service.ask(AskRequest(QUESTION, max_calls=1))
    assert answered.answer.trace.budget == "max_calls"
    assert answered.answer.usage.calls == 1
    withheld = await service.ask(AskRequest(QUESTION, method="direct", abstain_below=0.1))  # its confidence is unknown
    assert withheld.answer.abstained
    assert "withheld" in answer_row(withheld)["notice"]


async def test_a_notice_warns_of_unsupported_and_withheld_answers(serving: Serving) -> None:
    unsupported = await serving().ask(AskRequest(QUESTION, method="direct"))
    assert UNCITED in str(notice_of(unsupported.answer))
    pocket = await serving(lm="pocket").ask(AskRequest(QUESTION))
    assert "for a language model" in str(notice_of(pocket.answer))
    scored = await serving(lm="pocket").ask(AskRequest(QUESTION, method="promptrank", settings={"links": 0}))
    assert not scored.answer.trace.calls, "pocket only scored"
    assert "for a language model" in str(notice_of(scored.answer))
    assert notice_of((await serving().ask(AskRequest(QUESTION))).answer) is None


async def test_a_search_is_over_one_corpus(serving: Serving) -> None:
    service = serving()
    assert await service.search("capital Norway") == [OSLO]
    assert await service.search("government", corpus="south") == [BERN]
    for k in (0, 101):
        with pytest.raises(SettingError, match=f"k={k}: must be 1 to 100"):
            await service.search("capital", k)


# --- watching --------------------------------------------------------------------------------------------------------


async def test_a_stream_yields_the_start_each_step_and_the_answer(serving: Serving) -> None:
    service = serving()
    happenings = [happening async for happening in service.stream(AskRequest(QUESTION))]
    began, *steps, answered = happenings
    assert isinstance(began, AskStarted)
    assert isinstance(answered, AskResponse)
    assert began.trace_id == answered.trace_id
    assert began.request == answered.request
    assert [type(step) for step in steps] == [Searched, Ask]
    assert service.trace(began.trace_id) is answered


async def test_leaving_a_stream_or_a_question_ends_its_work(serving: Serving) -> None:
    lm = Model(latency=30)
    service = serving(lm)
    async with aclosing(service.stream(AskRequest(QUESTION))) as happenings:
        async for happening in happenings:
            if isinstance(happening, Searched):
                break
        await until(lambda: lm.under_way)
    assert (lm.given_up, lm.under_way) == (1, 0)
    asking = asyncio.ensure_future(service.ask(AskRequest(QUESTION)))
    await until(lambda: lm.under_way)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (lm.given_up, lm.under_way) == (2, 0)
    assert holds('polyhop_questions_total{method="one-r",outcome="cancelled"} 2', service)
    assert holds("polyhop_questions_running 0", service)


async def test_a_slow_reader_of_a_stream_holds_no_place(serving: Serving) -> None:
    service = serving(concurrency=1)
    slow = service.stream(AskRequest(QUESTION))
    assert isinstance(await anext(slow), AskStarted)
    assert isinstance(await anext(slow), Step)
    assert (await service.ask(AskRequest(QUESTION))).answer.text == "Oslo"  # the only slot is free again
    assert [type(left) async for left in slow] == [Ask, AskResponse]


async def _watched(service: Service) -> None:
    async for _ in service.stream(AskRequest(QUESTION)):
        pass


async def test_errors_of_a_method_are_raised_by_ask_and_stream(serving: Serving) -> None:
    service = serving(Model(reply=LMError("no such server")))
    with pytest.raises(LMError, match="no such server"):
        await service.ask(AskRequest(QUESTION))
    with pytest.raises(LMError, match="no such server"):
        await _watched(service)
    assert holds('polyhop_questions_total{method="one-r",outcome="failed"} 2', service)


# --- what is shared and kept -----------------------------------------------------------------------------------------


async def test_pipelines_share_their_parts_and_the_oldest_is_dropped(serving: Serving) -> None:
    service = serving(pipelines_kept=2)
    opened = [
        await service._pipeline(service.resolved(AskRequest(QUESTION, method=method, corpus=corpus)))
        for method, corpus in (("one-r", "north"), ("tor", "north"), ("one-r", "south"))
    ]
    north, tree, south = (pipeline.engine for pipeline in opened)
    assert north.retriever is tree.retriever
    assert north.retriever is not south.retriever
    assert north.models.by_name["default"] is south.models.by_name["default"]
    assert north.prompts is tree.prompts is south.prompts
    assert north.reader is tree.reader is south.reader
    assert len(service._pipelines) == 2
    again = await service._pipeline(service.resolved(AskRequest(QUESTION, method="tor", corpus="north")))
    assert again is opened[1]
    assert await service._pipeline(service.resolved(AskRequest(QUESTION))) is not opened[0]


async def test_a_dropped_pipeline_closes_nothing_and_the_service_closes_all_once(serving: Serving) -> None:
    lm = Model()
    service = serving(lm, pipelines_kept=1)
    for method in ("one-r", "tor", "one-r"):
        assert (await service.ask(AskRequest(QUESTION, method=method))).answer.text == "Oslo"
    assert lm.closed == 0
    await service.aclose()
    await service.aclose()
    assert lm.closed == 1


async def test_a_method_that_is_a_retriever_keeps_to_itself(serving: Serving) -> None:
    service = serving(retriever="tfidf")
    tree = await service._pipeline(service.resolved(AskRequest(QUESTION, method="tor")))
    words = await service._pipeline(service.resolved(AskRequest(QUESTION, method="bm25")))
    assert getattr(tree.engine.retriever, "name", None) == "tfidf"
    assert getattr(words.engine.retriever, "name", None) == "bm25"


async def test_the_latest_answers_are_kept(serving: Serving) -> None:
    service = serving(traces_kept=2)
    first, second, third = [await service.ask(AskRequest(f"{QUESTION} {number}")) for number in range(3)]
    assert service.traces() == [third, second]
    with pytest.raises(UnknownTrace, match="at most 2"):
        service.trace(first.trace_id)


async def test_old_answers_are_dropped_beyond_the_memory_limit(serving: Serving) -> None:
    each = bytes_of((await serving().ask(AskRequest(QUESTION))).answer.trace)
    service = serving(bytes_kept=3 * each)
    answered = [await service.ask(AskRequest(QUESTION)) for _ in range(5)]
    assert service.traces() == answered[:1:-1]
    service = serving(bytes_kept=1)
    answered = [await service.ask(AskRequest(QUESTION)) for _ in range(2)]
    assert service.traces() == answered[1:]


def test_the_memory_of_a_trace_counts_each_passage_once() -> None:
    many = Passage("many", "Many", "word " * 10_000)
    searches = [Searched(id=number, query="q", k=1, passages=(many,)) for number in range(2)]
    one, both = (bytes_of(Trace(QUESTION, "tor", tuple(searches[:count]))) for count in (1, 2))
    assert 50_000 < one < both < 60_000
    reply = Ask(id=0, task="t", model="m", fields={}, output=None, text="x" * 9_000)
    assert 9_000 < bytes_of(Trace(QUESTION, "tor", (reply,))) < 30_000


async def test_requests_that_come_at_once_open_one_pipeline(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    service, opened, gate = serving(), [], threading.Event()
    open_pipeline = service._resources.pipeline

    def slow(*arguments: Any) -> Pipeline:
        opened.append(arguments)
        gate.wait()
        return open_pipeline(*arguments)

    monkeypatch.setattr(service._resources, "pipeline", slow)
    asking = [asyncio.ensure_future(service.ask(AskRequest(QUESTION))) for _ in range(3)]
    await until(lambda: opened)
    asking.pop(0).cancel()  # who came first leaves: the others are served all the same
    await asyncio.sleep(0)
    gate.set()
    assert [answered.answer.text for answered in await asyncio.gather(*asking)] == ["Oslo", "Oslo"]
    assert len(opened) == 1


async def test_a_pipeline_that_could_not_be_opened_is_tried_again(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serving()
    open_pipeline = service._resources.pipeline

    def fails(*arguments: Any) -> Pipeline:
        raise UsageError("no index yet")

    monkeypatch.setattr(service._resources, "pipeline", fails)
    with pytest.raises(UsageError, match="no index yet"):
        await service.ask(AskRequest(QUESTION))
    monkeypatch.setattr(service._resources, "pipeline", open_pipeline)
    assert (await service.ask(AskRequest(QUESTION))).answer.text == "Oslo"


async def test_a_prompt_is_the_one_that_the_model_saw(serving: Serving) -> None:
    replies: Iterator[Any] = iter(["", {"answer": "Oslo"}])
    lm = ScriptedLM(lambda task, fields: next(replies))
    service = serving(lm, settings={"shots": 1})
    answered = await service.ask(AskRequest(QUESTION))
    asks = [step for step in answered.answer.trace.steps if isinstance(step, Ask)]
    assert [ask.attempt for ask in asks] == [1, 2]
    assert [service.prompt(answered.trace_id, ask.id) for ask in asks] == [call.messages for call in lm.calls]
    for step in (0, 99, -1):
        with pytest.raises(UnknownTrace, match="not a language model call"):
            service.prompt(answered.trace_id, step)


async def test_a_client_sees_its_own_answers_only(serving: Serving) -> None:
    service = serving()
    found: Mapping[str, AskResponse] = {}
    for name in ("ann", "ben"):
        token = CLIENT.set(name)
        found = {**found, name: await service.ask(AskRequest(QUESTION, client="another"))}
        assert service.traces() == [found[name]]
        CLIENT.reset(token)
    token = CLIENT.set("ben")
    assert service.trace(found["ben"].trace_id).request.client == "ben"
    with pytest.raises(UnknownTrace):
        service.trace(found["ann"].trace_id)
    CLIENT.reset(token)
    assert service.traces() == []


async def test_a_listener_that_fails_harms_no_answer(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[AskResponse] = []

    def broken(answered: AskResponse) -> None:
        raise RuntimeError("deaf")

    service = serving(on_answer=[broken, heard.append])
    answered = await service.ask(AskRequest(QUESTION))
    assert heard == [answered]
    assert "deaf" in caplog.text


# --- limits and the end ----------------------------------------------------------------------------------------------


async def test_concurrent_questions_are_limited(serving: Serving) -> None:
    lm = Model(latency=0.01)
    service = serving(lm, concurrency=3)
    await asyncio.gather(*(service.ask(AskRequest(QUESTION)) for _ in range(10)))
    assert lm.most == 3


async def test_a_queue_that_is_full_refuses(serving: Serving) -> None:
    lm = Model(latency=30)
    service = serving(lm, concurrency=1, waiting=1)
    await service.open()
    asking = [asyncio.ensure_future(service.ask(AskRequest(QUESTION))) for _ in range(2)]
    await until(lambda: lm.under_way)
    assert service.metrics.gauges == {"running": 1, "waiting": 1}
    with pytest.raises(Busy, match="try again"):
        await service.ask(AskRequest(QUESTION))
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    assert service.metrics.gauges == {"running": 0, "waiting": 0}


async def test_a_question_that_takes_too_long_is_given_up(serving: Serving) -> None:
    lm = Model(latency=30)
    service = serving(lm, timeout=0.05)
    with pytest.raises(OutOfTime, match=r"no answer within 0\.05 seconds"):
        await service.ask(AskRequest(QUESTION))
    assert lm.under_way == 0
    assert holds('outcome="out of time"} 1', service)
    with pytest.raises(OutOfTime):
        await _watched(service)


async def test_stopping_lets_running_questions_finish(serving: Serving) -> None:
    lm = Model(latency=0.05)
    service = serving(lm, grace=30)
    asking = asyncio.ensure_future(service.ask(AskRequest(QUESTION)))
    await until(lambda: lm.under_way)
    closing = asyncio.ensure_future(service.aclose())
    await asyncio.sleep(0)
    assert not service.ready
    with pytest.raises(Stopping):
        await service.ask(AskRequest(QUESTION))
    with pytest.raises(Stopping):
        await service.search("capital")
    assert (await asking).answer.text == "Oslo"
    await closing
    assert (lm.given_up, lm.closed) == (0, 1)


async def test_stopping_abandons_unfinished_questions(serving: Serving) -> None:
    lm = Model(latency=30)
    service = serving(lm, grace=0.02, concurrency=1)
    asking = [asyncio.ensure_future(service.ask(AskRequest(QUESTION))) for _ in range(2)]  # one runs, one waits
    watching = asyncio.ensure_future(_watched(service))
    await until(lambda: lm.under_way and service.metrics.gauges["waiting"] == 2)
    await service.aclose()
    for task in (*asking, watching):
        with pytest.raises(Stopping, match="stopped before this question was answered"):
            await task
    assert lm.under_way == 0


async def test_every_refusal_is_one_of_the_family() -> None:
    assert all(issubclass(error, PolyhopError) for error in (Busy, OutOfTime, Stopping, UnknownTrace))
