"""Supporting facts, evidence triples and joint scores, as HotpotQA's and 2WikiMultiHopQA's official scripts have them.

A predicted set beside a gold one: exact match, F1, precision and recall. Joint scores multiply the parts' precisions
and recalls (Yang et al., 2018, §4.4; Ho et al., 2020, §5).
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


class Parts(NamedTuple):
    """How a prediction's parts agree with gold's: all of them, and how many."""

    em: float
    f1: float
    precision: float
    recall: float

    def named(self, prefix: str = "") -> dict[str, float]:
        """The four by the names that the official scripts print.

        >>> Parts(1.0, 1.0, 1.0, 1.0).named("sp_")
        {'sp_em': 1.0, 'sp_f1': 1.0, 'sp_prec': 1.0, 'sp_recall': 1.0}
        """
        values = zip(("em", "f1", "prec", "recall"), self, strict=True)
        return {f"{prefix}{name}": float(value) for name, value in values}


def set_scores(told: Sequence[Hashable], gold: Sequence[Hashable]) -> Parts:
    """A predicted set beside a gold one; a repeated item counts once. Of two empty sets EM is 1, the others are 0.

    >>> set_scores([("Alien", 0), ("Jaws", 1)], [("Alien", 0)])
    Parts(em=0.0, f1=0.6666666666666666, precision=0.5, recall=1.0)
    """
    ours, theirs = set(told), set(gold)
    same = len(ours & theirs)
    return _parts(float(ours == theirs), same / len(ours) if ours else 0.0, same / len(theirs) if theirs else 0.0)


def fact_scores(told: Sequence[Fact], gold: Sequence[Fact], *, any_case: bool = False) -> Parts:
    """Supporting facts; ``any_case``: titles in lower case, as 2WikiMultiHopQA's script compares them."""
    if any_case:
        told, gold = ([(title.lower(), sentence) for title, sentence in facts] for facts in (told, gold))
    return set_scores(told, gold)


def triple_scores(
    told: Sequence[Triple], gold: Sequence[Triple], aliases: Mapping[str, Sequence[str]] | None = None
) -> Parts:
    """Evidence triples, 2WikiMultiHopQA's way: in lower case, without punctuation, articles kept; a subject or object
    may go by any of its ``aliases``.

    >>> triple_scores([("Alien", "director", "Ridley Scott.")], [("Alien", "director", "Ridley Scott")]).em
    1.0
    """
    ours = {_bare(triple) for triple in told}
    names = {name: (name, *others) for name, others in (aliases or {}).items()}
    theirs = [
        {_bare((one, relation, other)) for one, other in product(names.get(head, (head,)), names.get(tail, (tail,)))}
        for head, relation, tail in gold
    ]
    same = sum(any(triple in ways for ways in theirs) for triple in ours)
    exact = float(same == len(ours) == len(theirs))
    return _parts(exact, same / len(ours) if ours else 0.0, same / len(theirs) if theirs else 0.0)


def _bare(triple: Triple) -> Triple:
    head, relation, tail = (" ".join(part.lower().translate(_PUNCTUATION).split()) for part in triple)
    return head, relation, tail


def joint(*parts: Parts) -> Parts:
    """All parts at once: products of their exact matches, precisions and recalls; F1 of the latter two.

    >>> joint(Parts(1.0, 1.0, 1.0, 1.0), Parts(0.0, 0.5, 0.5, 0.5)).f1
    0.5
    """
    em = precision = recall = 1.0
    for part in parts:
        em, precision, recall = em * part.em, precision * part.precision, recall * part.recall
    return _parts(em, precision, recall)


def _parts(em: float, precision: float, recall: float) -> Parts:
    both = precision + recall
    return Parts(em, 2 * precision * recall / both if both > 0 else 0.0, precision, recall)
