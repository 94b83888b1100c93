"""ReSP against a second statement of it, on random worlds: same answer, same memories, same calls in order."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

from polyhop.answer import Answer
from tests.kit.random_world import World, seen
from tests.kit.tries import tries
from tests.restated.resp import retrieve_summarize_plan
from tests.restated.tor import ObservedRun

WORLDS = tries(800)


def drawn(world: World, seed: int) -> dict[str, Any]:
    """Settings drawn from the seed; the prompt's length is ample, or so tight that something has to give."""
    draw = random.Random(f"resp {seed}")
    fields: dict[str, Any] = {"question": world.question, "asked": [], "rejected": None}
    memory: dict[str, list[Any]] = {"global_evidence": [], "local_pathway": []}
    bare = world.prompt_tokens("resp.plan", {**fields, "memory": memory})
    source = draw.choice(["passages", "memory", "passages"])
    return {
        "k": draw.choice([5, 1, 2, 8]),
        "max_iterations": draw.choice([3, 3, 1, 2, 4, 6]),
        "local_source": source,
        "input_tokens": draw.choice([12_000, 12_000, bare + draw.randint(-20, 80)]),
        "judge_and_plan": draw.choice(["separate", "separate", "merged"]),
        "summarize_and_respond": draw.choice(["separate", "merged"]) if source == "passages" else "separate",
    }


def observe(answer: Answer, world: World) -> ObservedRun:
    """A run of the method, seen from outside; calls in the algorithm's order, whichever of two at once came first."""
    return ObservedRun(
        text=answer.text,
        evidence=[([passage.id for passage in piece.passages], piece.answer) for piece in answer.evidence],
        passages=[passage.id for passage in answer.passages],
        calls=[(call.task, seen(call.fields)) for call in answer.trace.calls],
        searches=world.searches,
        statistics=dict(answer.statistics),
    )


async def test_resp_equals_its_second_statement() -> None:
    met: Counter[str] = Counter()
    for seed in range(WORLDS):
        world = World.random(seed)
        settings = drawn(world, seed)
        answer, _ = await world.run("resp", **settings)
        expected = retrieve_summarize_plan(world.question, world, **settings)
        assert observe(answer, world) == expected, f"world {seed}, {settings}"
        met.update(_turns(expected, settings))
    assert min(met[turn] for turn in TURNS) >= tries(20), met


TURNS = (
    "sufficient", "limit", "gave up", "repeat", "second repeat", "response", "no response", "not stored", "trimmed",
    "cut", "unreadable", "memory", "not judged", "judged and planned", "planned apart", "both in one",
)  # fmt: skip


def _turns(run: ObservedRun, settings: dict[str, Any]) -> set[str]:
    """Collect the branches of the algorithm that a world took; the random worlds must cover all of them."""
    rounds, summaries, responses = (run.statistics[name] for name in ("iterations", "summaries", "responses"))
    shown = run.calls[-1][1]["memory"]
    passages = [fields["passages"] for task, fields in run.calls if "summarize" in task]
    tasks = [task for task, _ in run.calls]
    there = {
        "sufficient": rounds < settings["max_iterations"] and run.calls[-2][0] != "resp.plan",
        "limit": rounds == settings["max_iterations"] > 1,
        "gave up": rounds < settings["max_iterations"] and run.calls[-2][0] == "resp.plan",
        "repeat": run.statistics["repeats"] > 0,
        "second repeat": run.statistics["repeats"] > 1,
        "response": responses > 0,
        "no response": responses < rounds - 1,
        "not stored": summaries < rounds,
        "trimmed": len(shown["global_evidence"]) < summaries or len(shown["local_pathway"]) < rounds - 1,
        "cut": {passage for few in passages for passage, _ in few} < set(run.passages),
        "unreadable": any(one == two for one, two in zip(run.calls, run.calls[1:], strict=False)),
        "not judged": rounds > 1 and not any(task.startswith("resp.judge") for task in tasks),
        "judged and planned": "resp.judge_plan" in tasks,
        "planned apart": any(one == "resp.judge_plan" and two == "resp.plan" for one, two in pairwise(tasks)),
        "both in one": "resp.summarize_respond" in tasks,
        "memory": settings["local_source"] == "memory" and rounds > 1,
    }
    return {turn for turn, took in there.items() if took}
