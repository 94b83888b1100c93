"""Updates of an index without a rebuild: passages added, replaced and removed, in one step each.

The next state shares with the old one what tantivy wrote, and copies the passages; only what is new is analysed and
searched for links, and only it will be encoded, where the index has vectors. TF-IDF, the token vectors of late
interaction, and a dense index (of the kind that goes with the size) are made anew when they are next asked for. All
that is found is what an index built anew would find, except that BM25's statistics (how many passages there
are, how many have a term, how long they are) still count those removed. Once they are more than a tenth of all, the
update writes the index anew, without them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from polyhop.data.corpora import Corpus
from polyhop.errors import DataError, IndexFolderError
from polyhop.retrieval.index import Index, fill, finish, link_mode, open_index
from polyhop.retrieval.inverted_index import BM25_FOLDER, BM25Writer
from polyhop.retrieval.links import LinkMode, build_links, update_links
from polyhop.retrieval.snapshots import next_state
from polyhop.retrieval.store import PassageStore, StoreWriter
from polyhop.retrieval.vectors import carry_vectors
from polyhop.types import Passage

MAX_REMOVED_SHARE = 0.1
"""The share of rows that may be of removed passages."""

_NAMED = 10  # ids in a message


@dataclass(frozen=True)
class Updated:
    """An index after an update, and what was done: passages ``added``, ``replaced`` by others of their ids, left as
    they stood because they were the same (``standing``), and ``removed``."""

    index: Index
    added: int = 0
    replaced: int = 0
    standing: int = 0
    removed: int = 0


def add_passages(
    folder: str | Path, corpus: Corpus, *, replace: bool = False, progress: Callable[[int], object] | None = None
) -> Updated:
    """Add the passages of a corpus to an index, after those it has. One that it has already is left as it stands.

    Args:
        replace: let a passage replace another with its id; it then comes last.
        progress: called with the number of passages done, now and then and at the end.

    Raises:
        DataError: the corpus is empty or malformed, repeats an id, or, without ``replace``, has another passage of an
            id that the index has.
        IndexFolderError: the index cannot be opened or written to.
    """
    with _changing(Path(folder)) as (old, state):
        standing, gone, digests = _compared(old, corpus, replace)
        if not digests:
            return Updated(old, standing=len(standing))
        new = (passage for passage in corpus.unique() if passage.id not in standing)
        _update(state, old, gone, new, digests, progress)
    return Updated(open_index(folder), len(digests) - len(gone), len(gone), len(standing))


def remove_passages(folder: str | Path, ids: Iterable[str], *, missing_ok: bool = False) -> Updated:
    """Remove the passages with these ids from an index.

    Args:
        missing_ok: pass over ids that the index does not have.

    Raises:
        DataError: the index has no passage of an id, or would have none at all; nothing is removed.
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
        _update(state, old, gone, (), (), None)
    return Updated(open_index(folder), removed=len(gone))


@contextmanager
def _changing(folder: Path) -> Iterator[tuple[Index, Path]]:
    """The index as it stands, and an empty folder for its next state."""
    open_index(folder)  # fail before anything is written there if it is no index
    with next_state(folder) as state:
        yield open_index(folder), state


def _compared(old: Index, corpus: Corpus, replace: bool) -> tuple[set[str], list[int], list[bytes]]:
    """Of a corpus' passages: the ids of those that an index has, the ordinals there of those to be replaced, and a
    digest of each that is new."""
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
    progress: Callable[[int], object] | None,
) -> None:
    """Fill and seal a state from an old one: without the passages at the ordinals ``gone``, then the ``new`` ones."""
    removed = old.rows - len(old) + len(gone)
    if removed > MAX_REMOVED_SHARE * (old.rows + len(digests)):
        facts = _anew(state, old, gone, new, progress)
    else:
        try:
            facts = _extended(state, old, gone, new)
        except (IndexError, ValueError) as error:  # of tables that say what cannot be
            raise IndexFolderError(f"is damaged ({error}); build it again", old.folder) from error
        if progress:
            progress(len(digests))
    done = (old.fingerprint, sorted(old.passages.get(ordinal).id for ordinal in gone), *digests)
    finish(state, {**_kept(old), **facts, "fingerprint": sha256(repr(done).encode()).hexdigest()[:32]})
    old.let_go()


def _kept(old: Index) -> dict[str, Any]:
    names = ("name", "skipped", "language", "stemmer", "stop_words", "links_asked")
    return {name: old.facts[name] for name in names if name in old.facts}


def _anew(
    state: Path,
    old: Index,
    gone: Collection[int],
    new: Iterable[Passage],
    progress: Callable[[int], object] | None,
) -> dict[str, Any]:
    stand = np.ones(old.rows, dtype=np.bool_) if old.passages.removed is None else ~old.passages.removed
    stand[list(gone)] = False
    facts = fill(state, chain(_rows(old.passages, stand), new), old.analysis, old.facts["links_asked"], progress)
    carry_vectors(old.state, state, np.flatnonzero(stand))
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
    return {"passages": len(passages), "mentions": mentions, "links": mode, "linking": linking}
