"""PromptRank against its second statement, over random webs and settings."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from polyhop.methods.registry import method_named
from tests.kit.random_web import Web
from tests.kit.scene import notes
from tests.restated import promptrank as restated

CHOICES: dict[str, list[Any]] = {
    "first": [1, 3, 100],
    "keep": [1, 2, 5],
    "links": [0, 1, 3],
    "hops": [1, 2, 2, 3],
    "passage_tokens": [5, 20, 230],
    "prompt_tokens": [None, None, 30, 60],
    "instruction": [None, None, "none", "Ask what they tell.", "before: Ask."],
    "instructions": [(), (), ("One.", "before: Two.", "none"), ("after: One.", "Two.")],
    "instructions_from": ["", "", "a file"],
    "ensemble_size": [1, 2],
    "instruction_position": ["after", "before"],
    "ensemble": ["max", "mean", "token-mean", "token-max", "token-median"],
    "temperature": [None, 1.0, 2.0],
    "demos": [0, 0, 2, 6],
    "demos_from": ["", "a file"],
    "demo_ensemble": ["max", "mean"],
    "demo_seed": [None, 3],
    "titles": [False, True],
    "order": ["link", "inverted"],
    "joint": [True, True, False],
    "normalise": ["mean", "sum"],
    "document_score": ["max", "mean", "min", "longest"],
    "read_paths": [1, 4, 100],
    "path_weight": [0.0, 0.5, 0.9, 1.0],
    "combine": ["raw", "scaled"],
}


def settings_of(seed: int) -> dict[str, Any]:
    draw = random.Random(f"settings {seed}")
    return {name: draw.choice(choices) for name, choices in CHOICES.items()} if seed % 4 else {}


def write_files(folder: Path, question: str, given: dict[str, Any]) -> None:
    """Put the names of real files in the settings: instructions, and demonstrations of which one is the question."""
    if given.get("instructions_from"):
        given["instructions_from"] = str(folder / "instructions.txt")
        (folder / "instructions.txt").write_text("before: Ask.\nThree.\nFour.\n")
    if given.get("demos_from"):
        given["demos_from"] = str(folder / "demos.jsonl")
        asked = [question + "?", *(f"{kind} {n}?" for n in range(5) for kind in ("Bridge", "Comparison"))]
        rows = [
            {
                "kind": "comparison" if text.startswith("Comparison") else "bridge",
                "question": text,
                "passages": [{"title": "T", "text": f"On {text}"}, {"title": "U", "text": "long " * 90}],
            }
            for text in asked
        ]
        (folder / "demos.jsonl").write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize("block", [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 10))])
async def test_it_does_what_its_second_statement_does(block: int, tmp_path: Path) -> None:
    for seed in range(30 * block, 30 * (block + 1)):
        web, given = Web.random(seed), settings_of(seed)
        write_files(tmp_path, web.question, given)
        settings = method_named("promptrank").resolve(given)
        expected = restated.rank(web, settings)
        answer = await web.run(**given)
        ((name, data),) = notes(answer)
        assert name == "paths"
        assert [tuple(row["passages"]) for row in data["ranked"]] == restated.best_paths(expected), (seed, given)
        assert [row["score"] for row in data["ranked"]] == pytest.approx(
            [expected.scores[path] for path in restated.best_paths(expected)]
        )
        assert [passage.id for passage in answer.passages] == restated.best_passages(expected, settings)
        asked = Counter((call.prompt, call.target, call.temperature) for call in web.model.score_calls)
        assert asked == expected.prompts, (seed, given)
        text, path = restated.answer(web, expected, settings)
        assert (answer.text, tuple(p.id for piece in answer.evidence for p in piece.passages)) == (text, path), seed
