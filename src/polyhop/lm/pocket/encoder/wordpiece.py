"""WordPiece: text as pieces of an uncased BERT vocabulary, each with the characters of its word.

The rules are BERT's (Devlin et al., 2019): accents and control characters are dropped, letters lowered, punctuation and
Chinese characters split off; then each word is split greedily, the longest known piece first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from polyhop.common.text import normalise_unicode

_WORD = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+")
_MAX_WORD = 100  # characters; a longer word is unknown
_MAX_CACHED = 100_000  # words
_CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class Pieces(NamedTuple):
    """The pieces of a text: their numbers in the vocabulary, and the start and end of the word of each."""

    ids: list[int]
    starts: list[int]
    ends: list[int]


class WordPiece:
    """A vocabulary. ``begin``, ``end``, ``padding``: the numbers of its ``[CLS]``, ``[SEP]`` and ``[PAD]``."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self.begin, self.end = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self.padding, self._unknown = self._numbers["[PAD]"], self._numbers["[UNK]"]
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def read(cls, file: Path) -> WordPiece:
        """Read a vocabulary file: one piece per line."""
        return cls(file.read_text(encoding="utf-8").splitlines())

    def encode(self, text: str) -> Pieces:
        """Split a text into pieces.

        >>> pieces = WordPiece(["[CLS]", "[SEP]", "[PAD]", "[UNK]", "dark", "mill", "##s", "."]).encode("Dark Mills.")
        >>> pieces.ids, pieces.starts
        ([4, 5, 6, 7], [0, 5, 5, 10])
        """
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for word, start, end in _words(text):
            numbers = self._cache.get(word) or self._split_word(word)
            ids += numbers
            starts += [start] * len(numbers)
            ends += [end] * len(numbers)
        return Pieces(ids, starts, ends)

    def _split_word(self, word: str) -> tuple[int, ...]:
        """The pieces of a word. Cached."""
        plain = _plain(word)
        numbers = self._pieces(plain) if len(plain) <= _MAX_WORD else (self._unknown,)
        if len(self._cache) < _MAX_CACHED and numbers:
            self._cache[word] = numbers
        return numbers

    def _pieces(self, word: str) -> tuple[int, ...]:
        numbers: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._numbers.get(("##" if start else "") + word[start:end])
                if number is not None:
                    numbers.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(numbers)


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    """Every word with its start and end; a punctuation mark is a word."""
    for match in _WORD.finditer(text):
        word, start = match[0], match.start()
        if word.isascii():
            yield word, start, match.end()
        else:
            yield from _split(word, start)


def _split(word: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Split a word with characters beyond ASCII at those that are words by themselves."""
    begin = 0
    for i, character in enumerate(word):
        if _is_own_word(character):
            if i > begin:
                yield word[begin:i], start + begin, start + i
            yield character, start + i, start + i + 1
            begin = i + 1
    if begin < len(word):
        yield word[begin:], start + begin, start + len(word)


def _is_own_word(character: str) -> bool:
    code = ord(character)
    return unicodedata.category(character).startswith("P") or any(low <= code <= high for low, high in _CHINESE)


def _plain(word: str) -> str:
    """A word in lower case, without accents and control characters."""
    printable = (c for c in word if c != "\ufffd" and not unicodedata.category(c).startswith("C"))
    lowered = "".join(printable).lower()
    return "".join(c for c in normalise_unicode("NFD", lowered) if unicodedata.category(c) != "Mn")
