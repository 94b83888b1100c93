"""Path scorers without a language model: a linear model, the same with the encoder's predictions, and a likelihood.

In the linear model a path scores what its first passage scores (``path_start``), plus what each further one adds
(``path_step``): the question's words and names in it, and in the sentence that mentions it. A word weighs more the
fewer of the passages found first contain it. The weights know no corpus: ``benchmarks/hops_fit.py`` fits them to the
training questions of HotpotQA, 2WikiMultiHopQA and MuSiQue.

The encoder adds how relevant the best paths are, whether it reads the name of the next passage off those before it, and
the names to search for next; for both it is asked what the question describes, where it describes something. Three
numbers weigh that, chosen on training questions that the network had not seen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from polyhop.common.text import STOP_WORDS, bare_title, fold, words
from polyhop.lm.pocket.encoder.cache import predict
from polyhop.lm.pocket.encoder.inputs import PLACES, EncoderOutput
from polyhop.lm.pocket.reading.comparison import canonical
from polyhop.lm.pocket.reading.descriptions import split
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.tables import weights
from polyhop.lm.pocket.reading.text import TOKEN, common_stems, content_stems, stem_of, tokenize
from polyhop.types import Passage

ENCODER_WEIGHT = 0.5  # of the encoder's log-odds beside the score of the linear model
LEAD_WEIGHT = 0.6  # of the log-probability that the encoder reads the next passage's name off those before it
UNNAMED_PENALTY = 4.0  # for a step to a passage that the one before it does not name
_MIN_LEAD = -5.0  # of that log-probability; its value if the encoder reads another name
_MAX_SCORED = 12  # best paths of one call that the encoder reads
_MAX_LEAD_SPANS = 4  # of a prediction
_MAX_CHARACTERS = 8000  # read of a passage
_MIN_WEIGHT = 0.05  # of a word that every passage contains

Path = Sequence[Passage]
Features = dict[str, float]


# --- scorers ----------------------------------------------------------------------------------------------------------


def path_scores(question: str, paths: Sequence[Path], found: Sequence[Passage]) -> list[float]:
    """Score each path with the linear model and the encoder, higher is better. ``found``: the passages of the first
    search, best first. The encoder reads only the best paths of one call; the others count as the worst of those.

    >>> film = Passage("f", "Dark Mill", "Dark Mill is a film directed by Ann Lee.")
    >>> person, town = Passage("p", "Ann Lee", "Ann Lee was born in Elstow."), Passage("t", "Ost", "Ost is a town.")
    >>> scores = path_scores("Where was the director of Dark Mill born?", [[film, person], [town]], [film, town])
    >>> scores[0] > scores[1]
    True
    """
    question = canonical(question)
    scores = linear_scores(question, paths, found)
    for i, score in enumerate(_step_scores(question, paths)):
        scores[i] += score
    best = sorted(range(len(paths)), key=lambda i: -round(scores[i], PLACES))[:_MAX_SCORED]
    outputs = zip(best, predict(question, [paths[i] for i in best]), strict=True)
    relevance = {i: output.relevance for i, output in outputs}
    lowest = min(relevance.values(), default=0.0)
    return [score + ENCODER_WEIGHT * relevance.get(i, lowest) for i, score in enumerate(scores)]


def linear_scores(question: str, paths: Sequence[Path], found: Sequence[Passage]) -> list[float]:
    """Score each path with the linear model alone. ``found``: the passages of the first search, best first."""
    weighted, model = weigh_question(question, found), weights()
    return [
        _weighted_sum(model.path_start, start_features(weighted, path[0]))
        + sum(_weighted_sum(model.path_step, step_features(weighted, path[:i], path[i])) for i in range(1, len(path)))
        for path in paths
    ]


def likelihood_scores(question: str, paths: Sequence[Path]) -> list[float]:
    """The mean log-probability of the question's words after each path, by the smoothed unigram model."""
    texts = ("\n".join(f"{passage.title}\n{passage.text}" for passage in path) for path in paths)
    logs = (log_likelihood(text, question)[1] for text in texts)
    return [sum(logprobs) / max(1, len(logprobs)) for logprobs in logs]


def leads(question: str, path: Path, max_leads: int) -> list[str]:
    """At most ``max_leads`` names that the encoder reads off a path and that may lead on, most probable first. None of
    them is part of the question or of a title on the path."""
    question = canonical(question)
    known = [fold(question), *(fold(passage.title) for passage in path)]
    names: dict[str, str] = {}
    for text, _ in _lead_spans(predict(_asked_first(question), [path])[0], path):
        folded = fold(text)
        if len(text) > 2 and not any(folded in part for part in known):
            names.setdefault(" ".join(content_stems(text)) or folded, text)  # "in Ost" is "Ost"
    return list(names.values())[:max_leads]


def _step_scores(question: str, paths: Sequence[Path]) -> list[float]:
    """A score for the last step of each path, 0 for a path of one passage: the encoder reads the passage's name off
    those before it, and they name it at all."""
    before = list(dict.fromkeys(tuple(path[:-1]) for path in paths if len(path) > 1))
    outputs = dict(zip(before, predict(_asked_first(question), before), strict=True))
    return [_step_score(outputs[tuple(path[:-1])], path) if len(path) > 1 else 0.0 for path in paths]


def _asked_first(question: str) -> str:
    """The question of what a question describes; the question itself if it describes nothing."""
    parts = split(question)
    return parts.inner if parts else question


def _step_score(output: EncoderOutput, path: Path) -> float:
    last, before = (passage_stems(passage.title, passage.text) for passage in (path[-1], path[-2]))
    named = any(names_passage(sentence, last) for sentence in before.sentences)
    name = fold(bare_title(path[-1].title))
    logs = [log for text, log in _lead_spans(output, path[:-1]) if _overlap(fold(text), name)]
    return LEAD_WEIGHT * (max([_MIN_LEAD, *logs]) - _MIN_LEAD) - (0.0 if named else UNNAMED_PENALTY)


def _overlap(first: str, second: str) -> bool:
    """True if one name is the other or a part of it."""
    return bool(first and second) and (first in second or second in first)


def _lead_spans(output: EncoderOutput, path: Path) -> list[tuple[str, float]]:
    return [(span.text(path).strip(), span.log_probability) for span in output.spans[:_MAX_LEAD_SPANS]]


# --- features of the linear model -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WeightedQuestion:
    """A question among the passages found first: the weights of its stems and their sum, its stems in a row, its names,
    whether it compares, and the rank of each passage found."""

    weights: Mapping[str, float]
    total: float
    row: str
    names: tuple[str, ...]
    compares: bool
    ranks: Mapping[str, int] = field(default_factory=dict)

    def share(self, stems: Collection[str]) -> float:
        """The share of the question's words, by weight, that are among ``stems``."""
        return sum(weight for stem, weight in self.weights.items() if stem in stems) / self.total


def weigh_question(question: str, found: Sequence[Passage]) -> WeightedQuestion:
    """Weigh each word of a question by how few of the passages found contain it."""
    parsed, stems = parse_question(question), list(map(stem_of, TOKEN.findall(question)))
    texts = [passage_stems(passage.title, passage.text) for passage in found]
    stem_weights = {
        stem: max(_MIN_WEIGHT, math.log((len(texts) + 1) / (sum(stem in text.stems for text in texts) + 0.5)))
        for stem in dict.fromkeys(filter(_is_content, stems))
    }
    names = tuple(_row(map(stem_of, TOKEN.findall(name))) for name in parsed.names)
    ranks = {passage.id: rank for rank, passage in enumerate(found)}
    total = sum(stem_weights.values()) or 1.0
    return WeightedQuestion(stem_weights, total, _row(stems), names, parsed.comparison is not None, ranks)


def start_features(question: WeightedQuestion, passage: Passage) -> Features:
    """The features of a passage by itself."""
    text = passage_stems(passage.title, passage.text)
    named = bool(text.name_stems) and text.name in question.row
    contained = sum(name in text.row or name == text.name for name in question.names)
    return {
        "place": math.log1p(question.ranks.get(passage.id, len(question.ranks))),
        "coverage": question.share(text.stems),
        "first sentence": question.share(text.sentences[0]) if text.sentences else 0.0,
        "title in question": float(named),
        "names": contained / len(question.names) if question.names else 0.0,
        "comparison, title in question": float(question.compares and (named or text.name in question.names)),
    }


def step_features(question: WeightedQuestion, before: Path, passage: Passage) -> Features:
    """The features of a passage after those ``before`` it on the path."""
    text = passage_stems(passage.title, passage.text)
    earlier = [passage_stems(other.title, other.text) for other in before]
    known = frozenset().union(*(other.stems for other in earlier))
    last = earlier[-1]
    mentions = [sentence for sentence in last.sentences if names_passage(sentence, text)]
    return {
        **start_features(question, passage),
        "one": 1.0,
        "comparison": float(question.compares),
        "new": question.share(text.stems - known),
        "mention": max(map(question.share, mentions), default=0.0),
        "mentions back": float(bool(last.name_stems) and last.name in text.row),
    }


class PassageStems(NamedTuple):
    """The stems of a passage: per sentence, as a set (with the title's), and in a row; and those of its title, without
    its parenthesis, in a row and as a set."""

    sentences: tuple[frozenset[str], ...]
    stems: frozenset[str]
    row: str
    name: str
    name_stems: frozenset[str]


@lru_cache(maxsize=4096)
def passage_stems(title: str, text: str) -> PassageStems:
    """The stems of a passage. Cached."""
    tokenized = tokenize(text[:_MAX_CHARACTERS])
    sentences: dict[int, set[str]] = {}
    for stem, number in zip(tokenized.stems, tokenized.sentence_of, strict=True):
        sentences.setdefault(number, set()).add(stem)
    name = list(map(stem_of, TOKEN.findall(bare_title(title))))
    stems = frozenset(tokenized.stems).union(map(stem_of, TOKEN.findall(title)))
    by_sentence = tuple(map(frozenset, sentences.values()))
    return PassageStems(by_sentence, stems, _row(tokenized.stems), _row(name), frozenset(filter(_is_content, name)))


def names_passage(sentence: frozenset[str], passage: PassageStems) -> bool:
    """True if the stems of a sentence contain the name of a passage."""
    return bool(passage.name_stems) and passage.name_stems <= sentence


def _is_content(stem: str) -> bool:
    return stem not in STOP_WORDS and stem[:1].isalnum()


def _row(stems: Iterable[str]) -> str:
    """Stems with a space at each end, so that only whole names are found."""
    return f" {' '.join(stems)} "


def _weighted_sum(table: Mapping[str, float], features: Features) -> float:
    return sum(table[name] * value for name, value in features.items())


# --- likelihood -------------------------------------------------------------------------------------------------------

# A smoothed unigram model of the prompt's words: P(w | prompt) = (n(w) + μ·B(w)) / (Σ n + μ), Dirichlet smoothing
# after Zhai and Lafferty (2001). n is the square root of a word's count, since words come in bursts. The background B
# knows no corpus: function words are frequent, and longer words are rarer by a fixed factor per letter. Names, which
# begin with a capital in the target, are much rarer still: a path that lacks a name scores low. A temperature T
# flattens the whole distribution: P(w)^(1/T), renormalised. The constants were chosen by the recall of `promptrank`
# over training questions of HotpotQA, 2WikiMultiHopQA and MuSiQue.
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
