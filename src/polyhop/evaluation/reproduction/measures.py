"""What the papers' columns measure, read off our reports: the metric or statistic each is here, and what it needs.

Shares are percent, as the papers print them; counts, words and seconds are means per question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from polyhop.common.text import counted
from polyhop.errors import UnknownName
from polyhop.evaluation.compare import misled
from polyhop.evaluation.report import Report
from polyhop.evaluation.reproduction.recipe import RecipeRow
from polyhop.evaluation.reproduction.reference_sheet import SHEET, mark_precision
from polyhop.evaluation.statistics import Mean
from polyhop.metrics.profiles import GOLD_ANSWERS, GOLD_PASSAGES, SPANS
from polyhop.metrics.rankings import RECALL_AT


@dataclass(frozen=True, slots=True)
class CellInputs:
    """What a cell is measured on: the row's ``report`` over the column's dataset or over several together, which are
    then the ``parts``; ``beside``, the report of the run that the row is set beside; the ``folders`` of the runs."""

    row: RecipeRow
    report: Report
    parts: Sequence[Report] = ()
    beside: Report | None = None
    folders: Sequence[Path] = ()


Value: TypeAlias = float | None


@dataclass(frozen=True, slots=True)
class Measure:
    """A column. ``of``: its value, None where the run does not tell it; ``needs`` says what would."""

    label: str
    of: Callable[[CellInputs], Value]
    needs: str


def _percent(mean: Mean | None) -> Value:
    return None if mean is None else 100 * mean.value


def _metric(name: str, label: str, needs: str = GOLD_ANSWERS) -> tuple[str, Measure]:
    return name, Measure(label, lambda seen: _percent(seen.report.metrics.get(name)), needs)


def _statistic(name: str, label: str, needs: str, *, percent: bool = False) -> tuple[str, Measure]:
    def of(seen: CellInputs) -> Value:
        mean = seen.report.statistics.get(name)
        return _percent(mean) if percent or mean is None else mean.value

    return name, Measure(label, of, needs)


def _cost(label: str, total: Callable[[Any], float]) -> Measure:
    def of(seen: CellInputs) -> Value:
        return total(seen.report.usage) / len(seen.report.rows) if seen.report.rows else None

    return Measure(label, of, "a question that was answered")


def _named(measure: str, seen: CellInputs, report: Report) -> Value:
    """The statistic that the row's method has for a measure, or the number that it always is."""
    told = seen.row.statistics.get(measure)
    if not isinstance(told, str):
        return told
    mean = report.statistics.get(told)
    return None if mean is None else mean.value


def _steps(hops: int) -> Measure:
    def of(seen: CellInputs) -> Value:
        try:
            part = seen.report.by("hops").get(str(hops))
        except UnknownName:
            return None
        return _named("steps", seen, part) if part else None

    return Measure(
        f"steps, {counted(hops, 'hops')}",
        of,
        f"questions of {counted(hops, 'hops')}, and a method that counts its steps",
    )


def _share_of_nodes(name: str) -> Measure:
    def of(seen: CellInputs) -> Value:
        found, nodes = seen.report.statistics.get(name), seen.report.statistics.get("nodes")
        return 100 * found.value / nodes.value if found and nodes and nodes.value else None

    return Measure("share of nodes", of, "recorded nodes (searchain)")


def _misled(seen: CellInputs) -> Value:
    """SearChain's Table 3: of what the run beside has right without search, the share that is wrong with it."""
    before = {row["id"]: row for row in seen.beside.rows} if seen.beside else {}
    return _percent(misled((before[row["id"]], row) for row in seen.report.rows if row["id"] in before))


def _main_score(seen: CellInputs) -> Value:
    """The mean over datasets of cover-EM, of ROUGE-L where answers are long."""
    found = [part.metrics.get("rouge_l") or part.metrics.get("cover_em") for part in seen.parts]
    scores = [mean.value for mean in found if mean]
    return 100 * sum(scores) / len(scores) if scores else None


def _parsed(seen: CellInputs) -> Value:
    share = seen.report.parsed_at_first_try
    return None if share is None else 100 * share


AMP = "amp"
_TREE = "a method that reviews a tree of passages (tor)"
_CITED = "a method that cites what it found (searchain)"

MEASURES: Mapping[str, Measure] = dict(
    (
        _metric("em", "EM"),
        _metric("f1", "F1"),
        _metric("cover_em", "cover-EM"),
        _metric("rouge_l", "ROUGE-L", "questions of kind long"),
        *(_metric(f"recall_mean@{k}", f"Recall@{k}", GOLD_PASSAGES) for k in RECALL_AT),
        *(_metric(f"recall_all@{k}", f"R@{k}", GOLD_PASSAGES) for k in RECALL_AT),
        *(_metric(f"ar@{k}", f"AR@{k}", SPANS) for k in RECALL_AT),
        _statistic("reviews", "#API", _TREE),
        _statistic("documents", "#Doc", _TREE),
        _statistic("rate", "Rate", _TREE),
        _statistic("evidence", "#Evidence", _TREE),
        _statistic("graph accuracy", "graph accuracy", "evidence triples in the dataset (2Wiki's)", percent=True),
        _statistic("skc", "SKC", _CITED),
        _statistic("supported references", "supported references", _CITED, percent=True),
        (
            AMP,
            Measure(
                "AMP", lambda seen: _percent(mark_precision(seen.folders)), f"people's verdicts: --out, then {SHEET}"
            ),
        ),
        ("share of nodes", _share_of_nodes("nodes")),
        *((f"from {source}", _share_of_nodes(f"from {source}")) for source in ("lm", "corrected", "completed")),
        ("misled", Measure("misled", _misled, "questions that the run without search has right")),
        *((f"steps@{hops}", _steps(hops)) for hops in (2, 3, 4)),
        (
            "rounds",
            Measure("rounds", lambda seen: _named("rounds", seen, seen.report), "a method that counts its rounds"),
        ),
        ("mean score", Measure("mean score", _main_score, GOLD_ANSWERS)),
        ("parsed", Measure("parsed at first try", _parsed, "replies of a model")),
        ("calls", _cost("calls", lambda usage: usage.calls)),
        ("tokens", _cost("tokens", lambda usage: usage.prompt_tokens + usage.completion_tokens)),
        ("words in", _cost("words in", lambda usage: usage.prompt_words)),
        ("words out", _cost("words out", lambda usage: usage.completion_words)),
        ("seconds", _cost("seconds", lambda usage: usage.seconds)),
        ("demonstrations", Measure("demonstrations", lambda seen: None, "nothing: it is a setting")),
    )
)
"""Every measure of the recipes by its name there."""
