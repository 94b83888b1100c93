"""Assemble a page: ``report.html`` with the styles, the script, the summary and the data in it.

A question and its trace look as on the server's page: the script and the styles of ``polyhop/trace/view`` are inlined.

Nothing of a dataset, a corpus or a model is ever code: the summary's text is escaped, the script only writes text
nodes, and the page's policy allows no script but that one, by its hash, and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import orjson

from polyhop._version import __version__
from polyhop.common.files import read_inside
from polyhop.common.text import counted
from polyhop.engine.budget import Prices
from polyhop.evaluation.errors import MEANINGS
from polyhop.evaluation.figures import run_names
from polyhop.evaluation.pages import embedded, summary
from polyhop.evaluation.pages.bundle import bundle
from polyhop.evaluation.report import Report
from polyhop.evaluation.results import Results, results
from polyhop.evaluation.store import PREDICTIONS

TRACES = 100
"""Default maximum number of questions whose traces a page holds."""

VIEW = resources.files("polyhop.trace") / "view"
"""The modules and styles that show a trace."""
STYLES = ("fonts.css", "tokens.css", "base.css", "reasoning.css", "tables.css", "plots.css", "report.css")
_FONT = re.compile(r'url\("fonts/([a-z-]+\.woff2)"\)')


def page(
    reports: Mapping[str, Report],
    *,
    parts: Mapping[str, Mapping[str, Report]] | None = None,
    prices: Prices | None = None,
    traces: int = TRACES,
    names: Mapping[str, str] | None = None,
    table: Results | None = None,
) -> str:
    """Return runs as one HTML file.

    ``reports`` by the runs' folders, where their traces are; ``parts``: by name, the same runs on a part of the
    questions. ``traces``: the maximum number of questions whose traces are inside, those with a wrong answer first.
    ``names``: of the runs, by folder. ``table``: their results, by default with the main columns.
    """
    folders = [Path(folder) for folder in reports]
    names = names or run_names(reports)
    named = {names[run]: report for run, report in reports.items()}
    divided = {part: dict(zip(named, runs.values(), strict=True)) for part, runs in (parts or {}).items()}
    settings = {names[str(run)]: _settings_of(run) for run in reports}
    rows = embedded.questions(reports)
    positions = embedded.select_traces(rows, traces)
    data = {"runs": list(named), "errors": MEANINGS, "questions": rows}
    script = bundle(_file("report.js"), VIEW)
    return Template(_file("report.html")).substitute(
        title=escape(_title(reports.values())),
        about=escape(_about(named, settings.values())),
        settings=summary.settings_table(settings),
        summary=summary.summary(named, divided, prices, table or results(named, prices=prices)),
        traces=escape(_traces_note(len(positions), len(rows))),
        made_by=f"polyhop {__version__}",
        data="\n".join([embedded.element("data", data), *embedded.traces(rows, positions, folders)]),
        style=_FONT.sub(_inline_font, "\n".join(map(_file, STYLES))),
        script=script,
        script_hash=_hash(script),
    )


def standalone_svg(plot: str) -> str:
    """Return a plot as an SVG file with the page's style."""
    whole = plot.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return whole.replace(">", f"><style>{_file('tokens.css')}{_file('plots.css')}</style>", 1)


_SHOWN = ("dataset", "corpus", "method", "settings", "lm", "retriever", "reranker", "reader", "rendering", "seed")


def _settings_of(folder: str | Path) -> dict[str, str]:
    """Return the day of a run's last answer and its settings, in words; {} if they cannot be read."""
    try:
        settings = orjson.loads(read_inside(Path(folder), "run.json"))
        answered = datetime.fromtimestamp((Path(folder) / PREDICTIONS).stat().st_mtime, UTC)
        found = {"answered": f"{answered:%Y-%m-%d}", **{name: settings.get(name) for name in (*_SHOWN, "budget")}}
    except (OSError, ValueError, AttributeError):
        return {}
    return {name: _in_words(value) for name, value in found.items()}


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={item}" for name, item in value.items() if item is not None)
    return "" if value is None else str(value)


def _title(reports: Iterable[Report]) -> str:
    runs = list(reports)
    methods, datasets = (list(dict.fromkeys(names)) for names in ([r.method for r in runs], [r.dataset for r in runs]))
    return f"{', '.join(methods)} on {', '.join(datasets)}"


def _about(named: Mapping[str, Report], settings: Iterable[Mapping[str, str]]) -> str:
    """The models, the number of questions and the days of the last answers, in one line."""
    lms = {name: report.lm for name, report in named.items()}
    models = "; ".join(f"{name}: {lm}" for name, lm in lms.items())
    asked = counted(max(len(report.rows) for report in named.values()), "questions")
    days = sorted({each["answered"] for each in settings if "answered" in each})
    answered = f"answered {' to '.join(dict.fromkeys([days[0], days[-1]]))}" if days else ""
    one = len(set(lms.values())) == 1
    shown = f"language model: {next(iter(lms.values()))}" if one else f"language models: {models}"
    return " · ".join(filter(None, [shown, asked, answered]))


def _traces_note(held: int, total: int) -> str:
    if held == total:
        return f"{counted(total, 'questions')} in all, with traces."
    return (
        f"{counted(total, 'questions')} in all; the traces of {held:,} are inside, those with a wrong answer first. "
        "polyhop report --traces N takes more."
    )


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _inline_font(url: re.Match[str]) -> str:
    font = base64.b64encode((VIEW / "fonts" / url[1]).read_bytes()).decode()
    return f'url("data:font/woff2;base64,{font}")'


def _file(name: str) -> str:
    own = resources.files("polyhop.evaluation.pages") / name
    return (own if own.is_file() else VIEW / name).read_text("utf-8")
