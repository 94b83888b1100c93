"""Supporting facts, evidence triples, joint scores and question graphs.

The first three are as HotpotQA's and 2WikiMultiHopQA's official scripts compute them: a predicted set is compared with
a gold set by exact match, F1, precision and recall; joint scores multiply the parts' precisions and recalls (Yang et
al., 2018, §4.4; Ho et al., 2020, §5). The graphs are those of GE-Reasoning, Table 5.
"""

from __future__ import annotations

import re
import string
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

from polyhop.common.text import bare_title, normalise

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


# --- question graphs (GE-Reasoning, Table 5)

_VARIABLE = re.compile(r"(?:[^#]{1,60}:)?\s*#\s*([0-9]{1,4})")
_Bindings = Mapping[str, str]


def ge_graph_accuracy(
    triplets: Sequence[Mapping[str, str]], evidence: Sequence[Sequence[str]], *, strict: bool = False
) -> float:
    """Return 1 if some binding of the graph's variables to gold entities makes its triplets cover every gold triple.

    Heads and tails match in either direction; relations must match only if ``strict``. ``evidence`` holds (subject,
    relation, object), as in 2WikiMultiHopQA; names are compared without their parentheses. For GE-Reasoning's Table 5;
    the definition is ours, as the paper gives none.

    >>> graph = [{"head": "Alien", "relation": "director", "tail": "name: #1"}]
    >>> ge_graph_accuracy(graph, [("Alien", "directed by", "Ridley Scott")])
    1.0
    """
    edges = [(_node(triplet["head"]), normalise(triplet["relation"]), _node(triplet["tail"])) for triplet in triplets]
    golds = [(_node(subject), normalise(relation), _node(object_)) for subject, relation, object_ in evidence]

    def matches(gold: tuple[str, str, str], bindings: _Bindings) -> list[_Bindings]:
        subject, relation, object_ = gold
        related = [edge for edge in edges if not strict or edge[1] == relation]
        pairs = [pair for head, _, tail in related for pair in ((head, tail), (tail, head))]
        extended = [_bind(pair, (subject, object_), bindings) for pair in pairs]
        return [binding for binding in extended if binding is not None]

    def all_covered(uncovered: list[tuple[str, str, str]], bindings: _Bindings) -> bool:
        if not uncovered:
            return True
        options = [matches(gold, bindings) for gold in uncovered]
        hardest = min(range(len(uncovered)), key=lambda i: len(options[i]))  # with no option left, backtrack at once
        rest = uncovered[:hardest] + uncovered[hardest + 1 :]
        return any(all_covered(rest, option) for option in options[hardest])

    return float(all_covered(golds, {}))


def _node(text: str) -> str:
    """Return a variable as "#1"; a name normalised and without the parenthesis that disambiguates it."""
    variable = _VARIABLE.fullmatch(text.strip())
    return f"#{int(variable[1])}" if variable else normalise(bare_title(text))


def _bind(ends: tuple[str, str], golds: tuple[str, str], bindings: _Bindings) -> _Bindings | None:
    """Extend the bindings so that a triplet's two ends are the two gold entities; None if that is impossible."""
    extended = dict(bindings)
    for end, gold in zip(ends, golds, strict=True):
        if (extended.setdefault(end, gold) if end.startswith("#") else end) != gold:
            return None
    return extended
