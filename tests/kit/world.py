"""Random worlds: a small corpus, a retriever and a language model, all drawn from one seed.

Whatever is asked is answered by hashing the question asked, so two runs over the same world see the same things however
they order or repeat their calls, and every turn a method can take comes up: unreadable replies, null queries, empty
information, support without relevance, searches that find nothing or the same passage twice.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook, Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.retrieval.tfidf import similarities
from polyhop.text import estimate_tokens
from polyhop.types import Answer, Passage

T = TypeVar("T")
Speech: TypeAlias = Literal["value", "text", "json"]
BOOK = PromptBook()


def seen(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A call's fields with every passage as its id and text, so that two runs compare by what was shown.

    >>> seen({"passages": [Passage("p1", "Title", "Text.")], "thoughts": False})
    {'passages': [('p1', 'Text.')], 'thoughts': False}
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Passage):
            return (value.id, value.text)
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in sorted(value.items())}
        if isinstance(value, (list, tuple)):
            return [plain(inner) for inner in value]
        return value

    return {key: plain(value) for key, value in sorted(fields.items())}


def still(row: Any) -> Any:
    """A written row without what may differ between two equal runs.

    >>> still({"steps": [{"kind": "ask", "volatile": {"seconds": 0.1}}]})
    {'steps': [{'kind': 'ask'}]}
    """
    if isinstance(row, dict):
        return {key: still(inner) for key, inner in row.items() if key != "volatile"}
    return [still(inner) for inner in row] if isinstance(row, list) else row


@dataclass
class World:
    """One random world.

    ``shares`` is how often each thing happens; ``speaks`` the form of the model's replies: the output itself, or the
    ``text`` or ``json`` rendering of it.
    """

    seed: int
    question: str = "Which of them was it?"
    passages: list[Passage] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)
    speaks: Speech = "value"
    shots: int = 0
    searches: list[tuple[str, int]] = field(default_factory=list)

    @classmethod
    def random(cls, seed: int) -> World:
        """The world of that seed."""
        draw = random.Random(seed)
        passages = [
            Passage(f"p{n}", f"Title {n}", " ".join(f"word{n}" for _ in range(draw.randint(1, 30))))
            for n in range(draw.randint(2, 20))
        ]
        shares = {
            "relevant": draw.choice([0.4, 0.8, 0.95]),
            "supported": draw.choice([0.0, 0.15, 0.3, 0.6]),
            "wordless": draw.choice([0.0, 0.3]),
            "unreadable": draw.choice([0.0, 0.0, 0.1]),
            "barren": draw.choice([0.0, 0.1, 0.3]),
        }
        speaks: Speech = draw.choice(["value", "value", "text", "json"])
        return cls(seed, f"Question {seed}?", passages, shares, speaks, shots=draw.choice([0, 0, 3]))

    # --- what a method meets -----------------------------------------------------------------------------------------

    def search(self, query: str, k: int) -> list[Passage]:
        """Up to ``k`` hits in an order that hangs on the query; sometimes fewer, none, or one of them twice."""
        hits = sorted(self.passages, key=lambda passage: self._roll("rank", query, passage.id))[:k]
        if self._happens("barren", "search", query):
            hits = hits[: int(3 * self._roll("few", query))]
        if hits and self._roll("twice", query) < 0.2:
            hits = [hits[0], *hits][:k]
        return hits

    def reply(self, task: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The output for a call, or None where what the model says cannot be read, however often it is asked."""
        key = (task, repr(seen(fields)))
        if self._happens("unreadable", *key):
            return None
        if task in ("tor.review", "cor.review"):
            return self._review(key)
        if task == "tor.complete":
            empty = self.speaks != "json" and self._happens("wordless", "information", *key)
            if empty and self.speaks == "text":
                return None  # a marker with nothing after it cannot be read
            return {"information": "" if empty else self._pick(QUERIES, "information", *key), "answer": "Unused"}
        told = self._pick(["Because it was so", None], "rationale", *key) if task != "answer.direct" else None
        return {"rationale": told, "answer": self._pick(ANSWERS, "answer", *key)}

    def script(self, task: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | str:
        """The model's side of ``reply``: the same output in the form this world's model speaks."""
        output = self.reply(task, fields)
        if output is None:
            return ""
        if self.speaks == "value":
            return output
        shape = TASKS[task].output.model_validate(dict(output))
        return TASKS[task].write(shape, fields) if self.speaks == "text" else json.dumps(shape.model_dump())

    def _review(self, key: tuple[str, ...]) -> Mapping[str, Any]:
        supported = self._happens("supported", *key)
        silent = self._happens("wordless", "review", *key) and not (supported and self.speaks != "value")
        said = None if silent else self._pick(ANSWERS if supported else QUERIES, "said", *key)
        return {
            "relevant": self._happens("relevant", *key),
            "supported": supported,
            "answer": said if supported else None,
            "query": None if supported else said,
        }

    # --- lengths and likeness ----------------------------------------------------------------------------------------

    def prompt_tokens(self, task: str, fields: Mapping[str, Any]) -> int:
        """The length of the whole prompt, 4 characters a token."""
        rendering: Rendering = "json" if self.speaks == "json" else "text"
        turns = BOOK[task].render(fields, rendering=rendering, shots=self.shots)
        return sum(estimate_tokens(turn["content"]) for turn in turns)

    def count_tokens(self, text: str) -> int:
        """As the engine counts for a model without a tokenizer."""
        return -(-len(text) // 4)

    def truncate(self, text: str, tokens: int) -> str:
        """As the engine cuts for a model without a tokenizer."""
        return text[: 4 * tokens]

    def similarity(self, text: str, texts: Sequence[str]) -> Sequence[float]:
        """The run's own likeness: its ranking is what is compared, not its arithmetic."""
        return similarities(text, texts)

    # --- running a method --------------------------------------------------------------------------------------------

    async def run(self, method: str, **settings: Any) -> tuple[Answer, ScriptedLM]:
        """The method's answer to this world's question, and the model with the calls it saw."""
        model = ScriptedLM(self.script)
        rendering: Rendering = "json" if self.speaks == "json" else "text"
        given = {"shots": self.shots, "prompts": BOOK, "rendering": rendering, **settings}
        async with Pipeline(method=method, lm=model, retriever=self._searched, **given) as pipeline:
            return await pipeline.aask(self.question), model

    def _searched(self, query: str, k: int) -> list[Passage]:
        self.searches.append((query, k))
        return self.search(query, k)

    # --- chance ------------------------------------------------------------------------------------------------------

    def _roll(self, *key: str) -> float:
        """A number in [0, 1) that hangs on the seed and the key alone."""
        digest = hashlib.blake2b("\x1f".join((str(self.seed), *key)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def _happens(self, what: str, *key: str) -> bool:
        return self._roll(what, *key) < self.shares[what]

    def _pick(self, options: Sequence[T], *key: str) -> T:
        return options[int(self._roll("pick", *key) * len(options))]


ANSWERS = [f"Answer {number}" for number in range(4)]
QUERIES = [f"query {number}" for number in range(6)]
