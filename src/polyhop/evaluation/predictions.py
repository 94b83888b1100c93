"""A line of ``predictions.jsonl``: the prediction for a question beside its gold, enough to score it again.

No model, dataset or corpus is needed to score a line: it holds the gold (answers, passages, facts, triples), the ranked
passages' ids and titles, and the rank of the first that holds a gold answer.

No method is asked for supporting facts. A rule of ours derives them from its answer: for each cited passage, the
sentence that contains the citation's span; without a span, the sentence that shares the most words with question and
answer (ties go to the first). ``Passage.metadata["sentences"]`` holds the offsets at which a passage's sentences begin.
No method sees gold: the statistics that need it are computed here, from the trace.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias, overload

import orjson

from polyhop.answer import Answer
from polyhop.common.text import content_words, find_folded, normalise
from polyhop.data.statistics import hops
from polyhop.errors import UsageError
from polyhop.evaluation.errors import path_of
from polyhop.methods.graph import QuestionGraph
from polyhop.metrics import Prediction, ge_graph_accuracy, score, span_rank
from polyhop.metrics.facts import Fact, Triple
from polyhop.metrics.predictions import SCORED_METADATA
from polyhop.metrics.profiles import DEFAULT
from polyhop.metrics.rankings import is_comparison, span_answers
from polyhop.trace import Ask, Note
from polyhop.types import Passage, Question

Row: TypeAlias = Mapping[str, Any]

TRACES = "traces"
"""The folder of the traces in a run's folder."""

_SCORED = ("kind", "gold", "answering", "titles", "cited")
"""Fields that scoring needs and that older runs lack."""


class Lines(Sequence[Row]):
    """A sequence of rows that keeps each as JSON and parses it on access, in a fifth of the memory of the objects."""

    __slots__ = ("_lines",)

    def __init__(self, rows: Iterable[Row]) -> None:
        self._lines = [b"%b" % orjson.dumps(row) for row in rows]  # copied: orjson's own bytes keep much room behind

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        lines = self._lines[index]
        return [*map(orjson.loads, lines)] if isinstance(lines, list) else dict(orjson.loads(lines))

    def __len__(self) -> int:
        return len(self._lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]


def prediction(
    question: Question, answer: Answer, position: int, *, answers: bool = True, profiles: Sequence[str] = (DEFAULT,)
) -> dict[str, Any]:
    """Return one line of ``predictions.jsonl``; without answer metrics if the method gives no answer."""
    row: dict[str, Any] = {
        "id": question.id,
        "question": question.text,
        "kind": question.kind,
        "type": question.metadata.get("type"),
        "hops": hops(question),
        "answers": list(question.answers),
        "gold": gold_of(question),
        "prediction": answer.text,
        "answering": answers,
        "support": answer.support,
        "supported": answer.supported,
        "confidence": answer.confidence,
        "signals": dict(answer.signals),
        "abstained": answer.abstained,
        "parsed": answer.parsed,
        "passages": [passage.id for passage in answer.passages],
        "titles": [passage.title for passage in answer.passages],
        "answer_rank": span_rank(answer.passages, question),
        "cited": [[passage.id, passage.title] for passage in cited_passages(answer)],
        "facts": cited_facts(question.text, answer),
        "triples": bound_triples(answer),
        "metrics": {},
        "statistics": {**answer.statistics, **gold_statistics(question, answer)},
        "budget": answer.trace.budget,
        **path_of(answer),
        "usage": answer.usage.to_dict(),
        "trace": trace_name(position),
    }
    return next(scored([row], profiles)[0])


def trace_name(position: int) -> str:
    """Return the name of a question's trace in the run's folder, by its position in the dataset.

    >>> trace_name(7)
    'traces/00007.json'
    """
    return f"{TRACES}/{position:05d}.json"


def gold_of(question: Question) -> dict[str, Any]:
    """Return a question's gold besides its answers, as a line holds it; empty fields are left out."""
    gold = {
        "ids": list(question.gold_ids),
        "titles": list(question.gold_titles),
        "supporting": [list(fact) for fact in question.supporting],
        "metadata": {name: question.metadata[name] for name in SCORED_METADATA if name in question.metadata},
    }
    return {name: value for name, value in gold.items() if value}


def scored(rows: Sequence[Row], profiles: Iterable[str]) -> tuple[Iterator[dict[str, Any]], dict[str, str]]:
    """Score the lines by these profiles; return them one by one, and the reason for each metric that no line has.

    Raises ``UsageError`` if a line lacks what is needed.
    """
    scores, missing = score([_read(row) for row in rows], profiles)
    return ({**row, "metrics": metrics} for row, metrics in zip(rows, scores, strict=True)), missing


def with_gold(row: Row, question: Question, passages: Sequence[Passage] | None) -> dict[str, Any]:
    """Return a line with another dataset's gold. ``passages``: those that were ranked, with their texts, to look for
    answers in again; None if they are gone."""
    rank = span_rank(passages, question) if passages is not None else None
    return {
        **row,
        "kind": question.kind,
        "answers": list(question.answers),
        "gold": gold_of(question),
        "answer_rank": rank,
    }


def _read(row: Row) -> Prediction:
    if lacking := [name for name in _SCORED if name not in row]:
        raise UsageError(
            f"the predictions lack the data that metrics need (no {', '.join(lacking)}): an older polyhop "
            "wrote them. Their own metrics can be reported, without --metrics; for others run again into another folder"
        )
    gold: Mapping[str, Any] = row["gold"]
    question = Question(
        row["id"],
        row["question"],
        tuple(row["answers"]),
        row["kind"],
        tuple(gold.get("ids", ())),
        tuple(gold.get("titles", ())),
        tuple((title, sentence) for title, sentence in gold.get("supporting", ())),
        metadata=gold.get("metadata", {}),
    )
    ranked = zip(row["passages"], row["titles"], strict=True)
    return Prediction(
        question,
        row["prediction"],
        row["answering"],
        [Passage(name, title, "") for name, title in ranked],
        row.get("answer_rank"),
        [Passage(name, title, "") for name, title in row["cited"]],
        _tuples(row.get("facts")),
        _tuples(row.get("triples")),
    )


def _tuples(value: Sequence[Sequence[Any]] | None) -> list[Any] | None:
    return None if value is None else [tuple(item) for item in value]


def cited_passages(answer: Answer) -> list[Passage]:
    """Return the passages that an answer cites, in order, each once."""
    known = _known(answer)
    return list(
        dict.fromkeys(known[citation.passage_id] for citation in answer.citations if citation.passage_id in known)
    )


def cited_facts(question: str, answer: Answer) -> list[Fact] | None:
    """Return the cited sentences as (title, number); None if the corpus has no sentence offsets."""
    known = _known(answer)
    starts = {name: found for name, passage in known.items() if (found := sentence_starts(passage))}
    if not starts:
        return None
    facts = []
    for citation in answer.citations:
        if begins := starts.get(citation.passage_id):
            passage = known[citation.passage_id]
            if citation.start is not None:
                number = max(0, bisect_right(begins, citation.start) - 1)
            else:
                number = _likest(passage.text, begins, f"{question} {answer.text}")
            facts.append((passage.title, number))
    return list(dict.fromkeys(facts))


def sentence_starts(passage: Passage) -> list[int]:
    """Return the offsets at which a passage's sentences begin; [] if it has none.

    >>> sentence_starts(Passage("1", "T", "One. Two.", metadata={"sentences": [0, 5]}))
    [0, 5]
    """
    starts = passage.metadata.get("sentences")
    return list(starts) if isinstance(starts, Sequence) and all(isinstance(start, int) for start in starts) else []


def bound_triples(answer: Answer) -> list[Triple] | None:
    """Return the triplets of GE-Reasoning's graph without unbound variables; None for a method without a graph."""
    graphs = (call.output for call in answer.trace.calls if call.task == "ge.graph" and call.output is not None)
    if (output := next(graphs, None)) is None:
        return None
    notes = (step.data for step in answer.trace.steps if isinstance(step, Note) and step.name == "binding")
    bindings = {int(str(data["variable"]).removeprefix("#")): str(data["answer"]) for data in notes}
    graph = replace(QuestionGraph.of(output["triplets"]), bindings=bindings)
    shown = [graph.shown(triplet) for triplet in graph.triplets if not graph.unbound(triplet)]
    return [(triplet["head"], triplet["relation"], triplet["tail"]) for triplet in shown]


def _known(answer: Answer) -> dict[str, Passage]:
    evidence = (passage for piece in answer.evidence for passage in piece.passages)
    return {passage.id: passage for passage in (*answer.passages, *evidence)}


def _likest(text: str, begins: Sequence[int], wanted: str) -> int:
    words = set(content_words(wanted))
    shared = [len(words.intersection(content_words(text[start:end]))) for start, end in pairwise([*begins, len(text)])]
    return max(range(len(shared)), key=lambda number: (shared[number], -number))


def gold_statistics(question: Question, answer: Answer) -> dict[str, float]:
    """Compare a method's trace with the question's gold; empty if there is nothing to compare.

    ``over-planning`` (ReSP §5.3): judgements of "not enough" although the memory shown contained a gold answer. Only
    for questions whose answer is a span and is not in the question: "no" and the options of a comparison are in many
    memories that are not enough.
    ``graph accuracy``, ``strict graph accuracy`` (GE-Reasoning, Table 5): the question graph covers the gold triples; a
    graph that could not be read covers none.
    """
    asked: dict[str, list[Ask]] = {}
    for call in answer.trace.calls:
        if call.output is not None:
            asked.setdefault(call.task, []).append(call)
    found: dict[str, float] = {}
    judged = [*asked.get("resp.judge", ()), *asked.get("resp.judge_plan", ())]
    if judged and (answers := _unnamed_spans(question)):
        found["over-planning"] = sum(_over_planned(call, answers) for call in judged)
    elicited = any(call.task == "ge.graph" for call in answer.trace.calls)
    if elicited and (gold := question.metadata.get("evidences")):
        triplets = [row for call in asked.get("ge.graph", ()) for row in (call.output or {})["triplets"]]
        found["graph accuracy"] = ge_graph_accuracy(triplets, gold)
        found["strict graph accuracy"] = ge_graph_accuracy(triplets, gold, strict=True)
    return found


def _unnamed_spans(question: Question) -> list[str]:
    """Return the gold answers that are spans; none if the question compares things, or names one of them."""
    answers = span_answers(question)
    named = is_comparison(question) or any(find_folded(answer, question.text) for answer in answers)
    return [] if named else answers


def _over_planned(call: Ask, answers: Sequence[str]) -> bool:
    memory = call.fields["memory"]
    memory_texts = [*memory["global_evidence"], *(pair.get("response") or "" for pair in memory["local_pathway"])]
    text = f" {normalise(' '.join(memory_texts))} "
    there = any(f" {normalise(gold)} " in text for gold in answers if normalise(gold))
    return there and not (call.output or {})["sufficient"]
