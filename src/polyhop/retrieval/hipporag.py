"""HippoRAG 2: personalised PageRank over passages and the phrases of their triplets, from facts that the model selects.

Gutiérrez, Shu, Qi, Zhou, Su: "From RAG to Memory: Non-Parametric Continual Learning for Large Language Models", 2025
(arXiv 2502.14802). Code: github.com/OSU-NLP-Group/HippoRAG.

Followed, at indexing (``polyhop index triplets``): a model lists the named entities of a passage, then states it as
triplets. Heads and tails are nodes, and so are passages. Edges join the ends of a triplet, a passage and its phrases,
and phrases whose vectors have a cosine of at least 0.8.
Followed, for a query: its vector finds the nearest triplets (query to triple); a model selects those that matter
(recognition memory), and if it selects none, dense retrieval answers. A walk starts at the ends of the selected
triplets, each with the mean score of its triplets over the number of passages with this phrase, the best 5 of them, and
at every passage with 0.05 of its dense score; scores are scaled from 0 to 1. Every second step it starts again. The
passages are ranked by the time the walk spends at them. As in the code: an edge counts as often as its triplet is
stated, in both directions, and a synonym's weight is its cosine, in place of a triplet's between the same phrases.
Settled here: the instructions for queries are the encoder's own. The prompts are ours. Phrases are compared by their
words, in any language. A spent budget leaves the facts unfiltered. The paper's encoder is NV-Embed-v2, its model
Llama-3.3-70B, and it reads the top 5: ``one-r -o style=cot``.

Example: "In which town was the director of Dark Mill born?" is nearest to (Dark Mill; directed by; Ann Lee) and (Dark
Mill; filmed in; Rome). The model selects the first; the walk starts at "dark mill" and "ann lee", and from there comes
to her page, which says where she was born.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyhop.common.pagerank import Graph, pagerank_of_all
from polyhop.common.registry import check_at_least
from polyhop.common.turns import in_thread
from polyhop.errors import SettingError
from polyhop.prompts.tasks.hipporag import HIPPORAG_FILTER
from polyhop.prompts.triplets import named_triplets
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.exact import products
from polyhop.retrieval.triplets import Fact, TripletTable, open_with_triplets
from polyhop.retrieval.vectors import encoded_folder, text_vectors
from polyhop.types import Passage, QuestionRun

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

DAMPING, FACTS, PHRASES, PASSAGE_WEIGHT = 0.5, 5, 5, 0.05
"""As in the public code: probability of a further step, facts per query, phrases to start at, weight of passages."""
SYNONYM_FROM, MAX_SYNONYMS, MIN_CHARACTERS = 0.8, 100, 3
"""The code: the least cosine of synonyms, their number per phrase, and the length of a phrase that can have any."""

_BLOCK = 512  # phrases compared at once with all others

Floats = NDArray[np.float64]


class HippoRAG:
    """HippoRAG 2 over an index, as a retriever of any method.

    Args:
        facts: the number of triplets nearest to a query, from which the model selects.
        recognise: False for the triplets as they are found, without a model.
    """

    def __init__(
        self,
        index: Index,
        table: TripletTable,
        encoder: Encoder,
        *,
        facts: int = FACTS,
        recognise: bool = True,
        damping: float = DAMPING,
        passage_weight: float = PASSAGE_WEIGHT,
        name: str = "hipporag",
    ) -> None:
        check_at_least(1, facts=facts)
        if not 0 < damping < 1:
            raise SettingError(f"damping={damping:g}: must be above 0 and below 1")
        if passage_weight < 0:
            raise SettingError(f"passage_weight={passage_weight:g}: must be at least 0")
        self.name, self.start, self.linked = name, Dense(index, encoder), bool(index.link_mode)
        self._index, self._table, self._encoder = index, table, encoder
        self._facts, self._recognise = facts, recognise
        self._damping, self._passage_weight = damping, passage_weight
        removed = index.passages.removed
        self._live = np.arange(index.rows) if removed is None else np.flatnonzero(~removed)
        self._vectors = text_vectors(index, table.texts, encoder)
        self._graph, self._passages_with = graph_of(index, table, synonyms(index, table.phrases, encoder))

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to."""
        return self._index.links(passage)

    async def search_by(self, run: QuestionRun, query: str, k: int) -> Sequence[Passage]:
        """Return the ``k`` passages at which walks from the selected facts spend most time."""
        numbers, scores = await in_thread(self._nearest_facts, query)
        kept = await self._recognised(run, query, numbers) if self._recognise else numbers
        if not kept:
            return await run.search(query, k)
        return await in_thread(self._walk, query, kept, scores, k)

    def _nearest_facts(self, query: str) -> tuple[list[int], Floats]:
        """Query to triple: the facts nearest to the query, and the scores of all, from 0 to 1."""
        if not (query.strip() and self._table.facts):
            return [], np.zeros(0)
        scores = scaled(products(self._vectors, self._encoder.queries([query])[0]))
        return np.argsort(-scores, kind="stable")[: self._facts].tolist(), scores

    async def _recognised(self, run: QuestionRun, query: str, numbers: Sequence[int]) -> list[int]:
        """Recognition memory: those of the facts that the model selects."""
        given = [dict(self._table.facts[number]) for number in numbers]
        kept: Sequence[Fact] = given
        with run.gathering():
            if given:
                reply = await run.ask(HIPPORAG_FILTER, question=query, triplets=given)
                kept = named_triplets([triplet.model_dump() for triplet in reply.triplets], given)
        return [number for number, fact in zip(numbers, given, strict=True) if fact in kept]

    def _walk(self, query: str, kept: Sequence[int], scores: Floats, k: int) -> list[Passage]:
        live = self._live
        start = np.zeros(len(self._graph.starts) - 1)
        for phrase, weight in self._phrase_weights(kept, scores):
            start[phrase] = weight
        first = len(self._table.phrases)
        start[first + live] = self._passage_weight * scaled(self.start.scores(query)[live])
        if not start.any():
            return self.start.search(query, k)
        shares = pagerank_of_all(self._graph, start, self._damping)
        found = self._index.passages.best_scored(live, shares[first + live], k)
        return [passage for passage, _ in found]

    def _phrase_weights(self, kept: Sequence[int], scores: Floats) -> list[tuple[int, float]]:
        """Return the phrases where walks start, and their weights: the mean score of the facts that have each, over the
        number of passages with it."""
        of: dict[int, list[float]] = {}
        for number in kept:
            for phrase in self._table.ends[number].tolist():
                of.setdefault(phrase, []).append(float(scores[number]) / float(self._passages_with[phrase]))
        means = [(phrase, sum(each) / len(each)) for phrase, each in of.items()]
        return sorted(means, key=lambda pair: -pair[1])[:PHRASES]


def scaled(scores: NDArray[Any]) -> Floats:
    """Scale scores to the range from 0 to 1; equal ones are all 1.

    >>> scaled(np.array([2.0, 4.0, 3.0])).tolist()
    [0.0, 1.0, 0.5]
    """
    low, high = (float(bound(scores)) for bound in (np.min, np.max)) if len(scores) else (0.0, 0.0)
    return (scores.astype(np.float64) - low) / (high - low) if high > low else np.ones(len(scores))


def graph_of(
    index: Index, table: TripletTable, synonymous: tuple[NDArray[np.int64], Floats]
) -> tuple[Graph, NDArray[np.int64]]:
    """Build the graph of phrases and passages, passage ``i`` after the last phrase by ``i``; and count the passages
    with each phrase."""
    count = len(table.phrases)
    rows, ends = table.stated[:, :1], table.ends[table.stated[:, 1]]
    contained = np.unique(np.concatenate([np.concatenate([rows, ends[:, i : i + 1]], 1) for i in (0, 1)]), axis=0)
    pairs, cosines = synonymous
    related = np.concatenate([ends, ends[:, ::-1]])
    replaced = np.isin(related @ [count, 1], pairs @ [count, 1])
    related = related[~replaced & (related[:, 0] != related[:, 1])]
    edges = np.concatenate([related, pairs, contained[:, ::-1] + [0, count]])
    weights = np.concatenate([np.ones(len(related)), cosines, np.ones(len(contained))])
    both = np.concatenate([edges, edges[:, ::-1]]).astype(np.uint32)
    graph = Graph.of(count + index.rows, both[:, 0], both[:, 1], np.concatenate([weights, weights]).astype(np.float32))
    return graph, np.maximum(np.bincount(contained[:, 1], minlength=count), 1)


def synonyms(index: Index, phrases: Sequence[str], encoder: Encoder) -> tuple[NDArray[np.int64], Floats]:
    """Find the synonyms of each phrase: pairs of phrases, (pairs, 2), and the cosine of their vectors. The first use
    compares all with all."""
    vectors = text_vectors(index, phrases, encoder)

    def write(making: Path) -> dict[str, Any]:
        pairs, cosines = compared(phrases, vectors)
        np.save(making / "pairs.npy", pairs)
        np.save(making / "cosines.npy", cosines)
        return {"encoder": encoder.name, "phrases": len(phrases), "pairs": len(pairs)}

    key = repr((encoder.key, SYNONYM_FROM, MAX_SYNONYMS, sha256("\0".join(phrases).encode()).hexdigest()))
    folder = encoded_folder(index, "synonyms", key, write)
    return np.load(folder / "pairs.npy"), np.load(folder / "cosines.npy")


def compared(phrases: Sequence[str], vectors: NDArray[np.float16]) -> tuple[NDArray[np.int64], Floats]:
    """Compare phrases by their vectors of length 1; return the pairs that are synonyms, and their cosines."""
    able = np.array([len(phrase.replace(" ", "")) >= MIN_CHARACTERS for phrase in phrases], np.bool_)
    every = np.asarray(vectors, np.float32)
    found: list[NDArray[np.int64]] = [np.zeros((0, 2), np.int64)]
    cosines: list[Floats] = [np.zeros(0)]
    for begin in range(0, len(phrases), _BLOCK):
        block = every[begin : begin + _BLOCK] @ every.T
        rows = np.arange(len(block))
        block[rows, rows + begin] = -1.0
        block[~able[begin : begin + _BLOCK]] = -1.0
        row, column = np.nonzero(block >= SYNONYM_FROM)
        value = block[row, column].astype(np.float64)
        order = np.lexsort((column, -value, row))
        row, column, value = row[order], column[order], value[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        kept = rank < MAX_SYNONYMS
        found.append(np.stack([row[kept] + begin, column[kept]], 1))
        cosines.append(value[kept])
    return np.concatenate(found), np.concatenate(cosines)


def open_hipporag(index: Index, spec: str) -> HippoRAG:
    """Open ``hipporag:FILE?encoder=NAME&facts=5&recognise=no&damping=0.5&passage_weight=0.05``.

    Raises:
        UsageError: an option is unknown or wrong.
        DataError: the file of triplets cannot be read.
    """
    options = ("facts", "recognise", "damping", "passage_weight")
    name, table, encoder, given = open_with_triplets("hipporag", index, spec, options)
    recognise = given.pop("recognise", "yes")
    if recognise not in ("yes", "no"):
        raise SettingError(f"recognise={recognise}: must be yes or no")
    settings: dict[str, Any] = dict(given)
    for option in {"damping", "passage_weight"} & given.keys():
        try:
            settings[option] = float(str(given[option]))
        except ValueError:
            raise SettingError(f"{option}={given[option]}: must be a number") from None
    return HippoRAG(index, table, encoder, recognise=recognise == "yes", name=name, **settings)
