"""Update an index without a rebuild: add, replace and remove passages, in one step each.

The next state shares tantivy's files with the old one and copies the passages. Only new passages are analysed, searched
for links and, if the index has vectors, encoded. TF-IDF, the token vectors of late interaction, and a dense index are
rebuilt at their next use. Searches find what they would find after a rebuild, except that BM25's statistics (the number
of passages, how many contain a term, their lengths) still count removed passages. Once these are more than a tenth of
all, the update rebuilds the index without them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from polyhop.data.corpus import Corpus
from polyhop.errors import DataError, IndexFolderError
from polyhop.retrieval.index import Index, fill, finish, link_mode, open_index
from polyhop.retrieval.inverted_index import BM25_FOLDER, BM25Writer
from polyhop.retrieval.links import LinkMode, build_links, update_links
from polyhop.retrieval.sealed_folder import next_state
from polyhop.retrieval.store import PassageStore, StoreWriter
from polyhop.retrieval.token_vectors import carry_token_vectors
from polyhop.retrieval.vectors import carry_vectors
from polyhop.types import Passage

MAX_REMOVED_SHARE = 0.1
"""Maximum share of rows that belong to removed passages."""

_NAMED = 10  # ids in a message


@dataclass(frozen=True)
class Updated:
    """An index after an update, with the numbers of passages ``added``, ``replaced`` by others with their ids,
    unchanged because they were the same (``standing``), and ``removed``."""

    index: Index
    added: int = 0
    replaced: int = 0
    standing: int = 0
    removed: int = 0


def add_passages(folder: str | Path, corpus: Corpus, *, replace: bool = False) -> Updated:
    """Add the passages of a corpus to an index, after its own, and report progress. A passage that it has already stays
    unchanged.

    Args:
        replace: let a passage replace another one with its id; it then comes last.

    Raises:
        DataError: the corpus is empty or malformed, repeats an id, or, without ``replace``, has another passage with an
            id of the index.
        IndexFolderError: the index cannot be opened or written to.
    """
    with _changing(Path(folder)) as (old, state):
        standing, gone, digests = _compared(old, corpus, replace)
        if not digests:
            return Updated(old, standing=len(standing))
        new = (passage for passage in corpus.unique() if passage.id not in standing)
        _update(state, old, gone, new, digests)
    return Updated(open_index(folder), len(digests) - len(gone), len(gone), len(standing))


def remove_passages(folder: str | Path, ids: Iterable[str], *, missing_ok: bool = False) -> Updated:
    """Remove the passages with these ids from an index.

    Args:
        missing_ok: ignore ids that the index does not have.

    Raises:
        DataError: an id is unknown, or no passage would be left; nothing is removed.
        IndexFolderError: the index cannot be opened or written to.
    """
    with _changing(Path(folder)) as (old, state):
        found = {id: old.passages.ordinal(id) for id in dict.fromkeys(ids)}
        missing = [id for id, ordinal in found.items() if ordinal is None]
        if missing and not missing_ok:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            named = ", ".join(map(repr, missing[:_NAMED]))
            raise DataError(
                f"no passage has the id {named}{more}; nothing is removed (--missing-ok passes over)", folder
            )
        gone = [ordinal for ordinal in found.values() if ordinal is not None]
        if len(gone) == len(old):
            raise DataError("all its passages would be removed; an index holds at least one", folder)
        if not gone:
            return Updated(old)
        _update(state, old, gone, (), ())
    return Updated(open_index(folder), removed=len(gone))


@contextmanager
def _changing(folder: Path) -> Iterator[tuple[Index, Path]]:
    """Yield the current index, and an empty folder for its next state."""
    open_index(folder)  # if it is no index, fail before anything is written there
    with next_state(folder) as state:
        yield open_index(folder), state


def _compared(old: Index, corpus: Corpus, replace: bool) -> tuple[set[str], list[int], list[bytes]]:
    """Compare a corpus with an index: the ids of passages that it has, the ordinals of those to be replaced, and a
    digest of each new passage."""
    standing: set[str] = set()
    gone: list[int] = []
    digests: list[bytes] = []
    for passage in corpus.unique():
        line, ordinal = _line(passage), old.passages.ordinal(passage.id)
        if ordinal is not None and orjson.loads(_line(old.passages.get(ordinal))) == orjson.loads(line):
            standing.add(passage.id)
            continue
        if ordinal is not None and not replace:
            message = f"it has another passage with the id {passage.id!r}; nothing is added (--replace replaces it)"
            raise DataError(message, old.folder)
        gone += [] if ordinal is None else [ordinal]
        digests.append(sha256(line).digest())
    return standing, gone, digests


def _line(passage: Passage) -> bytes:
    try:
        return orjson.dumps(passage.to_dict())
    except TypeError as error:
        raise DataError(f"passage {passage.id!r} cannot be written as JSON: {error}") from error


def _update(
    state: Path,
    old: Index,
    gone: Collection[int],
    new: Iterable[Passage],
    digests: Collection[bytes],
) -> None:
    """Fill and seal a state with the passages of the old one, without the ordinals ``gone``, then the ``new`` ones."""
    removed = old.rows - len(old) + len(gone)
    if removed > MAX_REMOVED_SHARE * (old.rows + len(digests)):
        facts = _rebuilt(state, old, gone, new)
    else:
        try:
            facts = _extended(state, old, gone, new)
        except (IndexError, ValueError) as error:  # tables with impossible values
            raise IndexFolderError(f"is damaged ({error}); build it again", old.folder) from error
    done = (old.fingerprint, sorted(old.passages.get(ordinal).id for ordinal in gone), *digests)
    finish(state, {**_kept(old), **facts, "fingerprint": sha256(repr(done).encode()).hexdigest()[:32]})
    old.let_go()


def _kept(old: Index) -> dict[str, Any]:
    names = ("name", "skipped", "language", "stemmer", "stop_words", "links_asked")
    return {name: old.facts[name] for name in names if name in old.facts}


def _rebuilt(state: Path, old: Index, gone: Collection[int], new: Iterable[Passage]) -> dict[str, Any]:
    stand = np.ones(old.rows, dtype=np.bool_) if old.passages.removed is None else ~old.passages.removed
    stand[list(gone)] = False
    facts = fill(state, chain(_rows(old.passages, stand), new), old.analysis, old.facts["links_asked"])
    kept = np.flatnonzero(stand)
    carry_vectors(old.state, state, kept)
    carry_token_vectors(old.state, state, kept)
    return facts


def _rows(passages: PassageStore, stand: Any) -> Iterator[Passage]:
    return (passage for ordinal, passage in enumerate(passages.all_rows()) if stand[ordinal])


def _extended(state: Path, old: Index, gone: Collection[int], new: Iterable[Passage]) -> dict[str, Any]:
    linking = old.facts["linking"] - sum(bool(old.passages.get(ordinal).links) for ordinal in gone)
    with StoreWriter(state, old.passages, gone) as store:
        for passage in new:
            store.add(passage)
            linking += bool(passage.links)
    passages = PassageStore(state)
    with BM25Writer(state / BM25_FOLDER, old.analysis, old.state / BM25_FOLDER) as bm25:
        bm25.remove(gone)
        for ordinal, passage in enumerate(passages.all_rows(old.rows), old.rows):
            bm25.add(ordinal, passage)
    mode: LinkMode = link_mode(old.facts["links_asked"], linking)
    mentions = 0
    if mode and mode == old.link_mode:
        mentions = update_links(old.state, passages, state, old.analysis, own=mode == "own")
    elif mode:
        mentions = build_links(passages, state, old.analysis, own=mode == "own")
    carry_vectors(old.state, state, None)
    carry_token_vectors(old.state, state, None)
    return {"passages": len(passages), "mentions": mentions, "links": mode, "linking": linking}
