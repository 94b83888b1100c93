"""The ``Run`` a method is handed: all it may touch while it answers one question.

The engine renders and parses, keeps to the budget and records the trace; the method is left with its algorithm.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, TypedDict, TypeVar

from polyhop.ahead import Ahead
from polyhop.errors import BudgetSpent, CapabilityError, SettingError, UsageError, nearest
from polyhop.lm.base import Completion, LanguageModel, Message, Request, ScoreRequest, TokenScores
from polyhop.prompts.book import Prompt, PromptBook, Rendering
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.tasks import Output
from polyhop.recorder import OpenStep, Recorder
from polyhop.retrieval.base import Retriever
from polyhop.retrieval.tfidf import similarities
from polyhop.text import estimate_tokens, find_folded, normalise
from polyhop.trace import Ask, Note, Readout, Score, Searched, Step, Usage
from polyhop.types import Answer, Citation, Kind, Passage, Read, Search, Span

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
Asked = Mapping[str, Any]


class Options(TypedDict, total=False):
    """What one ``ask`` may set over its prompt file's head."""

    role: str
    temperature: float
    max_tokens: int
    stop: tuple[str, ...]
    shots: int
    logprobs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits on one question, None for none. One call of ``max_calls`` is kept for the method's final one;
    ``max_tokens`` and ``max_seconds`` stop the gathering, the final call may go past them."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_tokens", "max_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise SettingError(f"{name}={value}: must be above 0")


@dataclass(frozen=True, slots=True)
class Models:
    """The language models of a run by role or task; the most specific of task, role and ``default`` wins."""

    by_name: Mapping[str, LanguageModel]

    def __call__(self, task: str, role: str) -> LanguageModel:
        for name in (task, role, "default"):
            if name in self.by_name:
                return self.by_name[name]
        raise UsageError(f"no language model for the task {task} (role {role}): give lm={{'default': …}}")

    @property
    def usual(self) -> LanguageModel:
        """The default model, or the first where every role has its own: whose tokens lengths are told in."""
        return self.by_name.get("default") or next(iter(self.by_name.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What stays open between questions: models, retriever, reader and prompts."""

    models: Models
    prompts: PromptBook = field(default_factory=PromptBook)
    retriever: Retriever | Search | None = None
    reader: Read | None = None
    rendering: Rendering = "text"
    budget: Budget = field(default_factory=Budget)
    seed: int | None = None

    async def answer(
        self,
        function: Callable[..., Awaitable[Answer]],
        name: str,
        question: str,
        kind: Kind,
        settings: Asked,
        listen: Callable[[Step], object] | None = None,
    ) -> Answer:
        """Run a method on one question; its answer with citations, confidence, trace and usage. ``listen`` is told of
        every step as it ends, and of a branch as it begins too."""
        run = Run(self, question, name, kind, listen=listen)
        with run.recorder.recording():
            found = await function(question, run, **settings)
        trace = run.recorder.trace()
        usage = Usage.of(trace, run.recorder.clock(), wasted=run.wasted)
        sure = found.confidence if found.confidence is not None else confidence(found, run.final)
        return replace(found, confidence=sure, citations=found.citations or cite(found), trace=trace, usage=usage)


class Run:
    """One question under way. A method calls these and nothing else."""

    def __init__(
        self,
        engine: Engine,
        question: str,
        method: str,
        kind: Kind,
        *,
        scouts_for: Ahead | None = None,
        listen: Callable[[Step], object] | None = None,
    ) -> None:
        self.kind = kind
        self.recorder = Recorder(question, method, silent=scouts_for is not None, listen=listen)
        self.wasted = 0
        self.final: Completion | None = None
        self._engine = engine
        self._ahead = scouts_for
        self._scouting = scouts_for is not None
        self._samples: Counter[tuple[Any, ...]] = Counter()
        self._calls = 0
        self._tokens = 0

    # --- language models -----------------------------------------------------------------------------------------

    async def ask(self, task: str, *, options: Options | None = None, final: bool = False, **fields: Any) -> Any:
        """One language model call: the task's typed output, ``.completion`` behind it.

        A reply that cannot be read is asked for once more with the reason, then the task's safe default is taken; both
        are counted. ``final`` marks the method's last call, which the budget keeps a place for. Raises ``BudgetSpent``
        inside ``gathering`` and ``LMError`` when the model cannot be reached.
        """
        prompt = self._prompt(task, fields)
        settings = _merged(prompt, options)
        model = self._engine.models(task, settings["role"])
        call = _Call(prompt, fields, settings, model, self._render(prompt, fields, settings), 1, final)
        output, complaint, reply = await self._attempt(call)
        if output is None and self._room(reserve=0 if final else 1):
            again = replace(call, turns=[*call.turns, *_correction(reply.text, complaint)], attempt=2)
            output, _, reply = await self._attempt(again)
        if final:
            self.final = reply
        return output or prompt.default().with_completion(reply)

    async def score(
        self,
        task: str,
        targets: Sequence[str],
        *,
        temperature: float = 1.0,
        options: Options | None = None,
        **fields: Any,
    ) -> list[TokenScores]:
        """Token log-probabilities of each target after the task's rendered prompt, in the order of ``targets``."""
        prompt = self._prompt(task, fields)
        settings = _merged(prompt, options)
        model = self._engine.models(task, settings["role"])
        scorer = getattr(model, "score", None)
        if not model.capabilities.score or scorer is None:
            raise CapabilityError(
                f"{model.name} cannot score a given text, which {task} needs; use pocket or an hf: model"
            )
        text = "\n\n".join(turn["content"] for turn in self._render(prompt, fields, settings))
        self._check_spent()
        self._calls += 1
        step = self.recorder.open()
        await asyncio.sleep(0)
        requests = [
            ScoreRequest(task=task, prompt=text, target=target, fields=fields, temperature=temperature)
            for target in targets
        ]
        scores: list[TokenScores] = await self._within(scorer(requests), final=False)
        totals = tuple(sum(score.logprobs) for score in scores)
        step.close(Score, task=task, model=model.name, targets=tuple(targets), logprobs=totals)
        return scores

    # --- passages ------------------------------------------------------------------------------------------------

    async def search(self, query: str, k: int) -> list[Passage]:
        """The retriever's ``k`` best passages for ``query``, best first, distinct; fewer where fewer match."""
        self._check_spent(call=False)
        step = self.recorder.open()
        await asyncio.sleep(0)
        start = partial(_searched, self._engine.retriever, query, k)
        found = _passages(await self._within(self._made(("search", query, k), start, costs=False), final=False))
        passages = list(dict.fromkeys(found))[:k]
        step.close(Searched, query=query, k=k, passages=tuple(passages))
        return passages

    async def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        """The reader's answer spans for ``question`` in ``passages``, best first."""
        reader = self._engine.reader
        if reader is None:
            raise UsageError("this method reads passages: give reader= a (question, passages) -> spans callable")
        self._check_spent(call=False)
        step = self.recorder.open()
        await asyncio.sleep(0)
        spans = list(await self._within(_awaited(reader(question, passages)), final=False))
        step.close(Readout, question=question, passages=tuple(passages), spans=tuple(spans))
        return spans

    def links(self, passage: Passage) -> list[Passage]:
        """The passages that ``passage`` links to; none where the retriever knows no links."""
        retriever = self._engine.retriever
        return retriever.links(passage) if isinstance(retriever, Retriever) else []

    def similarity(self, text: str, texts: Sequence[str]) -> list[float]:
        """How alike ``text`` is to each of ``texts``, 0 to 1: TF-IDF cosine fitted on them."""
        return similarities(text, texts)

    # --- lengths -------------------------------------------------------------------------------------------------

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` in the default model's tokenizer, else one for every 4 characters."""
        return _count(self._engine.models.usual, text)

    def truncate(self, text: str, tokens: int) -> str:
        """``text`` cut to at most ``tokens`` tokens, at the end."""
        model = self._engine.models.usual
        cut = getattr(model, "truncate", None)
        return str(cut(text, tokens)) if cut else text[: 4 * max(0, tokens)]

    def prompt_tokens(self, task: str, *, options: Options | None = None, **fields: Any) -> int:
        """Tokens of the whole prompt that ``ask`` would send: instruction, demonstrations and input."""
        prompt = self._prompt(task, fields)
        settings = _merged(prompt, options)
        model = self._engine.models(task, settings["role"])
        return sum(_count(model, turn["content"]) for turn in self._render(prompt, fields, settings))

    # --- structure -----------------------------------------------------------------------------------------------

    def branch(self, name: str, label: str, passages: Sequence[Passage] = ()) -> AbstractContextManager[OpenStep]:
        """Steps inside stand under a named place in the reasoning (a node, a round); set its ``verdict``."""
        return self.recorder.branch(name, label, passages)

    def note(self, name: str, **data: Any) -> None:
        """Put a remark into the trace."""
        self.recorder.open().close(Note, name=name, data=data)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Gather inside; when the budget is spent this is left, from any depth or task group, and marked."""
        try:
            yield
        except BudgetSpent as spent:
            self._mark(spent)
        except BaseExceptionGroup as group:
            ours, others = group.split(BudgetSpent)
            if others is not None:
                raise _first(others) from group  # the error itself, as it would come without a task group
            if ours is not None:
                self._mark(_first(ours))

    @asynccontextmanager
    async def looking_ahead(self, calls: int) -> AsyncIterator[Scouts]:
        """Let scouts make up to ``calls`` calls at once ahead of the method, which takes the replies it comes to need.
        No scout is sent when ``calls`` is 0, nor under a budget of calls or tokens, which must hold exactly."""
        budget = self._engine.budget
        if calls == 0 or budget.max_calls is not None or budget.max_tokens is not None:
            yield Scouts(None, self)
            return
        self._ahead = Ahead(calls)
        try:
            told = self.recorder
            run = Run(self._engine, told.question, told.method, self.kind, scouts_for=self._ahead)
            yield Scouts(self._ahead, run)
        finally:
            self.wasted = self._ahead.wasted
            await self._ahead.close()

    # --- inside --------------------------------------------------------------------------------------------------

    def _prompt(self, task: str, fields: Asked) -> Prompt:
        prompt = self._engine.prompts[task]
        if fields.keys() != set(prompt.task.fields):
            wrong = sorted(fields.keys() ^ set(prompt.task.fields))
            hint = nearest(wrong[0], prompt.task.fields)
            raise UsageError(
                f"{task} is asked with the fields {', '.join(prompt.task.fields)}; {', '.join(wrong)} "
                f"{'is' if len(wrong) == 1 else 'are'} missing or unknown" + (f" ({hint}?)" if hint else "")
            )
        return prompt

    def _render(self, prompt: Prompt, fields: Asked, settings: Asked) -> list[dict[str, str]]:
        return prompt.render(fields, rendering=self._engine.rendering, shots=settings["shots"])

    async def _attempt(self, call: _Call) -> tuple[Output | None, str, Completion]:
        """Make the call and read the reply: its output, or None and the complaint."""
        if not call.final:
            self._check_spent()
        self._calls += 1
        step = self.recorder.open()
        await asyncio.sleep(0)  # tasks started together all open their step before any is done
        request = self._request(call)
        key = (*call.identity, call.attempt, request.sample)
        completion = await self._within(self._made(key, partial(call.model.complete, request)), call.final)
        output, complaint = self._read(call, completion)
        self._record(step, call, request, completion, output, complaint)
        return output, complaint, completion

    def _request(self, call: _Call) -> Request:
        prompt, settings, can = call.prompt, call.settings, call.model.capabilities
        same = (*call.identity, call.attempt)
        self._samples[same] += 1
        messages: Sequence[Message] = call.turns  # type: ignore[assignment]
        return Request(
            task=prompt.task.name,
            fields=call.fields,
            messages=messages,
            schema=prompt.schema() if self._engine.rendering == "json" and can.json_schema else None,
            max_tokens=settings["max_tokens"],
            temperature=settings["temperature"],
            stop=settings["stop"],
            seed=self._engine.seed if can.seed else None,
            logprobs=(settings["logprobs"] or call.final) and can.token_logprobs,
            sample=self._samples[same] - 1,
        )

    def _read(self, call: _Call, completion: Completion) -> tuple[Output | None, str]:
        try:
            if completion.value is not None:
                output = call.prompt.check(completion.value)
            elif completion.text.strip():
                output = call.prompt.read(completion.text, call.fields, self._engine.rendering)
            else:
                raise Malformed("the reply is empty")
        except Malformed as complaint:
            return None, str(complaint)
        return output.with_completion(completion), ""

    def _record(
        self, step: OpenStep, call: _Call, request: Request, reply: Completion, output: Output | None, complaint: str
    ) -> None:
        usage = reply.usage
        prompt_tokens = usage.prompt_tokens if usage else sum(_count(call.model, t["content"]) for t in call.turns)
        completion_tokens = usage.completion_tokens if usage else _count(call.model, reply.text)
        self._tokens += prompt_tokens + completion_tokens
        step.close(
            Ask,
            task=call.prompt.task.name,
            model=call.model.name,
            fields=call.fields,
            output=output.model_dump() if output else None,
            text=reply.text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            prompt_words=sum(_count_words(turn["content"]) for turn in call.turns),
            completion_words=len(reply.text.split()),
            estimated=usage.estimated if usage else not hasattr(call.model, "count_tokens"),
            prompt=request.digest(),
            sample=request.sample,
            tokens=reply.tokens if request.logprobs else None,
            logprobs=reply.logprobs if request.logprobs else None,
            attempt=call.attempt,
            problem=complaint or None,
            final=call.final,
            cached=reply.cached,
            retries=reply.retries,
            depth=self._ahead.depth() if self._ahead else None,
        )

    async def _made(self, key: Hashable, start: Callable[[], Awaitable[Any]], *, costs: bool = True) -> Any:
        """Make a call, or take one that was made ahead."""
        if self._ahead is None:
            return await start()
        made = self._ahead.foresee if self._scouting else self._ahead.take
        return await made(key, start, costs=costs)

    def _room(self, reserve: int) -> bool:
        most = self._engine.budget.max_calls
        return most is None or self._calls < most - reserve

    def _check_spent(self, call: bool = True) -> None:
        """``call``: what is about to be done is a language model call, which a search or a reading is not."""
        budget = self._engine.budget
        if call and not self._room(reserve=1):
            raise BudgetSpent("max_calls")
        if budget.max_tokens is not None and self._tokens >= budget.max_tokens:
            raise BudgetSpent("max_tokens")
        if budget.max_seconds is not None and self.recorder.clock() >= budget.max_seconds:
            raise BudgetSpent("max_seconds")

    async def _within(self, work: Awaitable[T], final: bool) -> T:
        """Wait for ``work``, no longer than the budget's seconds unless it is the final call."""
        most = self._engine.budget.max_seconds
        if most is None or final:
            return await work
        try:
            async with asyncio.timeout(max(0.0, most - self.recorder.clock())) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise BudgetSpent("max_seconds") from None
            raise

    def _mark(self, spent: BudgetSpent) -> None:
        self.recorder.budget = spent.limit
        self.note("budget spent", limit=spent.limit)


@dataclass(frozen=True, slots=True)
class Scouts:
    """Sends scouts ahead of a method. ``run`` is the ``Run`` they use: it records nothing."""

    ahead: Ahead | None
    run: Run

    def send(
        self, place: tuple[Hashable, ...], scout: Callable[[Any], Coroutine[Any, Any, None]], *, sure: bool
    ) -> None:
        """Start ``scout(place)``, once a place. Calls at places the method is ``sure`` to visit come first, then those
        met first in depth-first order."""
        if self.ahead is not None:
            self.ahead.send(place, sure=sure, scout=partial(scout, place))


@dataclass(frozen=True, slots=True)
class _Call:
    """One language model call about to be made."""

    prompt: Prompt
    fields: Asked
    settings: Asked
    model: LanguageModel
    turns: list[dict[str, str]]
    attempt: int
    final: bool

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """What makes it the same ask again: task, model, settings and fields."""
        return (self.prompt.task.name, self.model.name, *self.settings.values(), *map(frozen, self.fields.values()))


def confidence(answer: Answer, final: Completion | None) -> float | None:
    """How sure the answer is, 0 to 1: the model's own probability of its words where it gives one, else the share of
    the evidence that came to the same answer, else None."""
    if not answer.text:
        return 0.0
    if final is not None and (sure := final.probability(answer.text)) is not None:
        return sure
    told = [piece.answer for piece in answer.evidence if piece.answer]
    return sum(normalise(each) == normalise(answer.text) for each in told) / len(told) if told else None


def cite(answer: Answer) -> tuple[Citation, ...]:
    """Numbered citations: the passages of the evidence that came to this answer (of all evidence where none did)."""
    told = normalise(answer.text)
    agreeing = [piece for piece in answer.evidence if piece.answer and normalise(piece.answer) == told]
    passages = dict.fromkeys(p for piece in agreeing or answer.evidence for p in piece.passages)
    citations = []
    for marker, passage in enumerate(passages, 1):
        start, end = find_folded(answer.text, passage.text) or (None, None)
        citations.append(Citation(marker, passage.id, start, end))
    return tuple(citations)


def _merged(prompt: Prompt, options: Options | None) -> dict[str, Any]:
    head = prompt.head
    settings = {name: getattr(head, name) for name in ("role", "temperature", "max_tokens", "stop", "shots")}
    return {**settings, "logprobs": False, **(options or {})}


def _correction(reply: str, problem: str) -> list[dict[str, str]]:
    return [
        {"role": "assistant", "content": reply[:2000] or "(nothing)"},
        {"role": "user", "content": f"That could not be read: {problem}. Reply again, exactly in the form asked for."},
    ]


def _count(model: LanguageModel, text: str) -> int:
    count = getattr(model, "count_tokens", None)
    return int(count(text)) if count else estimate_tokens(text)


@lru_cache(maxsize=256)
def _count_words(text: str) -> int:
    """Words of a turn; instructions and demonstrations come again with every call."""
    return len(text.split())


async def _searched(retriever: Retriever | Search | None, query: str, k: int) -> Sequence[Passage]:
    if retriever is None:
        raise UsageError("this method searches: give corpus= or retriever=")
    if isinstance(retriever, Retriever):
        return await asyncio.to_thread(retriever.search, query, k)
    return await _awaited(retriever(query, k))


def frozen(value: Any) -> Hashable:
    """A field's value as something hashable: passages by id and text, sequences and mappings as tuples.

    >>> frozen({"passages": [Passage("p", "T", "x")]})
    (('passages', (('p', 'x'),)),)
    """
    match value:
        case Passage():
            return (value.id, value.text)
        case Mapping():
            return tuple((key, frozen(item)) for key, item in value.items())
        case list() | tuple():
            return tuple(map(frozen, value))
        case _:
            return value if isinstance(value, Hashable) else repr(value)


async def _awaited(value: T | Awaitable[T]) -> T:
    return await value if inspect.isawaitable(value) else value


def _passages(found: Any) -> Sequence[Passage]:
    """What a retriever returned, or an error that says what it should have."""
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise UsageError(f"the retriever must return polyhop.Passage objects, not a {type(found).__name__}")
    passages = list(found)
    if strange := next((type(p).__name__ for p in passages if not isinstance(p, Passage)), None):
        raise UsageError(f"the retriever must return polyhop.Passage objects, not a list with a {strange}")
    return passages


def _first(group: BaseExceptionGroup[E]) -> E:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
