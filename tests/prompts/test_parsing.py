"""The readers of reviews and supplements on replies as models really write them, one row a way of writing."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed, reply_parts
from polyhop.prompts.prompt import Rendering

BOOK = PromptBook()
FIELDS: dict[str, Any] = {"question": "Who?", "passages": [], "evidence": [], "thoughts": True, "mode": "evidence"}


def read(task: str, reply: str, rendering: Rendering = "text") -> dict[str, Any]:
    return BOOK[task].read(reply, FIELDS, rendering).model_dump()


# --- reviews -----------------------------------------------------------------------------------------------------

YES, NO, REJECTED = (True, True), (True, False), (False, False)
"""Relevant and supported; relevant alone; neither."""

STEPS = "Step 1\nJudgment: {}\nStep 2\nJudgment: {}\nStep 3\nOutput: {}"
STEP_3 = "[ANSWER] and the answer, or [QUERY] and the query"
FORM = STEPS.format("[RELEVANT] or [IRRELEVANT]", "[SUPPORTED] or [UNSUPPORTED]", STEP_3)


@pytest.mark.parametrize(
    ("reply", "judged", "output"),
    [
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER] Lars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[UNSUPPORTED]", "[QUERY] Ainola architect"), NO, "Ainola architect"),
        (STEPS.format("[IRRELEVANT]", "[UNSUPPORTED]", "[QUERY] Ainola"), REJECTED, "Ainola"),
        (STEPS.format("[Relevant]", "[unsupported]", "[Query] Ainola"), NO, "Ainola"),
        (STEPS.format("**[RELEVANT]**", "**[SUPPORTED]**", "**[ANSWER]** Lars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("[**RELEVANT**]", "[ SUPPORTED ]", "[ANSWER] **Lars Sonck**"), YES, "Lars Sonck"),
        (STEPS.format("Relevant", "Unsupported", "[QUERY] Ainola"), NO, "Ainola"),
        (STEPS.format("**Relevant**.", "*Supported*", "[ANSWER] Lars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("RELEVANT, it names him.", "UNSUPPORTED (no town)", "[QUERY] Ainola"), NO, "Ainola"),
        (STEPS.format("Not relevant", "Not supported", "[QUERY] Ainola"), REJECTED, "Ainola"),
        (STEPS.format("The passages are relevant.", "It is not supported.", "[QUERY] Ainola"), NO, "Ainola"),
        (STEPS.format("[NOT RELEVANT]", "[NOT SUPPORTED]", "[QUERY] Ainola"), REJECTED, "Ainola"),
        (STEPS.format("[RELEVANT: it names him]", "[SUPPORTED]", "[ANSWER: Lars Sonck]"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[UNSUPPORTED]", "[QUERY: who designed Ainola?]"), NO, "who designed Ainola?"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER] [Lars Sonck]"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER]: Lars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER] - Lars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER] -40 °C"), YES, "-40 °C"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER]\nLars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER]\n\n> Lars Sonck\n\nHope it helps!"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", '[ANSWER] "Lars Sonck"'), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER] Lars Sonck\nLet me know if …"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER] Лев Толстой"), YES, "Лев Толстой"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "Lars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "Answer: Lars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[SUPPORTED]", "\n**Answer:** Lars Sonck"), YES, "Lars Sonck"),
        (STEPS.format("[RELEVANT]", "[UNSUPPORTED]", "Query: Ainola"), NO, "Ainola"),
        (STEPS.format("[RELEVANT]", "[UNSUPPORTED]", "Ainola architect"), NO, "Ainola architect"),
        (STEPS.format("[RELEVANT]", "[UNSUPPORTED]", "[QUERY] None"), NO, None),
        (STEPS.format("[RELEVANT]", "[UNSUPPORTED]", "[ANSWER] N/A"), NO, None),
        (STEPS.format("[RELEVANT] or [IRRELEVANT]: [RELEVANT]", "[UNSUPPORTED]", "[QUERY] Ainola"), NO, "Ainola"),
        (STEPS.format("[RELEVANT] or [IRRELEVANT]\n[RELEVANT]", "[SUPPORTED]", "[ANSWER] him"), YES, "him"),
        (
            f"{FORM}\n{STEPS.format('[RELEVANT]', '[SUPPORTED]', '[ANSWER] Lars Sonck')}",
            YES,
            "Lars Sonck",
        ),
        ("It is [IRRELEVANT]. No, wait: [RELEVANT]. [UNSUPPORTED] [QUERY] Ainola", NO, "Ainola"),
        ("[RELEVANT] [SUPPORTED] [ANSWER] Paris [ANSWER] Rome", YES, "Rome"),
        ("[RELEVANT]\n[SUPPORTED]\n[ANSWER] Rome", YES, "Rome"),
        ("[RELEVANT] | [UNSUPPORTED] | [QUERY] Ainola", NO, "Ainola"),
        ("Sure!\n```\n" + STEPS.format("[RELEVANT]", "[SUPPORTED]", "[ANSWER] Rome") + "\n```", YES, "Rome"),
        ("[RELEVANT] [ANSWER] Rome", YES, "Rome"),
        ("[RELEVANT] [QUERY] Ainola", NO, "Ainola"),
        ("Step 1: Irrelevant", REJECTED, None),
        ("- Judgment: [IRRELEVANT]", REJECTED, None),
        ("Step 1: Judgment: RELEVANT\nStep 2: Judgment: UNSUPPORTED\nStep 3: Query: Ainola", NO, "Ainola"),
        ("[RELEVANT] [SUPPORTED] [ANSWER] Rome<|im_end|>\n<|im_start|>user\n[IRRELEVANT]", YES, "Rome"),
        ("[RELEVANT] [SUPPORTED] [ANSWER] Rome\n\nQuestion: Where?\n\n[IRRELEVANT] [UNSUPPORTED]", YES, "Rome"),
        ("Question: Where?\n[RELEVANT] [SUPPORTED] [ANSWER] Rome", YES, "Rome"),
        ("[RELEVANT] 关于这个问题 [SUPPORTED] 足够 [ANSWER] 东京", YES, "东京"),
        ('{"relevant": true, "supported": true, "answer": "Rome", "query": null}', YES, "Rome"),
    ],
)  # fmt: skip
def test_reviews_are_read(reply: str, judged: tuple[bool, bool], output: str | None) -> None:
    for task in ("tor.review", "cor.review"):
        for rendering in get_args(Rendering):
            review = read(task, reply, rendering)
            assert (review["relevant"], review["supported"]) == judged
            assert review["answer" if review["supported"] else "query"] == output
            assert review["query" if review["supported"] else "answer"] is None


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ("", "Step 1"),
        ("I cannot judge this.", "Step 1"),
        ("[]", "Step 1"),
        ("[SUPPORTED] [ANSWER] Rome", "Step 1"),
        ("Thought: Relevant.", "Step 1"),
        ("Whether the passages are relevant is hard to say.", "Step 1"),
        ("[RELEVANT] or [IRRELEVANT]", "Step 1"),
        ("[RELEVANT] / [IRRELEVANT]\n[SUPPORTED] | [UNSUPPORTED]", "Step 1"),
        ("[RELEVANT]", "Step 2"),
        ("[RELEVANT] [SUPPORTED] or [UNSUPPORTED]", "Step 2"),
        ("[RELEVANT] [SUPPORTED]", "Step 3"),
        ("[RELEVANT] [SUPPORTED] [ANSWER]", "Step 3"),
        ("[RELEVANT] [SUPPORTED] [ANSWER] None", "Step 3"),
        ("[RELEVANT] [SUPPORTED] [ANSWER] Rome [ANSWER] None", "Step 3"),
        ("[RELEVANT] [SUPPORTED] [QUERY] Ainola", "Step 3"),
        ("[RELEVANT] [SUPPORTED] [ANSWER] …", "Step 3"),
        (FORM, "Step 1"),
        (f"[RELEVANT] [SUPPORTED] {STEP_3}", "Step 3"),
        ("Sunt relevante.", "Step 1"),
        ("[" * 1_000_000, "Step 1"),
        ("[RELEVANT" * 100_000, "Step 1"),
    ],
)
def test_reviews_that_cannot_be_read_say_why(reply: str, complaint: str) -> None:
    with pytest.raises(Malformed, match=complaint):
        read("tor.review", reply)


@pytest.mark.parametrize(
    "third",
    [
        "Step 3\nAnalysis: He designed Ainola.\nOutput: [ANSWER] Lars Sonck",
        "Step 3\n**Analysis:** He designed Ainola.\n**Output:** [ANSWER] Lars Sonck",
        "Step 3: Analysis: He designed Ainola. [ANSWER] Lars Sonck",
        "Step 3: Analysis: He designed Ainola. Output: [ANSWER] Lars Sonck",
        "Step 3\n- Analysis:\nHe designed\nAinola.\n- Output: Lars Sonck",
        "Step 3\nOutput: [ANSWER] Lars Sonck\nAnalysis: He designed Ainola.\n\nI hope this helps!",
        "Analysis: no.\nStep 3\nAnalysis: He designed Ainola.\nAnswer: Lars Sonck",
    ],
)
def test_the_analysis_ends_where_the_answer_begins(third: str) -> None:
    for task in ("tor.review", "cor.review", "tor.merged"):
        review = read(task, f"Step 1\nJudgment: [RELEVANT]\nStep 2\nJudgment: [SUPPORTED]\n{third}")
        assert (review["analysis"], review["answer"]) == ("He designed Ainola.", "Lars Sonck")


@pytest.mark.parametrize("analysis", ["", "N/A", "none", "Not mentioned in the passages."])
def test_an_analysis_that_says_nothing_is_none(analysis: str) -> None:
    assert read("tor.review", f"[RELEVANT] [SUPPORTED]\nAnalysis: {analysis}\n[ANSWER] Rome")["analysis"] is None


def test_a_query_has_no_analysis() -> None:
    assert read("tor.review", "[RELEVANT] [UNSUPPORTED]\nAnalysis: He is Finnish.\n[QUERY] q")["analysis"] is None


def test_thoughts_are_kept_line_by_line() -> None:
    reply = "Step 1\n**Thought:** A.\nJudgment: [RELEVANT]\nThought 2: B.\n[UNSUPPORTED]\nthought: \nStep 3\n[QUERY] q"
    assert read("tor.review", reply)["thought"] == "A.\nB."
    assert read("tor.review", "[IRRELEVANT]")["thought"] is None


@pytest.mark.parametrize(
    ("reply", "information"),
    [
        ("[RELEVANT] [UNSUPPORTED] [INFO] A fact.", "A fact."),
        ("[RELEVANT] [UNSUPPORTED]\nOutput: [ANSWER] and the answer, or [INFO] and the missing fact", None),
        ("[RELEVANT] [SUPPORTED] [ANSWER] Rome", None),
    ],
)
def test_merged_reviews_are_read(reply: str, information: str | None) -> None:
    assert read("tor.merged", reply)["information"] == information


@pytest.mark.parametrize(
    ("reply", "sufficient"),
    [
        ("Judgment: [SUFFICIENT]", True),
        ("[INSUFFICIENT]", False),
        ("Judgment: Sufficient.", True),
        ("[NOT SUFFICIENT]", False),
        ("[SUFFICIENT] or [INSUFFICIENT]? [SUFFICIENT]", True),
        ('{"sufficient": "true"}', True),
    ],
)
def test_sufficiency_is_read(reply: str, sufficient: bool) -> None:
    assert read("tor.enough", reply) == {"sufficient": sufficient}


def test_sufficiency_that_only_repeats_the_form_is_malformed() -> None:
    with pytest.raises(Malformed, match="SUFFICIENT"):
        read("tor.enough", "Judgment: [SUFFICIENT] or [INSUFFICIENT]")


# --- supplements -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "thought", "information", "answer"),
    [
        ("Thought: T.\nInformation: [INFO] A fact.\nAnswer: [ANSWER] Rome", "T.", "A fact.", "Rome"),
        ("[INFO] One.\nTwo.\n\nThree.\n\n[ANSWER]\nRome\nBye!", None, "One. Two. Three.", "Rome"),
        ("**[Info]:** A fact. [Answer]: Rome", None, "A fact.", "Rome"),
        ("[INFORMATION] A fact.", None, "A fact.", None),
        ("[INFO: A fact.]", None, "A fact.", None),
        ("Information: A fact.\nAnswer: Rome", None, "A fact.", "Rome"),
        ("[INFO] A fact.\nAnswer: None", None, "A fact.", None),
        ("- Thought: T.\n- Information: [INFO] A fact.\n- Answer:[ANSWER] Rome", "T.", "A fact.", "Rome"),
        ('```json\n{"thought": "T.", "information": "A fact.", "answer": "N/A"}\n```', "T.", "A fact.", None),
    ],
)
def test_supplements_are_read(reply: str, thought: str | None, information: str, answer: str | None) -> None:
    for rendering in get_args(Rendering):
        expected = {"thought": thought, "information": information, "answer": answer}
        assert read("tor.complete", reply, rendering) == expected


@pytest.mark.parametrize(
    "reply", ["", "The fact is missing.", "[INFO]", "[INFO] None.", "Information:\nAnswer: [ANSWER] Rome"]
)
def test_supplements_without_information_are_malformed(reply: str) -> None:
    with pytest.raises(Malformed, match=r"\[INFO\]"):
        read("tor.complete", reply)


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("[ANSWER] Oslo", []),
        ("[ANSWER] Oslo\nQuestion: Who?\n[ANSWER] Ann\nQuestion: When?\n[ANSWER] 1900", ["[ANSWER] Oslo"]),
        ("Question: Where?\n[ANSWER] Oslo\nQuestion: Who?", ["Question: Where?\n[ANSWER] Oslo"]),
        ("[ANSWER] Oslo<|im_end|>[ANSWER] Rome<|im_end|>", ["[ANSWER] Oslo"]),
    ],
)
def test_a_reply_is_read_up_to_the_next_turn_and_then_whole(reply: str, parts: list[str]) -> None:
    assert list(reply_parts(reply, {})) == [*parts, reply]
