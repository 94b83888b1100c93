"""The longest way a method can go: a model that always wants to know more, over a corpus that always has more."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from polyhop.lm.base import Capabilities
from polyhop.types import Passage, Search

ABLE = Capabilities(json_schema=True, token_logprobs=True, score=True, score_temperature=True, seed=True)
_another = itertools.count()


def never_content(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A model that always wants to know more, each time something else."""
    more = "more than " + " ".join(passage.id for passage in fields.get("passages") or ())
    if task == "resp.plan":
        more = f"question {len(fields['asked'])}"
    if task == "toolformer.write":
        more = f"query {len(fields['written'])}"
    nodes = [{"query": f"query {len(fields.get('chains', ()))}", "answer": None}]
    told = {"relevant": True, "supported": False, "query": more, "information": more, "answer": "x"}
    chain = [{"head": f"#{n - 1}" if n > 1 else "a", "relation": "b", "tail": f"#{n}"} for n in range(1, 11)]
    told |= {"triplets": chain, "sub_question": more}
    told |= {"answer": f"x{next(_another)}", "confidence": 0.0}  # never sure of one, never the same twice
    told |= {"summary": more, "answered": False, "sufficient": False}
    told |= {"sub_questions": [f"{n}?" for n in range(10)], "recitations": ["x"], "follow_up": more}
    told |= {"action": "Search", "argument": more, "value": "likely"}
    told |= {"sentence": f"So it is {told['answer']}."}
    told |= {"candidates": ["x", "y"], "valid": False, "better": 1, "entities": ["x"], "scores": [9] * 10}
    if task == "era_cot.infer":
        told["triplets"] = [{**triplet, "relation": "implied"} for triplet in chain]
    if task == "answer.cot":
        told["rationale"] = "So it is."
    if task in ("self_ask.turn", "toolformer.write"):
        told["answer"] = None
    return {**told, "nodes": nodes, "content": "x"}


class Endless:
    """Other passages for every query, and links from each to others: the longest way a search can go."""

    name = "endless"
    start: Search = staticmethod(lambda query, k: [])

    async def search_by(self, run: Any, query: str, k: int) -> list[Passage]:
        """``k`` passages that no other query finds."""
        return [Passage(f"{abs(hash(query))}.{n}", f"T{n}", f"Text {n}.") for n in range(k)]

    def links(self, passage: Passage) -> list[Passage]:
        """Two passages that nothing else leads to."""
        return [Passage(f"{passage.id}.{n}", f"T{n}", f"Text {n}.") for n in range(2)]
