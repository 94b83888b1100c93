"""Clusters of similar questions: k-means over TF-IDF vectors of a question file."""

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

MAX_QUESTIONS = 1_000
"""Questions read from the head of a file."""
_MAX_ITERATIONS = 50


def cluster_questions(file: str, count: int) -> tuple[tuple[str, ...], ...]:
    """Group the questions of ``file`` ("": ours) into at most ``count`` clusters, nearest to the centre first.

    The file has one question per line, or JSON lines with a ``question``; other fields are ignored. Clusters come in
    the order of the file; the same file always gives the same clusters.

    Raises:
        DataError: the file is missing or has no questions, or a line is malformed (its number is named).
    """
    if count == 0:
        return ()
    if not file:
        return _clustered(None, 0, count)
    path = Path(file)
    if not path.is_file():
        raise DataError("no such file of questions", path)
    return _clustered(path, path.stat().st_mtime_ns, count)


@lru_cache(maxsize=8)
def _clustered(path: Path | None, modified: int, count: int) -> tuple[tuple[str, ...], ...]:
    """Cluster a file once; ``modified``, its time of modification, makes a changed file be read again."""
    texts = _questions(path)
    return tuple(tuple(texts[i] for i in cluster) for cluster in k_means(tf_idf(texts), count))


def _questions(path: Path | None) -> list[str]:
    source = path or resources.files("polyhop.methods.baselines") / "auto_cot.questions.txt"
    texts: dict[str, None] = {}
    with source.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if len(texts) == MAX_QUESTIONS:
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
    """Weight the words of each text, question words too: one row per text, of length 1 (zeros if it has no words)."""
    import numpy as np

    counts = [Counter(words(text)) for text in texts]
    document_count = Counter(word for count in counts for word in count)
    column = {word: i for i, word in enumerate(sorted(document_count))}
    rows = np.zeros((len(texts), len(column)))
    for row, count in zip(rows, counts, strict=True):
        for word, times in count.items():
            row[column[word]] = (1 + log(times)) * (log((1 + len(texts)) / (1 + document_count[word])) + 1)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, 1)
    return rows


def k_means(rows: NDArray[np.float64], count: int) -> list[list[int]]:
    """Cluster the rows by k-means into at most ``count`` lists of row numbers, nearest to the centre first.

    Nothing is random: the first centre is the row nearest the mean; each next one is the row farthest from the others.

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
    for _ in range(_MAX_ITERATIONS):
        kept = sorted(set(owner.tolist()))
        centres = np.vstack([rows[owner == cluster].mean(0) for cluster in kept])
        before, owner = owner, distances(centres).argmin(1)
        if np.array_equal(np.searchsorted(kept, before), owner):
            break
    far = distances(centres)[np.arange(len(rows)), owner]
    clusters = [np.flatnonzero(owner == cluster).tolist() for cluster in sorted(set(owner.tolist()))]
    return sorted((sorted(cluster, key=lambda row: (far[row], row)) for cluster in clusters), key=min)
