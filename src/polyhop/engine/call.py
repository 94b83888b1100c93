"""A language model call: its prompt and model, its request, and how its reply is read and recorded."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self, TypedDict

from polyhop.common.text import estimate_tokens
from polyhop.engine.headroom import Headroom, headroom_of
from polyhop.engine.models import Models, count_tokens
from polyhop.engine.roles import RoleOptions, body_of, options_of
from polyhop.engine.score_call import ScoreCall
from polyhop.errors import CutReply, UsageError, nearest
from polyhop.lm.base import Completion, LanguageModel, Message, Request, seed_of, text_digest
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Prompt, Rendering, RenderingChoice, warn_of_fewer
from polyhop.prompts.tasks import SCORED, Output
from polyhop.prompts.tasks.base import FORMS, MAY_DECLINE
from polyhop.redaction import redacted
from polyhop.trace import Ask
from polyhop.trace.recorder import OpenStep
from polyhop.types import Kind, Passage

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The language models and prompts, which together make calls.

    ``max_tokens_per_call`` replaces the token cap of every call, which its prompt file or its method sets otherwise.
    ``reasoning_tokens`` are added to the cap for thoughts; None adds ``HEADROOM`` for models that are found to think.
    ``rendering``: ``auto`` asks each model in the form that it prefers. Tasks with a field ``kind`` are given the
    question's ``kind``.
    ``allow_unanswerable`` switches on the part of a prompt that lets its reply decline to answer (``MAY_DECLINE``).
    """

    models: Models
    prompts: PromptBook = field(default_factory=PromptBook)
    rendering: RenderingChoice = "auto"
    max_tokens_per_call: int | None = None
    reasoning_tokens: int | None = None
    role_options: RoleOptions = field(default_factory=dict)
    kind: Kind = "qa"
    allow_unanswerable: bool = False
    _last: dict[Hashable, list[dict[str, str]]] = field(default_factory=dict, repr=False, compare=False)

    def model_of(self, task: str) -> LanguageModel:
        """Return the language model for a task, by the role of its prompt."""
        return self.models(task, self.prompts.role(task))

    def rendering_of(self, model: LanguageModel) -> Rendering:
        """Return the form in which a model is asked, unless its server turns out to refuse JSON schemas."""
        if self.rendering != "auto":
            return self.rendering
        return "json" if model.capabilities.prefers_json else "text"

    @property
    def renderings(self) -> str:
        """The form in which the models are asked; if it differs, that of each role or task."""
        forms = {name: self.rendering_of(model) for name, model in sorted(self.models.by_name.items())}
        if len(set(forms.values())) == 1:
            return next(iter(forms.values()))
        return ", ".join(form if name == "default" else f"{name}={form}" for name, form in forms.items())

    def call(
        self, task: str, fields: Fields, options: Options | None, *, final: bool = False, ignoring: Collection[int] = ()
    ) -> Call:
        """Render the call of a task. Its options override the head of the prompt file. ``ignoring``: the ``id`` of each
        model that is asked in text because its server ignores schemas."""
        prompt = self.prompts[task]
        fields = {"kind": self.kind, **fields} if "kind" in prompt.task.fields else fields
        check_fields(task, fields, prompt.task.fields)
        fields = {**fields, MAY_DECLINE: True} if self.allow_unanswerable and prompt.may_decline else fields
        settings = prompt.options(fields)
        own = options_of(self.role_options, task, (options or {}).get("role", settings["role"]))
        settings["temperature"] = own.get("temperature", settings["temperature"])
        cap = own.get("max_tokens_per_call", self.max_tokens_per_call)
        room = own.get("reasoning_tokens", self.reasoning_tokens)
        settings |= {"logprobs": False, **(options or {})}
        settings["max_tokens"] = cap or settings["max_tokens"]
        model = self.models(task, settings["role"])
        wanted = self.rendering_of(model)
        chosen = wanted == "json" and self.rendering == "auto" and model.capabilities.json_schema
        rendering = prompt.form_of(wanted if chosen or self.rendering != "auto" else "text")
        chosen = chosen and rendering == "json"
        if ignored := chosen and id(model) in ignoring:
            chosen, rendering = False, prompt.form_of("text")
        turns = self._render(prompt, fields, rendering, settings["shots"])
        if (
            not prompt.task.continues and (shown := len(turns) // 2 - 1) < settings["shots"]
        ):  # two turns a demonstration, the system's and the input
            warn_of_fewer(task, shown, settings["shots"])
            settings["shots"] = shown
        body, headroom = body_of(own), headroom_of(self.models.memory(model), cap, room)
        return Call(
            prompt, fields, settings, model, rendering, turns, headroom,
            final=final, extra_body=body, chosen=chosen, ignored=ignored,
        )  # fmt: skip

    def _render(self, prompt: Prompt, fields: Fields, rendering: Rendering, shots: int) -> list[dict[str, str]]:
        """Render a prompt; the last is kept, because a call that was fitted into a context is made next."""
        key = (prompt.task.name, rendering, shots, *[freeze(fields[name]) for name in prompt.task.fields])
        if (turns := self._last.get(key)) is None:
            turns = prompt.render(fields, rendering=rendering, shots=shots)
            self._last.clear()
            self._last[key] = turns
        return list(turns)

    def score_call(
        self, task: str, targets: Sequence[str], temperature: float, fields: Fields, options: Options | None
    ) -> ScoreCall:
        """Render the call that scores ``targets`` after the prompt of a task."""
        model, prompt = self._scored_prompt(task, fields, options)
        return ScoreCall(task, fields, model, prompt, targets, temperature)

    def prompt_tokens(self, task: str, fields: Fields, options: Options | None) -> int:
        """Count the tokens of the prompt of a task: instruction, demonstrations and input."""
        if task in SCORED:
            return count_tokens(*self._scored_prompt(task, fields, options))
        return self.call(task, fields, options).prompt_tokens

    def _scored_prompt(self, task: str, fields: Fields, options: Options | None) -> tuple[LanguageModel, str]:
        """Return the model that scores a task, and the whole prompt as one text."""
        if task not in SCORED:
            call = self.call(task, fields, options)
            return call.model, "\n\n".join(turn["content"] for turn in call.turns)
        prompt = self.prompts.scored(task)
        check_fields(task, fields, (prompt.task.target, *prompt.task.fields))
        return self.models(task, (options or {}).get("role", prompt.settings.role)), prompt.render(fields)


def correction(reply: str, complaint: str) -> list[dict[str, str]]:
    """Return the turns that a corrective retry adds: the reply, and what was wrong with it."""
    wanted = f"That could not be read: {complaint}. Reply again, exactly in the form asked for."
    return [{"role": "assistant", "content": reply[:2000] or "(nothing)"}, {"role": "user", "content": wanted}]


def check_fields(task: str, fields: Fields, known: Sequence[str]) -> None:
    """Check that a task is asked with exactly its fields; else raise ``UsageError``."""
    if fields.keys() == set(known):
        return
    wrong = sorted(fields.keys() ^ set(known))
    hint = nearest(wrong[0], known)
    raise UsageError(
        f"{task} is asked with the fields {', '.join(known)}; {', '.join(wrong)} "
        f"{'is' if len(wrong) == 1 else 'are'} missing or unknown" + (f" ({hint}?)" if hint else "")
    )


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
