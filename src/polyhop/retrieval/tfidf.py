"""TF-IDF over the passages of an index, alone or followed by links and BM25, and between a few texts.

``tfidf`` compares words by the cosine: a text is the vector of its terms' weights (1 + ln tf) · idf with idf =
ln((1 + N) / (1 + n)) + 1, scaled to length 1, as by scikit-learn's ``TfidfVectorizer(sublinear_tf=True)``. Terms are
those of BM25's analysis. ``tfidf:bigram`` is DrQA's: hashed words and bigrams with the weights ln(1 + tf) · idf with
idf = ln((N - n + 0.5) / (n + 0.5)) or 0 if that is less, and the product of the vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import log, sqrt
from typing import TYPE_CHECKING, Any, TypeVar

from polyhop.errors import IndexFolderError, UnknownName, UsageError
from polyhop.retrieval.analysis import ENGLISH, Analysis
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.postings import MAX_TF, Buckets, Postings, Vocabulary, Weighting, Words
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

_Key = TypeVar("_Key")

FIRST = 100
"""Default number of hits of TF-IDF in the pool that BM25 ranks."""


def _cosine_tf(count: Any) -> Any:
    import numpy as np

    return 1 + np.log(np.maximum(count, 1))


def _cosine_idf(texts: int, having: Any) -> Any:
    import numpy as np

    return np.log((1 + texts) / (1 + having)) + 1


def _drqa_tf(count: Any) -> Any:
    import numpy as np

    return np.log1p(count)


def _drqa_idf(texts: int, having: Any) -> Any:
    import numpy as np

    return np.log(np.maximum(1, (texts - having + 0.5) / (having + 0.5)))


class TfIdf(OverIndex):
    """TF-IDF cosine over an index. Safe across threads; ties are broken by passage id, also at the cut.

    Opening it builds the postings if the index has none yet: about a minute per million passages.
    """

    name = "tfidf"
    weighting = Weighting(_cosine_tf, _cosine_idf, has_unit_length=True)
    vocabulary: type[Vocabulary] = Words

    def __init__(self, index: Index, *, progress: Callable[[int], object] | None = None) -> None:
        import numpy as np

        self._index = index
        self._terms = self.vocabulary(index.analysis)
        self._postings = Postings(index, self._terms, self.weighting, progress)
        self._tf = self.weighting.tf(np.arange(MAX_TF + 1)).astype(np.float32)

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """Score each passage that has a term of the query by the product of their vectors."""
        try:
            return self._ranked(query, k)
        except (IndexError, ValueError, ZeroDivisionError) as error:
            folder = self._postings.folder
            raise IndexFolderError(f"its postings are damaged ({error}); remove them", folder) from error

    def _ranked(self, query: str, k: int) -> list[tuple[Passage, float]]:
        import numpy as np

        postings, weighting = self._postings, self.weighting
        terms = self._terms.find(query)
        rows = [postings.row(number) for number, _ in terms]
        idf = [float(weighting.idf(len(self._index), row.stop - row.start)) for row in rows]
        weights = {i: float(weighting.tf(count)) * idf[i] for i, (_, count) in enumerate(terms)}
        if weighting.has_unit_length:
            weights = unit(weights)
        scores = np.zeros(self._index.rows, dtype=np.float32)
        has_term = np.zeros(self._index.rows, dtype=np.bool_)
        for i, row in enumerate(rows):
            scores[postings.ordinals[row]] += self._tf[postings.counts[row]] * np.float32(weights[i] * idf[i])
            has_term[postings.ordinals[row]] = True
        if postings.norms is not None:
            scores /= postings.norms
        found = np.flatnonzero(has_term)
        return self._index.passages.best_scored(found, scores[found], k)


class BigramTfIdf(TfIdf):
    """DrQA's TF-IDF of hashed words and bigrams, with the title before the text: PromptRank's first retrieval.

    A term that half of the passages have weighs nothing; passages without any other come last. Safe across threads.
    Opening it builds the postings if the index has none yet: twice the time of ``TfIdf``.
    """

    name = "tfidf:bigram"
    weighting = Weighting(_drqa_tf, _drqa_idf, has_unit_length=False)
    vocabulary = Buckets


def tfidf_over(terms: str) -> type[TfIdf]:
    """Return the TF-IDF over ``terms``: "" for words, "bigram". Raises ``UnknownName`` for others."""
    if terms not in ("", "bigram"):
        raise UnknownName("TF-IDF", f"tfidf:{terms}", [TfIdf.name, BigramTfIdf.name])
    return BigramTfIdf if terms else TfIdf


class TfIdfBM25(OverIndex):
    """BM25 over the ``first`` hits of TF-IDF, or ``k`` if that is more, and the passages they link to. Safe across
    threads; ties are broken by passage id.

    Source: the baseline "TF-IDF + BM25" of PromptRank (Khalifa et al., "Few-shot Reranking for Multi-hop QA via
    Language Model Prompting", 2023), Table 1. The paper gives no details, and in its code the option is not reachable.
    Our choice: the first 100 hits of TF-IDF, where PromptRank starts too; all their links; BM25 with the statistics of
    the whole corpus, not of the pool. A linked passage without a word of the query is not ranked.
    """

    name = "tfidf-bm25"

    def __init__(self, index: Index, *, first: int = FIRST, tfidf: type[TfIdf] = TfIdf) -> None:
        self.name = tfidf.name.replace("tfidf", self.name)
        if not index.link_mode:
            raise UsageError(f"{self.name} follows links, and the index was built without: build it with links")
        self._index, self._first = index, first
        self._tfidf, self._bm25 = tfidf(index), BM25(index)

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        hits = self._tfidf.search(query, max(k, self._first))
        pool = dict.fromkeys([*hits, *(target for hit in hits for target in self._index.links(hit))])
        ordinals = {ordinal for passage in pool if (ordinal := self._index.passages.ordinal(passage.id)) is not None}
        return self._bm25.search_among(query, ordinals, k)


def similarities(text: str, texts: Sequence[str], analysis: Analysis = ENGLISH) -> list[float]:
    """Compute the TF-IDF cosine of ``text`` to each of ``texts``, from 0 to 1. Document frequencies are counted in
    ``texts``.

    >>> [round(value, 2) for value in similarities("jazz drummer", ["A drummer of jazz.", "A jazz club.", "A river."])]
    [1.0, 0.37, 0.0]
    """
    vectors = [Counter(analysis.terms(text)) for text in texts]
    frequency = Counter(term for vector in vectors for term in vector)
    idf = {term: _idf(len(texts), count) for term, count in frequency.items()}
    query = weigh(Counter(analysis.terms(text)), idf)
    documents = (weigh(vector, idf) for vector in vectors)
    return [sum(weight * document.get(term, 0.0) for term, weight in query.items()) for document in documents]


def weigh(counts: Mapping[str, int], idf: Mapping[str, float]) -> dict[str, float]:
    """Return the vector of a text, of length 1, over its terms that have an idf."""
    return unit({term: (1 + log(count)) * idf[term] for term, count in counts.items() if term in idf})


def unit(vector: Mapping[_Key, float]) -> dict[_Key, float]:
    """Scale a vector to length 1; an empty one stays empty.

    >>> unit({"a": 3.0, "b": 4.0})
    {'a': 0.6, 'b': 0.8}
    """
    length = sqrt(sum(weight * weight for weight in vector.values()))
    return {key: weight / length for key, weight in vector.items()}


def _idf(texts: int, having: int) -> float:
    return log((1 + texts) / (1 + having)) + 1
