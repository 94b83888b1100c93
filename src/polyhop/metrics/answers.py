"""How good an answer is: exact match, token overlap, containment, and labels; each 0 to 1, the best gold answer counts.

Sources: SQuAD (Rajpurkar et al., 2016 and 2018), whose normalisation all share; HotpotQA's official script, which adds
the guard for yes, no and noanswer; SearChain's cover-EM; FlashRAG's accuracy. None of them tells composed from
decomposed accents, nor takes signs outside ASCII for punctuation, and so neither do these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from polyhop.common.text import normalise

VERDICTS = frozenset({"yes", "no", "noanswer"})
LABELS = VERDICTS | {"supports", "refutes"}
FEVER_LABELS = ("supports", "refutes", "not enough info")

normal = lru_cache(maxsize=4096)(normalise)
"""``normalise``, remembered: every profile asks for the same few texts of a question."""


@lru_cache(maxsize=1024)
def _counted(text: str) -> Counter[str]:
    return Counter(text.split())


class Overlap(NamedTuple):
    """Token overlap of a prediction with a gold answer."""

    f1: float = 0.0
    precision: float = 0.0
    recall: float = 0.0


def exact_match(prediction: str, answers: Iterable[str]) -> float:
    """1 when the normalised prediction equals a normalised gold answer.

    >>> exact_match("The Beatles.", ["Beatles"])
    1.0
    """
    told = normal(prediction)
    return float(any(told == normal(answer) for answer in answers))


def f1(prediction: str, answers: Iterable[str]) -> float:
    """Token overlap with the best gold answer, HotpotQA's way.

    >>> round(f1("Ridley Scott of England", ["Sir Ridley Scott"]), 3)
    0.571
    >>> f1("yes it was", ["yes"])
    0.0
    """
    return best_overlap(prediction, answers).f1


def best_overlap(prediction: str, answers: Iterable[str]) -> Overlap:
    """HotpotQA's F1, precision and recall, each that of its best gold answer (2WikiMultiHopQA's way with aliases)."""
    each = [_guarded(normal(prediction), normal(answer)) for answer in answers]
    return Overlap(*map(max, zip(*each, strict=True))) if each else Overlap()


def squad_f1(prediction: str, answers: Iterable[str]) -> float:
    """Token overlap with the best gold answer, SQuAD's way: no guard; where one side has no token, whether both have
    none (SQuAD 2.0).

    >>> round(squad_f1("yes it was", ["yes"]), 3), squad_f1("the", ["a"])
    (0.5, 1.0)
    """
    told = normal(prediction)
    return max((_squad(told, normal(answer)) for answer in answers), default=0.0)


def _squad(told: str, gold: str) -> float:
    return overlap(told, gold).f1 if told and gold else float(told == gold)


def _guarded(told: str, gold: str) -> Overlap:
    if told != gold and (told in VERDICTS or gold in VERDICTS):
        return Overlap()
    return overlap(told, gold)


def overlap(told: str, gold: str) -> Overlap:
    """Of two normalised texts; a token that comes twice counts twice."""
    ours, theirs = _counted(told), _counted(gold)
    fewer, more = sorted((ours, theirs), key=len)
    same = sum(min(count, more[word]) for word, count in fewer.items() if word in more)
    if same == 0:
        return Overlap()
    precision, recall = same / ours.total(), same / theirs.total()
    return Overlap(2 * precision * recall / (precision + recall), precision, recall)


def cover_em(prediction: str, answers: Iterable[str]) -> float:
    """1 when a normalised gold answer stands anywhere in the normalised prediction; an empty one never does. Yes, no
    and labels must stand there as whole words.

    >>> cover_em("It was directed by Ridley Scott", ["Ridley Scott"]), cover_em("Norway", ["no"])
    (1.0, 0.0)
    """
    told = normal(prediction)
    golds = filter(None, map(normal, answers))
    return float(any(gold in (told.split() if gold in LABELS else told) for gold in golds))


def cover_em_token(prediction: str, answers: Iterable[str]) -> float:
    """1 when a normalised gold answer stands in the normalised prediction as whole tokens; an empty one never does.

    >>> cover_em_token("in 19690", ["1969"]), cover_em_token("in July 1969", ["1969"])
    (0.0, 1.0)
    """
    told = normal(prediction)
    return float(any(_stands(gold, told) for gold in map(normal, answers) if gold))


def contains(prediction: str, answers: Iterable[str]) -> float:
    """FlashRAG's accuracy: a normalised gold answer is part of the normalised prediction, whatever it is: "no" is part
    of "norway", and one of which nothing is left ("The") is part of everything.

    >>> contains("Norway", ["no"])
    1.0
    """
    told = normal(prediction)
    return float(any(normal(answer) in told for answer in answers))


def label_accuracy(prediction: str, answers: Iterable[str], labels: Iterable[str]) -> float:
    """1 when the label that the prediction names is a gold one.

    >>> label_accuracy("The claim: REFUTES.", ["REFUTES"], FEVER_LABELS)
    1.0
    """
    golds = set(map(normal, answers))
    return float(named_label(prediction, golds.union(labels)) in golds)


def named_label(prediction: str, labels: Iterable[str]) -> str | None:
    """The one label that a prediction begins with or, as whole tokens, holds; None where it holds none or several.

    >>> [named_label(text, ("yes", "no")) for text in ("Yes, no doubt.", "I say no", "yes or no?", "Norway")]
    ['yes', 'no', None, None]
    """
    told = normal(prediction)
    held = [label for label in sorted(labels) if label and _stands(label, told)]
    first = [label for label in held if f"{told} ".startswith(f"{label} ") and not told.startswith(f"{label} or ")]
    found = first or held
    return found[0] if len(found) == 1 else None


def _stands(gold: str, told: str) -> bool:
    return f" {gold} " in f" {told} "


def answerable(prediction: str) -> bool:
    """Whether a prediction takes its question for one that can be answered: it says something else than that not.

    >>> [answerable(text) for text in ("Paris", "", "Unanswerable.", "No answer")]
    [True, False, False, False]
    """
    return normal(prediction).replace(" ", "") not in ("", "noanswer", "unanswerable")
