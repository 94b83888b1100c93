"""A pool of questions, clustered by their words: which of them are alike, and which stands for the others."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from importlib import resources
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

from polyhop.common.text import words
from polyhop.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_QUESTIONS = 1_000
"""Questions of a file that are looked at, from its head."""
_ROUNDS = 50


def clustered(pool: str, count: int) -> tuple[tuple[str, ...], ...]:
    """The questions of the file ``pool`` ("" for ours) in at most ``count`` clusters, each nearest to its centre first.

    The file has a question a line, or JSON lines with a ``question``: no other field is looked at. Clusters come in the
    order of the file; the same file gives the same ones.

    Raises:
        DataError: the file is missing or has no questions; a line is malformed (named with its number).
    """
    if count == 0:
        return ()
    if not pool:
        return _clustered(None, 0, count)
    path = Path(pool)
    if not path.is_file():
        raise DataError("no such file of questions", path)
    return _clustered(path, path.stat().st_mtime_ns, count)


@lru_cache(maxsize=8)
def _clustered(path: Path | None, changed: int, count: int) -> tuple[tuple[str, ...], ...]:
    """``changed``: when the file was last written, so that a new one is read anew."""
    texts = _questions(path)
    return tuple(tuple(texts[at] for at in cluster) for cluster in k_means(tf_idf(texts), count))


def _questions(path: Path | None) -> list[str]:
    place = path or resources.files("polyhop.methods.baselines") / "auto_cot.questions.txt"
    texts: dict[str, None] = {}
    with place.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if len(texts) == MOST_QUESTIONS:
                break
            if text := _question(line.strip(), path, number):
                texts[text] = None
    if not texts:
        raise DataError("no questions in it", path)
    return list(texts)


def _question(line: str, path: Path | None, number: int) -> str:
    if not line.startswith("{"):
        return line
    try:
        question = json.loads(line).get("question")
    except (ValueError, RecursionError):
        question = None
    if not isinstance(question, str):
        raise DataError('a line is a question, or a JSON object with a "question"', path, number)
    return question.strip()


def tf_idf(texts: list[str]) -> NDArray[np.float64]:
    """One row a text: the weights of all its words, those it asks with too, scaled to length 1 (zeros for no words)."""
    import numpy as np

    counts = [Counter(words(text)) for text in texts]
    having = Counter(word for count in counts for word in count)
    place = {word: at for at, word in enumerate(sorted(having))}
    rows = np.zeros((len(texts), len(place)))
    for row, count in zip(rows, counts, strict=True):
        for word, times in count.items():
            row[place[word]] = (1 + log(times)) * (log((1 + len(texts)) / (1 + having[word])) + 1)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, 1)
    return rows


def k_means(rows: NDArray[np.float64], count: int) -> list[list[int]]:
    """The rows in at most ``count`` clusters by k-means, each as row numbers, nearest to its centre first.

    Nothing is drawn: the first centre is the row nearest the mean of all, each next the row farthest from those before.

    >>> import numpy as np
    >>> k_means(np.array([[0.0, 0.1], [0.0, 0.0], [5.0, 5.0], [0.2, 0.0]]), 2)
    [[1, 0, 3], [2]]
    """
    import numpy as np

    def distances(centres: NDArray[np.float64]) -> NDArray[np.float64]:
        squares = (rows**2).sum(1)[:, None] - 2 * rows @ centres.T + (centres**2).sum(1)
        return np.asarray(squares.clip(min=0).round(12))  # so that equal ones are equal, and the first is taken

    centres = rows[distances(rows.mean(0, keepdims=True)).argmin(0)]
    while len(centres) < min(count, len(rows)):
        centres = np.vstack([centres, rows[distances(centres).min(1).argmax()]])
    owner = distances(centres).argmin(1)
    for _ in range(_ROUNDS):
        kept = sorted(set(owner.tolist()))
        centres = np.vstack([rows[owner == cluster].mean(0) for cluster in kept])
        before, owner = owner, distances(centres).argmin(1)
        if np.array_equal(np.searchsorted(kept, before), owner):
            break
    far = distances(centres)[np.arange(len(rows)), owner]
    clusters = [np.flatnonzero(owner == cluster).tolist() for cluster in sorted(set(owner.tolist()))]
    return sorted((sorted(cluster, key=lambda row: (far[row], row)) for cluster in clusters), key=min)
