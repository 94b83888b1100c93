"""The recipes: all there, the papers' figures as they are printed, every row a method that exists with its settings."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from polyhop.errors import UnknownName
from polyhop.evaluation.reproduction.jobs import runnable_rows
from polyhop.evaluation.reproduction.measures import MEASURES
from polyhop.evaluation.reproduction.recipe import (
    ALL,
    BENCHMARKS,
    CellResult,
    Recipe,
    RecipeRow,
    Reproduction,
    Sample,
    Shape,
    keys,
    recipe,
)
from polyhop.evaluation.reproduction.reproduce import columns_of
from polyhop.evaluation.setups import SETUPS
from polyhop.methods.registry import method_named
from tests.conftest import SHARED

DESIGN = SHARED.parent / "design" / "recipes.md"
PAPERS = {"tor": 6, "resp": 3, "ge": 6, "promptrank": 13, "searchain": 10}

LABELS = {"resp/table2": 3, "ge/table2": 3} | dict.fromkeys(
    (
        "resp/table1",
        "ge/table3",
        "tor/table5",
        "tor/table6",
        "promptrank/table1",
        "promptrank/tableA3",
        "promptrank/tableA4",
        "promptrank/tableA5",
    ),
    2,
)
"""Leading columns of a table that hold words, where there is more than one."""

TURNED = ("searchain/table7", "searchain/tracing")
"""Tables whose rows are our columns."""


def every_row() -> list[tuple[str, int]]:
    return [(key, number) for key in keys() for number in range(len(recipe(key).rows))]


def test_all_38_are_there_paper_by_paper() -> None:
    assert len(keys()) == 38
    assert {paper: sum(key.startswith(f"{paper}/") for key in keys()) for paper in PAPERS} == PAPERS
    assert keys()[0] == "tor/table1"
    assert sum(not recipe(key).is_result for key in keys()) == 1


def test_an_unknown_one_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="tor/table2"):
        recipe("tor/tabel2")


@pytest.mark.parametrize("key", keys())
def test_a_recipe_names_what_exists(key: str) -> None:
    table = recipe(key)
    assert table.setup == key.partition("/")[0]
    assert table.setup in SETUPS
    assert set(table.datasets) <= set(BENCHMARKS)
    assert {column.dataset for column in table.cells} <= {*table.datasets, ALL}
    names = {column.metric for column in table.cells} | {row.metric for row in table.rows if row.metric}
    assert {*names, *table.also} <= set(MEASURES)
    assert len({row.name for row in table.rows}) == len(table.rows)
    for row in table.rows:
        assert {row.lm or table.lms[0], *row.roles.values()} <= set(table.lms)


@pytest.mark.parametrize(("key", "number"), every_row(), ids=lambda value: str(value))
def test_a_row_has_a_number_a_column_and_a_method_that_takes_its_settings(key: str, number: int) -> None:
    table = recipe(key)
    row = table.rows[number]
    for values in (row.figures, row.std):
        assert len(values) in (0, len(table.cells))
    if row.method is None:
        assert row.why or not table.is_result
        return
    resolves(table, row.method, {**table.settings.get(row.method, {}), **row.settings})
    if row.beside:
        resolves(table, row.beside.method, row.beside.settings)
    assert (row.instructions is None) or row.method == "promptrank"


ANSWERS = {"em", "f1", "cover_em"}
"""The measures that depend on the passages that are read, not only on those that are ranked."""


@pytest.mark.parametrize("key", keys())
def test_a_control_reads_as_many_passages_as_the_methods_that_search_again(key: str) -> None:
    table = recipe(key)
    most = SETUPS[table.setup].passages_read
    used = {row.method for row in table.rows if row.method}
    again = any(method_named(name).family in ("system", "iterative") for name in used)
    controls = [row for row in table.rows if row.method == "one-r" and most and row.settings.get("k") == most]
    measured = ANSWERS & {column.metric for column in table.cells}
    assert bool(controls) is bool(most and "one-r" in used and again and measured)
    assert all(row.ours and not row.figures for row in controls) or key == "resp/figure2"
    assert any("marked ours" in note for note in table.notes) is any(row.ours for row in table.rows)


def resolves(table: Recipe, name: str, settings: dict[str, object]) -> None:
    under = SETUPS[table.setup].settings(name, settings, dataset=next(iter(table.datasets)))
    method_named(name).resolve({**under, **settings})


# --- claims of figures without numbers --------------------------------------------------------------------------------


def every_shape() -> list[tuple[str, int]]:
    return [(key, i) for key in keys() for i in range(len(recipe(key).shape))]


def holds(key: str, i: int, numbers: dict[str, float]) -> bool | None:
    """The verdict on a claim if the rows have these numbers in its column, and others in the other columns."""
    table = recipe(key)
    columns = columns_of(table)
    cells = [
        [CellResult(numbers.get(row.name) if column.metric == table.shape[i].metric else 50.0) for column in columns]
        for row in table.rows
    ]
    return Reproduction(table, "lm", "retriever", columns, cells, {}, 0, False).shape[i][1]


def where_it_holds(shape: Shape) -> dict[str, float]:
    """Numbers that bear a claim out: each row below those above it, equal where it is level."""
    numbers = dict.fromkeys(shape.rows, 50.0)
    for _ in numbers:  # enough rounds for the longest chain of pairs
        for low, high in shape.lower:
            numbers[low] = min(numbers[low], numbers[high] - 1)
    for (_, fallen), _ in shape.steeper:
        numbers[fallen] -= 1
    return numbers


@pytest.mark.parametrize(("key", "i"), every_shape(), ids=str)
def test_a_claim_holds_or_not_by_our_numbers_and_is_open_until_they_all_are_known(key: str, i: int) -> None:
    shape = recipe(key).shape[i]
    numbers = where_it_holds(shape)
    assert holds(key, i, numbers) is True
    for low, high in (*shape.lower, *shape.level):
        wrong = {**numbers, low: numbers[high] + shape.within + 0.1}
        assert holds(key, i, wrong) is False, (low, high)
        assert holds(key, i, {low: wrong[low], high: wrong[high]}) is False  # one pair is enough to contradict it
    for (above, fallen), (_, other) in shape.steeper:
        assert holds(key, i, {**numbers, fallen: numbers[above]}) is False  # it does not fall
        assert holds(key, i, {**numbers, other: numbers[other] - 2}) is False  # the other falls more
    for name in numbers:
        assert holds(key, i, {row: value for row, value in numbers.items() if row != name}) is None


@pytest.mark.parametrize(
    ("claim", "fault"),
    [
        ({}, "none is named"),
        ({"lower": [["one-r, k=3", "one-r, k=4"]]}, "one-r, k=4"),
        ({"level": [["one-r, k=3", "one-r, k=5"]], "metric": "em"}, "no column: em"),
    ],
)
def test_a_claim_that_nothing_could_tell_is_an_error(claim: dict[str, Any], fault: str) -> None:
    written = recipe("resp/figure2").model_dump()
    with pytest.raises(ValidationError, match=fault):
        Recipe(**{**written, "shape": [{"says": "it is", "metric": "f1", **claim}]})


def test_what_can_run_here_leaves_out_trained_rows_and_those_of_another_model() -> None:
    assert {row.name for row in recipe("promptrank/table1").rows} - {
        row.name for row in runnable_rows(recipe("promptrank/table1"))
    } == {"DrKit", "MDR", "PathRetriever", "GPT2-XL, no instruction"}
    assert [row.name for row in runnable_rows(recipe("resp/table2"))] == ["all roles 8B"]
    assert len(runnable_rows(recipe("searchain/table1"))) == 21
    assert runnable_rows(recipe("searchain/table8")) == []


def test_a_draw_is_the_same_every_time_and_a_shorter_one_its_beginning() -> None:
    numbers = list(range(700))
    drawn = Sample(draw=100, after=500).of(numbers)
    assert drawn == Sample(draw=100, after=500).of(numbers)
    assert drawn[:7] == Sample(draw=7, after=500).of(numbers)
    assert len(set(drawn)) == 100
    assert min(drawn) >= 500
    assert drawn != sorted(drawn)
    assert sorted(Sample(draw=100, after=500).of(numbers[:50])) == numbers[:50]


# The design's tables, read anew.


def sections() -> dict[str, str]:
    pieces = re.split(r"^### `([^`]+)`", DESIGN.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], (re.split(r"^## ", piece, flags=re.M)[0] for piece in pieces[2::2]), strict=True))


def rows_of(section: str) -> list[list[str]]:
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells[1:] if not all(re.fullmatch("-+", cell) for cell in row)]


def numbers(cell: str) -> list[tuple[float | None, float | None]]:
    """``"52.3 (.7)"``: the number and its deviation; ``"28.2 / 37.7"``: two; a change in brackets is no number."""
    found = []
    for part in cell.split(" / "):
        match = re.fullmatch(r"(–|[\d.]+)(?: \((\.\d|\d+\.\d)\))?(?: \([+−][\d.]+\))?", part)
        assert match, part
        values = [None if value in (None, "–") else float(value) for value in match.groups()]
        found.append((values[0], values[1]))
    return found


def ours(row: RecipeRow) -> list[tuple[float | None, float | None]]:
    return list(zip(row.figures, row.std or [None] * len(row.figures), strict=True))


@pytest.mark.shared
def test_the_keys_are_the_designs() -> None:
    assert set(sections()) == set(keys())


@pytest.mark.shared
@pytest.mark.parametrize("key", [key for key in keys() if "figure" not in key])
def test_every_figure_of_a_table_is_the_designs(key: str) -> None:
    rows, labels = rows_of(sections()[key]), LABELS.get(key, 1)
    if key in TURNED:
        rows, labels = [list(column) for column in zip(*rows, strict=True)][1:], 0
    table = recipe(key)
    expected = [[number for cell in row[labels:] for number in numbers(cell)] for row in rows]
    found = [ours(row) for row in table.rows if not row.ours]
    if key == "searchain/tracing":  # AMP is a share there, percent here
        found = [[values[0], (round((values[1][0] or 0) / 100, 6), None)] for values in found]
    assert found == expected


@pytest.mark.shared
def test_what_figures_are_known_of_curves_is_the_tables() -> None:
    by_name = {row.name: row.figures for row in recipe("promptrank/table1").rows}
    for row in recipe("promptrank/figure1").rows:
        name = "T5-XL, 8 demonstrations" if row.name.startswith("PromptRank") else row.name
        assert row.figures == by_name[name][:3]
    for row in recipe("promptrank/figure3").rows:
        known = by_name.get(f"T5-XL, {row.name}", (None,) * 6)
        assert row.figures == (known[0], known[3])
    hotpotqa = {row.method: row.figures[0] for row in recipe("resp/table1").rows if not row.ours}
    for row in recipe("resp/figure2").rows:
        assert row.figures == (hotpotqa[row.method] if row.settings["k"] == 5 else None,)
    for key in ("promptrank/figure4", "promptrank/figure5"):
        assert not any(row.figures for row in recipe(key).rows)


@pytest.mark.shared
def test_sizes_are_the_designs() -> None:
    text = DESIGN.read_text("utf-8")
    for words, key, name, sample in (
        ("Tables 1–2: first 500 of dev", "tor/table1", "hotpotqa", Sample(first=500)),
        ("Tables 3–6: 100 drawn at random", "tor/table5", "2wiki", Sample(draw=100, after=500)),
        ("`resp`: first 1,000 of dev", "resp/table1", "2wiki", Sample(first=1000)),
        ("500 drawn at random from dev of 2Wiki and MuSiQue", "ge/table1", "musique", Sample(draw=500)),
        ("all 125 of Bamboogle (repeat=4", "ge/table1", "bamboogle", Sample(repeat=4)),
        ("1,200 each of 2Wiki, zsRE, T-REx, FEVER, ELI5", "searchain/table1", "eli5", Sample(draw=1200)),
        ("full dev of HotpotQA and MuSiQue", "searchain/table1", "hotpotqa", Sample()),
        ("T5-Large, no instruction, 4,000 HotpotQA", "promptrank/table4", "hotpotqa", Sample(first=4000)),
        ("2,000 questions of HotpotQA **train**", "promptrank/tableA4", "hotpotqa", Sample(split="train", first=2000)),
        ("mean of 100 queries", "promptrank/tableA3", "hotpotqa", Sample(first=100)),
    ):
        assert words in text
        assert recipe(key).datasets[name] == sample
