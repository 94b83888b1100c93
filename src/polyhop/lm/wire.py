"""The JSON of OpenAI's chat and text completions: requests written, replies read. ``BadReply`` for any other JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeGuard

import orjson

from polyhop.common.text import estimate_tokens
from polyhop.data.lines import check_depth
from polyhop.lm.base import Completion, Message, Request, TokenUsage
from polyhop.lm.context import sent_tokens
from polyhop.lm.reply import Span, answer_spans, answer_tokens
from polyhop.lm.tool_text import MAX_CALLS, kept_calls, with_calls
from polyhop.lm.tool_turns import assistant_message, call_id
from polyhop.lm.tools import CARRIED, ToolCall, text_of
from polyhop.lm.verdicts import against_other
from polyhop.net.failures import BadReply

Scored = tuple[str, "Sequence[int] | None", "float | None"]
"""A token in a chat server's reply: text, bytes, log-probability."""

_NAMED = ("properties", "$defs", "definitions")
FILTERED = Completion(text="", finish_reason="content_filter")
"""A withheld answer: no text, and the reason."""
MISFIT = Completion(text="", finish_reason="misfit")
"""A reply that the server could not fit into the form it was held to; what the model wrote is lost."""


_REASONS = {
    **dict.fromkeys(("end_turn", "stop_sequence", "eos_token", "complete"), "stop"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(("tool_use", "tool_call", "function_call"), "tool_calls"),
    **dict.fromkeys(
        (
            *("content_filtered", "guardrail_intervened", "refusal"),
            *("safety", "recitation", "blocklist", "prohibited_content", "spii"),
        ),
        "content_filter",
    ),
}
"""OpenAI's finish reasons, which polyhop uses, by those of Anthropic, Google, Bedrock, Cohere and Mistral."""
_CALL = frozenset({"id", "type", "function", "index"})
"""The fields of a call; servers may want others back."""
_MAX_TOKENS = 2**32
"""Maximum of a count of tokens that is believed: sums of larger ones could not be written as JSON."""
_BROKEN_OFF = frozenset({"error", "abort", "insufficient_system_resource"})
"""The reasons of OpenRouter, of vLLM and SGLang, and of DeepSeek for a reply that they could not finish."""


def to_json(payload: Mapping[str, Any]) -> bytes:
    """Write a request's body; lone surrogates, which are not valid Unicode, are replaced."""
    try:
        return orjson.dumps(payload)
    except TypeError:
        return orjson.dumps(_replace_surrogates(payload))


def flatten(messages: Sequence[Message]) -> str:
    """Join the messages of a chat into one text, with a blank line between them.

    No role names and no ending are added, so the model continues exactly what a prompt file says. An assistant's turn
    at the end, which is to be continued, follows at once.

    >>> flatten([{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who?"}])
    'Answer.\\n\\nWho?'
    >>> flatten([{"role": "user", "content": "Who?"}, {"role": "assistant", "content": " It was"}])
    'Who? It was'
    """
    *before, last = messages
    begun = bool(before) and last["role"] == "assistant"
    text = "\n\n".join(message["content"] for message in (before if begun else messages))
    return text + last["content"] if begun else text


def response_format(task: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``response_format`` for the JSON schema of a task's output."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", task)[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": _strict(schema)}}


def turns(messages: Sequence[Message]) -> list[Mapping[str, Any]]:
    """Return the messages as chat servers take them: a turn of calls alone has null for its content."""
    return [
        {**message, "content": message["content"] or None} if message.get("tool_calls") else message
        for message in messages
    ]


def tool_parameters(request: Request) -> dict[str, Any]:
    """Return the parameters of a request for its tools: those that are not the API's defaults."""
    if not request.tools:
        return {}
    parameters: dict[str, Any] = {"tools": [tool.definition for tool in request.tools]}
    if request.tool_choice in ("required", "none"):
        parameters["tool_choice"] = request.tool_choice
    elif request.tool_choice != "auto":
        parameters["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice}}
    return parameters if request.parallel_tool_calls else {**parameters, "parallel_tool_calls": False}


def read_chat(data: Any, request: Request, stop: Sequence[str] = ()) -> Completion:
    """Read a reply of ``/chat/completions``; the text is cut at ``stop`` in case the server did not."""
    choice = _choice(data)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise BadReply("the reply has a choice without a message")
    if _reason(choice) == "content_filter" or (message.get("refusal") and not message.get("content")):
        return _filtered(data, request)
    text, thought = _content(message.get("content"))
    thought = message.get("reasoning_content") or message.get("reasoning") or thought
    if request.continues == "turn" and isinstance(thought, str) and thought:
        before = request.messages[-1]["content"] if request.prefilled else ""
        text, thought = _with_thoughts(thought, text, before), None
    reply = _completion(data, request, choice, text, thought if isinstance(thought, str) else None, stop)
    return _with_calls(reply, message, request) if request.tools else reply


def _with_thoughts(thought: str, text: str, before: str) -> str:
    """Join what a server took apart: the thoughts of a text that goes on after ``before``, and the rest of it."""
    opening = "" if before.rfind("<think>") > before.rfind("</think>") else "<think>\n"
    return f"{opening}{thought}\n</think>\n\n{text}" if text else opening + thought


def _with_calls(reply: Completion, message: Mapping[str, Any], request: Request) -> Completion:
    """Add the calls of the message to the reply, or those that its text has, where the server did not parse them."""
    calls = () if request.tool_choice == "none" else kept_calls(_tool_calls(message, request), request)
    if not calls:
        return with_calls(reply, request)
    carried = {name: message[name] for name in CARRIED if message.get(name)}
    check_depth([carried, *(call.extra for call in calls)])  # both are kept in traces
    reason = "length" if reply.finish_reason == "length" else "tool_calls"
    found = replace(reply, tool_calls=calls, carried=carried or None, finish_reason=reason)
    if reply.usage is None or not reply.usage.estimated:
        return found
    written = estimate_tokens(text_of(assistant_message(found)))
    return replace(found, usage=replace(reply.usage, completion_tokens=written))


def _tool_calls(message: Mapping[str, Any], request: Request) -> list[ToolCall]:
    """Read the calls of a message, never too many. Arguments are JSON in a string, or an object (TGI, some of
    llama.cpp's versions)."""
    rows = message.get("tool_calls") or []
    if isinstance(rows, Mapping):  # a call alone, as TGI sends it
        rows = [rows]
    calls = []
    for i, row in enumerate(islice(rows, MAX_CALLS)):
        function = row["function"]
        arguments = function.get("arguments")
        extra = {name: value for name, value in row.items() if name not in _CALL and value is not None}
        calls.append(
            ToolCall(
                id=str(row.get("id") or "") or call_id(request, i),
                name=str(function.get("name") or ""),
                text=arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode(),
                extra=extra or None,
            )
        )
    known = Counter(call.id for call in calls)  # TGI numbers every call "0"
    return [replace(call, id=call_id(request, i)) if known[call.id] > 1 else call for i, call in enumerate(calls)]


def read_completion(data: Any, request: Request, stop: Sequence[str] = ()) -> Completion:
    """Read a reply of ``/completions``."""
    choice = _choice(data)
    text = choice.get("text")
    if not isinstance(text, str):
        raise BadReply("the reply has a choice without a text")
    if _reason(choice) == "content_filter":
        return _filtered(data, request)
    return _completion(data, request, choice, text, None, stop)


def _choice(data: Any) -> dict[str, Any]:
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise BadReply("the reply has no choices")
    choice: dict[str, Any] = choices[0]
    reason = choice.get("finish_reason")
    if choice.get("error") or (isinstance(reason, str) and reason in _BROKEN_OFF):
        raise BadReply(f"the server broke off the reply (finish_reason {reason!r})")
    return choice


def _reason(choice: Mapping[str, Any]) -> str:
    """Return a choice's finish reason in OpenAI's words; gateways pass on those of their providers."""
    reason = choice.get("finish_reason")
    reason = reason.lower() if isinstance(reason, str) and reason else "stop"
    return _REASONS.get(reason, reason)


def _completion(
    data: dict[str, Any],
    request: Request,
    choice: dict[str, Any],
    raw: str,
    thought: str | None,
    stop: Sequence[str],
) -> Completion:
    spans, inner = ([(0, len(raw))], None) if request.continues else answer_spans(raw)
    reason = _reason(choice)
    if stop and (cut := _cut(raw, spans, stop)) != spans:
        spans, reason = cut, "stop"
    whole = spans == [(0, len(raw))]
    text = raw if whole else "".join(raw[start:end] for start, end in spans)
    tokens = logprobs = None
    if (scored := _scored(choice.get("logprobs"), request.yes_or_no)) and (kept := _kept(scored, raw, spans, whole)):
        tokens, logprobs = kept
    return Completion(
        text=text,
        tokens=tokens,
        logprobs=logprobs,
        usage=_usage(data, request, text),
        finish_reason=reason,
        reasoning="\n\n".join(filter(None, (thought, inner))) or None,
    )


def _filtered(data: dict[str, Any], request: Request) -> Completion:
    return Completion(text="", finish_reason=FILTERED.finish_reason, usage=_usage(data, request, ""))


def _scored(logprobs: Any, yes_or_no: bool) -> list[Scored]:
    """Read the tokens of a choice's ``logprobs``, in the form of chat (llama.cpp always uses it) or of completions."""
    if not isinstance(logprobs, dict):
        return []
    if rows := logprobs.get("content"):
        scored = [(row["token"], row.get("bytes"), row.get("logprob")) for row in rows]
        others = [row.get("top_logprobs") or () for row in rows] if yes_or_no else []
        return _against(scored, [[(other["token"], other["logprob"]) for other in row] for row in others])
    values = logprobs.get("token_logprobs") or ()
    scored = [(token, None, value) for token, value in zip(logprobs.get("tokens") or (), values, strict=False)]
    return _against(scored, [(row or {}).items() for row in logprobs.get("top_logprobs") or ()] if yes_or_no else [])


def _against(scored: list[Scored], alternatives: Sequence[Iterable[tuple[str, float]]]) -> list[Scored]:
    """Give each yes or no its probability among both, where the alternatives to it came."""
    known = zip(scored, alternatives, strict=False)
    settled = [(*row[:2], row[2] and against_other(row[0], row[2], others)) for row, others in known]
    return [*settled, *scored[len(settled) :]]


def _kept(
    scored: Sequence[Scored], raw: str, spans: Sequence[Span], whole: bool
) -> tuple[tuple[str, ...], tuple[float, ...]] | None:
    """Find the tokens of the answer among those of the whole reply; None if they cannot be found."""
    tokens = tuple(token for token, _, _ in scored)
    values = [value for _, _, value in scored if value is not None]
    if len(values) < len(tokens) or not all(isinstance(value, (int, float)) for value in values):
        return None
    if whole and "".join(tokens) == raw:
        return tokens, tuple(values)
    spelt = [token.encode() for token in tokens]
    exact = [token if part is None else bytes(part) for token, (_, part, _) in zip(spelt, scored, strict=True)]
    # Half a character reads as a replacement mark in the tokens, and sometimes, but not always, in the text.
    return answer_tokens(exact, values, raw, spans) or answer_tokens(spelt, values, raw, spans)


def _cut(raw: str, spans: Sequence[Span], stop: Sequence[str]) -> list[Span]:
    kept: list[Span] = []
    for start, end in spans:
        if starts := [i for word in stop if (i := raw.find(word, start, end)) >= 0]:
            return [*kept, (start, min(starts))] if min(starts) > start else kept
        kept.append((start, end))
    return kept


def _usage(data: dict[str, Any], request: Request, text: str) -> TokenUsage:
    usage = data.get("usage")
    if isinstance(usage, dict):
        prompt_tokens, completion_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens") or 0
        if _is_count(prompt_tokens) and _is_count(completion_tokens):  # else a budget could go wrong or fail
            total = usage.get("total_tokens")
            # Gemini counts thoughts in the total alone
            thoughts = max(0, total - prompt_tokens - completion_tokens) if _is_count(total) else 0
            return TokenUsage(
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens + thoughts,
                reasoning_tokens=max(thoughts, _reasoning_tokens(usage)),
            )
    return TokenUsage(prompt_tokens=sent_tokens(request), completion_tokens=estimate_tokens(text), estimated=True)


def _reasoning_tokens(usage: Mapping[str, Any]) -> int:
    """Return the tokens of the thoughts: OpenAI's count among the details, or one beside the others (SGLang)."""
    details = usage.get("completion_tokens_details")
    count = (details if isinstance(details, dict) else usage).get("reasoning_tokens")
    return count if _is_count(count) else 0


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and 0 <= value <= _MAX_TOKENS


def _content(content: Any) -> tuple[str, str | None]:
    """Return the text and reasoning in a message's content: a string, nothing, or a list of typed parts."""
    if isinstance(content, str):
        return content, None
    if content is None:
        return "", None
    if not isinstance(content, list):
        raise BadReply("the reply's content is neither text nor a list of parts")
    parts = [part for part in content if isinstance(part, dict)]
    text = "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
    thoughts = [_content(part["thinking"])[0] for part in parts if part.get("thinking")]
    return text, "\n\n".join(thoughts) or None


def _strict(schema: Any) -> Any:
    """Convert a schema for strict servers: every object closed, every property required, no defaults."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    strict = {
        key: {name: _strict(item) for name, item in value.items()} if key in _NAMED else _strict(value)
        for key, value in schema.items()
        if key != "default"
    }
    if isinstance(schema.get("properties"), Mapping):
        strict["additionalProperties"] = False
        strict["required"] = list(schema["properties"])
    return strict


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {key: _replace_surrogates(item) for key, item in value.items()}
    return [_replace_surrogates(item) for item in value] if isinstance(value, (list, tuple)) else value
