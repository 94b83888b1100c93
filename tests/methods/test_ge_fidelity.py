"""GE-Reasoning against a second statement of it, on random worlds: same answer, same evidence, same calls."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from polyhop.answer import Answer
from tests.kit.random_world import World, seen
from tests.kit.scene import notes
from tests.kit.tries import tries
from tests.methods.test_fidelity import observe
from tests.restated.ge import ge_reasoning

WORLDS = tries(1000)
TURNS = (
    *("bound", "dropped", "dropped and drawn again", "saved", "no hit", "no guidance", "unreadable"),
    *("triplets", "passages", "three bindings", "the limit", "an opus", "given up"),
    *("shortened", "none left", "near-miss", "at once", "not again"),
)


def settings_of(seed: int) -> dict[str, Any]:
    """Settings drawn from the seed, most of them the defaults."""
    draw = random.Random(f"ge {seed}")
    return {
        "k": draw.choice([2, 2, 1, 4]),
        "max_steps": draw.choice([10, 10, 3, 1]),
        "context_tokens": draw.choice([4096, 4096, 4096, 700, 400]),
        "extract": draw.choice(["passage", "passage", "query"]),
        "retrieve_below": draw.choice([0.8, 0.5, 0.0, 1.0]),
        "keep_above": draw.choice([0.4, 0.1, 0.7]),
        "query": draw.choice(["subquestion", "subquestion", "question"]),
        "confidence": draw.choice(["verbal", "verbal", "verbal", "agreement"]),
        "samples": draw.choice([1, 3]),
        **{
            name: draw.random() < 0.8
            for name in ("typed_variables", "guidance", "refine", "triplet_filter", "filter", "open_book")
        },
    }


async def test_ge_equals_its_second_statement() -> None:
    met: Counter[str] = Counter()
    for seed in range(WORLDS):
        world, settings = World.random(seed), settings_of(seed)
        answer, model = await world.run("ge", **settings)
        expected = ge_reasoning(world.question, world, **settings)
        found = observe(answer, model, world)
        found.calls = [(call.task, seen(call.fields)) for call in answer.trace.calls]  # in the algorithm's order
        if settings["confidence"] == "agreement":  # a retry comes after its own call, not after all that went together
            found.calls, expected.calls = sorted(found.calls, key=repr), sorted(expected.calls, key=repr)
        assert found == expected, f"world {seed}, {settings}"
        met.update(_turns(expected, settings, answer))
    assert min(met[turn] for turn in TURNS) >= tries(5), met


def _turns(run: Any, settings: dict[str, Any], answer: Answer) -> set[str]:
    """Collect the branches of the algorithm that a world took; the random worlds must cover all of them."""
    count, calls = run.statistics, answer.trace.calls
    filters = [call for call in calls if call.task == "ge.filter" and call.output]
    shown = [call.fields for call in calls if call.task == "ge.subanswer"]
    graphs = [call.output or {} for call in calls if call.task == "ge.graph"]
    there = {
        "bound": count["bindings"],
        "dropped": count["dropped"],
        "dropped and drawn again": count["dropped"] and count["bindings"],
        "saved": count["retrievals_saved"],
        "no hit": count["retrievals"] and not run.passages,
        "no guidance": not count["triplets"] and settings["guidance"],
        "unreadable": any(call.attempt == 2 for call in calls),
        "triplets": any(fields["triplets"] for fields in shown),
        "passages": any(fields["passages"] for fields in shown) and settings["refine"],
        "three bindings": count["bindings"] > 2,
        "the limit": count["draws"] == settings["max_steps"],
        "given up": count["triplets"] and count["dropped"] > 2 and count["draws"] < settings["max_steps"],
        "shortened": any(name == "left out" for name, _ in notes(answer)),
        "none left": any(not call.output["triplets"] for call in filters if call.output),
        "near-miss": any(
            row["tail"].endswith(".") for call in filters if call.output for row in call.output["triplets"]
        ),
        "at once": any(call.task == "ge.extract" for call in calls),
        "not again": count["triplets"] and count["draws"] > sum(call.task == "ge.subquestion" for call in calls),
        "an opus": count["bindings"] and "Opus #9" in repr(graphs),
    }
    return {turn for turn, took in there.items() if took}
