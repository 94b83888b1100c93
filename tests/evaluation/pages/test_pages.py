"""A report as a page: one file, all text escaped, nothing loaded; its plots; the other forms of a table."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from polyhop.cli.app import app
from polyhop.cli.forms import comma_separated, form_of, latex, markdown
from polyhop.errors import UnknownName, UsageError
from polyhop.evaluation.pages.embedded import element, questions, select_traces
from polyhop.evaluation.pages.page import page
from polyhop.evaluation.plots import Bar, Dot, bars, scatter
from polyhop.evaluation.store import read_report
from tests.kit.hostile_runs import ATTACKS, evil_run, plain_run

RUNNER = CliRunner()


class Parsed(HTMLParser):
    """A page as a browser reads it: its elements, and the text of its scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.svgs = re.findall(r"<svg.*?</svg>", html, re.S)
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.scripts and self.cdata_elem == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)

    def data(self, name: str) -> Any:
        return next(json.loads(text) for attributes, text in self.scripts if attributes.get("id") == name)

    def names(self) -> list[str]:
        return [str(attributes["id"]) for attributes, _ in self.scripts if "id" in attributes]


def parsed(*folders: Path, **options: Any) -> Parsed:
    return Parsed(page({str(folder): read_report(folder) for folder in folders}, **options))


def test_nothing_of_a_dataset_a_corpus_or_a_model_is_an_element(tmp_path: Path) -> None:
    evil_run(tmp_path / "run")
    found = parsed(tmp_path / "run")
    assert not [tag for tag, _ in found.elements if tag in ("img", "iframe", "object", "link", "base", "b")]
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    code = [text for attributes, text in found.scripts if attributes.get("type") != "application/json"]
    assert len(code) == 1
    assert "innerHTML" not in code[0]
    assert "insertAdjacentHTML" not in code[0]


def test_answers_come_before_retrieval_and_settings_before_both(tmp_path: Path) -> None:
    for method in ("bm25", "one-r"):
        plain_run(tmp_path / method, method=method, limit=2)
    html = page({str(tmp_path / method): read_report(tmp_path / method) for method in ("bm25", "one-r")})
    heads = re.findall(r'<th scope="row">([^<]*)', html)
    order = [heads.index(name) for name in ("answered", "settings", "retriever", "EM", "F1", "recall@5 mean")]
    assert order == sorted(order)
    assert re.search(r'scope="row">answered</th><td class="number">\d{4}-\d\d-\d\d</td>', html)
    assert "k=5, style=direct" in html


def test_the_fonts_are_inside(tmp_path: Path) -> None:
    plain_run(tmp_path / "run", limit=1)
    html = page({str(tmp_path / "run"): read_report(tmp_path / "run")})
    fonts = re.findall(r'src: url\("([^"]*)"\)', html)
    assert len(fonts) == 4
    for url in fonts:
        kind, _, content = url.partition(",")
        assert kind == "data:font/woff2;base64"
        assert base64.b64decode(content).startswith(b"wOF2")
    assert "font-src data:;" in html


@pytest.mark.parametrize("name", ATTACKS)
def test_no_name_of_a_run_or_a_part_is_an_element(name: str, tmp_path: Path) -> None:
    plain_run(tmp_path / "run", limit=2)

    def tags(name: str) -> list[str]:
        report = replace(read_report(tmp_path / "run"), method=name, lm=name, dataset=name)
        runs = {name: report, "b": replace(report, method="other")}
        return [tag for tag, _ in Parsed(page(runs, parts={name: runs})).elements]

    assert tags(name) == tags("x" * len(name))


def test_what_was_said_is_there_to_the_letter(tmp_path: Path) -> None:
    evil_run(tmp_path / "run")
    found = parsed(tmp_path / "run")
    rows = found.data("data")["questions"]
    assert [row["text"] for row in rows] == list(ATTACKS)
    assert rows[0]["runs"][0]["answer"] == ATTACKS[0]
    trace = found.data("t-0-0")
    assert trace["trace"]["passages"]["p0"]["text"] == ATTACKS[0]
    assert trace["trace"]["steps"][0]["query"] == ATTACKS[0]


def test_the_page_runs_its_own_script_alone_and_loads_nothing(tmp_path: Path) -> None:
    plain_run(tmp_path / "run")
    found = parsed(tmp_path / "run")
    policy = next(a["content"] for t, a in found.elements if a.get("http-equiv") == "Content-Security-Policy") or ""
    code = next(text for attributes, text in found.scripts if not attributes)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    addresses = [a[name] for _, a in found.elements for name in ("src", "href", "action", "srcset") if name in a]
    assert addresses == ["#questions"]
    assert "url(" not in re.sub(
        r'url\("data:font/woff2;base64,[\w+/=]+"\)', "", page({str(tmp_path / "run"): read_report(tmp_path / "run")})
    )


@given(st.text(), st.text())
def test_json_in_a_page_is_read_back(key: str, text: str) -> None:
    written = element("x", {key: ["</script>", text]})
    body = written.removeprefix('<script type="application/json" id="x">').removesuffix("</script>")
    assert not set("<>&\u2028\u2029").intersection(body)
    assert json.loads(body) == {key: ["</script>", text]}


def test_wrong_answers_have_their_traces_first(tmp_path: Path) -> None:
    plain_run(tmp_path / "run", wrong={5, 6})
    reports = {str(tmp_path / "run"): read_report(tmp_path / "run")}
    rows = questions(reports)
    assert select_traces(rows, 1) == [5]
    assert select_traces(rows, 3) == [0, 5, 6]
    assert select_traces(rows, 0) == []
    found = parsed(tmp_path / "run", traces=2)
    assert found.names() == ["data", "t-5-0", "t-6-0"]
    assert "the traces of 2 are inside" in page(reports, traces=2)
    assert "in all, with traces" in page(reports)


def test_a_trace_that_is_gone_is_left_out(tmp_path: Path) -> None:
    plain_run(tmp_path / "run")
    (tmp_path / "run" / "traces" / "00000.json").unlink()
    (tmp_path / "run" / "traces" / "00001.json").write_text('{"trace": ')
    assert parsed(tmp_path / "run").names() == ["data", *(f"t-{number}-0" for number in range(2, 8))]


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    plain_run(tmp_path / "one")
    plain_run(tmp_path / "two", wrong={2}, limit=4, method="cot")
    found = parsed(tmp_path / "one", tmp_path / "two")
    data = found.data("data")
    assert data["runs"] == ["one-r", "cot"]
    assert len(data["questions"]) == 8
    assert [cell and cell["right"] for cell in data["questions"][2]["runs"]] == [True, False]
    assert data["questions"][2]["runs"][1]["error"] == "not retrieved"
    assert data["questions"][5]["runs"][1] is None
    assert "t-2-1" in found.names()
    titles = [ElementTree.fromstring(svg).findtext("title") for svg in found.svgs]
    assert titles == ["Accuracy", "F1 by tokens", "Model calls by task", "Errors"]  # all make one call


def test_parts_of_the_questions_have_tables_and_a_plot(tmp_path: Path) -> None:
    plain_run(tmp_path / "run", wrong={1})
    report = read_report(tmp_path / "run")
    parts = {f"hops {value}": {"run": part} for value, part in report.by("hops").items()}
    html = page({str(tmp_path / "run"): report}, parts=parts)
    assert "hops 1: 4 questions" in html
    plots = {svg.findtext("title"): svg for svg in map(ElementTree.fromstring, Parsed(html).svgs)}
    assert plots["Accuracy by part"].findtext("desc") == "EM, hops 1 one-r 100.0; EM, hops 2 one-r 75.0"


def test_a_run_that_has_just_begun_has_a_page(tmp_path: Path) -> None:
    plain_run(tmp_path / "run")
    (tmp_path / "run" / "predictions.jsonl").write_text("")
    assert parsed(tmp_path / "run").data("data")["questions"] == []


def test_a_run_without_answers_or_calls_has_a_page(tmp_path: Path) -> None:
    plain_run(tmp_path / "run", method="bm25")
    data = parsed(tmp_path / "run").data("data")
    assert data["questions"][0]["runs"][0]["right"] is None


# --- plots


def test_bars_are_as_long_as_their_values() -> None:
    svg = ElementTree.fromstring(bars("T", {"g": [Bar("a<b", 50.0, 25.0, 75.0), Bar("c", 100.0)]}, axis_max=100))
    first, second = svg.findall("rect")
    assert float(second.attrib["width"]) == pytest.approx(2 * float(first.attrib["width"]), abs=0.2)
    start, end = re.findall(r"[ML]([\d.]+)", svg.findall("path")[0].attrib["d"])[:2]
    assert float(end) - float(start) == pytest.approx(float(first.attrib["width"]), abs=0.2)
    assert "a<b 50.0" in (svg.findtext("desc") or "")


def test_the_frontier_steps_through_the_best_runs() -> None:
    dots = [
        Dot("cheap", 1.0, 10.0, 5.0, 15.0, best=True),
        Dot("worse", 5.0, 8.0, 5.0, 15.0, best=False),
        Dot("good", 9.0, 40.0, 35.0, 45.0, best=True),
    ]
    svg = ElementTree.fromstring(scatter("T", dots, x_label="calls", y_label="F1"))
    points = {(c.attrib["cx"], c.attrib["cy"]) for c in svg.findall("circle")}
    (line,) = (p.attrib["d"] for p in svg.findall("path") if p.attrib["class"] == "frontier")
    cheap, _, good = ((c.attrib["cx"], c.attrib["cy"]) for c in svg.findall("circle"))
    assert line.startswith(f"M{cheap[0]} {cheap[1]}H{good[0]}V{good[1]}")
    assert len(points) == 3


values = st.just(0.0) | st.floats(1e-6, 1e6)


@given(st.lists(st.tuples(st.text(), values, values, st.booleans()), min_size=1, max_size=6))
def test_any_values_make_a_plot_within_its_frame(points: list[tuple[str, float, float, bool]]) -> None:
    dots = [Dot(name, x, y, y / 2, y * 2, best) for name, x, y, best in points]
    clean = [Dot("".join(c for c in d.label if c.isprintable()), d.x, d.y, d.low, d.high, d.best) for d in dots]
    svg = ElementTree.fromstring(scatter("T", clean, x_label="x", y_label="y"))
    for circle in svg.findall("circle"):
        assert -1 <= float(circle.attrib["cx"]) <= 441
        assert -1 <= float(circle.attrib["cy"]) <= 293


# --- the command and the other forms


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("r.html", "<!doctype html>"),
        ("r.tex", "% \\usepackage"),
        ("r.md", "| run |"),
        ("r.csv", "run,"),
        ("r.json", "{"),
    ],
)
def test_the_suffix_of_the_file_selects_the_format(tmp_path: Path, name: str, begins: str) -> None:
    plain_run(tmp_path / "run")
    out = tmp_path / "new" / name
    done = RUNNER.invoke(app, ["report", str(tmp_path / "run"), "--out", str(out), "--by", "hops"])
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert out.read_text().startswith(begins)


def test_a_form_that_is_none_is_refused() -> None:
    with pytest.raises(UnknownName, match="pdf"):
        form_of("pdf", None)
    with pytest.raises(UsageError, match=r"r\.txt: a table is for the terminal"):
        form_of(None, Path("r.txt"))
    assert form_of("csv", Path("r.html")) == "csv"
    assert form_of(None, None) == "table"


def test_csv_holds_bare_numbers(tmp_path: Path) -> None:
    plain_run(tmp_path / "run", wrong={1, 2})
    done = RUNNER.invoke(app, ["report", str(tmp_path / "run"), "--format", "csv"])
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert float(row["em"]) == 0.75
    assert 0 <= float(row["em low"]) < 0.75 < float(row["em high"]) <= 1
    assert (row["questions"], row["em n"], row["calls"]) == ("8", "8", "1.0")
    assert (row["error misread"], row["error budget"]) == ("2", "0")


def test_the_terminal_counts_the_errors(tmp_path: Path) -> None:
    plain_run(tmp_path / "run", wrong={1, 2})
    done = RUNNER.invoke(app, ["report", str(tmp_path / "run")])
    assert re.search(r"misread +2 +25\.0", done.stdout)


LATEX_MEANS: Mapping[str, str] = {"a_b & c%": r"a\_b \& c\%", "{\\x}": r"\{\textbackslash{}x\}", "1 ±2": r"1 $\pm$2"}


@pytest.mark.parametrize("cell", LATEX_MEANS)
def test_latex_is_escaped(cell: str) -> None:
    assert LATEX_MEANS[cell] + r" \\" in latex([["head"], [cell]])


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_any_cells_make_one_line_of_latex(cells: list[str]) -> None:
    line = latex([["h"] * len(cells), cells]).splitlines()[5]
    bare = re.sub(r"\\[&%$#_{}]|\\text\w+\{\}|\\ldots\{\}|\$\\\w+\$|\{[*[]\}", "", line.removesuffix(r" \\"))
    assert bare.count(" & ") == len(cells) - 1
    assert not set("%$#_{}\\~^[*").intersection(bare)


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_any_cells_make_one_row_of_markdown_without_markup(cells: list[str]) -> None:
    _, _, line = markdown([["h"] * len(cells), cells]).splitlines()
    bare = re.sub(r"\\[\\`*_\[\]<>|~&$]", "", line)
    assert bare.count("|") == len(cells) + 1
    assert not set("\\`*_[]<>~&$").intersection(bare)


@given(st.lists(st.lists(st.text("=+-@＝\t\r\n\x1b 0'a,;\"|"), min_size=2, max_size=2), min_size=1))
def test_no_cell_of_csv_is_a_formula(rows: list[list[str]]) -> None:
    for row in csv.reader(io.StringIO(comma_separated(rows))):
        for cell in row:
            assert not cell.startswith(("\t", "\r", "\n"))
            assert "\x1b" not in cell
            if cell.lstrip().startswith(("=", "+", "-", "@", "＝")):
                float(cell)


def test_text_of_csv_is_left_as_it_is_if_asked(tmp_path: Path) -> None:
    plain_run(tmp_path / "=1+1")
    given = ["report", str(tmp_path / "=1+1"), "--format", "csv"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        given[1] = "=1+1"
        for more, run in (([], "'=1+1"), (["--raw-csv"], "=1+1")):
            (row,) = csv.DictReader(io.StringIO(RUNNER.invoke(app, [*given, *more]).stdout))
            assert row["run"] == run
            assert float(row["em"]) == 1
    refused = RUNNER.invoke(app, ["report", str(tmp_path / "=1+1"), "--raw-csv"])
    assert "--raw-csv: the format is table" in str(refused.exception)


@given(st.lists(st.lists(st.text(st.characters(exclude_characters="\r\x00")), min_size=2, max_size=2), min_size=1))
def test_csv_is_read_back(rows: list[list[str]]) -> None:
    assert list(csv.reader(io.StringIO(comma_separated(rows, raw=True)))) == rows
