"""The recipes and a reproduced table, as ``polyhop reproduce`` shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from polyhop.cli import show as draw
from polyhop.evaluation.reproduction.jobs import runnable_rows
from polyhop.evaluation.reproduction.measures import MEASURES
from polyhop.evaluation.reproduction.recipe import ALL, BENCHMARKS, RecipeRow, Reproduction, keys, recipe
from polyhop.evaluation.setups import SETUPS

ABSENT = "–"
_HEAD = 4
_LONG = 12
_NAME = 26


def print_recipes(as_json: bool) -> None:
    """Print the list of recipes."""
    rows = [
        {
            "key": key,
            "title": (one := recipe(key)).title,
            "source": one.source,
            "datasets": list(one.datasets),
            "rows": len(one.rows),
            "runnable": len(runnable_rows(one)),
        }
        for key in keys()
    ]
    if as_json:
        draw.print_json(rows)
        return
    head = ["recipe", "rows that can run", "what"]
    lines = [[row["key"], f"{row['runnable']} of {row['rows']}", row["title"]] for row in rows]
    table = Table(box=None, pad_edge=False)
    for name, justify in zip(head, ("left", "right", "left"), strict=True):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for cells in lines:
        table.add_row(*map(str, cells))
    draw.console().print(table)


def print_reproduction(result: Reproduction, to: Console) -> None:
    """Print models and datasets, the tables, the rows that did not run and why, and notes on the paper's numbers."""
    table, setup = result.recipe, SETUPS[result.recipe.setup]
    to.print(Text.assemble((table.key, "bold"), f"  {table.title}. {table.source}"))
    sizes = "; ".join(f"{BENCHMARKS[name]}: {sample}" for name, sample in table.datasets.items())
    to.print(_line("the paper", f"{', '.join(table.lms)}; {setup.retriever}; {sizes}"))
    if result.used:
        used = "; ".join(f"{BENCHMARKS[name]}: {sample}" for name, sample in result.used.items())
        reader = f"; reader: {result.reader}" if result.reader else ""
        to.print(_line("ours", f"{result.lm}; retriever: {result.retriever}{reader}; {used}"))
    if result.demonstrations:
        shown = "; ".join(f"{method} {numbers}" for method, numbers in result.demonstrations.items())
        to.print(_line("demonstrations", shown))
    if result.settings:
        own = (
            " ".join([method, *(f"{name}={value}" for name, value in given.items())])
            for method, given in result.settings.items()
        )
        to.print(_line("set in every row", "; ".join(own)))
    if result.stands_in and result.used:
        warning = "No dataset given (--data, --dataset): the demo set is used, so our numbers are not comparable."
        to.print(Text(warning, style="yellow"))
    to.print(Text("Cells: paper · ours, shares in percent; (standard deviation over runs)", style="dim"))
    for positions in _tables(result, to.width):
        to.print(_table(result, positions))
    _print_lines("not run", [f"{', '.join(rows)}: {why}" for why, rows in result.not_run.items()], to)
    verdicts = {True: "holds", False: "does not hold", None: "these rows do not show it"}
    _print_lines("shape", [f"{shape.says}: {verdicts[holds]}" for shape, holds in result.shape], to)
    _print_lines("our values", setup.ours, to)
    _print_lines("notes", table.notes, to)


def _line(head: str, text: str) -> Text:
    return Text.assemble((f"{head}: ", "bold"), draw.clean(text, 2000))


def _print_lines(head: str, lines: Sequence[str], to: Console) -> None:
    if lines:
        to.print(Text(head, style="bold"))
        for line in lines:
            to.print(Padding(Text(draw.clean(line, 1000)), (0, 0, 0, 2)))


def _tables(result: Reproduction, width: int) -> Iterator[list[int]]:
    """Yield the columns of each table that fits the terminal.

    The columns of a dataset stay together if possible, and among them those of a measure under several models.
    """
    width_left = width - min(_NAME, max(len(_row_name(row)) for row in result.recipe.rows))
    widths = [2 + max(map(len, _column(result, i))) for i in range(len(result.columns))]
    columns: list[int] = []
    for dataset in [*result.recipe.datasets, ALL]:
        of_dataset = [i for i, column in enumerate(result.columns) if column.dataset == dataset]
        measures = list(dict.fromkeys(result.columns[i].metric for i in of_dataset))
        own = sorted(of_dataset, key=lambda i: measures.index(result.columns[i].metric))
        if columns and sum(widths[i] for i in [*columns, *own]) > width_left:
            yield columns
            columns = []
        for i in own:
            if columns and sum(widths[j] for j in [*columns, i]) > width_left:
                yield columns
                columns = []
            columns.append(i)
    if columns:
        yield columns


def _table(result: Reproduction, positions: Sequence[int]) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = [_column(result, i) for i in positions]
    table.add_column("row", max_width=_NAME)
    for head in (cells[:_HEAD] for cells in columns):
        table.add_column("\n".join(filter(None, head)), justify="right", no_wrap=True)
    for row, *cells in zip(map(_row_name, result.recipe.rows), *(cells[_HEAD:] for cells in columns), strict=True):
        table.add_row(row, *cells)
    return table


def _row_name(row: RecipeRow) -> str:
    return row.name + " †" * row.trained + " (ours)" * row.ours


def _column(result: Reproduction, i: int) -> list[str]:
    """Return a column's head of ``_HEAD`` lines and its cells: both numbers, ours with as many decimals."""
    column, table = result.columns[i], result.recipe
    name = "all" if column.dataset == ALL else BENCHMARKS[column.dataset]
    model = column.lm if column.lm and len(table.lms) > 1 else ""
    rows = range(len(table.rows))
    figures = [value for row in rows if (value := result.paper(row, i)[0]) is not None]
    decimals = max((len(f"{value:g}".partition(".")[2]) for value in figures), default=1)
    mine = [_number(cells[i].value, cells[i].std, decimals) for cells in result.cells]
    if i < len(table.cells):
        papers = [_number(*result.paper(row, i), decimals) for row in rows]
        comes_again = _comes_again(result, i)
        mine = papers if comes_again else [" · ".join(both) for both in zip(papers, mine, strict=True)]
        model += " · ours" if model and not comes_again else ""
    return [name, *_two_lines(MEASURES[column.metric].label), model, *mine]


def _comes_again(result: Reproduction, i: int) -> bool:
    """Return True if a later column, for another model of the paper, repeats polyhop's numbers."""
    here = result.columns[i]
    later = [
        j
        for j in range(i + 1, len(result.recipe.cells))
        if (result.columns[j].dataset, result.columns[j].metric) == (here.dataset, here.metric)
    ]
    return bool(later) and all(cells[i] == cells[later[0]] for cells in result.cells)


def _two_lines(label: str) -> tuple[str, str]:
    """Break a long label at its middle blank.

    >>> _two_lines("parsed at first try"), _two_lines("EM")
    (('parsed at', 'first try'), ('EM', ''))
    """
    words = label.split()
    middle = (len(words) + 1) // 2 if len(label) > _LONG else len(words)
    return " ".join(words[:middle]), " ".join(words[middle:])


def _number(value: float | None, std: float | None, decimals: int) -> str:
    if value is None:
        return ABSENT
    return f"{value:.{decimals}f}" + (f" ({std:.1f})" if std is not None else "")
