"""Automatic chain of thought: the model writes its own demonstrations, one per cluster of a pool of questions.

Zhang, Zhang, Li, Smola: "Automatic Chain of Thought Prompting in Large Language Models", 2022.

Followed: k-means clusters the questions of a pool. The question of each cluster that is nearest to its centre gets a
rationale by zero-shot chain of thought; if the question or its rationale is too long, the next nearest is tried (§4,
Algorithms 1 and 2, with their limits). No gold answer is used. Not followed: the vectors are those of the retriever's
encoder or, if it has none, TF-IDF, not Sentence-BERT's; at most 3 questions per cluster are tried; there are ``shots``
clusters, because every baseline shows that many demonstrations (the paper shows 8 for most datasets; ``shots=0`` is
zero-shot). The pool is a file of questions, such as the dataset's own, or by default the questions that polyhop ships;
a question is never its own demonstration.

The demonstrations are the same for every question, so with a cache their calls are made once per run. Closed-book.
Needs nothing beyond completion.

Example: with the default pool and 3 clusters, "In which town was the leader of the Kon-Tiki expedition born?" is shown
three other questions, each with the rationale and the answer the model gave.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from polyhop.answer import Answer
from polyhop.common.sentences import sentences
from polyhop.common.text import normalise, words
from polyhop.errors import DataError
from polyhop.methods.registry import method
from polyhop.prompts.tasks.answers import AUTO_COT_ANSWER, ZERO_SHOT_COT
from polyhop.types import FileName, NonNegative, Positive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from polyhop.engine.run import Run


Encode: TypeAlias = Callable[[Sequence[str]], Any]
"""Turns questions into vectors: (texts, size)."""
TRIED = 3
"""Maximum number of questions that are tried per cluster, nearest to its centre first."""


@method(
    "auto-cot",
    family="closed book",
    calls=4,
    paper="Zhang et al., 2022",
    layers=lambda settings: 1 + TRIED * (settings["shots"] > 0),
)
async def automatic_chain_of_thought(
    question: str,
    run: Run,
    *,
    pool: FileName = "",  # a file of questions; "": the default pool
    shots: NonNegative = 3,  # k, the number of clusters: one demonstration from each
    question_tokens: Positive = 60,  # §4.2: maximum length of a demonstration's question
    rationale_steps: Positive = 5,  # §4.2: maximum number of sentences of its rationale
) -> Answer:
    """Build demonstrations from clustered questions, then answer by chain of thought with them (§4)."""

    kind = run.kind if pool else "qa"  # the default pool's questions have short answers

    async def demonstrate(cluster: Sequence[str]) -> None:
        """Use the first question of the cluster that gets a fitting rationale, nearest first (Algorithm 2)."""
        short = [member for member in cluster if run.count_tokens(member) <= question_tokens]
        for member in [member for member in short if normalise(member) != normalise(question)][:TRIED]:
            response = await run.ask(ZERO_SHOT_COT, options={"shots": 0}, question=member, kind=kind)
            answered = not response.declines(response.answer)
            if answered and response.rationale and len(sentences(response.rationale)) <= rationale_steps:
                rationale, answer = response.rationale, response.answer
                built[cluster[0]] = {"question": member, "kind": kind, "rationale": rationale, "answer": answer}
                return

    built: dict[str, Mapping[str, Any]] = {}
    clusters = cluster_questions(pool, shots, run.encode)  # Algorithm 1
    with run.gathering():
        await run.gather(*map(demonstrate, clusters))

    demonstrations = [built[cluster[0]] for cluster in clusters if cluster[0] in built]
    response = await run.ask(
        AUTO_COT_ANSWER, options={"shots": 0}, final=True, question=question, demonstrations=demonstrations
    )
    return Answer(response.answer, statistics={"demonstrations": len(demonstrations)})


MAX_QUESTIONS = 1_000
"""Maximum number of questions read from a file."""
_MAX_ITERATIONS = 50


def cluster_questions(file: str, count: int, encode: Encode | None = None) -> tuple[tuple[str, ...], ...]:
    """Cluster the questions of ``file`` ("": the default pool); at most ``count`` clusters, nearest first.

    The file has one question per line, or JSON lines with a ``question``; other fields are ignored. Clusters come in
    the order of the file; the same file and ``encode`` (None: TF-IDF) always give the same clusters.

    Raises:
        DataError: the file is missing or has no questions, or a line is malformed (its number is named).
    """
    if count == 0:
        return ()
    if not file:
        return _clustered(None, 0, count, encode)
    path = Path(file)
    if not path.is_file():
        raise DataError("no such file of questions", path)
    return _clustered(path, path.stat().st_mtime_ns, count, encode)


@lru_cache(maxsize=8)
def _clustered(path: Path | None, modified: int, count: int, encode: Encode | None) -> tuple[tuple[str, ...], ...]:
    """Cluster a file once; ``modified``, its time of modification, makes a changed file be read again."""
    texts = _questions(path)
    rows = _of_length_1(encode(texts)) if encode else tf_idf(texts)
    return tuple(tuple(texts[i] for i in cluster) for cluster in k_means(rows, count))


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
    return _of_length_1(rows)


def _of_length_1(rows: NDArray[Any]) -> NDArray[np.float64]:
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float64)


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
