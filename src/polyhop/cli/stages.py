"""The instructions that ``polyhop tune promptrank`` tries, and the results of tuning as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from polyhop.cli import show as draw
from polyhop.common.text import counted
from polyhop.errors import SettingError, UsageError
from polyhop.evaluation.compare import Difference
from polyhop.evaluation.tuning.confidence import ConfidenceFit
from polyhop.evaluation.tuning.grid_search import GridPoint, GridSearchResult
from polyhop.evaluation.tuning.instructions import generate_instructions, our_instructions
from polyhop.evaluation.tuning.readers import ReaderFit
from polyhop.evaluation.tuning.staged import Checkpoint, Stage, StagedSearchResult, Trial
from polyhop.methods.path_prompts import read_instructions
from polyhop.methods.path_score import NO_INSTRUCTION

SHOWN = 5
"""Number of the best instructions to show."""

MAX_WIDTH = 45
"""Characters of an instruction in a table."""

_NAMES = {"recall_all@2": "R@2", "recall_all@10": "R@10", "ar@2": "AR@2", "f1": "F1", "em": "EM"}
_SETTING_OF = {"demonstrations": "demo_seed", "ensemble temperature": "temperature"}
"""The setting that a stage chooses, if the names differ."""


def candidate_instructions(path: Path | None, count: int | None, generator: str | None, work: Path | None) -> list[str]:
    """Return the instructions to try: a file's, polyhop's own, or a model's, which are kept in ``work``."""
    if (count is None) != (generator is None):
        raise SettingError("--generate and --generator go together: how many instructions, and by which model")
    if count is None or generator is None:
        return read_instructions(path) if path else our_instructions()
    if path:
        raise SettingError("--instructions and --generate: give one of them")
    kind, _, name = generator.partition(":")
    if kind != "hf" or not name:
        raise UsageError(f"--generator {generator}: a T5 that fills gaps writes instructions, as in hf:t5-base")
    from polyhop.lm.hf.generation import SpanFiller

    with Checkpoint(work) as checkpoint:
        made: list[str] = checkpoint.once(
            {"instructions": count, "by": generator}, lambda: generate_instructions(SpanFiller(name), count)
        )
    return made


def print_stages(tuned: StagedSearchResult) -> None:
    """Print the trials of each stage and the settings that were found."""
    to = draw.console()
    title = f"{tuned.method} · {tuned.lm} · {tuned.dataset} · {counted(len(tuned.usual.questions), 'questions')}"
    to.print(Text(title, style="bold"))
    for stage in tuned.stages:
        setting = _SETTING_OF.get(stage.name, stage.name)
        trials = _shown(stage) if stage.name == "instruction" else stage.trials
        names = [name for name in _NAMES if any(trial.mean(name) is not None for trial in trials)]
        rows = [[setting, *(_NAMES[name] for name in names), ""]]
        rows += [_row(trial, setting, names, best=trial is stage.best) for trial in trials]
        draw.print_rows(rows, to, names=1)
        if stage.name == "instruction" and (spread := stage.spread()):
            shares = ", ".join(f"{name} {100 * value:.1f}" for name, value in spread.items())
            to.print(f"{_NAMES[stage.objective]} of {counted(len(stage.trials) - stage.marks, 'candidates')}: {shares}")
    found = ", ".join(f"{name}={value}" for name, value in tuned.settings.items() if value is not None)
    to.print(Text(f"found: {draw.clean(found) or 'the defaults'}"))
    to.print(gain_text("R@2", tuned.gain))


def print_fit(fit: ReaderFit) -> None:
    """Print a reader's fitted and default thresholds with their scores."""
    to = draw.console()
    questions, passages = counted(fit.questions, "questions"), counted(fit.cases, "passages")
    title = f"{fit.reader} · {questions} ({fit.left_out} left out) · {passages}, {fit.right} answer"
    to.print(Text(title, style="bold"))
    rows = [["", "θ", "F1", "precision", "recall"]]
    for name, found in (("fitted", fit.fitted), ("default", fit.default)):
        scores = (f"{100 * value:.1f}" for value in (found.f1, found.precision, found.recall))
        rows.append([name, f"{found.at:.4g}", *scores])
    draw.print_rows(rows, to)
    to.print(f"AUROC: {'unknown' if fit.auroc is None else f'{fit.auroc:.3f}'}")


def print_grid_search(tuned: GridSearchResult) -> None:
    """Print the points of a grid with their scores and costs."""
    to = draw.console()
    report = tuned.best.report
    to.print(
        Text(
            f"{tuned.method} · {report.lm} · {report.dataset} · {counted(len(report.rows), 'questions')}", style="bold"
        )
    )
    names = list(tuned.best.settings)
    rows = [[*names, *tuned.best.to_dict()["scores"], "calls", "searches", "failed", ""]]
    rows += [_point_row(point, best=point is tuned.best) for point in tuned.points]
    draw.print_rows(rows, to)
    if tuned.gain:
        to.print(gain_text(tuned.objective, tuned.gain))


def gain_text(objective: str, gain: Difference) -> str:
    """Return a gain with its interval and a caution."""
    change = f"{100 * (gain.second - gain.first):+.1f} ({100 * gain.low:+.1f} … {100 * gain.high:+.1f})"
    return f"{objective} over the defaults: {change}, on the questions it was chosen by; confirm it on others"


def _point_row(point: GridPoint, *, best: bool) -> list[str]:
    row = point.to_dict()
    scores = [f"{100 * value:.1f}" for value in row["scores"].values()]
    costs = [f"{row['calls']:.1f}", f"{row['searches']:.1f}", str(row["failed"])]
    return [*map(str, point.settings.values()), *scores, *costs, "best" if best else ""]


def _shown(stage: Stage) -> list[Trial]:
    """Return the baselines, the best candidates and the worst one."""
    marks, candidates = stage.trials[: stage.marks], stage.trials[stage.marks :]
    ordered = sorted(candidates, key=lambda trial: -stage.worth(trial))
    return [*marks, *ordered[:SHOWN], *ordered[SHOWN:][-1:]]


def _row(trial: Trial, setting: str, names: Sequence[str], *, best: bool) -> list[str]:
    means = [trial.mean(name) for name in names]
    scores = ["–" if mean is None else f"{100 * mean:.1f}" for mean in means]
    return [_value(setting, trial.settings), *scores, "best" if best else ""]


def _value(setting: str, settings: Mapping[str, Any]) -> str:
    """Return a setting's value as it is shown; defaults have a name."""
    value = settings.get(setting)
    if setting == "instruction":
        return {None: "(the prompt file's)", NO_INSTRUCTION: "(none)"}.get(value, draw.clean(str(value), MAX_WIDTH))
    if setting == "ensemble":
        return f"{value} of {len(settings['instructions'])}"
    return (
        {"temperature": "(the defaults)", "demo_seed": "(the first)"}.get(setting, "") if value is None else str(value)
    )


def print_confidence(fit: ConfidenceFit) -> None:
    """Print the quality of confidence before and after, and what the thresholds do."""
    rows = [
        [row.method, f"{row.answers:,}", f"{100 * row.right:.0f} %", *map(_interval, (*row.auroc, *row.ece))]
        for row in fit.fits
    ]
    names = ("", "Answers", "Right", "AUROC before", "after", "ECE before", "after")
    to = draw.console()
    draw.print_rows([names, *rows], to, names=1)
    for name, shares in (("supported", fit.supported), (f"below {fit.calibration.withhold_below}", fit.withheld)):
        right, wrong = (f"{100 * share:.0f} %" for share in shares)
        to.print(f"{name}: {right} of right answers, {wrong} of wrong ones")


def _interval(value: tuple[float, float, float] | None) -> str:
    return "–" if value is None else "{:.2f} ({:.2f}–{:.2f})".format(*value)
