"""The parts of ``docs/methods`` that are made from the code: traces, pictures, settings, costs, excerpts, recipes.

    python -m tests.kit.method_pages              # updates all parts except the measurements
    python -m tests.kit.method_pages --measure    # also measures the systems on five questions of the demo set

A page holds such a part between two comments, ``<!-- settings tor -->`` and ``<!-- end -->``; the first names a
function below and its arguments. ``tests/docs/test_methods.py`` makes every part again and holds it against the page.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

import polyhop
from polyhop.answer import Answer, references
from polyhop.cli.traces import trace_tree
from polyhop.data.questions import read_questions
from polyhop.evaluation.reproduction.recipe import keys, recipe
from polyhop.methods.registry import method_named
from tests.kit.doc_reference import settings_of, shown
from tests.kit.trace_pictures import picture as drawn

HERE = Path(__file__).parents[2] / "docs" / "methods"
SOURCE = Path(polyhop.__file__).parent
MEASURED = HERE / "measured.json"
SYSTEMS = ("tor", "cor", "resp", "ge", "searchain", "promptrank", "hops")
QUESTIONS = 5
"""The demo set's first questions, which costs are measured on."""
WIDTH = 118
PART = re.compile(r"(<!-- (\w+) ([^>]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
COST = re.compile(r" {2,}(?:[\d,]+ tok)? *(?:[\d.]+ (?:ms|s)|cached)(?: •)?$")
"""The text to the right of a step: its tokens and its time, which differ from run to run."""


def trace(method: str, question: str, *settings: str) -> str:
    """A question of the demo set, answered by the method with ``pocket``: the trace as ``--show trace`` draws it."""
    answer = answered(method, question, settings)
    lines = drawing(answer)
    options = "".join(f" -o {setting}" for setting in settings)
    command = f'$ polyhop ask "{text_of(question)}" --corpus demo --method {method}{options} --show trace'
    return "\n".join(["```console", command, *lines, "```"])


def picture(method: str, question: str, *settings: str) -> str:
    """The same as a picture in a file of its own, which ``main`` writes."""
    return f"![How {method} came to its answer]({method}.svg)"


def settings(method: str) -> str:
    """A table of the method's settings, as in the reference."""
    return settings_of(method_named(method))


def defaults(method: str) -> str:
    """Return a method's settings and calls as one line."""
    known = method_named(method)
    settings = ", ".join(f"`{name}={shown(setting.default)}`" for name, setting in known.settings.items())
    if not known.calls:
        return f"Asks no model. Settings: {settings}."
    calls = "1 call" if known.calls == 1 else f"{known.calls} calls"
    longest = known.layers(known.resolve({}))
    return f"{calls} per question with `pocket`; at most {longest} in sequence with any model. Settings: {settings}."


def costs(*names: str) -> str:
    """The cost of a question, as the methods declare it and as measured with ``pocket``."""
    head = "| method | calls, declared | sequential calls, maximum | calls | sequential calls | searches | tokens |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    for name in names:
        known, found = method_named(name), measured()[name].values()
        means = [fmean(row[count] for row in found) for count in ("calls", "layers", "searches", "tokens")]
        cells = [f"{mean:,.0f}" if mean >= 100 else f"{mean:.1f}" for mean in means]
        rows.append(f"| `{name}` | {known.calls} | {known.layers(known.resolve({}))} | {' | '.join(cells)} |")
    return "\n".join(rows)


def source(file: str, *functions: str) -> str:
    """An excerpt of a source file: functions, those inside others too, as they stand there; ``NAME:with`` is the first
    ``with`` of a function."""
    text = (SOURCE / file).read_text("utf-8")
    found = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, FUNCTIONS)}
    pieces = []
    for name in functions:
        function, _, is_with = name.partition(":")
        node: ast.stmt = found[function]
        if is_with:
            node = next(inner for inner in found[function].body if isinstance(inner, ast.With | ast.AsyncWith))
        lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
        pieces.append("\n".join(line[node.col_offset :] for line in lines))
    link = f"[{file}](../../src/polyhop/{file})"
    return f"From {link}:\n\n```python\n" + "\n\n\n".join(pieces) + "\n```"


def recipes(*names: str) -> str:
    """The tables and figures of the methods' paper, and the settings in which their rows differ."""
    rows = ["| recipe | what | rows |", "|---|---|---|"]
    papers = {PAPERS.get(name, name) for name in names}
    for known in map(recipe, keys()):
        ours = [row for row in known.rows if row.method in names]
        if not (ours and known.is_result and known.key.partition("/")[0] in papers):
            continue
        given = [dict.fromkeys(f"`{name}={shown(value)}`" for name, value in row.settings.items()) for row in ours]
        shared = set(given[0]).intersection(*given[1:]) if len(given) > 1 else set()
        differing = [", ".join(each for each in one if each not in shared) for one in given]
        named = [f"{row.name} ({each})" if each else row.name for row, each in zip(ours, differing, strict=True)]
        listed = named if len(named) <= MAX_ROWS else [each for each in differing if each]
        rows.append(f"| `{known.key}` | {known.title} | {'; '.join(dict.fromkeys(listed))} |")
    return "\n".join(rows)


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PAPERS = {"cor": "tor"}
"""The system whose paper describes a method, if it is not its own."""
MAX_ROWS = 6
"""For a recipe with more rows, the page lists only the settings."""


def table(*families: str) -> str:
    """The methods of some families, and what they do; ``one_retrieval`` is the family "one retrieval"."""
    wanted = [family.replace("_", " ") for family in families]
    names = [name for name, known in polyhop.methods().items() if known.family in wanted]
    rows = ["| method | paper | what it does |", "|---|---|---|"]
    for name in names:
        known = method_named(name)
        rows.append(f"| `{name}` | {known.paper} | {known.summary.replace('``', '`')} |")
    return "\n".join(rows)


PARTS: Mapping[str, Callable[..., str]] = {
    function.__name__: function for function in (trace, picture, settings, defaults, costs, source, recipes, table)
}


# --- what the parts are made of ----------------------------------------------------------------------------------


def drawing(answer: Answer) -> list[str]:
    """An answer's trace as ``--show trace`` draws it, without what each step cost."""
    console = Console(file=io.StringIO(), width=WIDTH)
    with console.capture() as taken:
        console.print(trace_tree(answer.trace, {each.passage.id: each.marks for each in references(answer)}))
    return [without_cost(line) for line in taken.get().splitlines()]


def without_cost(line: str) -> str:
    """A line of a trace without its tokens and time."""
    return COST.sub("", line).rstrip()


def pictures() -> dict[Path, str]:
    """The files of the pictures that stand on the pages, and what is in them."""
    asked = [
        match[3].split()
        for page in pages()
        for match in PART.finditer(page.read_text("utf-8"))
        if match[2] == "picture"
    ]
    return {
        HERE / f"{method}.svg": drawn(answered(method, question, tuple(given))) for method, question, *given in asked
    }


@cache
def answered(method: str, question: str, settings: tuple[str, ...] = ()) -> Answer:
    """The answer to a question of the demo set, under settings as the command line takes them."""
    given: dict[str, Any] = dict(setting.split("=", 1) for setting in settings)
    with polyhop.Pipeline("demo", method=method, lm="pocket", **given) as pipeline:
        return pipeline.ask(text_of(question))


def text_of(question: str) -> str:
    """The text of a question of the demo set."""
    return next(each.text for each in read_questions("demo") if each.id == question)


@cache
def measured() -> dict[str, dict[str, dict[str, float]]]:
    """Calls, calls in a row, searches and tokens by method and question."""
    found: dict[str, dict[str, dict[str, float]]] = json.loads(MEASURED.read_text("utf-8"))
    return found


def counts(answer: Answer) -> dict[str, float]:
    """The cost of an answer."""
    used = answer.usage
    tokens = used.prompt_tokens + used.completion_tokens
    return {"calls": used.calls, "layers": used.layers, "searches": used.searches, "tokens": tokens}


def measure() -> None:
    """Ask the methods that have a page the first questions of the demo set, and keep what each cost."""
    found: dict[str, Any] = {}
    for name in SYSTEMS:
        with polyhop.Pipeline("demo", method=name, lm="pocket") as pipeline:
            asked = read_questions("demo", limit=QUESTIONS)
            found[name] = {question.id: counts(pipeline.ask(question)) for question in asked}
        MEASURED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    measured.cache_clear()


def part(name: str, arguments: str) -> str:
    """The part of a page as the code makes it now."""
    return PARTS[name](*arguments.split())


def pages() -> list[Path]:
    """The pages of this folder."""
    return sorted(HERE.glob("*.md"))


def main() -> None:
    """Write every part of every page again."""
    if "--measure" in sys.argv:
        measure()
    for page in pages():
        text = page.read_text("utf-8")
        page.write_text(PART.sub(lambda m: f"{m[1]}{part(m[2], m[3])}\n{m[5]}", text), "utf-8")
    for file, svg in pictures().items():
        file.write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
