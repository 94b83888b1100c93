"""WordPiece: text as the pieces of an uncased BERT's vocabulary, each with the place of its word in the text.

The rules are BERT's (Devlin et al., 2019): accents and controls dropped, lower case, punctuation and Chinese characters
by themselves, then the longest known piece first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from polyhop.common.text import normalise_unicode

_WORD = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+")
_LONGEST_WORD = 100  # characters; a longer one is unknown
_WORDS_KEPT = 100_000
_CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class Pieces(NamedTuple):
    """A text's pieces: their numbers in the vocabulary, and where in the text the word of each begins and ends."""

    ids: list[int]
    starts: list[int]
    ends: list[int]


class WordPiece:
    """A vocabulary. ``begin``, ``end``, ``padding``: the numbers of its ``[CLS]``, ``[SEP]`` and ``[PAD]``."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self.begin, self.end = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self.padding, self._unknown = self._numbers["[PAD]"], self._numbers["[UNK]"]
        self._known: dict[str, tuple[int, ...]] = {}

    @classmethod
    def read(cls, file: Path) -> WordPiece:
        """A vocabulary file: one piece a line."""
        return cls(file.read_text(encoding="utf-8").splitlines())

    def encode(self, text: str) -> Pieces:
        """The text's pieces.

        >>> pieces = WordPiece(["[CLS]", "[SEP]", "[PAD]", "[UNK]", "dark", "mill", "##s", "."]).encode("Dark Mills.")
        >>> pieces.ids, pieces.starts
        ([4, 5, 6, 7], [0, 5, 5, 10])
        """
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for word, start, end in _words(text):
            numbers = self._known.get(word) or self._take_apart(word)
            ids += numbers
            starts += [start] * len(numbers)
            ends += [end] * len(numbers)
        return Pieces(ids, starts, ends)

    def _take_apart(self, word: str) -> tuple[int, ...]:
        """The pieces of a word, kept for its next use."""
        plain = _plain(word)
        numbers = self._pieces(plain) if len(plain) <= _LONGEST_WORD else (self._unknown,)
        if len(self._known) < _WORDS_KEPT and numbers:
            self._known[word] = numbers
        return numbers

    def _pieces(self, word: str) -> tuple[int, ...]:
        numbers: list[int] = []
        at = 0
        while at < len(word):
            for end in range(len(word), at, -1):
                number = self._numbers.get(("##" if at else "") + word[at:end])
                if number is not None:
                    numbers.append(number)
                    at = end
                    break
            else:
                return (self._unknown,)
        return tuple(numbers)


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    """Every word with its place; each punctuation mark is one."""
    for match in _WORD.finditer(text):
        word, start = match[0], match.start()
        if word.isascii():
            yield word, start, match.end()
        else:
            yield from _split(word, start)


def _split(word: str, start: int) -> Iterator[tuple[str, int, int]]:
    """A word with characters beyond ASCII, cut at those that stand by themselves."""
    begin = 0
    for at, character in enumerate(word):
        if _alone(character):
            if at > begin:
                yield word[begin:at], start + begin, start + at
            yield character, start + at, start + at + 1
            begin = at + 1
    if begin < len(word):
        yield word[begin:], start + begin, start + len(word)


def _alone(character: str) -> bool:
    code = ord(character)
    return unicodedata.category(character).startswith("P") or any(low <= code <= high for low, high in _CHINESE)


def _plain(word: str) -> str:
    """Without accents and control characters, in lower case."""
    told = (each for each in word if each != "\ufffd" and not unicodedata.category(each).startswith("C"))
    lowered = "".join(told).lower()
    return "".join(each for each in normalise_unicode("NFD", lowered) if unicodedata.category(each) != "Mn")
