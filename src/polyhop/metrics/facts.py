"""Supporting facts, evidence triples and joint scores, as HotpotQA's and 2WikiMultiHopQA's official scripts compute
them.

A predicted set is compared with a gold set by exact match, F1, precision and recall. Joint scores multiply the parts'
precisions and recalls (Yang et al., 2018, §4.4; Ho et al., 2020, §5).
"""

from __future__ import annotations

import string
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

Fact: TypeAlias = tuple[str, int]
"""A passage's title and the number, from 0, of a sentence in it."""

Triple: TypeAlias = tuple[str, str, str]
"""Subject, relation, object."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)


class SetScores(NamedTuple):
    """Exact match, F1, precision and recall of a predicted set."""

    em: float
    f1: float
    precision: float
    recall: float

    def named(self, prefix: str = "") -> dict[str, float]:
        """Return the four scores under the names that the official scripts print.

        >>> SetScores(1.0, 1.0, 1.0, 1.0).named("sp_")
        {'sp_em': 1.0, 'sp_f1': 1.0, 'sp_prec': 1.0, 'sp_recall': 1.0}
        """
        values = zip(("em", "f1", "prec", "recall"), self, strict=True)
        return {f"{prefix}{name}": float(value) for name, value in values}


def set_scores(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> SetScores:
    """Compare a predicted set with a gold set; a repeated item counts once. Two empty sets have EM 1, the rest 0.

    >>> set_scores([("Alien", 0), ("Jaws", 1)], [("Alien", 0)])
    SetScores(em=0.0, f1=0.6666666666666666, precision=0.5, recall=1.0)
    """
    found, expected = set(predicted), set(gold)
    common = len(found & expected)
    precision, recall = common / len(found) if found else 0.0, common / len(expected) if expected else 0.0
    return _with_f1(float(found == expected), precision, recall)


def fact_scores(predicted: Sequence[Fact], gold: Sequence[Fact], *, any_case: bool = False) -> SetScores:
    """Score supporting facts. With ``any_case``, titles are compared in lower case, as in 2WikiMultiHopQA's script."""
    if any_case:
        predicted, gold = ([(title.lower(), sentence) for title, sentence in facts] for facts in (predicted, gold))
    return set_scores(predicted, gold)


def triple_scores(
    predicted: Sequence[Triple], gold: Sequence[Triple], aliases: Mapping[str, Sequence[str]] | None = None
) -> SetScores:
    """Score evidence triples as 2WikiMultiHopQA does: in lower case and without punctuation, but with articles. A
    subject or object matches by any of its ``aliases``.

    >>> triple_scores([("Alien", "director", "Ridley Scott.")], [("Alien", "director", "Ridley Scott")]).em
    1.0
    """
    found = {_normalised(triple) for triple in predicted}
    names = {name: (name, *others) for name, others in (aliases or {}).items()}
    variants = [
        {
            _normalised((subject, relation, object_))
            for subject, object_ in product(names.get(head, (head,)), names.get(tail, (tail,)))
        }
        for head, relation, tail in gold
    ]
    common = sum(any(triple in accepted for accepted in variants) for triple in found)
    exact = float(common == len(found) == len(variants))
    return _with_f1(exact, common / len(found) if found else 0.0, common / len(variants) if variants else 0.0)


def _normalised(triple: Triple) -> Triple:
    head, relation, tail = (" ".join(part.lower().translate(_PUNCTUATION).split()) for part in triple)
    return head, relation, tail


def joint(*parts: SetScores) -> SetScores:
    """Multiply the exact matches, precisions and recalls of the parts; F1 is that of the products.

    >>> joint(SetScores(1.0, 1.0, 1.0, 1.0), SetScores(0.0, 0.5, 0.5, 0.5)).f1
    0.5
    """
    em = precision = recall = 1.0
    for part in parts:
        em, precision, recall = em * part.em, precision * part.precision, recall * part.recall
    return _with_f1(em, precision, recall)


def _with_f1(em: float, precision: float, recall: float) -> SetScores:
    both = precision + recall
    return SetScores(em, 2 * precision * recall / both if both > 0 else 0.0, precision, recall)
