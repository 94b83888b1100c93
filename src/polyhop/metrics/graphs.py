"""Whether a question's graph is the right one (GE-Reasoning, Table 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from polyhop.common.text import bare_title, normalise

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
