"""The nearest vectors of many: a few are compared with the query in a short form that is held in memory, and the best
of those are multiplied again from the vectors themselves, so a score never depends on what found it.

Source: Gao and Long, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound for Approximate
Nearest Neighbor Search", 2024: vectors are turned at random and kept in 1 bit a number. They stand in inverted lists
(Jégou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search", 2011), of which the few nearest the query
are read; both by faiss. Differs: so many lists are read, and so many vectors multiplied again, as reach a recall that
is measured when the index is made.

One example: 300,000 vectors of 384 numbers take 64 bytes each in memory instead of 768; of 512 lists 48 are read, and
300 vectors, 768 bytes each, are fetched from the disk to find the first 10.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
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
"""Queries, (queries, size), and ``k`` to each one's hits by falling inner product, as ``exact.nearest`` gives them."""

AUTO, EXACT = "auto", "exact"
KINDS = (EXACT, "ivf-rabitq", "ivf-sq8", "hnsw")
EXACT_UP_TO = 300_000
"""Passages that are searched exactly unless something else is asked for; more of them by ``ivf-rabitq``."""

RECALL_AT, TARGET = 10, 0.95
QUERIES = 400
"""Passages that recall is measured with, drawn at random: searched for before they are in the index themselves."""

KIND, VERSION = "dense index", 1

_FILE = "faiss"
_SEED = 20110117
_TRAINED_ON, _TRAINED_BYTES = 100, 2**30  # vectors a list, and bytes in all
_BLOCK = 2**24  # numbers that are added at once
_SHORTLIST = 4  # for each passage wanted: no rounding of 32 bits moves one so far
_RERANKS = (10, 15, 20, 25, 30, 40, 50)  # vectors multiplied again for each passage wanted

_FACTORY = {"ivf-rabitq": "RR,IVF{lists},RaBitQfs", "ivf-sq8": "IVF{lists},SQ8", "hnsw": "IDMap,HNSW32,SQ8"}
_COSTS = {"ivf-rabitq": (10.0, 0.01), "ivf-sq8": (2.0, 0.06), "hnsw": (6.0, 0.0)}
"""What a list (or a step in the graph) and a vector in it cost, where multiplying a vector again costs 1: measured."""


class Found(NamedTuple):
    """What finds the nearest vectors, and ``how``: its kind, why it is that one, and its measured recall."""

    nearest: Nearest
    how: str


class Effort(NamedTuple):
    """How much is looked at: ``probes`` lists (or steps in the graph), and ``rerank`` vectors multiplied again for each
    passage wanted; ``recall`` is the share of the exact first 10 that this found."""

    probes: int
    rerank: int
    recall: float


def check_kind(kind: str) -> None:
    """Whether an index of this kind can be made here.

    Raises:
        UnknownName: there is none of the name.
        MissingExtra: faiss is not installed.
    """
    if kind not in (AUTO, *KINDS):
        raise UnknownName("dense index", kind, [AUTO, *KINDS])
    if kind not in (AUTO, EXACT):
        _faiss(f"the dense index {kind}")


def dense_index(
    index: Index, vectors: Matrix, encoder: tuple[str, str], kind: str = AUTO, *, exact_up_to: int = EXACT_UP_TO
) -> Found:
    """What finds the nearest of ``vectors``, (passages, size), those of an index by an encoder of this name and key.

    One of another ``kind`` is made where it does not stand yet, beside the index, and is from then on what ``auto``
    finds; where nothing was made ``auto`` goes by size. A second process waits for the first.

    Raises:
        UnknownName, MissingExtra: as ``check_kind``.
        IndexFolderError: the folder is damaged; naming a kind makes it anew.
    """
    check_kind(kind)
    key = repr((VERSION, index.fingerprint, encoder[1], vectors.shape, vectors.dtype.str, _sampled(vectors)))
    folder = sidecar_dir(index.state, f"nearest-{sha256(key.encode()).hexdigest()[:16]}", key)
    why = "asked for"
    if kind == AUTO and not folder.is_dir():
        if len(vectors) <= exact_up_to:
            return _exact(index, vectors, f"{exact_up_to:,} passages or fewer")
        kind, why = "ivf-rabitq", f"more than {exact_up_to:,} passages"
        _faiss(f"the dense index of {why} (unless it is to be {EXACT})")
    if not _stands(folder, kind):
        with locked(folder.with_suffix(".lock")):
            if not _stands(folder, kind):
                with new_folder(folder, kind=KIND, overwrite=True, within=folder.parent) as making:
                    facts = {} if kind == EXACT else fill(making, kind, vectors)
                    about = {"index": kind, "why": why, "encoder": encoder[0], "passages": len(vectors)}
                    write_manifest(making, kind=KIND, version=VERSION, facts={**about, **facts})
    facts = check(folder, kind=KIND, version=VERSION)
    if facts["index"] == EXACT:
        return _exact(index, vectors, facts["why"])
    return Found(Approximate(folder, facts, vectors, index.passages.removed).nearest, in_words(facts))


def dense_indexes(index: Index) -> list[dict[str, Any]]:
    """What was made in an index's folder: of each its kind (``index``), ``encoder``, ``passages``, and where it is not
    exact ``lists``, ``probes``, ``rerank``, ``recall``, the ``queries`` it was measured with, ``bytes`` in memory.

    Raises:
        IndexFolderError: a folder of them is damaged.
    """
    folders = [folder for folder in sorted(index.state.glob("nearest-*")) if folder.is_dir()]
    facts = [check(folder, kind=KIND, version=VERSION) for folder in folders]
    own = ("kind", "version", "byte_order", "polyhop", "files")
    return [{name: fact for name, fact in told.items() if name not in own} for told in facts]


def in_words(facts: dict[str, Any]) -> str:
    """A dense index in words.

    >>> in_words({"index": "hnsw", "why": "asked for", "probes": 64, "lists": 0, "rerank": 10, "recall": 0.971})
    'asked for: hnsw, recall@10 0.971 (64 steps in the graph, 10 vectors multiplied for each passage wanted)'
    """
    if facts["index"] == EXACT:
        return f"{facts['why']}: {EXACT}"
    where = (
        f"{facts['probes']} of {counted(facts['lists'], 'lists')}"
        if facts["lists"]
        else f"{counted(facts['probes'], 'steps')} in the graph"
    )
    short = "" if facts["recall"] >= TARGET else f", short of {TARGET}: what is nearest is hard to tell here"
    return (
        f"{facts['why']}: {facts['index']}, recall@{RECALL_AT} {facts['recall']:.3f}{short} ({where}, "
        f"{counted(facts['rerank'], 'vectors')} multiplied for each passage wanted)"
    )


class Approximate:
    """An index of faiss over vectors. Safe across threads; each query is searched alone, so that what is found depends
    on no other.

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
        _read_here_and_there(vectors)

    def nearest(self, queries: NDArray[np.float32], k: int) -> list[list[Hit]]:
        """Each query's hits by falling inner product, then by row; exact where the lists read hold fewer than ``k``."""
        return [self._nearest(query, k) for query in queries]

    def candidates(self, query: NDArray[np.float32], most: int) -> NDArray[np.int64]:
        """The rows that look best in their short form, at most so many, best first; ``query``: (size,)."""
        return _candidates(self._index, query, min(most, len(self._vectors)))

    def _nearest(self, query: NDArray[np.float32], k: int) -> list[Hit]:
        rows = np.sort(self.candidates(query, self._rerank * max(k, RECALL_AT)))
        if self._left_out is not None:
            rows = rows[~self._left_out[rows]]
        if len(rows) < min(k, len(self._vectors)):
            return nearest(self._vectors, query[None], k, self._left_out)[0]
        some = self._vectors[rows]
        few = _shortlist(some, query, _SHORTLIST * k)
        return [(score, int(rows[few[at]])) for score, at in nearest(some[few], query[None], k)[0]]


# --- making one ---------------------------------------------------------------------------------------------------


def fill(making: Path, kind: str, vectors: Matrix) -> dict[str, Any]:
    """Make an index in a folder: train on a sample, add block by block, find the least effort with recall enough. Gives
    the facts of it.

    What it is asked with is added last, once that is found: passages drawn at random that it does not hold yet.
    """
    faiss = _faiss(f"the dense index {kind}")
    rows, size = vectors.shape
    lists = 0 if kind == "hnsw" else lists_of(rows)
    index = faiss.index_factory(size, _FACTORY[kind].format(lists=lists), faiss.METRIC_INNER_PRODUCT)
    if lists:
        faiss.extract_index_ivf(index).cp.min_points_per_centroid = 1  # else it warns on stderr
    draw = np.random.default_rng(_SEED)
    most = min(rows, max(_TRAINED_ON * lists, 10_000), max(lists, _TRAINED_BYTES // (4 * size)))
    index.train(_plain(vectors[np.sort(draw.choice(rows, most, replace=False))]))
    held_out = np.zeros(rows, np.bool_)
    held_out[draw.choice(rows, min(QUERIES, rows // 2), replace=False)] = True
    with _one_thread(faiss) if kind == "hnsw" else nullcontext():
        _add(index, vectors, ~held_out)
        effort = _least_effort(index, kind, lists, vectors, held_out)
        _add(index, vectors, held_out)
    faiss.write_index(index, str(making / _FILE))
    measured = {"target": TARGET, "queries": int(held_out.sum()), "bytes": (making / _FILE).stat().st_size}
    return {"size": size, "lists": lists, **effort._asdict(), **measured}


def _add(index: Any, vectors: Matrix, which: NDArray[np.bool_]) -> None:
    rows = np.flatnonzero(which)
    step = max(1, _BLOCK // vectors.shape[1])
    with report_progress("vectors indexed") as tell:
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            index.add_with_ids(_plain(vectors[some]), some)
            tell(start + len(some), len(rows))


def lists_of(rows: int) -> int:
    """The power of 2 nearest the root: a list costs as much to begin as a thousand of its vectors to read.

    >>> [lists_of(rows) for rows in (1, 300_000, 1_000_000, 21_000_000)]
    [1, 512, 1024, 4096]
    """
    return int(2 ** round(np.log2(rows) / 2))


def _least_effort(index: Any, kind: str, lists: int, vectors: Matrix, held_out: NDArray[np.bool_]) -> Effort:
    """What costs least of what reaches the target, by a standard error at least, asked with the vectors held out; where
    nothing does, what finds most."""
    wanted = min(RECALL_AT, index.ntotal)
    queries = _plain(vectors[held_out])
    goals = [{row for _, row in hits} for hits in nearest(vectors, queries, wanted, held_out)]
    begin, each = _COSTS[kind]
    tried: list[tuple[float, float, Effort]] = []  # what it is short of the target by, its cost, and what it is
    for probes in _steps(1 if lists else 16, lists or 1024):
        _set_probes(index, probes)
        price = probes * (begin + each * len(vectors) / max(1, lists))
        if any(not short and cost <= price for short, cost, _ in tried):
            break
        found = [_candidates(index, query, min(index.ntotal, RECALL_AT * _RERANKS[-1])) for query in queries]
        for rerank in _RERANKS:
            recall, error = _recall(goals, [rows[: rerank * RECALL_AT] for rows in found], wanted)
            tried.append(
                (max(0.0, TARGET - recall + error), price + rerank * RECALL_AT, Effort(probes, rerank, recall))
            )
    return min(tried)[2]


def _steps(first: int, most: int) -> Iterator[int]:
    """Powers of 2, and what lies between two of them.

    >>> list(_steps(1, 16))
    [1, 2, 3, 4, 6, 8, 12, 16]
    """
    while first <= most:
        yield first
        if first > 1 and 3 * first <= 2 * most:
            yield 3 * first // 2
        first *= 2


def _recall(goals: Sequence[set[int]], found: Sequence[NDArray[np.int64]], wanted: int) -> tuple[float, float]:
    """The mean share of the ``wanted`` first that was found, of any that tie with the last, and its standard error."""
    if not goals:
        return 1.0, 0.0
    shares = [
        min(wanted, len(goal.intersection(rows.tolist()))) / wanted for goal, rows in zip(goals, found, strict=True)
    ]
    return float(np.mean(shares)), float(np.std(shares) / np.sqrt(len(shares)))


# --- what faiss and files are asked -------------------------------------------------------------------------------


def _faiss(feature: str) -> Any:
    return require("faiss", "dense", feature)


def _candidates(index: Any, query: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    with _one_thread(_faiss("a dense index")):
        rows: NDArray[np.int64] = index.search(query[None], most)[1][0]
    found: NDArray[np.int64] = rows[rows >= 0]
    return found


def _shortlist(vectors: Matrix, query: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """The rows with the largest products in 32 bits, at most so many, in their order. faiss multiplies numbers of 16
    bits where they lie, which takes a third of what numpy needs to widen them."""
    if len(vectors) <= most or vectors.dtype != np.float16:
        return np.arange(len(vectors))
    faiss = _faiss("a dense index")
    halves = faiss.IndexScalarQuantizer(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    halves.add_sa_codes(vectors.view(np.uint8))
    return np.sort(_candidates(halves, query, most))


def _set_probes(index: Any, probes: int) -> None:
    faiss = _faiss("a dense index")
    name = "nprobe" if faiss.try_extract_index_ivf(index) else "efSearch"
    faiss.ParameterSpace().set_index_parameter(index, name, probes)


@contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """One query is too little to share; a graph is only the same again if one thread builds it."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _exact(index: Index, vectors: Matrix, why: str) -> Found:
    removed = index.passages.removed
    return Found(lambda queries, k: nearest(vectors, queries, k, removed), in_words({"index": EXACT, "why": why}))


def _stands(folder: Path, kind: str) -> bool:
    """Whether an index of this kind, or for ``auto`` of any, stands in the folder, and not a damaged one to replace."""
    if kind == AUTO or not folder.is_dir():
        return folder.is_dir()
    try:
        return bool(check(folder, kind=KIND, version=VERSION)["index"] == kind)
    except IndexFolderError:
        return False


def _sampled(vectors: Matrix) -> str:
    """A hash of rows spread evenly: vectors from another file are told apart."""
    return sha256(np.ascontiguousarray(vectors[:: max(1, len(vectors) // 256)]).tobytes()).hexdigest()


def _plain(vectors: Matrix) -> NDArray[np.float32]:
    return np.ascontiguousarray(vectors, np.float32)


def _read_here_and_there(vectors: Matrix) -> None:
    """Tell the system that single rows of a mapped file will be read, so that it reads nothing around them."""
    base: Any = vectors
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
        base.madvise(mmap.MADV_RANDOM)
