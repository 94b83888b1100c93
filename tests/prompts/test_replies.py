"""Replies of any length and in the other form than was asked for: read, or refused with the reason."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, get_args

import pytest

from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import MAX_REPLY_CHARS, Malformed, reply_parts
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS
from tests.kit.tries import in_turn

BOOK = PromptBook()
FIELDS: dict[str, Any] = {"question": "Who?", "passages": [], "evidence": [], "thoughts": True, "mode": "evidence"}


def read(task: str, reply: str, rendering: Rendering = "text") -> dict[str, Any]:
    return BOOK[task].read(reply, FIELDS, rendering).model_dump()


# --- the json rendering ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "read_as"),
    [
        ({"relevant": "true", "supported": "false"}, {"relevant": True, "supported": False}),
        ({"relevant": "Yes", "supported": "No"}, {"relevant": True, "supported": False}),
        ({"relevant": 1, "supported": 0}, {"relevant": True, "supported": False}),
        ({"Relevant": True, " SUPPORTED ": False}, {"relevant": True, "supported": False}),
        ({"relevant": True, "supported": False, "query": "None"}, {"query": None}),
        ({"relevant": True, "supported": False, "query": "n/a", "answer": "null"}, {"query": None, "answer": None}),
        ({"relevant": True, "supported": False, "query": "", "thought": " - "}, {"query": None, "thought": None}),
        ({"relevant": True, "supported": True, "answer": 1979}, {"answer": "1979"}),
        ({"relevant": True, "supported": True, "answer": 3.5}, {"answer": "3.5"}),
        ({"relevant": True, "supported": True, "answer": False}, {"answer": "no"}),
        ({"relevant": True, "supported": True, "answer": " Rome\n"}, {"answer": "Rome"}),
        ({"relevant": True, "supported": True, "answer": "Rome", "confidence": 0.9}, {"answer": "Rome"}),
    ],
)
def test_json_values_are_converted(given: dict[str, Any], read_as: dict[str, Any]) -> None:
    for text in (json.dumps(given), f"Sure:\n```json\n{json.dumps(given, indent=2)}\n```\nAnything else?"):
        assert read("tor.review", text, "json").items() >= read_as.items()


@pytest.mark.parametrize("task", ["tor.review", "cor.review", "tor.merged"])
def test_support_without_an_answer_is_refused_in_every_form(task: str) -> None:
    """The output of the first reply is kept beside the complaint: it counts if the second reply is no better."""
    value = {"relevant": True, "supported": True, "answer": "None"}
    for refused in (
        lambda: BOOK[task].check(value),
        lambda: read(task, json.dumps(value), "json"),
        lambda: read(task, "[RELEVANT] [SUPPORTED]"),
    ):
        with pytest.raises(Malformed, match="Step 3 lacks the answer") as raised:
            refused()
        kept = raised.value.incomplete
        assert (kept.relevant, kept.supported, kept.answer) == (True, True, None)
    for more in ({"relevant": False}, {"supported": False}, {"answer": "Rome"}):
        assert BOOK[task].check(value | more)


@pytest.mark.parametrize("information", ["", "None", " n/a ", "…"])
def test_json_information_that_says_nothing_is_empty(information: str) -> None:
    """It is no fault: the review's own query is searched instead."""
    assert read("tor.complete", json.dumps({"information": information}), "json")["information"] == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the reply must be one JSON object"),
        ("Rome is the capital of Italy.", "the reply must be one JSON object"),
        ('{"relevant": true, "suppor', "the reply must be one JSON object"),
        ('{"relevant": true}', r"supported: Field required"),
        ('{"relevant": "perhaps", "supported": false}', "relevant: Input should be a valid boolean"),
        ('{"relevant": null, "supported": false}', "relevant: Input should be a valid boolean"),
        ('{"relevant": true, "supported": true, "answer": {"name": "Rome"}}', "answer: Input should be a valid string"),
        ('{"relevant": true, "supported": true, "answer": "\\ud800"}', "answer: Input should be a valid string"),
        ('{"relevant": ' + "9" * 5000 + "}", "the reply must be one JSON object"),
        ('{"a":' * 20_000, "the reply must be one JSON object"),
        ("{" * 1_000_000, "the reply must be one JSON object"),
        ('{"relevant": ' + "[" * 100_000, "the reply must be one JSON object"),
    ],
)
def test_json_that_does_not_fit_says_why(text: str, complaint: str) -> None:
    with pytest.raises(Malformed, match=complaint):
        read("tor.review", text, "json")


def test_the_complaint_is_about_the_form_that_was_asked_for() -> None:
    with pytest.raises(Malformed, match="Step 1 needs"):
        read("tor.review", "Hello.", "text")
    with pytest.raises(Malformed, match="must be one JSON object"):
        read("tor.review", "Hello.", "json")


# --- length ------------------------------------------------------------------------------------------------------


def test_the_middle_of_an_endless_reply_is_left_out() -> None:
    for part in reply_parts("x" * 5 + "y" * 1_000_000 + "z" * 5, {}):
        assert (part[:5], part[-5:]) == ("xxxxx", "zzzzz")
        assert len(part) == MAX_REPLY_CHARS + 1
    assert read("answer.cot", "Thinking. " * 100_000 + "The answer is Rome.")["answer"] == "Rome"
    assert read("answer.cot", "The answer is Rome." + "\nThinking" * 100_000)["answer"] == "Rome"


PIECES = [
    *("[", "]", "[ANSWER] ", "[ANSWER", "[ANSWER] [QUERY] ", "[RELEVANT] or ", "[ANSWER]\n\n", "]:", "[ ", "[a "),
    *("The answer is ", "The answer is none. ", "answer (", "answer ((", "Answer:\n"),
    *("**Answer**\n", "answer is:\n**\n"),
    *("Step 1\n", "Thought:\n", "Judgment: the ", "Question:", "A. ", "No. ", "not ", "relevant ", "the ", "a:"),
    *("- ", ": "),
    *("<answer>", "</answer>", r"\boxed{", r"\boxed{\text{", "Finish[", "<|im_end|>", "```\n", "*", "* ", '"', "'\""),
    *("{", '{"a":', "{}", '{"answer": ""} ', "\n", " ", "\t", "\u200b", "é", "。"),
]


REPEATED = [
    *("Search[", "Action 1: ", "Action 1: Search\nAction Input", "[Search(", "(", "[", '[Search("a" '),
    *("Value: ", "sure "),
    *("1. ", "9 ", "1. 9 ", "1.\t", "* ", "1. 9/10 ", "(a; b; ", "\n1. 5", "Better: "),
]
SLOW_FILLINGS = ("\n", "*", " *", ": ", "-", "_", "A. ")


@pytest.mark.slow
@pytest.mark.parametrize("piece", REPEATED)
def test_a_repeated_piece_is_read_or_refused_quickly(piece: str) -> None:
    start = time.thread_time()
    for task in TASKS:
        with contextlib.suppress(Malformed):
            BOOK[task].read(piece * (2 * MAX_REPLY_CHARS // len(piece)), FIELDS)
    assert time.thread_time() - start < 10


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_any_piece_repeated_without_end_is_read_or_refused(piece: str) -> None:
    """Each would take long if a reader were more than linear in the length of the reply. Half of the readers read a
    piece, the other half the next one; with ``POLYHOP_TRIES``, each reads each."""
    for task in in_turn([*TASKS], PIECES.index(piece), of=2):
        for text in (piece * 1_000_000)[:1_000_000], piece * 500:
            read_or_refused(task, text)


@pytest.mark.parametrize(
    "filling", [" ", "x ", *(pytest.param(filling, marks=pytest.mark.slow) for filling in SLOW_FILLINGS)]
)
@pytest.mark.parametrize(
    "before", ["", "Thought", "Answer", "Step 1", "yes", "not", "Judgment:", "<answer>", "The answer is"]
)
def test_a_gap_without_end_is_read_or_refused(before: str, filling: str) -> None:
    for task in ("tor.review", "tor.complete", "answer.cot", "answer.direct"):
        for after in ("", "Question: Who?", "answer", "is"):
            read_or_refused(task, f"x\n{before}{filling * 15_000}{after}")


def read_or_refused(task: str, text: str) -> None:
    for rendering in get_args(Rendering):
        with contextlib.suppress(Malformed):
            assert BOOK[task].read(text, FIELDS, rendering)
