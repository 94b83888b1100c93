"""ERA-CoT worked by hand: entities, relations stated and inferred, their scores, and what the answer sees."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.errors import SettingError, UsageError
from polyhop.pipeline import Pipeline
from polyhop.types import Passage
from tests.kit.scene import evidence, names, notes
from tests.kit.scripted_run import play

HITS = {"Q": "a b c d e f g h i j k l m n o p q"}
STATED = "(Raft; led by; Heyerdahl)\n(Heyerdahl; born in; Larvik)"
INFERRED = "(Raft; its leader born in; Larvik)\n(Heyerdahl; died in; Larvik)\n(Raft; sailed to; Larvik)"


def script(**said: Any) -> dict[str, Any]:
    usual = {
        "entities": "1. Raft (boat)\n2. Heyerdahl (person)\n3. Larvik (town)",
        "relations": STATED,
        "infer": INFERRED,
        "score": "1. 9\n2. 6\n3. 5.9",
        "answer": "Heyerdahl led it. The answer is Larvik.",
    }
    return {"answer.cot": "The answer is known.", **{f"era_cot.{step}": usual[step] for step in usual}} | {
        f"era_cot.{step}": reply for step, reply in said.items()
    }


def lines_of(triplets: Any) -> list[str]:
    return [f"{each['head']} {each['relation']} {each['tail']}" for each in triplets]


def steps(model: Any) -> list[str]:
    return [call.task.removeprefix("era_cot.") for call in model.calls]


KEPT = ["Raft led by Heyerdahl", "Heyerdahl born in Larvik", "Raft its leader born in Larvik"]


# --- the five steps of §3 ----------------------------------------------------------------------------------------


async def test_the_five_steps_and_what_each_of_them_sees() -> None:
    answer, model = await play("era-cot", script(), hits=HITS, latency=0.01)
    assert steps(model) == ["entities", "relations", "infer", "score", "answer"]
    fields = [dict(call.fields) for call in model.calls]
    assert {(each.pop("question"), names(each.pop("passages"))) for each in fields} == {("Q", "a b c d e")}
    entities = ["Raft (boat)", "Heyerdahl (person)", "Larvik (town)"]
    assert fields[0] == {}
    assert fields[1] == {"entities": entities}
    assert (fields[2]["entities"], fields[2]["count"], lines_of(fields[2]["triplets"])) == (entities, 5, KEPT[:2])
    assert lines_of(fields[3]["triplets"]) == [KEPT[2], "Heyerdahl died in Larvik", "Raft sailed to Larvik"]
    assert fields[4]["entities"] == entities
    assert lines_of(fields[4]["triplets"]) == [*KEPT, "Heyerdahl died in Larvik"]
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Larvik", True, 5)
    assert evidence(answer) == [("a b c d e", "Larvik")]
    assert names(answer.passages) == "a b c d e f g h i j k l m n o"
    assert answer.statistics == {"entities": 3, "stated": 2, "inferred": 3, "kept": 2}
    ((name, data),) = notes(answer)
    assert (name, len(data["stated"]), len(data["kept"])) == ("relations", 2, 2)
    assert [call.final for call in answer.trace.calls] == [False] * 4 + [True]


@pytest.mark.parametrize(("keep_from", "kept"), [(6, 2), (6.5, 1), (9, 1), (9.5, 0), (0, 3), (5.9, 3)])
async def test_a_relation_is_kept_from_its_score_up(keep_from: float, kept: int) -> None:
    answer, model = await play("era-cot", script(), hits=HITS, keep_from=keep_from)
    assert len(model.calls[-1].fields["triplets"]) == 2 + kept
    assert answer.statistics["kept"] == kept


async def test_without_discrimination_all_that_is_inferred_is_kept() -> None:
    answer, model = await play("era-cot", script(), hits=HITS, discriminate=False)
    assert (steps(model), answer.usage.layers) == (["entities", "relations", "infer", "answer"], 4)
    assert len(model.calls[-1].fields["triplets"]) == 5


async def test_without_the_implicit_only_what_is_stated_is_shown() -> None:
    answer, model = await play("era-cot", script(), hits=HITS, implicit=False)
    assert (steps(model), answer.usage.layers) == (["entities", "relations", "answer"], 3)
    assert lines_of(model.calls[-1].fields["triplets"]) == KEPT[:2]


async def test_what_is_stated_is_not_inferred_anew() -> None:
    said = script(infer=f"{STATED}\n(raft; LED BY; heyerdahl)\n(Raft; kind; boat)\n(Raft; kind; boat)", score="1. 10")
    answer, model = await play("era-cot", said, hits=HITS)
    assert lines_of(model.calls[3].fields["triplets"]) == ["Raft kind boat"]
    assert answer.statistics == {"entities": 3, "stated": 2, "inferred": 1, "kept": 1}


# --- what may go wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "asked", "shown"),
    [
        ({"relations": "none"}, "entities relations answer", []),
        ({"infer": "none"}, "entities relations infer answer", KEPT[:2]),
        ({"infer": STATED}, "entities relations infer answer", KEPT[:2]),
        ({"entities": ""}, "entities entities relations infer score answer", [*KEPT, "Heyerdahl died in Larvik"]),
        ({"score": "Hm."}, "entities relations infer score score answer", KEPT[:2]),  # nothing scored is kept
        ({"score": "2. 10"}, "entities relations infer score answer", [*KEPT[:2], "Heyerdahl died in Larvik"]),
        ({"score": {"scores": [10]}}, "entities relations infer score answer", KEPT),
        ({"score": {"scores": [7, 1, 1, 9, 9]}}, "entities relations infer score answer", KEPT),
    ],
)
async def test_a_step_that_gives_nothing_is_passed_over(said: dict[str, Any], asked: str, shown: list[str]) -> None:
    answer, model = await play("era-cot", script(**said), hits=HITS)
    assert steps(model) == asked.split()
    assert lines_of(model.calls[-1].fields["triplets"]) == shown
    assert answer.text == "Larvik"


async def test_without_hits_the_answer_is_closed_book() -> None:
    answer, model = await play("era-cot", script(), hits={})
    assert ([call.task for call in model.calls], answer.text, answer.supported) == (["answer.cot"], "known", False)


# --- budgets and settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maximum", "asked", "shown"),
    [
        (1, "answer", []),
        (2, "entities answer", []),
        (3, "entities relations answer", KEPT[:2]),
        (4, "entities relations infer answer", KEPT[:2]),  # not scored is not kept
        (5, "entities relations infer score answer", [*KEPT, "Heyerdahl died in Larvik"]),
    ],
)
async def test_the_budget_leaves_the_answer(maximum: int, asked: str, shown: list[str]) -> None:
    answer, model = await play("era-cot", script(), hits=HITS, max_calls=maximum)
    assert steps(model) == asked.split()
    assert lines_of(model.calls[-1].fields["triplets"]) == shown
    assert answer.text == "Larvik"


@pytest.mark.parametrize("count", [0, 2])
async def test_k_rank_limit_shots_and_relations_of_a_pair(count: int) -> None:
    answer, model = await play("era-cot", script(), hits=HITS, k=2, rank_limit=3, shots=count, per_pair=1)
    assert {names(call.fields["passages"]) for call in model.calls} == {"a b"}
    assert names(answer.passages) == "a b c"
    assert model.calls[2].messages[-1]["content"].endswith("Maximum per pair: 1")
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls} == {count}


def test_it_needs_a_retriever_and_a_score_within_its_scale() -> None:
    with pytest.raises(UsageError, match="corpus"):
        Pipeline(method="era-cot")
    with pytest.raises(SettingError, match="keep_from"):
        Pipeline([Passage("1", "A", "B")], "era-cot", keep_from=11)


async def test_pocket_infers_what_two_facts_come_to() -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
    ]
    async with Pipeline(corpus, "era-cot", lm="pocket") as qa:
        answer = await qa.aask("Where was the director of Alien born?")
    assert answer.text == "South Shields"
    assert answer.statistics["kept"] == answer.statistics["inferred"] >= 1
    ((_, data),) = notes(answer)
    assert any("born" in relation or "birth place of its director" in relation for relation in data["kept"])
