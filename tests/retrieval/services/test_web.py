"""Web search by Serper, Tavily and Brave: what is asked and read, the cache, faults, and a key never seen."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop import Passage, Pipeline, evaluate
from polyhop.common.files import cache_folder
from polyhop.data.questions import read_questions
from polyhop.errors import RetrievalError, SettingError, UnknownName, UsageError
from polyhop.net.failures import WrongShape
from polyhop.retrieval import brings_corpus, open_retriever
from polyhop.retrieval.services.apis import APIS, MAX_TEXT, MAX_TITLE
from polyhop.retrieval.services.web import WebSearch
from tests.kit import openai_server as kit
from tests.kit.retrieval_services import KEY, Answer, FakeService, brave, failing, serper, serving, tavily
from tests.kit.terminal import run_cli

PAGES = [
    Passage("https://en.example.org/Bunyan", "John Bunyan", "John Bunyan wrote The Pilgrim's Progress."),
    Passage(
        "https://en.example.org/Elstow", "Elstow", "Elstow is a village in Bedfordshire where John Bunyan was born."
    ),
    Passage("https://en.example.org/Q?a=1&b=2", "Q & A", "A kiln, or oven; 1 < 2 there."),
]
MAKERS: dict[str, Callable[..., Answer]] = {"serper": serper, "tavily": tavily, "brave": brave}
ALL = pytest.mark.parametrize("api", MAKERS)


@pytest.fixture(autouse=True)
def _calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between attempts, and the keys the servers take."""
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, retry_after: 0.0)
    for api in APIS.values():
        monkeypatch.setenv(api.variable, KEY)


async def found(api: str, service: FakeService, query: str = "Who was John Bunyan?", k: int = 5, **more: Any) -> Any:
    """Return the hits of one search, by a client of its own."""
    web = WebSearch(api, url=service.url, **{"cache": False, **more})
    try:
        return await web.asearch(query, k)
    finally:
        await web.aclose()


# --- what is asked, and what is read ----------------------------------------------------------------------------------


@ALL
async def test_results_are_passages_whose_ids_are_their_urls(api: str) -> None:
    async with FakeService(MAKERS[api](PAGES)) as service:
        pages = await found(api, service, "Who wrote what, John?")
        assert [(p.id, p.title, p.text) for p in pages] == [(p.id, p.title, p.text) for p in PAGES[:2]]
        assert [(p.metadata["url"], p.metadata["rank"]) for p in pages] == [(PAGES[0].id, 1), (PAGES[1].id, 2)]
        (kiln,) = await found(api, service, "kiln")
        assert (kiln.title, kiln.text) == ("Q & A", "A kiln, or oven; 1 < 2 there.")
        assert await found(api, service, "zebra") == []
        assert await found(api, service, "  ") == []
    assert len(service.requests) == 3


async def test_each_api_is_asked_in_its_own_words() -> None:
    asked = {}
    for api, make in MAKERS.items():
        options: dict[str, Any] = {"site": "en.example.org", "country": "gb"} | (
            {} if api == "tavily" else {"language": "en"}
        )
        async with FakeService(make(PAGES)) as service:
            await found(api, service, "John\n Bunyan", **options)
        (asked[api],) = service.requests
    assert asked["serper"].body == {"q": "John Bunyan site:en.example.org", "num": 10, "gl": "gb", "hl": "en"}
    assert asked["tavily"].body == {
        "query": "John Bunyan",
        "max_results": 20,
        "search_depth": "basic",
        "include_domains": ["en.example.org"],
        "country": "gb",
    }
    assert asked["brave"].body == {
        "q": "John Bunyan site:en.example.org",
        "count": "20",
        "result_filter": "web,infobox",
        "text_decorations": "false",
        "country": "gb",
        "search_lang": "en",
    }
    assert asked["serper"].headers["X-API-KEY"] == KEY
    assert asked["tavily"].headers["Authorization"] == f"Bearer {KEY}"
    assert asked["brave"].headers["X-Subscription-Token"] == KEY


def test_the_real_addresses_are_those_of_their_documentation() -> None:
    assert {name: api.url for name, api in APIS.items()} == {
        "serper": "https://google.serper.dev/search",
        "tavily": "https://api.tavily.com/search",
        "brave": "https://api.search.brave.com/res/v1/web/search",
    }


def test_more_results_are_requested_only_if_needed() -> None:
    counts = {name: [api.count(k) for k in (1, 10, 15, 30, 500)] for name, api in APIS.items()}
    assert counts == {"serper": [10, 10, 20, 30, 100], "tavily": [20] * 5, "brave": [20] * 5}


async def test_an_answer_box_and_a_knowledge_graph_stand_before_the_pages() -> None:
    box = {"title": "John Bunyan / Born", "answer": "1628", "snippet": "Born in 1628.", "link": PAGES[0].id}
    graph = {
        "title": "John Bunyan",
        "type": "English writer",
        "descriptionLink": "https://en.example.org/B",
        "description": "A writer and preacher.",
        "attributes": {"Born": "Elstow", "Died": "1688, London"},
    }
    async with FakeService(serper(PAGES, answerBox=box, knowledgeGraph=graph)) as service:
        first, second, third = await found("serper", service, "Who wrote what, John?", k=3)
    assert (first.id, first.text) == (f"answer box: {PAGES[0].id}", "1628. Born in 1628.")
    assert first.metadata == {"url": PAGES[0].id, "rank": 0, "kind": "answer box"}
    assert second.text == "English writer. A writer and preacher. Born: Elstow. Died: 1688, London."
    assert third.id == PAGES[0].id  # the box's page is a result too


async def test_an_infobox_stands_before_the_pages() -> None:
    row = {
        "title": "John <b>Bunyan</b>",
        "url": "https://en.example.org/B",
        "long_desc": "Writer &amp; preacher.",
        "attributes": [["Born", "<a href='#'>Elstow</a>"], "odd", ["Died", "1688"]],
    }
    async with FakeService(brave(PAGES, infobox={"type": "graph", "results": [row]})) as service:
        first, *_ = await found("brave", service)
    assert (first.id, first.title) == ("infobox: https://en.example.org/B", "John Bunyan")
    assert first.text == "Writer & preacher. Born: Elstow. Died: 1688."


async def test_what_strangers_wrote_is_plain_bounded_text() -> None:
    nasty = Passage("https://a.example/\u202ex", "T\x00itle\u200b " + "y" * 999, "line\r\none\ttwo " + "x" * 99_999)
    for api, make in MAKERS.items():
        async with FakeService(make([nasty])) as service:
            (page,) = await found(api, service, "line")
        assert page.text.startswith("line one two xxx"), api
        assert page.title.startswith("Title yyy"), api
        assert (len(page.title), len(page.text)) == (MAX_TITLE, MAX_TEXT)
        assert page.id == "https://a.example/x"


@ALL
def test_a_query_is_cut_between_words_to_the_apis_limits(api: str) -> None:
    own = APIS[api]
    for query in ("word " * 300, "x" * 5000, "short"):
        cut = own.cut(query, "en.example.org")
        assert len(cut) <= own.letters
        assert own.terms is None or len(cut.split()) <= own.terms
        assert cut.endswith(" site:en.example.org")
        assert set(cut.split()) <= {"word", "short", "site:en.example.org", "x" * (own.letters - 20)}
    assert own.cut("Who is it?") == "Who is it?"


@ALL
async def test_a_long_query_and_one_that_is_no_unicode_are_answered(api: str) -> None:
    async with FakeService(MAKERS[api](PAGES)) as service:
        assert await found(api, service, "Bunyan " * 999)
        assert await found(api, service, "Bunyan \ud800")


_NAMES = ("organic", "results", "web", "infobox", "answerBox", "knowledgeGraph", "attributes", "type", "title", "link",
          "url", "snippet", "content", "description", "answer", "published_date", "date", "page_age")  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.just("search"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=20,
)


@given(st.sampled_from(sorted(APIS)), st.dictionaries(st.sampled_from(_NAMES), _JSON) | _JSON)
def test_no_reply_breaks_the_reader(api: str, reply: Any) -> None:
    try:
        pages = list(APIS[api].passages(reply))
    except WrongShape:
        return
    assert all(isinstance(page.text, str) and (page.title or page.text) for page in pages)


# --- the cache --------------------------------------------------------------------------------------------------------


def test_what_was_found_is_found_again_without_a_request(tmp_path: Path) -> None:
    with serving(FakeService(serper(PAGES))) as service:
        for _ in range(2):  # the second from disk
            web = WebSearch("serper", url=service.url)
            assert [p.id for p in web.search("John Elstow", 5)] == [PAGES[1].id, PAGES[0].id]
            assert [p.id for p in web.search("John  Elstow ", 1)] == [PAGES[1].id]
            asyncio.run(web.aclose())
        assert len(service.requests) == 1
        other = WebSearch("serper", url=service.url, country="de")
        other.search("John Elstow", 5)
        other.search("John Elstow", 15)
        other.search("John of Elstow", 5)
        asyncio.run(other.aclose())
        assert len(service.requests) == 4
        fresh = WebSearch("serper", url=service.url, cache=False)
        fresh.search("John Elstow", 5)
        asyncio.run(fresh.aclose())
        assert len(service.requests) == 5
    assert (cache_folder() / "web.sqlite").is_file()


async def test_the_same_search_twice_at_once_is_one_request() -> None:
    async with FakeService(serper(PAGES)) as service:
        web = WebSearch("serper", url=service.url, cache=False)
        both = await asyncio.gather(*(web.asearch("John", 5) for _ in range(5)))
        await web.aclose()
    assert len({tuple(page.id for page in pages) for pages in both}) == 1
    assert len(service.requests) == 1


def test_another_key_finds_the_same_and_no_key_is_on_disk(tmp_path: Path) -> None:
    with serving(FakeService(serper(PAGES))) as service:
        for key in (KEY, "another"):
            web = WebSearch("serper", url=service.url, key=key, cache=tmp_path / "web.sqlite")
            assert len(web.search("John", 5)) == 2
            asyncio.run(web.aclose())
        assert len(service.requests) == 1
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.glob("web.sqlite*"))
    with sqlite3.connect(tmp_path / "web.sqlite") as opened:
        assert opened.execute("SELECT model, task FROM replies").fetchall() == [("web:serper", "search")]
    opened.close()


async def test_neither_a_failure_nor_nothing_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "web.sqlite"
    async with FakeService(tavily(PAGES), faults=[failing(400, {"detail": {"error": "bad"}})]) as service:
        with pytest.raises(RetrievalError, match="400 Bad Request: bad"):
            await found("tavily", service, cache=file)
        assert await found("tavily", service, "zebra", cache=file) == []
        service.answer = tavily([*PAGES, Passage("https://z.example", "Zebra", "striped")])
        assert await found("tavily", service, "zebra", cache=file)
        assert await found("tavily", service, cache=file)


def test_a_kept_reply_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    with serving(FakeService(serper(PAGES))) as service:
        for _ in range(2):
            web = WebSearch("serper", url=service.url, cache=tmp_path / "web.sqlite")
            assert len(web.search("John", 5)) == 2
            asyncio.run(web.aclose())
            with sqlite3.connect(tmp_path / "web.sqlite") as opened:
                opened.execute("UPDATE replies SET reply = ?", (b'{"organic": 1}',))
            opened.close()
        assert len(service.requests) == 2


# --- what goes wrong --------------------------------------------------------------------------------------------------


@ALL
def test_without_a_key_the_variable_and_where_to_get_one_are_named(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(APIS[api].variable)
    with pytest.raises(SettingError, match=rf"web:{api} needs your own key: set {api.upper()}_API_KEY; .*{api}"):
        open_retriever(f"web:{api}", None)


@ALL
async def test_a_wrong_key_is_reported_and_not_repeated(
    api: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "wrong-key-42"
    monkeypatch.setenv(APIS[api].variable, wrong)
    async with FakeService(MAKERS[api](PAGES)) as service:
        with pytest.raises(RetrievalError, match=rf"^the retriever web:{api}: 4.*Set {api.upper()}_API_KEY to a key"):
            await found(api, service)
        assert len(service.requests) == 1
        service.faults.extend([failing(500, {"message": f"oh, {wrong}!"}), failing(403, {"message": f"not {wrong}"})])
        with pytest.raises(RetrievalError, match=r"403 Forbidden: not \*\*\*") as caught:
            await found(api, service)
    assert wrong not in str(caught.value)
    assert wrong not in caplog.text


@pytest.mark.parametrize(
    ("api", "fault"),
    [
        ("serper", failing(400, {"message": "Not enough credits", "statusCode": 400})),
        ("tavily", failing(432, {"detail": {"error": "This request exceeds your plan's set usage limit."}})),
        ("tavily", failing(433, {"detail": {"error": "This request exceeds the pay-as-you-go limit."}})),
        ("brave", failing(429, {"type": "ErrorResponse", "error": {"code": "QUOTA_LIMITED", "detail": "Quota"}})),
        ("brave", failing(429, {"type": "ErrorResponse", "errors": [{"code": "QUOTA_LIMITED", "detail": "Req"}]})),
        ("brave", failing(402, {})),
    ],
)  # fmt: skip
async def test_a_used_quota_is_reported_at_once(api: str, fault: kit.Fault) -> None:
    async with FakeService(MAKERS[api](PAGES), faults=[fault]) as service:
        with pytest.raises(RetrievalError, match="Waiting will not help: the account's credit or quota is used up"):
            await found(api, service)
    assert len(service.requests) == 1


@ALL
async def test_retryable_failures_are_retried(api: str) -> None:
    limited = {"type": "ErrorResponse", "error": {"code": "RATE_LIMITED", "detail": "Request rate limit exceeded."}}
    faults = [failing(429, limited), failing(429, {}, Retry_After="1"), failing(500, {}), kit.CUT, kit.NOT_JSON]
    async with FakeService(MAKERS[api](PAGES), faults=faults) as service:
        assert len(await found(api, service)) == 2
    assert len(service.requests) == 6


@ALL
async def test_a_server_that_hangs_times_out(api: str) -> None:
    async with FakeService(MAKERS[api](PAGES), faults=[kit.HANG]) as service:
        with pytest.raises(RetrievalError, match=r"no complete answer within 0\.1 s"):
            await found(api, service, timeout=0.1, retries=0)


@pytest.mark.parametrize(
    ("api", "reply", "words"),
    [
        ("serper", {"message": "hello"}, "the reply has no field 'organic'"),
        ("serper", {"organic": {}}, "organic is an object, expected an array"),
        ("serper", {"organic": [{"title": "x"}]}, r"organic\[0\] has no field 'link'"),
        ("serper", {"organic": [], "answerBox": "x"}, "answerBox is a string, expected an object"),
        ("tavily", [], "the reply is an array, expected an object"),
        ("tavily", {"answer": "x"}, "the reply has no field 'results'"),
        ("tavily", {"results": [{"url": 7}]}, r"results\[0\] has no URL"),
        ("brave", {"web": {"results": []}}, "the reply has no field 'type'"),
        ("brave", {"type": "news"}, "type is 'news', expected 'search'"),
        ("brave", {"type": "search", "web": {}}, None),
        ("brave", {"type": "search", "web": {"result": []}}, "web has no field 'results'"),
    ],
)
async def test_a_malformed_reply_is_an_error_that_names_the_field(api: str, reply: Any, words: str | None) -> None:
    async with FakeService(lambda _: reply) as service:
        if words is None:  # Brave found no page
            assert await found(api, service) == []
            return
        with pytest.raises(RetrievalError, match=words):
            await found(api, service)
    assert len(service.requests) == 1


@ALL
async def test_no_redirect_is_followed(api: str) -> None:
    async with (
        FakeService(MAKERS[api](PAGES)) as other,
        FakeService(lambda _: failing(307, {}, Location=f"{other.url}/search")) as service,
    ):
        with pytest.raises(RetrievalError, match=r"307.*No redirect is followed"):
            await found(api, service)
        assert other.requests == []


# --- by name, and in a run --------------------------------------------------------------------------------------------


def test_names_and_options_are_checked_when_it_is_opened() -> None:
    assert brings_corpus("web:serper")
    opened = open_retriever("web:serper?site=en.wikipedia.org&country=us&concurrency=2&cache=off", None)
    assert opened.name == "web:serper?site=en.wikipedia.org&country=us"
    assert KEY not in repr(opened)
    with pytest.raises(UnknownName, match="unknown web search 'serpr'; did you mean 'serper'"):
        open_retriever("web:serpr", None)
    with pytest.raises(SettingError, match="needs an API, as in web:serper; there are serper, tavily, brave"):
        open_retriever("web:", None)
    with pytest.raises(UnknownName, match=r"unknown option of web:tavily 'language'\. Valid: country, site"):
        open_retriever("web:tavily?language=de", None)
    with pytest.raises(UnknownName, match="unknown option of web:serper 'contry'; did you mean 'country'"):
        open_retriever("web:serper?contry=de", None)
    with pytest.raises(SettingError, match="cache=no: must be on or off"):
        open_retriever("web:serper?cache=no", None)
    with pytest.raises(UsageError, match="characters that no HTTP header can hold"):
        WebSearch("serper", key="a\nb")


BAMBOOGLE = """In which county is the village where the author of The Pilgrim's Progress was born?,,,,Bedfordshire,
Who wrote The Pilgrim's Progress?,,,,John Bunyan,Bunyan
"""


@pytest.mark.parametrize("method", ["one-r", "self-ask"])
def test_a_repeated_bamboogle_run_sends_no_request(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bamboogle.csv").write_text(BAMBOOGLE)
    questions = read_questions(tmp_path / "bamboogle.csv")
    with serving(FakeService(serper(PAGES))) as service:
        monkeypatch.setattr(type(APIS["serper"]), "url", service.url)
        first = evaluate(questions, method=method, retriever="web:serper", out=tmp_path / "first")
        asked = len(service.requests)
        second = evaluate(questions, method=method, retriever="web:serper", out=tmp_path / "second")
    assert asked >= 2
    assert len(service.requests) == asked
    assert not first.failed
    assert first.to_dict()["metrics"] == second.to_dict()["metrics"]
    assert (tmp_path / "first" / "predictions.jsonl").stat().st_size > 0
    assert KEY not in "".join(path.read_text() for path in tmp_path.rglob("*.json*") if path.is_file())


def test_a_pages_address_is_in_the_answers_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(FakeService(brave(PAGES))) as service:
        monkeypatch.setattr(type(APIS["brave"]), "url", service.url)
        with Pipeline(method="one-r", retriever="web:brave") as qa:
            answer = qa.ask("Who wrote The Pilgrim's Progress?")
    assert answer.text == "John Bunyan"
    assert answer.passages[0].metadata["url"] == PAGES[0].id


def test_the_command_line_says_in_a_line_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("ask", "Who wrote it?", "--method", "one-r", "--retriever")
    monkeypatch.setenv("SERPER_API_KEY", "")
    code, seen = run_cli(capsys, monkeypatch, *ask, "web:serper")
    assert (code, seen.count("\n")) == (2, 1)
    assert "web:serper needs your own key: set SERPER_API_KEY; get one at serper.dev" in seen
    code, seen = run_cli(capsys, monkeypatch, *ask, "http://127.0.0.1:9/search")
    assert (code, seen.count("\n")) == (2, 1)
    assert "the retriever http://127.0.0.1:9/search: no connection" in seen
