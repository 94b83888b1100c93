"""Answer metrics: exact match, token overlap, containment and labels, each 0 to 1 and with the best gold answer.

Sources: SQuAD (Rajpurkar et al., 2016 and 2018), whose normalisation all of them share; HotpotQA's official script,
which adds the guard for yes, no and noanswer; SearChain's cover-EM; FlashRAG's accuracy. None of these scripts unifies
composed and decomposed accents or treats characters outside ASCII as punctuation, so neither do these functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from polyhop.common import text as common_text
from polyhop.common.text import words

VERDICTS = frozenset({"yes", "no", "noanswer"})
LABELS = VERDICTS | {"supports", "refutes"}
FEVER_LABELS = ("supports", "refutes", "not enough info")

normalise = lru_cache(maxsize=4096)(common_text.normalise)
"""``text.normalise``, cached: every profile normalises the same few texts of a question."""


@lru_cache(maxsize=1024)
def _token_counts(text: str) -> Counter[str]:
    return Counter(text.split())


class Overlap(NamedTuple):
    """The token overlap of a prediction with a gold answer."""

    f1: float = 0.0
    precision: float = 0.0
    recall: float = 0.0


def exact_match(prediction: str, answers: Iterable[str]) -> float:
    """Return 1 if the normalised prediction equals a normalised gold answer.

    >>> exact_match("The Beatles.", ["Beatles"])
    1.0
    """
    normalized = normalise(prediction)
    return float(any(normalized == normalise(answer) for answer in answers))


def f1(prediction: str, answers: Iterable[str]) -> float:
    """Compute HotpotQA's F1 with the best gold answer.

    >>> round(f1("Ridley Scott of England", ["Sir Ridley Scott"]), 3)
    0.571
    >>> f1("yes it was", ["yes"])
    0.0
    """
    return best_overlap(prediction, answers).f1


def best_overlap(prediction: str, answers: Iterable[str]) -> Overlap:
    """Compute HotpotQA's F1, precision and recall, each with its own best gold answer, as 2WikiMultiHopQA does with
    aliases."""
    overlaps = [_guarded_overlap(normalise(prediction), normalise(answer)) for answer in answers]
    return Overlap(*map(max, zip(*overlaps, strict=True))) if overlaps else Overlap()


def squad_f1(prediction: str, answers: Iterable[str]) -> float:
    """Compute SQuAD 2.0's F1 with the best gold answer. It has no guard for yes and no; if either side has no tokens,
    the score is 1 if both have none, else 0.

    >>> round(squad_f1("yes it was", ["yes"]), 3), squad_f1("the", ["a"])
    (0.5, 1.0)
    """
    normalized = normalise(prediction)
    return max((_squad_f1(normalized, normalise(answer)) for answer in answers), default=0.0)


def _squad_f1(prediction: str, gold: str) -> float:
    return overlap(prediction, gold).f1 if prediction and gold else float(prediction == gold)


def _guarded_overlap(prediction: str, gold: str) -> Overlap:
    if prediction != gold and (prediction in VERDICTS or gold in VERDICTS):
        return Overlap()
    return overlap(prediction, gold)


def overlap(prediction: str, gold: str) -> Overlap:
    """Compute the token overlap of two normalised texts. A token that occurs twice counts twice."""
    predicted, expected = _token_counts(prediction), _token_counts(gold)
    fewer, more = sorted((predicted, expected), key=len)
    common = sum(min(count, more[word]) for word, count in fewer.items() if word in more)
    if common == 0:
        return Overlap()
    precision, recall = common / predicted.total(), common / expected.total()
    return Overlap(2 * precision * recall / (precision + recall), precision, recall)


def cover_em(prediction: str, answers: Iterable[str]) -> float:
    """Return 1 if a normalised gold answer occurs anywhere in the normalised prediction. An empty one never does; yes,
    no and labels must occur as whole words.

    >>> cover_em("It was directed by Ridley Scott", ["Ridley Scott"]), cover_em("Norway", ["no"])
    (1.0, 0.0)
    """
    normalized = normalise(prediction)
    golds = filter(None, map(normalise, answers))
    return float(any(gold in (normalized.split() if gold in LABELS else normalized) for gold in golds))


def cover_em_token(prediction: str, answers: Iterable[str]) -> float:
    """Return 1 if a normalised gold answer occurs in the normalised prediction as whole tokens. An empty one never
    does.

    >>> cover_em_token("in 19690", ["1969"]), cover_em_token("in July 1969", ["1969"])
    (0.0, 1.0)
    """
    normalized = normalise(prediction)
    return float(any(_has_tokens(normalized, gold) for gold in map(normalise, answers) if gold))


def contains(prediction: str, answers: Iterable[str]) -> float:
    """Return 1 if a normalised gold answer is a substring of the normalised prediction: FlashRAG's accuracy. "no" is
    part of "norway", and a gold answer that is empty after normalisation ("The") is part of everything.

    >>> contains("Norway", ["no"])
    1.0
    """
    normalized = normalise(prediction)
    return float(any(normalise(answer) in normalized for answer in answers))


def label_accuracy(prediction: str, answers: Iterable[str], labels: Iterable[str]) -> float:
    """Return 1 if the prediction names a gold label.

    >>> label_accuracy("The claim: REFUTES.", ["REFUTES"], FEVER_LABELS)
    1.0
    """
    golds = set(map(normalise, answers))
    return float(named_label(prediction, golds.union(labels)) in golds)


def named_label(prediction: str, labels: Iterable[str]) -> str | None:
    """Return the one label that a prediction begins with or, failing that, contains as whole tokens; None if there is
    none or more than one.

    >>> [named_label(text, ("yes", "no")) for text in ("Yes, no doubt.", "I say no", "yes or no?", "Norway")]
    ['yes', 'no', None, None]
    """
    normalized = normalise(prediction)
    present = [label for label in sorted(labels) if label and _has_tokens(normalized, label)]
    leading = [
        label
        for label in present
        if f"{normalized} ".startswith(f"{label} ") and not normalized.startswith(f"{label} or ")
    ]
    found = leading or present
    return found[0] if len(found) == 1 else None


def _has_tokens(prediction: str, gold: str) -> bool:
    return f" {gold} " in f" {prediction} "


def answerable(prediction: str) -> bool:
    """Return True unless the prediction declares the question unanswerable.

    >>> [answerable(text) for text in ("Paris", "", "Unanswerable.", "No answer")]
    [True, False, False, False]
    """
    return normalise(prediction).replace(" ", "") not in ("", "noanswer", "unanswerable")


# --- ROUGE-L (Lin, 2004): the longest common subsequence of the words of two texts

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_words = lru_cache(maxsize=256)(words)  # an answer is compared with each of its references


def rouge_l(prediction: str, reference: str, kind: Literal["f", "precision", "recall"] = "f") -> float:
    """Compute ROUGE-L with one reference: summary level, words in lower case, no stemming, no stop words, β = 1.

    ``precision`` is over the words of the prediction, ``recall`` over those of the reference; 0 if either has no words.

    >>> rouge_l("police killed the gunman", "the gunman killed the police", "precision")
    0.5
    """
    return _scores(_words(prediction), _words(reference))[kind]


def best_rouge_l(prediction: str, references: Iterable[str]) -> float:
    """Compute ROUGE-L F with the best reference, over words as Google's ``rouge-score`` splits them, without its
    stemmer: runs of ASCII letters and digits, so "don't" is two words and an accent ends a word.

    >>> best_rouge_l("the cat", ["The cat.", "a dog"])
    1.0
    """
    predicted = _ASCII_WORD.findall(prediction.lower())
    return max((_scores(predicted, _ASCII_WORD.findall(text.lower()))["f"] for text in references), default=0.0)


def _scores(predicted: Sequence[str], reference: Sequence[str]) -> dict[str, float]:
    common = _common_subsequence(predicted, reference) if predicted and reference else 0
    if not common:
        return {"f": 0.0, "precision": 0.0, "recall": 0.0}
    precision, recall = common / len(predicted), common / len(reference)
    return {"f": 2 * precision * recall / (precision + recall), "precision": precision, "recall": recall}


def _common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, in time that long answers allow: a row of the table is one
    integer, whose zero bits are the steps (Hyyrö, 2004)."""
    positions: dict[str, int] = {}
    for i, word in enumerate(first):
        positions[word] = positions.get(word, 0) | 1 << i
    mask = (1 << len(first)) - 1
    row = mask
    for word in second:
        if word in positions:
            matches = row & positions[word]
            row = (row + matches | row - matches) & mask
    return len(first) - row.bit_count()
