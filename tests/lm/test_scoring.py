"""Scoring a given text through a server: what is asked, which tokens count, and what is said where it cannot be."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.errors import CapabilityError, LMError, SettingError
from polyhop.lm import OpenAICompatible, ScoreRequest, TokenScores, scoring
from polyhop.lm.scoring import WAYS, Way, joined, read_scores, score_payload
from polyhop.net.failures import BadReply
from tests.kit import openai_server as kit
from tests.kit.openai_server import FakeServer, Reply, bigrams, shown_in_pieces, spaceless, tokenise

PROMPT, TARGET = "Where was he born?", " In Paris, é."
BOTH: tuple[Way, ...] = ("echo", "prompt_logprobs")


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as started:
        yield started


def scored(prompt: str = PROMPT, target: str = TARGET, **more: float) -> ScoreRequest:
    return ScoreRequest(task="promptrank.path", prompt=prompt, target=target, **more)  # type: ignore[arg-type]


def expected(prompt: str, target: str) -> list[float | None]:
    """The log-probabilities that the server's model gives the target's own tokens."""
    return bigrams(tokenise(prompt + target))[len(tokenise(prompt)) :]


def asked(server: FakeServer) -> list[str | list[str]]:
    """The prompts that came after the probe's two."""
    return [received.body["prompt"] for received in server.requests[2:]]


# --- which tokens are the target's -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", BOTH)
@pytest.mark.parametrize("bos", ["", "<s>"])
@pytest.mark.parametrize("offsets", [True, False, None])
async def test_a_targets_tokens_are_scored(server: FakeServer, bos: str, way: Way, offsets: bool | None) -> None:
    server.bos, server.offsets = bos, offsets
    async with OpenAICompatible("tiny", server.url, scoring=way) as lm:
        first, second = await lm.score([scored(), scored(target=" Rome")])
    assert first == TokenScores(tuple(tokenise(TARGET)), tuple(expected(PROMPT, TARGET)))  # type: ignore[arg-type]
    assert second == TokenScores((" Rome",), tuple(expected(PROMPT, " Rome")))  # type: ignore[arg-type]
    assert asked(server) == [[PROMPT + TARGET, PROMPT + " Rome"]]


@pytest.mark.parametrize("way", BOTH)
async def test_one_space_joins_prompt_and_target(server: FakeServer, way: Way) -> None:
    async with OpenAICompatible("tiny", server.url, scoring=way) as lm:
        scores = await lm.score([scored("a\n", " b "), scored("a", "b"), scored(" a ", "b")])
    assert [one.tokens for one in scores] == [(" b",)] * 3
    assert asked(server) == [["a b", "a b", " a b"]]


def test_a_token_across_the_edge_is_the_targets() -> None:
    logprobs = {"tokens": ["he", " born? ", "In", "It"], "token_logprobs": [None, -1.0, -2.0, -3.0]}
    reply = {"choices": [{"text": "he born? InIt", "logprobs": logprobs}]}
    assert read_scores(reply, [scored("he born?", "In")], "echo") == [TokenScores((" born? ", "In"), (-1.0, -2.0))]


@pytest.mark.parametrize("way", BOTH)
async def test_the_first_token_of_all_has_no_score(server: FakeServer, way: Way) -> None:
    async with OpenAICompatible("tiny", server.url, scoring=way) as lm:
        scores = await lm.score([scored("", "In Paris"), scored("", "In"), scored("In", " ")])
        assert [one.tokens for one in scores] == [(" Paris",), (), ()]
        server.bos = "<s>"
        (whole,) = await lm.score([scored("", "In Paris")])
    assert whole == TokenScores(("In", " Paris"), tuple(bigrams(["<s>", "In", " Paris"])[1:]))  # type: ignore[arg-type]


@pytest.mark.parametrize("way", BOTH)
@pytest.mark.parametrize("text", [" In Paris, é.", " é", " éü日本 née", " x\n\ny", " 日本は"])
async def test_tokens_that_are_pieces_of_characters_are_counted(server: FakeServer, text: str, way: Way) -> None:
    server.show = shown_in_pieces
    async with OpenAICompatible("tiny", server.url, scoring=way) as lm:
        (scores,) = await lm.score([scored("Où est-il né?", text)])
    assert scores.tokens == tuple(piece for token in tokenise(text) for piece in shown_in_pieces(token))
    assert sum(scores.logprobs) == pytest.approx(sum(v for v in expected("Où est-il né?", text) if v is not None))


@pytest.mark.parametrize("way", BOTH)
async def test_spaces_that_tokens_lose_are_found_again(server: FakeServer, way: Way) -> None:
    server.show = spaceless
    async with OpenAICompatible("tiny", server.url, scoring=way) as lm:
        scores = await lm.score([scored("in in in", " in in"), scored("in in", "in in")])
    assert [one.tokens for one in scores] == [("in", "in"), ("in", "in")]
    assert scores[0].logprobs == tuple(bigrams(tokenise("in in in in in"))[3:])
    assert scores[1].logprobs == tuple(bigrams(tokenise("in in in in"))[2:])


@pytest.mark.parametrize("shown", [True, False])
async def test_what_the_server_generates_is_never_the_targets(server: FakeServer, shown: bool) -> None:
    server.generated = shown
    server.reply = " in Paris"
    async with OpenAICompatible("tiny", server.url, scoring="echo") as lm:
        (scores,) = await lm.score([scored("x in", " in in")])
    assert scores.logprobs == tuple(bigrams(tokenise("x in in in"))[2:])


async def test_a_generated_token_that_shows_nothing_is_left_out(server: FakeServer) -> None:
    server.reply = Reply(text="", tokens=("",))
    async with OpenAICompatible("tiny", server.url, scoring="echo") as lm:
        (scores,) = await lm.score([scored()])
    assert scores.tokens == tuple(tokenise(TARGET))


WORDS = st.text(alphabet="ab é日\n.,", max_size=12)


@given(WORDS, WORDS, st.sampled_from(["<s>", ""]), st.sampled_from([str, shown_in_pieces]), st.sampled_from(BOTH))
def test_every_score_of_the_target_is_found(prompt: str, target: str, bos: str, show: object, way: Way) -> None:
    server = FakeServer()
    server.bos, server.show = bos, show  # type: ignore[assignment]
    request = scored(prompt, target)
    text, begin = joined(request)
    body = score_payload("tiny", [text], way, {})
    scores = read_scores(orjson.loads(server._completion(body, Reply())), [request], way)
    if not target.strip():
        return
    assert scores is not None
    tokens = tokenise(text)
    if show is str:
        starts = [len("".join(tokens[:n])) for n in range(len(tokens))]
        values = bigrams([bos, *tokens])[1:] if bos else bigrams(tokens)
        own = [v for v, s, t in zip(values, starts, tokens, strict=True) if s + len(t) > begin]
        assert list(scores[0].logprobs) == [value for value in own if value is not None]
    assert len(scores[0].tokens) == len(scores[0].logprobs)


JSON = st.recursive(
    st.none() | st.floats(-9, 0) | st.text(max_size=3) | st.sampled_from([PROMPT + TARGET]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["text", "logprobs", "tokens", "token_logprobs", "prompt_logprobs", "logprob", "decoded_token"]
            ),
            inner,
            max_size=4,
        )
    ),
)


@given(JSON, st.sampled_from(BOTH))
def test_a_reply_without_scores_is_not_taken_for_scores(reply: object, way: Way) -> None:
    try:
        scores = read_scores({"choices": [reply]}, [scored()], way)
    except (BadReply, LookupError, TypeError, AttributeError, ValueError):
        return  # what the client takes for a broken reply
    assert scores is None or all(map(math.isfinite, scores[0].logprobs))


# --- what is asked ---------------------------------------------------------------------------------------------------


async def test_the_way_is_found_once_before_the_first_score(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url) as lm:
        assert lm.capabilities.score
        await asyncio.gather(*(lm.score([scored(target=f" {n}")]) for n in range(40)))
        await lm.score([scored(target=" last")])
    sizes = [len(prompt) if isinstance(prompt, list) else 1 for prompt in (r.body["prompt"] for r in server.requests)]
    assert sizes == [1, 2, 16, 16, 8, 1]
    assert all(received.path == "/v1/completions" for received in server.requests)
    assert {key: server.requests[2].body[key] for key in ("echo", "logprobs", "max_tokens", "temperature")} == {
        "echo": True,
        "logprobs": 1,
        "max_tokens": 1,
        "temperature": 1.0,
    }


async def test_prompt_logprobs_is_tried_without_echo(server: FakeServer) -> None:
    server.echoes = False
    async with OpenAICompatible("tiny", server.url, chat=False) as lm:
        (scores,) = await lm.score([scored()])
    assert scores.tokens == tuple(tokenise(TARGET))
    assert [set(WAYS["prompt_logprobs"]) <= set(r.body) for r in server.requests] == [False, True, True, True]


async def test_a_refused_way_of_scoring_drops_no_parameter(server: FakeServer) -> None:
    server.rejects = {"echo": "Setting 'echo' and 'logprobs' at the same time is not supported for this model."}
    async with OpenAICompatible("tiny", server.url) as lm:
        (scores,) = await lm.score([scored()])
        assert scores.tokens == tuple(tokenise(TARGET))
        assert not lm.parameters.refused, "what is refused in scoring says nothing of completions"
        assert lm.capabilities.token_logprobs


async def test_texts_are_sent_one_by_one_without_lists(server: FakeServer) -> None:
    server.lists = False
    async with OpenAICompatible("tiny", server.url) as lm:
        scores = await lm.score([scored(target=f" {n}") for n in range(3)])
    assert [one.tokens for one in scores] == [(" 0",), (" 1",), (" 2",)]
    assert asked(server) == [f"{PROMPT} {n}" for n in range(3)]


async def test_a_server_that_must_generate_still_scores(server: FakeServer) -> None:
    server.least = 1
    async with OpenAICompatible("tiny", server.url, extra_body={"max_tokens": 900, "echo": False, "top_k": 5}) as lm:
        await lm.score([scored()])
    assert [(r.body["max_tokens"], r.body["echo"], r.body["top_k"]) for r in server.requests] == [(1, True, 5)] * 3


@pytest.mark.parametrize("way", [None, *BOTH])
async def test_a_server_that_does_not_score_is_found_out(server: FakeServer, way: Way | None) -> None:
    server.echoes = server.prompt_logprobs = False
    async with OpenAICompatible("tiny", server.url, scoring=way or "auto") as lm:
        for _ in range(2):
            with pytest.raises(CapabilityError, match=r"only what it generated.*vLLM, SGLang"):
                await lm.score([scored()])
        assert not lm.capabilities.score
    assert len(server.requests) == (1 if way else 2)


@pytest.mark.parametrize(
    ("text", "logprobs"),
    [
        (PROMPT + TARGET + "It", {"tokens": ["It"], "token_logprobs": [-1.0]}),
        (TARGET, {"tokens": [TARGET], "token_logprobs": [-1.0]}),
        (PROMPT + TARGET + TARGET, {"tokens": [TARGET], "token_logprobs": [-1.0]}),
        (PROMPT + TARGET, {"tokens": [PROMPT, TARGET], "token_logprobs": [None, None]}),
        (PROMPT + TARGET, {"tokens": [PROMPT, " Another."], "token_logprobs": [None, -1.0]}),
        (PROMPT + TARGET, {"tokens": [], "token_logprobs": []}),
        (PROMPT + TARGET, {"content": [{"token": TARGET, "logprob": -1.0}]}),
        (PROMPT + TARGET, None),
    ],
)
def test_log_probabilities_of_other_tokens_are_not_scores(text: str, logprobs: object) -> None:
    reply = {"choices": [{"index": 0, "text": text, "logprobs": logprobs}]}
    assert read_scores(reply, [scored()], "echo") is None


def test_a_reply_of_wrong_lengths_is_an_error() -> None:
    logprobs = {"tokens": [PROMPT, TARGET], "token_logprobs": [None]}
    choice = {"index": 0, "text": PROMPT + TARGET, "logprobs": logprobs}
    for choices in ([choice], [choice, choice], [], None):
        with pytest.raises(BadReply):
            read_scores({"choices": choices}, [scored()], "echo")


async def test_all_zeros_are_not_scores(server: FakeServer) -> None:
    body = server._completion(score_payload("tiny", ["Oslo is the capital of Norway."], "echo", {}), Reply(text="It"))
    reply = orjson.loads(body)
    logprobs = reply["choices"][0]["logprobs"]
    logprobs["token_logprobs"] = [value and 0.0 for value in logprobs["token_logprobs"]]
    server.faults.append(kit.Fault(body=orjson.dumps(reply)))
    server.prompt_logprobs = False
    async with OpenAICompatible("tiny", server.url) as lm:
        with pytest.raises(CapabilityError):
            await lm.score([scored()])


@pytest.mark.parametrize("fault", [kit.WRONG_SHAPE, kit.EMPTY_CHOICES, kit.CUT_JSON])
async def test_an_invalid_reply_does_not_end_the_probe(
    fault: kit.Fault, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, asked: 0.0)
    server.faults.append(fault)
    async with OpenAICompatible("tiny", server.url) as lm:
        (scores,) = await lm.score([scored()])
        assert lm.capabilities.score
    assert scores.tokens == tuple(tokenise(TARGET))


async def test_retries_are_counted_once_per_request(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, asked: 0.0)
    async with OpenAICompatible("tiny", server.url) as lm:
        assert [one.retries for one in await lm.score([scored(), scored(target=" Rome")])] == [0, 0]
        server.faults.extend([kit.failing(429), kit.CUT_JSON])
        assert [one.retries for one in await lm.score([scored(), scored(target=" Rome")])] == [2, 0]


async def test_a_failed_probe_is_repeated(server: FakeServer) -> None:
    server.faults.append(kit.failing(401, "bad key"))
    async with OpenAICompatible("tiny", server.url) as lm:
        with pytest.raises(LMError, match="401"):
            await lm.score([scored()])
        assert lm.capabilities.score
        (scores,) = await lm.score([scored()])
    assert scores.tokens == tuple(tokenise(TARGET))


async def test_scores_at_another_temperature_are_refused_before_any_call(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url) as lm:
        assert not lm.capabilities.score_temperature
        with pytest.raises(CapabilityError, match="temperature=1"):
            await lm.score([scored(), scored(temperature=0.5)])
    async with OpenAICompatible("tiny", server.url, scoring=None) as lm:
        assert not lm.capabilities.score
        with pytest.raises(CapabilityError, match="scoring=None"):
            await lm.score([scored()])
    assert server.requests == []


def test_openais_own_models_are_not_scored_by_default() -> None:
    assert not OpenAICompatible("m", api_key="k").capabilities.score
    assert OpenAICompatible("m", api_key="k", scoring="echo").capabilities.score
    with pytest.raises(SettingError, match=r"'loud'.*'auto', 'echo', 'prompt_logprobs'"):
        OpenAICompatible("m", "http://box/v1", scoring="loud")  # type: ignore[arg-type]


# --- callers together ------------------------------------------------------------------------------------------------


async def test_one_failed_score_ends_the_others(server: FakeServer) -> None:
    server.lists = False
    async with OpenAICompatible("tiny", server.url, max_concurrency=1) as lm:
        await lm.score([scored()])
        server.faults.append(kit.failing(403))
        with pytest.raises(LMError, match="403"):
            await lm.score([scored(target=f" {n}") for n in range(20)])
    assert len(server.requests) < 10


async def test_a_failed_request_fails_its_own_texts_alone(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url) as lm:
        await lm.score([scored()])
        server.faults.append(kit.failing(403))
        asking = [lm.score([scored(target=f" {n}")]) for n in range(scoring.BATCH + 2)]
        found = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(one, LMError) for one in found] == [True] * scoring.BATCH + [False] * 2


async def test_a_request_without_waiting_callers_is_not_sent(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url) as lm:
        await lm.score([scored()])
        before = len(server.requests)
        task = asyncio.ensure_future(lm.score([scored(target=" x")]))
        await asyncio.sleep(0)
        task.cancel()
        (scores,) = await lm.score([scored(target=" y")])
        assert scores.tokens == (" y",)
        assert [r.body["prompt"] for r in server.requests[before:]] == [PROMPT + " y"]
        server.faults.append(kit.HANG)
        task = asyncio.ensure_future(lm.score([scored(target=" z")]))
        await server.until(before + 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        (line,) = lm._scores._lines.values()  # type: ignore[union-attr]
        assert all(sending.cancelled() or sending.cancelling() for sending in line.sending)


async def test_closing_ends_waiting_calls(server: FakeServer) -> None:
    lm = OpenAICompatible("tiny", server.url)
    await lm.score([scored()])
    before = len(server.requests)
    server.faults.append(kit.HANG)
    task = asyncio.ensure_future(lm.score([scored(target=" x")]))
    await server.until(before + 1)
    await lm.aclose()
    with pytest.raises(LMError, match="given up"):
        await asyncio.wait_for(task, 30)


async def test_a_cancelled_first_caller_does_not_end_the_probe_of_the_others(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url) as lm:
        first, second = (asyncio.ensure_future(lm.score([scored()])) for _ in range(2))
        await server.until(1)
        first.cancel()
        assert (await second)[0].tokens == tuple(tokenise(TARGET))
    assert len(server.requests) == 3


def test_one_model_scores_in_one_loop_after_another() -> None:
    async def work() -> None:
        async with FakeServer() as server:
            lm.url = server.url
            lm._scores._url = f"{server.url}/completions"  # type: ignore[union-attr]
            assert (await lm.score([scored()]))[0].tokens == tuple(tokenise(TARGET))
            await lm.aclose()

    lm = OpenAICompatible("tiny", "http://127.0.0.1:1/v1")
    for _ in range(2):
        asyncio.run(work())
