"""Recipes: the papers' tables and figures as data, with the methods and settings that reproduce their rows.

A recipe is a file of ``recipes/`` (``tor-table1.toml`` is ``tor/table1``): the paper's numbers by row and column
(percent unless the measure says otherwise), the datasets with their sizes, and for each row the method and settings
that are the paper's system here. ``Reproduction`` is a recipe's table with our numbers beside the paper's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import chain
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from polyhop.errors import DataError, UnknownName

BENCHMARKS: Mapping[str, str] = {
    "hotpotqa": "HotpotQA",
    "2wiki": "2Wiki",
    "musique": "MuSiQue",
    "bamboogle": "Bamboogle",
    "strategyqa": "StrategyQA",
    "zsre": "zsRE",
    "trex": "T-REx",
    "fever": "FEVER",
    "eli5": "ELI5",
}
"""The benchmarks of the recipes, and how they are written."""

ALL = "all"
"""The dataset of a column whose number is over all datasets of the recipe together."""

Figure = Annotated[float | None, BeforeValidator(lambda value: None if value == "–" else value)]
"""A number of the paper; ``"–"`` if it prints none."""

T = TypeVar("T")

_FILES = resources.files("polyhop.evaluation.reproduction") / "recipes"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sample(_Part):
    """A selection of a dataset's questions: the ``first`` N, or N to ``draw`` at random by a fixed seed from those
    ``after`` the first ones; all by default. ``repeat``: the number of runs, each with its own seed."""

    split: Literal["dev", "train", "test"] = "dev"
    first: int | None = None
    draw: int | None = None
    after: int = 0
    repeat: int = 1

    @property
    def name(self) -> str:
        """The sample in a word, for a folder's name."""
        size = f"-first{self.first}" if self.first else f"-draw{self.draw}" if self.draw else ""
        return f"{self.split}{size}"

    def __str__(self) -> str:
        rest = f" after the first {self.after}" if self.after else ""
        size = f"first {self.first} of " if self.first else f"{self.draw} drawn{rest} of " if self.draw else "all of "
        return f"{size}{self.split}"

    def of(self, questions: list[T]) -> list[T]:
        """Select the questions, in the order of the run. From a dataset that ends before ``after``, any may be drawn.

        >>> Sample(first=2).of([1, 2, 3]), Sample(draw=2, after=3).of([1, 2, 3, 4])
        ([1, 2], [4])
        """
        if self.draw is None:
            return questions[: self.first]
        rest = questions[self.after :] or questions
        return Random(0).sample(rest, len(rest))[: self.draw]


class Column(NamedTuple):
    """A column of numbers: a measure on a dataset, under one of the paper's models if the table has several."""

    dataset: str
    metric: str
    lm: str | None


class ColumnBlock(_Part):
    """Columns: every metric on every dataset, in the paper's order."""

    datasets: tuple[str, ...]
    metrics: tuple[str, ...]
    lm: str | None = None


class RecipeRun(_Part):
    """A method with the settings that differ from its set-up's."""

    method: str
    settings: dict[str, Any] = {}


class RecipeRow(_Part):
    """A row of a table, or a point of a figure.

    ``method``: None where polyhop has none for it; ``why`` then says why. ``lm``: the paper's model, where rows differ
    in it; ``roles``: by role; with ``optional_roles`` the user's model does the work of those that are not given.
    ``checkpoint``: a trained retriever that can be given. ``retriever``: the paper's, where it is not the method's own.
    ``instructions``: PromptRank's, from the user's file or ours: the ``best``, which is the first, the ``first 5``, or
    a run with ``each``, also of one position alone; ``found`` is the first of the user's file alone; ``manual`` is the
    prompt file's own, a run at each position. ``metric``: in place of the column's. ``beside``: another run that the
    number is about: the one without search (misled), or, with ``subset``, the one whose questions changed by search are
    looked at. ``statistics``: what the method calls a measure's statistic, or its constant value. ``applies``: methods
    that the row of a table of settings is about. ``ours``: a control beside the paper's rows.
    """

    name: str
    method: str | None = None
    settings: dict[str, Any] = {}
    ours: bool = False
    why: str | None = None
    trained: bool = False
    checkpoint: bool = False
    retriever: str | None = None
    lm: str | None = None
    roles: dict[str, str] = {}
    optional_roles: bool = False
    repeat: int = 1
    instructions: Literal["best", "found", "first 5", "each", "each after", "each before", "manual"] | None = None
    metric: str | None = None
    beside: RecipeRun | None = None
    subset: bool = False
    statistics: dict[str, str | int] = {}
    applies: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    std: tuple[Figure, ...] = ()


RowPair: TypeAlias = tuple[str, str]


class Shape(_Part):
    """A claim of a figure whose values are not known, on ``metric``: in each pair of rows ``lower`` the first is lower;
    the values of each pair ``level`` differ by at most ``within``, in the unit of the column; of two pairs ``steeper``
    the first falls more, from its first row to its second."""

    says: str
    metric: str
    lower: tuple[RowPair, ...] = ()
    level: tuple[RowPair, ...] = ()
    within: float = 0.0
    steeper: tuple[tuple[RowPair, RowPair], ...] = ()

    @property
    def rows(self) -> set[str]:
        """The names of the rows that the claim is about."""
        return {name for pair in (*self.lower, *self.level, *chain(*self.steeper)) for name in pair}

    def holds(self, values: Mapping[str, float | None]) -> bool | None:
        """Return False if the rows' ``values`` contradict the claim anywhere, None if too few of them are known."""

        def rises(*pairs: RowPair) -> list[Any]:
            found = [(values.get(first), values.get(second)) for first, second in pairs]
            return [None if first is None or second is None else second - first for first, second in found]

        verdicts = [
            *(None if rise is None else rise > 0 for rise in rises(*self.lower)),
            *(None if rise is None else abs(rise) <= self.within for rise in rises(*self.level)),
            *(None if None in (both := rises(*pairs)) else both[0] < both[1] for pairs in self.steeper),
        ]
        return None if None in verdicts and False not in verdicts else all(verdicts)


class Recipe(_Part):
    """A table or figure. ``lms``: the paper's models, ``--lm`` replaces the first if rows differ in it. ``settings``:
    by method, those of the paper in every row that our defaults differ from. ``also``: measures of ours beside its.
    ``notes``: what is wrong, unknown or settled by us."""

    key: str
    title: str
    source: str
    setup: Literal["tor", "resp", "ge", "promptrank", "searchain"]
    lms: tuple[str, ...]
    datasets: dict[str, Sample]
    columns: tuple[ColumnBlock, ...]
    rows: tuple[RecipeRow, ...]
    settings: dict[str, dict[str, Any]] = {}
    also: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    shape: tuple[Shape, ...] = ()
    one_at_a_time: bool = Field(default=False, description="whether seconds are measured")
    is_result: bool = Field(default=True, description="false: a table of settings, nothing is run for it")

    @property
    def cells(self) -> tuple[Column, ...]:
        """The columns one by one, in the order of every row's figures."""
        return tuple(
            Column(dataset, metric, block.lm)
            for block in self.columns
            for dataset in block.datasets
            for metric in block.metrics
        )

    @model_validator(mode="after")
    def _shapes_can_be_distinguished(self) -> Self:
        """Refuse a claim that no table could bear out or contradict."""
        runs = {row.name for row in self.rows if row.method}
        for shape in self.shape:
            if not shape.rows or not shape.rows <= runs:
                lacking = ", ".join(sorted(shape.rows - runs)) or "none is named"
                raise ValueError(f"the claim {shape.says!r} is about rows that do not run: {lacking}")
            if shape.metric not in {column.metric for column in self.cells}:
                raise ValueError(f"the claim {shape.says!r} is about no column: {shape.metric}")
        return self


@cache
def keys() -> tuple[str, ...]:
    """Return every recipe's key, paper by paper."""
    order = ("tor", "resp", "ge", "promptrank", "searchain")
    files = (file.name for file in _FILES.iterdir())
    found = [name.removesuffix(".toml").replace("-", "/", 1) for name in files if name.endswith(".toml")]
    return tuple(sorted(found, key=lambda key: (order.index(key.partition("/")[0]), "/figure" in key, key)))


@cache
def recipe(key: str) -> Recipe:
    """Return the recipe of a key such as ``tor/table2``; an unknown key is an error that lists the valid ones."""
    if key not in keys():
        raise UnknownName("recipe", key, keys())
    file = _FILES / f"{key.replace('/', '-')}.toml"
    try:
        return Recipe(key=key, **tomllib.loads(file.read_text("utf-8")))
    except (ValidationError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"not a recipe: {error}", file.name) from None


@dataclass(frozen=True, slots=True)
class CellResult:
    """Our number in a cell: the mean over ``runs`` runs, their standard deviation if there are several, the
    questions of each and the model; or ``why`` it is empty."""

    value: float | None = None
    std: float | None = None
    n: int = 0
    runs: int = 0
    lm: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A recipe with the results of running it. ``columns``: the recipe's, then those of ours alone; ``cells``: our
    numbers, row by row. ``used``: the questions that were run, by dataset; ``failed`` counts questions not answered.
    ``reader``: empty if no row reads by one. ``settings``: by method, the paper's that were set. ``demonstrations``: by
    method, the numbers that its prompts showed."""

    recipe: Recipe
    lm: str
    retriever: str
    columns: Sequence[Column]
    cells: Sequence[Sequence[CellResult]]
    used: Mapping[str, str]
    failed: int
    stands_in: bool
    reader: str = ""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    demonstrations: Mapping[str, str] = field(default_factory=dict)

    def paper(self, row: int, column: int) -> tuple[float | None, float | None]:
        """Return the paper's number and its standard deviation."""
        recipe_row = self.recipe.rows[row]
        return tuple(
            values[column] if column < len(values) else None for values in (recipe_row.figures, recipe_row.std)
        )  # type: ignore[return-value]

    @property
    def not_run(self) -> dict[str, list[str]]:
        """The reasons for empty cells, each with its rows, or rows on datasets."""
        held: dict[str, dict[str, list[str]]] = {}
        for row, cells in zip(self.recipe.rows, self.cells, strict=True):
            for column, cell in zip(self.columns, cells, strict=True):
                if cell.why is not None:
                    on = held.setdefault(cell.why, {}).setdefault(row.name, [])
                    on += [column.dataset] * (column.dataset not in on)
        return {why: self._describe(rows) for why, rows in held.items()}

    def _describe(self, rows: Mapping[str, list[str]]) -> list[str]:
        """Describe rows with the datasets they lack, grouped by these datasets."""
        every = {column.dataset for column in self.columns}
        grouped: dict[str, list[str]] = {}
        for row, datasets in rows.items():
            on = "" if set(datasets) == every else ", ".join(BENCHMARKS.get(name, name) for name in datasets)
            grouped.setdefault(on, []).append(row)
        whole = {
            on: "every row" if len(names) == len(self.recipe.rows) else ", ".join(names)
            for on, names in grouped.items()
        }
        return [f"{names} on {on}" if on else names for on, names in whole.items()]

    @property
    def shape(self) -> list[tuple[Shape, bool | None]]:
        """The figure's claims, and True if they hold here; None if that is unknown."""
        return [(shape, shape.holds(self._values(shape.metric))) for shape in self.recipe.shape]

    def _values(self, metric: str) -> dict[str, float | None]:
        """Return our numbers in the first column of a metric, by row."""
        i = next(i for i, column in enumerate(self.columns) if column.metric == metric)
        return {row.name: cells[i].value for row, cells in zip(self.recipe.rows, self.cells, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        head = self.recipe.model_dump(include={"key", "title", "source", "setup", "notes"})
        return {
            **head,
            "lm": self.lm,
            "retriever": self.retriever,
            "reader": self.reader or None,
            "settings": {method: dict(given) for method, given in self.settings.items()},
            "demonstrations": dict(self.demonstrations),
            "demonstration set": self.stands_in,
            "datasets": dict(self.used),
            "columns": [column._asdict() for column in self.columns],
            "rows": [
                {**row.model_dump(include={"name", "method", "settings", "ours"}), "cells": self._cells(number)}
                for number, row in enumerate(self.recipe.rows)
            ],
            "not_run": self.not_run,
            "shape": [{"says": shape.says, "holds": holds} for shape, holds in self.shape],
            "failed": self.failed,
        }

    def _cells(self, row: int) -> list[dict[str, Any]]:
        cells = []
        for i, ours in enumerate(self.cells[row]):
            paper, std = self.paper(row, i)
            mine = {name: getattr(ours, name) for name in ("value", "std", "n", "runs", "lm")}
            cells.append({"paper": {"value": paper, "std": std}, "ours": mine})
        return cells
