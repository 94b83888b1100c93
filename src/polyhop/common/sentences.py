"""Split a text into sentences, and a document into passages of whole sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from polyhop.common.text import CJK

_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9À-Þ])|(?<=[。！？｡])[」』”’）》]*\s*(?=[^\s。！？｡」』”’）》])"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Mt|Jr|Sr|Gen|Col|Lt|Capt|Sgt|Rev|Hon|Gov|Sen|Rep|vs|etc|No|Vol|Inc|Ltd|Co|cf|ca|c|e\.g|i\.e|a\.k\.a|U\.S|U\.K))\.$"
)
_BEFORE_NUMBER = re.compile(r"\b(?:nos?|pp?|[Ff]igs?)\.$")  # "roller no. 17"
_UNIT = re.compile(rf"[{CJK}]{{1,2}}[^\w\s]*|[^\s{CJK}]+")  # counts as a word in the length of a passage
_WRAPPED = re.compile(
    r"(?<=[\u3001-\u303f\u3041-\u9fff\uff01-\uff0f])[ \t]*\r?\n[ \t]*(?=[\u3001-\u303f\u3041-\u9fff])"
)


def sentences(text: str) -> list[str]:
    """Split at sentence ends; initials and common abbreviations do not end a sentence.

    >>> sentences("J. S. Bach was born in Eisenach. He died in 1750.")
    ['J. S. Bach was born in Eisenach.', 'He died in 1750.']
    >>> sentences("We lost roller no. 17. It was new.")
    ['We lost roller no. 17.', 'It was new.']
    >>> sentences("鲁迅是作家。他写了《呐喊》！")
    ['鲁迅是作家。', '他写了《呐喊》！']
    """
    pieces = (text[start:end].strip() for start, end in sentence_spans(text))
    return [piece for piece in pieces if piece]


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start of each sentence of a text, and the start of the next."""
    start = 0
    for gap in _SENTENCE_END.finditer(text):
        near = max(start, gap.start() - 8)  # a window: the text may be all initials
        if _ABBREVIATION.search(text, near, gap.start()):
            continue
        if text[gap.end()].isdigit() and _BEFORE_NUMBER.search(text, near, gap.start()):
            continue
        yield start, gap.end()
        start = gap.end()
    yield start, len(text)


def split_passages(text: str, target_words: int = 100) -> Iterator[str]:
    """Split a document into passages of about ``target_words`` words, at sentence ends.

    A sentence longer than twice the target is split between words, so that the length of a passage is bounded. Two
    Chinese, Japanese or Korean characters count as a word.
    """
    return (" ".join(text[start:end].split()) for start, end in passage_spans(text, target_words))


def passage_spans(text: str, target_words: int = 100) -> Iterator[tuple[int, int]]:
    """Yield the start and end in the text of each passage of ``split_passages``; none is blank."""
    return pack(pieces(text, 2 * target_words), target_words)


def pack(pieces: Iterable[tuple[int, int, int]], target_words: int = 100) -> Iterator[tuple[int, int]]:
    """Join successive pieces of a text, each given by its start, end and number of words, into passages of about
    ``target_words`` words. Yield the start and end of each passage."""
    begin, end, count = 0, 0, 0
    for start, stop, size in pieces:
        if count and count + size > 1.25 * target_words:
            yield begin, end
            count = 0
        begin, end, count = start if not count else begin, stop, count + size
        if count >= target_words:
            yield begin, end
            count = 0
    if count:
        yield begin, end


def pieces(text: str, max_words: int = 200) -> Iterator[tuple[int, int, int]]:
    """Yield the start, end and number of words of each sentence of a text; longer ones are split."""
    for start, end in sentence_spans(text):
        units = [unit.span() for unit in _UNIT.finditer(text, start, end)]
        for i in range(0, len(units), max_words):
            piece = units[i : i + max_words]
            yield piece[0][0], piece[-1][1], len(piece)


def join_wrapped_lines(text: str) -> str:
    """Remove the line ends inside runs of Chinese or Japanese, where they do not mean a blank.

    >>> join_wrapped_lines("鲁迅生\\n于绍兴。\\n\\nBorn\\nin 1881.")
    '鲁迅生于绍兴。\\n\\nBorn\\nin 1881.'
    """
    return _WRAPPED.sub("", text)
