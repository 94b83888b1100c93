"""Runs whose model calls are written to files, layer by layer, and whose replies are read from files.

A run with such models goes as far as the available replies allow; calls without a reply are written down, and their
questions wait. With the results in the folder the same run continues, until it is complete. It then holds the same as a
run whose calls were sent directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.engine.options import LM
from polyhop.engine.parts import open_models
from polyhop.errors import UsageError
from polyhop.lm.base import LanguageModel
from polyhop.lm.batches import BatchedLM, BatchFolder, ImportCounts, RequestFile
from polyhop.lm.cache import CachedLM
from polyhop.lm.openai import OpenAICompatible


@dataclass(slots=True)
class Batch:
    """A batch under way.

    ``models``: by role or task, for ``lm``. ``taken``: the counts of results read when it was opened. ``waiting``: the
    files of requests that wait for their results, known when the block is left.
    """

    folder: Path
    models: Mapping[str, LanguageModel]
    taken: ImportCounts
    waiting: list[RequestFile]


@contextmanager
def batched(
    folder: str | Path,
    lm: LM,
    *,
    cache: bool | str | Path | None = None,
    lm_options: Mapping[str, Any] | None = None,
    skip_bad: bool = False,
) -> Iterator[Batch]:
    """Read the results in ``folder``, and write the calls of ``lm`` made inside the block there.

    The arguments are ``Pipeline``'s; models without an OpenAI-compatible API are called directly. The requests are
    written when the block is left, but not after an error or an interrupt.

        with batched("batch", "openai:MODEL") as batch:
            report = polyhop.evaluate("dev.jsonl", corpus, "resp", batch.models, out="runs/resp")
        print(report.waiting, [part.file for part in batch.waiting])

    Raises:
        UsageError: no model's calls can be written to files, or the cache, which keeps the replies, is off.
        DataError: the folder cannot be used, or holds a file that is not a result of its requests.
    """
    if cache is False:
        raise UsageError("a batch's replies are kept in the cache, from which the run resumes: leave it on")
    opened, kept = open_models(lm, cache, lm_options or {})
    served = {name: model.model for name, model in opened.items() if isinstance(model, CachedLM)}
    able = {name: model for name, model in served.items() if isinstance(model, OpenAICompatible)}
    if not able or kept is None:
        names = ", ".join(model.name for model in opened.values())
        raise UsageError(f"{names}: a batch is for models behind an OpenAI-compatible API: openai:MODEL[@URL]")
    files = BatchFolder(folder)
    try:
        taken = files.import_results({model.name: model for model in able.values()}, skip_bad=skip_bad)
        models = {**opened, **{name: BatchedLM(model, kept, files) for name, model in able.items()}}
        batch = Batch(Path(folder), models, taken, files.waiting)
        try:
            yield batch
            files.seal()
        except BaseException:
            files.abandon()
            raise
        batch.waiting = files.waiting
    finally:
        files.close()
        kept.close()
