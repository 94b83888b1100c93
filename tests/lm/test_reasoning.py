"""Reasoning blocks: what is cut out of a reply, and which tokens go with it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from polyhop.lm.reasoning import answer_spans, answer_tokens, strip_reasoning

PLAIN = st.text().filter(lambda text: "think>" not in text)


@pytest.mark.parametrize(
    ("reply", "answer", "reasoning"),
    [
        ("Paris", "Paris", None),
        ("  Paris \n", "  Paris \n", None),
        ("<think>so</think>Paris", "Paris", "so"),
        ("\n<think>\nso\n</think>\n\nParis\n", "Paris\n", "so"),
        ("<think></think>\n\nParis", "Paris", ""),
        ("<think>a</think>\n<think>b</think>\nParis", "Paris", "a\n\nb"),
        ("so it is\n</think>\nParis", "Paris", "so it is"),
        ("<think>out of tokens", "", "out of tokens"),
        ("<think>a</think> <think>b", "", "a\n\nb"),
        ("Well <think>hm</think> Paris", "Well Paris", "hm"),
        ("The tag <think> opens a block", "The tag <think> opens a block", None),
        ("a</think>b</think>c", "b</think>c", "a"),
        ("", "", None),
    ],
)
def test_what_is_answer_and_what_is_reasoning(reply: str, answer: str, reasoning: str | None) -> None:
    assert strip_reasoning(reply) == (answer, reasoning)


@given(PLAIN)
def test_a_reply_without_a_block_is_left_alone(text: str) -> None:
    assert strip_reasoning(text) == (text, None)


@given(PLAIN, PLAIN)
def test_a_block_before_an_answer_is_cut_whole(thought: str, answer: str) -> None:
    assert strip_reasoning(f"<think>{thought}</think>{answer}") == (answer.lstrip(), thought.strip())
    assert strip_reasoning(f"{thought}</think>{answer}") == (answer.lstrip(), thought.strip())
    assert strip_reasoning(f"<think>{thought}") == ("", thought.strip())


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", " ", "\n", "é"]), max_size=12).map("".join))
def test_spans_are_ordered_and_within_the_reply(text: str) -> None:
    spans, _ = answer_spans(text)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(edges)
    assert not edges or (edges[0] >= 0 and edges[-1] <= len(text))


@given(st.data())
def test_kept_tokens_spell_the_answer(data: st.DataObject) -> None:
    pieces = st.sampled_from(["<think>", "</think>", "Pa", "ris", "\n", " ", "é", "日"])
    text = data.draw(st.lists(pieces, max_size=10).map("".join))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    tokens = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if a < b]
    spans, _ = answer_spans(text)
    kept = answer_tokens([token.encode() for token in tokens], [-1.0] * len(tokens), text, spans)
    assert kept is not None
    assert "".join(kept[0]) == strip_reasoning(text)[0]
    assert len(kept[0]) == len(kept[1])


@given(st.text(max_size=20), st.text(min_size=1, max_size=20))
def test_tokens_of_a_block_the_server_took_out_are_dropped(thought: str, answer: str) -> None:
    assume("think>" not in answer)
    try:
        thought.encode(), answer.encode()
    except UnicodeEncodeError:
        assume(False)
    tokens = [b"<think>", thought.encode(), b"</think>", answer.encode()]
    kept = answer_tokens(tokens, [-1.0, -2.0, -3.0, -4.0], answer, [(0, len(answer))])
    assert kept == ((answer,), (-4.0,))


def test_tokens_that_do_not_spell_the_reply_are_no_use() -> None:
    assert answer_tokens([b"Lon", b"don"], [-1.0, -1.0], "Paris", [(0, 5)]) is None
