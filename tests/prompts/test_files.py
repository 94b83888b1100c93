"""Prompt files: what is wrong with one is said, with its name; a folder of one's own; what a file becomes."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest

from polyhop.errors import PromptError, UnknownName
from polyhop.prompts.book import PromptBook
from polyhop.prompts.loading import PromptSettings, Template
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.types import Passage
from tests.kit.prompt_cases import SWITCHED, Write, overriding

BOOK = PromptBook()
SHIPPED = resources.files("polyhop.prompts") / "files"


@pytest.fixture
def override(tmp_path: Path) -> Write:
    return overriding(tmp_path / "own")


def shipped(name: str) -> str:
    return (SHIPPED / name).read_text(encoding="utf-8")


# --- prompt files ------------------------------------------------------------------------------------------------

DIRECT = shipped("answer.direct.md")
REVIEW = shipped("cor.review.md")
INPUT = "{>Question}: {question}"
THE = "{>Answer} the"


THOUGHTS = "{?thoughts}, the first two with a short thought{/}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (INPUT, "Question: {qestion}", "unknown variable 'qestion'; did you mean 'question'?"),
        (INPUT, "Question: {Question}", "unknown variable 'Question'; did you mean 'question'?"),
        (INPUT, "Question: { question }{zzz}", "unknown variable 'zzz'. Valid: kind, question."),
        (INPUT, "Answer now.", "the field 'question' of answer.direct is never used"),
        (THE, "{question} Answer the", "{question} may stand under # Input only"),
        (THE, "{?hint}Answer{/} the", "unknown variable 'hint'"),
        (THE, "{>Answr} the", "unknown phrase {>Answr}; did you mean "),
        ("shots = 3", "shots = ", "(at line 5, column 9)"),
        ("temperature", "temprature", "unknown key in the head 'temprature'; did you mean 'temperature'?"),
        ("shots = 3", "shots = -1", "shots in the head: Input should be greater than or equal to 0"),
        ("max_tokens = 48", "max_tokens = 0", "max_tokens in the head: Input should be greater than 0"),
        ("shots = 3", 'stop = "Question"', "stop in the head: Input should be a valid tuple"),
        ("+++", "---", "opens with a head between two +++ lines"),
        ("+++\nrole", "role", "opens with a head between two +++ lines"),
        (DIRECT, "", "opens with a head between two +++ lines"),
        ("# Output", "# Outptu", "# Output and # Input, in this order; found # Input"),
        (f"# Input\n{INPUT}\n", "", "# Output and # Input, in this order; found # Output"),
        (DIRECT, "+++\n+++\n# Input\nQuestion: {question}\n# Output\nA\n", "found # Input, # Output"),
        (DIRECT, "+++\n+++\nAnswer.\n", "# Output and # Input, in this order; found neither"),
    ],
)
def test_a_faulty_prompt_file_is_named_with_its_fault(override: Write, old: str, new: str, message: str) -> None:
    assert old in DIRECT
    with pytest.raises(PromptError) as raised:
        override("answer.direct.md", DIRECT.replace(old, new))
    assert "answer.direct.md: " in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (THOUGHTS.replace("thoughts", "thougths"), "unknown variable 'thougths'; did you mean 'thoughts'?"),
        (THOUGHTS.replace("{/}", ""), "{?thoughts} is never closed with {/}"),
        (THOUGHTS.replace("{?thoughts}", ""), "{/} where a part is not open"),
        (THOUGHTS.replace("short", "{?thoughts}short"), "{?thoughts} is never closed with {/}"),
    ],
)
def test_a_faulty_part_is_named(override: Write, new: str, message: str) -> None:
    assert THOUGHTS in REVIEW
    with pytest.raises(PromptError) as raised:
        override("cor.review.md", REVIEW.replace(THOUGHTS, new))
    assert message in str(raised.value)


def test_a_part_within_a_part_needs_both(override: Write) -> None:
    nested = REVIEW.replace(THOUGHTS, "{?thoughts} with{?kind=fact} short{/} thoughts{/}")
    prompt = override("cor.review.md", nested)["cor.review"]

    def work(thoughts: bool, kind: str) -> str:
        fields = {"question": "Who?", "passages": [], "thoughts": thoughts, "kind": kind}
        return next(line for line in prompt.render(fields)[0]["content"].splitlines() if line.startswith("Work in"))

    assert work(True, "fact") == "Work in three steps with short thoughts."
    assert work(True, "qa") == "Work in three steps with thoughts."
    assert work(False, "fact") == "Work in three steps."


def test_an_unused_switch_is_named(override: Write) -> None:
    with pytest.raises(PromptError, match=r"the field 'thoughts' of cor\.review is never used"):
        override("cor.review.md", re.sub(r"\{\?thoughts\}(.*?)\{/\}", r"\1", REVIEW, flags=re.DOTALL))


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "answer.cot.md").write_bytes(b"+++\n+++\n\xff\xfe")
    with pytest.raises(PromptError, match=r"answer\.cot\.md: not UTF-8 text"):
        PromptBook(tmp_path)


@pytest.mark.parametrize("how", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")])
def test_a_file_from_another_system_reads_the_same(tmp_path: Path, how: Callable[[str], str]) -> None:
    (tmp_path / "cor.review.md").write_bytes(how(REVIEW).encode())
    fields = {"question": "Who?", "passages": [], "thoughts": True}
    assert PromptBook(tmp_path)["cor.review"].render(fields) == BOOK["cor.review"].render(fields)


def test_the_head_is_what_the_file_says(override: Write) -> None:
    book = override("answer.cot.md", shipped("answer.cot.md").replace("shots = 3", 'shots = 1\nstop = ["Question:"]'))
    assert book["answer.cot"].settings == PromptSettings("generator", 0.0, 256, ("Question:",), 1)
    assert book["answer.direct"].settings == BOOK["answer.direct"].settings


# --- what the model sees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rendering", get_args(Rendering))
@pytest.mark.parametrize(("task", "switches"), SWITCHED)
def test_every_prompt_is_whole_with_and_without_demonstrations(
    task: str, switches: dict[str, Any], rendering: Rendering
) -> None:
    """The example of ``prompts show --rendered``, with every setting of its switches: no heading without its part, no
    slot that is shown as dots, no mark of the file."""
    prompt, fields = BOOK[task], BOOK.example(task) | switches
    for shots in (0, prompt.settings.shots):
        system, *turns = prompt.render(fields, rendering=rendering, shots=shots)
        assert [turn["role"] for turn in turns][-1] == "user"
        assert len(turns) == 1 + 2 * min(shots, len(prompt.demonstrations_for(fields)))
        assert turns[-1]["content"].strip()
        lines = system["content"].splitlines()
        assert not lines[-1].rstrip().endswith((":", "…", ","))
        assert "\n\n\n" not in system["content"]
        assert not re.search(r"…|\.\.\.|\{[?/]|\[\s*\]|None|<>", form_of(system["content"]))
        heads = [a for a, b in itertools.pairwise([*lines, ""]) if a.endswith(":") and not b.strip()]
        assert heads == []


def form_of(system: str) -> str:
    """The part of an instruction that shows the form of the reply."""
    return re.split(r"\n\n(?=Reply |Write )", system)[-1]


# --- a folder of one's own ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_overrides_file_by_file(override: Write) -> None:
    book = override("answer.direct.md", DIRECT.replace(INPUT, "Frage: {question}"))
    assert book["answer.direct"].render({"question": "Wer?"})[-1]["content"] == "Frage: Wer?"
    assert book["answer.direct"].source.endswith("answer.direct.md")
    assert book["answer.direct"].demonstrations == BOOK["answer.direct"].demonstrations
    assert book["answer.cot"].render({"question": "Wer?"}) == BOOK["answer.cot"].render({"question": "Wer?"})
    assert book["answer.cot"].source == "built in"
    changed = {name for name in TASKS if book.hashes()[name] != BOOK.hashes()[name]}
    assert changed == {"answer.direct"}


@pytest.mark.slow
def test_a_folders_demonstrations_serve_every_task_that_borrows_them(override: Write) -> None:
    line = {"fields": {"question": "Who?"}, "output": {"rationale": "It was Ann.", "answer": "Ann"}}
    book = override("answer.cot.demos.jsonl", f"\n{json.dumps(line)}\n\n")
    for name, reply in {"answer.cot": "It was Ann. The answer is Ann.", "answer.direct": "Answer: Ann"}.items():
        assert [turn["content"] for turn in book[name].render({"question": "Me?"})[1:]] == [
            "Question: Who?",
            reply,
            "Question: Me?",
        ]
    changed = {name for name in TASKS if book.hashes()[name] != BOOK.hashes()[name]}
    assert changed == {name for name, task in TASKS.items() if "answer.cot" in (name, task.demonstrations)}
    assert changed >= {"answer.cot", "answer.direct"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tor.reveiw.md", "did you mean tor.review.md?"),
        ("tor.review.demo.jsonl", "did you mean tor.review.demos.jsonl?"),
        ("tor.review.txt", "did you mean tor.review.md?"),
        ("notes", "not a prompt task's file"),
    ],
)
def test_an_unknown_file_in_the_folder_is_an_error(override: Write, name: str, message: str) -> None:
    with pytest.raises(PromptError) as raised:
        override(name, REVIEW)
    assert name in str(raised.value)
    assert message in str(raised.value)


def test_editor_files_are_ignored(override: Write) -> None:
    override(".answer.cot.md.swp", "?")
    assert override("answer.cot.md~", "?").hashes() == BOOK.hashes()


def test_a_missing_folder_and_an_unknown_task_are_errors(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="no such folder"):
        PromptBook(tmp_path / "none")
    (tmp_path / "answer.cot.md").mkdir()
    with pytest.raises(PromptError, match=r"answer\.cot\.md: not a prompt task's file"):
        PromptBook(tmp_path)
    with pytest.raises(UnknownName, match=r"did you mean 'tor\.review'"):
        BOOK["tor.reviw"]


# --- rendering ---------------------------------------------------------------------------------------------------


def test_templates_show_test_and_refuse() -> None:
    template = Template.parse("{a}{?b}B{a}{/}{?!b}C{/}{?b=x}X{/}{?!b=x}Y{/}")
    assert template.shown == {"a"}
    assert template.tested == {"b"}
    for b, text in {"": "1CY", "x": "1B1X", "y": "1B1Y", None: "1CY"}.items():
        assert template.render({"b": b}, {"a": "1"}) == text
    assert Template.parse('{"json": {"a": 1}} {} {1}').shown == set()


def test_a_prompt_may_ask_about_a_field_it_shows(override: Write) -> None:
    """The demonstrations then follow their own value, and long values are not kept with the openings."""
    text = shipped("answer.read.md").replace("Passages:\n{passages}", "{?passages}Passages:\n{passages}{/}")
    own = {"fields": {"question": "A?", "passages": [{"title": "T", "text": "X."}]}, "output": {"answer": "x"}}
    without = {"fields": {"question": "B?"}, "output": {"answer": "y"}}
    override("answer.read.md", text)
    override("answer.read_cot.md", shipped("answer.read_cot.md").replace("{passages}", "{?passages}{passages}{/}"))
    prompt = override("answer.read.demos.jsonl", f"{json.dumps(own)}\n{json.dumps(without)}")["answer.read"]
    for number in range(3):
        passages = [Passage("p", f"Title {number}", "Text.")] * (number > 0)
        turns = [turn["content"] for turn in prompt.render({"question": "C?", "passages": passages})]
        assert turns[1:5:2] == ["Question: A?\n\nPassages:\n<passage 1>\nTitle: T\nX.\n</passage 1>", "Question: B?"]
        assert ("Passages:" in turns[-1]) is bool(passages)
    assert len(prompt._openings) == 1


def test_a_caller_may_change_the_turns_it_was_given() -> None:
    fields = {"question": "Who?"}
    turns = BOOK["answer.cot"].render(fields)
    turns[0]["content"] = "Forget it."
    assert BOOK["answer.cot"].render(fields)[0]["content"].startswith("Answer the question")


def test_schemas_are_strict_and_ask_for_what_the_text_form_asks() -> None:
    for name, switches in SWITCHED:
        for fields in (None, switches):
            schema = BOOK[name].schema(fields)
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
            asked = list(TASKS[name].output.model_fields) if fields is None else TASKS[name].asked(fields)
            assert list(schema["properties"]) == asked
    review = BOOK["tor.review"].schema({"thoughts": False, "asks_query": False})
    assert list(review["properties"]) == ["relevant", "supported", "analysis", "answer"]
    assert next(iter(BOOK["cor.review"].schema({"thoughts": True})["properties"])) == "thought"  # before the verdict
    assert list(BOOK["answer.direct"].schema({})["properties"]) == ["answer"]


def test_defaults_are_outputs() -> None:
    for name in TASKS:
        output = BOOK[name].default()
        assert json.dumps(output.model_dump(include=set(TASKS[name].default))) == json.dumps(dict(TASKS[name].default))
