"""Statistics of single methods that need gold: computed from the trace, since no method sees gold."""

from __future__ import annotations

from typing import Any

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.metrics import ge_graph_accuracy
from polyhop.trace import Ask
from polyhop.types import Question


def gold_statistics(question: Question, answer: Answer) -> dict[str, float]:
    """Compare a method's trace with the question's gold; empty if there is nothing to compare.

    ``over-planning`` (ReSP §5.3): judgements of "not enough" although a gold answer stood in the memory shown.
    ``graph accuracy``, ``strict graph accuracy`` (GE-Reasoning, Table 5): the question graph covers the gold triples.
    """
    asked: dict[str, list[Ask]] = {}
    for call in answer.trace.calls:
        if call.output is not None:
            asked.setdefault(call.task, []).append(call)
    found: dict[str, float] = {}
    if (judged := asked.get("resp.judge")) and question.answers:
        found["over-planning"] = sum(_over_planned(call, question) for call in judged)
    if (graphs := asked.get("ge.graph")) and (gold := question.metadata.get("evidences")):
        triplets: Any = (graphs[0].output or {})["triplets"]
        found["graph accuracy"] = ge_graph_accuracy(triplets, gold)
        found["strict graph accuracy"] = ge_graph_accuracy(triplets, gold, strict=True)
    return found


def _over_planned(call: Ask, question: Question) -> bool:
    memory = call.fields["memory"]
    memory_texts = [*memory["global_evidence"], *(pair.get("response") or "" for pair in memory["local_pathway"])]
    text = f" {normalise(' '.join(memory_texts))} "
    there = any(f" {normalise(gold)} " in text for gold in question.answers if normalise(gold))
    return there and not (call.output or {})["sufficient"]
