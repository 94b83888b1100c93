"""Scoring: how likely a target is after a prompt, by a smoothed unigram model of the prompt's words.

P(w | prompt) = (n(w) + μ·B(w)) / (Σ n + μ), Dirichlet smoothing after Zhai and Lafferty (2001); n is the square root of
a word's count, since words come in bursts. The background B knows no corpus: function words are frequent, longer words
are rarer by a fixed factor a letter, and names, which open with a capital in the target, much rarer than they look: a
path that lacks one must pay for it. A temperature T flattens the whole distribution: P(w)^(1/T), renormalised. The
constants were chosen by the recall of ``promptrank`` over training questions of HotpotQA, 2WikiMultiHopQA and MuSiQue.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

from polyhop.common.text import STOP_WORDS, words
from polyhop.lm.pocket.reading.text import COMMON_ROOTS, stem

MU = 80.0  # words of prior
MOST_CHARACTERS = 40_000  # of a prompt that are counted: the last ones, which stand nearest the target
_STOP_SHARE = 0.45  # of running English text that is function words
_COMMON = 1e-3
_RARE = 2e-4
_SHRINK = 0.72  # a letter more, so much rarer
_NAME = 1e-3  # a name, so much rarer
_FLOOR = 1e-12
_TAIL = 300  # all other words, as if they were so many equally frequent ones: what a temperature makes of them
_QUOTES = "\"'“”‘’(["


@lru_cache(maxsize=65536)
def background(word: str, *, name: bool = False) -> float:
    """The share of a word in English text, guessed from its looks.

    >>> background("the") > background("film") > background("kaleidoscope") > background("king", name=True)
    True
    """
    if word in STOP_WORDS:
        return _STOP_SHARE / len(STOP_WORDS)
    share = _COMMON if stem(word) in COMMON_ROOTS else _RARE * _SHRINK ** max(0, len(word) - 3)
    return max(_FLOOR, share * (_NAME if name else 1.0))


def log_likelihood(prompt: str, target: str, temperature: float = 1.0) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The words of ``target`` and the natural log-probability of each after ``prompt``.

    >>> tokens, near = log_likelihood("a village in Norway", "Norway")
    >>> _, far = log_likelihood("a village in Spain", "Norway")
    >>> tokens, near[0] > far[0]
    (('norway',), True)
    """
    counts, whole = _read(prompt[-MOST_CHARACTERS:], 1.0 / temperature)
    tokens, names = tuple(words(target)), _names(target)
    shares = (math.sqrt(counts.get(stem(word), 0)) + MU * background(word, name=word in names) for word in tokens)
    return tokens, tuple(min(0.0, math.log(share) / temperature - whole) for share in shares)


def _names(target: str) -> set[str]:
    """The words that open with a capital; function words have but one background."""
    spelt = (piece.lstrip(_QUOTES) for piece in target.split())
    return {word for piece in spelt if piece[:1].isupper() for word in words(piece)}


@lru_cache(maxsize=1024)
def _read(prompt: str, power: float) -> tuple[Counter[str], float]:
    """The prompt's words and how often each comes, and the logarithm of the ``_whole``: other targets ask again."""
    counts = Counter(map(stem, words(prompt)))
    return counts, math.log(_whole(counts, power))


def _whole(counts: Counter[str], power: float) -> float:
    """Σ (n(w) + μ·B(w))^power over all words: Σ n + μ where the power is 1."""
    prior = len(STOP_WORDS) * math.pow(MU * _STOP_SHARE / len(STOP_WORDS), power)
    prior += _TAIL * math.pow(MU * (1 - _STOP_SHARE) / _TAIL, power)
    return prior + sum(_gain(root, count, power) for root, count in counts.items())


@lru_cache(maxsize=65536)
def _gain(root: str, count: int, power: float) -> float:
    """What a word adds to the whole by standing in the prompt so often."""
    unseen = MU * background(root)
    return math.pow(math.sqrt(count) + unseen, power) - math.pow(unseen, power)
