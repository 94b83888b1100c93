"""Ranking metrics: recall of the gold passages and of the answer, each for one question and 0 to 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from math import inf
from unicodedata import category

from polyhop.common.text import normalise_unicode
from polyhop.metrics.answers import LABELS, normalise
from polyhop.types import Passage, Question

RECALL_AT = (2, 5, 10, 15, 20)
"""The ranks at which passages are scored: those of the papers' tables."""
RECALLS = ("recall_mean", "recall_all", "recall_any")
"""The metrics of gold passages at each rank."""


@lru_cache
def at_ranks(metrics: tuple[str, ...], ks: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of metrics at ranks. Cached, because the scores of every question use them.

    >>> at_ranks(("ar", "r"), (2, 5))
    ('ar@2', 'r@2', 'ar@5', 'r@5')
    """
    return tuple(f"{metric}@{k}" for k in ks for metric in metrics)


def found_gold(passages: Sequence[Passage], question: Question, k: int) -> list[bool]:
    """Return, for each gold passage, if it is among the first ``k``; matched by id if the question has gold ids, else
    by title."""
    return [rank <= k for rank in gold_ranks(passages, question)]


def gold_ranks(passages: Sequence[Passage], question: Question) -> list[float]:
    """Return the rank, from 1, of each gold passage; infinity if it is absent. A gold passage listed twice is one.

    Matched by id if the question has gold ids, else by title: of several passages with one title the first counts.

    >>> gold_ranks([Passage("1", "Jaws", ""), Passage("2", "Alien", "")], Question("q", "?", gold_titles=("Alien",)))
    [2]
    """
    keys = [passage.id if question.gold_ids else passage.title for passage in passages]
    first = {key: rank for rank, key in reversed(list(enumerate(keys, 1)))}
    return [first.get(gold, inf) for gold in dict.fromkeys(question.gold_ids or question.gold_titles)]


def score_passages(passages: Sequence[Passage], question: Question, ks: Sequence[int] = RECALL_AT) -> dict[str, float]:
    """Score a ranking by its gold passages and by its answer, each if the question has such: ``score_gold`` and
    ``score_answer_rank``."""
    rank = span_rank(passages, question)
    return score_gold(passages, question, ks) | score_answer_rank(rank, question, ks)


def score_gold(passages: Sequence[Passage], question: Question, ks: Sequence[int] = RECALL_AT) -> dict[str, float]:
    """Compute ``recall_mean@k`` (the share of gold passages among the first ``k``), ``recall_all@k`` (1 if all of them
    are there) and ``recall_any@k`` (1 if any is)."""
    scores: dict[str, float] = {}
    if ranks := gold_ranks(passages, question):
        for k in ks:
            recall_mean, recall_all, recall_any = at_ranks(RECALLS, (k,))
            found = sum(rank <= k for rank in ranks)
            scores[recall_mean] = found / len(ranks)
            scores[recall_all] = float(found == len(ranks))
            scores[recall_any] = float(found > 0)
    return scores


def score_answer_rank(rank: int | None, question: Question, ks: Sequence[int] = RECALL_AT) -> dict[str, float]:
    """Compute ``ar@k`` from ``span_rank``'s rank: 1 if one of the first ``k`` passages contains the answer's words
    (PromptRank's AR@k).

    Only for questions whose answer is a span, and not for comparisons, whose answer is in the question;
    ``ar_comparison@k`` counts those too, as PromptRank's code does.
    """
    if not span_answers(question):
        return {}
    compares = "comparison" in str(question.metadata.get("type"))
    metrics = ("ar_comparison",) if compares else ("ar", "ar_comparison")
    reached = [float(rank is not None and rank <= k) for k in ks]
    return {
        name: value for metric in metrics for name, value in zip(at_ranks((metric,), tuple(ks)), reached, strict=True)
    }


def span_rank(passages: Sequence[Passage], question: Question) -> int | None:
    """Return ``answer_rank`` for those of the question's answers that are spans."""
    return answer_rank(passages, span_answers(question))


def span_answers(question: Question) -> list[str]:
    """Return the gold answers that a passage can contain: none for a question of another kind, and no verdicts."""
    if question.kind not in ("qa", "slot"):
        return []
    return [answer for answer in question.answers if normalise(answer) not in LABELS]


def answer_rank(passages: Sequence[Passage], answers: Iterable[str]) -> int | None:
    """Return the rank, from 1, of the first passage whose text contains an answer; None if none does.

    Matched as in DPR (Karpukhin et al., 2020): the answer's tokens in a row, ignoring case; a token is a run of
    letters, digits and accents, or any other sign. Articles and signs count, unlike in cover-EM.

    >>> answer_rank([Passage("1", "Alien", "Alien, a film."), Passage("2", "Jaws", "It is A. Film.")], ["a film"])
    1
    """
    wanted = [row for answer in answers if (row := _token_row(answer)) != "\0"]
    if not wanted:
        return None
    rows = (_token_row(passage.text) for passage in passages)
    return next((rank for rank, row in enumerate(rows, 1) if any(answer in row for answer in wanted)), None)


def _token_row(text: str) -> str:
    """Return the tokens of a text, separated by a character that no token contains."""
    tokens: list[str] = []
    for is_word, run in groupby(
        normalise_unicode("NFD", text), lambda char: char.isalnum() or category(char)[0] in "LNM"
    ):
        if is_word:
            tokens.append("".join(run).lower())
        else:
            tokens.extend(sign for sign in run if category(sign)[0] not in "ZC")
    return "\0".join(["", *tokens, ""]) if tokens else "\0"
