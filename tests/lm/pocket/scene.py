"""A small corpus, a question of two hops over it, and the fields of every task."""

from __future__ import annotations

from typing import Any

from polyhop.lm.base import Request
from polyhop.lm.pocket import Pocket
from polyhop.types import Passage

MILL = Passage(
    "mill", "Dark Mill", "Dark Mill is a 1931 German drama film directed by Rolf Anders and starring Ida Kuhn."
)
ANDERS = Passage(
    "anders", "Rolf Anders", "Rolf Anders (4 May 1899 – 1950) was a German film director. He was born in Bremen."
)
FERRY = Passage("ferry", "Ferry transport", "A ferry carries passengers and goods across water. Many cities run them.")
QUESTION = "Where was the director of Dark Mill born?"


def request(task: str, **fields: Any) -> Request:
    return Request(task=task, fields=fields, messages=[{"role": "user", "content": "x" * 40}])


def fields_of(task: str, passages: list[Passage], question: str = QUESTION) -> dict[str, Any]:
    evidence = [{"passages": passages, "answer": "Bremen", "analysis": "Anders was born in Bremen."}]
    nodes = [{"query": f"What is {p.title}?", "answer": p.title, "passage": p, "reason": "complete"} for p in passages]
    return {
        **graph_fields(question, passages),
        **summary_fields(passages),
        **acting_fields(passages),
        "question": question,
        "passages": passages,
        "thoughts": True,
        "evidence": evidence,
        "mode": "evidence",
        "sub_question": question,
        "asked": [question],
        "rejected": None,
        "memory": memory_of(passages, question),
        "kind": "qa",
        "chains": [[] for _ in nodes],
        "feedback": nodes,
        "nodes": nodes,
        "conclude": False,
        "reasoning": ["What is the director of Dark Mill? Rolf Anders."],
        "phrase": "Bremen",
        "facts": [{"head": passage.title, "relation": "director", "tail": "Rolf Anders"} for passage in passages],
        "answers": ["Bremen"],
        "prediction": "It was Bremen.",
    }


def summary_fields(passages: list[Passage]) -> dict[str, Any]:
    """Fields of the tasks of SuRe, RECOMP, Verify-and-Edit and ERA-CoT."""
    texts = [passage.text for passage in passages]
    values = {
        "candidate": "Bremen",
        "candidates": ["Bremen"],
        "summary": " ".join(texts),
        "summaries": [" ".join(texts), "Nothing."],
        "count": 2,
    }
    return {**values, "sentence": "He was born in Bremen.", "rationale": " ".join(texts), "entities": ["Bremen (city)"]}


def acting_fields(passages: list[Passage]) -> dict[str, Any]:
    """Fields of the tasks of ReAct, Toolformer, search agents and plans: a search per passage."""
    step: dict[str, Any] = {"thought": None, "action": "Search", "text": None}
    steps = [{**step, "argument": p.title, "query": p.title, "passages": [p]} for p in passages]
    protocol = {"draft": "", "tags": {"search": ("<search>", "</search>"), "answer": ("<answer>", "</answer>")}}
    return {"steps": steps, "written": steps, "plan": [p.title for p in passages], **protocol}


def graph_fields(question: str, passages: list[Passage]) -> dict[str, Any]:
    """Fields of the tasks of GE-Reasoning."""
    triplets = [{"head": p.title, "relation": "states", "tail": p.text} for p in passages]
    history = [{"sub_question": "Who directed Dark Mill?", "sentence": "Rolf Anders did.", "answer": "Rolf Anders"}]
    values = {"typed": True, "verbal": True, "sub_question": question, "history": history[: len(passages)]}
    return {
        **values,
        "triplet": triplets[0] if triplets else None,
        "triplets": triplets,
        "passage": [*passages, MILL][0],
    }


def memory_of(passages: list[Passage], question: str) -> dict[str, Any]:
    """A memory of ReSP: a note per passage, and a sub-question without a response."""
    notes = [f"[{passage.title}] {passage.text}" for passage in passages]
    return {"global_evidence": notes, "local_pathway": [{"sub_question": question, "response": None}]}


async def ask(task: str, **fields: Any) -> dict[str, Any]:
    completion = await Pocket().complete(request(task, **fields))
    assert completion.value is not None
    return dict(completion.value)
