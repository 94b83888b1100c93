"""Steps and answers as attributes of the GenAI semantic conventions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from polyhop.answer import Answer
from polyhop.engine.engine import Engine
from polyhop.engine.rerender import messages_of
from polyhop.lm.base import seed_of
from polyhop.lm.names import lm_names, model_and_url
from polyhop.redaction import redacted
from polyhop.trace import Ask, AskWithTools, Branch, Readout, Score, Searched, Step, plain

MAX_CHARACTERS = 60_000
"""Maximum length of an attribute: collectors refuse a whole batch of spans if one is much larger."""

_CUTS = (None, 8_000, 2_000, 500, 100)
"""Lengths to which the texts of a structured attribute are cut: the first at which the whole attribute fits."""

_FINISH_REASONS = {"tool_calls": "tool_call"}
"""The conventions' words for finish reasons that are not OpenAI's."""

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Description:
    """A span's name and its attributes without texts; ``is_remote`` if another program does the work."""

    name: str
    attributes: Mapping[str, Any]
    is_remote: bool = False


def describe(step: Step, engine: Engine, corpus: str | None) -> Description:
    """Describe a step for its span; ``corpus`` is the name of the searched corpus."""
    match step:
        case Ask():
            return _describe_call(step, engine)
        case Score():
            model = _model_attributes(step.model, engine)
            attributes = {
                "gen_ai.operation.name": "score",
                **model,
                "gen_ai.request.temperature": step.temperature,
                "gen_ai.usage.input_tokens": step.prompt_tokens,
                "polyhop.task": step.task,
                "polyhop.targets": len(step.targets),
                "polyhop.tokens_estimated": True,
            }
            return Description(f"score {model['gen_ai.request.model']}", attributes, "server.address" in model)
        case Searched():
            attributes = {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.data_source.id": corpus,
                "gen_ai.request.top_k": float(step.k),
                "polyhop.retriever": redacted(str(getattr(engine.retriever, "name", "the caller's own"))),
                "polyhop.passages": len(step.passages),
            }
            return Description(
                f"retrieval {corpus}" if corpus else "retrieval", without_none(attributes), is_remote=True
            )
        case Readout():
            attributes = {
                "polyhop.reader": getattr(engine.reader, "name", None),
                "polyhop.passages": len(step.passages),
            }
            return Description("read", without_none(attributes))
        case Branch():
            return Description(step.name, without_none({"polyhop.verdict": step.verdict}))
        case _:
            return Description(step.kind, {})


def content_of(step: Step, steps: Sequence[Step], engine: Engine) -> dict[str, Any]:
    """Return the texts of a step, one of a question's ``steps``."""
    match step:
        case Ask():
            reply = _message("assistant", step.text, step.finish_reason)
            if isinstance(step, AskWithTools) and not step.in_text:
                reply["parts"] += [_call(call["id"], call["name"], call["text"]) for call in step.tool_calls]
            if step.reasoning:
                reply["parts"].insert(0, {"type": "reasoning", "content": step.reasoning})
            return {"gen_ai.input.messages": _prompt(step, steps, engine), "gen_ai.output.messages": json_text([reply])}
        case Score():
            return {"polyhop.scores": json_text(list(zip(step.targets, step.logprobs, strict=True)))}
        case Searched():
            found = [{"id": passage.id, "title": passage.title, "content": passage.text} for passage in step.passages]
            return {
                "gen_ai.retrieval.query.text": exportable(step.query),
                "gen_ai.retrieval.documents": json_text(found),
            }
        case Readout():
            return {"polyhop.question": exportable(step.question), "polyhop.spans": json_text(plain(step.spans))}
        case Branch():
            return {"polyhop.label": exportable(step.label)}
        case _:
            return {}


def outcome(answer: Answer) -> dict[str, Any]:
    """Return the outcome of a question in numbers."""
    usage = answer.usage
    return without_none(
        {
            "polyhop.support": answer.support,
            "polyhop.supported": answer.supported,
            "polyhop.confidence": answer.confidence,
            "polyhop.calls": usage.calls,
            "polyhop.searches": usage.searches,
            "polyhop.layers": usage.layers,
            "polyhop.budget_spent": answer.trace.budget,
        }
    )


def answer_content(answer: Answer) -> dict[str, Any]:
    """Return the texts of a question and its answer."""
    return {
        "gen_ai.input.messages": json_text([_message("user", answer.trace.question)]),
        "gen_ai.output.messages": json_text([_message("assistant", answer.text, "stop")]),
    }


def without_none(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that have a value.

    >>> without_none({"polyhop.verdict": None, "polyhop.calls": 0})
    {'polyhop.calls': 0}
    """
    return {name: value for name, value in attributes.items() if value is not None}


def exportable_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes as exporters accept them: every text ``exportable``, alone and in sequences."""
    return {name: _exportable(value) for name, value in attributes.items()}


def _exportable(value: Any) -> Any:
    if isinstance(value, str):
        return exportable(value)
    return tuple(map(_exportable, value)) if isinstance(value, tuple) else value


def exportable(text: str) -> str:
    """Return a text that exporters accept: at most ``MAX_CHARACTERS``, an unpaired surrogate as a question mark.

    >>> exportable("a\\ud800"), len(exportable("a" * 10**6))
    ('a?', 60000)
    """
    return text[:MAX_CHARACTERS].encode("utf-8", "replace").decode()


def json_text(value: Any) -> str:
    """Return a structured attribute as JSON in ASCII; if it is too long, the texts in it are cut.

    >>> json_text({"text": "é\\ud800"})
    '{"text": "\\\\u00e9\\\\ud800"}'
    """
    for max_length in _CUTS:
        text = json.dumps(_cut(value, max_length), default=str)
        if len(text) <= MAX_CHARACTERS:
            break
    return text[:MAX_CHARACTERS]


def _cut(value: Any, max_length: int | None) -> Any:
    match value:
        case str():
            return value if max_length is None or len(value) <= max_length else f"{value[:max_length]}…"
        case Mapping():
            return {_cut(str(name), max_length): _cut(item, max_length) for name, item in value.items()}
        case list() | tuple():
            return [_cut(item, max_length) for item in value]
        case _:
            return value


def _describe_call(step: Ask, engine: Engine) -> Description:
    """Describe a model call. The tokens of a cached reply are not reported again."""
    model = _model_attributes(step.model, engine)
    operation = "chat" if _is_chat(step.model, engine) else "text_completion"
    attributes = {
        "gen_ai.operation.name": operation,
        **model,
        "gen_ai.request.seed": _seed(step, engine),
        "gen_ai.response.finish_reasons": (_FINISH_REASONS.get(step.finish_reason, step.finish_reason),),
        "gen_ai.usage.input_tokens": None if step.cached else step.prompt_tokens,
        "gen_ai.usage.output_tokens": None if step.cached else step.completion_tokens,
        "gen_ai.usage.reasoning.output_tokens": None if step.cached else step.reasoning_tokens or None,
        "polyhop.task": step.task,
        "polyhop.attempt": step.attempt,
        "polyhop.readable": step.output is not None,
        "polyhop.cached": step.cached,
        "polyhop.retries": step.retries,
        "polyhop.tokens_estimated": step.estimated,
    }
    return Description(
        f"{operation} {model['gen_ai.request.model']}", without_none(attributes), "server.address" in model
    )


def _model_attributes(name: str, engine: Engine) -> dict[str, Any]:
    """Return a model's provider, name and server. A model whose name has no known prefix is the caller's own."""
    prefix, _, rest = name.partition(":")
    named = bool(rest) and prefix in lm_names()
    attributes: dict[str, Any] = {
        "gen_ai.provider.name": prefix if named else "polyhop",
        "gen_ai.request.model": model_and_url(prefix, rest)[0] if named else name,
    }
    model = _model(name, engine)
    if isinstance(url := getattr(model, "url", None), str):
        parts = urlsplit(url)
        attributes |= without_none(
            {"server.address": parts.hostname, "server.port": parts.port or _PORTS.get(parts.scheme)}
        )
    return attributes


def _seed(step: Ask, engine: Engine) -> int | None:
    """Return the seed that a call was sent; None if the model accepts none."""
    model = _model(step.model, engine)
    return seed_of(engine.seed, step.task, step.sample) if model is not None and model.capabilities.seed else None


def _is_chat(name: str, engine: Engine) -> bool:
    model = _model(name, engine)
    return model is None or model.capabilities.chat


def _model(name: str, engine: Engine) -> Any:
    return next((model for model in engine.models.by_name.values() if redacted(model.name) == name), None)


def _prompt(step: Ask, steps: Sequence[Step], engine: Engine) -> str:
    turns = messages_of(step, steps, engine.prompts)
    return json_text([_turn(turn) for turn in turns or ()])


def _turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn of a prompt; one with tools has the calls, or the result of a call."""
    if turn["role"] == "tool":
        part = {"type": "tool_call_response", "id": turn["tool_call_id"], "response": turn["content"]}
        return {"role": "tool", "parts": [part]}
    message = _message(turn["role"], turn["content"])
    calls = [(call["id"], call["function"]) for call in turn.get("tool_calls", ())]
    message["parts"] += [_call(name, function["name"], function["arguments"]) for name, function in calls]
    return message


def _message(role: str, text: str, finish_reason: str | None = None) -> dict[str, Any]:
    reason = _FINISH_REASONS.get(finish_reason or "", finish_reason)
    return without_none({"role": role, "parts": [{"type": "text", "content": text}], "finish_reason": reason})


def _call(name: str, tool: str, arguments: str) -> dict[str, Any]:
    """Return a tool call; its arguments are an object if they can be read as one."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments
    return {"type": "tool_call", "id": name, "name": tool, "arguments": value}
