"""``benchmarks/pocket_blend.py``: what it fits and writes, on held-out questions over a few passages."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.pocket_blend import Case, Judged
from training.examples import held_out
from training.sets import HELD_OUT, DocumentSet, sets

from benchmarks import pocket_blend
from polyhop import Passage, Question
from polyhop.lm.pocket import paths as path_scorer
from polyhop.lm.pocket.reading import answer
from polyhop.lm.pocket.reading.correctness import correct_probability
from polyhop.lm.pocket.reading.tables import BLENDS, CorrectWeights, blends
from polyhop.lm.pocket.reading.weighing import weigh_answers
from tests.kit.pocket_network import Network, using_network

FILMS = (
    ("Dark Mill", "Ann Lee", "Elstow"),
    ("The Long Road", "Piet Bakker", "Delft"),
    ("Winter Ferry", "Olga Moran", "Bergen"),
)
HELD = [name for name in (f"t{number}" for number in range(200)) if held_out(name)][:6]
STANDING = BLENDS.read_text(encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "musique"
    folder.mkdir(parents=True)
    corpus: list[dict[str, Any]] = [
        {"pid": "chess", "title": "Chess", "text": "Chess is a board game for two players."}
    ]
    for film, director, town in FILMS:
        corpus.append({"pid": film, "title": film, "text": f"{film} is a film directed by {director}."})
        corpus.append({"pid": director, "title": director, "text": f"{director} was a director born in {town}."})
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus), encoding="utf-8")
    rows = [asked(name, *FILMS[number % 3]) for number, name in enumerate([*HELD, "t1", "t2"])]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder.parent


def is_unknown(documents: DocumentSet) -> bool:
    return documents.domain in HELD_OUT


def asked(name: str, film: str, director: str, town: str) -> dict[str, Any]:
    question = f"Where was the director of the film {film} born?"
    gold = {"gold_pids": [film, director], "gold_titles": [film, director], "context_pids": [film, director, "chess"]}
    return {"id": name, "question": question, "answers": [town], **gold}


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A cheap network; the numbers are restored afterwards."""
    for name in pocket_blend.FITTED:
        monkeypatch.setattr(blends(), name, getattr(blends(), name))
    monkeypatch.setattr(pocket_blend, "sets", lambda folder: [next(each for each in sets(folder) if is_unknown(each))])
    with using_network(Network()) as network:
        yield network
    monkeypatch.undo()
    answer.clear_cache()


@pytest.mark.usefixtures("network")
def test_everything_is_fitted_and_only_numbers_change(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, before = tmp_path / "blends.toml", (blends().bridge, blends().reading)
    pocket_blend.fit(data, None, out)
    page = out.read_text(encoding="utf-8")
    assert BLENDS.read_text(encoding="utf-8") == STANDING
    number = r"-?\d+\.\d\d"
    assert re.sub(number, "0", page) == re.sub(number, "0", STANDING)
    fitted = tomllib.loads(page)
    for name in pocket_blend.FITTED:
        assert fitted[name] == getattr(blends(), name)._asdict(), name
    assert fitted["bridge"] == before[0]._asdict()
    assert fitted["reading"] == {**before[1]._asdict(), "rules": fitted["reading"]["rules"]}
    assert fitted["reading"]["rules"] in pocket_blend.COUNTS
    assert page != STANDING
    printed = capsys.readouterr().out
    for name in (*pocket_blend.FITTED, "musique", "cross-validation"):
        assert name in printed


@pytest.mark.usefixtures("network")
def test_only_held_out_questions_are_read(data: Path) -> None:
    every = pocket_blend.cases(data, None)
    assert [case.question.id for case in every] == HELD
    assert all({passage.id for passage in case.gold} == set(case.question.gold_ids) for case in every)
    with pytest.raises(SystemExit, match="has 3 held-out questions; it takes 5"):
        pocket_blend.cases(data, 3)


def a_case(answer: str = "Elstow", fold: int = 0) -> Case:
    film, director, town = FILMS[0]
    gold = [Passage("f", film, f"{film} is a film directed by {director}."), Passage("d", director, f"Born in {town}.")]
    other = Passage("o", "Chess", "Chess is a game.")
    question = Question("q", "Where was the director of the film Dark Mill born?", (answer,), gold_ids=("f", "d"))
    return Case("musique", fold, question, gold, [other, *gold])


@pytest.mark.usefixtures("network")
def test_gold_paths_are_relevant_and_those_with_all_gold_sufficient() -> None:
    case = a_case()
    ids = [tuple(passage.id for passage in path) for path in case.paths()]
    assert ids == [("o",), ("f",), ("d",), ("f", "o"), ("f", "d"), ("o", "f"), ("o", "d")]
    relevant, enough = (list(pocket_blend.judgements(case, what)) for what in pocket_blend.JUDGED)
    assert [path for path, each in zip(ids, relevant, strict=True) if each.is_so] == [("f",), ("d",), ("f", "d")]
    assert [path for path, each in zip(ids, enough, strict=True) if each.is_so] == [("f", "d")]
    for each in (*relevant, *enough):
        assert list(each.reasons) == ["rules", "encoder", "constant"]
        assert abs(each.reasons["rules"]) <= pocket_blend.CLIP
        assert each.reasons["constant"] == 1.0


@pytest.mark.usefixtures("network")
def test_the_features_of_a_correct_answer_are_those_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    case = a_case()
    weighed = weigh_answers(case.question.text, case.hits)
    assert weighed.answer is not None
    (each,) = pocket_blend.answers(a_case(weighed.answer))
    assert each.is_so
    assert [other.is_so for other in pocket_blend.answers(a_case("nowhere"))] == [False]
    counts = CorrectWeights(0.5, 1.5, 2.5, -1.0)
    monkeypatch.setattr(blends(), "correct", counts)
    odds = sum(count * value for count, value in zip(counts, each.reasons.values(), strict=True))
    assert correct_probability(case.question.text, case.hits, weighed) == pytest.approx(1 / (1 + math.exp(-odds)))


def test_a_logistic_fit_follows_the_informative_feature(capsys: pytest.CaptureFixture[str]) -> None:
    judged = [
        Judged("one", at % 5, {"tells": float(at % 2), "does not": float(at % 4 < 2), "constant": 1.0}, at % 2 == 1)
        for at in range(20)
    ]
    tells, does_not, constant = pocket_blend.fit_logistic("correct", judged)
    assert tells > 1 > abs(does_not)
    assert constant < 0
    assert "all, 10 of 20: 1.000 " in capsys.readouterr().out


def test_the_weight_of_reading_is_the_best_one_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blends(), "reading", blends().reading)
    monkeypatch.setattr(Case, "f1", lambda self, passages: 1 - abs(blends().reading.rules - 0.25))
    assert pocket_blend.fit_reading([a_case(fold=at % 5) for at in range(6)]) == 0.25


@pytest.mark.usefixtures("network")
def test_numbers_of_the_path_scorer_are_tried_and_restored(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pocket_blend, "FACTORS", (2.0,))
    before = [getattr(path_scorer, name) for name in pocket_blend.LEADING]
    pocket_blend.try_leading(data, 5)
    assert [getattr(path_scorer, name) for name in pocket_blend.LEADING] == before
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        f"ENCODER_WEIGHT {before[0]:g}",
        *(f"{name} {2 * own:g}" for name, own in zip(pocket_blend.LEADING, before, strict=True)),
    ]
    assert all("R@5 musique" in line for line in lines)
