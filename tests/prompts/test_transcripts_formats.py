"""The other parsers on what real models wrote, where formats meet: chains of questions, yes or no, triplets.

Every floor is what was measured, or a little below; each test prints its own share.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest

from polyhop.common.text import normalise
from polyhop.lm.reply import strip_reasoning
from polyhop.prompts.answers import clean_value, find_answer
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.prompts.triplets import write_triplet
from tests.conftest import SHARED
from tests.kit import transcripts
from tests.kit.prompt_cases import SWITCHED, filled
from tests.kit.tries import in_turn

BOOK = PromptBook()
FIELDS = {name: filled(name, switches) for name, switches in SWITCHED}
LONGEST = 0.5
"""Seconds of computing that reading one output may take; the longest measured is 0.01."""
pytestmark = pytest.mark.shared


def read(task: str, text: str, **fields: Any) -> dict[str, Any] | None:
    """Return what is read from an output, or None if it is refused."""
    try:
        return BOOK[task].read(text, FIELDS[task] | fields).model_dump()
    except Malformed:
        return None


def share(task: str, texts: list[str], least: int) -> list[dict[str, Any] | None]:
    """Compare the number of outputs that can be read with a minimum."""
    found = [read(task, text, kind="qa", verbal=False) for text in texts]
    count = sum(output is not None for output in found)
    print(f"{task}: {count} of {len(texts)}")  # noqa: T201 - the measure
    assert count >= least
    return found


# --- all of them -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("source", [
    *(f"bamboogle {style}" for style in transcripts.STYLES),
    *(f"tree {name} {part}" for name in transcripts.TREES for part in ("questions", "answers", "reasoning")),
    *(f"agent {name} {part}" for name in transcripts.AGENTS for part in ("turns", "runs")),
    "react",
])  # fmt: skip
def test_no_output_breaks_any_reader(source: str) -> None:
    """A third of the readers reads an output, another third the next one; with ``POLYHOP_TRIES``, each reads each."""
    found = transcripts.outputs()[source]
    assert found or source == "tree hotpotqa reasoning"  # that file keeps no reasoning
    renderings = itertools.cycle(get_args(Rendering))  # both forms are tried whichever is asked for
    for number, text in enumerate(dict.fromkeys(found)):
        for name, task in in_turn([*TASKS.items()], number, of=3):
            rendering = next(renderings)
            begun = time.thread_time()
            try:
                output = BOOK[name].read(text, FIELDS[name], rendering)
            except Malformed as complaint:
                assert str(complaint)  # noqa: PT017
            else:
                assert isinstance(output, task.output)
                assert output.missing() is None
            if time.thread_time() - begun >= LONGEST:  # once may be the collector of garbage
                begun = time.thread_time()
                with contextlib.suppress(Malformed):
                    BOOK[name].read(text, FIELDS[name], rendering)
                assert time.thread_time() - begun < LONGEST, (name, text)


# --- chains of questions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "question", "answer"),
    [
        ("self_ask", r"^Follow up: (.*)$", r"^Intermediate answer: (.*)$"),
        ("self_ask_zero_shot", r"^Follow-up \d+: (.*)$", r"^Intermediate answer \d+: (.*)$"),
        ("self_ask_two_hop_zero_shot", r"^Subquestion \d+: (.*)$", r"^Answer \d+: (.*)$"),
    ],
)
def test_self_ask_is_a_chain_of_queries(style: str, question: str, answer: str) -> None:
    """All 125 of each are read."""
    results = transcripts.bamboogle(style)
    texts = [result["returned"] for result in results]
    whole = 0
    for text, chain in zip(texts, share("searchain.chain", texts, 125), strict=True):
        assert chain
        asked = [line.strip() for line in re.findall(question, text, re.M)]
        assert [node["query"] for node in chain["nodes"]] == asked
        firsts = [" ".join(line.split()) for line in re.findall(answer, text, re.M)]
        given = [node["answer"] for node in chain["nodes"] if node["answer"]]
        whole += len(given) == len(firsts) and all(map(str.startswith, given, (line.rstrip(".") for line in firsts)))
        final = find_answer(text)
        assert chain["final"] == (final and final.answer)
    print(f"answers as written: {whole} of 125")  # noqa: T201 - the measure
    assert whole >= 121
    for task in ("resp.plan", "ge.subquestion"):
        for text, found in zip(texts, share(task, texts, 125), strict=True):
            first = re.search(question, text, re.M)
            assert first
            assert found == {"sub_question": " ".join(first[1].split())}


@pytest.mark.parametrize(
    ("name", "count", "least"), [("2wiki", 344, 344), ("hotpotqa", 294, 293), ("musique", 365, 363)]
)
def test_questions_of_a_tree_are_sub_questions(name: str, count: int, least: int) -> None:
    """Those that end in no question mark are plans, and refused as sub-questions."""
    texts = transcripts.questions(name)
    assert len(texts) == count
    for task, floor in (("resp.plan", count), ("ge.subquestion", least)):
        for text, found in zip(texts, share(task, texts, floor), strict=True):
            assert found in (None, {"sub_question": " ".join(text.split())})


@pytest.mark.parametrize(("name", "least"), [("2wiki_qwen", 234), ("hotpotqa_llama", 203)])
def test_queries_that_search_agents_send_are_plans(name: str, least: int) -> None:
    asking = [turn for turn in transcripts.turns(name) if "<|end_of_query|>" in turn]
    assert len(asking) == least
    for turn, found in zip(asking, share("resp.plan", asking, least), strict=True):
        sent = re.findall(r"<\|begin_of_query\|>(.*?)<\|end_of_query\|>", turn, re.DOTALL)[-1]
        assert found == {"sub_question": clean_value(sent)}
    answering = [strip_reasoning(turn)[0] for turn in transcripts.turns(name) if "<answer>" in turn]
    assert not any("<|" in (read("resp.plan", turn) or {"sub_question": ""})["sub_question"] for turn in answering)


def test_actions_of_react_are_plans() -> None:
    searching = [step for step in transcripts.steps() if re.search(r"^Action \d+: (Search|Retrieve)\[", step, re.M)]
    others = [step for step in transcripts.steps() if step not in searching]
    for step, found in zip(searching, share("resp.plan", searching, len(searching)), strict=True):
        sent = re.findall(r"^Action \d+: \w+\[(.*)\]", step, re.M)[-1]
        assert found == {"sub_question": sent}
    assert len(searching) == 134
    assert not any(read("resp.plan", step) for step in others)  # they look up or finish


@pytest.mark.parametrize(("name", "least", "alike"), [("2wiki", 800, 0.965), ("musique", 812, 0.965)])
def test_reasoning_of_a_tree_is_a_sub_answer(name: str, least: int, alike: float) -> None:
    """Refused are those that only say "Unknown." and why: there is no answer then."""
    pairs = transcripts.answers_and_reasoning(name)
    found = share("ge.subanswer", [reasoning for _, reasoning in pairs], least)
    refused = [reasoning for (_, reasoning), output in zip(pairs, found, strict=True) if output is None]
    assert all("answer is" not in reasoning or reasoning.endswith("none.") for reasoning in refused)
    right = [normalise(output["answer"]) == normalise(theirs)
             for (theirs, _), output in zip(pairs, found, strict=True) if output]  # fmt: skip
    assert sum(right) >= alike * len(right)


# --- yes or no ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "count"), [("2wiki", 21), ("hotpotqa", 64)])
def test_yes_and_no_are_judgements(name: str, count: int) -> None:
    texts = [text for text in transcripts.short_answers(name) if text.strip(" .").lower() in ("yes", "no")]
    assert len(texts) == count
    for text, judged in zip(texts, share("resp.judge", texts, count), strict=True):
        yes = text.lower().startswith("y")
        assert judged == read("tor.enough", text) == {"sufficient": yes}
        assert read("resp.respond", text) == (None if yes else {"answered": False, "response": None})  # yes, but what?


def test_a_request_for_more_is_not_sufficiency() -> None:
    """Self-ask says "Yes" to going on: it is asked again, not taken for "Yes, it is enough"."""
    lines = [line for result in transcripts.bamboogle("self_ask_zero_shot")
             for line in result["returned"].splitlines() if line.startswith("Are follow")]  # fmt: skip
    assert len(lines) >= 120
    for line in lines:
        assert read("resp.judge", line) is None
        assert read("tor.enough", line) is None
        assert read("resp.respond", line) is None


# --- triplets ----------------------------------------------------------------------------------------------------


def test_evidence_triples_are_read_as_text_and_as_json() -> None:
    path = SHARED / "2wikimultihopqa" / "train.jsonl"
    evidences = [json.loads(line)["evidences"] for line in path.read_text(encoding="utf-8").splitlines()]
    names = ("head", "relation", "tail")
    lists = [[dict(zip(names, triple, strict=True)) for triple in triples] for triples in evidences if triples]
    assert sum(map(len, lists)) >= 1000
    forms: dict[str, Callable[[Sequence[dict[str, str]]], str]] = {
        "lines": lambda triplets: "\n".join(map(write_triplet, triplets)),
        "numbered": lambda triplets: "\n".join(
            f"{n}. {write_triplet(triplet)}" for n, triplet in enumerate(triplets, 1)
        ),
        "side by side": lambda triplets: f"Triplets: {', '.join(map(write_triplet, triplets))}.",
        "objects": lambda triplets: json.dumps({"triplets": triplets}),
        "lists": lambda triplets: json.dumps({"triplets": [list(triplet.values()) for triplet in triplets]}),
    }
    for form, write in forms.items():
        found = share("ge.triplets", [write(triplets) for triplets in lists], len(lists) - 1)
        right = [output == {"triplets": tuple(triplets)} for output, triplets in zip(found, lists, strict=True)]
        print(f"{form}: {sum(right)} of {len(right)} to the letter")  # noqa: T201 - the measure
        assert sum(right) >= len(right) - 2  # one has two spaces in a row, one a parenthesis that never closes


def test_no_triplet_is_found_where_none_was_written() -> None:
    """Whole runs quote encyclopedias, whose parentheses may hold two semicolons: one of them does."""
    wrong = {source: sum(bool((read("ge.triplets", text) or {}).get("triplets")) for text in texts)
             for source, texts in transcripts.outputs().items()}  # fmt: skip
    assert {source: count for source, count in wrong.items() if count} == {"agent hotpotqa_llama runs": 1}


@pytest.mark.slow
def test_nothing_is_taken_for_a_review() -> None:
    texts = itertools.chain.from_iterable(transcripts.outputs().values())
    assert not any(read(task, text) for text in set(texts) for task in ("tor.review", "tor.merged", "tor.complete"))
