"""The pieces of a text: BERT's rules, and the characters of every word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.lm.pocket.encoder.network import FOLDER
from polyhop.lm.pocket.encoder.wordpiece import WordPiece

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] dark mill ##s cafe the ##re . 中 5 ° ##c".split()
SMALL = WordPiece(VOCABULARY)
LETTERS = st.characters(max_codepoint=0x24F, exclude_categories=["Cc"]) | st.sampled_from("中文—“”…αβж€°\n\t")


def pieces(text: str) -> list[str]:
    """The pieces by name."""
    return [VOCABULARY[number] for number in SMALL.encode(text).ids]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Dark MILLS.", ["dark", "mill", "##s", "."]),
        ("Café", ["cafe"]),
        ("cafe\u0301", ["cafe"]),
        ("dark中mill", ["dark", "中", "mill"]),
        ("there", ["the", "##re"]),
        ("therex", ["[UNK]"]),
        ("", []),
        (" \t\n", []),
        ("dark\u200bmill", ["[UNK]"]),
        ("5 °c", ["5", "°", "##c"]),
        ("x" * 101, ["[UNK]"]),
    ],
)
def test_a_text_is_split_by_berts_rules(text: str, found: list[str]) -> None:
    assert pieces(text) == found


@given(st.text(max_size=60))
def test_every_piece_knows_its_word(text: str) -> None:
    encoded = SMALL.encode(text)
    assert len(encoded.ids) == len(encoded.starts) == len(encoded.ends)
    assert all(0 <= start < end <= len(text) for start, end in zip(encoded.starts, encoded.ends, strict=True))
    assert encoded.starts == sorted(encoded.starts)


def test_a_cached_word_has_the_same_pieces() -> None:
    wordpiece = WordPiece(VOCABULARY)
    assert wordpiece.encode("Dark mills") == wordpiece.encode("Dark mills")


@pytest.mark.extra
@given(st.text(LETTERS, max_size=80))
def test_the_shipped_vocabulary_gives_what_the_tokenizers_library_gives(text: str) -> None:
    theirs = pytest.importorskip("tokenizers").BertWordPieceTokenizer(str(FOLDER / "vocab.txt"), lowercase=True)
    ours = WordPiece.read(FOLDER / "vocab.txt")
    assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False).ids
