"""Requests with hostile values in every field: never a failure of the server, always an error that names the field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from polyhop.common.aio import LoopThread
from polyhop.common.extras import is_installed
from polyhop.serve.service import Service
from tests.kit.polyhop_server import served
from tests.serve.test_chat import TOWNS, Model

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]

ASKING: dict[str, Any] = {"question": "Which town?"}
LIMITS = ("max_calls", "max_tokens", "max_seconds", "abstain_below")
FIELDS = [
    *(("/v1/ask", ASKING, name) for name in ("question", "method", "corpus", "kind", "settings", "stream", *LIMITS)),
    *(("/v1/ask", ASKING, f"settings.{name}") for name in ("k", "shots", "style", "unknown")),
    *(("/v1/ask", {**ASKING, "method": "tor"}, f"settings.{name}") for name in ("widths", "early_stop")),
    *(("/v1/ask", {**ASKING, "stream": True}, name) for name in ("question", "max_calls", "settings")),
    ("/v1/ask", ASKING, "unknown"),
    *(("/v1/search", {"query": "town"}, name) for name in ("query", "k", "corpus", "unknown")),
    *(
        ("/retrieve", {"queries": ["town", ""]}, name)
        for name in ("queries", "queries.1", "topk", "return_scores", "corpus")
    ),
    *(("/search", {"query": "town"}, name) for name in ("query", "top_n", "return_score")),
    ("/batch_search", {"query": ["town", ""]}, "query.1"),
    *(
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Which town?"}]}, name)
        for name in (
            "model", "messages", "stream", "stream_options", "n", "tools", "response_format", "temperature",
            "polyhop", *(f"polyhop.{name}" for name in ("kind", "references", "settings", "settings.k", *LIMITS)),
        )
    ),
    ("/v1/chat/completions", {"messages": [{"role": "user"}]}, "messages.0.content"),
    ("/v1/chat/completions", {"messages": [{"role": "user"}]}, "messages.0.role"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "?"}], "stream": True}, "polyhop.max_calls"),
]  # fmt: skip

_leaves = st.one_of(
    st.integers(2**62, 10**400).map(str),
    st.integers(-(10**40), -1).map(str),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "1e400", "1e-400", "-0.0", "0", "null", "true", "[]", "{}"]),
    st.sampled_from(
        ['"\\ud800"', '{"\\udfff": 1}', '"\\u0000"', '"' + "9" * 5000 + '"', '"' + "x" * 50_000 + '"', '""']
    ),
    st.sampled_from(["1" * 5000, '{"' + "k" * 50_000 + '": 1}', "[" + "1," * 5000 + "1]", '[{"type": "text"}]']),
)
hostile = st.one_of(
    _leaves,
    st.builds(
        lambda depth, brackets, leaf: brackets[0] * depth + leaf + brackets[1] * depth,
        st.one_of(st.integers(1, 20), st.integers(200, 1100), st.just(20_000)),
        st.sampled_from([("[", "]"), ('{"a":', "}"), ('{"k":', "}"), ('[{"text":', "}]")]),
        _leaves,
    ),
)
"""JSON values that no field is meant for, as text."""


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HTTPConnection]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYHOP_CACHE", str(tmp_path_factory.mktemp("cache")))
        thread = LoopThread()
        server = served(Service({"towns": TOWNS}, method="one-r", lm=Model(), reader=None))
        address = urlsplit(thread.run(server.__aenter__()))
        connection = HTTPConnection(str(address.hostname), address.port, timeout=60)
        yield connection
        connection.close()
        thread.run(server.__aexit__(None, None, None))
        thread.stop()


@pytest.mark.parametrize(("path", "body", "field"), FIELDS, ids=[f"{path} {field}" for path, _, field in FIELDS])
def test_no_value_makes_the_server_fail_and_the_error_names_its_field(
    asking: HTTPConnection, path: str, body: dict[str, Any], field: str
) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(value=hostile)
    @example(value=f"1{'0' * 30}")
    @example(value='{"a":' * 700 + "1" + "}" * 700)
    @example(value="[" * 700 + "1" + "]" * 700)
    def answered(value: str) -> None:
        asking.request("POST", path, placed(body, field, value), {"Content-Type": "application/json"})
        response = asking.getresponse()
        content = response.read()
        assert response.status in (200, 400, 404, 422), content
        if response.status == 200:
            assert b"event: error" not in content
            return
        error = json.loads(content)["error"]
        assert error["type"] in ("invalid_request", "invalid_request_error")
        assert len(error["message"]) < 2000
        if not error["message"].startswith("the body "):  # which could not be read at all
            named = error["param"].split(".")
            assert named == field.split(".")[: len(named)] or named[: field.count(".") + 1] == field.split(".")

    answered()


def placed(body: dict[str, Any], field: str, value: str) -> bytes:
    """The body as JSON with a value, which is JSON itself, in a field within fields."""
    made = json.loads(json.dumps(body))
    *outer, last = field.split(".")
    inner = made
    for name in outer:
        inner = inner[int(name)] if isinstance(inner, list) else inner.setdefault(name, {})
    inner[int(last) if isinstance(inner, list) else last] = "@"
    return json.dumps(made).replace('"@"', value).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "the body is nested too deeply"),
        (b'{"question": "\xff"}', "the body is not UTF-8"),
        (b'{"max_calls": %s}' % (b"1" * 5000), "the body has a number of too many digits"),
    ],
)
def test_an_unreadable_body_is_an_error(asking: HTTPConnection, content: bytes, message: str) -> None:
    for path in ("/v1/ask", "/v1/search", "/v1/chat/completions"):
        asking.request("POST", path, content, {"Content-Type": "application/json"})
        response = asking.getresponse()
        error = json.loads(response.read())["error"]
        assert (response.status, error) == (400, {"type": "invalid_request", "message": message})


@pytest.mark.parametrize("number", ["9" * 30, "-1", "9" * 5000, "1e3", "NaN", "%00", "x" * 3000, "%ED%A0%80"])
def test_no_number_of_a_path_or_query_makes_the_server_fail(asking: HTTPConnection, number: str) -> None:
    for path in (
        f"/v1/traces/none/steps/{number}/prompt",
        f"/v1/traces/{number}",
        f"/v1/models/{number}",
        f"/v1/runs/{number}",
        f"/v1/runs/none/questions?offset={number}",
        f"/v1/runs/none/questions?limit={number}",
        f"/v1/runs/none/questions/{number}",
        f"/v1/runs/compare?a={number}&b={number}",
        f"/v1/runs/frontier.svg?run={number}&cost={number}",
    ):
        asking.request("GET", path)
        response = asking.getresponse()
        error = json.loads(response.read())["error"]
        assert 400 <= response.status < 500, path
        assert error["type"]
        assert len(error["message"]) < 2000
