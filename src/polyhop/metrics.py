"""Answer and retrieval metrics, each for one question, 0 to 1; over several gold answers the best counts.

EM and F1 are HotpotQA's official ones (normalised as SQuAD's; F1 is 0 when one side is yes, no or noanswer and the
other is not the same). Cover-EM is SearChain's: the normalised gold answer stands within the normalised prediction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from polyhop.text import normalise
from polyhop.types import Passage, Question

_VERDICTS = frozenset({"yes", "no", "noanswer"})


def exact_match(prediction: str, answers: Iterable[str]) -> float:
    """1 when the normalised prediction equals a normalised gold answer.

    >>> exact_match("The Beatles.", ["Beatles"])
    1.0
    """
    told = normalise(prediction)
    return float(any(told == normalise(answer) for answer in answers))


def f1(prediction: str, answers: Iterable[str]) -> float:
    """Token overlap with the best gold answer, HotpotQA's way.

    >>> round(f1("Ridley Scott of England", ["Sir Ridley Scott"]), 3)
    0.571
    >>> f1("yes it was", ["yes"])
    0.0
    """
    return max((_f1(normalise(prediction), normalise(answer)) for answer in answers), default=0.0)


def _f1(told: str, gold: str) -> float:
    if told != gold and (told in _VERDICTS or gold in _VERDICTS):
        return 0.0
    told_words, gold_words = told.split(), gold.split()
    same = (Counter(told_words) & Counter(gold_words)).total()
    if same == 0:
        return 0.0
    precision, recall = same / len(told_words), same / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def cover_em(prediction: str, answers: Iterable[str]) -> float:
    """1 when a normalised gold answer stands anywhere in the normalised prediction; an empty one never does.

    >>> cover_em("It was directed by Ridley Scott", ["Ridley Scott"])
    1.0
    """
    told = normalise(prediction)
    return float(any(gold in told for answer in answers if (gold := normalise(answer))))


def found_gold(passages: Sequence[Passage], question: Question, k: int) -> list[bool]:
    """For each gold passage, whether it is among the first ``k``; by id where the question names ids, else by title."""
    first = passages[:k]
    if question.gold_ids:
        ids = {passage.id for passage in first}
        return [gold in ids for gold in dict.fromkeys(question.gold_ids)]
    titles = {passage.title for passage in first}
    return [gold in titles for gold in dict.fromkeys(question.gold_titles)]


def score_answer(prediction: str, question: Question) -> dict[str, float]:
    """``em``, ``f1`` and ``cover_em`` of a prediction; nothing for a question without gold answers."""
    if not question.answers:
        return {}
    return {
        "em": exact_match(prediction, question.answers),
        "f1": f1(prediction, question.answers),
        "cover_em": cover_em(prediction, question.answers),
    }


def score_passages(passages: Sequence[Passage], question: Question, ks: Sequence[int] = (2, 5, 15)) -> dict[str, float]:
    """``recall_mean@k`` (share of gold found), ``recall_all@k`` and ``recall_any@k``; nothing without gold passages."""
    scores: dict[str, float] = {}
    for k in ks:
        if hits := found_gold(passages, question, k):
            scores[f"recall_mean@{k}"] = sum(hits) / len(hits)
            scores[f"recall_all@{k}"] = float(all(hits))
            scores[f"recall_any@{k}"] = float(any(hits))
    return scores
