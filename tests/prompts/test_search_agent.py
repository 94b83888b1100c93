"""The parser of a text with searches: rollouts in the form of each protocol, and any text, in any pieces."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.prompts.protocol import named, names
from polyhop.prompts.tasks.search_agent import Action, answer_in, first_action
from tests.kit.tries import tries

R1 = named("search-r1").marks


@pytest.mark.parametrize(
    ("protocol", "text", "found"),
    [
        ("search-r1", "<think>Who?</think>\n<search> Kon-Tiki leader </search>\n\n<inf", ("search", "Kon-Tiki leader")),
        ("search-r1", "I may <search>. So I do: <search>Kon-Tiki</search>", ("search", "Kon-Tiki")),
        ("search-r1", "</search> <answer> Larvik </answer> <search>x</search>", ("answer", "Larvik")),
        ("search-r1", "<SEARCH>Kon-Tiki</Search>", ("search", "Kon-Tiki")),
        ("search-r1", "<answer>Larvik", ("answer", "Larvik")),
        ("search-r1", "<search>Kon-Tiki <answer>Larvik</answer>", ("answer", "Larvik")),
        ("search-r1", "The tag <search> opens a query. " + "And so on. " * 40, None),
        ("search-r1", "</search></answer>", None),
        ("autorefine", "<refine>He led it.</refine><search>Heyerdahl born</search>", ("search", "Heyerdahl born")),
        ("r1-searcher", "Who? <|begin_of_query|> Kon-Tiki\tleader ", ("search", "Kon-Tiki leader")),
        ("r1-searcher", "So.</think>\n\n<answer> Larvik ", ("answer", "Larvik")),
        ("research", "<think>So.</think> <answer> It is \\[ \\boxed{Larvik} \\] </answer>", ("answer", "Larvik")),
        ("search-o1", "Who? <|begin_search_query|>Kon-Tiki<|end_search_query|>", ("search", "Kon-Tiki")),
        ("search-o1", "\\boxed{Oslo}? No: \\boxed{\\text{Larvik {town}}}.", ("answer", "Larvik {town}")),
        ("search-o1", "So it is \\boxed{Larvik", ("answer", "Larvik")),
        ("search-o1", "\\boxed{Oslo} or <|begin_search_query|>Kon-Tiki", ("answer", "Oslo")),
    ],
)
def test_the_first_action_of_a_rollout(protocol: str, text: str, found: tuple[str, str] | None) -> None:
    action = first_action(text, named(protocol).marks)
    content = action and (answer_in(action.content) if action.name == "answer" else " ".join(action.content.split()))
    assert (action and (action.name, content)) == found


def test_what_the_token_limit_cut_is_no_action() -> None:
    assert first_action("<answer>Larv", R1, is_cut=True) is None
    assert first_action("\\boxed{Larv", named("search-o1").marks, is_cut=True) is None
    assert first_action("<answer>Larvik</answer> and", R1, is_cut=True) == Action("answer", "Larvik", 23)


MARKS = [mark for name in names() for pair in named(name).marks.values() for mark in pair]
TEXTS = st.lists(
    st.sampled_from([*MARKS, "<think>", "Kon-Tiki", " ", "\n", "{", "\\"]) | st.text(max_size=4), max_size=12
)


@settings(max_examples=tries(300), deadline=None)
@given(pieces=TEXTS, protocol=st.sampled_from(names()), size=st.integers(1, 9))
def test_a_text_in_pieces_has_the_action_of_the_whole(pieces: list[str], protocol: str, size: int) -> None:
    """However the token limit cuts a text, the first action that shows is the first of the text up to there."""
    text, marks = "".join(pieces), named(protocol).marks
    whole = first_action(text, marks, is_cut=True)
    ends = [*range(size, len(text), size), len(text)]
    shown = next((found for end in ends if (found := first_action(text[:end], marks, is_cut=True))), None)
    if marks["answer"][1] == "}":  # the last box counts, and a search before any
        assert (shown is None) is (whole is None)
    else:
        assert shown == whole


@settings(max_examples=tries(300), deadline=None)
@given(pieces=TEXTS, protocol=st.sampled_from(names()))
def test_an_action_stands_between_its_tags(pieces: list[str], protocol: str) -> None:
    text, marks = "".join(pieces), named(protocol).marks
    action = first_action(text, marks)
    if action and marks["answer"][1] != "}":
        opening, closing = (mark.casefold() for mark in marks[action.name])
        assert action.content in text
        assert opening not in action.content.casefold()
        closed = text[: action.end] + action.closing
        assert closed.casefold().endswith(closing)
        assert first_action(closed, marks) == action._replace(end=len(closed), closing="")


@settings(max_examples=tries(200), deadline=None)
@given(pieces=TEXTS, protocol=st.sampled_from(names()))
def test_no_retrieved_text_keeps_a_tag(pieces: list[str], protocol: str) -> None:
    known = named(protocol)
    safe: Any = known.safe("".join(pieces)).casefold()
    assert not [
        mark for mark in (*known.search, *known.result, *known.answer, *known.tags) if mark != "}" and mark in safe
    ]
