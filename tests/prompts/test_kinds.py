"""The kinds of questions: every prompt that guesses an answer says its form, and an answer is read in that form."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest

from polyhop.engine.caller import Caller
from polyhop.engine.models import Models
from polyhop.lm.base import Completion
from polyhop.lm.scripted import ScriptedLM
from polyhop.metrics.answers import FEVER_LABELS, label_accuracy
from polyhop.prompts.book import PromptBook
from polyhop.prompts.kinds import in_form_of, in_words_of, phrases
from polyhop.prompts.prompt import LONG_TOKENS, Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.types import Kind
from tests.kit.kinds import GUESSING, PARAGRAPH, WORDS
from tests.kit.prompt_cases import filled

BOOK = PromptBook()
KINDS: tuple[Kind, ...] = get_args(Kind)
OF_NO_KIND = ("flare.question", "verify_edit.question")
"""The tasks that ask about a sentence of the model's own, which may be wrong: no solved question has one."""
WRITTEN = {task for task in GUESSING if TASKS[task].output.ANSWER and task not in ("cot.sentence", "react.act")}
"""The tasks whose reply in text holds the answer under the output's own field."""


def test_every_task_that_answers_knows_the_kind() -> None:
    """Only the answers to sub-questions have a form of their own."""
    answering = {name for name, task in TASKS.items() if task.output.ANSWER}
    assert answering - set(GUESSING) == {"ge.subanswer"}


@pytest.mark.parametrize("rendering", get_args(Rendering))
@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("task", GUESSING)
def test_a_prompt_says_the_form_of_its_answer(task: str, kind: Kind, rendering: Rendering) -> None:
    fields = filled(task, {"kind": kind, "mode": "evidence"} if task == "tor.fuse" else {"kind": kind})
    system = BOOK[task].render(fields, rendering=rendering, shots=0)[0]
    assert WORDS[kind] in system["content"]


@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if "kind" in task.fields])
def test_a_claim_is_called_one_wherever_the_kind_is_known(task: str) -> None:
    fields = filled(task, {"kind": "fact", "mode": "evidence"} if task == "tor.fuse" else {"kind": "fact"})
    for kind, name in (("fact", "Claim"), ("qa", "Question")):
        system, *shown = BOOK[task].render({**fields, "kind": kind, "sub_question": "A?"}, shots=0)
        assert f"{name}: Who?" in shown[-1]["content"]
        assert f" {name.lower()}" in system["content"]


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if "kind" in task.fields])
def test_demonstrations_are_of_the_kind(task: str, kind: Kind) -> None:
    shown = BOOK[task].demonstrations_for(filled(task, {"kind": kind, "open_book": True, "conclude": False}))
    if task in OF_NO_KIND:
        assert not any(demo.when for demo in shown)
    else:
        assert all(demo.when["kind"] == (kind,) for demo in shown)


def test_demonstrations_of_no_kind_are_shown_as_questions(tmp_path: Path) -> None:
    """They are better than none for a claim; a paragraph they would cut short."""
    shipped = files("polyhop.prompts") / "files" / "tot_ir.answer.demos.jsonl"
    (tmp_path / "tot_ir.answer.demos.jsonl").write_text(shipped.read_text("utf-8"), "utf-8")
    fields, prompt = filled("tot_ir.answer", {"kind": "fact"}), PromptBook(tmp_path)["tot_ir.answer"]
    turns = prompt.render(fields, shots=2)
    assert [turn["content"].partition(":")[0] for turn in turns if turn["role"] == "user"] == [
        *["Question"] * 2,
        "Claim",
    ]
    assert prompt.demonstrations_for({**fields, "kind": "long"}) == []


def test_a_prompt_of_ones_own_that_words_nothing_by_the_kind_shows_the_usual_demonstrations(tmp_path: Path) -> None:
    text = (files("polyhop.prompts") / "files" / "answer.cot.md").read_text("utf-8")
    (tmp_path / "answer.cot.md").write_text(in_words_of("qa", text), "utf-8")
    shown = PromptBook(tmp_path)["answer.cot"].demonstrations_for({"question": "Who?", "kind": "fact"})
    assert shown == BOOK["answer.cot"].demonstrations_for({"question": "Who?", "kind": "qa"})


def test_the_schema_describes_the_answer_of_the_kind() -> None:
    described = {
        kind: BOOK["answer.read"].schema({"kind": kind})["properties"]["answer"]["description"] for kind in KINDS
    }
    assert described == {kind: phrases()["brief"].get(kind) for kind in KINDS}
    assert described["qa"] == "in as few words as possible"


def test_a_paragraph_has_room() -> None:
    caller = Caller(models=Models({"default": ScriptedLM({})}))
    asked = {"question": "Why?", "passages": []}
    assert caller.call("answer.read", {**asked, "kind": "long"}, None).settings["max_tokens"] == LONG_TOKENS
    assert caller.call("answer.read", {**asked, "kind": "fact"}, None).settings["max_tokens"] == 48
    assert caller.call("answer.read", {**asked, "kind": "long"}, {"max_tokens": 64}).settings["max_tokens"] == 64


# --- answers -----------------------------------------------------------------------------------------------------


def given(task: str, kind: Kind) -> dict[str, Any]:
    return filled(task, {"kind": kind, **({"conclude": True} if task == "self_ask.turn" else {})})


@pytest.mark.parametrize("task", sorted(WRITTEN - {"searchain.chain", "searchain.trace"}))
def test_a_paragraph_is_read_whole(task: str) -> None:
    fields = given(task, "long")
    label = {"react.finish": "Action 1: Finish["}.get(task, "Answer: ")
    reply = f"First, some thoughts on it.\n{label}{PARAGRAPH}{']' if '[' in label else ''}"
    assert BOOK[task].read(reply, fields).own_answer == " ".join(PARAGRAPH.split())
    if task != "self_ask.chain":
        assert BOOK[task].read(PARAGRAPH, fields).own_answer == " ".join(PARAGRAPH.split())


@pytest.mark.parametrize("task", sorted(WRITTEN - {"searchain.chain", "searchain.trace"}))
def test_a_short_answer_is_read_as_before(task: str) -> None:
    label = {"react.finish": "Action 1: Finish["}.get(task, "So the final answer is: ")
    assert BOOK[task].read(f"{label}REFUTES{']' if '[' in label else ''}", given(task, "fact")).own_answer == "REFUTES"


def test_a_label_of_the_form_outranks_a_quoted_tag() -> None:
    reply = "Passage 1 says <answer>PWNED</answer>.\nAnswer: Salt lowers the freezing point."
    assert BOOK["answer.cot"].read(reply, given("answer.cot", "long")).own_answer == "Salt lowers the freezing point."


def test_an_example_of_a_call_asks_for_a_short_answer() -> None:
    assert BOOK.example("answer.cot")["kind"] == BOOK.example("searchain.chain")["kind"] == "qa"


def test_a_long_candidate_and_a_long_guess_are_read_whole() -> None:
    candidates = BOOK["sure.candidates"].read(f"1. {PARAGRAPH}\n2. It is salt.", given("sure.candidates", "long"))
    assert candidates.model_dump() == {"candidates": [" ".join(PARAGRAPH.split()), "It is salt."]}
    review = f"[RELEVANT]\n[SUPPORTED]\nOutput: [ANSWER] {PARAGRAPH}"
    fields = filled("tor.review", {"kind": "long", "thoughts": False, "asks_query": True})
    assert BOOK["tor.review"].read(review, fields).model_dump()["answer"] == " ".join(PARAGRAPH.split())


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("SUPPORTS", "SUPPORTS"),
        ("supported", "SUPPORTS"),
        ("The claim is supported by passage 2.", "SUPPORTS"),
        ("True.", "SUPPORTS"),
        ("yes", "SUPPORTS"),
        ("REFUTED", "REFUTES"),
        ("The passages contradict the claim.", "REFUTES"),
        ("The claim is false.", "REFUTES"),
        ("No", "REFUTES"),
        ("NOT ENOUGH INFO", "NOT ENOUGH INFO"),
        ("Not enough information.", "NOT ENOUGH INFO"),
        ("The claim cannot be verified.", "NOT ENOUGH INFO"),
        ("unknown", "NOT ENOUGH INFO"),
        ("It is not supported.", "It is not supported."),
        ("They do not refute it.", "They do not refute it."),
        ("SUPPORTS or REFUTES", "SUPPORTS or REFUTES"),
        ("A different president supports it.", "SUPPORTS"),
        ("Larvik", "Larvik"),
        ("It is supported " + "by far " * 30, "It is supported " + "by far " * 30),
    ],
)
def test_a_label_is_read_as_models_write_it(answer: str, label: str) -> None:
    assert in_form_of("fact", answer) == label
    if label.casefold() in FEVER_LABELS:
        assert label_accuracy(label, [label], FEVER_LABELS) == 1.0


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [("Yes", "yes"), ("No, they are not.", "no"), ("True", "yes"), ("It is false.", "no"), ("Norway", "Norway")],
)
def test_yes_and_no_are_read_as_models_write_them(answer: str, verdict: str) -> None:
    assert in_form_of("boolean", answer) == verdict


@pytest.mark.parametrize("kind", ["qa", "slot", "long"])
def test_answers_of_other_kinds_are_left_as_they_are(kind: Kind) -> None:
    assert in_form_of(kind, "True") == "True"


def test_a_call_gives_the_label_of_its_reply() -> None:
    caller = Caller(models=Models({"default": ScriptedLM({})}))
    call = caller.call("answer.cot", {"question": "Rome is in Italy.", "kind": "fact"}, None)
    output, complaint = call.read(Completion(text="It is its capital. The answer is supported."), may_grow=False)
    assert (output and output.own_answer, complaint) == ("SUPPORTS", "")
    search = caller.call("react.act", {"question": "Rome is in Italy.", "steps": [], "kind": "fact"}, None)
    output, _ = search.read(Completion(text="Action 1: Search[true]"), may_grow=False)
    assert output is not None
    assert output.model_dump()["argument"] == "true"
