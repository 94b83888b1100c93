"""A prompt task of the user's own: registered with its folder, asked, overridden; never in the place of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.errors import PromptError, UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods import registry
from polyhop.methods.registry import method
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.prompts.tasks import TASKS, Output, Task, register_task

FILE = """\
+++
role = "checker"
max_tokens = 16
+++
Is the answer a place? Reply yes or no.

# Output
yes or no

# Input
Answer: {answer}
"""
DEMONSTRATION = '{"fields": {"answer": "Oslo"}, "output": {"holds": true}}\n'


class Checked(Output):
    """A judgement: is the answer a place?"""

    holds: bool


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task[Any]]:
    """A task with its file, known until the test ends."""
    monkeypatch.setattr(registry, "_registered", dict(registry.methods()))
    home = tmp_path / "home"
    home.mkdir()
    (home / "own.check.md").write_text(FILE, encoding="utf-8")
    (home / "own.check.demos.jsonl").write_text(DEMONSTRATION, encoding="utf-8")
    yield Task(
        "own.check",
        fields=("answer",),
        output=Checked,
        parse=lambda text, fields: {"holds": text.strip().lower() == "yes"},
        write=lambda output, fields: "yes" if output.holds else "no",
        default={"holds": False},
        folder=home,
    )
    TASKS.pop("own.check", None)


def test_a_registered_task_has_its_file_and_demonstrations(task: Task[Any]) -> None:
    assert register_task(task) is task
    prompt = PromptBook()["own.check"]
    turns = [turn["content"] for turn in prompt.render({"answer": "Rome"})]
    assert turns[1:] == ["Answer: Oslo", "yes", "Answer: Rome"]
    assert prompt.source == str(Path(str(task.folder)) / "own.check.md")
    assert prompt.read("yes", {}) == Checked(holds=True)
    assert prompt.read('{"holds": true}', {}, "json") == Checked(holds=True)
    assert "own.check" in PromptBook().hashes()
    assert {"own.check", "checker"} <= PromptBook().callers()


def test_a_folder_of_prompts_replaces_its_file_too(task: Task[Any], tmp_path: Path) -> None:
    register_task(task)
    other = tmp_path / "other"
    other.mkdir()
    (other / "own.check.md").write_text(FILE.replace("Is the answer a place?", "A place?"), encoding="utf-8")
    before, after = PromptBook(), PromptBook(other)
    assert after["own.check"].render({"answer": "Rome"})[0]["content"].startswith("A place?")
    assert after["own.check"].demonstrations == before["own.check"].demonstrations
    assert after.hashes()["own.check"] != before.hashes()["own.check"]


async def test_a_method_asks_it_and_a_model_is_named_for_it(task: Task[Any]) -> None:
    register_task(task)

    @method("checked", paper="-", layers=lambda settings: 1)
    async def checked(question: str, run: Any) -> Answer:
        """Ask the task."""
        reply = await run.ask("own.check", final=True, answer="Rome")
        return Answer("a place" if reply.holds else "no place")

    asked = ScriptedLM({"own.check": "yes"})
    async with Pipeline(method="checked", lm={"default": ScriptedLM({}), "checker": asked}) as pipeline:
        answer = await pipeline.aask("What is Rome?")
    assert answer.text == "a place"
    assert [call.task for call in asked.calls] == ["own.check"]


async def test_what_cannot_be_read_is_its_default(task: Task[Any]) -> None:
    def unreadable(text: str, fields: Any) -> dict[str, Any]:
        from polyhop.prompts.parsing import Malformed

        raise Malformed("the reply must be yes or no")

    register_task(replace(task, parse=unreadable))

    @method("checked", paper="-", layers=lambda settings: 1)
    async def checked(question: str, run: Any) -> Answer:
        """Ask the task."""
        return Answer(str((await run.ask("own.check", final=True, answer="Rome")).holds))

    model = ScriptedLM({"own.check": "perhaps"})
    async with Pipeline(method="checked", lm=model) as pipeline:
        assert (await pipeline.aask("What is Rome?")).text == "False"
    assert "yes or no" in model.calls[1].messages[-1]["content"]


def test_registering_again_replaces_it_and_another_is_refused(task: Task[Any]) -> None:
    register_task(task)
    register_task(replace(task, default={"holds": True}))
    assert TASKS["own.check"].default == {"holds": True}
    with pytest.raises(UsageError, match=r"'own\.check' is already there"):
        register_task(replace(task, folder=Path("elsewhere")))


@pytest.mark.parametrize("name", ["tor.review", "promptrank.path"])
def test_a_shipped_task_is_never_replaced(task: Task[Any], name: str) -> None:
    with pytest.raises(UsageError, match=r"already there"):
        register_task(replace(task, name=name))


@pytest.mark.parametrize("name", ["", "a b", "../own", "own/check", ".own", "own."])
def test_a_name_is_words_with_dots(task: Task[Any], name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a prompt task"):
        register_task(replace(task, name=name))


def test_a_folder_is_needed_and_so_is_the_file_in_it(task: Task[Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs the folder"):
        register_task(replace(task, folder=None))
    register_task(replace(task, folder=tmp_path))
    with pytest.raises(PromptError, match=r"there is no prompt file own\.check\.md in "):
        PromptBook()["own.check"]


def test_its_file_is_checked_against_it(task: Task[Any]) -> None:
    register_task(replace(task, fields=("answer", "question")))
    with pytest.raises(PromptError, match=r"the field 'question' of own\.check is never used"):
        PromptBook()["own.check"]
