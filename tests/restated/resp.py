"""Retrieve, Summarize, Plan a second time: written from the paper (§3.2, §4.2, Appendix A) and its settled ambiguities.

Plain and synchronous: every call is a row of a record, and the memories are read off that record each time they are
needed, instead of being kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.restated.tor import ObservedRun, Recorder, World, distinct


@dataclass
class Round:
    """One iteration: what was searched and found, and what came of it."""

    query: str
    hits: list[Passage]
    summary: str | None = None
    response: str | None = None
    responded: bool = False


@dataclass
class Reasoning:
    """One question under way."""

    question: str
    world: World
    input_tokens: int
    recorder: Recorder
    rounds: list[Round] = field(default_factory=list)

    def fits(self, task: str, fields: Mapping[str, Any]) -> bool:
        return self.world.prompt_tokens(task, fields) <= self.input_tokens

    def ask(self, task: str, **fields: Any) -> Mapping[str, Any]:
        """A call that sees passages or the memories, as much of them as fits; {} where it cannot be read."""
        if fields.get("passages"):
            fields["passages"] = self.shortened(task, fields)
        elif fields.get("memory") == "both":
            fields = self.remembering(task, fields)
        return self.recorder.ask(task, **fields) or {}

    def shortened(self, task: str, fields: Mapping[str, Any]) -> list[Passage]:
        """Every way of cutting from the end, the least first, until one fits."""
        hits: list[Passage] = fields["passages"]
        for count in range(len(hits), 0, -1):
            *others, last = hits[:count]
            for tokens in range(self.world.count_tokens(last.text), -1, -1):
                cut = [*others, replace(last, text=self.world.truncate(last.text, tokens))]
                if self.fits(task, {**fields, "passages": cut}):
                    return cut
        return []

    def remembering(self, task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Both memories; the fewest of the oldest entries left out, evidence before pathway."""
        entries: list[tuple[str, Any]] = [("global_evidence", r.summary) for r in self.rounds if r.summary]
        entries += [
            ("local_pathway", {"sub_question": r.query, "response": r.response}) for r in self.rounds if r.responded
        ]
        for dropped in range(len(entries) + 1):
            memory: dict[str, list[Any]] = {"global_evidence": [], "local_pathway": []}
            for queue, entry in entries[dropped:]:
                memory[queue].append(entry)
            if self.fits(task, {**fields, "memory": memory}):
                break
        return {**fields, "memory": memory}

    def summarize(self, now: Round) -> None:
        summary = self.ask("resp.summarize", question=self.question, passages=now.hits).get("summary", "")
        before = [normalise(past.summary) for past in self.rounds if past.summary]
        now.summary = summary if normalise(summary) and normalise(summary) not in before else None

    def respond(self, now: Round, source: str) -> None:
        shown = {"passages": None, "memory": "both"} if source == "memory" else {"passages": now.hits, "memory": None}
        reply = self.ask("resp.respond", sub_question=now.query, **shown)
        now.response = reply.get("response") if reply.get("answered") else None


def retrieve_summarize_plan(
    question: str,
    world: World,
    *,
    k: int = 5,
    max_iterations: int = 3,
    input_tokens: int = 12_000,
    local_source: Literal["passages", "memory"] = "passages",
) -> ObservedRun:
    """Run the whole method; ``shots`` and ``output_tokens`` reach the prompts alone."""
    recorder = Recorder(world)
    reasoning = Reasoning(question, world, input_tokens, recorder)
    rounds = reasoning.rounds
    repeats = 0
    sufficient = False
    planned = question
    while planned:
        now = Round(planned, distinct(recorder.search(planned, k)))
        rounds.append(now)
        planned = ""
        if now.hits:
            reasoning.summarize(now)
        if now.hits and len(rounds) > 1:
            reasoning.respond(now, local_source)
        now.responded = len(rounds) > 1  # remembered, with a response or without
        if len(rounds) == max_iterations:
            break
        if any(past.summary or past.response for past in rounds):
            sufficient = reasoning.ask("resp.judge", question=question, memory="both").get("sufficient", False)
        if sufficient:
            break
        rejected = None
        asked = [past.query for past in rounds]
        for _ in (1, 2):
            plan = reasoning.ask("resp.plan", question=question, memory="both", asked=asked, rejected=rejected)
            wanted = plan.get("sub_question", "")
            if not any(normalise(wanted) == normalise(past) for past in asked):
                planned = wanted if normalise(wanted) else ""
                break
            repeats, rejected = repeats + 1, wanted
    observed = recorder.observed
    observed.text = reasoning.ask("resp.generate", question=question, memory="both").get("answer", "")
    observed.passages = [passage.id for passage in distinct([hit for past in rounds for hit in past.hits])]
    giving = [r for r in rounds if r.summary or (r.response and local_source == "passages")]
    observed.evidence = [([hit.id for hit in r.hits], None) for r in giving]
    observed.supported = sufficient and bool(giving) and observed.text != ""
    observed.statistics = {
        "iterations": len(rounds),
        "repeats": repeats,
        "summaries": sum(r.summary is not None for r in rounds),
        "responses": sum(r.response is not None for r in rounds),
    }
    return observed
