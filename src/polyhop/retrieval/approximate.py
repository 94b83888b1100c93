"""Approximate nearest neighbours: compact codes in memory select candidates, and the best of those are multiplied again
from the vectors themselves. A score is always the exact product.

Source: Gao and Long, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound for Approximate
Nearest Neighbor Search", 2024: vectors are rotated at random and stored in 1 bit per number. The codes are in inverted
lists (Jégou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search", 2011), of which only those nearest
the query are read. faiss does both. Differs: the numbers of lists read and of vectors multiplied again are the smallest
that reach a target recall, measured when the index is built.

One example: 300,000 vectors of 384 numbers take 64 bytes each in memory instead of 768; 48 of 512 lists are read, and
300 vectors, 768 bytes each, are fetched from the disk to find the first 10.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.common.extras import require
from polyhop.common.files import locked
from polyhop.common.progress import report_progress
from polyhop.common.text import counted
from polyhop.errors import IndexFolderError, UnknownName
from polyhop.retrieval.exact import Hit, nearest
from polyhop.retrieval.sealed_folder import check, new_folder, sidecar_dir, write_manifest

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.stored import Matrix
    from polyhop.retrieval.index import Index

Nearest: TypeAlias = Callable[[NDArray[np.float32], int], list[list[Hit]]]
"""Takes queries, (queries, size), and ``k``; returns each query's hits by falling inner product, as ``exact.nearest``
does."""

AUTO, EXACT, INVERTED = "auto", "exact", "ivf-rabitq"
KINDS = (EXACT, INVERTED)
EXACT_UP_TO = 300_000
"""Passages that ``auto`` searches exactly; more of them by ``ivf-rabitq``."""

RECALL_AT, TARGET = 10, 0.95
QUERIES = 400
"""Passages that recall is measured with. They are drawn at random and searched for before the index holds them."""

KIND, VERSION = "dense index", 1

_FILE = "faiss"
_SEED = 20110117
_TRAINED_PER_LIST, _TRAINED_BYTES = 100, 2**30  # vectors per list, and bytes in all
_BLOCK = 2**24  # numbers added at once
_SHORTLIST = 4  # vectors per requested passage: no rounding of 32 bits moves one further than that
_RERANKS = (10, 15, 20, 25, 30, 40, 50)  # vectors multiplied again per requested passage
_LIST_COST, _CODE_COST = 10.0, 0.01  # of a list and of a code in it; multiplying a vector again costs 1: measured


class DenseIndex(NamedTuple):
    """Finds the nearest vectors. ``how`` describes its kind, the reason for that kind, and its measured recall."""

    nearest: Nearest
    how: str


class Effort(NamedTuple):
    """The work per query: ``probes`` lists are read, and ``rerank`` vectors per requested passage are multiplied again.
    ``recall`` is the share of the exact first 10 that this finds."""

    probes: int
    rerank: int
    recall: float


def check_kind(kind: str) -> None:
    """Check that a dense index of this kind can be built here.

    Raises:
        UnknownName: no kind has this name.
        MissingExtra: faiss is not installed.
    """
    if kind not in (AUTO, *KINDS):
        raise UnknownName("dense index", kind, [AUTO, *KINDS])
    if kind not in (AUTO, EXACT):
        _faiss(f"the dense index {kind}")


def dense_index(
    index: Index, vectors: Matrix, encoder: tuple[str, str], kind: str = AUTO, *, exact_up_to: int = EXACT_UP_TO
) -> DenseIndex:
    """Open the dense index over ``vectors``, (passages, size): those of an index, by an encoder of this name and key.

    One of a named ``kind`` is built beside the index if it does not exist yet, and ``auto`` finds it from then on.
    Until one is built, ``auto`` goes by size. A second process waits for the first.

    Raises:
        UnknownName, MissingExtra: as ``check_kind``.
        IndexFolderError: the folder is damaged or of a former kind; a named kind is built again.
    """
    check_kind(kind)
    key = repr((VERSION, index.fingerprint, encoder[1], vectors.shape, vectors.dtype.str, _sample_hash(vectors)))
    folder = sidecar_dir(index.state, f"nearest-{sha256(key.encode()).hexdigest()[:16]}", key)
    why = "asked for"
    if kind == AUTO and not folder.is_dir():
        if len(vectors) <= exact_up_to:
            return _exact(index, vectors, f"{exact_up_to:,} passages or fewer")
        kind, why = INVERTED, f"more than {exact_up_to:,} passages"
        _faiss(f"the dense index of {why} (unless it is to be {EXACT})")
    if not _is_built(folder, kind):
        with locked(folder.with_suffix(".lock")):
            if not _is_built(folder, kind):
                with new_folder(folder, kind=KIND, overwrite=True) as building:
                    facts = {} if kind == EXACT else fill(building, vectors)
                    about = {"index": kind, "why": why, "encoder": encoder[0], "passages": len(vectors)}
                    write_manifest(building, kind=KIND, version=VERSION, facts={**about, **facts})
    facts = _facts(folder)
    if facts["index"] == EXACT:
        return _exact(index, vectors, facts["why"])
    return DenseIndex(Approximate(folder, facts, vectors, index.passages.removed).nearest, in_words(facts))


def dense_indexes(index: Index) -> list[dict[str, Any]]:
    """List the dense indexes in an index's folder: for each its kind (``index``), ``encoder``, ``passages`` and, unless
    it is exact, ``lists``, ``probes``, ``rerank``, ``recall``, the ``queries`` it was measured with, ``bytes`` in
    memory.

    Raises:
        IndexFolderError: a folder of them is damaged or of a former kind.
    """
    folders = [folder for folder in sorted(index.state.glob("nearest-*")) if folder.is_dir()]
    own = ("kind", "version", "byte_order", "polyhop", "files")
    return [{name: fact for name, fact in _facts(folder).items() if name not in own} for folder in folders]


def in_words(facts: dict[str, Any]) -> str:
    """Describe a dense index.

    >>> in_words({"index": "ivf-rabitq", "why": "asked for", "probes": 8, "lists": 64, "rerank": 10, "recall": 0.971})
    'asked for: ivf-rabitq, recall@10 0.971 (8 of 64 lists, 10 vectors multiplied for each passage wanted)'
    """
    if facts["index"] == EXACT:
        return f"{facts['why']}: {EXACT}"
    short = "" if facts["recall"] >= TARGET else f", short of {TARGET}: what is nearest is hard to tell here"
    lists, rerank = counted(facts["lists"], "lists"), counted(facts["rerank"], "vectors")
    return (
        f"{facts['why']}: {facts['index']}, recall@{RECALL_AT} {facts['recall']:.3f}{short} "
        f"({facts['probes']} of {lists}, {rerank} multiplied for each passage wanted)"
    )


class Approximate:
    """A faiss index over vectors. Safe across threads; every query is searched alone, so no result depends on others.

    Raises:
        IndexFolderError: faiss cannot read it.
    """

    def __init__(
        self, folder: Path, facts: dict[str, Any], vectors: Matrix, left_out: NDArray[np.bool_] | None = None
    ) -> None:
        faiss = _faiss("a dense index")
        try:
            self._index = faiss.read_index(str(folder / _FILE), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            message = f"faiss {faiss.__version__} cannot read it; build the {KIND} again"
            raise IndexFolderError(message, folder) from error
        self._rerank, self._left_out = facts["rerank"], left_out
        self._vectors: Matrix = vectors.view(np.ndarray)  # rows of a plain array are fetched faster than a map's
        _set_probes(self._index, facts["probes"])
        _advise_random_access(vectors)

    def nearest(self, queries: NDArray[np.float32], k: int) -> list[list[Hit]]:
        """Find each query's hits by falling inner product, then by row; exactly if the lists read hold fewer than
        ``k``."""
        return [self._nearest(query, k) for query in queries]

    def candidates(self, query: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
        """Return up to ``limit`` rows, those with the best codes first; ``query`` is (size,)."""
        return _candidates(self._index, query, min(limit, len(self._vectors)))

    def _nearest(self, query: NDArray[np.float32], k: int) -> list[Hit]:
        rows = np.sort(self.candidates(query, self._rerank * max(k, RECALL_AT)))
        if self._left_out is not None:
            rows = rows[~self._left_out[rows]]
        if len(rows) < min(k, len(self._vectors)):
            return nearest(self._vectors, query[None], k, self._left_out)[0]
        candidates = self._vectors[rows]
        best = _shortlist(candidates, query, _SHORTLIST * k)
        return [(score, int(rows[best[i]])) for score, i in nearest(candidates[best], query[None], k)[0]]


# --- building -----------------------------------------------------------------------------------------------------


def fill(folder: Path, vectors: Matrix) -> dict[str, Any]:
    """Build an index in a folder; return its facts.

    It is trained on a sample and filled block by block. Then the least effort with enough recall is found, with
    passages drawn at random that the index does not hold yet; those are added last.
    """
    faiss = _faiss(f"the dense index {INVERTED}")
    rows, size = vectors.shape
    lists = lists_of(rows)
    index = faiss.index_factory(size, f"RR,IVF{lists},RaBitQfs", faiss.METRIC_INNER_PRODUCT)
    faiss.extract_index_ivf(index).cp.min_points_per_centroid = 1  # else it warns on stderr
    draw = np.random.default_rng(_SEED)
    sample = min(rows, max(_TRAINED_PER_LIST * lists, 10_000), max(lists, _TRAINED_BYTES // (4 * size)))
    index.train(_as_float32(vectors[np.sort(draw.choice(rows, sample, replace=False))]))
    held_out = np.zeros(rows, np.bool_)
    held_out[draw.choice(rows, min(QUERIES, rows // 2), replace=False)] = True
    _add(index, vectors, ~held_out)
    effort = _least_effort(index, lists, vectors, held_out)
    _add(index, vectors, held_out)
    faiss.write_index(index, str(folder / _FILE))
    measured = {"target": TARGET, "queries": int(held_out.sum()), "bytes": (folder / _FILE).stat().st_size}
    return {"size": size, "lists": lists, **effort._asdict(), **measured}


def _add(index: Any, vectors: Matrix, mask: NDArray[np.bool_]) -> None:
    rows = np.flatnonzero(mask)
    step = max(1, _BLOCK // vectors.shape[1])
    with report_progress("vectors indexed") as report:
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            index.add_with_ids(_as_float32(vectors[block]), block)
            report(start + len(block), len(rows))


def lists_of(rows: int) -> int:
    """Return the number of inverted lists: the power of 2 nearest the root of the rows. Opening a list costs as much as
    reading a thousand of its codes.

    >>> [lists_of(rows) for rows in (1, 300_000, 1_000_000, 21_000_000)]
    [1, 512, 1024, 4096]
    """
    return int(2 ** round(np.log2(rows) / 2))


def _least_effort(index: Any, lists: int, vectors: Matrix, held_out: NDArray[np.bool_]) -> Effort:
    """Find the cheapest effort whose recall exceeds the target by a standard error, else the one with the highest
    recall. The queries are the vectors held out."""
    k = min(RECALL_AT, index.ntotal)
    queries = _as_float32(vectors[held_out])
    goals = [{row for _, row in hits} for hits in nearest(vectors, queries, k, held_out)]
    tried: list[tuple[float, float, Effort]] = []  # its shortfall from the target, its cost, and itself
    for probes in _steps(1, lists):
        _set_probes(index, probes)
        cost_of_lists = probes * (_LIST_COST + _CODE_COST * len(vectors) / lists)
        if any(not shortfall and cost <= cost_of_lists for shortfall, cost, _ in tried):
            break
        found = [_candidates(index, query, min(index.ntotal, RECALL_AT * _RERANKS[-1])) for query in queries]
        for rerank in _RERANKS:
            recall, error = _recall(goals, [rows[: rerank * RECALL_AT] for rows in found], k)
            cost = cost_of_lists + rerank * RECALL_AT
            tried.append((max(0.0, TARGET - recall + error), cost, Effort(probes, rerank, recall)))
    return min(tried)[2]


def _steps(first: int, last: int) -> Iterator[int]:
    """Yield the powers of 2 from ``first`` to ``last``, and the middle of each two.

    >>> list(_steps(1, 16))
    [1, 2, 3, 4, 6, 8, 12, 16]
    """
    while first <= last:
        yield first
        if first > 1 and 3 * first <= 2 * last:
            yield 3 * first // 2
        first *= 2


def _recall(goals: Sequence[set[int]], found: Sequence[NDArray[np.int64]], k: int) -> tuple[float, float]:
    """Compute the mean share of the first ``k`` that was found, with those that tie with the last, and its standard
    error."""
    if not goals:
        return 1.0, 0.0
    shares = [min(k, len(goal.intersection(rows.tolist()))) / k for goal, rows in zip(goals, found, strict=True)]
    return float(np.mean(shares)), float(np.std(shares) / np.sqrt(len(shares)))


# --- faiss and files ----------------------------------------------------------------------------------------------


def _faiss(feature: str) -> Any:
    return require("faiss", "dense", feature)


def _candidates(index: Any, query: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    with _one_thread(_faiss("a dense index")):
        rows: NDArray[np.int64] = index.search(query[None], limit)[1][0]
    found: NDArray[np.int64] = rows[rows >= 0]
    return found


def _shortlist(vectors: Matrix, query: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Up to ``limit`` rows with the largest products in 32 bits, in their order. faiss multiplies numbers of 16 bits in
    memory as they are, which takes a third of the time that numpy needs to widen them."""
    if len(vectors) <= limit or vectors.dtype != np.float16:
        return np.arange(len(vectors))
    faiss = _faiss("a dense index")
    halves = faiss.IndexScalarQuantizer(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    halves.add_sa_codes(vectors.view(np.uint8))
    return np.sort(_candidates(halves, query, limit))


def _set_probes(index: Any, probes: int) -> None:
    _faiss("a dense index").ParameterSpace().set_index_parameter(index, "nprobe", probes)


@contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """Keep faiss on one thread: a single query is too little work to share."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _exact(index: Index, vectors: Matrix, why: str) -> DenseIndex:
    removed = index.passages.removed
    return DenseIndex(lambda queries, k: nearest(vectors, queries, k, removed), in_words({"index": EXACT, "why": why}))


def _facts(folder: Path) -> dict[str, Any]:
    facts = check(folder, kind=KIND, version=VERSION)
    if facts["index"] not in KINDS:
        message = f"a {KIND} of the kind {facts['index']}, which is no longer read; build it again: "
        raise IndexFolderError(f"{message}--dense-index {INVERTED} or {EXACT}", folder)
    return facts


def _is_built(folder: Path, kind: str) -> bool:
    """Return True if the folder holds an index of this kind, or of any for ``auto``; False for a damaged one."""
    if kind == AUTO or not folder.is_dir():
        return folder.is_dir()
    try:
        return bool(_facts(folder)["index"] == kind)
    except IndexFolderError:
        return False


def _sample_hash(vectors: Matrix) -> str:
    """Hash evenly spread rows, to recognise the vectors of another file."""
    return sha256(np.ascontiguousarray(vectors[:: max(1, len(vectors) // 256)]).tobytes()).hexdigest()


def _as_float32(vectors: Matrix) -> NDArray[np.float32]:
    return np.ascontiguousarray(vectors, np.float32)


def _advise_random_access(vectors: Matrix) -> None:
    """Advise the system that single rows of a mapped file will be read, so that it reads nothing around them."""
    base: Any = vectors
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
        base.madvise(mmap.MADV_RANDOM)
