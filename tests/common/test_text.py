"""Words are found in a text, and Unicode is normalised in linear time."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Final, Literal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import polyhop
from polyhop.common.text import CJK, MAX_MARKS, find_folded, fold, normalise_unicode
from polyhop.data.converting import tidy
from polyhop.data.fever import wikipedia_title
from polyhop.lm.pocket.encoder.wordpiece import WordPiece
from polyhop.metrics import answer_rank
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.title_mentions import tokens
from polyhop.types import Passage

FORMS: Final[tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...]] = ("NFC", "NFD", "NFKC", "NFKD")

LETTERS = st.text(st.sampled_from("aAbß İıſK_1-. 绍兴はカ한é\u0301\uff21"), max_size=12)


@given(LETTERS.filter(str.strip), LETTERS)
@example("art", "party art")
@example("aa", "aaa aa")
@example("绍", "a绍b")
def test_words_are_found_as_a_single_pattern_would_find_them(needle: str, text: str) -> None:
    pattern = rf"(?<![^\W{CJK}]){re.escape(needle.strip())}(?![^\W{CJK}])"
    found = re.search(pattern, text, re.IGNORECASE)
    assert find_folded(needle, text) == (found.span() if found else None)


def test_blank_words_are_never_found() -> None:
    assert find_folded(" \n", "anything") is None


@given(st.text(st.sampled_from("ae\u00e9\u0301\u0323\u0f73\uff76\uff9e\u1100\u1161 -"), max_size=60))
@example("-" * 40 + "\u0301" * MAX_MARKS)
def test_short_runs_of_marks_are_normalised_as_by_unicodedata(text: str) -> None:
    runs = re.findall("[\u0301\u0323\u0f73\uff9e]+", text)
    assume(all(len(run) <= MAX_MARKS for run in runs))
    for form in FORMS:
        assert normalise_unicode(form, text) == unicodedata.normalize(form, text)


def test_every_mark_may_be_in_a_capped_run() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    marks = [c for c in characters if unicodedata.combining(unicodedata.normalize("NFKD", c)[0])]
    assert [c for c in marks if len(normalise_unicode("NFC", "x" + c * 100)) > 1 + 3 * MAX_MARKS] == []


def first_passage(text: str) -> int | None:
    return answer_rank([Passage("1", "", text)], ["x"])


NORMALISING = (
    fold,
    tokens,
    Analysis("german").prepared,
    tidy,
    wikipedia_title,
    first_passage,
    WordPiece(["[CLS]", "[SEP]", "[PAD]", "[UNK]"]).encode,
)


@pytest.mark.parametrize("normalising", NORMALISING)
@pytest.mark.parametrize("marks", ["\u0301\u0323", "\u0f73", "\u0301\uff9e"])
def test_long_runs_of_marks_take_linear_time(normalising: Callable[[str], object], marks: str) -> None:
    text = "e" + marks * (160_000 // len(marks))
    began = thread_time()
    normalising(text)
    assert thread_time() - began < 3  # seconds; sorting all of these marks takes 15


def test_unicode_is_normalised_in_linear_time_everywhere() -> None:
    sources = Path(polyhop.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "unicodedata.normalize(" in path.read_text()] == ["text.py"]
