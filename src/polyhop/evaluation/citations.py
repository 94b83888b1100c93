"""The support of an answer, in the terms that benchmarks score: passages, sentences and triples.

No method is asked for supporting facts. They are derived from its answer by a rule of ours: for each cited passage, the
sentence that contains the citation's span; without a span, the sentence that shares the most words with question and
answer (ties go to the first). ``Passage.metadata["sentences"]`` holds the offsets at which a passage's sentences begin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from polyhop.answer import Answer
from polyhop.common.text import content_words
from polyhop.methods.graph import QuestionGraph
from polyhop.metrics.facts import Fact, Triple
from polyhop.trace import Note
from polyhop.types import Passage


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
