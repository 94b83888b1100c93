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
    """One iteration: what was searched and found, and what came of it; how many hits each half was shown."""

    query: str
    hits: list[Passage]
    summary: str | None = None
    response: str | None = None
    responded: bool = False
    summarized_from: int = 0
    answered_from: int = 0


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
        """The call's output; {} where it cannot be read."""
        return self.recorder.ask(task, **fields) or {}

    def shortened(self, task: str, hits: list[Passage], **fields: Any) -> list[Passage]:
        """Every way of cutting from the end, the least first, until one fits."""
        for count in range(len(hits), 0, -1):
            *others, last = hits[:count]
            for tokens in range(self.world.count_tokens(last.text), -1, -1):
                cut = [*others, replace(last, text=self.world.truncate(last.text, tokens))]
                if self.fits(task, {**fields, "passages": cut}):
                    return cut
        return []

    def remembered(self, task: str, **fields: Any) -> tuple[dict[str, Any], list[tuple[str, Round]]]:
        """Both memories as shown, the fewest of the oldest entries left out, evidence before pathway; and the rounds
        that the entries are of."""
        entries = [("global_evidence", r) for r in self.rounds if r.summary]
        entries += [("local_pathway", r) for r in self.rounds if r.responded]
        for dropped in range(len(entries) + 1):
            kept = entries[dropped:]
            memory: dict[str, list[Any]] = {
                "global_evidence": [r.summary for queue, r in kept if queue == "global_evidence"],
                "local_pathway": [
                    {"sub_question": r.query, "response": r.response} for queue, r in kept if queue == "local_pathway"
                ],
            }
            if self.fits(task, {**fields, "memory": memory}):
                break
        return memory, kept

    def ask_memory(self, task: str, **fields: Any) -> Mapping[str, Any]:
        return self.ask(task, **fields, memory=self.remembered(task, **fields)[0])

    def knows(self, memory: Mapping[str, Any]) -> bool:
        return bool(memory["global_evidence"]) or any(pair["response"] for pair in memory["local_pathway"])

    def take_summary(self, now: Round, reply: Mapping[str, Any], shown: list[Passage]) -> None:
        summary = reply.get("summary", "")
        before = [normalise(past.summary) for past in self.rounds if past.summary]
        if normalise(summary) and normalise(summary) not in before:
            now.summary, now.summarized_from = summary, len(shown)

    def take_response(self, now: Round, reply: Mapping[str, Any], shown: list[Passage]) -> None:
        if reply.get("answered") and reply.get("response"):
            now.response, now.answered_from = reply["response"], len(shown)

    def summarize(self, now: Round) -> None:
        if shown := self.shortened("resp.summarize", now.hits, question=self.question):
            self.take_summary(now, self.ask("resp.summarize", question=self.question, passages=shown), shown)

    def respond(self, now: Round, source: str) -> None:
        about = {"sub_question": now.query}
        if source == "memory":
            memory = self.remembered("resp.respond", **about, passages=None)[0]
            if now.hits and self.knows(memory):
                self.take_response(now, self.ask("resp.respond", **about, passages=None, memory=memory), [])
        elif shown := self.shortened("resp.respond", now.hits, **about, memory=None):
            self.take_response(now, self.ask("resp.respond", **about, passages=shown, memory=None), shown)

    def both(self, now: Round) -> None:
        """One call for the summary and the response."""
        about = {"question": self.question, "sub_question": now.query}
        if shown := self.shortened("resp.summarize_respond", now.hits, **about):
            reply = self.ask("resp.summarize_respond", **about, passages=shown)
            self.take_summary(now, reply, shown)
            self.take_response(now, reply, shown)


def retrieve_summarize_plan(
    question: str,
    world: World,
    *,
    k: int = 5,
    max_iterations: int = 3,
    input_tokens: int = 12_000,
    local_source: Literal["passages", "memory"] = "passages",
    judge_and_plan: Literal["separate", "merged"] = "separate",
    summarize_and_respond: Literal["separate", "merged"] = "separate",
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
        if len(rounds) > 1 and summarize_and_respond == "merged":
            reasoning.both(now)
        else:
            reasoning.summarize(now)
            if len(rounds) > 1:
                reasoning.respond(now, local_source)
        now.responded = len(rounds) > 1  # remembered, with a response or without
        if len(rounds) == max_iterations:
            break
        asked = [past.query for past in rounds]
        task = "resp.judge" if judge_and_plan == "separate" else "resp.judge_plan"
        given: dict[str, Any] = (
            {"question": question} if task == "resp.judge" else {"question": question, "asked": asked}
        )
        memory, _ = reasoning.remembered(task, **given)
        judged = reasoning.ask(task, **given, memory=memory) if reasoning.knows(memory) else {}
        sufficient = judged.get("sufficient", False)
        if sufficient:
            break
        rejected = None
        plan = judged.get("sub_question")
        for _ in (1, 2):
            if plan is None:
                plan = reasoning.ask_memory("resp.plan", question=question, asked=asked, rejected=rejected).get(
                    "sub_question", ""
                )
            if not any(normalise(plan) == normalise(past) for past in asked):
                planned = plan if normalise(plan) else ""
                break
            repeats, rejected, plan = repeats + 1, plan, None
    observed = recorder.observed
    memory, entries = reasoning.remembered("resp.generate", question=question)
    observed.text = reasoning.ask("resp.generate", question=question, memory=memory).get("answer", "")
    observed.passages = [passage.id for passage in distinct([hit for past in rounds for hit in past.hits])]
    for past in rounds:
        read = [past.summarized_from for queue, entry in entries if entry is past and queue == "global_evidence"]
        read += [past.answered_from for queue, entry in entries if entry is past and queue == "local_pathway"]
        if max(read, default=0):
            observed.evidence.append(([hit.id for hit in past.hits[: max(read)]], None))
    observed.statistics = {
        "iterations": len(rounds),
        "repeats": repeats,
        "summaries": sum(r.summary is not None for r in rounds),
        "responses": sum(r.response is not None for r in rounds),
    }
    return observed
