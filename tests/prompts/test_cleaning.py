"""Text around the form of a reply is removed; text that may be the reply itself is kept."""

from __future__ import annotations

import time

import pytest

from polyhop.prompts.book import PromptBook
from polyhop.prompts.cleaning import _without_preamble, clean_replies
from polyhop.prompts.parsing import Malformed
from polyhop.types import Passage

BOOK = PromptBook()
FIELDS = {"question": "Who made it?", "passages": [], "thoughts": False}
REVIEW = "Step 1\nJudgment: [RELEVANT]\nStep 2\nJudgment: [SUPPORTED]\nStep 3\nOutput: [ANSWER] Rome"


@pytest.mark.parametrize(
    "after",
    [
        "Explanation: had it been another, it would be [UNSUPPORTED] or [IRRELEVANT].",
        "Note: [UNSUPPORTED] would be right for another question.",
        "I hope this helps! Let me know if [IRRELEVANT] fits better.",
        "**Explanation:** the path is not [IRRELEVANT].",
    ],
)
def test_an_afterthought_flips_no_judgment(after: str) -> None:
    review = BOOK["tor.review"].read(f"{REVIEW}\n\n{after}", FIELDS)
    assert review.model_dump(include={"relevant", "supported", "answer"}) == {
        "relevant": True, "supported": True, "answer": "Rome",
    }  # fmt: skip


def test_a_form_after_an_explanation_counts() -> None:
    reply = f"{REVIEW}\n\nExplanation: I was wrong.\n{REVIEW.replace('SUPPORTED', 'UNSUPPORTED')}"
    assert not BOOK["tor.review"].read(reply, FIELDS).supported  # type: ignore[attr-defined]


@pytest.mark.parametrize(("notes", "is_cut"), [(0, True), (7, True), (8, False)])
def test_an_afterthought_is_looked_for_at_eight_places(notes: int, is_cut: bool) -> None:
    """A note that the form follows is none. The number of places is bounded, so that cleaning takes linear time."""
    form = "Answer: Rome" + "\n\nNote: see below.\nAnswer: Rome" * notes
    (cleaned, *_) = clean_replies(f"{form}\n\nNote: it might be Oslo.", "", "Answer: <answer>", {})
    assert cleaned == (form if is_cut else f"{form}\n\nNote: it might be Oslo.")


def test_an_afterthought_that_a_passage_may_hold_is_not_cut() -> None:
    reply = f"It says: {REVIEW}\n\nExplanation: none. So it is [IRRELEVANT]."
    quoted = Passage("p", "T", "Explanation: none.")
    with pytest.raises(Malformed):
        BOOK["tor.review"].read(reply, {**FIELDS, "passages": [quoted]})


@pytest.mark.parametrize("reply", ["Output: [ANSWER] <answer>", "[RELEVANT]\n[SUPPORTED]\n[ANSWER] <answer>"])
def test_an_unfilled_slot_is_no_answer(reply: str) -> None:
    with pytest.raises(Malformed):
        BOOK["tor.review"].read(reply, FIELDS)


@pytest.mark.parametrize(
    ("reply", "is_read"), [("Answer: Wolfg", False), ("Answer: Rome\n\nThe pas", True), ("Answer: Rome.", True)]
)
def test_a_value_that_the_limit_cut_is_no_answer(reply: str, is_read: bool) -> None:
    if is_read:
        assert BOOK["answer.read"].read(reply, FIELDS, is_cut=True).answer == "Rome"  # type: ignore[attr-defined]
    else:
        with pytest.raises(Malformed, match="cut off"):
            BOOK["answer.read"].read(reply, FIELDS, is_cut=True)


@pytest.mark.parametrize(
    "reply",
    [
        "<" * 9_000 + "x" + ">" * 9_000, "<" * 20_000, "Output: [ANSWER] <answer>\n" * 800, "```\n" * 5_000,
        "\n\nI hope this" * 1_500 + "\nThe answer is Rome.", "1. " * 6_000, "**a" * 6_000, "\n \n" * 6_000,
    ],
)  # fmt: skip
def test_every_reply_is_cleaned_in_little_time(reply: str) -> None:
    form = "Reply in exactly this form:\nOutput: [ANSWER] <answer>\n1. <query>"
    start = time.process_time()
    assert list(clean_replies(reply, "Read the passages.", form, {}))
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Here is my review of the path:\n\n[IRRELEVANT]", "[IRRELEVANT]"),
        ("Sure.\n\n[IRRELEVANT]", "[IRRELEVANT]"),
        ("Final answer:\n\nOslo", "Final answer:\n\nOslo"),  # a label of the form
    ],
)
def test_a_line_that_introduces_a_reply_is_removed_but_no_label(text: str, cleaned: str) -> None:
    assert _without_preamble(text) == cleaned
