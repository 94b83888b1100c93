"""Loading an index's passages into an engine: in batches, with progress, and on where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from polyhop.common.progress import report_progress
from polyhop.common.text import counted
from polyhop.errors import RetrievalError, UsageError
from polyhop.retrieval.engines.base import Manifest, Row, Store, Unfit
from polyhop.retrieval.vectors import PassageEncoder, passage_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

Outcome: TypeAlias = Literal["loaded", "loaded to its end", "already loaded"]

_BATCH, _BATCH_CHARACTERS = 500, 2_000_000


def load(index: Index, store: Store, encoder: Encoder | None = None, *, overwrite: bool = False) -> Outcome:
    """Load all passages of an index, with the vectors of an encoder (made once, in the index's folder).

    What is there already is not sent again; a load that was stopped goes on. ``overwrite`` removes first what was
    loaded before, never what polyhop did not load.

    Raises:
        UsageError: something else stands there, or the engine cannot hold it.
        RetrievalError: the engine cannot be reached, refuses, or lost passages.
    """
    wanted, shown = Manifest.of(index, encoder), store.address.shown
    if wanted.size > store.max_vector_size:
        raise UsageError(
            f"{wanted.encoder} gives vectors of {wanted.size}; {shown} holds up to {store.max_vector_size}"
        )
    found = _found(store, overwrite)
    if found is None:
        store.create(replace(wanted, facts=store.facts(index)))
    elif not found.same(wanted):
        raise UsageError(f"{shown} holds {found}, not {wanted}; name another place, or --overwrite it")
    elif found.complete:
        return "already loaded"
    _fill(index, store, encoder, begun=found is not None)
    there = store.finish()
    if there != wanted.passages:
        raise RetrievalError(
            f"{shown} holds {counted(there, 'passages')} after a load of {wanted.passages}; load again"
        )
    store.keep(replace(store.manifest, complete=True))
    return "loaded to its end" if found else "loaded"


def _found(store: Store, overwrite: bool) -> Manifest | None:
    """Find the manifest of an earlier load; with ``overwrite``, remove that load."""
    try:
        found = store.find()
    except Unfit:
        if not overwrite:
            raise
        store.drop()
        return None
    if found is not None and overwrite:
        store.drop()
        return None
    return found


def _fill(index: Index, store: Store, encoder: Encoder | None, *, begun: bool) -> None:
    import numpy as np

    vectors = None
    if encoder is not None:
        made = encoder.passages
        vectors = passage_vectors(index, PassageEncoder(encoder.name, encoder.key, encoder.size, lambda: made))
    done = 0
    with report_progress("passages loaded") as tell:
        for batch in _batches(index):
            known = store.known([passage.id for passage in batch]) if begun else ()
            rows = [
                Row(
                    passage,
                    [linked.id for linked in index.links(passage)],
                    None if vectors is None else np.array(vectors[index.passages.ordinal(passage.id)], np.float32),
                )
                for passage in batch
                if passage.id not in known
            ]
            if rows:
                store.add(rows)
            done += len(batch)
            tell(done, len(index))


def _batches(index: Index) -> Iterator[list[Passage]]:
    """The passages in order, so many at once that a batch stays small on the wire."""
    batch: list[Passage] = []
    characters = 0
    for passage in index.passages:
        batch.append(passage)
        characters += len(passage.text)
        if len(batch) == _BATCH or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
