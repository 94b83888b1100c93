"""Checks on the bundled demonstration set: its passages, its questions and the links between them."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

MIN_PASSAGES = 300
MIN_QUESTIONS = 80
MIN_WORDS, MAX_WORDS = 40, 130
MIN_MEAN_MENTIONS = 2.0

QUESTION_TYPES = {"bridge", "comparison", "intersection", "compositional", "yesno"}
# The least and the greatest share of all questions that a type may take.
TYPE_SHARES = {
    "bridge": (0.25, 0.50),
    "comparison": (0.15, 0.35),
    "compositional": (0.12, 0.35),
    "yesno": (0.06, 0.20),
    "intersection": (0.04, 0.20),
}
# Chains: every passage after the first has to be found through the earlier ones.
CHAINED = {"bridge", "compositional"}
# Closed by a comparing step, which has no passage of its own.
COMPARING = {"comparison", "yesno"}

# Names of things that running text writes with a small letter.
LOWERCASE_TITLES = frozenset({"Caesium", "Gallium", "Germanium", "Helium", "Polonium", "Radium"})

Row = dict[str, Any]


def _read(name: str) -> list[Row]:
    text = (resources.files("polyhop.data") / "demo" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


@cache
def _passages() -> tuple[Row, ...]:
    return tuple(_read("passages.jsonl"))


@cache
def _questions() -> tuple[Row, ...]:
    return tuple(_read("questions.jsonl"))


@cache
def _by_id() -> dict[str, Row]:
    return {row["id"]: row for row in _passages()}


def _surface(title: str) -> str:
    """The title without its closing parenthesis."""
    return re.sub(r"\s*\([^)]*\)$", "", title)


@cache
def _forms() -> dict[str, str]:
    """Every form in which running text may name a passage, to the title of that passage."""
    forms: dict[str, str] = {}
    for row in _passages():
        title = row["title"]
        forms[_surface(title)] = title
        if title in LOWERCASE_TITLES:
            forms[_surface(title).lower()] = title
    return forms


@cache
def _pattern() -> re.Pattern[str]:
    longest_first = sorted(_forms(), key=len, reverse=True)
    return re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, longest_first)) + r")(?!\w)")


@cache
def _named_in(text: str) -> tuple[str, ...]:
    """Titles named in a text, in order; of two that overlap, only the longer ("Ada Lovelace", not "Ada")."""
    return tuple(dict.fromkeys(_forms()[found.group()] for found in _pattern().finditer(text)))


def _holds(text: str, phrase: str) -> bool:
    """Return True if the text contains the phrase as whole words, in any case."""
    return re.search(r"(?<!\w)" + re.escape(phrase.casefold()) + r"(?!\w)", text.casefold()) is not None


def _full(row: Row) -> str:
    return f"{row['title']}\n{row['text']}"


@cache
def _mentions() -> dict[str, list[str]]:
    return {row["title"]: [t for t in _named_in(row["text"]) if t != row["title"]] for row in _passages()}


def test_there_are_enough_passages_and_questions() -> None:
    assert len(_passages()) >= MIN_PASSAGES
    assert len(_questions()) >= MIN_QUESTIONS


def test_passages_have_the_right_shape() -> None:
    for row in _passages():
        assert set(row) == {"id", "title", "text"}, row
        assert all(isinstance(value, str) and value == value.strip() and value for value in row.values()), row
        assert re.fullmatch(r"d\d{3}", row["id"]), row["id"]
        assert row["text"] == " ".join(row["text"].split()), row["id"]


def test_ids_and_titles_are_unique() -> None:
    for rows, key in ((_passages(), "id"), (_passages(), "title"), (_passages(), "text"), (_questions(), "id")):
        twice = [value for value, n in Counter(row[key] for row in rows).items() if n > 1]
        assert not twice, (key, twice)
    assert len({_surface(row["title"]) for row in _passages()}) == len(_passages())


def test_passage_lengths() -> None:
    for row in _passages():
        assert MIN_WORDS <= len(row["text"].split()) <= MAX_WORDS, (row["title"], len(row["text"].split()))


def test_passages_are_linked() -> None:
    mentions = _mentions()
    assert not [title for title, found in mentions.items() if not found]
    assert sum(map(len, mentions.values())) / len(mentions) >= MIN_MEAN_MENTIONS


def test_every_passage_is_mentioned_somewhere_or_mentions_two() -> None:
    mentions = _mentions()
    mentioned = {title for found in mentions.values() for title in found}
    loose = [title for title, found in mentions.items() if title not in mentioned and len(found) < 2]
    assert not loose


def test_questions_have_the_right_shape() -> None:
    keys = {"id", "question", "answers", "type", "gold_titles", "gold_pids", "decomposition"}
    for row in _questions():
        assert set(row) == keys, row["id"]
        assert re.fullmatch(r"q\d{2,3}", row["id"]), row["id"]
        assert row["question"].endswith("?"), row["id"]
        assert row["question"] == " ".join(row["question"].split()), row["id"]
        assert row["type"] in QUESTION_TYPES, row["id"]
        assert row["answers"], row["id"]
        assert all(isinstance(a, str) and a.strip() for a in row["answers"]), row["id"]
        assert len(set(row["answers"])) == len(row["answers"]), row["id"]
        assert 1 <= len(row["answers"][0].split()) <= 8, row["id"]
        assert 2 <= len(row["gold_pids"]) <= 4, row["id"]
        assert row["decomposition"], row["id"]


def test_no_question_is_asked_twice() -> None:
    twice = [q for q, n in Counter(row["question"].casefold() for row in _questions()).items() if n > 1]
    assert not twice


def test_gold_ids_exist_and_agree_with_titles() -> None:
    for row in _questions():
        assert len(set(row["gold_pids"])) == len(row["gold_pids"]), row["id"]
        assert [_by_id()[pid]["title"] for pid in row["gold_pids"]] == row["gold_titles"], row["id"]


def test_gold_passages_contain_the_answers() -> None:
    for row in _questions():
        if row["type"] == "yesno":
            assert row["answers"][0] in {"yes", "no"}, row["id"]
            continue
        gold = "\n".join(_full(_by_id()[pid]) for pid in row["gold_pids"])
        assert _holds(gold, row["answers"][0]), (row["id"], row["answers"][0])


def test_questions_do_not_give_the_answer_away() -> None:
    for row in _questions():
        if row["type"] not in COMPARING:
            assert not [a for a in row["answers"] if _holds(row["question"], a)], row["id"]


def test_chains_do_not_name_their_intermediate_answers() -> None:
    for row in _questions():
        if row["type"] in CHAINED:
            named = [s["answer"] for s in row["decomposition"] if _holds(row["question"], s["answer"])]
            assert not named, (row["id"], named)


def test_steps_are_answered_by_their_passages() -> None:
    for row in _questions():
        steps = row["decomposition"]
        for number, step in enumerate(steps):
            assert set(step) == {"question", "answer", "pid"}, row["id"]
            assert step["question"].endswith("?"), row["id"]
            assert "#" not in step["question"], row["id"]
            if step["pid"] is None:
                assert row["type"] in COMPARING, row["id"]
                assert number == len(steps) - 1, row["id"]
            else:
                assert step["pid"] in row["gold_pids"], row["id"]
                passage = _by_id()[step["pid"]]
                assert _holds(_full(passage), step["answer"]), (row["id"], step["answer"])


def test_steps_use_every_gold_passage_and_end_in_the_answer() -> None:
    for row in _questions():
        steps = row["decomposition"]
        assert {s["pid"] for s in steps} - {None} == set(row["gold_pids"]), row["id"]
        assert (steps[-1]["pid"] is None) == (row["type"] in COMPARING), row["id"]
        assert steps[-1]["answer"] in row["answers"], row["id"]


def test_later_steps_build_on_earlier_ones() -> None:
    """In a chain each step names, in full, the answer of the step before."""
    for row in _questions():
        if row["type"] in CHAINED:
            steps = row["decomposition"]
            for before, after in pairwise(steps):
                assert _holds(after["question"], before["answer"]), (row["id"], after["question"])


def test_every_hop_is_linked() -> None:
    for row in _questions():
        titles, pids = row["gold_titles"], row["gold_pids"]
        for number, title in enumerate(titles):
            if number == 0 and row["type"] in CHAINED:
                continue
            earlier = [_by_id()[pid]["text"] for pid in pids[:number]]
            reached = any(title in _named_in(text) for text in [row["question"], *earlier])
            assert reached, (row["id"], title)


def test_no_single_gold_passage_holds_a_chain() -> None:
    """The last passage of a chain is not simply the one the question names."""
    for row in _questions():
        if row["type"] in CHAINED:
            assert row["gold_titles"][-1] not in _named_in(row["question"]), row["id"]


def test_types_are_balanced() -> None:
    counts = Counter(row["type"] for row in _questions())
    total = len(_questions())
    for kind, (low, high) in TYPE_SHARES.items():
        assert low <= counts[kind] / total <= high, (kind, counts[kind], total)


def test_hops_are_mixed() -> None:
    hops = Counter(len(row["gold_pids"]) for row in _questions())
    assert hops[3] >= 12
    assert hops[4] >= 8
    assert hops[2] >= len(_questions()) // 3


def test_yes_and_no_both_occur() -> None:
    said = Counter(row["answers"][0] for row in _questions() if row["type"] == "yesno")
    assert set(said) == {"yes", "no"}


def test_comparisons_do_not_always_favour_one_side() -> None:
    """The entity named first in the question is not always, nor never, the right one."""
    first = total = 0
    for row in _questions():
        if row["type"] != "comparison":
            continue
        sides = [_surface(t) for t in _named_in(row["question"]) if t in row["gold_titles"]]
        if len(sides) == 2 and row["answers"][0] in sides:
            total += 1
            first += sides[0] == row["answers"][0]
    assert 0 < first < total


def test_the_first_three_questions_are_an_easy_start() -> None:
    opening = _questions()[:3]
    assert [row["id"] for row in opening] == ["q01", "q02", "q03"]
    assert sorted(row["type"] for row in opening) == ["bridge", "bridge", "comparison"]
    assert all(len(row["gold_pids"]) == 2 for row in opening)
