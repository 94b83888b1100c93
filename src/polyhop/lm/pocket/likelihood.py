"""The likelihood of a target after a prompt, by a smoothed unigram model of the prompt's words.

P(w | prompt) = (n(w) + μ·B(w)) / (Σ n + μ), Dirichlet smoothing after Zhai and Lafferty (2001); n is the square root of
a word's count, since words come in bursts. The background B knows no corpus: function words are frequent, longer words
are rarer by a fixed factor per letter, and names, which begin with a capital in the target, are much rarer still: a
path that lacks a name scores low. A temperature T flattens the whole distribution: P(w)^(1/T), renormalised. The
constants were chosen by the recall of ``promptrank`` over training questions of HotpotQA, 2WikiMultiHopQA and MuSiQue.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

from polyhop.common.text import STOP_WORDS, words
from polyhop.lm.pocket.reading.text import common_stems, stem_of

MU = 80.0  # words of prior
MAX_CHARACTERS = 40_000  # counted of a prompt: the last ones, which are nearest to the target
_STOP_SHARE = 0.45  # of running English text that is function words
_COMMON = 1e-3
_RARE = 2e-4
_LETTER_FACTOR = 0.72  # per letter
_NAME_FACTOR = 1e-3
_FLOOR = 1e-12
_TAIL = 300  # all other words count as 300 equally frequent ones when a temperature flattens the distribution
_QUOTES = "\"'“”‘’(["


@lru_cache(maxsize=65536)
def background(word: str, *, name: bool = False) -> float:
    """The share of a word in English text, estimated from its form.

    >>> background("the") > background("film") > background("kaleidoscope") > background("king", name=True)
    True
    """
    if word in STOP_WORDS:
        return _STOP_SHARE / len(STOP_WORDS)
    share = _COMMON if stem_of(word) in common_stems() else _RARE * _LETTER_FACTOR ** max(0, len(word) - 3)
    return max(_FLOOR, share * (_NAME_FACTOR if name else 1.0))


def log_likelihood(prompt: str, target: str, temperature: float = 1.0) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The words of ``target`` and the natural log-probability of each one after ``prompt``.

    >>> tokens, near = log_likelihood("a village in Norway", "Norway")
    >>> _, far = log_likelihood("a village in Spain", "Norway")
    >>> tokens, near[0] > far[0]
    (('norway',), True)
    """
    counts, log_total = _count(prompt[-MAX_CHARACTERS:], 1.0 / temperature)
    tokens, names = tuple(words(target)), _names(target)
    shares = (math.sqrt(counts.get(stem_of(word), 0)) + MU * background(word, name=word in names) for word in tokens)
    return tokens, tuple(min(0.0, math.log(share) / temperature - log_total) for share in shares)


def _names(target: str) -> set[str]:
    """The words that begin with a capital."""
    spelt = (piece.lstrip(_QUOTES) for piece in target.split())
    return {word for piece in spelt if piece[:1].isupper() for word in words(piece)}


@lru_cache(maxsize=1024)
def _count(prompt: str, power: float) -> tuple[Counter[str], float]:
    """The counts of a prompt's stems, and the logarithm of ``_total``. Cached for further targets."""
    counts = Counter(map(stem_of, words(prompt)))
    return counts, math.log(_total(counts, power))


def _total(counts: Counter[str], power: float) -> float:
    """Σ (n(w) + μ·B(w))^power over all words; Σ n + μ if the power is 1."""
    prior = len(STOP_WORDS) * math.pow(MU * _STOP_SHARE / len(STOP_WORDS), power)
    prior += _TAIL * math.pow(MU * (1 - _STOP_SHARE) / _TAIL, power)
    return prior + sum(_increase(stem, count, power) for stem, count in counts.items())


@lru_cache(maxsize=65536)
def _increase(stem: str, count: int, power: float) -> float:
    """The increase of the total by a word that occurs ``count`` times in the prompt."""
    unseen = MU * background(stem)
    return math.pow(math.sqrt(count) + unseen, power) - math.pow(unseen, power)
