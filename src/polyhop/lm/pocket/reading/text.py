"""Text: tokens with their positions, sentences, stems and their weights; the dates, numbers and names in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from polyhop.common.text import STOP_WORDS, fold
from polyhop.lm.pocket.reading.tables import words

TOKEN = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*|[^\w\s]")
QUOTES = frozenset('"“”«»')
_SENTENCE_END = frozenset(".!?")
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st mt jr sr gen col lt capt sgt rev hon gov sen vs etc no vol inc ltd co ca".split()
)
_SUFFIXES = (
    ("ies", "y"), ("sses", "ss"), ("ing", ""), ("edly", ""), ("ed", ""), ("es", ""), ("s", ""), ("e", "")
)  # fmt: skip
_GENERAL_WEIGHT, _NUMBER_WEIGHT = 0.25, 0.8


@dataclass(slots=True)
class TokenizedText:
    """A text with its tokens; the start, stem and sentence number of each are lists of the same length."""

    text: str
    tokens: list[str]
    starts: list[int]
    stems: list[str]
    sentence_of: list[int]


def tokenize(text: str) -> TokenizedText:
    """Split a text into tokens and sentences.

    >>> tokenized = tokenize("J. Smith left. He died.")
    >>> tokenized.tokens, tokenized.sentence_of
    (['J', '.', 'Smith', 'left', '.', 'He', 'died', '.'], [0, 0, 0, 0, 0, 1, 1, 1])
    """
    found = list(TOKEN.finditer(text))
    tokens = [match.group() for match in found]
    starts = [match.start() for match in found]
    return TokenizedText(text, tokens, starts, list(map(stem_of, tokens)), _sentence_numbers(text, tokens, starts))


@lru_cache(maxsize=65536)
def stem_of(word: str) -> str:
    """The stem of a word: no accents, possessive or inflection, and one stem per family of words.

    >>> stem_of("Directed"), stem_of("director"), stem_of("cities"), stem_of("city's")
    ('direct', 'direct', 'city', 'city')
    """
    bare = fold(word).replace("’", "'").removesuffix("'s").strip("'.")
    families = words().families
    if bare in families:
        return families[bare]
    stem = bare
    if bare.isalpha() and bare.isascii():
        for suffix, ending in _SUFFIXES:
            if bare.endswith(suffix) and len(bare) - len(suffix) >= 3 and not (suffix == "s" and bare.endswith("ss")):
                stem = bare[: len(bare) - len(suffix)] + ending
                break
    return families.get(stem, stem)


@lru_cache(maxsize=65536)
def stem_weight(stem: str) -> float:
    """The weight of a stem, from 0 (stop words) to 1: low for general words, high for numbers and rare-looking words.

    Rarer English words are longer. Length and a list of general words stand in for the counts of a corpus.
    """
    if stem in STOP_WORDS or not stem or not stem[0].isalnum():
        return 0.0
    if stem in common_stems():
        return _GENERAL_WEIGHT
    if stem.isdigit():
        return _NUMBER_WEIGHT
    return min(1.0, 0.5 + 0.06 * len(stem))


@lru_cache(maxsize=1)
def common_stems() -> frozenset[str]:
    """The stems of words that are too general to tell one page from another."""
    return frozenset(stem_of(word) for word in words().common)


def content_stems(text: str) -> tuple[str, ...]:
    """The stems of a text that have a weight, in order.

    >>> content_stems("The capital of Norway")
    ('capital', 'norway')
    """
    return tuple(stem for stem in map(stem_of, TOKEN.findall(text)) if stem_weight(stem))


def is_short(token: str) -> bool:
    """True for an initial or an abbreviation, whose full stop ends no sentence."""
    return (len(token) == 1 and token.isalpha()) or "." in token or token.lower() in _ABBREVIATIONS


def _sentence_numbers(text: str, tokens: Sequence[str], starts: Sequence[int]) -> list[int]:
    """The number of each token's sentence. A line ends one too."""
    numbers: list[int] = []
    number = 0
    for i, token in enumerate(tokens):
        numbers.append(number)
        if i + 1 < len(tokens) and "\n" in text[starts[i] : starts[i + 1]]:
            number += 1
        elif token in _SENTENCE_END and i and i + 1 < len(tokens):
            before, after = tokens[i - 1], tokens[i + 1]
            opens = after[0].isupper() or after[0].isdigit() or after in QUOTES
            is_unit = before.islower() and i > 1 and tokens[i - 2][0].isdigit()  # "300 m."
            number += opens and not (token == "." and is_short(before) and not is_unit)
    return numbers


# --- dates and numbers ------------------------------------------------------------------------------------------------


class Date(NamedTuple):
    """A date. Unknown parts are 0; dates are compared by the parts that both have."""

    year: int
    month: int = 0
    day: int = 0


_YEAR = r"(?:1\d{3}|20\d{2}|[5-9]\d{2})"


@lru_cache(maxsize=1)
def _date_pattern() -> re.Pattern[str]:
    month = "|".join(sorted(words().months, key=len, reverse=True))
    forms = (
        r"(?P<y7>\d{4})-(?P<m7>\d{2})(?:-(?P<d7>\d{2}))?",  # 1987-10-05
        r"(?P<d8>\d{1,2})[./](?P<m8>\d{1,2})[./](?P<y8>\d{4})",  # 05/10/1987
        rf"(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m1>{month})\.?,? (?P<y1>\d{{3,4}})",  # 5 October 1987
        rf"(?P<m2>{month})\.? (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y2>\d{{3,4}})",  # October 5, 1987
        rf"(?P<m3>{month})\.?,? (?:of )?(?P<y3>\d{{4}})",  # October 1987
        rf"(?P<d5>\d{{1,2}})(?:st|nd|rd|th)? (?P<m5>{month})|(?P<m4>{month})\.? (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?",
        r"(?P<y6>\d{4})s",  # the 1980s
        rf"(?P<y5>{_YEAR})",
    )
    return re.compile(rf"(?<![\w.,-])(?:{'|'.join(forms)})(?!\w|[.,]\d)", re.IGNORECASE)


@lru_cache(maxsize=1)
def _number_pattern() -> re.Pattern[str]:
    word = "|".join(sorted(words().numbers, key=len, reverse=True))
    return re.compile(
        rf"(?<![\w.])(?:(?P<digits>\d{{1,15}}(?:,\d{{3}}){{0,6}}(?:\.\d{{1,6}})?)|(?P<word>{word}))"
        rf"(?: (?P<times>{'|'.join(words().multipliers)}))?(?!\w)",
        re.IGNORECASE,
    )


class ParsedValue(NamedTuple):
    """A date or number in a text: its characters, its kind and its value."""

    start: int
    end: int
    kind: str
    value: Date | float


def find_dates(text: str) -> Iterator[ParsedValue]:
    """Find the dates in a text. ``kind`` is "date" if the month is known, else "year".

    >>> [(f.kind, f.value) for f in find_dates("He was born on 5 October 1987 and retired in 2014.")]
    [('date', Date(year=1987, month=10, day=5)), ('year', Date(year=2014, month=0, day=0))]
    """
    for match in _date_pattern().finditer(text):
        parts = {key[0]: value for key, value in match.groupdict().items() if value}
        written = parts.get("m", "0").lower()
        month, day = words().months.get(written) or int(written), int(parts.get("d", 0))
        if day > 31 or month > 12 or ("y" not in parts and parts["m"] == "may"):
            continue
        yield ParsedValue(
            match.start(), match.end(), "date" if month else "year", Date(int(parts.get("y", 0)), month, day)
        )


def parse_date(text: str) -> Date | None:
    """The first date in a text.

    >>> parse_date("July 1923"), parse_date("unknown")
    (Date(year=1923, month=7, day=0), None)
    """
    return next((found.value for found in find_dates(text) if isinstance(found.value, Date)), None)


def find_numbers(text: str) -> Iterator[ParsedValue]:
    """Find the numbers in a text, in figures and in words.

    >>> [f.value for f in find_numbers("about 2.5 million people in twelve towns")]
    [2500000.0, 12.0]
    """
    for match in _number_pattern().finditer(text):
        digits, word, times = match["digits"], match["word"], match["times"]
        value = float(digits.replace(",", "")) if digits else words().numbers[word.lower()]
        if times:
            value *= words().multipliers[times.lower()]
        yield ParsedValue(match.start(), match.end(), "number", value)


def parse_number(text: str) -> float | None:
    """The first number in a text.

    >>> parse_number("a crowd of 12,500"), parse_number("none")
    (12500.0, None)
    """
    return next((found.value for found in find_numbers(text) if isinstance(found.value, (int, float))), None)


def earlier(first: Date, second: Date) -> bool | None:
    """True if ``first`` is before ``second``; None if the parts that both have do not decide it.

    >>> earlier(Date(1900), Date(1901, 5)), earlier(Date(1900), Date(1900, 2))
    (True, None)
    """
    for left, right in zip(first, second, strict=True):
        if left != right:
            return None if 0 in (left, right) else left < right
    return None


# --- names in a question: by capitals, quotes and the small words inside names ----------------------------------------

# Small words that a title may contain between two capitalised words.
_INSIDE = frozenset(
    """a an and at by d'une da das de del della der des di do dos du e el en for from in is it la las le les lo los no
    of on or my s the to und v v. van versus vom von vs vs. with y zu zum & - –""".split()
)
# Those that join a name even if no phrase ("the director of ...") announces it.
_JOINERS = _INSIDE - frozenset("and or in by from at is for to it my with on no a an".split())
_MAX_INSIDE = 3  # small words in a row
_MAX_WORDS = 24  # of a name
_OPENERS, _CLOSERS = "\"“'‘(«", "\"”'’)»"
# Capitalised words that open a question or a clause and are no names.
_NOT_NAMES = (STOP_WORDS | frozenset("whose among according although given name film films song songs".split())) - {
    "the",
    "a",
    "an",
}
_WORD = re.compile(r"\S+")
_QUOTED = re.compile(r"[\"“«]([^\"“”«»]{2,80})[\"”»]")


def looks_like_name(word: str) -> bool:
    """True if a word begins as names do: with a capital or a digit, after any opening mark.

    >>> looks_like_name("“Mill"), looks_like_name("film")
    (True, False)
    """
    bare = word.lstrip(_OPENERS + "#-–!¡¿.")
    return bool(bare) and (bare[0].isdigit() or (bare[0].isalpha() and not bare[0].islower()))


def name_from(text: str, start: int, joiners: frozenset[str] = _INSIDE) -> tuple[int, int] | None:
    """The start and end of the name that begins at ``start`` (after spaces and an article).

    >>> text = "the director of The Road to Ost (1931 film) born?"
    >>> first, last = name_from(text, 15)
    >>> text[first:last]
    'The Road to Ost (1931 film)'
    """
    begin: int | None = None
    end = start
    small_words = 0
    for match in _words_from(text, start):
        word = match.group()
        if match.start() < end:  # inside a parenthesis already taken
            continue
        if looks_like_name(word) or (begin is not None and word[0] == "("):
            begin = match.start() if begin is None else begin
            end, small_words = _closed(text, match), 0
            if word[-1] in "?;" or (word[-1] == "," and joiners is not _INSIDE):
                break
        elif begin is None and word in ("the", "a", "an"):
            continue
        elif begin is not None and word.lower() in joiners and small_words < _MAX_INSIDE:
            small_words += 1
        else:
            break
    return None if begin is None else _trimmed(text, begin, end)


def _words_from(text: str, start: int) -> list[re.Match[str]]:
    found = []
    for match in _WORD.finditer(text, start):
        found.append(match)
        if len(found) == _MAX_WORDS:
            break
    return found


def _closed(text: str, match: re.Match[str]) -> int:
    """The end of a word, or of the parenthesis it opens."""
    if match.group()[0] == "(" and ")" not in match.group():
        close = text.find(")", match.end(), match.end() + 40)
        return close + 1 if close >= 0 else match.end()
    return match.end()


def name_before(text: str, end: int) -> tuple[int, int] | None:
    """The start and end of the name that ends at ``end``.

    >>> text = "When did Ole Bruun of Norland's father die?"
    >>> first, last = name_before(text, text.index("'s"))
    >>> text[first:last]
    'Ole Bruun of Norland'
    """
    begin: int | None = None
    small_words = depth = 0
    for match in reversed(list(_WORD.finditer(text, max(0, end - 300), end))[-_MAX_WORDS:]):
        word = match.group()
        depth += word.count(")") - word.count("(")
        if depth > 0 or word[0] == "(" or looks_like_name(word):
            if begin is not None and (
                (word[-1] in ":;" and not word[:-1].isdigit()) or (word[-1] == "," and not match.start())
            ):
                break
            begin, small_words = match.start(), 0
        elif begin is not None and word.lower() in _INSIDE and small_words < _MAX_INSIDE:
            small_words += 1
        else:
            break
    return None if begin is None else _trimmed(text, _past_openers(text, begin, end), end)


def _past_openers(text: str, begin: int, end: int) -> int:
    """The start of a name without the capitalised words that only open the question ("When", "Did"): further on, one
    belongs to the name ("or After the Rain")."""
    if text[:begin].rstrip()[-1:] not in ("", ".", "?", "!", ":", ";", *_OPENERS):
        return begin
    while (word := _WORD.match(text, begin)) and word.end() < end and _bare(word.group()).lower() in _NOT_NAMES:
        begin = word.end() + 1
    return begin


def _bare(word: str) -> str:
    return word.strip(_OPENERS + _CLOSERS + ",.;:?!")


def _trimmed(text: str, begin: int, end: int) -> tuple[int, int] | None:
    while end > begin and text[end - 1] in " ,.;:?" and not text[begin:end].endswith(("Jr.", "Sr.", "Inc.")):
        end -= 1
    if text[begin:end].endswith(("'s", "’s")):
        end -= 2
    if end - begin > 1 and text[begin] in '"“' and text[end - 1] in '"”':
        begin, end = begin + 1, end - 1
    return (begin, end) if begin < end else None


def find_names(text: str) -> list[str]:
    """All names in a question, in order. "of" and the like join a name, "and" and "or" do not.

    >>> find_names("Which band, Ost Mill or The Brenner, made the song “The Story of Us”?")
    ['Ost Mill', 'The Brenner', 'The Story of Us']
    """
    names: list[str] = []
    end = 0
    for quoted in _QUOTED.finditer(text):
        names += _runs(text[end : quoted.start()])
        names.append(quoted[1].strip(" ,.?"))
        end = quoted.end()
    names += _runs(text[end:])
    return [name for name in dict.fromkeys(names) if name]


def _runs(text: str) -> list[str]:
    names = []
    end = 0
    while word := _WORD.search(text, end):
        end = word.end()
        if not looks_like_name(word.group()) or _bare(word.group()).lower() in _NOT_NAMES:
            continue
        found = name_from(text, word.start(), _JOINERS)
        if found:
            name = text[slice(*found)]
            if _bare(name).lower() not in STOP_WORDS:
                names.append(name)
            end = max(end, found[1])
    return names
