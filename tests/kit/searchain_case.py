"""A hand-worked case of SearChain: its chains in order, hits and spans by query, and the transcript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Kind, Passage, Span
from tests.kit.scene import notes

FILM = Passage("film", "Dark Mill", "Dark Mill is a film of 1931 by Rolf Anders.")
MAN = Passage("man", "Rolf Anders", "Rolf Anders was born in Bremen in 1899.")
OTHER = Passage("other", "Ferry", "A ferry crosses water.")
QUESTION = "Where was the director of Dark Mill born?"
WHO, WHERE = "Who directed Dark Mill?", "Where was Rolf Anders born?"


def chain(*lines: str, final: str | None = None) -> dict[str, Any]:
    """A chain from lines: "query = answer", or an unsolved query alone.

    >>> chain("Who? = Ann")["nodes"]
    [{'query': 'Who?', 'answer': 'Ann'}]
    """
    parts = [line.partition(" = ") for line in lines]
    return {"nodes": [{"query": query, "answer": answer or None} for query, _, answer in parts], "final": final}


def span(passage: Passage, text: str, confidence: float = 0.9, **changes: Any) -> Span:
    start = passage.text.find(text)
    there = {"start": start, "end": start + len(text), **changes}
    return Span(passage.id, text, confidence=confidence, **there)


@dataclass
class Case:
    """Chains in the order they are asked for, hits and spans by query, and the final content."""

    chains: Sequence[Any]
    hits: Mapping[str, Sequence[Passage]] = field(default_factory=lambda: {WHO: [FILM], WHERE: [MAN]})
    spans: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    content: str = "It is by Rolf Anders [1]. He was born in Bremen [2]."
    answer: str = "Bremen"
    transcript: list[str] = field(default_factory=list)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    async def play(self, kind: Kind = "qa", **given: Any) -> Answer:
        arguments = {"lm": ScriptedLM(self.script), "retriever": self.search, "reader": self.read, **given}
        async with Pipeline(method="searchain", **arguments) as qa:
            return await qa.aask(QUESTION, kind=kind)

    def script(self, task: str, fields: Mapping[str, Any]) -> Any:
        self.calls.append((task, fields))
        self.transcript.append(task.removeprefix("searchain."))
        if task == "searchain.trace":
            return {"content": self.content, "answer": self.answer}
        return self.chains[min(len(fields["chains"]), len(self.chains) - 1)]

    def search(self, query: str, k: int) -> list[Passage]:
        self.transcript.append(f"search {query}")
        return list(self.hits.get(query, ()))[:k]

    def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        self.transcript.append(f"read {question} in {' '.join(p.id for p in passages)}")
        return list(self.spans.get(question, ()))

    def feedback(self, call: int) -> Mapping[str, Any]:
        """The last feedback that a call was shown."""
        return dict(self.calls[call][1]["feedback"][-1])


def path(answer: Answer) -> list[tuple[str, str, str]]:
    """The correct reasoning path: query, answer and source."""
    (data,) = [data for name, data in notes(answer) if name == "final content"]
    return [(node["query"], node["answer"], node["source"]) for node in data["nodes"]]
