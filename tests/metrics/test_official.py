"""HotpotQA's, 2WikiMultiHopQA's and MuSiQue's scores beyond the answer, as their official scripts have them.

The values of ``SCRIPTED`` are what hotpot_evaluate_v1.py and 2wikimultihop_evaluate_v1.1.py give for these predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.metrics import Prediction, score
from polyhop.metrics.facts import Fact, Triple, fact_scores, joint, triple_scores
from polyhop.types import Passage, Question

GOLD_FACTS = (("Alien (film)", 0), ("Ridley Scott", 2))
GOLD_TRIPLES = [["Alien", "director", "Ridley Scott"], ["Ridley Scott", "place of birth", "South Shields"]]


def predicted(
    text: str = "South Shields",
    facts: Sequence[Fact] | None = None,
    triples: Sequence[Triple] | None = None,
    **gold: Any,
) -> Prediction:
    given = {"answers": ("South Shields",), "supporting": GOLD_FACTS, "metadata": {"evidences": GOLD_TRIPLES}, **gold}
    return Prediction(
        Question("q", "Where was the director of Alien born?", **given), text, facts=facts, triples=triples
    )


def scores_of(profile: str, *predictions: Prediction) -> list[dict[str, float]]:
    rows, _ = score(predictions, [profile])
    return [{name.removeprefix(f"{profile}."): value for name, value in row.items()} for row in rows]


SCRIPTED = [
    # answer, facts, then EM, F1, precision, recall of answer, facts, both
    ("South Shields", GOLD_FACTS, (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
    ("the South Shields.", GOLD_FACTS[::-1], (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
    ("Shields", GOLD_FACTS[:1], (0, 2 / 3, 1, 0.5), (0, 2 / 3, 1, 0.5), (0, 0.4, 1, 0.25)),
    ("South Shields", (), (1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0)),
    ("South Shields", [*GOLD_FACTS, ("Jaws", 0)], (1, 1, 1, 1), (0, 0.8, 2 / 3, 1), (0, 0.8, 2 / 3, 1)),
    ("South Shields", [("Alien (film)", 0)] * 3, (1, 1, 1, 1), (0, 2 / 3, 1, 0.5), (0, 2 / 3, 1, 0.5)),  # once
    ("London", GOLD_FACTS, (0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 0, 0)),
    ("in South Shields, England", [("Ridley Scott", 1)], (0, 2 / 3, 0.5, 1), (0, 0, 0, 0), (0, 0, 0, 0)),
]
NAMES = ("em", "f1", "prec", "recall")


@pytest.mark.parametrize(("text", "facts", "answer", "support", "both"), SCRIPTED)
def test_hotpotqa_scores(
    text: str, facts: Sequence[Fact], answer: Sequence[float], support: Sequence[float], both: Sequence[float]
) -> None:
    (row,) = scores_of("hotpot", predicted(text, facts))
    parts = {"": answer, "sp_": support, "joint_": both}
    assert row == pytest.approx(
        {f"{part}{name}": value for part, values in parts.items() for name, value in zip(NAMES, values, strict=True)}
    )
    (wiki,) = scores_of("2wiki", predicted(text, facts, [("Alien", "director", "Ridley Scott")]))
    assert {name: wiki[name] for name in row if not name.startswith("joint_")} == pytest.approx(
        {name: value for name, value in row.items() if not name.startswith("joint_")}
    )
    assert [wiki["evi_prec"], wiki["evi_recall"]] == [1, 0.5]
    assert wiki["joint_recall"] == pytest.approx(both[3] * 0.5)


def test_only_2wiki_compares_titles_in_lower_case() -> None:
    small = [(title.lower(), number) for title, number in GOLD_FACTS]
    assert scores_of("hotpot", predicted(facts=small))[0]["sp_em"] == 0
    assert scores_of("2wiki", predicted(facts=small))[0]["sp_em"] == 1


def test_a_prediction_without_facts_scores_0_if_others_have_them() -> None:
    first, second = scores_of("hotpot", predicted(facts=GOLD_FACTS), predicted(facts=None))
    assert (first["joint_f1"], second["joint_f1"], second["em"]) == (1, 0, 1)
    (alone,) = scores_of("hotpot", predicted(facts=None))
    assert set(alone) == set(NAMES)  # a corpus without sentences: no score, not a score of 0


@pytest.mark.parametrize(
    ("triples", "em", "f1"),
    [
        ([("Alien", "director", "Ridley Scott"), ("ridley scott.", "Place of  Birth", "SOUTH SHIELDS")], 1, 1),
        ([("Alien", "director", "Ridley Scott")], 0, 2 / 3),
        ([("The Alien", "director", "Ridley Scott")], 0, 0),  # an article counts here
        ([("Ridley Scott", "director", "Alien")], 0, 0),  # so does the direction
        ([], 0, 0),
    ],
)
def test_evidence_triples(triples: list[Triple], em: float, f1: float) -> None:
    (row,) = scores_of("2wiki", predicted(triples=triples, facts=GOLD_FACTS))
    assert [row["evi_em"], row["evi_f1"]] == pytest.approx([em, f1])
    assert row["joint_f1"] == pytest.approx(row["evi_f1"])


def test_entities_of_triples_match_by_alias() -> None:
    gold = [("Alien", "director", "Ridley Scott")]
    named: list[Triple] = [("ALIEN", "director", "Sir Ridley")]
    assert triple_scores(named, gold).em == 0
    assert triple_scores(named, gold, {"Ridley Scott": ["R. Scott", "Sir Ridley"]}).em == 1
    aliases = {"evidences": gold, "entity_aliases": {"Ridley Scott": ["Sir Ridley"]}}
    assert scores_of("2wiki", predicted(triples=named, metadata=aliases))[0]["evi_em"] == 1


def test_the_best_alias_counts_for_each_measure_of_the_answer() -> None:
    (row,) = scores_of("hotpot", predicted("South", answers=("South Shields", "South of Alien town")))
    assert [row["prec"], row["recall"], row["f1"]] == pytest.approx([1, 0.5, 2 / 3])


FACTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=5)


@given(FACTS, FACTS)
def test_fact_scores_equal_a_plain_count(predicted: list[Fact], gold: list[Fact]) -> None:
    right = [fact for fact in set(predicted) if fact in gold]
    parts = fact_scores(predicted, gold)
    assert parts.precision == (len(right) / len(set(predicted)) if predicted else 0)
    assert parts.recall == (len(right) / len(set(gold)) if gold else 0)
    assert parts.em == (set(predicted) == set(gold))
    assert joint(parts, parts).em == parts.em
    assert joint(parts).f1 == pytest.approx(parts.f1)


# --- MuSiQue -----------------------------------------------------------------------------------------------------


def musique(id: str, text: str, cited: str = "", *, answerable: bool = True, pair: str | None = "1") -> Prediction:
    metadata: dict[str, Any] = {"answerable": answerable, "pair": pair}
    gold = ("a", "b") if answerable else ()
    question = Question(id, "?", ("Rome", "Roma") if answerable else (), gold_ids=gold, metadata=metadata)
    return Prediction(question, text, cited=[Passage(name, "T", "") for name in cited])


def test_musique_answerable() -> None:
    rows, missing = score([musique("1", "Roma", "ab"), musique("2", "in Rome", "bx", pair="2")], ["musique"])
    assert rows[0] == {"musique.answer_em": 1, "musique.answer_f1": 1, "musique.support_f1": 1}
    assert rows[1] == {
        "musique.answer_em": 0, "musique.answer_f1": pytest.approx(2 / 3), "musique.support_f1": 0.5,
    }  # fmt: skip
    assert set(missing) == {
        "musique.answerability", "musique.group_answer_sufficiency_f1", "musique.group_support_sufficiency_f1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "twin", "group"),
    [
        ("in Rome", "", 2 / 3),
        ("in Rome", "Unanswerable", 2 / 3),
        ("in Rome", "Milan", 0),
        ("", "", 0),
        ("", "Milan", 0),
    ],
)
def test_musique_full_scores_pairs(answer: str, twin: str, group: float) -> None:
    first, second = scores_of("musique", musique("1", answer, "ab"), musique("1~", twin, answerable=False))
    assert first["group_answer_sufficiency_f1"] == pytest.approx(group)
    assert first["group_support_sufficiency_f1"] == float(group > 0)
    assert second == {"answerability": float(twin != "Milan")}
    assert first["answerability"] == float(answer != "")
    assert first["answer_f1"] == pytest.approx(2 / 3 if answer else 0)


def test_musique_full_is_as_the_official_script_has_it() -> None:
    """All values but that of ``answerability``, which is ours, are those of evaluate_v1.0.py."""
    said = [
        ("Roma", "ab", ""), ("in Rome", "bx", "Milan"), ("", "", ""), ("the Rome", "a", "unanswerable"),
        ("Paris", "abx", ""), ("Rome", "ab", "Rome"),
    ]  # fmt: skip
    full = []
    for i, (text, cited, twin) in enumerate(said):
        full.append(musique(f"{i}~", twin, answerable=False, pair=str(i)))  # the twin may come first
        full.append(musique(str(i), text, cited, pair=str(i)))
    rows = scores_of("musique", *full)
    mean = {name: [row[name] for row in rows if name in row] for name in set().union(*rows)}
    assert {name: (round(sum(values) / len(values), 3), len(values)) for name, values in mean.items()} == {
        "answer_f1": (0.611, 6),
        "answer_em": (0.5, 6),
        "support_f1": (0.661, 6),
        "group_answer_sufficiency_f1": (0.333, 6),
        "group_support_sufficiency_f1": (0.411, 6),
        "answerability": (0.75, 12),
    }


def test_a_question_that_says_nothing_of_answers_is_not_judged() -> None:
    unknown = Prediction(Question("1", "?"), "Rome")
    assert scores_of("musique", musique("2", "", answerable=False), unknown) == [{"answerability": 1.0}, {}]


def test_squad_wants_no_answer_to_an_unanswerable_question() -> None:
    rows = scores_of("squad", musique("1", "", answerable=False), musique("2", "Rome", answerable=False))
    assert rows == [{"em": 1, "f1": 1}, {"em": 0, "f1": 0}]


def test_a_question_without_its_twin_has_no_group_score() -> None:
    first, second = scores_of("musique", musique("1", "Rome"), musique("2~", "", answerable=False, pair="2"))
    assert "answerability" in first
    assert not any(name.startswith("group") for name in (*first, *second))


def test_musique_support_is_by_title_if_gold_has_no_ids() -> None:
    question = Question("1", "?", ("Rome",), gold_titles=("Rome", "Italy"))
    cited = [Passage("1", "Rome", ""), Passage("2", "Rome", "")]  # two paragraphs of one title are one
    assert scores_of("musique", Prediction(question, "Rome", cited=cited))[0]["support_f1"] == pytest.approx(2 / 3)
