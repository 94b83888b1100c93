"""The triplets of a corpus, extracted by a language model once, for the retrievers ``hipporag:`` and ``triplets:``.

As HippoRAG 2 does at indexing (Gutiérrez et al., 2025): the model lists the named entities of a passage, then
states it as triplets; two calls per passage. Passages that the file has already are not asked about again, so that the
same call resumes after a stop, and continues after passages were added. Replies are in the cache, as all are; with
models of a batch (``evaluation.batches``) the calls go to files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyhop.answer import Answer
from polyhop.common.aio import gather, is_waiting
from polyhop.common.files import locked
from polyhop.data.openie import Extraction, content_of, key_of, read_openie, write_openie
from polyhop.engine.options import LM
from polyhop.errors import DataError, PolyhopError, UsageError
from polyhop.evaluation.runner import CONCURRENCY, MAX_CONSECUTIVE_FAILURES, Progress
from polyhop.methods.context import fit_fields
from polyhop.pipeline import Pipeline
from polyhop.prompts.tasks.hipporag import HIPPORAG_ENTITIES, HIPPORAG_TRIPLETS
from polyhop.redaction import redacted
from polyhop.trace import Usage
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.engine.run import Run
    from polyhop.retrieval.index import Index

CONTEXT_TOKENS = 4096
"""Maximum length of a prompt: a longer passage is cut at its end."""


@dataclass(slots=True)
class Extracted:
    """The result of an extraction: counts of passages and their triplets, and the new calls' usage.

    ``known``: passages that the file had already; ``new``: those added; ``unread``: those of them with a reply that
    could not be read; ``waiting``: those that wait for a batch; ``failed``: the others, by id, with the reason.
    """

    known: int = 0
    new: int = 0
    triplets: int = 0
    unread: int = 0
    waiting: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


def extract_triplets(
    index: Index,
    out: str | Path,
    lm: LM,
    *,
    concurrency: int = CONCURRENCY,
    limit: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Extracted:
    """Extract the triplets of an index's passages into the file ``out``, in HippoRAG's form and the order of the index;
    it is written at the end, and at an error or interrupt. Extractions of other passages that it has stay, after these.
    One process at a time may continue a file, by the lock file beside it.

    ``limit``: only the first N passages that the file lacks. ``options``: those of ``Pipeline`` that a model's calls
    have (prompts, rendering, cache, lm_options, max_tokens_per_call).

    Raises:
        UsageError: another process continues the file.
        DataError: the file is there and cannot be read, or cannot be written.
        LMError: the model cannot be reached; what it said before is kept.
    """
    with _alone(out := Path(out)):
        return _extract(index, out, lm, concurrency, limit, progress, options)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep other processes from continuing the file: what they add would be lost when it is replaced at the end."""
    lock = out.with_name(f"{out.name}.lock")
    with locked(lock, wait=False) as held:
        if not held:
            if not lock.is_file():
                raise DataError("cannot be written: its folder is missing, or no files can be made there", out)
            raise UsageError(f"{out}: another process is writing triplets here; wait for it or choose another --out")
        yield


def _extract(
    index: Index,
    out: Path,
    lm: LM,
    concurrency: int,
    limit: int | None,
    progress: Progress | None,
    options: Mapping[str, Any],
) -> Extracted:
    known = read_openie(out) if out.exists() else {}
    done = Extracted()
    order: dict[str, None] = {}
    todo: list[Passage] = []
    for passage in index.passages:
        key = _key(passage)
        if key in known:
            done.known += 1
        elif key not in order:  # of passages with the same content one is enough
            todo.append(Passage("", passage.title, passage.text, metadata={"id": passage.id}))
        order[key] = None
    todo = todo[:limit]
    found: dict[str, Extraction] = {}
    with Pipeline(None, "direct", lm, **options) as pipeline:
        try:
            pipeline.wait(_all(pipeline, todo, found, done, concurrency, progress))
        finally:
            if found or not out.exists():
                held = {**known, **found}
                write_openie(out, [held[key] for key in {**order, **held} if key in held])
    done.triplets = sum(len(extraction.triplets) for extraction in (*known.values(), *found.values()))
    return done


def _key(passage: Passage) -> str:
    return key_of(content_of(passage))


async def _all(
    pipeline: Pipeline,
    todo: list[Passage],
    found: dict[str, Extraction],
    done: Extracted,
    concurrency: int,
    progress: Progress | None,
) -> None:
    passages: Iterator[Passage] = iter(todo)
    in_a_row = 0

    async def work() -> None:
        nonlocal in_a_row
        for passage in passages:
            try:
                extraction, usage = await _extracted(pipeline, passage)
            except Exception as error:
                if is_waiting(error):
                    done.waiting += 1
                    continue
                reason = redacted(str(error) if isinstance(error, PolyhopError) else repr(error))
                done.failed[str(passage.metadata["id"])] = reason
                in_a_row += 1
                if in_a_row >= MAX_CONSECUTIVE_FAILURES:
                    if isinstance(error, PolyhopError):
                        raise
                    raise PolyhopError(f"every passage fails: {error!r}") from error
            else:
                in_a_row = 0
                done.new += 1
                done.unread += bool(usage.defaulted_by_task)
                done.usage += usage
                found[_key(passage)] = extraction
            if progress:
                progress(done.new + len(done.failed), len(todo))

    await gather(*(work() for _ in range(max(1, concurrency))))


async def _extracted(pipeline: Pipeline, passage: Passage) -> tuple[Extraction, Usage]:
    """Ask for the entities of a passage, then for its triplets."""
    said: list[Extraction] = []

    async def extract(title: str, run: Run) -> Answer:
        def fit(task: Any, **fields: Any) -> dict[str, Any]:
            return fit_fields(task, run, options={}, context_tokens=CONTEXT_TOKENS, passage=passage, **fields)

        named = await run.ask(HIPPORAG_ENTITIES, **fit(HIPPORAG_ENTITIES))
        entities = list(dict.fromkeys(named.entities))
        stated = await run.ask(HIPPORAG_TRIPLETS, **fit(HIPPORAG_TRIPLETS, entities=entities))
        triplets = tuple(triplet.model_dump() for triplet in stated.triplets)
        said.append(Extraction(content_of(passage), tuple(entities), triplets))
        return Answer("extracted")

    answer = await pipeline.engine.answer(extract, "extraction", passage.title or "untitled", "qa", {})
    return said[0], answer.usage
