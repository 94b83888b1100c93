"""Our metrics beside others' own: rouge-score, torchmetrics' SQuAD and ir-measures (the extra ``agreement``)."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import pytest

from polyhop.metrics import Prediction, score
from polyhop.types import Passage, Question

pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore")]

WORDS = (
    "the a an yes no noanswer Paris paris. New York New-York 1,969 don't Dvořák DVO\u0158\u00c1K Straße “x” — U.S.A. "
    "naïve x_y rock'n'roll 3.5% café (film)"
).split()


def texts(seed: int, count: int, longest: int = 9) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, longest))) for _ in range(count)]


def needs(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pytest.importorskip(name)
    if absl := sys.modules.get("absl.logging"):  # its handler would close the stream that pytest captures into
        absl.get_absl_handler().python_handler.stream = sys.__stderr__
    return found


def scored(profile: str, predictions: Sequence[Prediction]) -> list[dict[str, float]]:
    rows, _ = score(predictions, [profile])
    return rows


def test_rouge_l_equals_rouge_score() -> None:
    scorer = needs("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=False)
    predicted, golds = texts(1, 1000, 30), zip(texts(2, 1000, 30), texts(3, 1000, 9), strict=True)
    predictions = [
        Prediction(Question("q", "?", gold, "long"), text) for text, gold in zip(predicted, golds, strict=True)
    ]
    for each, row in zip(predictions, scored("rouge-l", predictions), strict=True):
        theirs = max(scorer.score(gold, each.text)["rougeL"].fmeasure for gold in each.question.answers)
        assert row["rouge-l.f"] == pytest.approx(theirs, abs=1e-12)


def test_squad_equals_torchmetrics() -> None:
    squad = needs("torchmetrics.functional.text").squad
    for n, (text, one, other) in enumerate(zip(texts(4, 300), texts(5, 300), texts(6, 300, 2), strict=True)):
        golds = [one, other] if n % 2 else [one]
        (row,) = scored("squad", [Prediction(Question("q", "?", tuple(golds)), text)])
        target = {"answers": {"answer_start": [0] * len(golds), "text": golds}, "id": "q"}
        theirs = squad([{"prediction_text": text, "id": "q"}], [target])
        assert 100 * row["squad.em"] == pytest.approx(float(theirs["exact_match"]))
        assert 100 * row["squad.f1"] == pytest.approx(float(theirs["f1"]), abs=1e-3)


def test_ranking_metrics_equal_ir_measures() -> None:
    measures = needs("ir_measures")
    draw = random.Random(7)
    ids = [f"p{n}" for n in range(30)]
    predictions = []
    for n in range(300):
        gold = tuple(draw.sample(ids, draw.randint(1, 4)))
        ranked = draw.sample(ids, draw.randint(1, 25))
        predictions.append(
            Prediction(Question(f"q{n}", "?", gold_ids=gold), passages=[Passage(name, "T", "") for name in ranked])
        )
    qrels = [measures.Qrel(e.question.id, gold, 1) for e in predictions for gold in e.question.gold_ids]
    run = [
        measures.ScoredDoc(e.question.id, passage.id, -float(rank))
        for e in predictions
        for rank, passage in enumerate(e.passages)
    ]
    rows = {each.question.id: row for each, row in zip(predictions, scored("recall", predictions), strict=True)}
    ranking = {each.question.id: row for each, row in zip(predictions, scored("ranking", predictions), strict=True)}
    tor = {each.question.id: row for each, row in zip(predictions, scored("tor", predictions), strict=True)}
    prank = {each.question.id: row for each, row in zip(predictions, scored("promptrank", predictions), strict=True)}
    ordered = {"mrr": measures.RR, "ndcg": measures.nDCG, "map": measures.AP, "precision": measures.P}
    for metric, theirs in ordered.items():
        for k in (2, 5, 10, 15, 20):
            values = {each.query_id: each.value for each in (theirs @ k).iter_calc(qrels, run)}
            assert values == pytest.approx({name: row[f"{metric}@{k}"] for name, row in ranking.items()})
    recalls = {k: measures.R @ k for k in (2, 5, 10, 15, 20)}
    for k, measure in recalls.items():
        found = list(measures.iter_calc([measure, measures.Success @ k], qrels, run))
        assert len(found) == 2 * len(predictions)
        for each in found:
            ours = rows[each.query_id]
            if each.measure != measure:
                assert ours[f"recall_any@{k}"] == each.value
                continue
            assert ours[f"recall_mean@{k}"] == pytest.approx(each.value)
            assert ours[f"recall_all@{k}"] == float(each.value == 1)
            if k == 15:
                assert tor[each.query_id]["tor.recall@15"] == pytest.approx(each.value)
            elif k != 5:
                assert prank[each.query_id][f"promptrank.r@{k}"] == float(each.value == 1)
