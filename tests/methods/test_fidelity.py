"""Every method against a second statement of it, on random worlds: same answer, same evidence, same calls in order."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.trace import Branch
from polyhop.types import Kind
from tests.kit.random_world import World, seen
from tests.kit.scene import notes
from tests.kit.tries import tries
from tests.restated.cor import chain_of_reviews
from tests.restated.searchain import asked_of, search_in_the_chain
from tests.restated.tor import ObservedRun, tree_of_reviews

WORLDS = tries(1000)


def tor_settings(seed: int) -> dict[str, Any]:
    """Settings of a tree, drawn from the seed; narrow trees more often than wide ones."""
    draw = random.Random(f"tor {seed}")
    depth = draw.choice([1, 2, 3, 3, 3, 4])
    expansion, query = draw.choice(["mpc", "mpc", "direct", "cot"]), draw.choice([None, None, "review", "mpc", "both"])
    return {
        "widths": tuple(draw.randint(1, 5 if depth < 4 else 3) for _ in range(depth)),
        "expansion": expansion,
        "fusion": draw.choice(["evidence", "analysis", "paragraph"]),
        "relevance_pruning": draw.random() < 0.7,
        "repetitive_pruning": draw.random() < 0.7,
        "prune_when": draw.choice(["retrieval", "review"]),
        "expand_accepted": draw.random() < 0.3,
        "repeat_passages": draw.random() < 0.5,
        "rank_limit": draw.choice([15, 1, 2, 3, 5]),
        "thoughts": draw.random() < 0.3,
        "query": query,
        "semantic_pruning": draw.choice([None, None, 0.02, 0.1]),
        "early_stop": draw.choice([None, None, None, 1, 2, "judge"]),
        "mpc_merged": (query or expansion) == "mpc" and draw.random() < 0.3,
    }


def context(world: World, seed: int) -> int:
    """A context length: ample, or so tight that the evidence, or a path, has to be cut."""
    draw = random.Random(f"context {seed}")
    fusion = {"question": world.question, "evidence": [], "mode": "evidence"}
    review = {"question": world.question, "passages": [], "thoughts": True, "asks_query": True}
    bare = world.prompt_tokens("tor.fuse", fusion), world.prompt_tokens("tor.review", review)
    return draw.choice([10_000, draw.choice([min(bare), *bare, max(bare)]) + draw.randint(1, 150)])


def observe(answer: Answer, model: ScriptedLM, world: World) -> ObservedRun:
    """A run of the method, seen from outside, as the second statement tells its own."""
    return ObservedRun(
        text=answer.text,
        evidence=[([passage.id for passage in piece.passages], piece.answer) for piece in answer.evidence],
        analyses=[piece.analysis for piece in answer.evidence if piece.analysis],
        passages=[passage.id for passage in answer.passages],
        calls=[(request.task, seen(request.fields)) for request in model.calls],
        searches=world.searches,
        statistics=dict(answer.statistics),
    )


async def test_tor_equals_its_second_statement() -> None:
    met: Counter[str] = Counter()
    for seed in range(WORLDS):
        world, settings = World.random(seed), tor_settings(seed)
        settings["context_tokens"] = context(world, seed)
        answer, model = await world.run("tor", speculate=0, **settings)
        room = settings["context_tokens"]
        assert all(world.prompt_tokens(c.task, c.fields) <= room for c in model.calls if c.fields.get("passages"))
        expected = tree_of_reviews(world.question, world, **settings)
        assert observe(answer, model, world) == expected, f"world {seed}, {settings}"
        assert [call.task for call in answer.trace.calls] == [task for task, _ in expected.calls]
        met.update(_turns(expected, settings))
    assert min(met[turn] for turn in TURNS) >= tries(5), met


TURNS = (
    *("accepted", "cut", "left out", "empty pool", "closed book", "ranked", "expanded", "no hit", "unreadable"),
    *("voted", "judged", "merged", "both", "accepted and expanded", "accepted without an answer", "no assertion"),
    *("title alone", "path left out"),
)


def _turns(run: ObservedRun, settings: dict[str, Any]) -> set[str]:
    """Collect the branches of the algorithm that a world took; the random worlds must cover all of them."""
    last, shown = run.calls[-1]
    pieces = shown.get("evidence", [])
    whole = [[passage for passage, _ in piece["passages"]] for piece in pieces]
    tasks = [task for task, _ in run.calls]
    paths = {tuple(passage for passage, _ in fields["passages"]) for task, fields in run.calls if "passages" in fields}
    there = {
        "accepted": bool(run.evidence),
        "cut": bool(run.statistics["evidence"]) and not all(whole),
        "title alone": any(not text for _, fields in run.calls for _, text in fields.get("passages", ())),
        "path left out": any(fields.get("passages") == [] for _, fields in run.calls),
        "left out": len(run.evidence) < run.statistics["evidence"],
        "empty pool": not run.statistics["evidence"] and last == "tor.fuse",
        "closed book": last == "answer.cot",
        "ranked": len({p for passages, _ in run.evidence for p in passages}) > settings["rank_limit"],
        "expanded": len(run.searches) > 5,
        "no hit": not run.statistics["reviews"],
        "unreadable": any(one == two for one, two in zip(run.calls, run.calls[1:], strict=False)),
        "voted": tasks[-2:] == ["tor.fuse"] * 2 and run.text != "",
        "judged": "tor.enough" in tasks,
        "merged": "tor.merged" in tasks,
        "accepted without an answer": any(said is None for _, said in run.evidence),
        "no assertion": bool(run.evidence) and shown["mode"] == "paragraph" != settings["fusion"],
        "both": settings["query"] == "both" and "tor.complete" in tasks,
        "accepted and expanded": any(
            path[: len(passages)] == tuple(passages) and len(path) > len(passages)
            for passages, _ in run.evidence
            for path in paths
        ),
    }
    return {turn for turn, took in there.items() if took}


async def test_cor_equals_its_second_statement() -> None:
    met: Counter[str] = Counter()
    for seed in range(WORLDS):
        world, draw = World.random(seed), random.Random(f"cor {seed}")
        settings: dict[str, Any] = {
            "k": draw.choice([5, 2, 1]),
            "max_turns": draw.choice([3, 1, 2]),
            "fusion": draw.choice(["evidence", "analysis", "paragraph"]),
            "thoughts": draw.random() < 0.7,
            "rank_limit": draw.choice([15, 3]),
            "context_tokens": context(world, seed),
        }
        answer, model = await world.run("cor", **settings)
        expected = chain_of_reviews(world.question, world, **settings)
        assert observe(answer, model, world) == expected, f"world {seed}, {settings}"
        steps = [step for step in answer.trace.steps if isinstance(step, Branch)]
        turns = len(steps)
        found = expected.passages != []
        met.update([steps[-1].verdict or "", f"{turns} turns"])
        met["ended early"] += turns < settings["max_turns"] and steps[-1].verdict == "stop" and found
        met["voted"] += [task for task, _ in expected.calls[-2:]] == ["tor.fuse"] * 2 and expected.text != ""
        assert {step.verdict for step in steps[:-1]} <= {"search"}
    ways = ("accept", "stop", "1 turns", "2 turns", "3 turns", "ended early", "voted")
    assert min(met[way] for way in ways) >= tries(5), met


KINDS: tuple[Kind, ...] = ("qa", "boolean", "slot", "fact", "long")


def searchain_settings(seed: int) -> dict[str, Any]:
    """Settings of a chain of queries, drawn from the seed."""
    draw = random.Random(f"searchain {seed}")
    return {
        "max_rounds": draw.choice([5, 5, 1, 2, 3]),
        "k": draw.choice([1, 1, 3]),
        "confidence": draw.choice([0.0, 0.0, 0.5, 0.9]),
        "rouge": draw.choice([0.35, 0.1, 0.9]),
        "rouge_kind": draw.choice(["f", "precision", "recall"]),
        "form": draw.choice([None, None, "short", "long"]),
        "verification": draw.random() < 0.8,
        "completion": draw.random() < 0.8,
        "open_book": draw.random() < 0.9,
        "verify": draw.choice(["containment", "reader", "none"]),
        "consistency": draw.choice(["two-way", "two-way", "one-way"]),
        "alike": draw.choice([0.9, 0.5, 0.0, "exact"]),
    }


def rooms_for_chains(world: World, kind: Kind, open_book: bool) -> tuple[int, int]:
    """The lengths of SearChain's two prompts before anything is found."""
    fields = {"question": world.question, "kind": kind, "open_book": open_book, "chains": [], "feedback": []}
    last = asked_of(world.question, [], kind)
    return world.prompt_tokens("searchain.chain", fields), world.prompt_tokens("searchain.trace", last)


def _left_out(answer: Answer) -> set[str]:
    """The items that the prompts had no room for."""
    return {kind for name, data in notes(answer) if name == "left out" for kind in data}


async def test_searchain_equals_its_second_statement() -> None:
    met: Counter[str] = Counter()
    for seed in range(WORLDS):
        world, settings = World.random(seed), searchain_settings(seed)
        kind = KINDS[seed % len(KINDS)]
        bare = rooms_for_chains(world, kind, settings["open_book"])
        draw = random.Random(f"room {seed}")
        room = draw.choice([10_000, 10_000, bare[0] + draw.randint(1, 200), bare[1] + draw.randint(1, 100)])
        settings["context_tokens"] = room  # ample, or so tight that passages, chains and nodes have to go
        answer, model = await world.run("searchain", kind=kind, **settings)
        theta, above, likeness = (settings.pop(name) for name in ("confidence", "rouge", "alike"))
        expected = search_in_the_chain(
            world.question, world, kind=kind, theta=theta, rouge_above=above, likeness=likeness, **settings
        )
        assert all(world.prompt_tokens(call.task, call.fields) <= max(room, *bare) for call in model.calls)
        assert observe(answer, model, world) == expected, f"world {seed}, {kind}, {settings}"
        turns = {name for name, value in expected.statistics.items() if value}
        turns |= {"five"} if expected.statistics["rounds"] == 5 else set()
        turns |= {"long corrected"} if expected.statistics["from corrected"] and settings["form"] == "long" else set()
        turns |= {"closed"} if not expected.searches else set()
        met.update(turns | _left_out(answer))
    turns = {"from lm", "from corrected", "from completed", "marks dropped", "five", "long corrected", "closed"}
    turns |= {"shortened", "passages", "chains", "queries"}
    assert min(met[turn] for turn in turns) >= tries(20), met
