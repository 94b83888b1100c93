"""The replies of IRCoT's, FLARE's and DSP's tasks, as models write them: what is read, and what is refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.prompts.tasks.iterative import Hop, Sentence

BOOK = PromptBook()
SO_FAR = ["Alien is by Ridley Scott."]


def read(task: str, text: str, **fields: Any) -> dict[str, Any]:
    return BOOK[task].read(text, fields).model_dump()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Scott was born in South Shields.", "Scott was born in South Shields."),
        ("Scott was born there. So the answer is no.", "Scott was born there."),
        ("Alien is by Ridley Scott. He was born in South Shields.", "He was born in South Shields."),
        ("So far: Alien is by Ridley Scott. He is English.", "He is English."),
        ("**Next sentence:** He is English.", "He is English."),
        ("Here is the next sentence:\nHe is English.", "He is English."),
        ("Alien is by Ridley Scott.\n\nHe is J. R. Scott of D.C. and", "He is J. R. Scott of D.C. and"),
        ("So the answer is South Shields", "So the answer is South Shields"),
        ("South Shields", "South Shields"),
    ],
)
def test_the_next_sentence_is_read(text: str, sentence: str) -> None:
    assert read("cot.sentence", text, reasoning=SO_FAR)["sentence"] == sentence


@pytest.mark.parametrize(
    "text", ["Alien is by Ridley Scott.", "...", "[RELEVANT] It is so.", "Sure:", "{}", "alien is by ridley scott"]
)
def test_nothing_new_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="not been written yet"):
        read("cot.sentence", text, reasoning=SO_FAR)


@pytest.mark.parametrize(
    ("sentence", "answer"),
    [
        ("So the answer is South Shields.", "South Shields"),
        ("The final answer is: no", "no"),
        ("Answer: South Shields", "South Shields"),
        ("Scott was born in South Shields.", None),
        ("So the answer is …", None),
    ],
)
def test_the_answer_a_sentence_names(sentence: str, answer: str | None) -> None:
    assert Sentence(sentence=sentence).answer == answer


@pytest.mark.parametrize(
    ("text", "summary", "query"),
    [
        ("Summary: It is by Ann.\nQuery: Ann birthplace", "It is by Ann.", "Ann birthplace"),
        (
            "**Summary:** It is by Ann.\nShe is from Rome.\n\n**Search query:** x y",
            "It is by Ann. She is from Rome.",
            "x y",
        ),
        ("Summary: none\nQuery: Ann", None, "Ann"),
        ("Summary: It is by Ann.\nNext query 2: Ann", "It is by Ann.", "Ann"),
        ("Summary: It is by Ann.\nQuery: N/A", "It is by Ann.", None),
        ("Query: Ann\nQuery: Bob", None, "Ann"),
        ('Query: "Ann birthplace"', None, "Ann birthplace"),
        ("Ann birthplace", None, "Ann birthplace"),
        ("N/A", None, None),
    ],
)
def test_a_hop_is_read(text: str, summary: str | None, query: str | None) -> None:
    assert read("dsp.hop", text, passages=["…"]) == {"summary": summary, "query": query}


def test_a_hop_without_passages_needs_a_query_and_has_no_summary() -> None:
    assert read("dsp.hop", "Summary: Made up.\nQuery: Ann", passages=[]) == {"summary": None, "query": "Ann"}
    with pytest.raises(Malformed, match="Query: <query>"):
        read("dsp.hop", "Query: N/A", passages=[])


@pytest.mark.parametrize("text", ["Summary: It is by Ann.", "Let me think.\nIt is by Ann.", "word " * 30])
def test_a_hop_without_a_query_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="Query: <query>"):
        read("dsp.hop", text, passages=["…"])


@pytest.mark.parametrize("text", ["Subquestion: Who made it?", "Who made it?", "Question to search: \nWho made it?"])
def test_a_question_for_a_phrase_is_read(text: str) -> None:
    assert read("flare.question", text) == {"sub_question": "Who made it?"}


# --- there and back ----------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["Ann Lee", "Rome", "12 May 1903", "who made it", "the film Alien"])
AGAIN = settings(max_examples=200, deadline=None, derandomize=True, database=None)


@AGAIN
@given(st.none() | WORDS, st.none() | WORDS)
def test_a_hop_is_read_back_as_written(summary: str | None, query: str | None) -> None:
    output = Hop(summary=summary, query=query)
    for rendering in get_args(Rendering):
        fields = {"passages": ["…"]}
        written = TASKS["dsp.hop"].write_text(output, fields) if rendering == "text" else output.model_dump_json()
        assert BOOK["dsp.hop"].read(written, fields, rendering) == output


@AGAIN
@given(st.text(max_size=80), st.lists(st.text(max_size=20), max_size=3))
def test_whatever_is_read_is_one_new_sentence_of_the_reply(text: str, so_far: list[str]) -> None:
    try:
        sentence = TASKS["cot.sentence"].read_text(text, {"reasoning": so_far})["sentence"]
    except Malformed:
        return
    assert sentence in text
    assert sentence not in so_far
    assert len(sentence.splitlines()) == 1
