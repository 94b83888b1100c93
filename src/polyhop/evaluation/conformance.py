"""The conformance of a language model: its usefulness to polyhop, tested with about forty short calls.

The prompt tasks of the five systems are asked in the text and the JSON form, each with its first demonstration as the
input and others as its shots, as many as a method shows. Then each of ``CHECKS`` tests one capability of the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import orjson

from polyhop.engine.budget import Prices
from polyhop.errors import LMError, PolyhopError, SchemaRefused
from polyhop.evaluation.capabilities import CHECKS, Asker, State, held_out
from polyhop.lm.base import Completion, LanguageModel
from polyhop.metrics.answers import squad_f1
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Prompt, Rendering
from polyhop.prompts.tasks import Output
from polyhop.redaction import redacted

SYSTEM_TASKS: Mapping[str, tuple[str, ...]] = {
    "Tree of Reviews": ("tor.review", "tor.complete", "tor.fuse"),
    "ReSP": ("resp.summarize", "resp.judge", "resp.respond", "resp.plan", "resp.generate"),
    "GE-Reasoning": ("ge.graph", "ge.filter", "ge.subquestion", "ge.subanswer", "ge.answer"),
    "SearChain": ("searchain.chain", "searchain.trace"),
}
"""The tasks that are asked, by system. PromptRank generates nothing: the check of scores stands for it."""
CONCURRENCY = 4
SAME_ANSWER = 0.5
"""Minimum F1 of a right answer with the demonstration's."""
SAME_WORDS = 0.3
"""Minimum F1 of the words of a right output that has neither a judgment nor an answer."""
MIN_READ = 0.5
"""Minimum share of replies that are read, for a form to be recommended."""
_MAX_TEXT = 400
Progress = Callable[[int, int], None]


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
    reply per second of its call. ``cost``: of all calls, None without prices. ``thinks``: replies showed
    reasoning, or came only with head-room; ``reasoning_tokens``: the head-room that was given, None for none.
    ``tokens_estimated``: the server did not count them.
    """

    model: str
    tasks: tuple[TaskResult, ...]
    checks: tuple[CheckResult, ...]
    thinks: bool
    reasoning_tokens: int | None
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
        replies to a schema. None if less than ``MIN_READ`` of the replies are read: some tasks take any text."""
        holds = any(check.name == "JSON schema" and check.state == "yes" for check in self.checks)
        right = {form: sum(row.right for row in self.tasks if row.rendering == form) for form in get_args(Rendering)}
        best = max(get_args(Rendering), key=lambda form: (self.parsed(form), right[form], (form == "json") is holds))
        total = sum(row.rendering == best for row in self.tasks)
        return best if self.parsed(best) >= MIN_READ * total else None

    @property
    def recommended(self) -> list[str]:
        """The recommended options of the command line, as words; [] if no form can be recommended."""
        if self.rendering is None:
            return []
        room = [] if self.reasoning_tokens is None else ["--reasoning-tokens", str(self.reasoning_tokens)]
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
    reasoning_tokens: int | None = None,
    progress: Progress | None = None,
) -> Conformance:
    """Test a model. ``max_tokens`` replaces the cap of every call, which then never grows; ``reasoning_tokens`` are
    added to it, by default once a reply shows that the model thinks.

    Raises:
        LMError: the model cannot be reached.
    """
    asker = Asker(model, prompts or PromptBook(), max_tokens, reasoning_tokens)
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
        reasoning_tokens=asker.room or reasoning_tokens,
        calls=asker.calls,
        seconds_per_call=speed,
        tokens_per_second=tokens,
        prompt_tokens=asker.prompt_tokens,
        completion_tokens=asker.completion_tokens,
        tokens_estimated=asker.estimated,
        cost=prices.cost(model.name, asker.prompt_tokens, asker.completion_tokens) if prices else None,
    )


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
