"""The parsers on replies as models really write them, one row a way of writing; and on what nobody should write."""

from __future__ import annotations

import contextlib
import json
from typing import Any, get_args

import pytest

from polyhop.prompts.book import PromptBook, Rendering
from polyhop.prompts.parsing import LONGEST_REPLY, Malformed, own_parts
from polyhop.prompts.tasks import TASKS

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
    ("reply", "judged", "told"),
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
        ("[RELEVANT] [SUPPORTED] [ANSWER] Rome [ANSWER] None", YES, "Rome"),
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
def test_reviews_are_read(reply: str, judged: tuple[bool, bool], told: str | None) -> None:
    for task in ("tor.review", "cor.review"):
        for rendering in get_args(Rendering):
            review = read(task, reply, rendering)
            assert (review["relevant"], review["supported"]) == judged
            assert review["answer" if review["supported"] else "query"] == told
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
        told = {"thought": thought, "information": information, "answer": answer}
        assert read("tor.complete", reply, rendering) == told


@pytest.mark.parametrize(
    "reply", ["", "The fact is missing.", "[INFO]", "[INFO] None.", "Information:\nAnswer: [ANSWER] Rome"]
)
def test_supplements_without_information_are_malformed(reply: str) -> None:
    with pytest.raises(Malformed, match=r"\[INFO\]"):
        read("tor.complete", reply)


# --- answers -----------------------------------------------------------------------------------------------------

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
    ("A. The answer is Y.\nThe answer is none.", "A.", "Y"),
    ("A.\n<answer> Ridley Scott </answer>", "A.", "Ridley Scott"),
    ("<answer>Ridley Scott", None, "Ridley Scott"),
    (r"A. The answer is \boxed{Ridley Scott}.", "A. The answer is", "Ridley Scott"),
    (r"\boxed{\text{Ridley Scott}}", None, "Ridley Scott"),
    ("Thought 2: A.\nAction 2: Finish[Ridley Scott]", "Thought 2: A.\nAction 2:", "Ridley Scott"),
    ("A. The answer is Rome.\n\nQuestion: And?\nB. The answer is Oslo.", "A.", "Rome"),
    ("A. The answer is Rome.</s> The answer is Oslo.", "A.", "Rome"),
    ("Let me see.\nQuestion: Who?\nA. The answer is Rome.", "Let me see.\nQuestion: Who?\nA.", "Rome"),
    ("```\nA. The answer is Rome.\n```", "```\nA.", "Rome"),
    ("Rome", None, "Rome"),
    ("Rome.", None, "Rome"),
    ('{"rationale": "A.", "answer": "Rome"}', "A.", "Rome"),
    ('Sure! {"rationale": "A.", "answer": "Rome"} I hope this helps {smile}', "A.", "Rome"),
    ('{"Answer": 1979}', None, "1979"),
    ('{"answer": true}', None, "yes"),
    ('{"rationale": "n/a", "answer": " Rome "}', None, "Rome"),
    ('{"rationale": "One\nTwo", "answer": "Rome"}', "One\nTwo", "Rome"),
    ('For example {"answer": ""}. Mine: {"answer": "Rome"}', None, "Rome"),
    ('[{"answer": "Rome"}]', None, "Rome"),
    ('{"output": {"answer": "Rome"}}', None, "Rome"),
    ('{"note": "unclosed", {"answer": "Rome"}', None, "Rome"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "rationale", "answer"), REASONED)
def test_reasoned_answers_are_read(reply: str, rationale: str | None, answer: str) -> None:
    for task in ("answer.cot", "answer.read_cot", "tor.fuse"):
        for rendering in get_args(Rendering):
            assert read(task, reply, rendering) == {"rationale": rationale, "answer": answer}


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
        "None",
        "N/A.",
        "The answer is …",
        "The answer is none.",
        "Answer:",
        "<answer></answer>",
        "[RELEVANT]",
        "[QUERY] Ridley Scott",
        "{}",
        '{"answer": null}',
        '{"answer": "None"}',
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


def test_reasoning_alone_is_no_answer_but_an_explained_one_is_direct() -> None:
    reply = "Ridley Scott. He directed it in the year of 1979, and it made him known all over the world."
    assert read("answer.direct", reply)["answer"] == "Ridley Scott"
    with pytest.raises(Malformed, match="The answer is …"):
        read("answer.cot", reply)


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
def test_json_values_are_taken_as_meant(given: dict[str, Any], read_as: dict[str, Any]) -> None:
    for text in (json.dumps(given), f"Sure:\n```json\n{json.dumps(given, indent=2)}\n```\nAnything else?"):
        assert read("tor.review", text, "json").items() >= read_as.items()


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
    for part in own_parts("x" * 5 + "y" * 1_000_000 + "z" * 5):
        assert (part[:5], part[-5:]) == ("xxxxx", "zzzzz")
        assert len(part) == LONGEST_REPLY + 1
    assert read("answer.cot", "Thinking. " * 100_000 + "The answer is Rome.")["answer"] == "Rome"
    assert read("answer.cot", "The answer is Rome." + "\nThinking" * 100_000)["answer"] == "Rome"


PIECES = [
    *("[", "]", "[ANSWER] ", "[ANSWER", "[ANSWER] [QUERY] ", "[RELEVANT] or ", "[ANSWER]\n\n", "]:", "[ ", "[a "),
    *(
        "The answer is ",
        "The answer is none. ",
        "answer (",
        "answer ((",
        "Answer:\n",
        "**Answer**\n",
        "answer is:\n**\n",
    ),
    *(
        "Step 1\n",
        "Thought:\n",
        "Judgment: the ",
        "Question:",
        "A. ",
        "No. ",
        "not ",
        "relevant ",
        "the ",
        "a:",
        "- ",
        ": ",
    ),
    *("<answer>", "</answer>", r"\boxed{", r"\boxed{\text{", "Finish[", "<|im_end|>", "```\n", "*", "* ", '"', "'\""),
    *("{", '{"a":', "{}", '{"answer": ""} ', "\n", " ", "\t", "\u200b", "é", "。"),
]


@pytest.mark.parametrize("piece", PIECES)
def test_the_same_thing_over_and_over_is_read_or_refused(piece: str) -> None:
    """Not one of these may take long: each would, were a reader more than linear in its length."""
    for task in TASKS:
        for text in (piece * 1_000_000)[:1_000_000], piece * 500:
            read_or_refused(task, text)


@pytest.mark.parametrize("filling", [" ", "\n", "*", " *", ": ", "-", "_", "x ", "A. "])
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
