"""Answer and retrieval metrics, each for one question, 0 to 1; over several gold answers the best counts.

EM and F1 are HotpotQA's official ones (normalised as SQuAD's; F1 is 0 when one side is yes, no or noanswer and the
other is not the same). Cover-EM is SearChain's: the normalised gold answer stands within the normalised prediction.
ROUGE-L compares long answers. PromptRank's R@k is ``recall_all@k`` here, its AR@k ``ar@k``; Tree of Reviews' recall is
``recall_mean@k``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal
from unicodedata import category
from unicodedata import normalize as decompose

from polyhop.text import bare_title, normalise, words
from polyhop.types import Passage, Question

_VERDICTS = frozenset({"yes", "no", "noanswer"})
_LABELS = _VERDICTS | {"supports", "refutes"}

RECALL_AT = (2, 5, 10, 15, 20)
"""The ranks at which passages are scored: those of the papers' tables."""


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
    """1 when a normalised gold answer stands anywhere in the normalised prediction; an empty one never does. Yes, no
    and labels must stand there as whole words.

    >>> cover_em("It was directed by Ridley Scott", ["Ridley Scott"]), cover_em("Norway", ["no"])
    (1.0, 0.0)
    """
    told = normalise(prediction)
    golds = filter(None, map(normalise, answers))
    return float(any(gold in (told.split() if gold in _LABELS else told) for gold in golds))


def rouge_l(told: str, other: str, kind: Literal["f", "precision", "recall"] = "f") -> float:
    """ROUGE-L (Lin, 2004): the longest common subsequence of the two texts' words, over one side's length or both.

    Summary level, one reference: words in lower case, no stemming, no stop words dropped, β = 1. ``precision`` is over
    the words of ``told``, ``recall`` over those of ``other``; 0 where either has none.

    >>> rouge_l("police killed the gunman", "the gunman killed the police", "precision")
    0.5
    """
    told_words, other_words = words(told), words(other)
    if not told_words or not other_words:
        return 0.0
    same = _longest_common_subsequence(told_words, other_words)
    precision, recall = same / len(told_words), same / len(other_words)
    both = 2 * precision * recall / (precision + recall) if same else 0.0
    return {"f": both, "precision": precision, "recall": recall}[kind]


def _longest_common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    lengths = [0] * (len(other) + 1)
    for word in one:
        diagonal = 0
        for at, its in enumerate(other, 1):
            diagonal, lengths[at] = lengths[at], diagonal + 1 if word == its else max(lengths[at], lengths[at - 1])
    return lengths[-1]


def found_gold(passages: Sequence[Passage], question: Question, k: int) -> list[bool]:
    """For each gold passage, whether it is among the first ``k``; by id where the question names ids, else by title."""
    first = passages[:k]
    if question.gold_ids:
        ids = {passage.id for passage in first}
        return [gold in ids for gold in dict.fromkeys(question.gold_ids)]
    titles = {passage.title for passage in first}
    return [gold in titles for gold in dict.fromkeys(question.gold_titles)]


def score_answer(prediction: str, question: Question) -> dict[str, float]:
    """``em``, ``f1`` and ``cover_em`` of a prediction, and ``rouge_l`` (F, best over the gold answers) where a long one
    is asked for; nothing for a question without gold answers."""
    if not question.answers:
        return {}
    scores = {
        "em": exact_match(prediction, question.answers),
        "f1": f1(prediction, question.answers),
        "cover_em": cover_em(prediction, question.answers),
    }
    if question.kind == "long":
        scores["rouge_l"] = max(rouge_l(prediction, answer) for answer in question.answers)
    return scores


def score_passages(passages: Sequence[Passage], question: Question, ks: Sequence[int] = RECALL_AT) -> dict[str, float]:
    """How good a ranking is: of its gold passages and of its answer, each where the question has such.

    ``recall_mean@k``, ``recall_all@k``, ``recall_any@k``: the share of gold passages among the first ``k``, whether all
    are there, whether any is. ``ar@k``: whether the answer's words stand in one of the first ``k`` (PromptRank's AR@k);
    only for questions whose answer is a span, and not for comparisons, whose answer stands in the question;
    ``ar_comparison@k`` counts those too, as PromptRank's code does.
    """
    scores: dict[str, float] = {}
    for k in ks:
        if hits := found_gold(passages, question, k):
            scores[f"recall_mean@{k}"] = sum(hits) / len(hits)
            scores[f"recall_all@{k}"] = float(all(hits))
            scores[f"recall_any@{k}"] = float(any(hits))
    if spans := _span_answers(question):
        rank = answer_rank(passages[: max(ks, default=0)], spans)
        compares = "comparison" in str(question.metadata.get("type"))
        for name in ("ar_comparison",) if compares else ("ar", "ar_comparison"):
            scores |= {f"{name}@{k}": float(rank is not None and rank <= k) for k in ks}
    return scores


def answer_rank(passages: Sequence[Passage], answers: Iterable[str]) -> int | None:
    """The rank, from 1, of the first passage whose text holds an answer; None where none does.

    Matched as in DPR (Karpukhin et al., 2020): the answer's tokens in a row, whatever their case; a token is a run of
    letters, digits and accents, or any other sign. Articles and signs count, unlike in cover-EM.

    >>> answer_rank([Passage("1", "Alien", "Alien, a film."), Passage("2", "Jaws", "It is A. Film.")], ["a film"])
    1
    """
    wanted = [row for answer in answers if (row := _token_row(answer)) != "\0"]
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


def _span_answers(question: Question) -> list[str]:
    """The gold answers to be found in a passage: none of a question of another kind, or of a verdict."""
    if question.kind not in ("qa", "slot"):
        return []
    return [answer for answer in question.answers if normalise(answer) not in _LABELS]


_VARIABLE = re.compile(r"(?:[^#]{1,60}:)?\s*#\s*([0-9]{1,4})")
_Bindings = Mapping[str, str]


def ge_graph_accuracy(
    triplets: Sequence[Mapping[str, str]], evidence: Sequence[Sequence[str]], *, strict: bool = False
) -> float:
    """1 when some binding of a question graph's variables to gold entities makes its triplets cover every gold triple:
    heads and tails in either direction, relations too if ``strict`` (GE-Reasoning, Table 5; ours, the paper defines
    none). ``evidence``: (subject, relation, object), as 2WikiMultiHopQA has them; names without their parentheses.

    >>> graph = [{"head": "Alien", "relation": "director", "tail": "name: #1"}]
    >>> ge_graph_accuracy(graph, [("Alien", "directed by", "Ridley Scott")])
    1.0
    """
    edges = [(_node(each["head"]), normalise(each["relation"]), _node(each["tail"])) for each in triplets]
    golds = [(_node(one), normalise(relation), _node(other)) for one, relation, other in evidence]

    def fitting(gold: tuple[str, str, str], bound: _Bindings) -> list[_Bindings]:
        one, relation, other = gold
        related = [edge for edge in edges if not strict or edge[1] == relation]
        pairs = [pair for head, _, tail in related for pair in ((head, tail), (tail, head))]
        ways = [_bound((*pair, one, other), bound) for pair in pairs]
        return [way for way in ways if way is not None]

    def covered(open_: list[tuple[str, str, str]], bound: _Bindings) -> bool:
        if not open_:
            return True
        ways = [fitting(gold, bound) for gold in open_]
        hardest = min(range(len(open_)), key=lambda at: len(ways[at]))  # none left to cover it: go back at once
        rest = open_[:hardest] + open_[hardest + 1 :]
        return any(covered(rest, way) for way in ways[hardest])

    return float(covered(golds, {}))


def _node(text: str) -> str:
    """A variable by its number, "#1"; a name normalised, without the parenthesis that tells it from namesakes."""
    variable = _VARIABLE.fullmatch(text.strip())
    return f"#{int(variable[1])}" if variable else normalise(bare_title(text))


def _bound(ends: tuple[str, str, str, str], bound: _Bindings) -> _Bindings | None:
    """The bindings under which a triplet's two ends are the two gold entities; None where there are none."""
    held = dict(bound)
    for end, gold in zip(ends[:2], ends[2:], strict=True):
        if (held.setdefault(end, gold) if end.startswith("#") else end) != gold:
            return None
    return held
