"""The classes of errors on lines and traces worked by hand, and in a whole run's report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.answer import Answer
from polyhop.evaluation.errors import MEANINGS, Error, count_errors, error_of, path_of
from polyhop.evaluation.report import Report
from polyhop.trace import Ask, Branch, Searched, Step, Trace
from polyhop.types import Evidence

A, B, C = (Passage(name, name.upper(), f"text of {name}") for name in "abc")

MISREAD: Mapping[str, Any] = {
    "kind": "qa",
    "answers": ["Rome"],
    "prediction": "Paris",
    "answering": True,
    "abstained": False,
    "gold": {"ids": ["a", "b"]},
    "met": [["a", "A"], ["b", "B"], ["c", "C"]],
    "shown": ["a", "b"],
    "defaulted": None,
    "budget": None,
}
"""A wrong answer although all gold was shown."""

NOT_USED = {"shown": ["a", "c"]}
NOT_MET = {"met": [["a", "A"], ["c", "C"]]}


@pytest.mark.parametrize(
    ("differs", "expected"),
    [
        ({}, "misread"),
        ({"prediction": "rome."}, None),
        ({"answers": []}, None),
        ({"kind": "long"}, None),
        ({"answering": False}, None),
        ({"prediction": "", "abstained": True, **NOT_MET}, "abstained"),
        ({"prediction": "in Rome, of course", **NOT_MET}, "form"),
        (NOT_USED, "not used"),
        (NOT_MET, "not retrieved"),
        ({"met": [], "shown": []}, "not retrieved"),
        ({"defaulted": "answer"}, "parse failure"),
        ({"defaulted": "answer", "budget": "max_calls", **NOT_MET}, "parse failure"),
        ({"defaulted": "earlier"}, "misread"),
        ({"defaulted": "earlier", **NOT_USED}, "parse failure"),
        ({"defaulted": "earlier", **NOT_MET}, "parse failure"),
        ({"budget": "max_calls"}, "misread"),
        ({"budget": "max_calls", **NOT_USED}, "budget"),
        ({"budget": "max_calls", "defaulted": "earlier", **NOT_MET}, "budget"),
        ({"gold": {}}, "unknown"),
        ({"gold": {}, "budget": "max_tokens"}, "budget"),
        ({"gold": {}, "defaulted": "earlier"}, "parse failure"),
        ({"gold": {"titles": ["A", "B"]}}, "misread"),
        ({"gold": {"titles": ["A", "D"]}}, "not retrieved"),
        ({"gold": {"titles": ["A", "B"]}, **NOT_USED}, "not used"),
        ({"gold": {"ids": ["a"], "titles": ["A", "B"]}, **NOT_USED}, "misread"),
    ],
)
def test_the_first_class_that_fits_is_the_errors(differs: Mapping[str, Any], expected: str | None) -> None:
    assert error_of({**MISREAD, **differs}) == expected


def test_a_line_of_an_older_run_has_no_path() -> None:
    older = {name: value for name, value in MISREAD.items() if name not in ("met", "shown", "defaulted")}
    assert error_of(older) == "unknown"


def test_classes_are_counted_in_the_order_of_reports() -> None:
    rows = [{**MISREAD, **differs} for differs in ({}, {"prediction": "Rome"}, NOT_MET, {})]
    assert list(count_errors(rows).items()) == [("not retrieved", 1), ("misread", 2)]
    assert set(MEANINGS) == set(get_args(Error))


def ask(number: int, *after: int, output: Mapping[str, Any] | None, task: str = "tor.review", **more: Any) -> Ask:
    fields = {"question": "Q", "evidence": [{"passages": more.pop("passages", [])}]}
    return Ask(id=number, after=after, task=task, model="m", fields=fields, output=output, text="", **more)


def path(*steps: Step, evidence: tuple[Passage, ...] = ()) -> dict[str, Any]:
    pieces = (Evidence(evidence),) if evidence else ()
    return path_of(Answer("x", evidence=pieces, trace=Trace("Q", "tor", steps)))


FOUND = Searched(id=0, query="Q", k=3, passages=(A, B, C))


def test_what_came_up_and_what_was_shown() -> None:
    final = ask(1, 0, output={"answer": "x"}, task="tor.fuse", final=True, passages=[C])
    assert path(FOUND, final) == {"met": [["a", "A"], ["b", "B"], ["c", "C"]], "shown": ["c"], "defaulted": None}
    assert path(FOUND, final, evidence=(A,))["shown"] == ["a", "c"]
    assert path() == {"met": [], "shown": [], "defaulted": None}


def test_the_answers_call_is_the_last_final_one_else_the_last() -> None:
    first, second = ask(1, 0, output={}, passages=[A]), ask(2, 1, output={}, passages=[B])
    assert path(FOUND, first, second)["shown"] == ["b"]
    final = ask(1, 0, output={}, passages=[A], final=True)
    assert path(FOUND, final, second)["shown"] == ["a"]


def test_which_reply_is_a_safe_default() -> None:
    failed, final = ask(1, 0, output=None), ask(3, 2, output={}, final=True)
    assert path(FOUND, failed, ask(2, 1, output={}, attempt=2), final)["defaulted"] is None
    assert path(FOUND, failed, ask(2, 1, output=None, attempt=2), final)["defaulted"] == "earlier"
    assert path(FOUND, failed, ask(2, 1, output=None, final=True))["defaulted"] == "answer"
    spent = ask(2, 1, output={}, final=True)  # no call was left to ask again with
    assert path(FOUND, failed, spent)["defaulted"] == "earlier"


def test_a_default_off_the_answers_path_is_none_of_its_own() -> None:
    beside = ask(2, 0, output=None)
    assert path(FOUND, ask(1, 0, output={}), beside, ask(3, 1, output={}, final=True))["defaulted"] is None
    branch = Branch(id=1, after=(0,), name="passage", label="A", verdict="reject")
    within = ask(2, 1, output=None, parent=1)
    assert path(FOUND, branch, within, ask(3, 2, output={}, final=True))["defaulted"] == "earlier"


QUESTIONS = [Question(f"q{n}", f"Where is {n}?", answers=("Rome",), gold_ids=("a", "b")) for n in range(3)]


def run(reply: Any, hits: list[Passage], **more: Any) -> Report:
    return polyhop.evaluate(
        QUESTIONS, method="one-r", lm=ScriptedLM(reply), retriever=lambda query, k: hits[:k], **more
    )


@pytest.mark.parametrize(
    ("reply", "hits", "more", "expected"),
    [
        ({"answer": "Rome"}, [A, B], {}, {}),
        ({"answer": "Paris"}, [A, B], {}, {"misread": 3}),
        ({"answer": "Paris"}, [A, C], {}, {"not retrieved": 3}),
        ({"answer": "Paris"}, [A, C, B], {"k": 2}, {"not used": 3}),
        ({"answer": "Rome in Italy"}, [A, C], {}, {"form": 3}),
        ("\x00" * 50 + "I " * 40, [A, B], {}, {"parse failure": 3}),
    ],
)
def test_a_run_reports_its_errors(reply: Any, hits: list[Passage], more: Any, expected: dict[str, int]) -> None:
    report = run(lambda task, fields: reply, hits, **more)
    assert report.to_dict()["errors"] == expected
