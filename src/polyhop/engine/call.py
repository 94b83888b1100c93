"""A language model call: its prompt and model, its request, and how its reply is read and recorded."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self, TypedDict

from polyhop.common.text import estimate_tokens
from polyhop.engine.headroom import Headroom
from polyhop.engine.models import count_tokens
from polyhop.errors import CutReply, UsageError
from polyhop.lm.base import Completion, LanguageModel, Message, Request, seed_of, text_digest
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Prompt, Rendering
from polyhop.prompts.tasks import Output
from polyhop.prompts.tasks.base import FORMS
from polyhop.redaction import redacted
from polyhop.trace import Ask
from polyhop.trace.recorder import OpenStep
from polyhop.types import Passage

Fields = Mapping[str, Any]


class Options(TypedDict, total=False):
    """Settings of one ``ask`` that override the head of its prompt file."""

    role: str
    temperature: float
    max_tokens: int
    stop: tuple[str, ...]
    shots: int
    logprobs: bool
    yes_or_no: bool


@dataclass(slots=True)
class Call:
    """A language model call to be made; ``step`` is the kind of its step in the trace."""

    step: ClassVar[type[Ask]] = Ask

    prompt: Prompt
    fields: Fields
    settings: Fields
    model: LanguageModel
    rendering: Rendering
    turns: list[dict[str, str]]
    headroom: Headroom
    attempt: int = 1
    is_correction: bool = False
    final: bool = False
    sample: int | None = None
    """Its number among identical calls, if it repeats one of them; None for the next number."""
    extra_body: Fields = field(default_factory=dict)
    chosen: bool = False
    """True if ``auto`` chose json for it: it is asked in text if the server refuses the schema."""
    ignored: bool = False
    """True if ``auto`` would choose json, but the server is known to ignore the schema: it is asked in text."""

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """The key that identical calls share: everything in their request except the room added for thoughts. It
        outlives the call, so it holds hashes instead of texts."""
        own = (self.prompt.task.name, self.model.name, *self.settings.values(), freeze(self.extra_body))
        return (*own, *map(text_digest, self.texts))

    @property
    def texts(self) -> list[str]:
        """The text of every turn."""
        return [turn["content"] for turn in self.turns]

    @property
    def links(self) -> dict[str, OpenStep]:
        """The earlier steps that the call's step refers to, besides one that it retries."""
        return {}

    @property
    def continues_turn(self) -> bool:
        """True if the reply goes on with a text that the assistant began."""
        return self.prompt.task.continues and self.turns[-1]["role"] == "assistant"

    @property
    def max_tokens(self) -> int:
        """The token cap: the task's, and the room for thoughts."""
        return int(self.settings["max_tokens"]) + self.headroom.tokens

    @property
    def prompt_tokens(self) -> int:
        """The tokens of all turns, by the model's tokenizer or estimated."""
        count = getattr(self.model, "count_tokens", estimate_tokens)
        return sum(map(count, self.texts))

    @property
    def question(self) -> str:
        """The question that the reply answers: the sub-question, if the call has one."""
        return str(self.fields.get("sub_question") or self.fields.get("question") or "")

    def request(self, *, sample: int, seed: int | None) -> Request:
        """Return the request to the model: sample number ``sample`` of a run with this ``seed``."""
        return self._request(sample, seed)

    def _request(self, sample: int, seed: int | None, **offer: Any) -> Request:
        """Return the request with the tools of an ``offer``, if there is one; it has no schema then."""
        can, settings = self.model.capabilities, self.settings
        messages: Sequence[Message] = self.turns  # type: ignore[assignment]
        takes_schema = self.rendering == "json" and (self.chosen or can.json_schema) and not offer
        return Request(
            task=self.prompt.task.name,
            fields=self.fields,
            messages=messages,
            schema=self.prompt.schema(self.fields) if takes_schema else None,
            requires_schema=self.chosen,
            max_tokens=self.max_tokens,
            temperature=settings["temperature"],
            stop=settings["stop"],
            seed=seed_of(seed, self.prompt.task.name, sample),
            logprobs=(settings["logprobs"] or self.final) and can.token_logprobs,
            sample=sample,
            yes_or_no=settings.get("yes_or_no", False),
            extra_body=self.extra_body,
            continues=FORMS[self.fields["form"]] if self.prompt.task.continues else "",
            **offer,
        )

    def read(self, reply: Completion, *, may_grow: bool) -> tuple[Output | None, str]:
        """Return the reply's output, or None and what is wrong with it.

        If the call ``may_grow``, a text is not read if thoughts may have cut off its end.
        """
        if not isinstance(reply, Completion):
            raise UsageError(
                f"the language model {self.model.name}: complete must return a polyhop.lm.base.Completion, "
                f"not a {type(reply).__name__}"
            )
        try:
            if reply.value is not None:
                output = self.prompt.check(reply.value)
            elif reply.thoughts_cut_it and (may_grow or reply.ran_out):
                before = "any text came" if reply.ran_out else "the text ended"
                raise Malformed(f"all {self.max_tokens:,} tokens were spent before {before}")
            elif reply.text.strip() or self.prompt.task.continues:
                is_cut = reply.finish_reason == "length"
                output = self.prompt.read(reply.text, self.fields, self.rendering, is_cut=is_cut)
            else:
                raise Malformed("the reply is empty")
        except Malformed as complaint:
            return None, str(complaint)
        return output.with_completion(reply, self.question, self.fields), ""

    def in_text(self) -> Self:
        """Render again in text a call that ``auto`` asked in json, with the turns of its retry; or a call that
        continues a text, with that text in the user's turn."""
        if self.prompt.task.continues:
            fields = {**self.fields, "form": "shown"}
            settings = {**self.settings, "stop": ()}  # a copy of the text would end at its first one
            return replace(self, fields=fields, settings=settings, turns=self.prompt.render(fields))
        rendering = self.prompt.form_of("text")
        turns = self.prompt.render(self.fields, rendering=rendering, shots=self.settings["shots"])
        return replace(self, rendering=rendering, turns=[*turns, *self.turns[len(turns) :]], chosen=False)

    def corrected(self, reply: str, complaint: str) -> Call:
        """Return the corrective retry: the same call, with the reply and what was wrong with it."""
        turns = [*self.turns, *correction(reply, complaint)]
        return replace(self, turns=turns, attempt=self.attempt + 1, is_correction=True, sample=None)

    def with_headroom(self, sample: int) -> Call:
        """Return the retry of a call whose thoughts spent its cap: the same sample, with room for thoughts."""
        return replace(self, headroom=self.headroom.grown(), attempt=self.attempt + 1, sample=sample)

    def cut_error(self, after: str = "") -> CutReply:
        """Return the error of a call that spent its cap before any text came; ``after``: the result of the retry."""
        spent = f"{self.model.name} spent all {self.max_tokens:,} tokens of a call ({self.prompt.task.name})"
        return CutReply(f"{spent} before any text came{after}. {self.headroom.remedy(self.max_tokens)}")

    def record(self, request: Request, reply: Completion, output: Output | None, complaint: str) -> dict[str, Any]:
        """Return the data of the call's step in the trace."""
        usage = reply.usage
        return {
            "task": self.prompt.task.name,
            "model": redacted(self.model.name),
            "fields": self.fields,
            "output": output.model_dump() if output else None,
            "text": reply.text,
            "reasoning": reply.reasoning,
            "finish_reason": reply.finish_reason,
            "prompt_tokens": usage.prompt_tokens if usage else self.prompt_tokens,
            "completion_tokens": usage.completion_tokens if usage else count_tokens(self.model, reply.text),
            "reasoning_tokens": usage.reasoning_tokens if usage else 0,
            "prompt_words": sum(map(_count_words, self.texts)),
            "completion_words": len(reply.text.split()),
            "estimated": usage.estimated if usage else not hasattr(self.model, "count_tokens"),
            "prompt_hash": request.digest(),
            "rendering": self.rendering,
            "shots": self.settings["shots"],
            "max_tokens": request.max_tokens,
            "sample": request.sample,
            "tokens": reply.tokens if request.logprobs else None,
            "logprobs": reply.logprobs if request.logprobs else None,
            "attempt": self.attempt,
            "problem": complaint or None,
            "final": self.final,
            "cached": reply.cached,
            "retries": reply.retries,
        }


class Answered(NamedTuple):
    """A call as it was sent, its request and the reply, and the output read from it, or None and the ``complaint``."""

    call: Call
    request: Request
    reply: Completion
    output: Output | None
    complaint: str


class Attempt(NamedTuple):
    """A call that was made: its reply, and the output read from it, or None and the ``complaint``."""

    call: Call
    step: OpenStep
    sample: int
    reply: Completion
    output: Output | None
    complaint: str

    def retry(self) -> Call | None:
        """Return the call that retries one whose reply could not be read: with room for thoughts if they spent the
        token cap, else with the reply and what was wrong. None if the reply was read, and after each has been tried."""
        if self.output is not None:
            return None
        if self.reply.thoughts_cut_it and self.call.headroom.more:
            return self.call.with_headroom(self.sample)
        if self.reply.ran_out or self.call.is_correction:
            return None
        return self.call.corrected(self.reply.text, self.complaint)


def correction(reply: str, complaint: str) -> list[dict[str, str]]:
    """Return the turns that a corrective retry adds: the reply, and what was wrong with it."""
    wanted = f"That could not be read: {complaint}. Reply again, exactly in the form asked for."
    return [{"role": "assistant", "content": reply[:2000] or "(nothing)"}, {"role": "user", "content": wanted}]


@lru_cache(maxsize=256)
def _count_words(text: str) -> int:
    """Count the words of a turn; it is cached because instructions and demonstrations are the same in every call."""
    return len(text.split())


def freeze(value: Any) -> Hashable:
    """Make a field's value hashable: passages by id and text, sequences and mappings as tuples.

    >>> freeze({"passages": [Passage("p", "T", "x")]})
    (('passages', (('p', 'x'),)),)
    """
    match value:
        case str() | bool() | int() | None:
            return value
        case Passage():
            return (value.id, value.text)
        case list() | tuple():
            return tuple(map(freeze, value))
        case Mapping():
            return tuple((key, freeze(item)) for key, item in value.items())
        case _:
            return value if isinstance(value, Hashable) else repr(value)
