"""The accuracy of question graphs (GE-Reasoning, Table 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from polyhop.common.text import bare_title, normalise

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
