"""The reasoning of each family as the terminal shows it, against golden files, and what a terminal must never be sent.

Where a change is meant, write the files anew and read what git shows:

    POLYHOP_GOLDEN=write pytest tests/cli/test_traces.py
"""

from __future__ import annotations

import difflib
import io
import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from polyhop.answer import Answer
from polyhop.cli.answers import print_answer
from polyhop.cli.show import Entry, clean
from polyhop.cli.summaries import describe_ask, describe_note, excerpt
from polyhop.cli.traces import critical_line
from polyhop.trace import Ask, Note
from polyhop.types import Citation, Evidence, Passage, Quotation
from tests.kit.method_families import FAMILIES, answered

GOLDEN = Path(__file__).parents[1] / "golden" / "terminal"
WRITE = os.environ.get("POLYHOP_GOLDEN") == "write"
QUICK = settings(deadline=None, max_examples=60)


def drawn(answer: Answer, width: int = 80, *, show_trace: bool = True, colour: bool = False) -> str:
    to = Console(
        file=io.StringIO(),
        width=width,
        highlight=False,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        legacy_windows=False,
    )
    print_answer(answer, show_trace=show_trace, to=to)
    return to.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("method", FAMILIES)
async def test_a_trace_of_each_family(method: str, width: int) -> None:
    shown = drawn(await answered(method), width)
    assert max(map(len, shown.splitlines())) <= width
    assert not re.search(r"[{}]|'\w+':", shown), "raw data"
    assert "\x1b" not in shown
    check(shown, GOLDEN / f"{method}-{width}.txt")


async def test_a_long_answer_with_its_references() -> None:
    check(drawn(await answered("searchain", "long"), show_trace=False), GOLDEN / "long-80.txt")


def check(shown: str, golden: Path) -> None:
    if WRITE:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(shown, "utf-8")
    was = golden.read_text("utf-8") if golden.exists() else ""
    assert shown == was, "".join(difflib.unified_diff(was.splitlines(True), shown.splitlines(True), golden.name, "now"))


async def test_a_critical_path_of_cached_calls_may_be_longer_than_the_answer_took() -> None:
    trace = (await answered("tor")).trace
    assert critical_line(trace, 5.0).plain == "critical path: 1.4 s of 5.0 s"
    assert critical_line(trace, 0.1).plain == "critical path: 1.4 s without the cache, 100 ms with it"


async def test_a_narrow_terminal_and_one_with_colour_tell_the_same() -> None:
    answer = await answered("tor")
    narrow = drawn(answer, 40)
    assert max(map(len, narrow.splitlines())) <= 40
    assert "accept" in narrow
    coloured = drawn(answer, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured).split() == drawn(answer).replace("**", "").split()


async def test_the_critical_path_is_marked_where_calls_ran_side_by_side() -> None:
    assert not re.search(r" •\n", drawn(await answered("tor")))
    assert re.search(r"resp\.judge .* (ms|s) •\n|resp\.respond .* (ms|s) •\n", drawn(await answered("resp")))


async def test_a_budget_that_ended_it_is_reported() -> None:
    answer = await answered("tor", max_calls=3)
    shown = drawn(answer)
    assert "■ budget spent: max_calls" in shown
    assert "cut short" in shown
    assert "cut short" not in drawn(await answered("ircot"))  # its turns have no verdicts


async def test_what_contradicts_an_answer_is_quoted() -> None:
    answer = await answered("tor")
    cited = answer.citations[0].passage_id
    quotation = Quotation(cited, 0, 4, "He was born in Ulm.", "Ulm")
    shown = drawn(replace(answer, support="contradicted", quotation=quotation), show_trace=False)
    assert "give another answer: Ulm.\nContradicted by “He was born in Ulm.” [1]\n" in shown
    assert "by “" not in drawn(replace(answer, support="not verified", quotation=quotation), show_trace=False)


async def test_passages_that_were_only_found_are_told_from_those_read() -> None:
    answer = await answered("tor")
    found = tuple(Passage(f"new{number}", f"New {number}", "") for number in range(7))
    shown = drawn(replace(answer, passages=(*answer.passages, *found)), show_trace=False)
    assert "Read, not cited: Ferry\n" in shown
    assert "Found, not read: New 0; New 1; New 2; New 3; New 4; and 2 more\n" in shown
    unread = {row["id"] for row in replace(answer, passages=found).to_dict()["passages"] if not row["read"]}
    assert unread == {passage.id for passage in found}
    abstention = replace(answer, abstained=True, citations=(), passages=found)
    assert re.search(r"Nearest passages:\nNew 0\n.*New 2\n.*and \d more\n", drawn(abstention, show_trace=False), re.S)


# --- what a terminal must never be sent ---------------------------------------------------------------------------

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u200b\x00\r\nlast"


def hostile(value: Any) -> Any:
    match value:
        case str():
            return value if value in ("Search", "Lookup", "Finish") else value + HOSTILE
        case Mapping():
            return {name: hostile(inner) for name, inner in value.items()}
        case list():
            return [hostile(inner) for inner in value]
        case _:
            return value


@pytest.mark.parametrize("method", FAMILIES)
async def test_nothing_that_a_terminal_obeys_comes_through(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.kit import method_families

    def bad(passage: Passage) -> Passage:
        metadata = {"source": f"a{HOSTILE}.pdf", "page": 2}
        return replace(passage, title=passage.title + HOSTILE, text=passage.text + HOSTILE, metadata=metadata)

    hits = {query: list(map(bad, found)) for query, found in method_families.HITS.items()}
    monkeypatch.setattr(method_families, "HITS", hits)
    monkeypatch.setattr(method_families, "MAN", bad(method_families.MAN))
    answer = await answered(method, script=lambda task, fields: hostile(method_families.reply(task, fields)))
    for colour in (False, True):
        shown = re.sub(r"\x1b\[[\d;]*m", "", drawn(answer, colour=colour)) if colour else drawn(answer)
        assert [c for c in shown if c != "\n" and unicodedata.category(c)[0] == "C"] == []
        assert "last" in shown


@QUICK
@given(st.text(), st.integers(1, 60))
def test_clean_is_one_printable_line(text: str, longest: int) -> None:
    assert clean(text, longest).isprintable()
    assert len(clean(text, longest)) <= longest


# --- the parts ------------------------------------------------------------------------------------------------------

WORDS = st.text(st.sampled_from("ab [1]'{\n\x1b東"), max_size=12)
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.floats() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["query", "head", "score"]), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["answer", "relevant", "action", "argument", "nodes", "triplets", "rationale", "order", "ranked", "graph", "own"]
)


@QUICK
@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_whatever_a_task_puts_out_is_shown(output: dict[str, Any]) -> None:
    result = describe_ask(Ask(id=0, task="own", model="m", fields={}, output=output, text=""))
    assert all(line.plain.isprintable() for line in (result.head, *result.below))


@QUICK
@given(
    st.sampled_from(["graph", "binding", "memory", "paths", "final content", "own"]),
    st.dictionaries(st.sampled_from(["ranked", "triplets", "nodes", "references", "variable", "answer"]), VALUES),
)
def test_whatever_a_method_remarks_is_shown(name: str, data: dict[str, Any]) -> None:
    result = describe_note(Note(id=0, name=name, data=data), {})
    assert all(line.plain.isprintable() for line in (result.head, *result.below))


@QUICK
@given(st.text(max_size=400), st.integers(0, 400), st.integers(0, 400), st.booleans())
def test_an_excerpt_holds_what_was_used(text: str, start: int, end: int, plain: bool) -> None:
    shown = excerpt(text, [(start, end)], plain=plain)
    assert shown.plain.isprintable()
    if start < end <= len(text) and clean(text[start:end], 500):
        assert clean(text[start:end], 500) in shown.plain


def test_an_excerpt_is_cut_around_what_was_used() -> None:
    text = "One sentence of no use stands here. " * 12 + "He was born in Bremen. " + "And so on and on. " * 12
    start = text.index("Bremen")
    shown = excerpt(text, [(start, start + 6)], plain=True).plain
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert "born in **Bremen**." in shown
    assert len(shown) < 240


def test_an_entry_keeps_its_columns() -> None:
    to = Console(file=io.StringIO(), width=40, color_system=None)
    to.print(Entry(Text("a word " * 8), [Text("below")], Text("12 ms")))
    to.print(Entry(Text("short"), (), Text("far too long to stand beside any text")))
    assert to.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "a word a word a word a word a      12 ms",
        "  word a word a word a word",
        "  below",
        "short",
        "  far too long to stand beside any text",
    ]


def test_the_same_passage_is_listed_once_with_all_its_numbers() -> None:
    film, man = Passage("f", "Mill", "By Ann Lee."), Passage("m", "Ann Lee", "Born in Ulm.")
    answer = replace(
        Answer("Ulm", (film, man), (Evidence((film, man)),), support="supported", confidence=1.0),
        citations=(Citation(3, "m", 8, 11), Citation(1, "f"), Citation(2, "m"), Citation(4, "gone")),
        content="By Ann Lee [1], who is of Ulm [3, 2].",
    )
    to = Console(file=io.StringIO(), width=80, color_system=None)
    print_answer(with_usage(answer), show_trace=False, to=to)
    assert to.file.getvalue().splitlines()[:6] == [  # type: ignore[attr-defined]
        "Answer: Ulm  (confidence 1.00)",
        "By Ann Lee [1], who is of Ulm [3, 2].",
        "[1] Mill",
        "    By Ann Lee.",
        "[2][3] Ann Lee",
        "    Born in **Ulm**.",
    ]


def with_usage(answer: Answer) -> Answer:
    from polyhop.trace import Trace, Usage

    trace = Trace("Q", "own", ())
    return replace(answer, trace=trace, usage=Usage.of(trace, 0.0))
