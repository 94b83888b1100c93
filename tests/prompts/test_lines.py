"""Text forms that a task declares as lines, and tasks that have none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyhop
from polyhop.errors import UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods import registry
from polyhop.prompts.book import PromptBook
from polyhop.prompts.lines import FieldLine
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS, Choice, Items, Judgement, Line, Output, Task, YesNo, register_task
from polyhop.prompts.tasks.tor import TOR_REVIEW, Review

HEAD = "+++\nrole = 'critic'\n+++\nWeigh the answer.\n\n"


class Doubt(Output):
    doubt: str | None
    grade: str = "none given"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    TASKS.pop("doubt.weigh", None)


def doubt(home: Path, *, asks_for_text: bool | None = None, **form: Any) -> Task[Doubt]:
    output = "# Output\nDoubt: <doubt>\n\n" if (bool(form) if asks_for_text is None else asks_for_text) else ""
    (home / "doubt.weigh.md").write_text(f"{HEAD}{output}# Input\nAnswer: {{answer}}\n", encoding="utf-8")
    line = {"fields": {"answer": "1979"}, "output": {"doubt": "It is a year."}}
    (home / "doubt.weigh.demos.jsonl").write_text(f"{json.dumps(line)}\n", encoding="utf-8")
    return register_task(
        Task("doubt.weigh", fields=("answer",), output=Doubt, default={"doubt": None}, folder=home, **form)
    )


LINES = {
    "text": (Line("Doubt", "doubt", nothing="NOTHING"), ["It is a year.", None]),
    "choice": (Choice("Value", "value", ("sure", "likely", "impossible")), ["sure", "impossible"]),
    "judgement": (Judgement("correct", "CORRECT", "INCORRECT"), [True, False]),
    "yes or no": (YesNo("valid"), [True, False]),
    "items": (Items("steps", "the steps"), [["Who made it?"], ["Who made it?", "When?"]]),
}


@pytest.mark.parametrize(("line", "values"), LINES.values(), ids=LINES)
def test_a_line_reads_what_it_writes(line: FieldLine, values: list[Any]) -> None:
    assert [line.read(line.write(value), {}) for value in values] == values


@pytest.mark.parametrize(("line", "values"), LINES.values(), ids=LINES)
def test_a_reply_without_the_line_is_malformed(line: FieldLine, values: list[Any]) -> None:
    with pytest.raises(Malformed, match="must be"):
        line.read("I would rather not say", {})


def test_a_word_without_brackets_overrules_a_mark_before_it() -> None:
    assert YesNo("valid").read("Draft: [YES]\nFinal: No", {}) is False
    assert YesNo("valid").read("Draft: No\nFinal: [YES]", {}) is True


@pytest.mark.parametrize("line", [line for line, _ in LINES.values()], ids=LINES)
@given(text=st.text())
def test_any_reply_is_read_or_malformed(line: FieldLine, text: str) -> None:
    with suppress(Malformed):
        line.read(text, {})


def test_only_a_field_with_a_default_may_lack_its_line(home: Path) -> None:
    doubt(home, lines=(Line("Doubt", "doubt"), Line("Grade", "grade")))
    prompt = PromptBook()["doubt.weigh"]
    assert prompt.read("Doubt: none", {"answer": "1979"}) == Doubt(doubt=None)
    assert prompt.read("Doubt: It is a year.\nGrade: C", {"answer": "1979"}) == Doubt(doubt="It is a year.", grade="C")
    with pytest.raises(Malformed, match='a line must be "Doubt: <doubt>"'):
        prompt.read("Grade: C", {"answer": "1979"})


def test_demonstrations_are_written_in_the_lines(home: Path) -> None:
    doubt(home, lines=(Line("Doubt", "doubt"),))
    turns = PromptBook()["doubt.weigh"].render({"answer": "1980"})
    assert [turn["content"] for turn in turns[1:]] == ["Answer: 1979", "Doubt: It is a year.", "Answer: 1980"]


@pytest.mark.parametrize("asks_for_text", [False, True])
@pytest.mark.parametrize("rendering", ["text", "json"])
def test_a_task_without_a_text_form_is_asked_in_json(home: Path, rendering: Rendering, asks_for_text: bool) -> None:
    task = doubt(home, asks_for_text=asks_for_text)
    prompt = PromptBook()["doubt.weigh"]
    assert not task.has_text_form
    turns = prompt.render({"answer": "1980"}, rendering=rendering)
    assert turns == prompt.render({"answer": "1980"}, rendering="json")
    assert "# Output" not in turns[0]["content"]
    assert json.loads(turns[2]["content"]) == {"doubt": "It is a year.", "grade": "none given"}
    assert prompt.read('{"doubt": "It is a year."}', {"answer": "1979"}, rendering) == Doubt(doubt="It is a year.")
    with pytest.raises(Malformed, match="one JSON object"):
        prompt.read("Doubt: It is a year.", {"answer": "1979"}, rendering)


def test_a_text_form_needs_both_parse_and_write(home: Path) -> None:
    with pytest.raises(UsageError, match=r"doubt\.weigh: .* both parse and write"):
        doubt(home, parse=lambda text, fields: {"doubt": text})


def test_a_task_and_its_name_ask_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry.methods()))

    @polyhop.method("asks-twice", paper="-", layers=lambda settings: 2)
    async def asks_twice(question: str, run: Any) -> polyhop.Answer:
        fields = {"question": question, "passages": [], "thoughts": False, "asks_query": True}
        review: Review = await run.ask(TOR_REVIEW, **fields)
        assert review == await run.ask("tor.review", final=True, **fields)
        return polyhop.Answer(str(review.query))

    lm = ScriptedLM({"tor.review": "[RELEVANT] [UNSUPPORTED] [QUERY] Who wrote it?"})
    assert polyhop.ask("Who?", method="asks-twice", lm=lm).text == "Who wrote it?"
