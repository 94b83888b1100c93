"""MDR: two steps of dense retrieval, the question encoded again with each passage found.

Source: Xiong, Li, Iyer, Du, Lewis, Wang, Mehdad, Yih, Riedel, Kiela and Oğuz, "Answering Complex Open-Domain Questions
with Multi-Hop Dense Retrieval", 2021. A path of two passages scores the inner product of question and first passage,
plus that of question-with-first-passage and second passage, which may be the first again. Followed: the beam, 5 hits of
every search as in the released code. Differs: passages are kept in 16 bits; paths are flattened to a ranking of
passages, each where its best path stands, and after those come the further hits of the first step. What the released
code does where a passage has no text is left out: an index holds none.

One example: "Where was the maker of Dark Mill born?" finds *Dark Mill*; the question together with that page's text
finds its maker's page, which the question alone does not name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyhop.errors import SettingError
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.exact import nearest_passages
from polyhop.retrieval.mdr_checkpoint import Dtype, MdrCheckpoint, asked
from polyhop.retrieval.vectors import PassageEncoder, passage_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index


class Path(NamedTuple):
    """Passages in the order of the hops, and the sum of their inner products."""

    passages: tuple[Passage, ...]
    score: float


class MDR(OverIndex):
    """MDR over an index. Safe across threads; ties are broken by passage id.

    Opening it encodes the passages where they are not encoded yet, with roberta-base a third of a second of one core
    for a passage of 100 words; it goes on where it was stopped. ``path``: the folder of ``MdrCheckpoint``. ``beam``:
    hits followed, and found from each. ``device``: as torch names it; None is CUDA where there is one, else the CPU.
    """

    def __init__(
        self,
        index: Index,
        path: str,
        *,
        beam: int = 5,
        device: str | None = None,
        dtype: Dtype = "float32",
        batch_size: int = 32,
    ) -> None:
        if beam < 1:
            raise SettingError(f"beam={beam}: must be at least 1")
        self.name, self.beam = f"mdr:{path}", beam
        self._index = index
        checkpoint = MdrCheckpoint(self.name, path, device=device, dtype=dtype, batch_size=batch_size)
        encoder = PassageEncoder(self.name, checkpoint.key, checkpoint.size, checkpoint.passage_encoder)
        self._vectors = passage_vectors(index, encoder)
        self._embed = checkpoint.question_embedder()

    def paths(self, question: str) -> list[Path]:
        """The paths of the beam, best first: at most ``beam`` times ``beam``; [] for an empty question."""
        return self._searched([asked(question)], self.beam)[0][0] if asked(question) else []

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        questions = [asked(query) for query in queries]
        found = iter(self._searched([question for question in questions if question], k))
        return [_flattened(*next(found))[:k] if question else [] for question in questions]

    def _searched(self, questions: Sequence[str], k: int) -> list[tuple[list[Path], list[tuple[Passage, float]]]]:
        """Each question's paths, best first, and the hits of its first step, ``k`` or as many as the beam."""
        if not questions:
            return []
        firsts = self._nearest(self._embed(questions), max(k, self.beam))
        begun = [hits[: self.beam] for hits in firsts]
        pairs = [
            (question, first.text.strip()) for question, hits in zip(questions, begun, strict=True) for first, _ in hits
        ]
        seconds = iter(self._nearest(self._embed(pairs), self.beam))
        return [(_paths(begins, seconds), hits) for begins, hits in zip(begun, firsts, strict=True)]

    def _nearest(self, vectors: NDArray[np.float32], k: int) -> list[list[tuple[Passage, float]]]:
        return nearest_passages(self._index, self._vectors, vectors, k)


def _paths(begins: Sequence[tuple[Passage, float]], seconds: Iterator[list[tuple[Passage, float]]]) -> list[Path]:
    """Each beginning with what was found from it, the next of ``seconds``."""
    paths = [Path((first, second), begun + added) for first, begun in begins for second, added in next(seconds)]
    return sorted(paths, key=lambda path: (-path.score, [passage.id for passage in path.passages]))


def _flattened(paths: Sequence[Path], hits: Sequence[tuple[Passage, float]]) -> list[tuple[Passage, float]]:
    """The passages of the paths in their order, then of the hits, each once."""
    found: dict[Passage, float] = {}
    for path in paths:
        for passage in path.passages:
            found.setdefault(passage, path.score)
    for passage, score in hits:
        found.setdefault(passage, score)
    return list(found.items())
