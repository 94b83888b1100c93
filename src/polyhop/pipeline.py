"""``Pipeline``: a corpus, a method and a language model, opened once and asked many times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import polyhop.methods.as_retriever  # noqa: F401 - registers the retrievers and rerankers that rank paths
from polyhop.answer import Answer, withheld
from polyhop.common.aio import LoopThread as LoopThread
from polyhop.common.files import cache_folder
from polyhop.common.text import check_text
from polyhop.data.corpora import Corpus, open_corpus
from polyhop.engine.budget import Budget, Prices, check_limit
from polyhop.engine.call import Models
from polyhop.engine.run import Engine
from polyhop.errors import CapabilityError, SettingError, UnknownName, UsageError, brief
from polyhop.lm.base import LanguageModel
from polyhop.lm.cache import CachedLM, CompletionCache
from polyhop.lm.names import open_lm
from polyhop.methods.registry import Method, method_named
from polyhop.prompts.book import PromptBook, Rendering
from polyhop.readers import open_reader
from polyhop.readers.base import AnyReader, as_reader
from polyhop.readers.pocket import PocketPathScorer
from polyhop.retrieval import brings_corpus, open_reranker, open_retriever
from polyhop.retrieval.analysis import ENGLISH
from polyhop.retrieval.base import (
    AnyRetriever,
    CorpusLinks,
    Reranked,
    Reranker,
    RunRetriever,
    as_retriever,
)
from polyhop.retrieval.index import Index, index_for
from polyhop.trace import Step
from polyhop.types import MAX_INTEGER, Kind, Passage, Question

T = TypeVar("T")
Source = str | Path | Corpus | Index | Iterable[Passage]
LM = str | LanguageModel | Mapping[str, "str | LanguageModel"]
Searcher = AnyRetriever
Listen = Callable[[Step], object]
Observer = Callable[[Method, Kind, Mapping[str, Any]], AbstractContextManager[Callable[[Step | Answer], object]]]
"""Opens, with method, kind and settings, a context around a question; it is given every step, then the answer."""

_SET_BY: Mapping[str, str] = {
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), "set it by --max-tokens-per-call (max_tokens_per_call)"),
    "seed": "set it by --seed (seed), of which every sample gets its own",
    "model": "set it by --lm (lm)",
    **dict.fromkeys(("messages", "prompt", "stream", "n"), "polyhop sets it itself"),
}
"""Parameters of a request that are not taken as they are, and what sets them."""

LOCAL = frozenset({"pocket", "scripted", "replay"})
"""Names of models that cost nothing to ask again: their replies are not cached, and no limits apply to them."""


class Pipeline:
    """Everything one method needs to answer questions over one corpus.

    ``corpus``: a file, folder, index folder, ``Corpus`` or passages; may be left out when ``retriever`` is a callable
    or brings its own. A retriever without links takes those of the corpus,
    by the ids of its passages.
    ``lm``: a name, a model object, or a mapping from role or task to either (``default`` for the rest).
    ``retriever``: a name, an object, or any ``(query, k) -> passages`` callable; by default the method's own start.
    ``rerank``: a name or a ``Reranker``, which chooses from the retriever's first hits, for any method.
    ``reader``: a name, a ``Reader``, or any ``(question, passages) -> spans`` callable; used by methods that read.
    ``lm_options``: options of the models behind a server or from a checkpoint, as ``lm.openai.OpenAICompatible`` takes
    them; its ``extra_body`` is what every request says besides (of other models: their own options).
    ``max_tokens_per_call``: replaces the token cap of every model call, a model's thoughts included; it is never
    exceeded. Without it a call keeps its prompt file's cap, and one that spends it before any text came is made once
    more with 4,096 tokens more; then it is a ``CutReply``.
    ``max_calls``, ``max_tokens``, ``max_seconds``, ``max_cost``: limits on a question; ``prices`` (``prices.Prices``),
    a million tokens, give the currency of ``max_cost``.
    ``cache``: True or a path switches the call cache on, False off; by default on for named models, off for objects.
    ``abstain_below``: an answer less confident than this, or of unknown confidence, is withheld (``abstained``).
    ``settings``: the method's own. Raises a ``UsageError`` before any call when something does not fit.
    """

    def __init__(
        self,
        corpus: Source | None = None,
        method: str = "tor",
        lm: LM = "pocket",
        *,
        retriever: str | Searcher | None = None,
        rerank: str | Reranker | None = None,
        reader: str | AnyReader | None = "pocket",
        prompts: str | Path | PromptBook | None = None,
        rendering: Rendering = "text",
        cache: bool | str | Path | None = None,
        max_tokens_per_call: int | None = None,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        max_cost: float | None = None,
        prices: str | Path | Mapping[str, Any] | Prices | None = None,
        abstain_below: float | None = None,
        seed: int | None = None,
        lm_options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        if rendering not in ("text", "json"):
            raise UsageError(f"rendering={rendering!r}: must be 'text' or 'json'")
        if max_tokens_per_call is not None and max_tokens_per_call < 1:
            raise SettingError(f"max_tokens_per_call={max_tokens_per_call}: must be at least 1")
        self.method: Method = method_named(method)
        self.settings = self.method.resolve(settings)
        if isinstance(retriever, str) and self.method.name == self.method.retriever != retriever:
            raise UsageError(f"{method} is a retriever itself: leave out the retriever {retriever}")
        if seed is not None and not abs(seed) <= MAX_INTEGER:
            raise SettingError(f"seed={brief(seed)}: must be from -{MAX_INTEGER} to {MAX_INTEGER}")
        self.answers = self.method.answers(self.settings)
        needs = frozenset(self.method.needs(self.settings))
        self.index, opened = _open_retriever(corpus, retriever or self.method.retriever, self.method.name, needs)
        self.reranker = open_reranker(rerank) if isinstance(rerank, str) else rerank
        models, self._cache = open_models(lm, cache, lm_options or {})
        self.engine = Engine(
            models=Models(models),
            prompts=prompts if isinstance(prompts, PromptBook) else PromptBook(prompts),
            retriever=Reranked(opened, self.reranker) if opened and self.reranker else opened,
            reader=None if reader is None else as_reader(open_reader(reader) if isinstance(reader, str) else reader),
            path_scorer=PocketPathScorer(),
            rendering=rendering,
            budget=Budget(
                max_calls=max_calls,
                max_tokens=max_tokens,
                max_seconds=max_seconds,
                max_cost=max_cost,
                prices=None if prices is None else Prices.of(prices),
            ),
            max_tokens_per_call=max_tokens_per_call,
            seed=seed,
            analysis=getattr(self.index or (opened and opened.source), "analysis", ENGLISH),
        )
        _check_roles(self.engine)
        _check_needs(self.method.name, needs, self.settings, self.engine)
        _check_prices(self.engine)
        if abstain_below is not None:
            check_limit("abstain_below", abstain_below, 1)
        self.abstain_below = abstain_below
        self.observer: Observer | None = None
        self._loop = LoopThread()
        self._closed = False

    async def aask(self, question: str | Question, *, kind: Kind = "qa", listen: Listen | None = None) -> Answer:
        """Answer one question; ``listen`` is called with each step as ``stream`` gives them. Raises ``LMError`` when
        the model cannot be reached, ``UsageError`` once the pipeline is closed."""
        self._check_open()
        text, kind = (question.text, question.kind) if isinstance(question, Question) else (question, kind)
        if not isinstance(text, str):
            raise UsageError(f"a question is a text or a polyhop.Question, not a {type(text).__name__}")
        check_text("question", text)
        found = await self._answer(text, kind, listen)
        if self.abstain_below is None or (found.confidence or 0.0) >= self.abstain_below:
            return found
        return withheld(found)

    async def _answer(self, question: str, kind: Kind, listen: Listen | None) -> Answer:
        function, name = self.method.function, self.method.name
        if self.observer is None:
            return await self.engine.answer(function, name, question, kind, self.settings, listen)
        with self.observer(self.method, kind, self.settings) as observe:

            def observe_and_listen(step: Step) -> None:
                observe(step)
                if listen is not None:
                    listen(step)

            answer = await self.engine.answer(function, name, question, kind, self.settings, observe_and_listen)
            observe(answer)
            return answer

    async def stream(self, question: str | Question, *, kind: Kind = "qa") -> AsyncGenerator[Step | Answer, None]:
        """The steps as they happen, then the answer. A branch comes twice: as it begins, without a verdict, and as it
        ends. Steps are numbered as they are begun, so a ``parent`` is always known; what a search or reading asks comes
        before it. Leaving the loop ends the work."""
        steps: asyncio.Queue[Step | None] = asyncio.Queue()
        work = asyncio.get_running_loop().create_task(self.aask(question, kind=kind, listen=steps.put_nowait))
        work.add_done_callback(lambda _: steps.put_nowait(None))
        try:
            while (step := await steps.get()) is not None:
                yield step
            yield work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def ask(self, question: str | Question, *, kind: Kind = "qa") -> Answer:
        """``aask`` from ordinary code, inside a running event loop (a notebook) too."""
        self._check_open()  # before a loop is begun for it
        return self.wait(self.aask(question, kind=kind))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """``work`` awaited from ordinary code, on any thread: all of it on one loop, the pipeline's own."""
        return self._loop.run(work)

    def search(self, query: str, k: int = 5) -> list[Passage]:
        """The ``k`` best passages for a query, best first: the reranker's choice where there is one. ``UsageError``
        once the pipeline is closed."""
        self._check_open()
        return self.wait(self.engine.search(query, k))

    async def aclose(self) -> None:
        """Close the connections of models and retriever, and the cache; the pipeline answers no more after it."""
        self._closed = True
        await close_parts(self.engine.models, [self.engine.retriever], self._cache)

    def close(self) -> None:
        """``aclose`` from ordinary code."""
        self._loop.run(self.aclose())
        self._loop.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the pipeline is closed, and answers no more: make another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
        self._loop.stop()


def ask(
    question: str, *, corpus: Source | None = None, method: str = "tor", lm: LM = "pocket", **options: Any
) -> Answer:
    """Answer one question: one use of a ``Pipeline``, with the same arguments."""
    with Pipeline(corpus, method, lm, **options) as pipeline:
        return pipeline.ask(question)


def open_models(
    lm: LM, cache: bool | str | Path | None, options: Mapping[str, Any]
) -> tuple[dict[str, LanguageModel], CompletionCache | None]:
    """The models of ``lm`` by role or task, opened, and the cache of their replies where one is on; the arguments are
    ``Pipeline``'s."""
    named = lm if isinstance(lm, Mapping) else {"default": lm}
    check_lm_options(options, named)
    opened: dict[str, LanguageModel] = {}
    kept: CompletionCache | None = None
    for name, given in named.items():
        served = is_served(given)
        opened[name] = open_lm(given, **options) if served else open_lm(given)
        if served if cache is None else cache:
            kept = kept or CompletionCache(cache if isinstance(cache, (str, Path)) else cache_folder() / "lm.sqlite")
            opened[name] = CachedLM(opened[name], kept)
    return opened, kept


def is_served(lm: object) -> bool:
    """Tell if this names a model whose replies cost something: on a server, or from a checkpoint."""
    return isinstance(lm, str) and lm.partition(":")[0] not in LOCAL


def check_lm_options(options: Mapping[str, Any], models: Mapping[str, object]) -> None:
    """``UsageError`` for options that none of the models takes, or that are set by another name."""
    if options and not any(map(is_served, models.values())):
        names = ", ".join("--lm-option (extra_body)" if name == "extra_body" else name for name in options)
        raise UsageError(f"{names}: for a model behind a server only, such as openai:MODEL")
    for name in options.get("extra_body") or ():
        if name in _SET_BY:
            raise SettingError(f"--lm-option {name} (extra_body): {_SET_BY[name]}")


async def close_parts(models: Models, retrievers: Iterable[RunRetriever | None], cache: CompletionCache | None) -> None:
    """Close the connections of models and retrievers, and the cache of replies."""
    for part in (*models.by_name.values(), *retrievers):
        if close := getattr(part, "aclose", None):
            await close()
    if cache is not None:
        cache.close()


def _open_retriever(
    corpus: Source | None, retriever: str | Searcher, method: str, needs: frozenset[str]
) -> tuple[Index | None, RunRetriever | None]:
    if not isinstance(retriever, str):
        opened = as_retriever(retriever)
        needed = any("links" in part_needs for part_needs in (needs, *(part.needs for part in opened.layers)))
        if corpus is None or not (isinstance(corpus, Index) or (needed and not opened.has_links)):
            return None, opened
        return _beside(_index_of(corpus), opened)
    if corpus is None:
        if brings_corpus(retriever):
            return None, as_retriever(open_retriever(retriever, None))
        if "retriever" in needs:
            raise UsageError(f"{method} searches: give it a corpus (corpus=, --corpus) or a retriever of your own")
        return None, None
    index = _index_of(corpus)
    return _beside(index, as_retriever(open_retriever(retriever, index)))


def _beside(index: Index, retriever: RunRetriever) -> tuple[Index, RunRetriever]:
    """The index, and the retriever with the index's links if it knows none itself."""
    return index, retriever.with_links(CorpusLinks(index, _name_of(retriever))) if index.link_mode else retriever


def _name_of(retriever: RunRetriever | None) -> str:
    source = retriever and retriever.innermost
    return str(getattr(source, "name", None) or getattr(source, "__name__", "of your own"))


def _index_of(corpus: Source) -> Index:
    if isinstance(corpus, Index):
        return corpus
    return index_for(corpus if isinstance(corpus, Corpus) else open_corpus(corpus))


def _check_roles(engine: Engine) -> None:
    """A misspelt role would leave its model unasked, and say nothing."""
    for name in engine.models.by_name:
        if name != "default" and name not in (known := engine.prompts.callers()):
            what = "task" if "." in name else "role"  # the other sort would be a long list of no use
            alike = [other for other in known if ("." in other) == ("." in name)]
            raise UnknownName(
                f"{what} of a language model", name, alike, "'polyhop prompts list' tells tasks and roles."
            )


def _check_prices(engine: Engine) -> None:
    """Every model has a price where the cost is bounded."""
    budget = engine.budget
    if budget.max_cost is not None and budget.prices is not None:
        for model in engine.models.by_name.values():
            budget.prices[model.name]


def _check_needs(method: str, needs: frozenset[str], settings: Mapping[str, Any], engine: Engine) -> None:
    """Fail before the first call, naming who needs what, what is lacking and what would work."""
    if "reader" in needs and engine.reader is None:
        raise UsageError(f"{method} reads passages: give reader=")
    if "span_choice" in needs and engine.reader is not None:
        engine.reader.check_span(settings["span"])
    _check_models(method, needs, engine)
    _check_links(method, needs, engine.retriever, ", or set links=0" if "links" in settings else "")
    if "reader" in needs and engine.reader is not None:
        _check_models(f"the reader {engine.reader.name or ''}", engine.reader.needs, engine)
    for part in engine.retriever.layers if engine.retriever else ():
        if part.base_retriever is not None:
            reranker = part.reranker.name if isinstance(part, Reranked) else None
            who = f"the reranker {reranker}" if reranker else f"the retriever {part.name}"
            _check_models(who, part.needs, engine)
            _check_links(who, part.needs, part.base_retriever)


def _check_links(who: str, needs: Iterable[str], retriever: RunRetriever | None, also: str = "") -> None:
    """Fail if links are followed and neither the retriever nor a corpus beside it knows any."""
    if "links" in needs and not (retriever and retriever.has_links):
        raise UsageError(
            f"{who} follows links: use a retriever over an index with links, or give the corpus (corpus=, --corpus) "
            f"beside {_name_of(retriever)}, which knows none{also}"
        )


_WHAT_WORKS = {
    "token_logprobs": "pocket",
    "score": "pocket, an hf: model or a server that scores given text, as vLLM does",
    "score_temperature": "-o temperature=1, or pocket or an hf: model",
}


def _check_models(who: str, needs: Iterable[str], engine: Engine) -> None:
    for need in sorted(needs):
        capability, _, task = need.partition(":")
        if capability not in _WHAT_WORKS:
            continue
        for model in [engine.model_of(task)] if task else engine.models.by_name.values():
            if not getattr(model.capabilities, capability):
                able = _WHAT_WORKS[capability]
                raise CapabilityError(f"{who} needs {capability}, which {model.name} does not have; try {able}")
