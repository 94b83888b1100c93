"""A finished run is scored again from its own lines, without a model or a dataset; its folder does not change."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.answer import Answer
from polyhop.errors import UnknownName, UsageError
from polyhop.evaluation.predictions import prediction, scored
from polyhop.evaluation.report import Report
from polyhop.evaluation.runs import evaluate_methods
from polyhop.evaluation.store import read_predictions, read_report
from polyhop.metrics import PROFILES, Prediction, score
from polyhop.trace import Trace, Usage
from polyhop.types import Citation, Evidence
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

CORPUS = [
    Passage("p0", "Alien", "Alien is a film. Ridley Scott directed it.", metadata={"sentences": [0, 17]}),
    Passage("p1", "Ridley Scott", "Scott was born in South Shields. He is a knight.", metadata={"sentences": [0, 33]}),
    Passage("p2", "Emma", "Emma is a novel.", metadata={"sentences": [0]}),
]
QUESTIONS = [
    Question(
        "q0", "Who directed Alien?", ("Ridley Scott",), gold_ids=("p0",), supporting=(("Alien", 1),),
        metadata={"type": "bridge", "context_pids": ["p0"]},
    ),
    Question(
        "q1", "Where was Ridley Scott born?", ("Shields", "yes"), gold_ids=("p1",),
        supporting=(("Ridley Scott", 0),),
    ),
]  # fmt: skip
REPLIES = {"Who directed Alien?": "Ridley Scott", "Where was Ridley Scott born?": "yes, South Shields"}


def find(query: str, k: int) -> list[Passage]:
    return [passage for passage in CORPUS if passage.title in query][:k]


def answering(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"answer": REPLIES[fields["question"]]}


def run(out: Path | None, questions: list[Question] = QUESTIONS, **more: Any) -> Report:
    return polyhop.evaluate(questions, method="one-r", lm=ScriptedLM(answering), retriever=find, out=out, **more)


def held(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def values(report: Report) -> dict[str, float]:
    return {name: mean.value for name, mean in report.metrics.items()}


def test_the_benchmarks_profile_joins_ours_and_the_run_records_why(tmp_path: Path) -> None:
    report = run(tmp_path / "run")
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert settings["metrics"] == {"profiles": ["default", "hotpot"], "why": "questions have supporting facts"}
    assert values(report)["em"] == values(report)["hotpot.em"] == 0.5
    assert values(report)["hotpot.sp_em"] == 1.0
    report = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert report["metrics"]["hotpot.joint_em"].items() >= {"value": 0.5, "n": 2}.items()
    assert report["unscored"] == {}


def test_the_users_metrics_replace_both(tmp_path: Path) -> None:
    report = run(tmp_path / "run", metrics="squad,tor")
    assert set(report.metrics) == {"squad.em", "squad.f1", "tor.recall@15"}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["metrics"]["why"] == "asked for"
    with pytest.raises(UsageError, match="other settings: metrics"):
        run(tmp_path / "run", metrics="squad")
    several = evaluate_methods(
        ["one-r", "direct"], QUESTIONS, lm=ScriptedLM(answering), retriever=find, metrics=["flashrag"]
    )
    assert all(set(each.metrics) == {"flashrag.em", "flashrag.f1", "flashrag.acc"} for each in several.reports.values())


def test_an_unknown_profile_stops_a_run_before_its_first_call() -> None:
    lm = ScriptedLM(answering)
    with pytest.raises(UnknownName, match="did you mean 'squad'"):
        polyhop.evaluate(QUESTIONS, method="one-r", lm=lm, retriever=find, metrics="sqad")
    assert not lm.calls


@pytest.mark.slow
def test_a_run_is_rescored_from_its_lines_alone(tmp_path: Path) -> None:
    run(tmp_path / "run", metrics="tor")
    before = held(tmp_path / "run")
    for name, profile in PROFILES.items():
        rescored = read_report(tmp_path / "run", metrics=name)
        direct = run(None, metrics=name)
        assert values(rescored) == values(direct)
        assert rescored.unscored == direct.unscored
        assert {metric.removeprefix(f"{name}.") for metric in rescored.metrics} <= set(profile.metrics)
    both = read_report(tmp_path / "run", metrics=["default", "hotpot"])
    assert values(both) == values(run(None))
    assert values(read_report(tmp_path / "run")).keys() == {"tor.recall@15"}
    assert held(tmp_path / "run") == before


def test_a_run_can_be_rescored_with_other_gold(tmp_path: Path) -> None:
    run(tmp_path / "run")
    before = held(tmp_path / "run")
    rows = [
        {"id": "q1", "question": "?", "answers": ["Shields", "yes, South Shields"], "gold_pids": ["p0"]},
        {"id": "q0", "question": "?", "answers": ["knight"], "gold_pids": ["p0"]},
        {"id": "q2", "question": "?", "answers": ["x"]},
    ]
    more = tmp_path / "more.jsonl"
    more.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = read_report(tmp_path / "run", dataset=more)
    assert [row["metrics"]["em"] for row in report.rows] == [0, 1]
    assert [row["metrics"]["recall_all@2"] for row in report.rows] == [1, 0]
    assert [row["metrics"]["ar@2"] for row in report.rows] == [0, 1]  # searched for again in the passages' texts
    more.write_text(json.dumps(rows[0]) + "\n")
    with pytest.raises(UsageError, match="no question 'q0'"):
        read_report(tmp_path / "run", dataset=more, metrics="squad")
    assert held(tmp_path / "run") == before


def test_a_run_of_an_older_version_reports_its_own_metrics_alone(tmp_path: Path) -> None:
    run(tmp_path / "run")
    path = tmp_path / "run" / "predictions.jsonl"
    lacking = ("kind", "gold", "answering", "titles", "cited", "facts", "triples", "answer_rank")
    rows = [
        {name: value for name, value in json.loads(line).items() if name not in lacking}
        for line in path.read_text().splitlines()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_report(tmp_path / "run").metrics["em"].value == 0.5
    with pytest.raises(UsageError, match=r"no kind, gold, answering, titles, cited.*older polyhop"):
        read_report(tmp_path / "run", metrics="squad")


def test_pairs_are_scored_once_all_are_there(tmp_path: Path) -> None:
    def twins(id: str) -> list[Question]:
        gold: dict[str, Any] = {"answers": ("Ridley Scott",), "gold_ids": ("p0",)}
        return [
            Question(id, "Who directed Alien?", **gold, metadata={"answerable": True, "pair": id}),
            Question(f"{id}~", "What is Emma?", metadata={"answerable": False, "pair": id}),
        ]

    def silent(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"answer": "Ridley Scott" if "Alien" in fields["question"] else "unanswerable"}

    pair = twins("a")
    out = tmp_path / "run"
    for questions in (pair[:1], pair):  # the second run goes on where the first ended
        report = polyhop.evaluate(questions, method="one-r", lm=ScriptedLM(silent), retriever=find, out=out)
    assert values(report)["musique.group_answer_sufficiency_f1"] == 1.0
    assert report.metrics["musique.group_answer_sufficiency_f1"].n == 1
    assert values(read_report(out)) == values(report)


# --- lines -------------------------------------------------------------------------------------------------------


def answer(*citations: Citation, text: str = "Ridley Scott", passages: tuple[Passage, ...] = ()) -> Answer:
    trace = Trace(question="?", method="m", steps=())
    evidence = (Evidence(tuple(CORPUS)),)
    return Answer(text, passages=passages, evidence=evidence, citations=citations, trace=trace, usage=Usage())


def test_facts_are_the_cited_sentences() -> None:
    found = prediction(QUESTIONS[0], answer(Citation(1, "p0", 17, 29), Citation(2, "p1"), Citation(3, "p0", 17, 29)), 0)
    assert found["facts"] == [("Alien", 1), ("Ridley Scott", 0)]  # without a span, the sentence like the question
    assert found["cited"] == [["p0", "Alien"], ["p1", "Ridley Scott"]]
    assert prediction(QUESTIONS[0], answer(), 0)["facts"] == []
    bare = [Passage("p0", "Alien", CORPUS[0].text)]
    trace = Trace(question="?", method="m", steps=())
    untold = Answer("x", evidence=(Evidence(tuple(bare)),), citations=(Citation(1, "p0"),), trace=trace, usage=Usage())
    assert prediction(QUESTIONS[0], untold, 0)["facts"] is None


@pytest.mark.parametrize(("start", "number"), [(0, 0), (16, 0), (17, 1), (40, 1)])
def test_a_span_belongs_to_the_sentence_that_begins_before_it(start: int, number: int) -> None:
    assert prediction(QUESTIONS[0], answer(Citation(1, "p0", start, start + 1)), 0)["facts"] == [("Alien", number)]


def test_scoring_a_line_twice_changes_nothing() -> None:
    row = prediction(
        QUESTIONS[0], answer(Citation(1, "p0", 17, 29), passages=tuple(CORPUS)), 0, profiles=list(PROFILES)
    )
    lines, _ = scored([json.loads(json.dumps(row))], list(PROFILES))
    assert next(lines)["metrics"] == row["metrics"]
    assert row["metrics"]["hotpot.joint_em"] == row["metrics"]["ar@2"] == 1.0
    assert row["gold"]["metadata"] == {"type": "bridge"}  # what metrics do not look at is left out


def test_a_line_is_json(tmp_path: Path) -> None:
    run(tmp_path / "run")
    (row, _) = read_predictions(tmp_path / "run" / "predictions.jsonl")
    assert row["gold"] == {"ids": ["p0"], "supporting": [["Alien", 1]], "metadata": {"type": "bridge"}}
    assert (row["titles"], row["answer_rank"], row["facts"], row["triples"]) == (["Alien"], 1, [["Alien", 1]], None)


def test_triples_are_the_graphs_with_its_variables_bound() -> None:
    replies_by_task = {
        "ge.graph": {"triplets": [
            {"head": "Alien", "relation": "director", "tail": "name: #1"},
            {"head": "name: #1", "relation": "place of birth", "tail": "place: #2"},
        ]},
        "ge.subquestion": {"sub_question": "Who?"},
        "ge.triplets": {"triplets": []},
        "ge.answer": {"answer": "x"},
    }  # fmt: skip
    replies = iter([{"sentence": "It was Scott.", "answer": "Ridley Scott"}, *[{"sentence": "?", "answer": ""}] * 40])

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        return next(replies) if task == "ge.subanswer" else replies_by_task[task]

    question = Question("q", "Where?", ("x",), metadata={"evidences": [["Alien", "director", "Ridley Scott"]]})
    report = polyhop.evaluate(
        [question], method="ge", lm=ScriptedLM(reply), retriever=find, filter=False, open_book=False, samples=1
    )
    assert report.rows[0]["triples"] == [("Alien", "director", "Ridley Scott")]  # the other's variable is open
    assert report.metrics["2wiki.evi_em"].value == 1


# --- the command line --------------------------------------------------------------------------------------------


def test_report_metrics_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    run(tmp_path / "run")
    code, out, err = cli("report", tmp_path / "run", "--metrics", "squad,tor,2wiki")
    assert code == 0
    assert "squad.f1" in out
    assert "tor.recall@15" in out
    assert "cover-EM" not in out
    assert "not scored: 2wiki.evi_em, 2wiki.evi_f1, 2wiki.evi_prec, 2wiki.evi_recall: needs evidence triples" in err
    code, _, err = cli("report", tmp_path / "run", "--metrics", "sqad")
    assert code == 2
    assert "did you mean 'squad'" in err


def test_run_metrics_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    command = ("run", "--dataset", "demo", "--method", "one-r", "--limit", "2", "--metrics", "flashrag", "--json")
    code, out, _ = cli(*command)
    assert code == 0
    assert set(json.loads(out)["metrics"]) == {"flashrag.em", "flashrag.f1", "flashrag.acc"}


# --- speed -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_predictions_are_scored_in_seconds() -> None:
    passages = [Passage(f"p{n}", f"Title {n}", "") for n in range(15)]
    predictions = [
        Prediction(
            Question(f"q{n}", "?", (f"the answer {n}", f"alias {n}"), gold_ids=("p3", f"p{n}"), supporting=(("A", 0),)),
            f"it may be answer {n} or not",
            passages=passages,
            answer_rank=1,
            facts=[("A", 0), ("B", 1)],
        )
        for n in range(10_000)
    ]
    begun = time.process_time()
    rows, _ = score(predictions, ["default", "hotpot"])
    assert len(rows) == 10_000
    assert time.process_time() - begun < 8  # about 1 s; of all profiles 4 s
