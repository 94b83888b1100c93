"""Where a text's words stand in another text."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from polyhop.common.text import CJK, find_folded

LETTERS = st.text(st.sampled_from("aAbß İıſK_1-. 绍兴はカ한é\u0301\uff21"), max_size=12)


@given(LETTERS.filter(str.strip), LETTERS)
@example("art", "party art")
@example("aa", "aaa aa")
@example("绍", "a绍b")
def test_words_are_found_as_one_pattern_of_them_and_their_ends_would_find_them(needle: str, text: str) -> None:
    pattern = rf"(?<![^\W{CJK}]){re.escape(needle.strip())}(?![^\W{CJK}])"
    found = re.search(pattern, text, re.IGNORECASE)
    assert find_folded(needle, text) == (found.span() if found else None)


def test_no_words_are_found_nowhere() -> None:
    assert find_folded(" \n", "anything") is None
