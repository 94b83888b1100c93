"""Random webs: passages with links between them, a search, a reader and a model that scores, all from one seed.

Every score depends only on the prompt, the target and the temperature, and scores are coarse, so that some are equal.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyhop.answer import Answer
from polyhop.lm.base import ScoreRequest
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.types import Passage, Span

BOOK = PromptBook()
WORDS = "amber basin cedar delta ember fjord grove haven inlet knoll ledge marsh north otter poppy quarry".split()


@dataclass
class Web:
    """One random web: a retriever (``search``, ``links``), with ``score`` and ``read`` for its model and reader."""

    seed: int
    question: str
    passages: list[Passage]
    linked: Mapping[str, Sequence[str]]
    name: str = "web"
    model: ScriptedLM = field(init=False)

    def __post_init__(self) -> None:
        self.model = ScriptedLM(lambda task, fields: {"answer": "told"}, score=self.score)

    @classmethod
    def random(cls, seed: int) -> Web:
        """The web of that seed."""
        draw = random.Random(seed)
        count = draw.randint(0, 14)
        ends = ["", ".", "!", "?", " "]
        passages = [
            Passage(
                f"p{n}",
                draw.choice(WORDS).title(),
                " ".join(draw.choices(WORDS, k=draw.randint(0, 40))) + draw.choice(ends),
            )
            for n in range(count)
        ]
        ids = [passage.id for passage in passages]
        linked = {each: draw.choices(ids, k=draw.randint(0, 6)) for each in ids}
        question = " ".join(draw.choices(WORDS, k=4)) + draw.choice(["?", "", " ?", " "])
        return cls(seed, question, passages, linked)

    def search(self, query: str, k: int) -> list[Passage]:
        """Return some of the passages, in an order that depends on the query."""
        hits = sorted(self.passages, key=lambda passage: self.roll("rank", query, passage.id))
        return hits[: min(k, int(len(hits) * (0.3 + 0.7 * self.roll("found", query))))]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """``search`` for each query."""
        return [self.search(query, k) for query in queries]

    def links(self, passage: Passage) -> list[Passage]:
        """The passages linked, now and then one twice or the passage itself."""
        by_id = {each.id: each for each in self.passages}
        return [by_id[each] for each in self.linked[passage.id]]

    def score(self, request: ScoreRequest) -> list[float]:
        """A log-probability for each word of the target."""
        key = (request.prompt, request.target, str(request.temperature))
        return [-round(4 * self.roll("score", str(n), *key), 1) for n in range(len(request.target.split()))]

    def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        """A span a passage, the surest first: some empty, some of no answer."""
        spans = []
        for passage in passages:
            if passage.text and self.roll("reads", question, passage.id) < 0.8:
                end = int(min(len(passage.text), 60) * self.roll("end", question, passage.id))
                sure = round(self.roll("sure", question, passage.id), 1)
                answerable = self.roll("answerable", passage.id) < 0.9
                spans.append(Span(passage.id, passage.text[:end], 0, end, sure, answerable))
        return sorted(spans, key=lambda span: -span.confidence)

    async def run(self, method: str = "promptrank", **settings: Any) -> Answer:
        """The method's answer to this web's question; ``model.score_calls`` are the scores it asked for."""
        given = {"retriever": self, "reader": self.read, "prompts": BOOK, **settings}
        async with Pipeline(method=method, lm=self.model, **given) as pipeline:
            return await pipeline.aask(self.question)

    def roll(self, *key: str) -> float:
        """Return a number in [0, 1) that depends only on the seed and the key."""
        digest = hashlib.blake2b("\x1f".join((str(self.seed), *key)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64
