"""``Pipeline``: a corpus, a method and a language model, opened once and asked many times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from polyhop.answer import Answer, withheld
from polyhop.common.aio import LoopThread as LoopThread
from polyhop.common.files import cache_folder
from polyhop.common.text import check_asked
from polyhop.data.corpora import Corpus, open_corpus
from polyhop.engine.budget import Budget, check_limit
from polyhop.engine.call import Models
from polyhop.engine.prices import Prices
from polyhop.engine.run import Engine
from polyhop.errors import CapabilityError, SettingError, UnknownName, UsageError, brief
from polyhop.lm.base import LanguageModel
from polyhop.lm.cache import CachedLM, CompletionCache
from polyhop.lm.names import open_lm
from polyhop.methods.registry import Method, method_named
from polyhop.prompts.book import PromptBook, Rendering
from polyhop.readers import AskingReader, Reader, open_reader
from polyhop.readers.base import span_reader
from polyhop.retrieval import brings_corpus, open_reranker, open_retriever
from polyhop.retrieval.analysis import ENGLISH
from polyhop.retrieval.base import (
    AskingRetriever,
    CorpusLinks,
    Reranked,
    Reranker,
    Retriever,
    beginning_of,
    knows_links,
    layers_of,
)
from polyhop.retrieval.index import Index, index_for
from polyhop.trace import Step
from polyhop.types import MAX_INTEGER, Kind, Passage, Question, Read, Search

T = TypeVar("T")
Source = str | Path | Corpus | Index | Iterable[Passage]
LM = str | LanguageModel | Mapping[str, "str | LanguageModel"]
Searcher = Retriever | AskingRetriever | Search

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
    or brings its own. Beside one that knows no links it tells the links, by its passages' ids.
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
    a million tokens, are what ``max_cost`` is told in.
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
        reader: str | Reader | AskingReader | Read | None = "pocket",
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
            reader=open_reader(reader) if isinstance(reader, str) else reader,
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
            analysis=getattr(self.index or opened, "analysis", ENGLISH),
            corpus_links=_corpus_links(self.index, opened),
        )
        _check_roles(self.engine)
        _check_needs(self.method.name, needs, self.settings, self.engine)
        _check_prices(self.engine)
        if abstain_below is not None:
            check_limit("abstain_below", abstain_below, 1)
        self.abstain_below = abstain_below
        self._loop = LoopThread()
        self._closed = False

    async def aask(
        self, question: str | Question, *, kind: Kind = "qa", listen: Callable[[Step], object] | None = None
    ) -> Answer:
        """Answer one question; ``listen`` is called with each step as ``stream`` gives them. Raises ``LMError`` when
        the model cannot be reached, ``UsageError`` once the pipeline is closed."""
        self._check_open()
        text, kind = (question.text, question.kind) if isinstance(question, Question) else (question, kind)
        if not isinstance(text, str):
            raise UsageError(f"a question is a text or a polyhop.Question, not a {type(text).__name__}")
        check_asked("question", text)
        found = await self.engine.answer(self.method.function, self.method.name, text, kind, self.settings, listen)
        if self.abstain_below is None or (found.confidence or 0.0) >= self.abstain_below:
            return found
        return withheld(found)

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
    """Whether this names a model whose replies cost something: behind a server, or from a checkpoint."""
    return isinstance(lm, str) and lm.partition(":")[0] not in LOCAL


def check_lm_options(options: Mapping[str, Any], models: Mapping[str, object]) -> None:
    """``UsageError`` for options that none of the models takes, or that are set by another name."""
    if options and not any(map(is_served, models.values())):
        names = ", ".join("--lm-option (extra_body)" if name == "extra_body" else name for name in options)
        raise UsageError(f"{names}: for a model behind a server only, such as openai:MODEL")
    for name in options.get("extra_body") or ():
        if name in _SET_BY:
            raise SettingError(f"--lm-option {name} (extra_body): {_SET_BY[name]}")


async def close_parts(
    models: Models, searching: Iterable[Searcher | str | None], cache: CompletionCache | None
) -> None:
    """Close the connections of models and retrievers, and the cache of replies."""
    for part in (*models.by_name.values(), *map(beginning_of, searching)):
        if close := getattr(part, "aclose", None):
            await close()
    if cache is not None:
        cache.close()


def _open_retriever(
    corpus: Source | None, retriever: str | Searcher, method: str, needs: frozenset[str]
) -> tuple[Index | None, Searcher | None]:
    if not isinstance(retriever, str):
        if not (callable(retriever) or isinstance(retriever, Retriever | AskingRetriever)):
            raise UsageError(
                f"retriever={retriever!r}: must be a name, a callable (query, k) -> passages or a Retriever, "
                "which has name, search, search_many and links"
            )
        follows = "links" in needs or any("links" in getattr(part, "needs", ()) for part in layers_of(retriever))
        if corpus is None or isinstance(corpus, Index) or not follows or knows_links(retriever):
            return (corpus if isinstance(corpus, Index) else None), retriever
        return _index(corpus), retriever
    if corpus is None:
        if brings_corpus(retriever):
            return None, open_retriever(retriever, None)
        if "retriever" in needs:
            raise UsageError(f"{method} searches: give it a corpus (corpus=, --corpus) or a retriever of your own")
        return None, None
    index = _index(corpus)
    return index, open_retriever(retriever, index)


def _index(corpus: Source) -> Index:
    if isinstance(corpus, Index):
        return corpus
    return index_for(corpus if isinstance(corpus, Corpus) else open_corpus(corpus))


def _corpus_links(index: Index | None, retriever: Searcher | None) -> CorpusLinks | None:
    """The links of the corpus beside a retriever that knows none."""
    if index is None or not index.link_mode or retriever is None or knows_links(retriever):
        return None
    return CorpusLinks(index, _name_of(retriever))


def _name_of(retriever: object) -> str:
    return str(getattr(retriever, "name", None) or getattr(retriever, "__name__", "of your own"))


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
    if "reader" in needs and not (callable(engine.reader) or isinstance(engine.reader, Reader | AskingReader)):
        raise UsageError(
            f"reader={engine.reader!r}: must be a name, a callable (question, passages) -> spans or a Reader"
        )
    if "span_choice" in needs:
        span_reader(engine.reader, settings["span"])
    _check_models(method, needs, engine)
    _check_links(method, needs, engine.retriever, engine, ", or set links=0" if "links" in settings else "")
    if "reader" in needs:
        _check_models(f"the reader {getattr(engine.reader, 'name', '')}", getattr(engine.reader, "needs", ()), engine)
    for part in layers_of(engine.retriever):
        if isinstance(part, Reranked):
            _check_models(f"the reranker {part.reranker.name}", getattr(part.reranker, "needs", ()), engine)
        elif isinstance(part, AskingRetriever):
            who, wanted = f"the retriever {part.name}", getattr(part, "needs", ())
            _check_links(who, wanted, part.start, engine)
            _check_models(who, wanted, engine)


def _check_links(who: str, needs: Iterable[str], retriever: Searcher | None, engine: Engine, also: str = "") -> None:
    """Fail if links are followed and neither the retriever nor a corpus beside it knows any."""
    if "links" not in needs or knows_links(retriever) or engine.corpus_links is not None:
        return
    raise UsageError(
        f"{who} follows links: use a retriever over an index with links, or give the corpus (corpus=, --corpus) beside "
        f"{_name_of(retriever)}, which knows none{also}"
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
