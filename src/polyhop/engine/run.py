"""The ``Run`` a method is handed: all it may touch while it answers one question.

The engine renders and parses, keeps to the budget and records the trace; the method is left with its algorithm.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from random import Random
from typing import Any, Literal

from polyhop.answer import NON_ANSWER, Answer, cite, confidence, withheld
from polyhop.common.text import estimate_tokens
from polyhop.engine.budget import Budget, Meter, until_spent
from polyhop.engine.call import (
    MORE_TOKENS,
    Asked,
    Call,
    Models,
    Options,
    check_fields,
    count_tokens,
    frozen,
    settings_of,
)
from polyhop.engine.speculation import Ahead, Scouts
from polyhop.errors import BudgetSpent, CapabilityError, LMError
from polyhop.lm.base import Capabilities, Completion, LanguageModel, ScoreRequest, TokenScores
from polyhop.prompts.book import PromptBook, Rendering
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.tasks import SCORED, Output
from polyhop.readers.base import AskingReader, Reader, reads_by_asking, spans_of, threshold_of
from polyhop.redaction import redacted
from polyhop.retrieval.analysis import ENGLISH, Analysis
from polyhop.retrieval.base import (
    AskingRetriever,
    Retriever,
    asks,
    encoder_of,
    knows_links,
    links_of,
    passages_of,
    searched,
)
from polyhop.retrieval.tfidf import similarities
from polyhop.trace import Ask, Note, Readout, Score, Searched, Step, Usage, passages_in
from polyhop.trace.recorder import OpenStep, Recorder
from polyhop.types import Kind, Passage, Read, Search, Span, SpanChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What stays open between questions: models, retriever, reader and prompts. ``max_tokens_per_call`` replaces the
    token cap of every call, which is otherwise its prompt file's or its method's."""

    models: Models
    prompts: PromptBook = field(default_factory=PromptBook)
    retriever: Retriever | AskingRetriever | Search | None = None
    reader: Reader | AskingReader | Read | None = None
    rendering: Rendering = "text"
    budget: Budget = field(default_factory=Budget)
    max_tokens_per_call: int | None = None
    seed: int | None = None
    analysis: Analysis = ENGLISH
    corpus_links: Callable[[Passage], list[Passage]] | None = None
    """What a passage links to by the corpus, for a retriever that knows no links."""

    def model_of(self, task: str) -> LanguageModel:
        """The language model that a task goes to, by its prompt's role."""
        return self.models(task, self.prompts.role(task))

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
            found = _settled(await function(question, run, **settings), run)
        trace = run.recorder.trace()
        usage = Usage.of(trace, run.recorder.clock(), wasted=run.wasted)
        sure = found.confidence if found.confidence is not None else confidence(found, run.final)
        call = trace.answers_call
        read = tuple(dict.fromkeys(passages_in(call.fields))) if call else ()
        found = replace(found, passages=found.passages or read)
        citations = () if found.abstained else found.citations or cite(found, read)
        return replace(found, confidence=sure, citations=citations, trace=trace, usage=usage)

    async def search(self, query: str, k: int) -> list[Passage]:
        """One search outside any question, by the retriever and what stands behind it."""
        run = Run(self, query, "search", "qa")
        with run.recorder.recording():
            return await run.search(query, k)


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
        self.final: Output | None = None
        self._engine = engine
        self._retriever = engine.retriever
        self._ahead = scouts_for
        self._scouting = scouts_for is not None
        self._samples: Counter[Hashable] = Counter()
        self._meter = Meter(engine.budget, self.recorder.clock)

    @cached_property
    def random(self) -> Random:
        """For methods that draw: the same for the same seed and question."""
        return Random(f"{self._engine.seed} {self.recorder.question}")

    # --- language models -----------------------------------------------------------------------------------------

    async def ask(self, task: str, *, options: Options | None = None, final: bool = False, **fields: Any) -> Any:
        """One language model call: the task's typed output, ``.completion`` behind it.

        A reply that cannot be read is asked for once more with the reason, then the task's safe default is taken; both
        are counted. One that spent its token cap before any text came is asked for once more with a larger cap, unless
        the cap is the engine's ``max_tokens_per_call``; then it is a ``CutReply``. ``final`` marks the method's last
        call, which the budget keeps a place for. Raises ``BudgetSpent`` inside ``gathering`` and ``LMError`` when the
        model cannot be reached.
        """
        call = self._call(task, fields, options, final)
        output, complaint, reply, sample = await self._attempt(call)
        again = self._again(call, complaint, reply, sample) if output is None else None
        if again and self._meter.room(reserve=0 if final else 1):
            try:
                output, _, reply, _ = await self._attempt(again)
            except LMError as error:
                if not reply.ran_out:
                    raise
                raise call.cut(f"; asked again with {MORE_TOKENS:,} more: {error}") from error
            call = again
        if reply.ran_out:
            raise call.cut()
        output = output or call.prompt.default().with_completion(reply, call.question)
        if final:
            self.final = output
        return output

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
        model, text = self._written(task, fields, options)
        scorer = getattr(model, "score", None)
        if not model.capabilities.score or scorer is None:
            raise CapabilityError(
                f"{model.name} cannot score a given text, which {task} needs; use pocket, an hf: model or a server "
                "that scores (vLLM, llama-cpp-python)"
            )
        step = await self._begin(call=True)
        same = ("score", model.name, text, tuple(targets), temperature)
        requests = [
            ScoreRequest(task=task, prompt=text, target=target, fields=fields, temperature=temperature)
            for target in targets
        ]
        scores: list[TokenScores] = await self._meter.within(self._made(same, partial(scorer, requests)))
        tokens = sum(estimate_tokens(text) + len(score.logprobs) for score in scores)
        self._meter.pay(model.name, tokens, 0)
        step.close(
            Score,
            task=task,
            model=redacted(model.name),
            targets=tuple(targets),
            logprobs=tuple(sum(score.logprobs) for score in scores),
            tokens=tuple(score.logprobs for score in scores),
            prompt=requests[0].digest() if requests else "",
            temperature=temperature,
            prompt_tokens=tokens,
            prompt_words=sum(len(text.split()) + len(target.split()) for target in targets),
            retries=sum(score.retries for score in scores),
        )
        return scores

    # --- passages ------------------------------------------------------------------------------------------------

    async def search(self, query: str, k: int) -> list[Passage]:
        """The retriever's ``k`` best passages for ``query``, best first, distinct; fewer where fewer match.

        What a retriever or reranker searches, asks and scores for it stands under this search in the trace.
        """
        step = await self._begin(call=False)
        with self.recorder.beneath(step):
            found = passages_of(await self._found(query, k))
        passages = list(dict.fromkeys(found))[:k]
        step.close(Searched, query=query, k=k, passages=tuple(passages))
        return passages

    async def read(self, question: str, passages: Sequence[Passage], *, span: SpanChoice | None = None) -> list[Span]:
        """The reader's answer spans for ``question`` in ``passages``, best first; what it asks stands under it.
        ``span``: how to pick them, for a reader that can be told."""
        step = await self._begin(call=False)
        with self.recorder.beneath(step):
            spans = await self._spans(question, passages, span)
        step.close(Readout, question=question, passages=tuple(passages), spans=tuple(spans))
        return spans

    @property
    def sure_above(self) -> float:
        """The confidence above which the reader's answers can be trusted, on the reader's own scale."""
        return threshold_of(self._engine.reader)

    def links(self, passage: Passage) -> list[Passage]:
        """The passages that ``passage`` links to: by the retriever, else by the corpus beside it."""
        if self._engine.corpus_links is not None and not knows_links(self._retriever):
            return self._engine.corpus_links(passage)
        return links_of(self._retriever, passage)

    def similarity(self, text: str, texts: Sequence[str]) -> list[float]:
        """How alike ``text`` is to each of ``texts``, 0 to 1: the cosine of their vectors by the retriever's encoder;
        where it has none, TF-IDF cosine fitted on them."""
        if encoder := encoder_of(self._engine.retriever):
            from polyhop.retrieval.encoders.base import similarities as cosines  # numpy, which most never need

            return cosines(encoder, text, texts)
        return similarities(text, texts, self._engine.analysis)

    async def relevance(
        self,
        question: str,
        paths: Sequence[Sequence[Passage]],
        found: Sequence[Passage],
        *,
        by: Literal["pocket", "reasons", "likelihood"] = "pocket",
    ) -> list[float]:
        """How well each path of passages bears on the question, the higher the better; no language model is asked.

        ``by``: the embedded path scorer, which also looks at where a passage stands among those ``found`` first; its
        linear model alone, which is quick; or the likelihood of the question's words after the path's.
        """
        from polyhop.lm.pocket import leading  # which most never need
        from polyhop.lm.pocket import paths as scorers

        if by == "pocket":
            scores = await asyncio.to_thread(leading.path_scores, question, paths, found)
        elif by == "reasons":
            scores = scorers.reason_scores(question, paths, found)
        else:
            scores = scorers.likelihood_scores(question, paths)
        return [round(score, 4) for score in scores]

    async def leads(self, question: str, path: Sequence[Passage], most: int) -> list[str]:
        """At most ``most`` names to search for next, read off a path by the embedded reader, the likeliest first."""
        from polyhop.lm.pocket import leading  # which most never need

        return await asyncio.to_thread(leading.leads, question, path, most)

    # --- lengths -------------------------------------------------------------------------------------------------

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` in the default model's tokenizer, else one for every 4 characters."""
        return count_tokens(self._engine.models.usual, text)

    def truncate(self, text: str, tokens: int) -> str:
        """``text`` cut to at most ``tokens`` tokens, at the end."""
        model = self._engine.models.usual
        cut = getattr(model, "truncate", None)
        return str(cut(text, tokens)) if cut else text[: 4 * max(0, tokens)]

    def prompt_tokens(self, task: str, *, options: Options | None = None, **fields: Any) -> int:
        """Tokens of the whole prompt that ``ask`` or ``score`` would send: instruction, demonstrations and input."""
        if task in SCORED:
            return count_tokens(*self._written(task, fields, options))
        return self._call(task, fields, options).prompt_tokens

    def demonstrations(self, task: str) -> Sequence[Mapping[str, Any]]:
        """The demonstrations of a scored task's prompt file, for a method to choose from: fields and a ``kind``."""
        return self._engine.prompts.scored(task).demonstrations

    # --- structure -----------------------------------------------------------------------------------------------

    def branch(self, name: str, label: str, passages: Sequence[Passage] = ()) -> AbstractContextManager[OpenStep]:
        """Steps inside stand under a named place in the reasoning (a node, a round); set its ``verdict``."""
        return self.recorder.branch(name, label, passages)

    def note(self, name: str, **data: Any) -> None:
        """Put a remark into the trace."""
        self.recorder.open().close(Note, name=name, data=data)

    def gathering(self) -> AbstractContextManager[None]:
        """Gather inside; when the budget is spent this is left, from any depth or task group, and marked."""
        return until_spent(self._mark)

    @asynccontextmanager
    async def looking_ahead(self, calls: int) -> AsyncIterator[Scouts]:
        """Let scouts make up to ``calls`` calls at once ahead of the method, which takes the replies it comes to need.
        No scout is sent when ``calls`` is 0, nor under a budget of calls, tokens or cost, which must hold exactly."""
        budget = self._engine.budget
        if calls == 0 or any(most is not None for most in (budget.max_calls, budget.max_tokens, budget.max_cost)):
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

    def _call(self, task: str, fields: Asked, options: Options | None, final: bool = False) -> Call:
        prompt = self._engine.prompts[task]
        check_fields(task, fields, prompt.task.fields)
        settings, rendering = settings_of(prompt, options), self._engine.rendering
        settings["max_tokens"] = self._engine.max_tokens_per_call or settings["max_tokens"]
        turns = prompt.render(fields, rendering=rendering, shots=settings["shots"])
        model = self._engine.models(task, settings["role"])
        return Call(prompt, fields, settings, model, rendering, turns, final=final)

    def _written(self, task: str, fields: Asked, options: Options | None) -> tuple[LanguageModel, str]:
        """The model that a task is scored by, and the whole prompt as one text."""
        if task not in SCORED:
            call = self._call(task, fields, options)
            return call.model, "\n\n".join(turn["content"] for turn in call.turns)
        prompt = self._engine.prompts.scored(task)
        check_fields(task, fields, (prompt.task.target, *prompt.task.fields))
        role = (options or {}).get("role", prompt.head.role)
        return self._engine.models(task, role), prompt.render(fields)

    async def _attempt(self, call: Call) -> tuple[Output | None, str, Completion, int]:
        """Make the call and read the reply: its output, or None and the complaint; the reply; the sample's number."""
        step = await self._begin(call=True, final=call.final)
        same, sample = call.identity, call.sample
        if sample is None:
            sample = self._samples[same]
            self._samples[same] += 1
        request = call.request(sample=sample, seed=self._engine.seed)
        made = self._made((*same, request.sample), partial(call.model.complete, request))
        reply: Completion = await self._meter.within(made, final=call.final)
        output, complaint = call.read(reply)
        record = call.record(request, reply, output, complaint)
        self._meter.pay(record["model"], record["prompt_tokens"], record["completion_tokens"])
        step.close(Ask, **record, depth=self._ahead.depth() if self._ahead else None)
        return output, complaint, reply, sample

    def _again(self, call: Call, complaint: str, reply: Completion, sample: int) -> Call | None:
        """The second attempt at a call whose reply could not be read; None if it spent a cap that must not grow."""
        if not reply.ran_out:
            return call.corrected(reply.text, complaint)
        return call.with_more_tokens(sample) if self._engine.max_tokens_per_call is None else None

    async def _begin(self, *, call: bool, final: bool = False) -> OpenStep:
        """Open a step, if the budget allows. Tasks started together all open theirs before any is done."""
        if not final:
            self._meter.check(call=call)
        self._meter.calls += call
        step = self.recorder.open()
        await asyncio.sleep(0)
        return step

    async def _found(self, query: str, k: int) -> Any:
        """What the retriever finds. One that asks is run here, and each of its calls made or taken by itself."""
        if asks(self._retriever):
            return await self._retriever.search_by(self._beneath(self._retriever.start), query, k)
        start = partial(searched, self._retriever, query, k)
        return await self._meter.within(self._made(("search", id(self._retriever), query, k), start, costs=False))

    async def _spans(self, question: str, passages: Sequence[Passage], span: SpanChoice | None) -> list[Span]:
        """What the reader finds; one that asks is run here, as in ``_found``."""
        start = partial(spans_of, self._engine.reader, question, passages, span=span, ask=Asking(self))
        if reads_by_asking(self._engine.reader):
            return await start()
        same = ("read", question, frozen(passages), span)
        spans: list[Span] = await self._meter.within(self._made(same, start, costs=False))
        return spans

    def _beneath(self, start: Retriever | AskingRetriever | Search) -> Run:
        """This run for a retriever's own work: all is shared, but searches and links go to the one it starts from."""
        run = copy.copy(self)
        run._retriever = start
        return run

    async def _made(self, key: Hashable, start: Callable[[], Awaitable[Any]], *, costs: bool = True) -> Any:
        """Make a call, or take one that was made ahead."""
        if self._ahead is None:
            return await start()
        made = self._ahead.foresee if self._scouting else self._ahead.take
        return await made(key, start, costs=costs)

    def _mark(self, spent: BudgetSpent) -> None:
        self.recorder.budget = spent.limit
        self.note("budget spent", limit=spent.limit)


def _settled(found: Answer, run: Run) -> Answer:
    """What a method found; an abstention if that is a non-answer. Nothing supports an answer that is none."""
    if not found.text:
        return replace(found, supported=False)
    if not is_non_answer(found.text, run.recorder.question):
        return found
    run.note(NON_ANSWER, said=found.text)
    evidence = tuple(piece for piece in found.evidence if not (piece.answer and is_non_answer(piece.answer)))
    return replace(withheld(found), supported=False, confidence=0.0, evidence=evidence)


@dataclass(frozen=True, slots=True)
class Asking:
    """A run's ``ask``, as a reader is given it (``readers.base.Asks``)."""

    run: Run

    async def __call__(self, task: str, *, options: Options | None = None, **fields: Any) -> Any:
        return await self.run.ask(task, options=options, **fields)

    def capabilities(self, task: str) -> Capabilities:
        """What the model can do that is asked this task."""
        return self.run._engine.model_of(task).capabilities
