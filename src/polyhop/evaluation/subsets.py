"""Conditions that select questions of a run: ``"corrected > 0"``, ``"type = bridge"``, ``"gold in reach"``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from polyhop.errors import UnknownName, UsageError
from polyhop.evaluation.report import Report

Row: TypeAlias = Mapping[str, Any]

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(r"(?P<key>[^<>=!]+)(?P<operator>>=|<=|!=|==|=|>|<)\s*+(?P<value>[^<>=!]+)")
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


def _gold_in_reach(row: Row) -> bool | None:
    gold = row.get("gold") or {}
    for wanted, ranked in (("ids", "passages"), ("titles", "titles")):
        if gold.get(wanted):
            return set(gold[wanted]) <= set(row.get(ranked, ()))
    return None


_DERIVED: Mapping[str, Callable[[Row], Any]] = {"gold in reach": _gold_in_reach}
"""Keys computed from a row. ``gold in reach``: all gold passages are among those the answer ranks."""


def where(reports: Mapping[str, Report], conditions: Sequence[str]) -> dict[str, Report]:
    """Restrict the runs to the questions for which all conditions hold in the first run.

    A condition is KEY OP VALUE, with OP one of > >= < <= = !=, or KEY alone: true, not 0, not empty. KEY: a statistic,
    a metric, a field of ``predictions.jsonl`` (a list counts as its length), a count of its ``usage``, or ``gold in
    reach``. A question without a value is left out. Nothing is evaluated but this form.

    Raises:
        UnknownName: no question of the first run has the key.
        UsageError: the condition has another form, compares words by size, or holds for no question.
    """
    first = next(iter(reports.values()))
    for condition in conditions:
        first = first.only(_condition(condition, first.rows))
    ids = {row["id"] for row in first.rows}
    if not ids:
        raise UsageError(f"no question is left that satisfies {' and '.join(conditions)}")
    return {name: report.only(lambda row: row["id"] in ids) for name, report in reports.items()}


def _condition(text: str, rows: Sequence[Row]) -> Callable[[Row], bool]:
    parts = _CONDITION.fullmatch(text.strip())
    key = parts["key"].strip() if parts else text.strip()
    if not key or (not parts and re.search("[<>=!]", key)):
        raise UsageError(
            f"{text!r} is not a condition: it must be KEY OP VALUE, OP one of {' '.join(_OPERATORS)}, or KEY"
        )
    if rows and all(_value(row, key) is None for row in rows):
        raise UnknownName("key", key, sorted({name for row in rows for name in _keys(row)}))
    if not parts:
        return lambda row: bool(_value(row, key))
    compares = _OPERATORS[parts["operator"].replace("==", "=")]
    wanted = parts["value"].strip().strip("\"'")
    number = _number(wanted)

    def holds(row: Row) -> bool:
        value = _value(row, key)
        if value is None:
            return False
        if isinstance(value, str):
            if compares not in (operator.eq, operator.ne):
                raise UsageError(f"{text!r}: {key} is a word, for example {value!r}: compare it with = or !=")
            return compares(value, wanted)
        if number is None:
            raise UsageError(f"{text!r}: {key} is a number, {wanted!r} is not")
        return compares(float(value), number)

    return holds


def _number(text: str) -> float | None:
    try:
        return _WORDS.get(text.lower()) if text.lower() in _WORDS else float(text)
    except ValueError:
        return None


def _value(row: Row, key: str) -> Any:
    """Return a word, number or truth value; None if there is none."""
    if key in _DERIVED:
        return _DERIVED[key](row)
    held = next((part for part in _parts(row) if key in part), {})
    value = held.get(key)
    return len(value) if isinstance(value, (list, dict)) else value


def _keys(row: Row) -> list[str]:
    return [*_DERIVED, *(name for part in _parts(row) for name, value in part.items() if not isinstance(value, dict))]


def _parts(row: Row) -> tuple[Row, ...]:
    usage = {name: value for name, value in row["usage"].items() if not isinstance(value, dict)}
    return row["statistics"], row["metrics"], row, usage
