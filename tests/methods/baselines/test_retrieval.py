"""Retrieval alone as a method: one search, no call, a ranking, and a report without metrics of an answer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

import polyhop
from polyhop import Passage, Pipeline, Question, ScriptedLM
from polyhop.cli.tables import print_report
from polyhop.data.corpora import open_corpus
from polyhop.errors import SettingError, UsageError
from polyhop.evaluation.compare import compare
from polyhop.evaluation.figures import distinct, label
from polyhop.methods.registry import methods
from polyhop.retrieval import build_index, open_plain_retriever
from polyhop.trace import Searched
from tests.retrieval.test_tfidf import cosines

NAMES = ("bm25", "tfidf", "tfidf-bm25")
WORDS = ("kiln", "harbour", "violet", "drummer", "oboe", "zinc")
CORPUS = [
    Passage(f"p{n:02}", f"Town {n}", " ".join(WORDS[(n * step) % 6] for step in range(1, 4 + n % 5))) for n in range(60)
]
QUESTION = "Which violet kiln stands in the harbour of Town 7?"


@pytest.mark.parametrize("name", NAMES)
async def test_the_question_is_searched_once_by_the_retriever_of_that_name(tmp_path: Path, name: str) -> None:
    index = build_index(open_corpus(CORPUS), tmp_path / "index")
    lm = ScriptedLM({})
    async with Pipeline(index, name, lm) as qa:
        answer = await qa.aask(QUESTION)
    assert list(answer.passages) == open_plain_retriever(name, index).search(QUESTION, 20)
    assert len(answer.passages) == 20
    (step,) = answer.trace.steps
    assert isinstance(step, Searched)
    assert (step.query, step.k) == (QUESTION, 20)
    assert (answer.text, answer.evidence, answer.supported, answer.confidence) == ("", (), False, None)
    assert not lm.calls


@pytest.mark.parametrize("name", NAMES)
async def test_the_rank_limit_is_what_is_ranked(name: str) -> None:
    async with Pipeline(CORPUS, name, rank_limit=3) as qa:
        assert len((await qa.aask(QUESTION)).passages) == 3
    with pytest.raises(SettingError, match="rank_limit"):
        Pipeline(CORPUS, name, rank_limit=0)


def test_the_example_of_its_page() -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
        Passage("3", "Lake Balaton", "Lake Balaton is a lake in Hungary."),
    ]
    answer = polyhop.ask("Where was the director of Alien born?", corpus=corpus, method="tfidf-bm25")
    assert {passage.id for passage in answer.passages} == {"1", "2"}


@pytest.mark.parametrize("name", NAMES)
def test_another_retriever_would_make_it_another_method(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is a retriever itself: leave out the retriever "):
        Pipeline(CORPUS, name, retriever="tfidf" if name == "bm25" else "bm25")
    Pipeline(CORPUS, name, retriever=name).close()
    if name != "bm25":
        Pipeline(CORPUS, name, retriever=f"{name}:bigram").close()  # of the same kind
    answer = polyhop.ask("Where?", method=name, retriever=lambda query, k: CORPUS[:k])  # one of the caller's own serves
    assert list(answer.passages) == CORPUS[:20]


QUESTIONS = [
    Question("q1", "Which violet kiln?", ("kiln",), gold_ids=("p01", "p02"), metadata={"type": "bridge"}),
    Question("q2", "Is it the oboe?", ("yes",), gold_ids=("p03",), metadata={"type": "comparison"}),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_reports_the_ranking_alone(tmp_path: Path, name: str) -> None:
    report = polyhop.evaluate(QUESTIONS, CORPUS, name, out=tmp_path / "run")
    kinds = ("recall_mean", "recall_all", "recall_any", "ar", "ar_comparison")
    assert set(report.metrics) == {f"{kind}@{k}" for kind in kinds for k in (2, 5, 10, 15, 20)}
    assert (report.metrics["recall_all@20"].n, report.metrics["ar@20"].n) == (2, 1)
    assert report.lm == json.loads((tmp_path / "run" / "run.json").read_text())["lm"] == "no model"
    assert report.usage.calls == report.usage.layers == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()]
    assert [len(row["passages"]) for row in rows] == [20, 20]
    again = polyhop.evaluate(QUESTIONS, CORPUS, name, out=tmp_path / "run")
    assert again.to_dict()["metrics"] == report.to_dict()["metrics"]


def test_a_ranking_is_compared_with_an_answering_run_on_what_both_have() -> None:
    ranked = polyhop.evaluate(QUESTIONS, CORPUS, "bm25")
    answered = polyhop.evaluate(QUESTIONS, CORPUS, "one-r", ScriptedLM(lambda task, fields: {"answer": "kiln"}))
    assert answered.metrics["em"].value == 0.5
    found = compare(ranked, answered)
    assert set(found.metrics) == set(ranked.metrics)
    assert found.metrics["ar@20"].n == 1  # the question that has a span for its answer
    assert (found.flipped, found.misled) == ([], None)
    closed = polyhop.evaluate(QUESTIONS, CORPUS, "direct", ScriptedLM(lambda task, fields: {"answer": "kiln"}))
    assert compare(closed, ranked).misled is None


def test_a_table_shows_few_metrics_of_passages_and_json_all() -> None:
    report = polyhop.evaluate(QUESTIONS, CORPUS, "bm25")
    text = io.StringIO()
    print_report(report, Console(file=text, width=100))
    shown = [line.split("  ")[0] for line in text.getvalue().splitlines() if "@" in line]
    assert shown == [
        "recall@2 mean",
        "R@2 (all gold)",
        "recall@5 mean",
        "R@5 (all gold)",
        "R@10 (all gold)",
        "recall@15 mean",
        "R@20 (all gold)",
        "AR@2 (answer)",
        "AR@10 (answer)",
        "AR@20 (answer)",
    ]
    assert [label(name) for name in distinct({"run": report})] == shown
    assert len(report.to_dict()["metrics"]) == 25


def test_all_other_methods_answer_and_say_so() -> None:
    ranking = {name for name, method in methods().items() if not method.answers(method.resolve({}))}
    assert ranking == set(NAMES)


# --- the links that PromptRank follows ----------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], [Passage("far", "Elsewhere", "zinc zinc zinc oboe kiln")]])
async def test_link_targets_are_compared_by_tfidf_fitted_on_them_alone(others: list[Passage]) -> None:
    """PromptRank prunes a page's links so: only these targets decide how rare a word is, stop words count nothing."""
    texts = [["zinc", "kiln"], ["zinc", "oboe", "oboe"], ["zinc"], ["violet", "harbour"]]
    question = ["zinc", "oboe", "violet", "drummer"]
    found: list[list[float]] = []
    async with Pipeline([*CORPUS, *others], "bm25") as qa:
        from polyhop.engine.run import Run

        run = Run(qa.engine, "Q", "by hand", "qa")
        fill: Callable[[list[str]], str] = lambda words: "which the " + " of the ".join(words) + " is"  # noqa: E731
        found.append(run.similarity(fill(question), [fill(text) for text in texts]))
    assert found[0] == pytest.approx(cosines(question, texts), abs=1e-9)
    assert sorted(range(4), key=lambda at: -found[0][at])[:3] == [1, 3, 2]
