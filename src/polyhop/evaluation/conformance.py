"""The conformance of a language model: what polyhop can use it for, found out by some forty short calls.

The prompt tasks of the five systems are asked in the text and the JSON form, each with its first demonstration as the
input and others as its shots, as many as a method shows. Then each of ``CHECKS`` tests one capability of the model.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import orjson

from polyhop.common.text import counted
from polyhop.engine.budget import Prices
from polyhop.errors import LMError, PolyhopError, SchemaRefused
from polyhop.lm.base import Completion, LanguageModel, Message, Request, ScoreRequest
from polyhop.lm.openai import OpenAICompatible
from polyhop.metrics.answers import squad_f1
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Prompt, Rendering
from polyhop.prompts.tasks import Output
from polyhop.redaction import redacted
from polyhop.types import Passage

SYSTEM_TASKS: Mapping[str, tuple[str, ...]] = {
    "Tree of Reviews": ("tor.review", "tor.complete", "tor.fuse"),
    "ReSP": ("resp.summarize", "resp.judge", "resp.respond", "resp.plan", "resp.generate"),
    "GE-Reasoning": ("ge.graph", "ge.filter", "ge.subquestion", "ge.subanswer", "ge.answer"),
    "SearChain": ("searchain.chain", "searchain.trace"),
}
"""The tasks that are asked, by system. PromptRank generates nothing: the check of scores stands for it."""
REASONING_TOKENS = 4096
"""Tokens added to the cap of every call once a reply shows that the model thinks."""
CONTEXTS = (6_000, 14_000)
"""Tokens of the long prompts."""
CONCURRENCY = 4
SAME_ANSWER = 0.5
"""Minimum F1 of a right answer with the demonstration's."""
SAME_WORDS = 0.3
"""Minimum F1 of the words of a right output that has neither a judgment nor an answer."""
_MAX_TEXT = 400
_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Look up the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

Progress = Callable[[int, int], None]
State = Literal["yes", "no", "not tested"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """One task asked in one form.

    ``parsed``: the reply could be read. ``right``: its output agrees with the demonstration's (``agrees``). ``cut``:
    the reply reached its token cap. ``problem``: why it could not be read. ``text``: the beginning of the reply.
    """

    task: str
    system: str
    rendering: Rendering
    parsed: bool
    right: bool
    cut: bool
    problem: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One capability that was tested. ``detail`` says how it showed."""

    name: str
    state: State
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """The results of a model's conformance test.

    ``seconds_per_call`` is the mean over the calls of the tasks, several at once. ``tokens_per_second``: tokens of a
    reply per second of its call. ``cost``: of all calls, None without prices. ``thinks``: replies came only with
    ``REASONING_TOKENS`` more. ``tokens_estimated``: the server did not count them.
    """

    model: str
    tasks: tuple[TaskResult, ...]
    checks: tuple[CheckResult, ...]
    thinks: bool
    calls: int
    seconds_per_call: float
    tokens_per_second: float
    prompt_tokens: int
    completion_tokens: int
    tokens_estimated: bool
    cost: float | None

    def parsed(self, rendering: Rendering) -> int:
        """Return the number of tasks whose reply in this form could be read."""
        return sum(result.parsed for result in self.tasks if result.rendering == rendering)

    @property
    def rendering(self) -> Rendering | None:
        """The recommended form: in which more replies are read, then more are right; at a tie JSON, if the server holds
        replies to a schema. None if no reply can be read."""
        holds = any(check.name == "JSON schema" and check.state == "yes" for check in self.checks)
        right = {form: sum(row.right for row in self.tasks if row.rendering == form) for form in get_args(Rendering)}
        best = max(get_args(Rendering), key=lambda form: (self.parsed(form), right[form], (form == "json") is holds))
        return best if self.parsed(best) else None

    @property
    def recommended(self) -> list[str]:
        """The recommended options of the command line, as words; [] if no reply can be read."""
        if self.rendering is None:
            return []
        room = ["--reasoning-tokens", str(REASONING_TOKENS)] if self.thinks else []
        return ["--lm", self.model, "--rendering", self.rendering, *room]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        row: dict[str, Any] = orjson.loads(orjson.dumps(self))
        return {**row, "rendering": self.rendering, "recommended": self.recommended}


async def examine(
    model: LanguageModel,
    *,
    prompts: PromptBook | None = None,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    progress: Progress | None = None,
) -> Conformance:
    """Test a model. ``max_tokens`` replaces the cap of every call, which then never grows.

    Raises:
        LMError: the model cannot be reached.
    """
    asker = Asker(model, prompts or PromptBook(), max_tokens)
    named = [(system, task) for system, tasks in SYSTEM_TASKS.items() for task in tasks]
    work = [(system, task, form) for form in get_args(Rendering) for system, task in named]
    total, done = len(work) + len(CHECKS), 0
    limit = asyncio.Semaphore(CONCURRENCY)

    def report() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total)

    async def asked(system: str, task: str, form: Rendering) -> TaskResult:
        async with limit:
            try:
                result = await ask_task(asker, system, task, form)
            except SchemaRefused as error:
                result = _failed(system, task, form, error)
            except LMError as error:
                if not asker.calls:
                    raise
                result = _failed(system, task, form, error)
        report()
        return result

    first = await asked(*work[0])  # alone, because it fails if the model cannot be reached, and shows if it thinks
    results = [first, *await asyncio.gather(*(asked(*one) for one in work[1:]))]
    speed, tokens = asker.seconds / max(asker.calls, 1), asker.completion_tokens / max(asker.seconds, 1e-9)
    checks = []
    for name, check in CHECKS.items():
        try:
            state, detail = await check(asker)
        except PolyhopError as error:
            state, detail = "no", str(error)
        checks.append(CheckResult(name, state, redacted(detail)))
        report()
    return Conformance(
        model=redacted(model.name),
        tasks=tuple(results),
        checks=tuple(checks),
        thinks=asker.thinks,
        calls=asker.calls,
        seconds_per_call=speed,
        tokens_per_second=tokens,
        prompt_tokens=asker.prompt_tokens,
        completion_tokens=asker.completion_tokens,
        tokens_estimated=asker.estimated,
        cost=prices.cost(model.name, asker.prompt_tokens, asker.completion_tokens) if prices else None,
    )


@dataclass(slots=True)
class Asker:
    """A model that is asked prompt tasks. Its calls, tokens and seconds are counted; ``thinks`` once it was seen to."""

    model: LanguageModel
    prompts: PromptBook
    max_tokens: int | None = None
    thinks: bool = field(default=False, init=False)
    calls: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)
    prompt_tokens: int = field(default=0, init=False)
    completion_tokens: int = field(default=0, init=False)
    estimated: bool = field(default=False, init=False)

    async def ask(
        self, prompt: Prompt, fields: Mapping[str, Any], rendering: Rendering, *, schema: bool = False, **changes: Any
    ) -> Completion:
        """Return the reply to a call of a task; ``changes``: fields of its ``Request``. ``schema`` requires one."""
        messages: Sequence[Message] = prompt.render(fields, rendering=rendering, shots=prompt.settings.shots)  # type: ignore[assignment]
        request = Request(
            task=prompt.task.name,
            fields=fields,
            messages=messages,
            max_tokens=self.max_tokens or prompt.settings.max_tokens,
            stop=prompt.settings.stop,
            schema=prompt.schema(fields) if schema else None,
            requires_schema=schema,
        )
        return await self.send(replace(request, **changes))

    async def send(self, request: Request, model: LanguageModel | None = None) -> Completion:
        """Return the reply to a request; with more tokens if the model spent its cap on thoughts."""
        more = replace(request, max_tokens=request.max_tokens + REASONING_TOKENS)
        if self.thinks:
            return await self._send(more, model)
        reply = await self._send(request, model)
        thought = reply.ran_out or (reply.finish_reason == "length" and reply.reasoning)
        if not thought or self.max_tokens is not None:
            return reply
        again = await self._send(more, model)
        self.thinks = self.thinks or not again.ran_out
        return again

    async def _send(self, request: Request, model: LanguageModel | None) -> Completion:
        begun = time.perf_counter()
        reply = await (model or self.model).complete(request)
        self.seconds += time.perf_counter() - begun
        self.calls += 1
        if reply.usage:
            self.prompt_tokens += reply.usage.prompt_tokens
            self.completion_tokens += reply.usage.completion_tokens
        self.estimated = self.estimated or reply.usage is None or reply.usage.estimated
        return reply


async def ask_task(asker: Asker, system: str, task: str, rendering: Rendering) -> TaskResult:
    """Ask a task with its first demonstration as the input; compare what is read with its output."""
    expected = asker.prompts[task].demonstrations[0].output
    prompt, fields = held_out(asker.prompts[task])
    schema = rendering == "json" and asker.model.capabilities.json_schema
    try:
        reply = await asker.ask(prompt, fields, rendering, schema=schema)
    except SchemaRefused:
        reply = await asker.ask(prompt, fields, rendering)
    output, problem = read(prompt, fields, rendering, reply)
    return TaskResult(
        task=task,
        system=system,
        rendering=rendering,
        parsed=output is not None,
        right=output is not None and agrees(output, expected),
        cut=reply.finish_reason == "length",
        problem=problem,
        text=reply.text[:_MAX_TEXT],
    )


def held_out(prompt: Prompt) -> tuple[Prompt, dict[str, Any]]:
    """Return a prompt without its first demonstration, and the fields of a call from it, as a method would give them:
    lists and texts that it lacks are empty."""
    fields = replace(prompt, demonstrations=prompt.demonstrations[:1], _openings={}).example()
    for demonstration in prompt.demonstrations:
        for name, value in demonstration.fields.items():
            if fields[name] is None and isinstance(value, (str, list, tuple)):
                fields[name] = type(value)()
    return replace(prompt, demonstrations=prompt.demonstrations[1:], _openings={}), fields


def read(
    prompt: Prompt, fields: Mapping[str, Any], rendering: Rendering, reply: Completion
) -> tuple[Output | None, str]:
    """Return the output of a reply, or None and what is wrong with it."""
    try:
        if reply.value is not None:
            return prompt.check(reply.value), ""
        if not reply.text.strip():
            raise Malformed("all tokens were spent before any text came" if reply.ran_out else "the reply is empty")
        return prompt.read(reply.text, fields, rendering), ""
    except Malformed as complaint:
        return None, str(complaint)


def agrees(output: Output, expected: Output) -> bool:
    """Return True if an output agrees with a demonstration's: every judgment is the same, and the answer (without one
    and without a judgment: all words) has a sufficient F1."""
    flags = [name for name, value in expected if isinstance(value, bool)]
    if any(getattr(output, name) is not getattr(expected, name) for name in flags):
        return False
    name = expected.ANSWER or "answer"
    if answer := str(getattr(expected, name, None) or ""):
        return squad_f1(str(getattr(output, name) or ""), [answer]) >= SAME_ANSWER
    return bool(flags) or squad_f1(_words(output), [_words(expected)]) >= SAME_WORDS


def _words(output: Output) -> str:
    return " ".join(orjson.dumps(list(output.model_dump(mode="json").values())).decode().split('"'))


def _failed(system: str, task: str, form: Rendering, error: Exception) -> TaskResult:
    problem = redacted(str(error))
    return TaskResult(task=task, system=system, rendering=form, parsed=False, right=False, cut=False, problem=problem)


# --- capabilities ----------------------------------------------------------------------------------------------------

Found = tuple[State, str]


async def check_schema(asker: Asker) -> Found:
    """Ask in the text form with a JSON schema: only a server that holds replies to schemas answers in JSON."""
    prompt, fields = held_out(asker.prompts["answer.cot"])
    if not asker.model.capabilities.json_schema:
        return "no", "takes none"
    try:
        reply = await asker.ask(prompt, fields, "text", schema=True)
    except SchemaRefused:
        return "no", "refused"
    if reply.value is not None:
        return "not tested", "the model answers with values, not with text"
    try:
        prompt.check(orjson.loads(reply.text))
    except (ValueError, TypeError, Malformed):
        return "no", "ignored: the reply has another form"
    return "yes", "the reply is held to it"


async def check_seeds(asker: Asker) -> Found:
    """Draw a reply twice with the same seed at temperature 1, and once with another."""
    takes_seeds = asker.model.capabilities.seed
    prompt, fields = held_out(asker.prompts["answer.cot"])
    if not takes_seeds:
        return "no", "takes none"
    texts = [(await asker.ask(prompt, fields, "text", temperature=1.0, seed=n)).text for n in (1, 1, 2)]
    if asker.model.capabilities.seed is not takes_seeds:
        return "no", "refused"
    if texts[0] != texts[1]:
        return "no", "the same seed gave two replies"
    if not texts[0].strip():
        return "not tested", "the replies are empty"
    same = texts[1] == texts[2]
    return "yes", f"the same seed gave the same reply{'; so did another seed' if same else ', another one another'}"


async def check_logprobs(asker: Asker) -> Found:
    """Ask for the log-probabilities of the reply's tokens."""
    prompt, fields = held_out(asker.prompts["answer.read"])
    if not asker.model.capabilities.token_logprobs:
        return "no", "takes no request for them"
    reply = await asker.ask(prompt, fields, "text", logprobs=True)
    return ("yes", counted(len(reply.logprobs), "tokens")) if reply.logprobs else ("no", "the reply has none")


async def check_scoring(asker: Asker) -> Found:
    """Score the question of PromptRank's example after its path."""
    score = getattr(asker.model, "score", None)
    if not asker.model.capabilities.score or score is None:
        return "no", "cannot score a given text"
    task = "promptrank.path"
    fields = asker.prompts.example(task)
    target = str(fields[asker.prompts.scored(task).task.target])
    prompt = asker.prompts.scored(task).render(fields)
    (scores,) = await score([ScoreRequest(task=task, prompt=prompt, target=target, fields=fields)])
    return ("yes", counted(len(scores.logprobs), "tokens")) if scores.logprobs else ("no", "no scores came")


async def check_tools(asker: Asker) -> Found:
    """Offer a tool that the question needs."""
    if not isinstance(asker.model, OpenAICompatible) or not asker.model.chat:
        return "not tested", "for chat models behind a server only"
    model = copy.copy(asker.model)  # the client has no tools of its own yet: they are sent as extra fields
    model.extra_body = {**model.extra_body, "tools": [_TOOL], "tool_choice": "auto"}
    asked: Message = {"role": "user", "content": "What is the weather in Paris now? Use the tool to look it up."}
    reply = await asker.send(Request(task="doctor.tools", fields={}, messages=[asked], max_tokens=256), model)
    called = reply.finish_reason == "tool_calls"
    return ("yes", "a call came back") if called else ("no", f"no call came back ({reply.finish_reason})")


async def check_context(asker: Asker, tokens: int) -> Found:
    """Ask for a fact in the first of many passages."""
    prompt = asker.prompts["answer.read"]
    passages = [Passage("0", "The blue door", "The code of the blue door is 7421.")]
    while sum(len(passage.text) for passage in passages) < 4 * tokens:
        n = len(passages)
        text = f"House {n} of the long street was built in {1700 + n} and painted in colour number {3 * n}. " * 4
        passages.append(Passage(str(n), f"House {n}", text.strip()))
    fields = {"question": "What is the code of the blue door?", "passages": passages}
    reply = await asker.ask(prompt, {**dict.fromkeys(prompt.task.fields), **fields}, "text")
    answer = str((reply.value or {}).get("answer") or reply.text)
    counted = reply.usage.prompt_tokens if reply.usage and not reply.usage.estimated else None
    size = "" if counted is None else f"; the server counted {counted:,} tokens"
    if "7421" in answer:
        return "yes", f"read{size}"
    return "no", f"the fact at its beginning was not found{size}"


CHECKS: Mapping[str, Callable[[Asker], Awaitable[Found]]] = {
    "JSON schema": check_schema,
    "seeds": check_seeds,
    "log-probabilities": check_logprobs,
    "scoring": check_scoring,
    "tools": check_tools,
    **{
        f"{tokens:,} tokens": lambda asker, tokens=tokens: check_context(asker, tokens)  # type: ignore[misc]
        for tokens in CONTEXTS
    },
}
"""The checks of capabilities, by name, in order."""
