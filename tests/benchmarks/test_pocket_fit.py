"""``benchmarks/pocket_fit.py`` and what else fits the tables of ``pocket``, and writes them as they ship."""

from __future__ import annotations

from pathlib import Path

from benchmarks.comparison_fit import examples, report
from benchmarks.pocket_blend import blends_page
from benchmarks.pocket_data import Split
from benchmarks.pocket_fit import weights_page
from benchmarks.screen_fit import Reviewed, cross_validated, reviewed
from benchmarks.screen_fit import report as screened
from training.facts import is_read

from polyhop.lm.pocket.reading.tables import BLENDS, WEIGHTS
from tests.lm.pocket.scene import ANDERS, FERRY, MILL, QUESTION


def test_the_weights_in_use_are_written_as_they_ship() -> None:
    assert weights_page() == WEIGHTS.read_text(encoding="utf-8")


def test_the_blends_in_use_are_written_as_they_ship() -> None:
    assert blends_page() == BLENDS.read_text(encoding="utf-8")


UNREAD = "bakery"  # a domain whose comparisons the encoder was not trained on
SET = """\
=== hubs.md
The Otter weighs 2 kg and cost 90 euros. The Stoat weighs 3 kg and cost 70 euros.
=== questions
? Which is heavier, the Otter or the Stoat?
kind: comparison
= the Stoat
- hubs.md :: Otter weighs 2 kg
- hubs.md :: Stoat weighs 3 kg
? Which is longer, the Otter or the Stoat?
kind: unanswerable
=
- hubs.md :: Otter weighs 2 kg
? What does the Otter weigh?
kind: one
= 2 kg
- hubs.md :: Otter weighs 2 kg
"""


def test_the_quoted_values_that_decide_for_the_answer_are_the_right_pair(tmp_path: Path) -> None:
    (tmp_path / "company").mkdir()
    (tmp_path / "company" / "hubs.txt").write_text(SET, encoding="utf-8")
    asked, unanswerable = examples(tmp_path, read=False)
    assert (asked.outcome, unanswerable.outcome) == (-1, None)
    group = asked.group()
    (pair,) = [row for row, right in zip(group.rows, group.right, strict=True) if right]
    assert (pair["measure"] > 0, pair["dimension 0"]) == (True, 1.0)
    assert unanswerable.group().right[-1]
    assert not any(unanswerable.group().right[:-1])


def test_decided_and_right_questions_are_counted_by_level(tmp_path: Path) -> None:
    (tmp_path / "company").mkdir()
    (tmp_path / "company" / "hubs.txt").write_text(SET, encoding="utf-8")
    lines = list(report(list(examples(tmp_path, read=False)), [(-1, 0.65), (1, 0.25)]))
    assert lines[0] == "1 questions with an answer, 1 without"
    assert lines[1] == "from 0.2: 1 decided, 100 % of them right; 100 % of those without an answer"
    assert lines[-1] == "from 0.7: 0 decided, 0 % of them right; 0 % of those without an answer"


def test_what_the_encoder_reads_is_fitted_where_it_was_not_trained(tmp_path: Path) -> None:
    for domain in ("company", UNREAD):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "hubs.txt").write_text(SET, encoding="utf-8")
    assert not is_read(UNREAD)
    asked, _ = examples(tmp_path, read=True)
    assert asked.domain == UNREAD
    by_text = {fact.text: fact.read for fact in asked.left}
    assert by_text["2 kg"] == max(by_text.values()) > 0.0


def test_every_path_that_tree_of_reviews_reviews_is_worth_reading_or_not() -> None:
    row = {"id": "1", "question": QUESTION, "gold_pids": ["anders"]}
    passages = {passage.id: passage for passage in (MILL, ANDERS, FERRY)}
    paths = list(reviewed([Split("demo", [row], passages, lambda query, k: [])]))
    assert {path.question for path in paths} == {"1"}
    assert any(path.is_later and path.is_worth_it for path in paths)
    assert any(not path.is_later and not path.is_worth_it for path in paths)


def test_what_screening_keeps_is_told_by_share() -> None:
    paths = [Reviewed(str(i), {"one": 1.0, "new": float(i % 2)}, False, bool(i % 2)) for i in range(40)]
    odds = cross_validated(paths)
    assert min(odds[1::2]) > max(odds[::2])
    head, *lines = screened(paths, odds)
    assert head == "40 paths, 20 worth reading"
    assert any("50 % read, 100 % kept" in line for line in lines)
