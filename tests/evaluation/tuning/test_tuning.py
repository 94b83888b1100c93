"""Tuning: the reader's threshold on passages worked by hand, a grid over GE's thresholds, and settings files."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, LMError, PolyhopError, SettingError, UnknownName, UsageError
from polyhop.evaluation.tuning.grid_search import GridSearchResult, tune
from polyhop.evaluation.tuning.readers import contains_answer, fit_reader, steps_of
from polyhop.lm.base import Capabilities, Completion
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import read_settings, write_settings
from polyhop.retrieval.index import Index, index_for
from polyhop.types import Passage, Question, Span

# --- a reader's threshold --------------------------------------------------------------------------------------------

PASSAGES = [
    Passage("film", "Alien", "Alien was directed by Ridley Scott."),
    Passage("man", "Ridley Scott", "The director of Alien, born in South Shields."),
    Passage("noise", "Alien law", "Who directed law on aliens?"),
]
SURE = {"film": 3.0, "man": 0.5, "noise": 1.0}
FILM = Question("q", "Who directed Alien?", answers=("Ridley Scott",), gold_ids=("film",))


@pytest.fixture
def index() -> Index:
    return index_for(open_corpus(PASSAGES))


class Reader:
    """As sure of a passage as ``SURE`` says, and of nothing in one that is not there."""

    name, threshold = "by hand", 0.9

    def __init__(self, sure: Mapping[str, float] = SURE) -> None:
        self.sure, self.asked = sure, list[tuple[str, str]]()

    def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        (passage,) = passages
        self.asked.append((question, passage.id))
        return [Span(passage.id, passage.text[:4], 0, 4, self.sure[passage.id])] if passage.id in self.sure else []


def test_the_threshold_is_fitted_on_gold_passages_and_hits(index: Index) -> None:
    fit = fit_reader([FILM], index, Reader(), k=3)
    assert (fit.questions, fit.cases, fit.right, fit.left_out) == (1, 3, 2, 0)  # film and man hold the name
    assert fit.auroc == 0.5
    assert fit.fitted.at < 0.5  # all taken: F1 0.8, above the 2/3 of film alone
    assert fit.fitted.f1 == pytest.approx(0.8)
    assert fit.default.at == 0.9
    assert (fit.default.precision, fit.default.recall) == (0.5, 0.5)
    assert json.loads(json.dumps(fit.to_dict()))["fitted"]["f1"] == pytest.approx(0.8)


def test_gold_is_read_where_the_retriever_misses_it_and_by_title(index: Index) -> None:
    reader = Reader()
    titled = Question("q", "zzz", answers=("Ridley Scott",), gold_titles=("Ridley Scott",))
    assert fit_reader([titled], index, reader, k=3).cases == 1
    assert reader.asked == [("zzz", "man")]


def test_a_passage_without_a_span_is_never_taken(index: Index) -> None:
    fit = fit_reader([FILM], index, Reader({"film": 3.0, "noise": math.nan}), k=3)
    assert (fit.fitted.precision, fit.fitted.recall) == (1.0, 0.5)


def test_questions_without_a_findable_answer_are_left_out(index: Index) -> None:
    others = [Question("y", "Is it?", answers=("yes",)), Question("n", "What?"), Question("l", "Why?", ("x",), "long")]
    assert fit_reader([FILM, *others], index, Reader()).left_out == 3
    with pytest.raises(UsageError, match="there is no gold answer"):
        fit_reader(others, index, Reader())
    with pytest.raises(UsageError, match="the reader saw no answer"):
        fit_reader([FILM], index, Reader({}))


def test_written_steps_are_asked_with_the_answers_before_them(index: Index) -> None:
    steps = (
        {"question": "Who directed Alien?", "answer": "Ridley Scott", "pid": "film"},
        {"question": "Where was #1 born, not #2 or #10?", "answer": "South Shields", "pid": "man"},
    )
    whole = Question(
        "q", "Where was its director born?", answers=("South Shields",), gold_ids=("film", "man"), steps=steps
    )
    first, second = steps_of(whole)
    assert (first.answers, first.gold_ids) == (("Ridley Scott",), ("film",))
    assert second.text == "Where was Ridley Scott born, not #2 or #10?"
    reader = Reader()
    assert fit_reader([whole], index, reader, k=1).questions == 2
    assert dict(reversed(reader.asked)) == {first.text: "film", second.text: "man"}  # each step's own gold comes first
    odd = Question("q", "Where?", steps=({"question": "Who?"},))
    assert steps_of(odd) == [odd]


def test_an_answer_stands_in_a_passage_as_whole_words() -> None:
    assert contains_answer(PASSAGES[0], ["nobody", "ridley  SCOTT."])
    assert contains_answer(PASSAGES[2], ["alien law"])
    assert not contains_answer(PASSAGES[0], ["cott", "lie", "", "the"])


# --- a grid of GE's settings -----------------------------------------------------------------------------------------

QUESTIONS = [
    Question(f"q{n}", f"What is {what}?", answers=("right",)) for n, what in enumerate(("sure", "vain", "hard"))
]
CLOSED = {"sure": ("right", 0.88), "vain": ("wrong", 0.75), "hard": ("wrong", 0.3)}
OPEN = {"sure": ("right", 0.95), "vain": ("right", 0.95), "hard": ("wrong", 0.5)}
FIXED: dict[str, Any] = {"guidance": False, "refine": False, "max_steps": 1, "shots": 0}
GRID = {"retrieve_below": (0.7, 0.8, 0.9), "keep_above": (0.4, 0.7)}


def find(query: str, k: int) -> list[Passage]:
    return PASSAGES[:k]


def replies(task: str, fields: Mapping[str, Any]) -> Any:
    """Closed-book it is sure of a wrong answer (vain); from passages it is unsure of one (hard), and its answer to the
    question without a history is right."""
    what = fields["question"].split()[-1].rstrip("?")
    match task:
        case "ge.subquestion":
            return {"sub_question": None if fields["history"] else fields["question"]}
        case "ge.subanswer":
            answer, sure = (OPEN if fields["passages"] else CLOSED)[what]
            value = {"sentence": f"It is {answer}.", "answer": answer}
            return Completion(text=answer, value=value, tokens=(answer,), logprobs=(math.log(sure),))
        case _:
            return {"answer": fields["history"][-1]["answer"] if fields["history"] else "right"}


def model(script: Any = replies) -> ScriptedLM:
    return ScriptedLM(script, capabilities=Capabilities(token_logprobs=True))


def tuned(lm: ScriptedLM, grid: Mapping[str, Sequence[Any]] = GRID, **more: Any) -> GridSearchResult:
    return tune("ge", grid, QUESTIONS, lm=lm, retriever=find, **{**FIXED, **more})


def test_the_grid_finds_the_best_point_and_the_cheapest_of_equals() -> None:
    found = tuned(model())
    scores = {tuple(point.settings.values()): point.to_dict()["scores"]["f1"] for point in found.points}
    third = pytest.approx(1 / 3)
    assert scores[0.7, 0.4] == third
    assert scores[0.8, 0.4] == scores[0.7, 0.7] == pytest.approx(2 / 3)
    assert scores[0.8, 0.7] == scores[0.9, 0.7] == 1.0  # 0.9 searches for what it knew
    assert found.best.settings == {"retrieve_below": 0.8, "keep_above": 0.7}
    assert found.points[3].to_dict()["searches"] < found.points[5].to_dict()["searches"]
    assert found.gain is not None
    assert found.gain.first == pytest.approx(2 / 3)
    assert (found.gain.second, found.gain.better, found.gain.worse) == (1.0, 1, 0)
    assert found.file == {
        "method": "ge",
        "settings": {**FIXED, "retrieve_below": 0.8, "keep_above": 0.7},
        "fitted_on": {"dataset": "questions", "questions": 3, "lm": "scripted"},
        "scores": {"f1": 1.0, "em": 1.0, "cover_em": 1.0},
    }


def test_without_the_defaults_in_the_grid_there_is_no_gain_to_tell() -> None:
    found = tuned(model(), {"retrieve_below": ["0.7", "0.70", 0.7]})
    assert [point.settings for point in found.points] == [{"retrieve_below": 0.7}]
    assert found.gain is None
    assert found.to_dict()["gain"] is None


def test_with_a_cache_no_call_is_made_twice(tmp_path: Path) -> None:
    lm, bare = model(), model()
    cached = tuned(lm, cache=tmp_path / "cache.sqlite")
    assert cached.file == tuned(bare).file
    distinct = {repr((call.task, call.messages, call.sample)) for call in bare.calls}
    assert len(lm.calls) == len(distinct) < len(bare.calls)


@pytest.mark.slow
def test_a_stopped_search_goes_on_point_by_point(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    whole = tuned(model(), work=tmp_path, progress=lambda done, total: reported.append((done, total)))
    assert reported[-1] == (18, 18)
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    shutil.rmtree(tmp_path / "retrieve_below=0.8,keep_above=0.7")
    again = model()
    assert tuned(again, work=tmp_path).to_dict() == whole.to_dict()
    assert len(again.calls) == whole.best.report.usage.calls
    with pytest.raises(UsageError, match="other settings"):
        tuned(model(), work=tmp_path, k=1)


def test_a_point_where_a_question_failed_is_never_the_best() -> None:
    def failing(task: str, fields: Mapping[str, Any]) -> Any:
        vain = "vain" in fields["question"]
        return LMError("overloaded") if vain and fields.get("passages") else replies(task, fields)

    found = tuned(model(failing), concurrency=1)
    assert [len(point.report.failed) for point in found.points] == [0, 0, 1, 1, 1, 1]
    assert found.best.settings == {"retrieve_below": 0.7, "keep_above": 0.7}
    assert found.gain is None
    with pytest.raises(PolyhopError, match="every point of the grid a question failed; the first, q1: overloaded"):
        tuned(model(failing), {"retrieve_below": (0.8, 0.9)}, concurrency=1)


@pytest.mark.parametrize(
    ("grid", "more", "message"),
    [
        ({"retreive_below": [0.5]}, {}, "did you mean 'retrieve_below'"),
        ({"retrieve_below": [0.5, 1.5]}, {}, "retrieve_below=1.5"),
        ({"retrieve_below": []}, {}, "no value to try"),
        ({"k": [1]}, {"k": 2}, "k is tuned"),
        ({"k": [1]}, {"objective": "bleu"}, "unknown objective 'bleu'"),
    ],
)
def test_wrong_use_is_found_before_the_first_call(grid: dict[str, Any], more: dict[str, Any], message: str) -> None:
    lm = model()
    with pytest.raises(UsageError, match=message):
        tuned(lm, grid, **more)
    assert not lm.calls


@pytest.mark.parametrize("questions", [[], [Question("q", "What?")]])
def test_tuning_needs_gold_answers(questions: list[Question]) -> None:
    with pytest.raises(UsageError, match="gold answer"):
        tune("ge", GRID, questions, lm=model(), retriever=find)


# --- settings files --------------------------------------------------------------------------------------------------


def test_a_settings_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_settings(tmp_path / "s.json", tuned(model(), {"keep_above": (0.7,)}).file)
    assert read_settings(tmp_path / "s.json", "ge") == {**FIXED, "keep_above": 0.7}
    with pytest.raises(DataError, match="cannot be written"):
        write_settings(tmp_path / "no" / "s.json", {})


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", DataError, "not JSON"),
        ("[]", DataError, "not a settings file"),
        ('{"method": "ge", "settings": 1}', DataError, "not a settings file"),
        ('{"method": "tor", "settings": {}}', UsageError, "holds settings of tor, not of ge: give --method tor"),
        (
            '{"method": "ge", "settings": {"keep_abov": 1}}',
            UnknownName,
            r"of ge in .*s\.json.*did you mean 'keep_above'",
        ),
        ('{"method": "ge", "settings": {"lm": "pocket"}}', UnknownName, "unknown setting of ge"),
        ('{"method": "ge", "settings": {"keep_above": 7}}', SettingError, r"s\.json: ge: keep_above=7"),
    ],
)
def test_a_wrong_settings_file_is_named(tmp_path: Path, content: str, error: type[Exception], message: str) -> None:
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(error, match=message):
        read_settings(tmp_path / "s.json", "ge")
    with pytest.raises(DataError, match="cannot be read"):
        read_settings(tmp_path / "none.json", "ge")
