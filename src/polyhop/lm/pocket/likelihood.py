"""Scoring: how likely a target is after a prompt, by a smoothed unigram model of the prompt's words.

P(w | prompt) = (count(w) + μ·B(w)) / (length + μ), Dirichlet smoothing after Zhai and Lafferty (2001). The background B
knows no corpus: function words are frequent, longer words are rarer by a fixed factor a letter. A temperature T
flattens the distribution over the prompt's own words and the background together: P(w)^(1/T), renormalised.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from polyhop.lm.pocket.wording import COMMON_ROOTS, stem
from polyhop.text import STOP_WORDS, words

MU = 120.0  # words of prior
MOST_CHARACTERS = 40_000  # of a prompt that are counted: the last ones, which stand nearest the target
_STOP_SHARE = 0.45  # of running English text that is function words
_COMMON = 4e-4
_RARE = 2e-4
_SHRINK = 0.72  # a letter more, so much rarer
_FLOOR = 1e-7
_TAIL = 50_000  # words the model cannot name, for renormalising


@lru_cache(maxsize=65536)
def background(word: str) -> float:
    """The share of a word in English text, guessed from its looks.

    >>> background("the") > background("film") > background("kaleidoscope")
    True
    """
    if word in STOP_WORDS:
        return _STOP_SHARE / len(STOP_WORDS)
    if stem(word) in COMMON_ROOTS:
        return _COMMON
    return max(_FLOOR, _RARE * _SHRINK ** max(0, len(word) - 3))


def log_likelihood(prompt: str, target: str, temperature: float = 1.0) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The words of ``target`` and the natural log-probability of each after ``prompt``.

    >>> tokens, near = log_likelihood("a village in Norway", "Norway")
    >>> _, far = log_likelihood("a village in Spain", "Norway")
    >>> tokens, near[0] > far[0]
    (('norway',), True)
    """
    held = words(prompt[-MOST_CHARACTERS:])
    counts = Counter(stem(word) for word in held)
    size = len(held) + MU
    tokens = tuple(words(target))
    normaliser = _normaliser(counts, size, tokens, temperature) if temperature != 1.0 else 0.0
    return tokens, tuple(math.log(_share(counts, size, word)) / temperature - normaliser for word in tokens)


def _share(counts: Mapping[str, int], size: float, word: str) -> float:
    return (counts.get(stem(word), 0) + MU * background(word)) / size


def _normaliser(counts: Mapping[str, int], size: float, tokens: Iterable[str], temperature: float) -> float:
    """log Σ P(w)^(1/T) over the words at hand and the function words; a tail of other words shares the rest evenly."""
    power = 1.0 / temperature
    known = {stem(word): word for word in (*counts, *STOP_WORDS, *tokens)}
    shares = [_share(counts, size, word) for word in known.values()]
    rest = max(1e-9, 1.0 - sum(shares))
    return math.log(sum(share**power for share in shares) + _TAIL * (rest / _TAIL) ** power)
