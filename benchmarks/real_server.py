"""The capabilities of a real model server, and its interoperability with polyhop's client.

    python -m benchmarks.real_server MODEL URL

Any OpenAI-compatible server and any model will do: the checks do not depend on the content of replies, so a tiny model
with random weights suffices (``benchmarks.tiny_llama`` makes one in two forms; ``--same FOLDER/hf`` compares the
server's scores with those of transformers). ``OPENAI_API_KEY`` is sent if it is set. A line with FAILED is a fault of
the client or the server and makes the exit code 1; a line with "no" is a feature that the server lacks.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson

from polyhop.common.text import counted
from polyhop.errors import CapabilityError, LMError
from polyhop.lm import OpenAICompatible, Request, ScoreRequest

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"supported": {"type": "boolean"}, "answer": {"enum": ["Paris", "Rome", None]}},
}
MANY = 32
PROMPTS = (
    "Document: Oslo is the capital of Norway. Read the passage and ask a question that it answers. Question:",
    "Où est né l'auteur ? 日本は. Question:",
)
TARGETS = ("Where is the capital of Norway?", "Who directed the film whose composer was born in the town?", "Où, né ?")
TOLERANCE = 0.01  # nats; llama.cpp keeps keys and values in 16 bits

Check = Callable[[OpenAICompatible], Awaitable[str]]


def request(text: str = "Where was the director of Jaws born?", **more: Any) -> Request:
    """A short question gets a short answer."""
    settings = {"max_tokens": 16, **more}
    return Request(task="answer.direct", fields={}, messages=[{"role": "user", "content": text}], **settings)


async def answers(lm: OpenAICompatible) -> str:
    """A question gets a text and a count of its tokens."""
    reply = await lm.complete(request())
    assert reply.text or reply.reasoning, "no text"
    return f"{reply.text!r} {reply.usage}"


async def many(lm: OpenAICompatible) -> str:
    """Many questions at once are all answered."""
    replies = await asyncio.gather(*(lm.complete(request(seed=n)) for n in range(MANY)))
    return f"{len(replies)} replies, {sum(reply.retries for reply in replies)} retries"


async def tokens(lm: OpenAICompatible) -> str:
    """Token log-probabilities belong to the text."""
    reply = await lm.complete(request(logprobs=True))
    if reply.tokens is None:
        return "no"
    assert reply.logprobs is not None
    assert all(value <= 1e-6 for value in reply.logprobs), reply.logprobs
    assert "".join(reply.tokens) == reply.text or "\ufffd" in reply.text, (reply.tokens, reply.text)
    return counted(len(reply.tokens), "tokens")


async def stops(lm: OpenAICompatible) -> str:
    """No stop sequence is in the text."""
    stop = tuple("aeiou")
    reply = await lm.complete(request(stop=stop, max_tokens=64))
    assert not set(stop) & set(reply.text), reply.text
    return repr(reply.text)


async def schema(lm: OpenAICompatible) -> str:
    """A reply follows a JSON schema."""
    reply = await lm.complete(request(schema=SCHEMA, max_tokens=200))
    if not lm.capabilities.json_schema or not (lm.chat or reply.text.lstrip().startswith("{")):
        return "no"  # plain completions mostly ignore it without a word
    assert orjson.loads(reply.text).keys() == SCHEMA["properties"].keys(), reply.text
    return repr(reply.text)


async def seed(lm: OpenAICompatible) -> str:
    """The same seed gives the same text."""
    one, two = [await lm.complete(request(seed=7, temperature=1.0)) for _ in range(2)]
    return "yes" if one.text == two.text else "no"


async def too_long(lm: OpenAICompatible) -> str:
    """A prompt beyond the context is refused at once, with that reason."""
    try:
        await lm.complete(request("word " * 300_000))
    except LMError as error:
        if "do not fit the model's context" in str(error):
            return "refused"
        raise
    return "no: it was cut, or the context is large"


async def score(lm: OpenAICompatible) -> str:
    """A given text is scored."""
    try:
        (scores,) = await lm.score([ScoreRequest(task="t", prompt="Where was he born?", target="In Paris")])
    except CapabilityError as error:
        return f"no: {error}"
    return str(dict(zip(scores.tokens, scores.logprobs, strict=True)))


async def agrees(lm: OpenAICompatible, path: str) -> str:
    """Scores are those of the same weights in transformers."""
    from polyhop.lm import TransformersLM

    asked = [ScoreRequest(task="t", prompt=prompt, target=target) for prompt in PROMPTS for target in TARGETS]
    started = time.perf_counter()
    served = await lm.score(asked)
    seconds = time.perf_counter() - started
    off = [
        max(abs(a - b) for a, b in zip(one.logprobs, own.logprobs, strict=True))
        for one, own in zip(served, await TransformersLM(path).score(asked), strict=True)
    ]
    assert max(off) < TOLERANCE, f"{max(off):.2g} nats a token apart"
    tokens = sum(len(one.logprobs) for one in served)
    return f"{counted(tokens, 'tokens')} within {max(off):.1g} nats, {1000 * seconds / len(asked):.1f} ms a score"


async def main(model: str, url: str, same: str | None) -> int:
    """Print one line per check; return 1 if any failed."""
    failed = 0
    for chat in (True, False):
        checks: list[Check] = [answers, many, tokens, stops, schema, seed, too_long, score]
        if same is not None:
            checks.append(partial(agrees, path=same))
        print("chat" if chat else "completions")
        async with OpenAICompatible(model, url, chat=chat, retries=2) as lm:
            for check in checks:
                try:
                    found = await check(lm)
                except (AssertionError, LMError, ValueError) as error:
                    found, failed = f"FAILED: {error}", 1
                print(f"  {getattr(check, '__name__', 'agrees'):<10} {found}")
            if lm.parameters.refused:
                print(f"  not taken: {', '.join(lm.parameters.refused)}")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("url", help="the base URL, /v1 included")
    parser.add_argument("--same", help="the folder of the same weights for transformers: scores must agree")
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.model, options.url, options.same)))
