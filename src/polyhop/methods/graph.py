"""A question's graph: triplets with variables as heads or tails, and the bindings of the variables.

Triplets are stored unchanged and bound when they are read, so that an answer that reads like a variable
("Symphony #2") is never taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from polyhop.prompts.triplets import key

Triplet: TypeAlias = Mapping[str, str]
"""``head``, ``relation`` and ``tail``."""

ENDS = ("head", "tail")
_WHOLE = re.compile(r"\s*+(?:[^#]{0,60}:)?\s*+#([0-9]{1,4})\s*")
_INSIDE = re.compile(r"(?<!\w)#([0-9]{1,4})(?![0-9])")


@dataclass(frozen=True, slots=True)
class QuestionGraph:
    """GE §3.1: the triplets of a question, each with at least one variable; ``bindings`` by a variable's number."""

    triplets: tuple[Triplet, ...] = ()
    bindings: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    variables: frozenset[int] = frozenset()

    @classmethod
    def of(cls, triplets: Iterable[Triplet], *, typed: bool = True) -> QuestionGraph:
        """Build the graph of the triplets that a model wrote. Triplets without a variable are dropped; a graph in which
        no triplet has exactly one is empty. ``typed=False`` drops the variables' types (Table 5).

        >>> triplet = {"head": "Alien", "relation": "director", "tail": "name: #1"}
        >>> len(QuestionGraph.of([triplet, {**triplet, "tail": "Ridley Scott"}]).triplets)
        1
        """
        given = list(triplets)
        whole = (_WHOLE.fullmatch(triplet[end]) for triplet in given for end in ENDS)
        graph = cls(variables=frozenset(int(found[1]) for found in whole if found))
        kept = tuple(triplet if typed else _untyped(triplet) for triplet in given if graph.unbound(triplet))
        graph = replace(graph, triplets=kept)
        return graph if graph.candidates() else cls()

    def unbound(self, triplet: Triplet) -> frozenset[int]:
        """Return the variables of a triplet that are not bound yet. A variable is its number, whatever its type; a
        number inside a name ("Symphony #9") is one only if it is a variable elsewhere in the graph."""
        found = {int(number) for end in ENDS for number in _INSIDE.findall(triplet[end])}
        return frozenset((found & self.variables) - self.bindings.keys())

    def candidates(self) -> list[Triplet]:
        """Return the triplets with exactly one unbound variable, in order (Algorithm 1, lines 6 and 22)."""
        return [triplet for triplet in self.triplets if len(self.unbound(triplet)) == 1]

    def bind(self, triplet: Triplet, answer: str) -> QuestionGraph:
        """Bind the one unbound variable of ``triplet`` to ``answer`` everywhere (§3.5, line 19)."""
        (number,) = self.unbound(triplet)
        return replace(self, bindings=MappingProxyType({**self.bindings, number: answer}))

    def shown(self, triplet: Triplet) -> dict[str, str]:
        """Replace the bound variables of a triplet by their answers.

        >>> triplet = {"head": "name: #1", "relation": "spouse", "tail": "name: #10"}
        >>> QuestionGraph((triplet,), {1: "Ann Lee"}, frozenset({1, 10})).shown(triplet)
        {'head': 'Ann Lee', 'relation': 'spouse', 'tail': 'name: #10'}
        """
        return {name: self._bound(part) if name in ENDS else part for name, part in triplet.items()}

    def _bound(self, node: str) -> str:
        if (whole := _WHOLE.fullmatch(node)) and int(whole[1]) in self.bindings:
            return self.bindings[int(whole[1])]
        return _INSIDE.sub(lambda found: self.bindings.get(int(found[1]), found[0]), node)


def distinct(triplets: Iterable[Triplet]) -> list[Triplet]:
    """Return the distinct triplets by ``key``, in order, the last wording of each."""
    return list({key(triplet): triplet for triplet in triplets}.values())


def triplet_text(triplet: Triplet) -> str:
    """Write a triplet on one line.

    >>> triplet_text({"head": "Alien", "relation": "director", "tail": "name: #1"})
    '(Alien; director; name: #1)'
    """
    return f"({triplet['head']}; {triplet['relation']}; {triplet['tail']})"


def _untyped(triplet: Triplet) -> Triplet:
    bare = {end: f"#{found[1]}" for end in ENDS if (found := _WHOLE.fullmatch(triplet[end]))}
    return {**triplet, **bare}
