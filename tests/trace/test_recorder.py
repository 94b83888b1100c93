"""The recorder's listener: steps as they happen, each under a parent that it knows."""

from __future__ import annotations

from typing import Any

from polyhop.trace import Ask, Branch, Note, Step
from polyhop.trace.recorder import OpenStep, Recorder


def listened() -> tuple[list[Step], Recorder]:
    heard: list[Step] = []
    return heard, Recorder("Q", "by hand", listen=heard.append)


def note(recorder: Recorder, name: str) -> OpenStep:
    step = recorder.open()
    recorder.close(step, Note, name=name, data={})
    return step


async def test_a_branch_is_heard_when_it_opens_and_when_it_ends_with_its_steps_between() -> None:
    heard, recorder = listened()
    with recorder.recording():
        note(recorder, "first")
        with recorder.branch("node", "A") as branch:
            note(recorder, "inside")
            branch.verdict = "accept"
        note(recorder, "last")
    assert [(step.kind, step.id, step.parent) for step in heard] == [
        ("note", 0, None), ("branch", 1, None), ("note", 2, 1), ("branch", 1, None), ("note", 3, None),
    ]  # fmt: skip
    opened, ended = (step for step in heard if isinstance(step, Branch))
    assert (opened.verdict, ended.verdict) == (None, "accept")


async def test_the_trace_has_the_numbers_that_the_listener_heard_if_steps_do_not_overlap() -> None:
    heard, recorder = listened()
    with recorder.recording(), recorder.branch("node", "A"):
        note(recorder, "one")
        note(recorder, "two")
    trace = recorder.trace()
    assert [(step.kind, step.id, step.parent, step.after) for step in trace.steps] == [
        ("branch", 0, None, ()), ("note", 1, 0, (0,)), ("note", 2, 0, (1,)),
    ]  # fmt: skip
    assert {step.id: step.parent for step in heard} == {step.id: step.parent for step in trace.steps}


async def test_a_step_names_the_earlier_step_that_it_refers_to() -> None:
    heard, recorder = listened()
    data: dict[str, Any] = {"task": "t", "model": "m", "fields": {}, "output": None, "text": ""}
    with recorder.recording():
        note(recorder, "before")
        first, again = recorder.open(), recorder.open()
        recorder.close(first, Ask, **data)
        again.links = {"retry_of": first}
        recorder.close(again, Ask, **data)
    assert [getattr(step, "retry_of", None) for step in heard] == [None, None, 1]
    assert [getattr(step, "retry_of", None) for step in recorder.trace().steps] == [None, None, 1]


async def test_a_silent_recorder_keeps_nothing() -> None:
    recorder = Recorder("Q", "by hand", silent=True)
    with recorder.recording(), recorder.branch("node", "A"):
        note(recorder, "inside")
    assert (recorder.trace().steps, recorder.opened) == ((), {})
