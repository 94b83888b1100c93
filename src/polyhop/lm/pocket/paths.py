"""How well a path of passages bears on a question: a linear model over what a reader sees at a glance.

A path is worth what its first passage is (``START``), plus what each further one adds (``STEP``): the question's words
it holds, the question's names, what stands in the sentence that mentions it. A word weighs the more, the fewer of the
passages first found hold it. No weight knows a corpus: ``benchmarks/hops_fit.py`` fits them to the training questions
of HotpotQA, 2WikiMultiHopQA and MuSiQue. ``leading`` adds what the encoder sees.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from polyhop.common.text import STOP_WORDS, bare_title
from polyhop.lm.pocket.likelihood import log_likelihood
from polyhop.lm.pocket.reading.question import ask
from polyhop.lm.pocket.reading.text import TOKEN, stem, take_apart
from polyhop.lm.pocket.reading.weights import START, STEP
from polyhop.types import Passage

MOST_CHARACTERS = 8000  # of a passage that are read
_LEAST_WEIGHT = 0.05  # of a word that every passage holds

Path = Sequence[Passage]
Reasons = dict[str, float]


class Text(NamedTuple):
    """A passage's stems: of each sentence, of all with the title, in a row; and those of its title, without its
    parenthesis."""

    sentences: tuple[frozenset[str], ...]
    roots: frozenset[str]
    row: str
    name: str
    name_roots: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sought:
    """A question among the passages first found: its words' weights, their sum, and each passage's place."""

    weights: Mapping[str, float]
    total: float
    row: str
    names: tuple[str, ...]
    compares: bool
    places: Mapping[str, int] = field(default_factory=dict)

    def share(self, roots: Collection[str]) -> float:
        """The share of the question's words, by weight, that are among these."""
        return sum(weight for root, weight in self.weights.items() if root in roots) / self.total


def reason_scores(question: str, paths: Sequence[Path], found: Sequence[Passage]) -> list[float]:
    """The linear model's score for each path, the higher the better. ``found``: what the first search found, best
    first."""
    asked = sought(question, found)
    return [
        _weigh(START, start_reasons(asked, path[0]))
        + sum(_weigh(STEP, step_reasons(asked, path[:at], path[at])) for at in range(1, len(path)))
        for path in paths
    ]


def likelihood_scores(question: str, paths: Sequence[Path]) -> list[float]:
    """The mean log-probability of the question's words after each path's, by the smoothed unigram model."""
    told = (log_likelihood("\n".join(f"{page.title}\n{page.text}" for page in path), question)[1] for path in paths)
    return [sum(logprobs) / max(1, len(logprobs)) for logprobs in told]


def sought(question: str, found: Sequence[Passage]) -> Sought:
    """The question, its words weighed by how many of the passages found hold them."""
    asked, roots = ask(question), list(map(stem, TOKEN.findall(question)))
    texts = [read(passage.title, passage.text) for passage in found]
    weights = {
        root: max(_LEAST_WEIGHT, math.log((len(texts) + 1) / (sum(root in text.roots for text in texts) + 0.5)))
        for root in dict.fromkeys(filter(_tells, roots))
    }
    names = tuple(_row(map(stem, TOKEN.findall(name))) for name in asked.names)
    places = {passage.id: place for place, passage in enumerate(found)}
    return Sought(weights, sum(weights.values()) or 1.0, _row(roots), names, asked.comparison is not None, places)


def start_reasons(asked: Sought, passage: Passage) -> Reasons:
    """Reasons for a passage to bear on the question, whatever stands before it."""
    text = read(passage.title, passage.text)
    named = bool(text.name_roots) and text.name in asked.row
    told = sum(name in text.row or name == text.name for name in asked.names)
    return {
        "place": math.log1p(asked.places.get(passage.id, len(asked.places))),
        "coverage": asked.share(text.roots),
        "first sentence": asked.share(text.sentences[0]) if text.sentences else 0.0,
        "title in question": float(named),
        "names": told / len(asked.names) if asked.names else 0.0,
        "comparison, title in question": float(asked.compares and (named or text.name in asked.names)),
    }


def step_reasons(asked: Sought, before: Path, passage: Passage) -> Reasons:
    """Reasons for a passage to go on a path after those ``before`` it."""
    text = read(passage.title, passage.text)
    held = [read(earlier.title, earlier.text) for earlier in before]
    seen = frozenset().union(*(earlier.roots for earlier in held))
    mentions = [sentence for sentence in held[-1].sentences if names_in(text, sentence)]
    return {
        **start_reasons(asked, passage),
        "one": 1.0,
        "comparison": float(asked.compares),
        "new": asked.share(text.roots - seen),
        "mention": max(map(asked.share, mentions), default=0.0),
        "mentions back": float(bool(held[-1].name_roots) and held[-1].name in text.row),
    }


@lru_cache(maxsize=4096)
def read(title: str, text: str) -> Text:
    """A passage's stems; the same passage again costs nothing."""
    wording = take_apart(text[:MOST_CHARACTERS])
    sentences: dict[int, set[str]] = {}
    for root, number in zip(wording.roots, wording.sentence_of, strict=True):
        sentences.setdefault(number, set()).add(root)
    name = list(map(stem, TOKEN.findall(bare_title(title))))
    roots = frozenset(wording.roots).union(map(stem, TOKEN.findall(title)))
    by_sentence = tuple(map(frozenset, sentences.values()))
    return Text(by_sentence, roots, _row(wording.roots), _row(name), frozenset(filter(_tells, name)))


def names_in(text: Text, sentence: frozenset[str]) -> bool:
    """Whether a sentence holds the passage's name."""
    return bool(text.name_roots) and text.name_roots <= sentence


def _tells(root: str) -> bool:
    return root not in STOP_WORDS and root[:1].isalnum()


def _row(roots: Sequence[str] | map[str]) -> str:
    """Stems with a space at each end, so that a name is found only whole."""
    return f" {' '.join(roots)} "


def _weigh(weights: Mapping[str, float], reasons: Reasons) -> float:
    return sum(weights[name] * value for name, value in reasons.items())
