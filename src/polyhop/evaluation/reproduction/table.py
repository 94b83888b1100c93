"""A reproduced table: the paper's numbers, ours beside them, and what has none and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.evaluation.reproduction.benchmarks import BENCHMARKS
from polyhop.evaluation.reproduction.recipe import Column, Recipe, Shape


@dataclass(frozen=True, slots=True)
class CellResult:
    """Our number in a cell: the mean over ``runs`` runs, their standard deviation where there are several, the
    questions of each and the model; or ``why`` there is none."""

    value: float | None = None
    std: float | None = None
    n: int = 0
    runs: int = 0
    lm: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A recipe beside what was found here. ``columns``: the recipe's, then those of ours alone; ``cells``: our numbers,
    row by row. ``used`` tells of each dataset what was run; ``failed`` counts questions not answered."""

    recipe: Recipe
    lm: str
    retriever: str
    columns: Sequence[Column]
    cells: Sequence[Sequence[CellResult]]
    used: Mapping[str, str]
    failed: int
    stands_in: bool

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
        return [(shape, self._holds(shape)) for shape in self.recipe.shape]

    def _holds(self, shape: Shape) -> bool | None:
        i = next(i for i, column in enumerate(self.columns) if column.metric == shape.metric)
        values = {row.name: cells[i].value for row, cells in zip(self.recipe.rows, self.cells, strict=True)}
        pairs = [(values[low], values[high]) for low, high in shape.lower]
        comparisons = [low < high for low, high in pairs if low is not None and high is not None]
        return all(comparisons) if comparisons else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        head = self.recipe.model_dump(include={"key", "title", "source", "setup", "notes"})
        return {
            **head,
            "lm": self.lm,
            "retriever": self.retriever,
            "demonstration set": self.stands_in,
            "datasets": dict(self.used),
            "columns": [column._asdict() for column in self.columns],
            "rows": [
                {"name": row.name, "method": row.method, "settings": row.settings, "cells": self._cells(number)}
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
