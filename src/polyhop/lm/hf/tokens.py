"""Text to token ids and back. A text never becomes control tokens: what looks like one is encoded as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from polyhop.errors import UsageError
from polyhop.lm.base import Message
from polyhop.lm.hf.scoring import Ids
from polyhop.lm.tool_text import MARKS
from polyhop.lm.tools import Tool
from polyhop.lm.wire import flatten

_BEFORE = ":"  # what the target's tokens are separated from; a prompt to be scored ends in much the same
_PROBE = "tool_of_polyhop"


class Tokens:
    """The tokenizer of a checkpoint; safe to use from several threads.

    A prompt and its target are tokenised separately, the target as after a space, and concatenated. So a target has the
    same tokens after every prompt (scores after several prompts can be compared token by token), and a prompt before
    every target (its states can be reused). Space at the join is dropped. With an encoder-decoder each is a separate
    text with its own end mark.
    """

    def __init__(self, tokenizer: Any, *, is_encoder_decoder: bool) -> None:
        """``tokenizer``: a fast one of transformers. ``is_encoder_decoder``: for an encoder-decoder."""
        kind, kept = type(tokenizer.backend_tokenizer), tokenizer.backend_tokenizer.to_str()
        self._plain, self._marked = kind.from_str(kept), kind.from_str(kept)
        for own in (self._plain, self._marked):
            own.no_truncation()
            own.no_padding()
        self._plain.encode_special_tokens = True
        self._tokenizer, self._is_encoder_decoder = tokenizer, is_encoder_decoder
        self._head, self._tail = self._frame()
        marks = filter(None, {*tokenizer.all_special_tokens, *map(str, tokenizer.added_tokens_decoder.values())})
        self._marks, self._special = _any_of(marks), _any_of(filter(None, tokenizer.all_special_tokens))
        self.chats = bool(getattr(tokenizer, "chat_template", None))
        self.takes_tools = self.chats and self._shows_tools()
        self._call_marks = {self._plain.token_to_id(mark): mark for mark in MARKS}

    def prompt(self, text: str) -> Ids:
        """Tokenise a prompt to be scored or continued; a causal model's gets no end mark."""
        ids = self._ids(text.rstrip())
        if self._is_encoder_decoder:
            return (*self._head, *ids, *self._tail)
        return (*self._head, *ids) or self._start()

    def target(self, text: str) -> Ids:
        """Tokenise a text that may follow a prompt; an empty text has no tokens with a causal model."""
        text = text.strip()
        if self._is_encoder_decoder:
            return (*self._head, *self._ids(text), *self._tail)
        if not text:
            return ()
        before, both = self._ids(_BEFORE), self._ids(f"{_BEFORE} {text}")
        return both[len(before) :] if both[: len(before)] == before else self._ids(f" {text}")

    def chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Ids:
        """Tokenise a chat by the checkpoint's template, up to its reply; without a template, the plain text."""
        if not self.chats:
            return self.prompt(flatten(messages))
        return tuple(self._marked.encode(_valid(self._chat_text(messages, tools)), add_special_tokens=False).ids)

    def _chat_text(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        turns = [self._turn(message) for message in messages]
        definitions = [tool.definition for tool in tools]
        try:
            return self._templated(turns, definitions)
        except Exception:  # noqa: BLE001 - a template raises what it likes if it allows no system turn
            return self._templated(_without_system(turns), definitions)

    def begun(self, messages: Sequence[Message], *, as_text: bool) -> Ids:
        """Tokenise a reply that is to be continued, the last turn if it is an assistant's, after the turns before it.
        ``as_text``, or without a template, all are one text. Its own tags may be tokens; control tokens are broken."""
        begun = messages[-1]["content"] if messages[-1]["role"] == "assistant" else ""
        if as_text or not self.chats:
            own = self._special.sub(_broken, flatten(messages))
            return (*self._head, *self._marked.encode(_valid(own), add_special_tokens=False).ids) or self._start()
        before = self._chat_text([*messages[:-1]] if begun else messages)
        own = self._special.sub(_broken, begun)
        opening = before.rstrip().removesuffix("<think>")
        if own.lstrip().startswith("<think>") and len(opening) < len(before.rstrip()):
            before = opening  # the template opened the thoughts, as the text does
        return tuple(self._marked.encode(_valid(before + own), add_special_tokens=False).ids)

    def marked(self, text: str) -> Ids:
        """Tokenise a text in which control tokens are intended."""
        return tuple(self._marked.encode(_valid(text)).ids)

    def vocabulary(self) -> dict[str, int]:
        """Return the id of each token, by its spelling."""
        return dict(self._plain.get_vocab(with_added_tokens=True))

    def cut(self, prompt: Ids, max_tokens: int) -> Ids:
        """Cut a prompt at its beginning; its start mark is kept."""
        head = self._head[:max_tokens]
        return (*head, *prompt[len(prompt) - max_tokens + len(head) :])

    def text(self, ids: Sequence[int]) -> str:
        """Decode tokens; control tokens are left out."""
        return str(self._plain.decode(list(ids), skip_special_tokens=True))

    def text_with_calls(self, ids: Sequence[int]) -> str:
        """Decode tokens; of the control tokens, those around calls of tools are kept."""
        parts = []
        for mark, group in groupby(ids, self._call_marks.get):
            part = list(group)
            parts.append(mark * len(part) if mark else self.text(part))
        return "".join(parts)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text that each token adds; a character in several tokens comes with its last."""
        found, known = [], ""
        for stop in range(1, len(ids) + 1):
            text = self.text(ids[:stop])
            if text.endswith("\ufffd") and stop < len(ids):
                found.append("")
                continue
            found.append(text[len(known) :] if text.startswith(known) else "")
            known = text
        return found

    def names(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the tokens as the vocabulary spells them."""
        return tuple(str(self._plain.id_to_token(number)) for number in ids)

    def count(self, text: str) -> int:
        """Count the tokens of a text, without the marks at its ends."""
        return len(self._ids(text))

    def truncate(self, text: str, max_tokens: int) -> str:
        """Cut ``text`` at a token's end, so that it has at most ``max_tokens`` tokens."""
        offsets = self._plain.encode(_valid(text), add_special_tokens=False).offsets
        if len(offsets) <= max_tokens:
            return text
        for kept in range(max(max_tokens, 0), 0, -1):
            cut = text[: offsets[kept - 1][1]]
            if self.count(cut) <= max_tokens:  # nearly always at once: a cut text can split otherwise
                return cut
        return ""

    def _ids(self, text: str) -> Ids:
        return tuple(self._plain.encode(_valid(text), add_special_tokens=False).ids)

    def _frame(self) -> tuple[Ids, Ids]:
        """Return the marks that the tokenizer sets before and after a text."""
        bare, whole = self._ids("a"), tuple(self._plain.encode("a").ids)
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return whole[:start], whole[start + len(bare) :]
        return (), ()

    def _start(self) -> Ids:
        """Return the tokens of an empty prompt: the start mark, else the end mark of a text before."""
        for mark in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if mark is not None:
                return (mark,)
        raise UsageError("an empty prompt cannot be scored: this tokenizer has neither a start nor an end mark")

    def _harmless(self, content: str) -> str:
        """Break control tokens in a turn's text, so that it cannot end the turn or begin another."""
        return self._marks.sub(_broken, content)

    def _turn(self, message: Message) -> dict[str, Any]:
        """Return a turn as templates take it: with the arguments of calls as objects."""
        turn: dict[str, Any] = {"role": str(message["role"]), "content": self._harmless(message["content"])}
        turn |= {name: self._harmless(str(message[name])) for name in ("tool_call_id", "name") if name in message}
        if calls := message.get("tool_calls"):
            turn["tool_calls"] = [self._call(call) for call in calls]
        return turn

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        name, text = (self._harmless(call["function"][part]) for part in ("name", "arguments"))
        try:
            arguments = json.loads(text or "{}", strict=False)
        except (ValueError, RecursionError):
            arguments = text
        return {"id": call["id"], "type": "function", "function": {"name": name, "arguments": arguments}}

    def _shows_tools(self) -> bool:
        """Return True if the template writes the tools that it is given."""
        function = {"name": _PROBE, "description": _PROBE, "parameters": {"type": "object", "properties": {}}}
        try:
            text = self._templated([{"role": "user", "content": "a"}], [{"type": "function", "function": function}])
        except Exception:  # noqa: BLE001 - a template raises what it likes
            return False
        return _PROBE in text

    def _templated(self, turns: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()) -> str:
        given = {"tools": list(tools)} if tools else {}
        return str(self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **given))


def _any_of(marks: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern of any of these marks."""
    return re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True))) or r"(?!)")


def _broken(mark: re.Match[str]) -> str:
    return mark[0][:1] + " " + mark[0][1:]


def _valid(text: str) -> str:
    """Replace each lone surrogate by one character, because no tokenizer accepts them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _without_system(turns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Move the system turn into the first user turn, for templates without system turns."""
    system = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "system")
    first, *rest = [turn for turn in turns if turn["role"] != "system"]
    return [{**first, "content": f"{system}\n\n{first['content']}".strip()}, *rest]
