"""The cost of an update compared with a rebuild: adding passages to an index and removing them, at several sizes.

    python -m benchmarks.updates [--sizes 1000,10000,100000] [--changed 100] [--check]

The passages are those of ``bm25.py``, half of which mention a title. Wall times, including writing to disk: building
the index with the added passages, adding them to an index without them, and removing as many from it. With ``--check``
the exit code is 1 if an update of the largest index takes more than a tenth of its rebuild.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from benchmarks.bm25 import Synthetic
from benchmarks.figures import Figure, conclude, parser

from polyhop.data.corpora import open_corpus
from polyhop.retrieval.index import build_index
from polyhop.retrieval.updating import add_passages, remove_passages

WORST_SHARE = 0.1


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measured(size: int, changed: int, folder: Path) -> tuple[float, float, float]:
    """Return the seconds of building, adding and removing."""
    passages = list(Synthetic(size + changed))
    build = seconds(lambda: build_index(open_corpus(passages), folder / "whole"))
    build_index(open_corpus(list(islice(passages, size))), folder / "index")
    add = seconds(lambda: add_passages(folder / "index", open_corpus(passages[size:])))
    gone = [passage.id for passage in passages[: size : max(1, size // changed)]][: min(changed, size // 20)]
    remove = seconds(lambda: remove_passages(folder / "index", gone))
    return build, add, remove


def main() -> None:
    """Measure, print the table and, with ``--check``, check the bar."""
    made = parser(__doc__)
    made.add_argument("--sizes", default="1000,10000,100000")
    made.add_argument("--changed", type=int, default=100)
    arguments = made.parse_args()
    print(f"{'passages':>10}{'build s':>9}{'add s':>8}{'share':>8}{'remove s':>10}{'share':>8}")
    worst = 0.0
    for size in map(int, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="polyhop-updates-") as name:
            build, add, remove = measured(size, arguments.changed, Path(name))
        worst = max(add, remove) / build
        print(f"{size:10,}{build:9.2f}{add:8.2f}{add / build:8.1%}{remove:10.2f}{remove / build:8.1%}")
    conclude([Figure("an update / a rebuild", worst, most=WORST_SHARE)], arguments)


if __name__ == "__main__":
    main()
