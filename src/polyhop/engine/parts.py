"""Open the parts of a pipeline: models with the cache of their replies, index, retriever, reader and prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.common.files import cache_folder
from polyhop.data.corpora import open_corpus
from polyhop.data.corpus import Corpus
from polyhop.engine.budget import Budget, Prices
from polyhop.engine.calibration import open_calibration
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.options import LM, PipelineOptions, Searcher, Source
from polyhop.engine.roles import RoleOptions, check_body, check_taken, checked
from polyhop.errors import UsageError
from polyhop.lm.base import LanguageModel
from polyhop.lm.cache import CachedLM, CompletionCache
from polyhop.lm.names import open_lm
from polyhop.prompts.book import PromptBook
from polyhop.prompts.tasks import CONTINUED, SCORED, TASKS
from polyhop.readers import open_reader
from polyhop.readers.base import as_reader
from polyhop.readers.pocket import PocketPathScorer, PocketSupportReader
from polyhop.retrieval import brings_corpus, open_reranker, open_retriever
from polyhop.retrieval.analysis import ENGLISH
from polyhop.retrieval.base import CorpusLinks, Reranked, Reranker, RunRetriever, as_retriever
from polyhop.retrieval.index import Index, index_for

LOCAL = frozenset({"pocket", "scripted", "replay"})
"""Names of models that cost nothing to ask again: their replies are not cached, and no limits apply to them."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The opened parts of a pipeline. ``index``: None if the retriever brings its own passages."""

    engine: Engine
    index: Index | None
    reranker: Reranker | None
    cache: CompletionCache | None


def open_parts(
    corpus: Source | None, retriever: str | Searcher, options: PipelineOptions, needs: frozenset[str]
) -> Parts:
    """Open everything that ``options`` name. ``retriever``: theirs, or else the method's; ``needs``: the method's.

    Raises:
        UsageError: a name is unknown, or a part that is needed is missing.
    """
    index, opened = _open_retriever(corpus, retriever, options.method, needs)
    reranker = open_reranker(options.rerank) if isinstance(options.rerank, str) else options.rerank
    opened_models, cache = open_models(options.lm, options.cache, options.lm_options or {})
    models = Models(opened_models)
    reader = open_reader(options.reader) if isinstance(options.reader, str) else options.reader
    prompts = open_prompts(options.prompts)
    reads_support = options.verify_support is None and models.default.name == "pocket"
    engine = Engine(
        models=models,
        prompts=prompts,
        retriever=Reranked(opened, reranker) if opened and reranker else opened,
        documents=index.document if index else None,
        reader=None if reader is None else as_reader(reader),
        path_scorer=options.path_scorer or PocketPathScorer(),
        support_reader=PocketSupportReader() if reads_support else None,
        verify_support=bool(options.verify_support),
        calibration=open_calibration(options.calibration, models.default.name),
        rendering=options.rendering,
        budget=Budget(
            max_calls=options.max_calls,
            max_tokens=options.max_tokens,
            max_seconds=options.max_seconds,
            max_cost=options.max_cost,
            prices=None if options.prices is None else Prices.of(options.prices),
        ),
        max_tokens_per_call=options.max_tokens_per_call,
        reasoning_tokens=options.reasoning_tokens,
        role_options=_role_options(options.role_options, models, prompts),
        allow_unanswerable=options.allow_unanswerable,
        seed=options.seed,
        analysis=getattr(index or (opened and opened.source), "analysis", ENGLISH),
    )
    return Parts(engine, index, reranker, cache)


def open_models(
    lm: LM, cache: bool | str | Path | None, options: Mapping[str, Any]
) -> tuple[dict[str, LanguageModel], CompletionCache | None]:
    """Open the models of ``lm`` by role or task, and the cache of their replies if it is on.

    ``cache``: True or a path switches it on, False off; None caches the replies of served models.
    """
    named = lm if isinstance(lm, Mapping) else {"default": lm}
    check_lm_options(options, named)
    models: dict[str, LanguageModel] = {}
    store: CompletionCache | None = None
    for name, given in named.items():
        served = is_served(given)
        models[name] = open_lm(given, **options) if served else open_lm(given)
        if served if cache is None else cache:
            store = store or CompletionCache(cache if isinstance(cache, (str, Path)) else cache_folder() / "lm.sqlite")
            models[name] = CachedLM(models[name], store)
    return models, store


def open_prompts(prompts: str | Path | PromptBook | None) -> PromptBook:
    """Open the prompts in a folder, which replace the shipped ones; return an open book unchanged."""
    return prompts if isinstance(prompts, PromptBook) else PromptBook(prompts)


def is_served(lm: object) -> bool:
    """Return True if this names a model on a server or from a checkpoint, whose replies cost something."""
    return isinstance(lm, str) and lm.partition(":")[0] not in LOCAL


def check_lm_options(options: Mapping[str, Any], models: Mapping[str, object]) -> None:
    """Raise ``UsageError`` for options that none of the models takes, or that are set by another name."""
    if options and not any(map(is_served, models.values())):
        names = ", ".join("--lm-option (extra_body)" if name == "extra_body" else name for name in options)
        raise UsageError(f"{names}: for a model behind a server only, such as openai:MODEL")
    check_body(options.get("extra_body") or (), "--lm-option {} (extra_body)")


def _role_options(options: RoleOptions | None, models: Models, prompts: PromptBook) -> RoleOptions:
    """Check the options of roles and tasks. Those of ``default`` are for all models."""
    known = checked(options, prompts.callers() | {"default"} if options else ())
    roles = {task: prompts.role(task) for task in (*TASKS, *CONTINUED, *SCORED)} if known else {}
    for name in known:
        asked = [(task, role) for task, role in roles.items() if name in (task, role, "default")]
        check_taken(known, name, [models(*one) for one in asked if models.by_name.keys() & {*one, "default"}])
    return known


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
        return _with_links(_index_of(corpus), opened)
    if corpus is None:
        if brings_corpus(retriever):
            return None, as_retriever(open_retriever(retriever, None))
        if "retriever" in needs:
            raise UsageError(
                f"{method} searches a corpus: give one (--corpus, corpus=), or a retriever that needs none"
            )
        return None, None
    index = _index_of(corpus)
    return _with_links(index, as_retriever(open_retriever(retriever, index)))


def _with_links(index: Index, retriever: RunRetriever) -> tuple[Index, RunRetriever]:
    """Return the index and the retriever, which gets the index's links if it has none of its own."""
    if not index.link_mode:
        return index, retriever
    return index, retriever.with_links(CorpusLinks(index, retriever_name(retriever)))


def retriever_name(retriever: RunRetriever | None) -> str:
    """Return the name of the innermost retriever, for messages."""
    source = retriever and retriever.innermost
    return str(getattr(source, "name", None) or getattr(source, "__name__", "of your own"))


def _index_of(corpus: Source) -> Index:
    if isinstance(corpus, Index):
        return corpus
    return index_for(corpus if isinstance(corpus, Corpus) else open_corpus(corpus))
