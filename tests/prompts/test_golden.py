"""Every task's whole prompt, in both renderings, against a golden file: a change of any prompt shows as a diff.

Where the change is meant, write the files anew and read what git shows:

    POLYHOP_GOLDEN=write pytest tests/prompts/test_golden.py
"""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from polyhop.prompts.book import PromptBook
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.types import Passage
from tests.kit.prompt_cases import BY_KIND, SWITCHES, settings

GOLDEN = Path(__file__).parents[1] / "golden" / "prompts"
WRITE = os.environ.get("POLYHOP_GOLDEN") == "write"
BOOK = PromptBook()

PASSAGES = [
    Passage(
        "w1", "Walnut Street Bridge", "The Walnut Street Bridge crosses the Tennessee River. It was opened in 1891."
    ),
    Passage("w2", "Tennessee River", "The Tennessee River is the largest tributary of the Ohio River."),
]
SAMPLES: dict[str, Any] = {
    "question": "Which river does the river under the Walnut Street Bridge flow into?",
    "passages": PASSAGES,
    "evidence": [
        {
            "passages": PASSAGES,
            "answer": "the Ohio River",
            "analysis": "The bridge crosses the Tennessee River, which flows into the Ohio River.",
        },
        {"passages": PASSAGES[:1], "answer": None, "analysis": None},
    ],
    "memory": {
        "global_evidence": ["The Walnut Street Bridge crosses the Tennessee River."],
        "local_pathway": [
            {"sub_question": "Where does the Tennessee River end?", "response": "It flows into the Ohio River."},
            {"sub_question": "Who built the Walnut Street Bridge?", "response": None},
        ],
    },
    "sub_question": "Which river does the Tennessee River flow into?",
    "asked": [
        "Which river does the river under the Walnut Street Bridge flow into?",
        "Where does the Tennessee River end?",
    ],
    "rejected": "Where does the Tennessee River end?",
    "nodes": [
        {"query": "Which river is under the bridge?", "answer": "Tennessee River", "passage": PASSAGES[0]},
        {"query": "Where does the Tennessee River end?", "answer": "in the Ohio River", "passage": PASSAGES[1]},
    ],
    "chains": [
        [{"query": "Which river is under the Walnut Street Bridge?", "answer": "Chattanooga River"}],
        [
            {"query": "Which river is under the Walnut Street Bridge?", "answer": "Tennessee River"},
            {"query": "Where does the Tennessee River end?", "answer": None},
        ],
    ],
    "feedback": [
        {
            "query": "Which river is under the Walnut Street Bridge?",
            "answer": "Tennessee River",
            "passage": PASSAGES[0],
            "reason": "verify",
        },
        {
            "query": "Where does the Tennessee River end?",
            "answer": None,
            "passage": PASSAGES[1],
            "reason": "complete",
        },
    ],
}
"""A value for every field that tasks show; a task with a field of its own adds one here."""
SAMPLES |= {
    "history": [
        {
            "sub_question": "Which river does the Walnut Street Bridge cross?",
            "sentence": "The Walnut Street Bridge crosses the Tennessee River.",
            "answer": "Tennessee River",
        }
    ],
    "triplet": {"head": "Walnut Street Bridge", "relation": "crosses", "tail": "river: #1"},
    "triplets": [
        {"head": "Walnut Street Bridge", "relation": "crosses", "tail": "Tennessee River"},
        {"head": "Tennessee River", "relation": "tributary of", "tail": "Ohio River"},
    ],
    "known": [{"head": "Walnut Street Bridge", "relation": "crosses", "tail": "Tennessee River"}],
    "facts": [{"head": "Tennessee River", "relation": "flows into", "tail": "Ohio River"}],
    "passage": PASSAGES[0],
}
SAMPLES |= {
    "recitations": ["The Walnut Street Bridge crosses the Tennessee River.", "The Tennessee flows into the Ohio."],
    "demonstrations": [
        {
            "question": "Which river flows through the capital of Hungary?",
            "rationale": "The capital of Hungary is Budapest. The Danube flows through Budapest.",
            "answer": "Danube",
        }
    ],
}
SAMPLES |= {
    "steps": [
        {
            "thought": "First I need the river.",
            "action": "Search",
            "argument": "river under the Walnut Street Bridge",
            "passages": PASSAGES,
        },
        {"thought": None, "action": "Lookup", "argument": "Mississippi", "passages": []},
    ],
    "written": [
        {"text": "The bridge crosses", "query": "Which river is under the bridge?", "passages": PASSAGES[:1]},
        {"text": None, "query": "Where does the Tennessee River end?", "passages": []},
    ],
    "plan": ["Which river is under the Walnut Street Bridge?", "Which river does that river flow into?"],
}
SAMPLES |= {
    "reasoning": ["The Walnut Street Bridge crosses the Tennessee River.", "The bridge stands in Chattanooga."],
    "phrase": "the Ohio River",
}
SAMPLES |= {
    "candidate": "Ohio River",
    "candidates": ["Ohio River", "Mississippi River"],
    "summary": "The Walnut Street Bridge crosses the Tennessee River, which flows into the Ohio River.",
    "summaries": ["The Tennessee River flows into the Ohio River.", "The Walnut Street Bridge was opened in 1891."],
    "sentence": "The Walnut Street Bridge crosses the Ohio River.",
    "rationale": "The Walnut Street Bridge crosses the Tennessee River. The Tennessee River flows into the Ohio River.",
    "entities": ["Walnut Street Bridge (bridge)", "Tennessee River (river)", "Ohio River (river)"],
    "count": 2,
}
SAMPLES |= {"answers": ["Ohio River", "the Ohio"], "prediction": "It flows into the Ohio River."}
SAMPLES |= {"conversation": [("user", "Which river does it flow into?"), ("assistant", "the Ohio [1]")]}
OTHERS: dict[str, Any] = {
    "question": "Who wrote Emma?",
    "sub_question": "Who wrote Emma?",
    "triplet": {"head": "Emma", "relation": "author", "tail": "name: #1"},
    "passage": Passage("e", "Emma", "Emma is a novel by Jane Austen."),
}
"""Other values of the fields that a call is about."""
LEFT_OUT: dict[str, list[list[str]]] = {"resp.respond": [["memory"], ["passages"]], "resp.plan": [["rejected"], []]}
"""The fields of a task that may be null: each list of them is a case."""
LEFT_OUT |= {
    "ge.subquestion": [["question", "history"], ["triplet"]],
    "ge.subanswer": [["triplets", "passages"], ["passages"], ["triplets"]],
}
LEFT_OUT |= {"cot.sentence": [["passages"], []], "dsp.hop": [["passages"], []]}


class Case(NamedTuple):
    task: str
    switches: dict[str, Any]
    rendering: Rendering

    @property
    def name(self) -> str:
        unnamed = (False,) if self.task in BY_KIND else (False, "qa")
        steered = [name if value is True else value or f"no-{name}"  # None: left out
                   for name, value in self.switches.items() if value not in unnamed]  # fmt: skip
        return ".".join([self.task, *steered, self.rendering, "md"])


KINDS_SHOWN: dict[str, tuple[Rendering, ...]] = dict.fromkeys(
    ("answer.cot", "cot.sentence", "react.finish", "tor.review"), ("text",)
)
KINDS_SHOWN["answer.read"] = ("text", "json")
"""The tasks and forms whose golden files show every kind of question; the phrases are the same in all."""


def cases() -> Iterator[Case]:
    for task in TASKS:
        for switches, null in itertools.product(settings(task), LEFT_OUT.get(task, [[]])):
            is_other = switches.get("kind", "qa") != "qa" and task not in BY_KIND
            for rendering in get_args(Rendering):
                if is_other and rendering not in KINDS_SHOWN.get(task, ()):
                    continue
                yield Case(task, switches | dict.fromkeys(null), rendering)


def rendered(case: Case) -> str:
    unknown = set(TASKS[case.task].fields) - {*SAMPLES, *SWITCHES}
    assert not unknown, f"{case.task} has fields without a sample in {__file__}: {sorted(unknown)}"
    fields = {name: SAMPLES[name] for name in TASKS[case.task].fields if name in SAMPLES} | case.switches
    turns = BOOK[case.task].render(fields, rendering=case.rendering, shots=BOOK[case.task].settings.shots)
    return "\n".join(f"--- {turn['role']}\n{turn['content']}\n" for turn in turns)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_prompt_is_as_its_golden_file(case: Case) -> None:
    path = GOLDEN / case.name
    now = rendered(case)
    if WRITE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now, encoding="utf-8")
    assert path.is_file(), f"no golden file {path}: run with POLYHOP_GOLDEN=write and read what it writes"
    golden = path.read_text(encoding="utf-8")
    diff = difflib.unified_diff(golden.splitlines(), now.splitlines(), "golden", "now", lineterm="", n=1)
    assert now == golden, f"{path} (POLYHOP_GOLDEN=write where this is meant):\n" + "\n".join(diff)


def test_every_golden_file_is_a_tasks() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(case.name for case in cases())


def test_the_opening_is_the_same_for_every_question() -> None:
    """Servers keep the part that does not change: only the last turn may hang on the call's own fields."""
    for case in cases():
        fields = {name: SAMPLES[name] for name in TASKS[case.task].fields if name in SAMPLES} | case.switches
        other = {**fields, **{name: value for name, value in OTHERS.items() if fields.get(name)}}
        turns, others = (BOOK[case.task].render(each, rendering=case.rendering) for each in (fields, other))
        assert turns[:-1] == others[:-1]
        assert turns[-1] != others[-1]
        assert "Walnut" not in "".join(turn["content"] for turn in turns[:-1])
