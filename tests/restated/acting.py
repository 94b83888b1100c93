"""ReAct with its back-off, in-context Toolformer, Plan-and-Solve and Tree of Thoughts with retrieval a second time,
plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polyhop.common.sentences import sentences
from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.restated.tor import ObservedRun, Recorder, World, distinct


def react(
    question: str, world: World, *, k: int, max_turns: int, rank_limit: int, samples: int | None = None
) -> ObservedRun:
    """``samples``: of the vote that answers where ReAct does not finish; without it, it is asked to finish."""
    recorder = Recorder(world)
    steps: list[dict[str, Any]] = []
    found: list[list[Passage]] = []
    page: list[Passage] = []
    lookups: list[str] = []
    final: str | None = None
    while len(steps) < max_turns or samples is not None:
        reply = recorder.ask("react.act", question=question, steps=list(steps))
        if reply is None or reply["action"] == "Finish" or len(steps) == max_turns:
            final = reply["argument"] if reply and reply["action"] == "Finish" else None
            break
        if reply["action"] == "Search":
            hits = distinct(recorder.search(reply["argument"], k))
            found.append(hits)
            if hits:
                page, lookups = hits, []
            brought = hits
        else:
            word = reply["argument"].lower()
            holding = [replace(p, text=s) for p in page for s in sentences(p.text) if word in s.lower()]
            at = lookups.count(word)
            brought = [holding[at]] if at < len(holding) else []
            lookups.append(word)
        steps.append({**reply, "passages": brought})
    observed = recorder.observed
    observed.statistics = {"turns": len(steps), "searches": len(found), "lookups": len(steps) - len(found)}
    everything = distinct([p for hits in found for p in hits])
    observed.passages = [p.id for p in everything][:rank_limit]
    if samples is None and final is None:
        reply = recorder.ask("react.finish", question=question, steps=list(steps))
        final = reply["answer"] if reply else ""
    elif samples is not None and final is None:
        replies = [recorder.ask("answer.cot", question=question) for _ in range(samples)]
        observed.text = replies[0]["answer"] if replies[0] else ""  # the same fields, the same reply
        observed.statistics |= {"votes": samples, "agreement": float(bool(observed.text))}
        return observed
    elif samples is not None:
        observed.statistics |= {"votes": 0}
    observed.text = final or ""
    observed.evidence = [(observed.passages, observed.text)] if observed.passages and observed.text else []
    return observed


def toolformer(question: str, world: World, *, k: int, max_turns: int, rank_limit: int) -> ObservedRun:
    """A text, interrupted at each call; after the last one, or one made before, it is ended."""
    recorder = Recorder(world)
    pieces: list[dict[str, Any]] = []
    final = ""
    for _ in range(max_turns):
        reply = recorder.ask("toolformer.write", question=question, written=list(pieces)) or {}
        final = reply.get("answer") or ""
        query = reply.get("query")
        if not query or any(normalise(query) == normalise(piece["query"]) for piece in pieces):
            break
        pieces.append({"text": reply["text"], "query": query, "passages": distinct(recorder.search(query, k))})
    if not final:
        last = recorder.ask("toolformer.finish", question=question, written=list(pieces))
        final = last["answer"] if last else ""
    return _answer_from(recorder.observed, final, [p for piece in pieces for p in piece["passages"]], rank_limit,
                    searches=len(pieces))  # fmt: skip


def plan_solve_ir(question: str, world: World, *, k: int, max_searches: int, rank_limit: int) -> ObservedRun:
    """One plan, its first steps searched, one solution."""
    recorder = Recorder(world)
    reply = recorder.ask("plan_solve_ir.plan", question=question)
    plan = list(dict.fromkeys(reply["sub_questions"])) if reply else [question]
    hits = [p for step in plan[:max_searches] for p in recorder.search(step, k)]
    if hits:
        solved = recorder.ask("plan_solve_ir.solve", question=question, plan=plan, passages=distinct(hits))
    else:
        solved = recorder.ask("answer.cot", question=question)
    return _answer_from(recorder.observed, solved["answer"] if solved else "", hits, rank_limit,
                    plan=len(plan), searches=min(len(plan), max_searches))  # fmt: skip


def tot_ir(question: str, world: World, *, k: int, steps: int, breadth: int, keep: int, rank_limit: int) -> ObservedRun:
    """States as lists of (thought, passages, answer); one value a state."""
    recorder = Recorder(world)
    states: list[list[tuple[str, list[Passage], str | None]]] = [[]]
    seen: list[Passage] = []
    searches = 0

    def history(state: list[tuple[str, list[Passage], str | None]]) -> list[dict[str, Any]]:
        return [{"sub_question": thought, "answer": answer} for thought, _, answer in state]

    for _ in range(steps):
        grown: list[tuple[int, int, list[tuple[str, list[Passage], str | None]]]] = []
        for state in states:
            reply = recorder.ask("tot_ir.propose", question=question, history=history(state), count=breadth)
            new: list[str] = []
            for thought in reply["sub_questions"] if reply else []:
                if normalise(thought) not in [normalise(other) for other in [*new, *(claimed[0] for claimed in state)]]:
                    new.append(thought)
            for thought in new[:breadth]:
                hits = distinct(recorder.search(thought, k))
                searches += 1
                seen += hits
                fields = {"sub_question": thought, "passages": hits, "history": history(state)}
                value: dict[str, Any] = {"answer": None, "value": "impossible"}
                if hits:
                    value = {**value, **(recorder.ask("tot_ir.value", question=question, **fields) or {})}
                worth = ["impossible", "likely", "sure"].index(value["value"])
                grown.append((worth, len(grown), [*state, (thought, hits, value["answer"])]))
        if not grown:
            break
        best = sorted(grown, key=lambda each: (-each[0], each[1]))
        states = [state for _, _, state in best[:keep]]
        if best[0][0] == 2:
            break
    path = states[0]
    read = distinct([p for _, hits, _ in path for p in hits]) or distinct(seen)
    observed = recorder.observed
    if read:
        reply = recorder.ask("tot_ir.answer", question=question, history=history(path), passages=read)
    else:
        reply = recorder.ask("answer.cot", question=question)
    observed.text = reply["answer"] if reply else ""
    observed.passages = [p.id for p in distinct([*read, *seen])][:rank_limit]
    observed.evidence = [([p.id for p in hits], answer) for _, hits, answer in path if hits and answer]
    observed.statistics = {"steps": len(path), "searches": searches, "states": searches}
    return observed


def _answer_from(
    observed: ObservedRun, answer: str, hits: list[Passage], rank_limit: int, **statistics: float
) -> ObservedRun:
    passages = distinct(hits)
    observed.text = answer
    observed.passages = [p.id for p in passages][:rank_limit]
    observed.evidence = [(observed.passages, answer)] if passages and answer else []
    observed.statistics = dict(statistics)
    return observed
