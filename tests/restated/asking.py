"""Self-ask with search (Tree of Reviews §4.3) and least-to-most (Zhou et al., §2) a second time, plainly."""

from __future__ import annotations

from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.restated.tor import ObservedRun, Recorder, World, distinct


def self_ask(question: str, world: World, *, k: int = 5, max_turns: int = 3, rank_limit: int = 15) -> ObservedRun:
    """Follow-ups one by one, each searched; the newest passages stand first. After the last search, the answer."""
    recorder = Recorder(world)
    asked: list[str] = []
    answers: list[str | None] = []
    found: list[list[Passage]] = []
    final: str | None = None
    asking = True
    while final is None:
        conclude = not asking or len(asked) == max_turns
        pairs = [{"sub_question": q, "answer": a} for q, a in zip(asked, [*answers, None], strict=False)]
        passages = distinct([passage for hits in found[::-1] for passage in hits])
        reply = recorder.ask("self_ask.turn", question=question, history=pairs, passages=passages, conclude=conclude)
        turn = reply or {}
        if asked:  # the last follow-up waits, unless its answer came with a follow-up that was no new one
            last = answers[-1] if len(answers) == len(asked) else None
            answers = [*answers[: len(asked) - 1], last or turn.get("intermediate")]
        if conclude:
            final = turn.get("answer") or ""
        elif turn.get("answer"):
            final = turn["answer"]
        elif turn.get("follow_up") and normalise(turn["follow_up"]) not in map(normalise, asked):
            asked.append(turn["follow_up"])
            found.append(recorder.search(asked[-1], k))
        else:
            asking = False
    observed = recorder.observed
    observed.text = final
    observed.passages = [passage.id for passage in distinct([p for hits in found for p in hits])][:rank_limit]
    observed.evidence = [
        ([passage.id for passage in distinct(hits)], answer)
        for hits, answer in zip(found, answers, strict=True)
        if hits and answer
    ]
    observed.statistics = {"follow_ups": len(asked), "searches": len(found)}
    return observed


def least_to_most(question: str, world: World, *, max_questions: int = 4) -> ObservedRun:
    """The parts of the question in order, then the question, each with all answers before it in sight."""
    recorder = Recorder(world)
    reply = recorder.ask("least_to_most.decompose", question=question)
    parts: dict[str, str] = {}
    for part in (reply or {"sub_questions": []})["sub_questions"]:
        parts.setdefault(normalise(part), part)
    solved: list[dict[str, str]] = []
    for part in [part for name, part in parts.items() if name not in ("", normalise(question))][:max_questions]:
        solution = recorder.ask("least_to_most.solve", question=question, history=list(solved), sub_question=part)
        solved.append({"sub_question": part, "answer": solution["answer"] if solution else ""})
    solution = recorder.ask("least_to_most.solve", question=question, history=list(solved), sub_question=question)
    recorder.observed.text = solution["answer"] if solution else ""
    recorder.observed.statistics = {"sub_questions": len(solved)}
    return recorder.observed
