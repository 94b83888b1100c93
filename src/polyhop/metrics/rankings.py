"""How good a ranking is: of its gold passages and of its answer; each for one question, 0 to 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from math import inf
from unicodedata import category
from unicodedata import normalize as decompose

from polyhop.metrics.answers import LABELS, normal
from polyhop.types import Passage, Question

RECALL_AT = (2, 5, 10, 15, 20)
"""The ranks at which passages are scored: those of the papers' tables."""
RECALLS = ("recall_mean", "recall_all", "recall_any")
"""What is told of the gold passages at each."""


@lru_cache
def at(names: tuple[str, ...], ks: tuple[int, ...]) -> tuple[str, ...]:
    """The names of metrics at so many ranks; made once, for every question's scores have them.

    >>> at(("ar", "r"), (2, 5))
    ('ar@2', 'r@2', 'ar@5', 'r@5')
    """
    return tuple(f"{name}@{k}" for k in ks for name in names)


def found_gold(passages: Sequence[Passage], question: Question, k: int) -> list[bool]:
    """For each gold passage, whether it is among the first ``k``; by id where the question names ids, else by title."""
    return [rank <= k for rank in gold_ranks(passages, question)]


def gold_ranks(passages: Sequence[Passage], question: Question) -> list[float]:
    """The rank, from 1, of each gold passage, infinite where it is not there; a gold passage named twice is one.

    By id where the question names ids, else by title: of several passages of one title the first counts.

    >>> gold_ranks([Passage("1", "Jaws", ""), Passage("2", "Alien", "")], Question("q", "?", gold_titles=("Alien",)))
    [2]
    """
    names = [passage.id if question.gold_ids else passage.title for passage in passages]
    first = {name: rank for rank, name in reversed(list(enumerate(names, 1)))}
    return [first.get(gold, inf) for gold in dict.fromkeys(question.gold_ids or question.gold_titles)]


def score_passages(passages: Sequence[Passage], question: Question, ks: Sequence[int] = RECALL_AT) -> dict[str, float]:
    """How good a ranking is: of its gold passages and of its answer, each where the question has such: ``score_gold``
    and ``score_answer_rank``."""
    rank = span_rank(passages, question)
    return score_gold(passages, question, ks) | score_answer_rank(rank, question, ks)


def score_gold(passages: Sequence[Passage], question: Question, ks: Sequence[int] = RECALL_AT) -> dict[str, float]:
    """``recall_mean@k``, ``recall_all@k``, ``recall_any@k``: the share of gold passages among the first ``k``, whether
    all are there, whether any is."""
    scores: dict[str, float] = {}
    if ranks := gold_ranks(passages, question):
        for k in ks:
            mean, every, some = at(RECALLS, (k,))
            found = sum(rank <= k for rank in ranks)
            scores[mean] = found / len(ranks)
            scores[every] = float(found == len(ranks))
            scores[some] = float(found > 0)
    return scores


def score_answer_rank(rank: int | None, question: Question, ks: Sequence[int] = RECALL_AT) -> dict[str, float]:
    """``ar@k``: whether the answer's words stand in one of the first ``k`` passages (PromptRank's AR@k), where ``rank``
    is ``span_rank``'s.

    Only for questions whose answer is a span, and not for comparisons, whose answer stands in the question;
    ``ar_comparison@k`` counts those too, as PromptRank's code does.
    """
    if not span_answers(question):
        return {}
    compares = "comparison" in str(question.metadata.get("type"))
    names = ("ar_comparison",) if compares else ("ar", "ar_comparison")
    reached = [float(rank is not None and rank <= k) for k in ks]
    return {at_k: each for name in names for at_k, each in zip(at((name,), tuple(ks)), reached, strict=True)}


def span_rank(passages: Sequence[Passage], question: Question) -> int | None:
    """``answer_rank`` of the question's own answers, of those that are spans."""
    return answer_rank(passages, span_answers(question))


def span_answers(question: Question) -> list[str]:
    """The gold answers to be found in a passage: none of a question of another kind, or of a verdict."""
    if question.kind not in ("qa", "slot"):
        return []
    return [answer for answer in question.answers if normal(answer) not in LABELS]


def answer_rank(passages: Sequence[Passage], answers: Iterable[str]) -> int | None:
    """The rank, from 1, of the first passage whose text holds an answer; None where none does.

    Matched as in DPR (Karpukhin et al., 2020): the answer's tokens in a row, whatever their case; a token is a run of
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
    """A text's tokens with a character around each that no token holds."""
    tokens: list[str] = []
    for is_word, run in groupby(decompose("NFD", text), lambda char: char.isalnum() or category(char)[0] in "LNM"):
        if is_word:
            tokens.append("".join(run).lower())
        else:
            tokens.extend(sign for sign in run if category(sign)[0] not in "ZC")
    return "\0".join(["", *tokens, ""]) if tokens else "\0"
