"""Tuning PromptRank by hand: what is measured with what, in which order, what is chosen, and what a stop leaves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import CapabilityError, DataError, LMError, PolyhopError, SettingError, UnknownName, UsageError
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.tuning.promptrank import DEMO_SEEDS, TEMPERATURES, tune_promptrank
from polyhop.evaluation.tuning.staged import Checkpoint, StagedSearchResult
from polyhop.lm.base import Capabilities, ScoreRequest
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.path_prompts import read_instructions
from polyhop.methods.registry import read_settings, write_settings
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.types import Passage, Question, Span

QUESTIONS = [Question(f"q{n}", f"Which is {n}?", answers=("gold",), gold_ids=("a", "b")) for n in range(4)]
PASSAGES = {name: Passage(name, name.upper(), f"It is {name}.") for name in "nabx"}
FIRST_SHOWN = PromptBook().scored("promptrank.path").demonstrations[1]["question"]  # a comparison
WORTH = {None: 1, "none": 0, "poor": 0, "good": 2, "after: too": 2}
"""The number of questions that an instruction gets right, at temperature 1."""


class World:
    """Finds n, a, b and x, of which a and b are gold. A question is right when the model scores these two highest: the
    first so many of the four, by the instruction (``WORTH``), one more at 1.2 and with other demonstrations than the
    first of the file, all fewer by one at 2."""

    name = "world"

    def __init__(self, most: int | None = None, worth: Mapping[str | None, int] = WORTH, **able: bool) -> None:
        self.most, self.worth = most, worth
        self.searches: Counter[str] = Counter()
        self.linked: Counter[str] = Counter()
        capabilities = Capabilities(**{"score": True, "score_temperature": True, **able})
        self.lm = ScriptedLM({}, capabilities=capabilities, score=self.score)

    def search(self, query: str, k: int) -> list[Passage]:
        self.searches[query] += 1
        return list(PASSAGES.values())

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [self.search(query, k) for query in queries]

    def links(self, passage: Passage) -> list[Passage]:
        self.linked[passage.id] += 1
        return []

    def score(self, request: ScoreRequest) -> float:
        if self.most is not None and len(self.lm.score_calls) > self.most:
            raise LMError("the server is gone")
        right = self.worth[said(request)] + (request.temperature == 1.2) - (request.temperature == 2)
        shown = request.fields["demonstrations"]
        right += bool(shown) and shown[0]["question"] != FIRST_SHOWN
        number = int(request.fields["question"][-2])
        (passage,) = request.fields["passages"]
        return -1.0 if (passage.id in "ab") == (number < right) else -2.0

    @property
    def tried(self) -> list[tuple[Any, float, int]]:
        """Instruction, temperature and demonstrations of each trial, in order."""
        asked = [(said(r), r.temperature, len(r.fields["demonstrations"])) for r in self.lm.score_calls]
        return [one for one, before in zip(asked, [None, *asked], strict=False) if one != before]


def said(request: ScoreRequest) -> Any:
    instruction, where = request.fields["instruction"], request.fields["position"]
    return (
        "none"
        if instruction is None and where is None
        else f"after: {instruction}"
        if instruction == "too"
        else instruction
    )


def tuned(world: World, candidates: Sequence[str] = ("poor", "good", "after: too"), **more: Any) -> StagedSearchResult:
    given = {"lm": world.lm, "retriever": world, "instructions": candidates, "hops": 1, "concurrency": 1, **more}
    return tune_promptrank(QUESTIONS, **given)


def worths(found: StagedSearchResult, name: str) -> list[float]:
    (stage,) = [stage for stage in found.stages if stage.name == name]
    return [stage.worth(trial) for trial in stage.trials]


# --- the search --------------------------------------------------------------------------------------------------


def test_one_setting_after_the_other_each_with_the_best_before_it() -> None:
    world = World()
    found = tuned(world, demos=2)
    assert world.tried == [
        (None, 1.4, 0),  # the defaults
        (None, 1.0, 0),
        *((said, 1.0, 0) for said in ("none", "poor", "good", "after: too")),
        *(("good", heat, 0) for heat in TEMPERATURES if heat != 1.0),  # 1 was measured with the instructions
        ("good", 1.2, 2),  # for each draw of demonstrations; equal neighbours are reported once
    ]
    assert worths(found, "instruction") == [0.25, 0, 0, 0.5, 0.5]
    assert worths(found, "temperature") == [0.25, 0.5, 0.5, 0.75, 0.5, 0.5, 0.25]
    assert worths(found, "demonstrations")[:2] == [0.75, 1.0]
    assert found.settings == {
        "hops": 1,
        "instruction": "good",
        "temperature": 1.2,
        "demos": 2,
        "demo_seed": DEMO_SEEDS[1],
    }
    assert (found.gain.first, found.gain.second, found.gain.better, found.gain.n) == (0.25, 1.0, 3, 4)
    assert found.gain.low > 0
    assert found.file == {
        "method": "promptrank",
        "settings": found.settings,
        "fitted_on": {"dataset": "questions", "questions": 4, "lm": "scripted"},
        "scores": {"recall_all@2": 1.0, "recall_all@10": 1.0, "ar@2": 0.0},
    }
    assert json.loads(json.dumps(found.to_dict()))["stages"]["temperature"]["best"]["temperature"] == 1.2


def test_marks_are_not_candidates() -> None:
    found = tuned(World())
    assert found.stages[0].spread() == pytest.approx(
        {"mean": 1 / 3, "std": 0.2357, "best": 0.5, "median": 0.5, "worst": 0.0}, abs=1e-4
    )
    assert [trial.settings["instruction"] for trial in found.stages[0].trials[:2]] == [None, "none"]


@pytest.mark.slow
def test_of_equals_the_first_tried_is_kept() -> None:
    assert tuned(World(), ("after: too", "good")).settings["instruction"] == "after: too"
    assert tuned(World(), ("good", "after: too", "good")).settings["instruction"] == "good"
    none_better = tuned(World(worth=dict.fromkeys(WORTH, 1)), temperatures=(0.7, 1.7))
    assert none_better.settings == {"hops": 1, "instruction": None, "temperature": None}
    assert none_better.gain.second == none_better.gain.first


def test_nothing_is_found_that_is_worse_than_the_defaults() -> None:
    found = tuned(World(), ("good",), temperatures=(2.0,))  # "good" at 2 is no better than the defaults
    assert worths(found, "temperature") == [0.25, 0.25]
    assert found.settings == {"hops": 1, "instruction": None, "temperature": None}


def test_what_is_found_is_looked_up_once() -> None:
    world = World()
    tuned(world, hops=2)
    assert set(world.searches.values()) == {1}
    assert set(world.linked.values()) == {1}


@pytest.mark.slow
def test_the_questions_are_the_first_or_drawn() -> None:
    assert list(tuned(World(), limit=2).usual.questions) == ["q0", "q1"]
    drawn = [list(tuned(World(), limit=3, sample=seed).usual.questions) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_progress_counts_questions_to_the_end() -> None:
    reported: list[tuple[int, int]] = []
    tuned(World(), temperatures=(1.0, 1.4), progress=lambda done, total: reported.append((done, total)))
    assert reported == [(n, 32) for n in [*range(1, 25), *range(28, 33)]]  # "good" at 1 was measured before


# --- several instructions ----------------------------------------------------------------------------------------

RIGHT = {"one": {0, 1}, "two": {2}, "three": set[int]()}
"""The questions that an instruction gets right; at temperature 0.7 any gets the last one right too."""


class Experts(World):
    """A world in which instructions are right on different questions: the max over them is right on all of these, and
    the mean on none."""

    def score(self, request: ScoreRequest) -> float:
        if self.most is not None and len(self.lm.score_calls) > self.most:
            raise LMError("the server is gone")
        (passage,), number = request.fields["passages"], int(request.fields["question"][-2])
        right = RIGHT.get(said(request), set()) | ({3} if request.temperature == 0.7 else set())
        if passage.id not in "ab":
            return -1.0
        return -0.5 if number in right else -1.5


def experts(**more: Any) -> StagedSearchResult:
    world = Experts(most=more.pop("most", None))
    return tuned(world, ("three", "two", "one"), temperatures=(1.0, 0.7), **more)


def test_the_best_instructions_are_tried_together_and_then_the_temperature_again() -> None:
    found = experts(ensembles=(2, 3))
    assert [stage.name for stage in found.stages] == ["instruction", "temperature", "ensemble", "ensemble temperature"]
    together = [(trial.settings["instructions"], trial.settings["ensemble"]) for trial in found.stages[2].trials]
    two, three = ("one", "two"), ("one", "two", PromptBook().scored("promptrank.path").instruction)
    assert together == [(two, "max"), (two, "mean"), (three, "max"), (three, "mean")]
    assert worths(found, "temperature") == [0, 0.5, 0.75]
    assert worths(found, "ensemble") == [1.0, 0.25, 1.0, 0.25]
    assert worths(found, "ensemble temperature") == [0.75, 0.75, 1.0]  # the one instruction takes part
    assert [found.settings[name] for name in ("instructions", "ensemble", "temperature")] == [two, "max", 0.7]
    assert found.gain.second == 1.0


def test_the_one_instruction_is_kept_unless_several_are_better() -> None:
    found = tuned(World(), ensembles=(2,))
    assert "instructions" not in found.settings
    assert found.settings["instruction"] == "good"


@pytest.mark.slow
def test_a_search_that_was_stopped_among_the_ensembles_goes_on_there(tmp_path: Path) -> None:
    trial = 4 * 4  # questions and passages
    with pytest.raises(PolyhopError, match="the server is gone"):
        experts(ensembles=(2,), work=tmp_path, most=(1 + 5 + 1 + 2) * trial + 3)
    assert len((tmp_path / "measured.jsonl").read_text().splitlines()) == 8
    assert experts(ensembles=(2,), work=tmp_path, most=4 * 2 * trial).to_dict() == experts(ensembles=(2,)).to_dict()


@pytest.mark.slow
def test_instructions_are_ranked_into_a_file_that_the_method_takes(tmp_path: Path) -> None:
    file, world = tmp_path / "ranked.txt", World()
    tuned(world, ("poor", "good", "after: too"), instructions_out=file)
    own = PromptBook().scored("promptrank.path").instruction
    assert read_instructions(file) == ["good", "after: too", own, "poor"]
    assert file.read_text().startswith("# best first, by R@2 on 4 questions of questions, scripted\n")
    world.lm.score_calls.clear()
    evaluate(QUESTIONS, None, "promptrank", world.lm, retriever=world, answer_by="none", instructions_from=str(file))
    assert {said(call) for call in world.lm.score_calls} == {"good"}
    tuned(World(), ("good",), instructions_out=file, instruction_position="before")
    assert read_instructions(file) == ["before: good", f"before: {own}"]
    with pytest.raises(DataError, match="cannot be written"):
        tuned(World(), ("good",), instructions_out=tmp_path)


# --- λ -----------------------------------------------------------------------------------------------------------


class Reader:
    """Reads "gold" from x, surely, and less surely "wrong" from a, which the model scores higher."""

    name, threshold = "by hand", 0.5

    def __init__(self) -> None:
        self.read_in: Counter[tuple[str, str]] = Counter()

    def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        (passage,) = passages
        self.read_in[question, passage.id] += 1
        reading = {"x": ("gold", 0.9), "a": ("wrong", 0.2)}.get(passage.id)
        return [Span(passage.id, reading[0], 0, 4, reading[1])] if reading else []


def test_lambda_is_fitted_by_the_answers_at_the_settings_found_before() -> None:
    world, reader = World(worth=dict.fromkeys(WORTH, 4)), Reader()
    found = tuned(world, reader=reader, weights=(0.9, 0.5, 0.4), temperatures=(1.0,), objective="em")
    assert [stage.name for stage in found.stages] == ["instruction", "temperature", "path_weight"]
    assert worths(found, "path_weight") == [0.0, 0.0, 1.0]
    assert found.settings == {"hops": 1, "instruction": None, "temperature": 1.0, "path_weight": 0.4}
    assert found.file["fitted_on"]["reader"] == "by hand"
    assert found.file["scores"]["em"] == 1.0
    assert set(reader.read_in.values()) == {1}
    assert found.gain.first == found.gain.second == 1.0  # of recall


# --- stopping and going on ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole() -> StagedSearchResult:
    return tuned(World())


@pytest.mark.slow
@pytest.mark.parametrize("trials", [0, 1, 10, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 10))])
def test_a_search_that_was_stopped_goes_on_after_the_last_trial(
    tmp_path: Path, whole: StagedSearchResult, trials: int
) -> None:
    each = 4 * 4  # questions and passages
    with pytest.raises(PolyhopError, match="the server is gone"):
        tuned(World(most=trials * each + 3), work=tmp_path)
    lines = (tmp_path / "measured.jsonl").read_text().splitlines() if trials else []
    assert len(lines) == trials
    again = World()
    assert tuned(again, work=tmp_path).to_dict() == whole.to_dict()
    assert len(again.lm.score_calls) == (11 - trials) * each
    last = World()
    assert tuned(last, work=tmp_path).to_dict() == whole.to_dict()
    assert not last.lm.score_calls


@pytest.mark.slow
def test_only_what_was_measured_with_the_same_counts(tmp_path: Path) -> None:
    tuned(World(), work=tmp_path)
    for more in ({"limit": 3}, {"first": 50}, {"lm": ScriptedLM({}, name="another", score=lambda request: -1.0)}):
        world = World()
        tuned(world, work=tmp_path, **more)
        assert world.searches


@pytest.mark.slow
def test_a_line_cut_short_is_measured_again_and_a_broken_one_is_named(tmp_path: Path) -> None:
    tuned(World(), work=tmp_path)
    file = tmp_path / "measured.jsonl"
    held = file.read_bytes()
    file.write_bytes(held[:-20])
    world = World()
    tuned(world, work=tmp_path)
    assert len(world.lm.score_calls) == 16
    assert file.read_bytes() == held
    file.write_bytes(b"{}\n" + held)
    with pytest.raises(DataError, match=r"measured\.jsonl:1: not a measurement"):
        tuned(World(), work=tmp_path)


def test_one_process_at_a_time_has_the_folder(tmp_path: Path) -> None:
    with Checkpoint(tmp_path), pytest.raises(UsageError, match="another process is tuning here"):
        tuned(World(), work=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be kept"):
        tuned(World(), work=tmp_path / "file")


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"temperature": 1.2}, UsageError, "temperature is tuned"),
        ({"path_weight": 0.2}, UsageError, "path_weight is tuned"),
        ({"answer_by": "lm"}, UsageError, "answer_by is tuned"),
        ({"temperatures": ()}, SettingError, "temperature: no value to try"),
        ({"temperatures": (1.0, -1)}, SettingError, "temperature=-1"),
        ({"demos": 3}, SettingError, "demos=3"),
        ({"demos": 40}, SettingError, "demos=40: there are 5 comparison and 5 bridge"),
        ({"ensembles": (1, 6)}, SettingError, "an ensemble of 6: there are 4 instructions"),
        ({"ensembles": (0,)}, SettingError, "ensemble_size=0"),
        ({"ensemble": "max"}, UsageError, "ensemble is tuned"),
        ({"demos_out": "demos.jsonl"}, UsageError, "give the corpus"),
        ({"demos": 2, "demo_seeds": ()}, SettingError, "demo_seed: no value"),
        ({"reader": "pocket", "weights": (2,)}, SettingError, "path_weight=2"),
        ({"reader": "pockt"}, UnknownName, "did you mean 'pocket'"),
        ({"objective": "bleu"}, UnknownName, "unknown objective"),
        ({"kep": 3}, UnknownName, "did you mean 'keep'"),
        ({"limit": 0}, UsageError, "the dataset has none"),
    ],
)
def test_wrong_use_is_found_before_the_first_call(more: dict[str, Any], error: type[Exception], message: str) -> None:
    world = World()
    with pytest.raises(error, match=message):
        tuned(world, **more)
    assert not world.lm.score_calls


def test_questions_need_gold_passages_names_of_their_own_and_for_lambda_answers() -> None:
    bare, without = Question("bare", "Which?", answers=("x",)), Question("w", "Which?", gold_titles=("A",))
    with pytest.raises(UsageError, match=r"none for 1 of 5 questions, such as bare"):
        tune_promptrank([*QUESTIONS, bare], lm=World().lm, retriever=World())
    with pytest.raises(UsageError, match="two questions have the same id"):
        tune_promptrank([*QUESTIONS, QUESTIONS[0]], lm=World().lm, retriever=World())
    with pytest.raises(UsageError, match="the question w has none"):
        tune_promptrank([without], lm=World().lm, retriever=World(), reader="pocket")


def test_the_model_must_score_and_scale() -> None:
    mute = World(score=False)
    with pytest.raises(CapabilityError, match="needs score"):
        tuned(mute)
    plain = World(score_temperature=False)
    with pytest.raises(CapabilityError, match="score_temperature"):
        tuned(plain)
    assert not plain.lm.score_calls
    found = tuned(plain, temperatures=(1.0,))
    assert found.usual.settings["temperature"] == 1.0
    assert found.settings["instruction"] == "good"


# --- settings files ---------------------------------------------------------------------------------------------------


def test_what_was_found_is_used_by_the_method_the_retriever_and_the_reranker(tmp_path: Path) -> None:
    file, world = tmp_path / "tuned.json", World()
    found = tuned(world)
    write_settings(file, found.file)
    settings = read_settings(file, "promptrank")
    assert settings == found.settings
    report = evaluate(QUESTIONS, None, "promptrank", world.lm, retriever=world, answer_by="none", **settings)
    assert report.metrics["recall_all@2"].value == 0.75
    parts: list[dict[str, Any]] = [{"retriever": f"promptrank:{file}"}, {"rerank": f"promptrank:{file}"}]
    for part in parts:
        world.lm.score_calls.clear()
        with Pipeline(list(PASSAGES.values()), "one-r", world.lm, **part) as pipeline:
            pipeline.search("Which is X, 1?", 2)
        assert {(said(call), call.temperature) for call in world.lm.score_calls} == {("good", 1.2)}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "named"), [("mdr:folder", True), ("bm25", True), ("bm25:x", False), ("world", False)])
def test_a_retriever_that_can_be_opened_by_its_name_is_named(name: str, named: bool) -> None:
    world = World()
    world.name = name
    assert tuned(world, ["good"]).file.get("retriever") == (name if named else None)
