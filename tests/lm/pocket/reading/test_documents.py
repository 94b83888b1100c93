"""Answers from own documents."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np
import pytest

from polyhop.lm.pocket.reading import documents
from polyhop.lm.pocket.reading.documents import (
    answers_of_documents,
    described,
    read_singly,
    read_step,
    read_unverified,
)
from polyhop.lm.pocket.reading.fitting import fit
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.weighing import best_answer
from polyhop.types import Passage


def part(title: str, text: str) -> Passage:
    """A part of a file."""
    return Passage(title, title, text, metadata={"source": f"{title}.md"})


KEYS = part("Log", "The key was found by Ida Kuhn on Monday.")
STAFF = part("Staff", "Ida Kuhn lives in Larn. Tom Reed lives in Ostwik.")
QUESTION = "Where does the nurse who found the key live?"


def test_a_described_person_is_found_first() -> None:
    assert described(QUESTION, [KEYS]) == "Where does Ida Kuhn live?"
    assert described("Where does Ida Kuhn live?", [KEYS]) is None
    assert described(QUESTION, []) is None
    assert best_answer(QUESTION, [KEYS, STAFF])[0] == best_answer(QUESTION, [STAFF, KEYS])[0] == "Larn"


def test_what_a_question_is_about_is_no_answer() -> None:
    names = {found.answer for found in read_singly("Where does Ida Kuhn live?", [STAFF], known=["Ida Kuhn"])}
    assert names
    assert not any("Kuhn" in name for name in names)


def test_a_step_is_read_off_the_passage_that_tells_it() -> None:
    assert read_step("Which nurse found the key?", [STAFF, KEYS]) == ("Ida Kuhn", KEYS)
    assert read_step("Where does Ida Kuhn live?", [KEYS, STAFF], known=["Ida Kuhn"]) == ("Larn", STAFF)


def test_nothing_is_read_off_nothing() -> None:
    assert answers_of_documents(QUESTION, []) == []
    assert read_step(QUESTION, []) is None


def test_a_passage_on_something_else_weighs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    boat, tram = part("Boat", "A ride takes 40 minutes."), part("Tram", "A ride takes 12 minutes.")

    def weights(**relevances: float) -> dict[str, float]:
        monkeypatch.setattr(documents, "relevance", lambda reading: relevances[reading.pages[0].title])
        found = read_unverified("How many minutes does a ride take?", [boat, tram])
        return {each.passage.title: each.weight for each in reversed(found)}

    alike, other, little = weights(Boat=0.5, Tram=0.5), weights(Boat=0.8, Tram=0.4), weights(Boat=0.2, Tram=0.1)
    assert other["Boat"] == alike["Boat"]
    assert other["Tram"] == pytest.approx(alike["Tram"] / 8)
    assert little == pytest.approx(other)


def test_an_answer_in_a_sentence_near_the_question_weighs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    fees = part("Fees", "A guest pays 9 crowns. A member pays 4 crowns.")
    near = {"Fees A guest pays 9 crowns.": 0.2, "Fees A member pays 4 crowns.": 0.7}

    def weights(nearness: float) -> dict[str, float]:
        monkeypatch.setattr(documents, "_NEARNESS", nearness)
        found = read_unverified("What does somebody who has joined pay?", [fees])
        return {each.answer: each.weight for each in found}

    def embedded(texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array([near.get(text, 1.0)], np.float32) for text in texts]

    monkeypatch.setattr(documents, "embed", embedded)
    without, beside = weights(0.0), weights(2.0)
    assert beside["4 crowns"] == pytest.approx(without["4 crowns"])
    assert beside["9 crowns"] == pytest.approx(without["9 crowns"] * exp(-1.0))


def test_an_answer_weighs_by_how_likely_its_passage_contains_one(monkeypatch: pytest.MonkeyPatch) -> None:
    boat, tram = part("Boat", "A ride takes 40 minutes."), part("Tram", "A ride takes 12 minutes.")
    power = documents._OF_DOCUMENTS.contains

    def weights(**contained: float) -> dict[str, float]:
        monkeypatch.setattr(documents, "answerable", lambda reading: contained[reading.pages[0].title])
        found = read_unverified("How many minutes does a ride take?", [boat, tram])
        return {each.passage.title: each.weight for each in found}

    high, low = weights(Boat=0.8, Tram=0.1), weights(Boat=0.2, Tram=0.1)
    assert high["Boat"] / 4**power == pytest.approx(low["Boat"])
    assert high["Tram"] == pytest.approx(low["Tram"])


def test_a_new_value_is_preferred() -> None:
    old = part("List", "The boat trip costs 12 crowns.")
    new = part("Notice", "The boat trip now costs 15 crowns.")
    assert "15" in (best_answer("How much does the boat trip cost?", [old, new])[0] or "")
    assert "15" in (best_answer("How much does the boat trip cost?", [new, old])[0] or "")


def test_a_number_may_be_said_in_words() -> None:
    parsed = parse_question("How long may I keep the ladder?")
    lasting = ("a week", "for an hour", "half a year", "overnight", "three months", "two", "as many days as you like")
    assert all(fit(parsed, text) == 1.0 for text in lasting)
    assert all(fit(parsed, text) == 0.0 for text in ("the shed", "Ida Kuhn", "at the weekend"))
    assert fit(parse_question("How often is it greased?"), "weekly") == 1.0


def test_an_extension_is_no_mobile_number() -> None:
    parsed = parse_question("What is Ida Kuhn's mobile number?")
    assert [fit(parsed, number) for number in ("07700 900123", "4410", "233")] == [1.0, 0.0, 0.0]


def test_a_date_is_no_count() -> None:
    parsed = parse_question("How many days does the repair take?")
    assert all(fit(parsed, text) == 1.0 for text in ("8", "eight days", "2022"))
    assert all(fit(parsed, text) == 0.0 for text in ("2022-11", "10 June", "March 2024"))
    assert fit(parse_question("How long is it lent?"), "10 June") == 1.0


@pytest.mark.parametrize(
    ("question", "fitting", "others"),
    [
        ("What percentage do we save?", ("2 %", "two per cent", "3"), ("£15", "ten days")),
        ("How long does it take?", ("ten days", "from 9:00 to 11:30", "40 m", "12"), ("£15", "3 kg")),
        ("How many days does it take?", ("10", "two weeks"), ("£15", "3 kg")),
        ("How much rent does she pay?", ("£845", "4 %", "845"), ("five years", "40 m²")),
        ("How many boats are there?", ("9", "20 feet"), ()),
    ],
)
def test_a_number_has_the_dimension_that_is_asked_for(
    question: str, fitting: tuple[str, ...], others: tuple[str, ...]
) -> None:
    parsed = parse_question(question)
    assert [fit(parsed, text) for text in fitting] == [1.0] * len(fitting)
    assert all(0 < fit(parsed, text) < 0.5 for text in others)


def test_a_time_zone_answers_nothing() -> None:
    assert fit(parse_question("What odds does she give?"), "+0100") == 0.0
    assert fit(parse_question("What odds does she give?"), "+10") == 1.0


def test_an_answer_is_not_cut_at_the_sign_of_a_number() -> None:
    ferry = part("Ferry", "Which roller got lost? On the ferry to Larn we lost roller no. 17, and a rope.")
    assert "no. 17" in (best_answer("Which roller got lost on the ferry?", [ferry])[0] or "")


def test_a_day_or_a_question_is_hardly_a_place() -> None:
    parsed = parse_question("Where will Gerrit be on his bicycle?")
    assert all(fit(parsed, place) == 1.0 for place in ("Patagonia", "the Sunday market", "Noonan's"))
    assert all(0 < fit(parsed, text) < 0.5 for text in ("Wednesdays", "at ten o'clock", "Where do I stand?", "2 May"))


@pytest.mark.parametrize("question", ["What is the phone number of Ida Kuhn?", "Phone of Ida Kuhn?"])
def test_a_phone_number_is_answered_with_no_other_number(question: str) -> None:
    parsed = parse_question(question)
    assert all(fit(parsed, number) == 1.0 for number in ("0480 21 07", "+46 (0)480-2107", "4410 ext. 7", "4410"))
    assert all(fit(parsed, text) == 0.0 for text in ("nine", "12", "40 EUR", "2 May 2019", "2019-05-02", "Ida Kuhn"))
    fees = part("Fees", "Ida Kuhn pays 40 crowns for nine boats.")
    assert best_answer(question, [fees])[0] is None
    assert best_answer(question, [part("crew", "name: Ida Kuhn; role: captain; joined: 2015-06-12")])[0] is None
    desk = part("Desk", "Ida Kuhn has nine boats; her phone number is 0480 2107.")
    assert best_answer(question, [fees, desk])[0] == "0480 2107"


def test_the_best_answers_of_documents_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def verify(question: str, answers: Sequence[tuple[str, Passage]]) -> list[float]:
        asked.extend(answer for answer, _ in answers)
        return [0.0 if answer == asked[0] else 0.9 for answer, _ in answers]

    before = read_unverified("Where does Ida Kuhn live?", [STAFF, KEYS])
    monkeypatch.setattr(documents, "verify", verify)
    monkeypatch.setattr(documents, "_LEAST_VERIFIED", 1e-12)
    after = read_singly("Where does Ida Kuhn live?", [STAFF, KEYS])
    assert asked == [found.answer for found in before[: len(asked)]] == sorted(set(asked), key=asked.index)
    assert [found.verified for found in after if found.answer in asked[:2]] == [0.9, 0.0]
    assert {found.answer for found in after} == {found.answer for found in before}
    unverified = [found for found in after if found.answer not in asked]
    assert all(found.verified is None for found in unverified)
    assert after == sorted(after, key=lambda found: -found.weight)


def test_the_best_answers_of_documents_are_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"Ida Kuhn": None, "Larn": 0.4, "Ostwik": 0.1}

    def weights(power: float) -> dict[str, float]:
        monkeypatch.setattr(documents, "_CHOSEN_POWER", power)
        found = read_singly("Where does Tom Reed live?", [STAFF, KEYS])
        assert [each.answer for each in found] == sorted(asked, key=lambda name: -weight_of(found, name))
        assert all(each.chosen == chosen.get(each.answer, 0.2) for each in found)
        return {each.answer: each.weight for each in found}

    def weight_of(found: Sequence[documents.Weighed], name: str) -> float:
        return next(each.weight for each in found if each.answer == name)

    def choose(_: str, answers: Sequence[tuple[str, object]]) -> list[float | None]:
        asked[:] = [answer for answer, _ in answers]
        return [chosen.get(answer, 0.2) for answer in asked]

    asked: list[str] = []
    monkeypatch.setattr(documents, "choose", choose)
    without, beside = weights(0.0), weights(2.0)
    assert beside["Larn"] == pytest.approx(without["Larn"] * 0.4**2)
    assert beside["Ostwik"] == pytest.approx(without["Ostwik"] * 0.1**2)
    assert beside["Ida Kuhn"] == pytest.approx(without["Ida Kuhn"] * 0.1**2)


def test_answers_of_articles_are_neither_verified_nor_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "verify", lambda _, answers: [0.0] * len(answers))
    monkeypatch.setattr(documents, "choose", lambda _, answers: [0.0] * len(answers))
    article = Passage("1", "Ida Kuhn", "Ida Kuhn is a nurse from Larn.")
    for passages in ([article], [article, STAFF]):
        found = read_singly("Where is Ida Kuhn from?", passages)
        assert found
        assert all(each.verified is each.chosen is None for each in found)
