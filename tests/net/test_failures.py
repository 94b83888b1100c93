"""Kinds of failures, the wait after them, and the parameters they are about."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.lm.parameters import Parameters
from polyhop.net.failures import MAX_WAIT_SECONDS, Failure, backoff, from_response, retry_after
from polyhop.redaction import register_secret


def _failure(status: int, message: str = "", **more: Any) -> Failure:
    return from_response(status, {}, json.dumps({"error": {"message": message, **more}}).encode())


@given(st.floats(0, 1e6))
def test_retry_after_in_seconds(seconds: float) -> None:
    assert retry_after({"Retry-After": repr(seconds)}, 0) == seconds
    assert retry_after({"retry-after-ms": repr(seconds), "Retry-After": "9"}, 0) == seconds * 0.001


@given(st.integers(0, 4_000_000_000), st.integers(0, 4_000_000_000))
def test_retry_after_as_a_date(then: int, now: int) -> None:
    header = format_datetime(datetime.fromtimestamp(then, UTC), usegmt=True)
    assert retry_after({"Retry-After": header}, now) == max(0, then - now)


@given(st.text())
def test_nonsense_in_retry_after_is_no_request_to_wait(text: str) -> None:
    wait = retry_after({"Retry-After": text, "retry-after-ms": text}, 0)
    assert wait is None or wait >= 0


@pytest.mark.parametrize("text", ["", "soon", "-5", "nan", "inf", "-inf", "1e999", "Thu, 99 Foo 2020 00:00:00 GMT"])
def test_no_wait_from_nonsense(text: str) -> None:
    assert retry_after({"Retry-After": text}, 0) is None
    assert retry_after({}, 0) is None


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"X-RateLimit-Reset": "1, 1419704"}, 1.0),
        ({"X-RateLimit-Reset": "1790000000"}, None),  # a point in time
        ({"X-RateLimit-Reset": "1", "Retry-After": "7"}, 7.0),
        ({"X-RateLimit-Reset": "soon"}, None),
    ],
)
def test_a_wait_named_by_the_window_of_a_limit(headers: dict[str, str], wait: float | None) -> None:
    assert retry_after(headers, 0) == wait


@given(st.integers(0, 60))
def test_backoff_grows_and_is_bounded(failures: int) -> None:
    assert 0 <= backoff(failures, None) <= min(30, 0.5 * 2**failures)


@given(st.integers(0, 6), st.floats(0, 1e9))
def test_the_servers_own_wait_is_kept_and_capped(failures: int, requested: float) -> None:
    wait = backoff(failures, requested)
    assert min(requested, MAX_WAIT_SECONDS) <= wait <= 1.1 * MAX_WAIT_SECONDS


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (_failure(500), "retryable"),
        (_failure(503, "Loading model"), "retryable"),
        (_failure(529, "overloaded"), "retryable"),
        (_failure(429, "slow down"), "retryable"),
        (_failure(408), "retryable"),
        (_failure(429, "You exceeded your current quota", code="insufficient_quota"), "quota"),
        (_failure(429, "Request too large for gpt-4 on tokens per min (TPM): Limit 10, Requested 20"), "quota"),
        (_failure(402), "quota"),
        (_failure(433, "This request exceeds the pay-as-you-go limit."), "quota"),
        (_failure(400, "Not enough credits"), "quota"),
        (_failure(429, "Request quota limit exceeded for plan.", code="QUOTA_LIMITED"), "quota"),
        (_failure(429, "Request rate limit exceeded for plan.", code="RATE_LIMITED"), "retryable"),
        (_failure(422, "The token is invalid.", code="SUBSCRIPTION_TOKEN_INVALID"), "key"),
        (_failure(401), "key"),
        (_failure(403), "key"),
        (_failure(404), "not_found"),
        (_failure(400, "bad"), "fatal"),
        (_failure(413), "fatal"),
        (_failure(500, "1 validation error: {'loc': ('body', 'seed')}"), "fatal"),
        (_failure(400, code="context_length_exceeded"), "context"),
        (_failure(400, "This model's maximum context length is 4096 tokens. However, you requested 5000"), "context"),
        (_failure(400, "request (7619 tokens) exceeds the available context size (1024 tokens)"), "context"),
        (_failure(422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"), "context"),
        (_failure(500, "x", type="exceed_context_size_error"), "context"),
        (_failure(400, "The response was filtered", code="content_filter"), "filter"),
    ],
)
def test_a_status_has_a_kind(failure: Failure, kind: str) -> None:
    assert failure.kind == kind


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "no", "code": 7}}', "no"),
        (b'{"error": "no"}', "no"),
        (b'{"message": "no"}', "no"),
        (b'{"detail": "no"}', "no"),
        (b'{"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}', "not permitted"),
        (b'[{"error": {"message": "no"}}]', "no"),
        (b'{"detail": {"error": "no"}}', "no"),
        (b'{"type": "ErrorResponse", "errors": [{"code": "X", "detail": "no"}], "time": 1}', "no"),
        (b"<html><body>Bad <b>gateway</b></body></html>", "Bad gateway"),
        (b"", ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"null", "null"),
        (b'{"error": ' + b"[" * 500 + b"]" * 500 + b"}", "nested too deeply"),
        (b'{"message": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}", "nested too deeply"),
    ],
)
def test_the_message_is_found_in_any_shape_of_error(body: bytes, message: str) -> None:
    found = from_response(400, {}, body).message
    assert found == message or (len(message) > 10 and message in found)


def test_a_secret_is_masked_even_if_the_message_is_cut() -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz"
    register_secret(key)
    for length in range(260, 310):
        body = json.dumps({"error": {"message": "x" * length + key}}).encode()
        assert "sk-a" not in from_response(401, {}, body).description


def test_the_first_complaint_drops_the_parameter_for_good() -> None:
    parameters = Parameters("m")
    payload = {"model": "m", "seed": 1, "max_tokens": 5, "logprobs": True, "top_logprobs": 1}
    assert parameters.learn(payload, _failure(400, 'Unknown name "seed": Cannot find field.'))
    assert parameters.learn(payload, _failure(400, "logprobs are not supported"))
    assert parameters.learn(payload, _failure(400, "Unsupported parameter: 'max_tokens'", param="max_tokens"))
    assert parameters.fit(payload) == {"model": "m", "max_completion_tokens": 5}
    assert parameters.refused == {"seed": 1, "logprobs": 1, "max_tokens": 1}


@pytest.mark.parametrize(
    ("failure", "dropped"),
    [
        (_failure(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", param="max_tokens"), True),
        (_failure(400, "'max_tokens' is too large: 9000. At most 4096 completion tokens.", param="max_tokens"), False),
        (_failure(400, "max_tokens must be at least 1"), False),
        (_failure(400, "Unsupported value: 'temperature' does not support 0 with this model."), True),
        (_failure(400, "temperature must be at most 2", param="temperature"), False),
        (_failure(400, "Invalid schema for response_format 'x'", param="response_format"), True),
        (_failure(400, "Invalid schema", param="response_format.json_schema.schema"), True),
        (_failure(422, "property 'logprobs' is unsupported"), True),
        (_failure(400, "top_logprobs: at most 0", param="top_logprobs"), True),
        (_failure(400, "Unsupported parameter: 'stop' is not supported with this model.", param="stop"), True),
        (_failure(400, "please stop", param=None), False),
        (_failure(400, "Unsupported message role", param="messages"), False),
        (_failure(500, "seed"), False),
        (_failure(500, "1 validation error: {'loc': ('body', 'response_format', 'type')}"), True),
        (_failure(400, "maximum context length is 10 tokens, max_tokens unsupported"), False),
        (_failure(400, "Unsupported parameter: max_completion_tokens"), False),
    ],
)
def test_only_a_refused_parameter_is_dropped(failure: Failure, dropped: bool) -> None:
    payload = {
        "model": "m",
        "max_tokens": 5,
        "temperature": 0.0,
        "response_format": {},
        "logprobs": True,
        "seed": 1,
        "stop": ["."],
    }
    assert Parameters("m").learn(payload, failure) is dropped
