"""No text makes a regular expression explode: its time grows about as the text does."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import pytest

from polyhop.common.sentences import join_wrapped_lines, passage_spans
from polyhop.common.text import bare_title, citation_marks, without_citation_marks
from polyhop.data.converting.layout import Line
from polyhop.data.converting.pdf import _locate
from polyhop.data.converting.plain import markdown_blocks, text_blocks
from polyhop.lm.reply import strip_reasoning
from polyhop.methods.graph import QuestionGraph
from polyhop.prompts.lines import YesNo, find_yes_or_no
from polyhop.prompts.parsing import _bare_judgement, after_label
from polyhop.prompts.show import fences, harmless
from polyhop.prompts.tasks.acting import _patterns
from polyhop.redaction import redacted
from tests.kit.regexes import Found, explodes, patterns, pumped

THOROUGH = os.environ.get("POLYHOP_HYPOTHESIS", "steady") != "steady"
"""Ten times as many attacks; a few minutes."""


@pytest.mark.parametrize("careless", [r"(?:a+)+$", r"\s+$", r"(#+)[ ]+(.+?)[ ]*#*[ ]*$"])
def test_a_careless_pattern_is_caught(careless: str) -> None:
    pattern = re.compile(careless)
    assert any(explodes(pattern.search, lead, piece) for lead, piece in pumped(pattern))


@pytest.mark.slow
def test_no_pattern_explodes() -> None:
    found = patterns()
    assert len(found) > 100
    for each in found:
        for lead, piece in pumped(each.pattern, THOROUGH):
            why = explodes(each.work(), lead, piece)
            assert not why, (each.locations, each.pattern.pattern, lead, piece, why)


@pytest.mark.parametrize(
    "pattern", [_bare_judgement("RELEVANT", "IRRELEVANT"), *_patterns(("Search", "Lookup")), fences()]
)
def test_no_pattern_explodes_that_is_put_together_for_a_prompt(pattern: re.Pattern[str]) -> None:
    for lead, piece in pumped(pattern, THOROUGH):
        assert not (why := explodes(Found(pattern, anywhere=True).work(), lead, piece)), (lead, piece, why)


def labelled(text: str) -> object:
    return after_label(text, "answer", "output")


def cut_at_headings(text: str) -> object:
    return _locate([Line(line) for line in text.split("\n")], [("A b", 1), ("1 1", 1)])


READING = (
    harmless,
    redacted,
    strip_reasoning,
    join_wrapped_lines,
    passage_spans,
    text_blocks,
    markdown_blocks,
    labelled,
    cut_at_headings,
)


@pytest.mark.parametrize("read", READING)
def test_untrusted_texts_are_read_in_linear_time(read: Callable[[str], object]) -> None:
    def work(text: str) -> None:
        value = read(text)
        if isinstance(value, Iterator):
            list(value)

    for lead in ("# ", "---\ntitle:", "://", "step 1 output", "A", "<think>", "analysisA"):
        for piece in (" ", "# ", "A.", "<", "a:", "1", "*", "\n", "<think>", "</thought> ", "<reasoning>\n"):
            assert not (why := explodes(work, lead, piece)), (lead, piece, why)


def judged(text: str) -> object:
    return YesNo("sufficient").read(text + "\n[YES]", {})


def bound(text: str) -> object:
    return QuestionGraph.of([{"head": text, "relation": "director", "tail": "#1"}])


def marked(text: str) -> object:
    return without_citation_marks(text), list(citation_marks(text))


@pytest.mark.parametrize(
    ("read", "lead", "piece"), [(marked, " [", "1"), (judged, "answer", ":"), (bare_title, "A", " "), (bound, "", " ")]
)
def test_what_was_slow_once_is_not(read: Callable[[str], object], lead: str, piece: str) -> None:
    """References of digits alone, a judgement of colons, a title and a graph's node of blanks."""
    assert not explodes(read, lead, piece)


def test_what_was_slow_once_reads_what_it_read() -> None:
    assert list(citation_marks("A [1, 22;3] b [12345] c [1,,2] d [x] e []")) == [
        (2, 11, [1, 22, 3]),
        (14, 21, [12345]),
        (24, 30, [1, 2]),
    ]
    assert [bare_title(title) for title in ("Ran  (1985 film) ", "(Ran)", "Ran (a) b")] == ["Ran", "(Ran)", "Ran (a) b"]
    assert [find_yes_or_no(text)[0] for text in ("** Answer ** : ** yes", "answer - yes", "Judgement:no.")] == [
        True,
        None,
        False,
    ]
    for node, variable in ((" #1", True), ("name : #1 ", True), (": #1", True), ("# 1", False), ("the one #1", False)):
        graph = QuestionGraph.of([{"head": node, "relation": "director", "tail": "Ran"}], typed=False)
        assert bool(graph.triplets) == variable, node
    urls = "http://ada:a:b@one http://ada@two http://a/b:c@three ://x:y@z@four"
    assert redacted(urls) == "http://***@one http://***@two http://***@three ://***@four"


def test_a_heading_of_blanks_is_read_and_its_closing_marks_are_left_out() -> None:
    text = f"---\ntitle: 'Ada'{' ' * 9999}\n---\n# One ##  \nText.\n## {' ' * 9999}x\n###\nMore."
    assert [(block.level, block.text) for block in markdown_blocks(text)] == [
        (0, "Ada"),
        (1, "One"),
        (None, "Text."),
        (2, "x"),
        (None, "More."),
    ]
