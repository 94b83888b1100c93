"""Imitated models: each gives pocket's answers as one kind of real model writes them.

An imitated model reads a request with pocket, writes the output in the form that the prompt asks for, and then spoils
the reply as its persona does: it thinks first, rambles, echoes the form, refuses, and so on. The reply crosses the
same code as a chat server's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import orjson

from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores
from polyhop.lm.pocket import Pocket
from polyhop.lm.wire import read_chat
from polyhop.prompts.book import PromptBook
from polyhop.prompts.tasks import Output, task_named

THOUGHTS = "The question needs several facts. " * 60  # about 300 words, some of a thinking model's 300 tokens and more
THINKING_TOKENS = 300


@dataclass(frozen=True)
class Draft:
    """The reply of a model that follows the form: as text, as JSON, and with its values in the form's slots."""

    request: Request
    text: str
    object: str
    form: str
    slots: str

    @property
    def asked(self) -> str:
        """The reply in the requested form."""
        return self.object if self.wants_json else self.text

    @property
    def wants_json(self) -> bool:
        """True if a JSON object was requested, by a schema or, with tools, by the prompt alone."""
        return self.request.schema is not None or "Reply with one JSON object" in _system(self.request)


Persona = Callable[[Draft], Mapping[str, Any]]
"""Returns a chat choice: ``message`` and ``finish_reason``."""


def _says(text: str, *, finish: str = "stop", **message: Any) -> Mapping[str, Any]:
    return {"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}


def _plain(draft: Draft) -> Mapping[str, Any]:
    """The requested form, and nothing else."""
    return _says(draft.asked)


def _thinker(draft: Draft) -> Mapping[str, Any]:
    """Thoughts in a separate field, which count as tokens of the reply."""
    if draft.request.max_tokens <= THINKING_TOKENS:
        return _says("", finish="length", reasoning_content=THOUGHTS)
    return _says(draft.asked, reasoning_content=THOUGHTS)


def _tag_thinker(draft: Draft) -> Mapping[str, Any]:
    """Thoughts in `<think>` tags before the form."""
    if draft.request.max_tokens <= THINKING_TOKENS:
        return _says(f"<think>{THOUGHTS}", finish="length")
    return _says(f"<think>\n{THOUGHTS}\n</think>\n\n{draft.asked}")


def _channel_thinker(draft: Draft) -> Mapping[str, Any]:
    """Thoughts and the form in the channels of gpt-oss, which the server left in the text."""
    thoughts = f"<|channel|>analysis<|message|>{THOUGHTS}"
    if draft.request.max_tokens <= THINKING_TOKENS:
        return _says(thoughts, finish="length")
    return _says(f"{thoughts}<|end|><|start|>assistant<|channel|>final<|message|>{draft.asked}")


def _rambler_before(draft: Draft) -> Mapping[str, Any]:
    """An introduction, then the form."""
    return _says(f"Sure! Let me work through this carefully, as the task requires.\n\n{draft.asked}")


def _rambler_after(draft: Draft) -> Mapping[str, Any]:
    """The form, then a friendly closing."""
    return _says(f"{draft.asked}\n\nI hope this helps! Let me know if anything else is needed.")


def _echoer(draft: Draft) -> Mapping[str, Any]:
    """A copy of the form with its slots, then the form filled in."""
    return _says(f"{draft.form}\n\n{draft.asked}")


def _slot_echoer(draft: Draft) -> Mapping[str, Any]:
    """The form, with its values in the angle brackets of the slots."""
    return _says(draft.asked if draft.wants_json else draft.slots)


def _bold(draft: Draft) -> Mapping[str, Any]:
    """The form, with every line in bold."""
    lines = (f"**{line}**" if line.strip() else line for line in draft.text.splitlines())
    return _says(draft.object if draft.wants_json else "\n".join(lines))


def _json_in_text(draft: Draft) -> Mapping[str, Any]:
    """A JSON object, even if text was requested."""
    return _says(draft.object)


def _schema_ignorer(draft: Draft) -> Mapping[str, Any]:
    """Text, even if a JSON object was requested."""
    return _says(draft.text)


def _fenced(draft: Draft) -> Mapping[str, Any]:
    """The form in a Markdown fence."""
    return _says(f"```json\n{draft.object}\n```" if draft.wants_json else f"```\n{draft.text}\n```")


def _explainer(draft: Draft) -> Mapping[str, Any]:
    """The form, then an explanation that names the other judgments."""
    after = "Explanation: had a fact been different, this would have been [UNSUPPORTED] or [IRRELEVANT], and not so."
    return _says(f"{draft.asked}\n\n{after}")


def _french(draft: Draft) -> Mapping[str, Any]:
    """An introduction in French, then the form."""
    return _says(f"Voici ma réponse, dans la forme demandée :\n\n{draft.asked}")


def _numberer(draft: Draft) -> Mapping[str, Any]:
    """The form, with every line numbered."""
    if draft.wants_json:
        return _says(draft.object)
    return _says("\n".join(f"{i}. {line}" for i, line in enumerate(draft.text.splitlines(), 1)))


def _refuser(draft: Draft) -> Mapping[str, Any]:
    """A refusal."""
    return _says("I'm sorry, but I can't help with that request.")


def _empty(draft: Draft) -> Mapping[str, Any]:
    """Nothing."""
    return _says("")


def _tool_caller(draft: Draft) -> Mapping[str, Any]:
    """A tool call instead of text."""
    call = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"query": "who"}'}}
    return {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}


def _truncator(draft: Draft) -> Mapping[str, Any]:
    """The first nine characters of the form, cut by the token limit."""
    return _says(draft.asked[:9], finish="length")


READABLE: Mapping[str, Persona] = {
    "plain": _plain,
    "thinker": _thinker,
    "tag thinker": _tag_thinker,
    "channel thinker": _channel_thinker,
    "rambler before": _rambler_before,
    "rambler after": _rambler_after,
    "echoer": _echoer,
    "slot echoer": _slot_echoer,
    "bold": _bold,
    "json in text": _json_in_text,
    "schema ignorer": _schema_ignorer,
    "fenced": _fenced,
    "explainer": _explainer,
    "french": _french,
    "numberer": _numberer,
}
"""Personas whose replies a person can read: polyhop must read them too."""

UNREADABLE: Mapping[str, Persona] = {
    "refuser": _refuser,
    "empty": _empty,
    "tool caller": _tool_caller,
    "truncator": _truncator,
}
"""Personas whose replies say nothing: they must be survived, and never become an answer."""


_WORD = re.compile(r"\w+")


class ImitatedLM:
    """Pocket behind the manners of a persona; ``capabilities`` as an OpenAI-compatible server's.

    Calls of tools are in the field of their own if it takes ``tools``, else one per line of its text.

    It also scores given text as pocket does. With ``logprobs``, each of its words has the probability ``new``; one
    that it copies, from the prompt or from what it wrote before, has ``copied``.
    """

    def __init__(
        self,
        persona: Persona,
        name: str = "imitated",
        brain: Any = None,
        *,
        logprobs: bool = False,
        tools: bool = False,
        new: float = 0.9,
        copied: float = 0.9,
    ) -> None:
        self.capabilities = Capabilities(
            chat=True,
            json_schema=True,
            token_logprobs=logprobs,
            seed=True,
            score=True,
            score_temperature=True,
            tools=tools,
        )
        self.name = name
        self.replies: list[tuple[Request, Completion]] = []
        self._persona = persona
        self._new, self._copied = new, copied
        self._brain = brain or Pocket()
        self._owns_brain = brain is None

    async def aclose(self) -> None:
        """Close the pocket that it reads with, if that is its own."""
        if self._owns_brain:
            await self._brain.aclose()

    async def complete(self, request: Request) -> Completion:
        """Return the persona's reply, read as a chat server's."""
        known = await self._brain.complete(request)
        choice = dict(self._persona(self._draft(request, known)))
        if known.tool_calls and request.tools and (self._persona in READABLE.values() or self._persona is _truncator):
            cut = 9 if self._persona is _truncator else None
            calls = [replace(call, text=call.text[:cut]).to_message() for call in known.tool_calls]
            choice = {"message": {**choice["message"], "tool_calls": calls}, "finish_reason": "tool_calls"}
        if request.logprobs:
            pieces = re.findall(r"\s*(?:\w+|[^\w\s]+)|\s+$", choice["message"].get("content") or "")
            choice["logprobs"] = {"content": self._with_logprobs(pieces, request.messages[-1]["content"])}
        reply = read_chat({"choices": [choice]}, request, request.stop)
        self.replies.append((request, reply))
        return reply

    def _with_logprobs(self, pieces: Sequence[str], prompt: str) -> list[Mapping[str, Any]]:
        known = {"", *_WORD.findall(prompt)}
        content: list[Mapping[str, Any]] = []
        for piece in pieces:
            word = "".join(_WORD.findall(piece))
            content.append({"token": piece, "logprob": math.log(self._copied if word in known else self._new)})
            known.add(word)
        return content

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Score as pocket does: nothing is generated."""
        scores: list[TokenScores] = await self._brain.score(requests)
        return scores

    def _draft(self, request: Request, known: Completion) -> Draft:
        if not known.tool_calls:
            return draft(request, _book()[request.task].check(known.value or {}))
        rows = [f'{{"name": "{call.name}", "arguments": {call.text}}}' for call in known.tool_calls]
        text = "" if request.tools else "\n".join(f"<tool_call>{row}</tool_call>" for row in rows)
        form = "" if request.tools else re.findall(r"<tool_call>.*?</tool_call>", _system(request), re.DOTALL)[0]
        return Draft(request, text, text and "\n".join(rows), form, text)


def draft(request: Request, output: Output) -> Draft:
    """Write an output as a model would that keeps to the form."""
    write = task_named(request.task).write_text
    slots = output.model_copy(update={k: f"<{v}>" for k, v in output if isinstance(v, str) and v})
    return Draft(
        request,
        write(output, request.fields),
        orjson.dumps(output.model_dump(mode="json")).decode(),
        _form(request),
        write(slots, request.fields),
    )


def _form(request: Request) -> str:
    """The form that a prompt asks for, with its slots."""
    system = _system(request).partition("\n\n# Tools")[0]
    return re.split(r"\n\n(?=Reply in|Write )", system)[-1].partition("\n")[2] or system


def _system(request: Request) -> str:
    return str(request.messages[0]["content"])


@cache
def _book() -> PromptBook:
    return PromptBook()
