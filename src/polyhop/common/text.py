"""Small pure functions on text: normalise, count, search, and make printable."""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Literal

from polyhop.errors import UsageError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WORD = re.compile(r"\w+(?:['’]\w+)?", re.UNICODE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLURAL = re.compile(r"\b\w+s\b(?= or | of |$)")
_PARENTHESIS = re.compile(r"(?<!\s)\s*+\([^()]*\)\s*$")

CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
"""The characters of Chinese, Japanese and Korean words, in the syntax of a regular expression's set."""

_CJK_RUN = re.compile(f"[{CJK}]+")
_NO_WORD_BEFORE = re.compile(rf"(?<![^\W{CJK}])", re.IGNORECASE)
_NO_WORD_AFTER = re.compile(rf"(?![^\W{CJK}])", re.IGNORECASE)

STOP_WORDS: frozenset[str] = frozenset(
    """a about above after again against all also am an and any are as at be because been before being below between
    both but by can did do does doing down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off on
    once only or other our ours ourselves out over own same she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up very was we were what when where which
    while who whom whose why will with would you your yours yourself yourselves""".split()
)
"""English words that carry no topic, dropped from an index and from its queries."""
_CITATION = re.compile(r"\[((?:\d{1,4}+[,; ]{0,2}+){1,20})\]")  # possessive: digits can be split in too many ways
_GAP_AND_CITATION = re.compile(rf"[ \t]{{0,3}}{_CITATION.pattern}")


def normalise(text: str) -> str:
    """Normalise a text as SQuAD does, for all answer metrics: lower case, no punctuation, no articles, single spaces.

    >>> normalise("The  Golden-Calf!")
    'goldencalf'
    >>> normalise("An apple, a day")
    'apple day'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def distinct(questions: Iterable[str], but: Iterable[str] = ()) -> list[str]:
    """Return the distinct questions after normalisation, the first of each, without empty ones and those in ``but``.

    >>> distinct(["Who made Jaws?", "?", "who made the Jaws", "Who wrote it?"], but=["who wrote it"])
    ['Who made Jaws?']
    """
    known = {"", *map(normalise, but)}
    found: dict[str, str] = {}
    for question in questions:
        found.setdefault(normalise(question), question)
    return [question for key, question in found.items() if key not in known]


def words(text: str) -> list[str]:
    """Split a text into words in lower case, with accents and possessives.

    >>> words("Who's the King's son?")
    ["who's", 'the', "king's", 'son']
    """
    return _WORD.findall(text.lower())


def content_words(text: str) -> list[str]:
    """Return the words that carry topic: ``words`` without stop words and possessive endings.

    >>> content_words("Who is the director of Jaws' sequel?")
    ['director', 'jaws', 'sequel']
    """
    bare = (re.sub(r"['’]s$", "", word) for word in words(text))
    return [word for word in bare if word not in STOP_WORDS]


def spaced_bigrams(text: str) -> str:
    """Replace each run of Chinese, Japanese or Korean characters by its bigrams, separated by blanks.

    >>> spaced_bigrams("用UTF-8写东京都。")
    ' 用 UTF-8 写东 东京 京都 。'
    """
    return _CJK_RUN.sub(_pairs, text)


def _pairs(run: re.Match[str]) -> str:
    characters = run[0]
    pairs = [characters[i : i + 2] for i in range(max(1, len(characters) - 1))]
    return f" {' '.join(pairs)} "


MAX_MARKS = 30
"""Maximum number of combining marks in a row: that of Unicode's Stream-Safe Text Format (UAX #15, §13)."""
_MARKS_AFTER_DECOMPOSITION = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # the characters of class 0 that become marks
_MAY_BE_MARKS = re.compile(rf"[\W\uff9e\uff9f][\W\uff9e\uff9f]{{{MAX_MARKS},}}")


def normalise_unicode(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Normalise a text as ``unicodedata.normalize`` does, in linear time: it drops the combining marks after the first
    ``MAX_MARKS`` of a run, because to sort them takes time that is quadratic in their number.

    >>> normalise_unicode("NFC", "e\u0301"), len(normalise_unicode("NFC", "x" + "\u0301\u0323" * 100))
    ('é', 31)
    """
    return unicodedata.normalize(form, _MAY_BE_MARKS.sub(_cap_marks, text) if len(text) > MAX_MARKS else text)


def _cap_marks(run: re.Match[str]) -> str:
    kept, marks = [], 0
    for character in run[0]:
        is_mark = unicodedata.combining(character) or character in _MARKS_AFTER_DECOMPOSITION
        marks = marks + 1 if is_mark else 0
        if marks <= MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def fold(text: str) -> str:
    """Convert to lower case without accents, to match names across spellings.

    >>> fold("Antonín Dvořák")
    'antonin dvorak'
    """
    if text.isascii():
        return text.lower()  # the same, ten times as fast
    return "".join(c for c in normalise_unicode("NFKD", text.casefold()) if not unicodedata.combining(c))


SECTION = " › "
"""Separates the title of a document from its headings, in the title of a passage."""


def bare_title(title: str) -> str:
    """Return the name of a page: its title without a section and without the parenthesis that disambiguates it.

    >>> bare_title("Metropolis (1927 film)"), bare_title("Ledgerline › Ownership")
    ('Metropolis', 'Ledgerline')
    """
    page = title.partition(SECTION)[0]
    return _PARENTHESIS.sub("", page) or page


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens at four characters per token, rounded up, for models without a tokenizer.

    >>> estimate_tokens("12345")
    2
    """
    return -(-len(text) // 4)


def check_text(what: str, text: str) -> None:
    """Raise ``UsageError`` for a question or query that is empty or not valid Unicode.

    >>> check_text("question", "half \\ud83d")
    Traceback (most recent call last):
    polyhop.errors.UsageError: the question is not valid Unicode: it contains an unpaired surrogate
    """
    if not text.strip():
        raise UsageError(f"the {what} is empty")
    if _SURROGATE.search(text):
        raise UsageError(f"the {what} is not valid Unicode: it contains an unpaired surrogate")


def counted(count: float, things: str) -> str:
    """Write a count with what it counts, which is given in the plural.

    >>> counted(0, "replies"), counted(1, "replies"), counted(2, "replies"), counted(12345, "searches")
    ('0 replies', '1 reply', '2 replies', '12,345 searches')
    >>> counted(1, "malformed lines or documents"), counted(1, "pieces of evidence"), counted(0.5, "seconds")
    ('1 malformed line or document', '1 piece of evidence', '0.5 seconds')
    """
    return f"{count:,} {things if count != 1 else _PLURAL.sub(_singular, things)}"


def _singular(noun: re.Match[str]) -> str:
    word = noun[0]
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("ches", "sses", "xes")) else word[:-1]


def printable(text: str) -> str:
    """Return a text as one printable line: without line ends, control characters, which a terminal would obey, and
    marks that change the direction of writing.

    >>> printable("a\\x1b]0;b\\x07\\n\\u202ec")
    'a]0;b c'
    """
    return " ".join("".join(c for c in text if c.isprintable() or c.isspace()).split())


def printable_lines(text: str) -> str:
    """Remove the characters that a terminal would obey from a text of several lines; its indentation stays.

    >>> printable_lines("a\\x1b[2J\\r\\n  b\\x9b\\tc")
    'a[2J\\n  b\\tc'
    """
    if all(line.isprintable() for line in text.split("\n")):
        return text
    spaces = (" " if unicodedata.category(c) == "Zs" else c for c in text)
    return "".join(c for c in spaces if c.isprintable() or c in "\n\t")


def printable_json(text: str) -> str:
    """Escape the characters in JSON strings that a terminal would obey; the values stay the same.

    >>> printable_json('{"a": "\\x9bb"}')
    '{"a": "\\\\u009bb"}'
    """
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def find_folded(needle: str, text: str) -> tuple[int, int] | None:
    """Find ``needle`` in ``text`` as whole words, ignoring case; None if it does not occur. Chinese, Japanese and
    Korean characters are words by themselves.

    >>> find_folded("paris", "Born in Paris, France")
    (8, 13)
    >>> find_folded("art", "Party") is None
    True
    >>> find_folded("绍兴", "鲁迅生于绍兴城")
    (4, 6)
    """
    return next(occurrences(needle, text), None)


def occurrences(needle: str, text: str) -> Iterator[tuple[int, int]]:
    """Find every occurrence of ``needle`` in ``text`` as whole words, as ``find_folded`` finds the first.

    >>> list(occurrences("rome", "Rome, not Romeo: ROME"))
    [(0, 4), (17, 21)]
    """
    needle = needle.strip()
    for start, end in _matches(needle, text) if needle else ():
        if _NO_WORD_BEFORE.match(text, start) and _NO_WORD_AFTER.match(text, end):
            yield start, end


def _matches(needle: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of every occurrence of ``needle``, ignoring case, also within words."""
    if needle.isascii() and text.isascii():  # the usual case; compiling a pattern would take longer than the search
        plain, text = needle.lower(), text.lower()
        start = text.find(plain)
        while start >= 0:
            yield start, start + len(plain)
            start = text.find(plain, start + 1)
    else:
        words = re.compile(re.escape(needle), re.IGNORECASE)
        found = words.search(text)
        while found:
            yield found.span()
            found = words.search(text, found.start() + 1)


def citation_marks(content: str) -> Iterator[tuple[int, int, list[int]]]:
    """Yield each citation mark of a text: its start, its end and its numbers.

    >>> list(citation_marks("Scott [1] was born there [2, 3]."))
    [(6, 9, [1]), (25, 31, [2, 3])]
    """
    for found in _CITATION.finditer(content):
        yield found.start(), found.end(), [int(number) for number in re.findall(r"\d+", found[1])]


def without_citation_marks(content: str) -> str:
    """Remove the citation marks from a text.

    >>> without_citation_marks("Scott [1] was born there [2, 3].")
    'Scott was born there.'
    """
    return _GAP_AND_CITATION.sub("", content)


_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # a spreadsheet takes these, also full-width, for a formula


def csv_cell(value: object) -> object:
    """Return a value as a cell of CSV that no spreadsheet takes for a formula. Numbers stay numbers.

    >>> csv_cell("=1+1"), csv_cell("-1.5"), csv_cell(-1.5), csv_cell("Oslo"), csv_cell("-inf")
    ("'=1+1", '-1.5', -1.5, 'Oslo', "'-inf")
    """
    if not isinstance(value, str):
        return value
    text = printable_lines(value)
    is_formula = text.startswith(("\t", "\n")) or text.lstrip().startswith(_FORMULA)
    return f"'{text}" if is_formula and not _is_number(text) else text


def _is_number(text: str) -> bool:
    """Return True if a spreadsheet reads the text as a number, not only Python (``1_000``, ``-inf``)."""
    try:
        return text.isascii() and "_" not in text and isfinite(float(text))
    except ValueError:
        return False
