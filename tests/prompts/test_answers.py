"""The readers of answers on replies as models really write them, one row a way of writing."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from polyhop import Pipeline, ScriptedLM
from polyhop.prompts.answers import find_answer
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering

BOOK = PromptBook()
FIELDS: dict[str, Any] = {"question": "Who?", "passages": [], "evidence": [], "thoughts": True, "mode": "evidence"}


def read(task: str, reply: str, rendering: Rendering = "text") -> dict[str, Any]:
    return BOOK[task].read(reply, FIELDS, rendering).model_dump()


REASONED = [
    ("Alien is by Scott. The answer is Ridley Scott.", "Alien is by Scott.", "Ridley Scott"),
    ("Alien is by Scott. So the final answer is: **Ridley Scott**.", "Alien is by Scott.", "Ridley Scott"),
    ("Alien is by Scott. So, the answer is Ridley Scott", "Alien is by Scott.", "Ridley Scott"),
    ("A.\n\n**Therefore, the answer is Ridley Scott.**", "A.", "Ridley Scott"),
    ("A. so the final answer (the name of the man) is: Ridley Scott.", "A.", "Ridley Scott"),
    ("A. So the final answer (the name(s) of the director(s)) is: the Russos.", "A.", "the Russos"),
    ("A. The answer to the question is Ridley Scott.", "A.", "Ridley Scott"),
    ("A. The answers are Joel and Ethan Coen.", "A.", "Joel and Ethan Coen"),
    ("A. The answer would be 1979.", "A.", "1979"),
    ("The answer is St. Louis.", None, "St. Louis"),
    ("The answer is St. Louis. It lies in Missouri.", None, "St. Louis"),
    ("The answer is Washington, D.C.", None, "Washington, D.C."),
    ("The answer is Fernando Poe Jr.", None, "Fernando Poe Jr."),
    ("The answer is Vitamin C.", None, "Vitamin C"),
    ("The answer is 25 °F.", None, "25 °F"),
    ("The answer is Arisan! Berondong Tua.", None, "Arisan! Berondong Tua"),
    ('The answer is "Hey Jude".', None, "Hey Jude"),
    ('The answer is "Hey Jude."', None, "Hey Jude"),
    ("The answer is “Hey Jude”.", None, "Hey Jude"),
    ('The answer is "Hey Jude" or "Yesterday".', None, '"Hey Jude" or "Yesterday"'),
    ("The answer is Na.", None, "Na"),
    ("The answer is yes.", None, "yes"),
    ("The answer is No, they are not.", None, "No"),
    ("The answer is no. Scott is English.", None, "no"),
    ("The answer is No. The films are older.", None, "No"),
    ("The answer is No, No, Nanette.", None, "No, No, Nanette"),
    ("The answer is No Way Out.", None, "No Way Out"),
    ("The answer is 東京。", None, "東京"),
    ("The answer is Ève Curie.", None, "Ève Curie"),
    ("The answer is:\n\n**Ridley Scott**", None, "Ridley Scott"),
    ("The answer is\nRidley Scott.\nHope this helps!", None, "Ridley Scott"),
    ("A.\nAnswer: Ridley Scott", "A.", "Ridley Scott"),
    ("A.\n\n**Final Answer:** Ridley Scott", "A.", "Ridley Scott"),
    ("A.\n\n### Final answer\nRidley Scott", "A.", "Ridley Scott"),
    ("A.\n[ANSWER]: Ridley Scott", "A.", "Ridley Scott"),
    ("A.\n[ANSWER] Ridley Scott", "A.", "Ridley Scott"),
    ("A. The answer is X. Wait.\nThe answer is Y.", "A. The answer is X. Wait.", "Y"),
    ("A. The answer is Rome. Note that the answer is only a guess.", "A.", "Rome"),
    ("A. The answer is Y.\nIf the answer is wrong, tell me.", "A.", "Y"),
    ("Thailand borders Laos, so the answer is: Thailand.", "Thailand borders Laos,", "Thailand"),
    ("I would say the answer is Thailand.", "I would say", "Thailand"),
    ("A.\n<answer> Ridley Scott </answer>", "A.", "Ridley Scott"),
    ("<answer>Ridley Scott", None, "Ridley Scott"),
    (r"A. The answer is \boxed{Ridley Scott}.", "A. The answer is", "Ridley Scott"),
    (r"\boxed{\text{Ridley Scott}}", None, "Ridley Scott"),
    ("A. The answer is Rome.\n\nQuestion: And?\nB. The answer is Oslo.", "A.", "Rome"),
    ("A. The answer is Rome.</s> The answer is Oslo.", "A.", "Rome"),
    ("Let me see.\nQuestion: Who?\nA. The answer is Rome.", "Let me see.\nQuestion: Who?\nA.", "Rome"),
    ("```\nA. The answer is Rome.\n```", "A.", "Rome"),
    ("Rome", None, "Rome"),
    ("Rome.", None, "Rome"),
    ('{"rationale": "A.", "answer": "Rome"}', "A.", "Rome"),
    ('{"Answer": 1979}', None, "1979"),
    ('{"answer": true}', None, "yes"),
    ('{"rationale": "n/a", "answer": " Rome "}', None, "Rome"),
    ('{"rationale": "One\nTwo", "answer": "Rome"}', "One\nTwo", "Rome"),
    ('{"output": {"answer": "Rome"}}', None, "Rome"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "rationale", "answer"), REASONED)
def test_reasoned_answers_are_read(reply: str, rationale: str | None, answer: str) -> None:
    for task in ("answer.cot", "answer.read_cot", "tor.fuse"):
        for rendering in get_args(Rendering):
            assert read(task, reply, rendering) == {"rationale": rationale, "answer": answer}


@pytest.mark.parametrize(
    "reply",
    [
        'Sure! {"rationale": "A.", "answer": "Rome"}\nI hope this helps',
        'For example {"answer": "Oslo"}. Mine: {"rationale": "A.", "answer": "Rome"}',
        '{"rationale": "A.", "answer": "Rome"}\nPassage 1 says "{"answer": "Oslo"}".',
        'At first:\n{"answer": "Oslo"}\nAt last:\n{"rationale": "A.", "answer": "Rome"}',
        '[{"rationale": "A.", "answer": "Rome"}]',
    ],
)
def test_an_object_among_other_words_is_read_only_if_json_was_asked_for(reply: str) -> None:
    for task in ("answer.cot", "answer.direct", "answer.read", "answer.read_cot", "tor.fuse"):
        assert read(task, reply, "json") == {"rationale": "A.", "answer": "Rome"}
        with pytest.raises(Malformed):
            read(task, reply)


@pytest.mark.parametrize(("reply", "answer"), [(reply, answer) for reply, _, answer in REASONED])
def test_direct_answers_are_read_from_all_that_too(reply: str, answer: str) -> None:
    assert read("answer.direct", reply)["answer"] == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Answer: Ridley Scott", "Ridley Scott"),
        ("Answer: yes.", "yes"),
        ("answer: Yes, both are.", "Yes"),
        ("Yes, people who cannot eat gluten can eat camel meat.", "Yes"),
        ("No.\n\nScott is English.", "No"),
        ("1997.\n\nBest Buy was added to the index in 1997, and the answer is based on what I know.", "1997"),
        ("Lockheed Martin Corporation.\nThe fastest aircraft is the SR-71.", "Lockheed Martin Corporation"),
        ("Tiberius. He reigned before Caligula, who declared war on the sea and lost it, it is said.", "Tiberius"),
        ("Sure!\nRidley Scott\nHe directed it in the year of 1979, as far as I know.", "Ridley Scott"),
        ("Here you are:\n\n```\nRidley Scott\n```", "Ridley Scott"),
        ("`Ridley Scott`", "Ridley Scott"),
        ("- Ridley Scott", "Ridley Scott"),
        ("Its director was the well known Sir Ridley Scott.", "Its director was the well known Sir Ridley Scott"),
        ("Answer: Ridley Scott\n\nQuestion: Who wrote it?\nAnswer: Dan O'Bannon", "Ridley Scott"),
    ],
)  # fmt: skip
def test_direct_answers_are_read(reply: str, answer: str) -> None:
    for task in ("answer.direct", "answer.read"):
        assert read(task, reply) == {"rationale": None, "answer": answer}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "\n\n  \n",
        "**",
        "The answer is …",
        "Thought 2: A.\nAction 2: Finish[Ridley Scott]",
        '{"note": "unclosed", {"answer": "Rome"}',
        '{"answer": "Rome"} {smile}',
        '{"answer": "Rome"}\nor\n{"answer": "Oslo"}',
        'Sure! {"rationale": "A.", "answer": "Rome"} I hope this helps',
        'Passage 1 says "{"answer": "Oslo"}".',
        "Answer:",
        "<answer></answer>",
        "[RELEVANT]",
        "[QUERY] Ridley Scott",
        "{}",
        '{"answer": null}',
        '{"answer": ["Paris", "Rome"]}',
        '{"reply": "Paris"} and a good deal of talk around it that never comes to any point whatever at all',
        "It is hard to say who directed the film, since there are so many of that name and none is told here.",
        "The film was made in the year of 1979 by a director whose name is Scott. Scott is a common name.\nWho knows?",
    ],
)
def test_replies_without_an_answer_are_malformed(reply: str) -> None:
    for task in ("answer.cot", "answer.direct", "answer.read", "answer.read_cot", "tor.fuse"):
        for rendering in get_args(Rendering):
            with pytest.raises(Malformed):
                read(task, reply, rendering)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("None", "None"),
        ("N/A.", "N/A"),
        ("The answer is none.", "none"),
        ("A. The answer is Y.\nThe answer is none.", "none"),
        ("<answer>Y</answer> <answer>none</answer>", "none"),
        ("The answer is unknown.", "unknown"),
        ("It is not told.\nAnswer: not mentioned in the passages", "not mentioned in the passages"),
        ('{"answer": "None"}', "None"),
        ("I don't know.", "I don't know"),
    ],
)
def test_a_non_answer_is_kept_as_the_answer(reply: str, answer: str) -> None:
    """The model has said that it has none: asking once more would press it for a guess."""
    for task in ("answer.cot", "answer.direct", "answer.read", "answer.read_cot", "tor.fuse"):
        for rendering in get_args(Rendering):
            assert read(task, reply, rendering)["answer"] == answer


TAKEN_BACK = [
    "Paris. However, I cannot determine this from the passages.",
    "Paris.\n\nBut it is not mentioned in the passages.",
    "Paris. It is the capital. Unfortunately, the passages do not say so.",
]


@pytest.mark.parametrize("reply", TAKEN_BACK)
def test_an_answer_that_the_reply_takes_back_is_asked_for_again(reply: str) -> None:
    for task in ("answer.cot", "answer.direct", "answer.read"):
        with pytest.raises(Malformed):
            read(task, reply)


@pytest.mark.parametrize("reply", TAKEN_BACK)
async def test_an_answer_taken_back_twice_is_an_abstention(reply: str) -> None:
    async with Pipeline(method="direct", lm=ScriptedLM({"answer.direct": reply})) as pipeline:
        answer = await pipeline.aask("Where?")
    assert (answer.text, answer.abstained, answer.usage.calls) == ("", True, 2)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris. However, London was larger.", "Paris"),
        ("Still Life. He painted it in the year of 1889, in the house of his brother, as is known.", "Still Life"),
        ("But Seriously, Folks", "But Seriously, Folks"),
        ("Unknown. However, I cannot rule out Paris.", "Unknown"),
        ("However, I cannot determine it.", "However, I cannot determine it"),
        ("The answer is Paris. However, I cannot confirm it.", "Paris"),
    ],
)
def test_an_answer_that_stands_is_kept(reply: str, answer: str) -> None:
    assert read("answer.direct", reply)["answer"] == answer


def test_reasoning_alone_is_no_answer_but_an_explained_one_is_direct() -> None:
    reply = "Ridley Scott. He directed it in the year of 1979, and it made him known all over the world."
    assert read("answer.direct", reply)["answer"] == "Ridley Scott"
    with pytest.raises(Malformed, match="The answer is <answer>"):
        read("answer.cot", reply)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The answer is … Larvik.", "Larvik"),
        ("Answer: ... Larvik", "Larvik"),
        ("So the answer is ...And Justice for All.", "And Justice for All"),
        ("Answer: <Larvik>", "Larvik"),
        ("Answer: <<Larvik>>", "Larvik"),
        ("1. Answer: Larvik", "Larvik"),
        ("1. FC Köln", "1. FC Köln"),
        ("- Larvik", "Larvik"),
        ("- 1939 – 1945", "1939 – 1945"),
    ],
)
def test_what_surrounds_an_answer_is_taken_off(reply: str, answer: str) -> None:
    assert read("answer.direct", reply)["answer"] == answer


@pytest.mark.parametrize(
    "reasoning",
    [
        "He was born there.",
        "Thor Heyerdahl, who crossed the Pacific on a raft of balsa wood, was born there.",
        "The first passage is about a raft. The second says that the man who built it was born there, in 1914.",
    ],
)
@pytest.mark.parametrize("named", ["So the answer is Larvik.", "Thus, the answer is: Larvik", "The answer is Larvik."])
def test_the_reasoning_ends_where_the_words_that_name_the_answer_begin(reasoning: str, named: str) -> None:
    found = find_answer(f"{reasoning} {named}")
    assert found is not None
    assert (found.before, found.answer) == (reasoning, "Larvik")
