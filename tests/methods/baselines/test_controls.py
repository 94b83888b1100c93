"""The controls, step by step; and that no other method is given a question's gold or contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import UsageError
from polyhop.evaluation.gold import with_gold
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.runs import open_index
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import methods
from polyhop.pipeline import Pipeline
from polyhop.types import NOTHING, Given, Gold, Passage, Question
from tests.data.test_formats import HOTPOTQA, array
from tests.kit.random_world import World
from tests.kit.scene import names, notes, passage

A, B, C = (passage(name) for name in "abc")
DATASET = [
    Question("1", "Who is a?", ("a1",), gold_ids=("a", "b")),
    Question("2", "Who is b?", ("b1",), gold_titles=("B",)),
    Question("3", "Who is lost?", ("x",), gold_titles=("C", "Lost")),
    Question("4", "Who is nobody?", ("x",), gold_ids=("z",)),
]


def seen(model: ScriptedLM) -> list[tuple[str, str]]:
    """Every call: its task, and the passages that it was shown."""
    return [(call.task, names(call.fields.get("passages", ()))) for call in model.calls]


def reader() -> ScriptedLM:
    return ScriptedLM(lambda task, fields: {"rationale": "so", "answer": "a1"})


@pytest.mark.parametrize(("style", "task"), [("direct", "answer.read"), ("cot", "answer.read_cot")])
def test_gold_reads_the_gold_passages_by_id_or_title(tmp_path: Path, style: str, task: str) -> None:
    model = reader()
    report = evaluate(DATASET, [A, B, C], "gold", model, style=style, out=tmp_path / "run", concurrency=1)
    assert seen(model) == [(task, "a b"), (task, "b"), (task, "c")]
    rows = {row["id"]: row for row in report.rows}
    assert [rows[id]["passages"] for id in "1234"] == [["a", "b"], ["b"], ["c"], []]
    assert [rows[id]["statistics"]["gold missing"] for id in "1234"] == [0, 0, 1, 1]
    assert (rows["1"]["metrics"]["em"], rows["4"]["abstained"], rows["4"]["metrics"]["em"]) == (1.0, True, 0.0)
    again = evaluate(DATASET, [A, B, C], "gold", model, style=style, out=tmp_path / "run", concurrency=1)
    assert len(seen(model)) == 3  # resumed: nothing is asked again
    assert [*again.rows] == [*report.rows]


async def test_the_trace_names_the_gold_that_is_missing() -> None:
    asked = Question("3", "Who is lost?", gold=Gold((C,), ("Lost",)))
    async with Pipeline(None, "gold", reader()) as pipeline:
        answer = await pipeline.aask(asked)
    assert notes(answer) == [("gold missing", {"names": ["Lost"]})]
    assert answer.evidence


def test_all_passages_with_a_gold_title_are_gold() -> None:
    twice = [Passage("1", "B", "one"), Passage("2", "B", "two"), Passage("3", "C", "three")]
    (known,) = with_gold([DATASET[1]], open_index(twice))
    assert known.gold == Gold((twice[0], twice[1]))
    own = Question("5", "Who?", gold_titles=("B",), contexts=(twice[1],))
    assert with_gold([own], open_index(twice))[0].gold == Gold((twice[1],))  # its own contexts count first


def test_without_any_gold_in_the_corpus_nothing_is_asked() -> None:
    model = reader()
    with pytest.raises(UsageError, match="no gold passage of any question is in the corpus"):
        evaluate([DATASET[3]], [A], "gold", model)
    assert not model.calls


def test_gold_answers_only_questions_of_a_dataset() -> None:
    with (
        Pipeline([A], "gold", reader()) as pipeline,
        pytest.raises(UsageError, match="gold reads gold passages: it answers the questions of a dataset"),
    ):
        pipeline.ask("Who is a?")


def test_full_context_reads_a_small_corpus_whole() -> None:
    model = reader()
    with Pipeline([A, B, C], "full-context", model) as pipeline:
        answer = pipeline.ask("Who is a?")
    assert seen(model) == [("answer.read", "a b c")]
    assert (answer.text, names(answer.passages), answer.trace.searches) == ("a1", "a b c", ())
    assert answer.statistics["passages read"] == 3


def test_full_context_refuses_a_corpus_that_does_not_fit() -> None:
    model = reader()
    with (
        Pipeline([passage("a", 400), passage("b", 400)], "full-context", model, context_tokens=500) as pipeline,
        pytest.raises(UsageError, match=r"2 passages of it fill a prompt of 500 tokens.* --corpus contexts"),
    ):
        pipeline.ask("Who is a?")
    with Pipeline(None, "full-context", model) as pipeline, pytest.raises(UsageError, match="give it one"):
        pipeline.ask("Who is a?")
    assert not model.calls


def test_full_context_reads_a_question_s_own_contexts_and_notes_what_it_cuts() -> None:
    model, asked = reader(), Question("1", "Who is a?", contexts=(passage("a", 60), passage("b", 900), C))
    with Pipeline([A, B, C], "full-context", model, shots=0, context_tokens=600) as pipeline:
        answer = pipeline.ask(asked)
    assert seen(model) == [("answer.read", "a b")]
    assert notes(answer) == [("left out", {"shortened": ["B"], "passages": ["C"]})]


@pytest.mark.parametrize("method", [name for name, known in methods().items() if known.family != "control"])
async def test_no_other_method_is_given_a_question_s_data(method: str) -> None:
    """Its needs name none of it, and neither gold nor contexts that were not found reach a prompt or a search."""
    world = World.random(3)
    settings: dict[str, Any] = {"links": 0} if "links" in methods()[method].settings else {}
    assert not {"gold", "corpus"} & set(methods()[method].needs(methods()[method].resolve(settings)))
    secret = Passage("secret", "SECRET", "The SECRET stands here.")
    asked = Question(
        "SECRET", world.question, ("SECRET",), gold_titles=("SECRET",), steps=({"answer": "SECRET"},),
        metadata={"type": "SECRET"}, gold=Gold((secret,)),
    )  # fmt: skip
    given: list[Given] = []
    model = ScriptedLM(world.script, score=lambda request: -1.0)
    searches: list[str] = []

    def search(query: str, k: int) -> list[Passage]:
        searches.append(query)
        return world.search(query, k)

    try:
        pipeline = Pipeline(method=method, lm=model, retriever=search, reader=world.read, **settings)
    except UsageError:
        return  # it needs a model that this one is not
    function = pipeline.method.function

    async def spied(question: str, run: Any, **kept: Any) -> Any:
        given.append(run.given)
        assert not [name for name, value in vars(run).items() if "SECRET" in repr(value)]
        return await function(question, run, **kept)

    object.__setattr__(pipeline, "method", replace(pipeline.method, function=spied))
    async with pipeline:
        await pipeline.aask(asked)
    assert given == [NOTHING]
    assert "SECRET" not in repr([call.messages for call in model.calls]) + repr(searches)


# --- the distractor setting


def records() -> list[Mapping[str, Any]]:
    other = {
        "_id": "other",
        "question": "Which city is in Norway?",
        "answer": "Bergen",
        "supporting_facts": [["Bergen", 0]],
        "context": [["Bergen", ["Bergen is a city in Norway."]], ["Emma", ["Emma is a novel about a city."]]],
    }
    return [HOTPOTQA, other]


@pytest.mark.parametrize("retriever", ["bm25", "tfidf", "hybrid:rrf:bm25+tfidf", "dense:pocket"])
def test_a_question_is_answered_from_its_own_contexts(tmp_path: Path, retriever: str) -> None:
    path = array(tmp_path / "dev.json", *records())
    model = ScriptedLM(lambda task, fields: {"answer": "Bergen"})
    report = evaluate(path, "contexts", "one-r", model, retriever=retriever, out=tmp_path / "run", concurrency=1)
    first, second = report.rows
    assert set(first["titles"]) <= {"Emma (novel)", "Oslo"}
    assert set(second["titles"]) <= {"Bergen", "Emma"}
    assert second["titles"][0] == "Bergen"
    assert second["gold"]["ids"] == [second["passages"][0]]
    assert second["metrics"]["recall_all@5"] == 1.0


def test_links_stay_within_the_contexts(tmp_path: Path) -> None:
    linked = [
        {**record, "context": [*record["context"], [f"Town {i}", [f"Town {i} is near Oslo and Bergen."]]]}
        for i, record in enumerate(records())
    ]
    report = evaluate(array(tmp_path / "dev.json", *linked), "contexts", "hops", "pocket")
    assert set(report.rows[0]["titles"]) <= {"Emma (novel)", "Oslo", "Town 0"}
    assert set(report.rows[1]["titles"]) <= {"Bergen", "Emma", "Town 1"}


def test_controls_in_the_distractor_setting(tmp_path: Path) -> None:
    path, model = array(tmp_path / "dev.json", *records()), reader()
    evaluate(path, "contexts", "full-context", model, concurrency=1)
    assert [len(call.fields["passages"]) for call in model.calls] == [2, 2]
    model = reader()
    evaluate(path, "contexts", "gold", model, concurrency=1)
    titles = [[passage.title for passage in call.fields["passages"]] for call in model.calls]
    assert titles == [["Emma (novel)"], ["Bergen"]]  # the first record lacks one of its two
