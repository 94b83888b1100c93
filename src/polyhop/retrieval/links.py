"""The links of passages: the hyperlinks of the corpus or, if it has none, the titles that texts mention.

``title_mentions.py`` defines the names of a title. Of several names at a position, the longest is mentioned. A one-word
name that more than 3 % of the passages mention ("United") is ignored. A hyperlink leads to the passages with exactly
its title. Parts of documents have links for their references too (``references.py``), after those by title.

Two tables are stored, memory-mapped: passage -> names it mentions, name -> passages that have it; and, for later
updates, the names and all their passages.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from polyhop.common.progress import report_progress
from polyhop.retrieval.analysis import ENGLISH, Analysis
from polyhop.retrieval.references import is_address
from polyhop.retrieval.sharding import MapShards, in_shards
from polyhop.retrieval.store import PassageStore, map_bytes, map_numbers
from polyhop.retrieval.title_mentions import NAME_PASSAGES, NAME_STARTS, NAMES, Names, is_one_word, may_mention
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LinkMode: TypeAlias = Literal["titles", "own", False]
"""The source of links: ``titles`` (the corpus' own or, if it has none, mentions), ``own`` only, or False for none."""

LINKING_VERSION = 2
"""Changes when the same passages get other links, so that no index in the cache with the former ones is taken."""

PASSAGE_STARTS, PASSAGE_NAMES = "links.starts", "links.names"

_COMMON_SHARE, _COMMON_FLOOR = 0.03, 50
_COUNTED = 2**22  # mentions counted at once
_SHARD = 512  # passages


def build_links(
    passages: PassageStore, folder: Path, analysis: Analysis = ENGLISH, *, own: bool, map_shards: MapShards = map
) -> int:
    """Write the links of all passages into ``folder``, from their own ``links`` or from the titles their texts mention.

    Of two passes over the passages, the second one runs by ``map_shards``. Memory grows with the number of titles, not
    with the text. Return the number of mentions; a name counts once per passage.
    """
    names = Names(analysis, own=own)
    for ordinal, passage in _live(passages):
        names.add(ordinal, passage)
    found = map_shards(partial(_rows, names, own), in_shards(_live(passages), _SHARD))
    rows = _reported(chain.from_iterable(found), passages.rows)
    return _write(folder, names, rows, passages, None, own=own)


def update_links(base: Path, passages: PassageStore, folder: Path, analysis: Analysis, *, own: bool) -> int:
    """Do the work of ``build_links``, starting from the links in ``base`` of the store that ``passages`` extends.

    Only these passages are searched again: new ones, those that mentioned a name no passage has any more, and those
    that may mention a new name, which a quick pass over all passages finds.
    """
    import numpy as np

    old = Links(base)
    names = Names(analysis, own=own)
    names.load(base)
    shutil.copyfile(base / NAMES, folder / NAMES)
    names.drop_unborne(PassageStore(base).removed)
    for ordinal, passage in enumerate(passages.all_rows(old.rows), old.rows):
        names.add(ordinal, passage)
    gone = names.drop_unborne(passages.removed)
    changed = set(range(old.rows, passages.rows)) | old.naming(gone)
    if passages.removed is not None:
        changed.update(np.flatnonzero(passages.removed).tolist())
    new = {name for name, number in names.number.items() if number >= names.known}
    if new:
        may = may_mention(new, analysis, own=own)
        lines = enumerate(passages.all_lines())
        changed |= {row for row, line in lines if row not in changed and passages.is_live(row) and may(line)}
    rows = (
        (ordinal, _found(names, passages.get(ordinal), own) if passages.is_live(ordinal) else [])
        for ordinal in sorted(changed)
    )
    return _write(folder, names, rows, passages, old, own=own)


def _reported(rows: Iterable[tuple[int, list[int]]], total: int) -> Iterator[tuple[int, list[int]]]:
    with report_progress("passages linked") as report:
        for ordinal, found in rows:
            if ordinal and ordinal % _SHARD == 0:
                report(ordinal, total)
            yield ordinal, found


def _live(passages: PassageStore) -> Iterator[tuple[int, Passage]]:
    numbered = enumerate(passages.all_rows())
    return ((ordinal, passage) for ordinal, passage in numbered if passages.is_live(ordinal))


def _rows(names: Names, own: bool, shard: Sequence[tuple[int, Passage]]) -> list[tuple[int, list[int]]]:
    return [(ordinal, _found(names, passage, own)) for ordinal, passage in shard]


def _found(names: Names, passage: Passage, own: bool) -> list[int]:
    by_title = names.linked(passage.links) if own else names.mentioned(passage.text)
    return list(dict.fromkeys(chain(by_title, names.referred(passage))))


def _write(
    folder: Path,
    names: Names,
    rows: Iterable[tuple[int, list[int]]],
    passages: PassageStore,
    old: Links | None,
    *,
    own: bool,
) -> int:
    """Write the tables. ``rows`` are the ordinals, rising, and the names each mentions; the rest is as in ``old``."""
    import numpy as np

    lengths = np.zeros(passages.rows, dtype=np.uint64)
    mentions = np.zeros(names.count, dtype=np.uint32)
    if old:
        lengths[: old.rows] = old.lengths()
    with (folder / PASSAGE_NAMES).open("wb", buffering=1 << 20) as stream:
        done = 0
        for ordinal, found in rows:
            if old:
                stream.write(old.names_between(done, ordinal))
            stream.write(array("I", found).tobytes())
            lengths[ordinal], done = len(found), ordinal + 1
        if old:
            stream.write(old.names_between(done, passages.rows))
    starts = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(lengths, dtype=np.uint64)])
    starts.tofile(folder / PASSAGE_STARTS)
    written = np.frombuffer(map_bytes(folder / PASSAGE_NAMES), dtype=np.uint32)
    for start in range(0, len(written), _COUNTED):
        numbers, counts = np.unique(written[start : start + _COUNTED], return_counts=True)
        mentions[numbers] += counts.astype(np.uint32)
    common = np.zeros(names.count, dtype=np.bool_)
    if not own:
        single = (n for name, n in names.number.items() if is_one_word(name) and not is_address(name))
        one_word = np.fromiter(single, dtype=np.int64)
        common[one_word] = mentions[one_word] > max(_COMMON_FLOOR, _COMMON_SHARE * len(passages))
    names.write(folder, common, passages.removed)
    return int(starts[-1])


class Links:
    """The links of an index folder, memory-mapped. Safe across threads."""

    def __init__(self, folder: Path) -> None:
        self._starts = map_numbers(folder / PASSAGE_STARTS, "Q")
        self._names = map_numbers(folder / PASSAGE_NAMES, "I")
        self._name_starts = map_numbers(folder / NAME_STARTS, "Q")
        self._bearers = map_numbers(folder / NAME_PASSAGES, "I")

    @property
    def rows(self) -> int:
        """The number of passages."""
        return len(self._starts) - 1

    @property
    def names(self) -> int:
        """The number of names."""
        return len(self._name_starts) - 1

    def mentions(self) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
        """Return all mentions: the ordinals of the passages, rising, and the name that each mentions."""
        return _pairs(self._starts, self._names)

    def titles(self) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
        """Return all passages that names lead to, and these names, rising."""
        names, passages = _pairs(self._name_starts, self._bearers)
        return passages, names

    def lengths(self) -> NDArray[np.uint64]:
        """Return the number of names that each passage mentions."""
        import numpy as np

        starts = np.frombuffer(self._starts, dtype=np.uint64)
        return starts[1:] - starts[:-1]

    def names_between(self, start: int, end: int) -> memoryview:
        """Return the names that the passages from ``start`` to before ``end`` mention, row after row."""
        start, end = min(start, self.rows), min(end, self.rows)
        return self._names[self._starts[start] : self._starts[end]]

    def naming(self, names: Collection[int]) -> set[int]:
        """Return the ordinals of the passages that mention one of these names."""
        import numpy as np

        if not names:
            return set()
        mentions = np.frombuffer(self._names, dtype=np.uint32)
        positions = np.flatnonzero(np.isin(mentions, np.array(list(names), dtype=np.uint32)))
        starts = np.frombuffer(self._starts, dtype=np.uint64)
        return set((np.searchsorted(starts, positions.astype(np.uint64), side="right") - 1).tolist())

    def of(self, ordinal: int) -> list[int]:
        """Return the ordinals of the passages linked from ``ordinal``: distinct, in the order of mention, never
        itself."""
        found: dict[int, None] = {}
        for name in self._names[self._starts[ordinal] : self._starts[ordinal + 1]]:
            found.update(dict.fromkeys(self._bearers[self._name_starts[name] : self._name_starts[name + 1]]))
        found.pop(ordinal, None)
        return list(found)


def _pairs(starts: memoryview, values: memoryview) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
    """Return the row of each value in a table of rows, and the values."""
    import numpy as np

    rows = np.repeat(np.arange(len(starts) - 1), np.diff(np.frombuffer(starts, dtype=np.uint64)).astype(np.intp))
    return rows, np.frombuffer(values, dtype=np.uint32)
