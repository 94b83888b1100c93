"""Short answers in a model's text: one that is named, wrapped in a tag, or alone.

Every function is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from polyhop.common.sentences import sentences
from polyhop.prompts.non_answers import is_non_answer, says_nothing

MAX_BARE_ANSWER_WORDS = 15
"""Words: an unmarked one-line reply up to this length is taken as the answer itself."""
MAX_LEADING_ANSWER_WORDS = 8
"""Words: a first sentence up to this length is taken as the answer if the answer alone was asked for."""
MAX_LINE_CHARS = 1_000
"""Characters of a line that are searched for an answer."""

_WRAPPED = re.compile(
    r"(?P<opened><answer>)((?:(?!<answer>).){0,1000}?)(?:(?P<closed></answer>)|\Z)|\\boxed\{(?:\\text\{)?([^{}]{0,1000})\}",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_FORM = re.compile(r"\{|\bFinish\[", re.IGNORECASE)
_ANSWER = re.compile(
    r"\b(?:(?:the|my|its) )?(?:(?:final|correct|short) )?answers?"
    r"(?: \((?:[^()\n]|\([^()\n]{0,20}\)){1,100}\)| to (?:the|this|your) (?:[\w-]{1,20} )?question)?"
    r" (?:is|are|(?:would|should|must) be)\b[ \t]*:?\s*"
    r"|(?P<label>^[^\w\n]*+(?:(?:the|my|final|correct|short) ){0,2}answer[ \t*_]*+(?:[:：\]][ \t*_:\]]*|$))",
    re.IGNORECASE | re.M,
)
_CONJUNCTION = re.compile(
    r"\b(?:(?P<firm>so|thus|hence|therefore|then|consequently|finally)|and)\b[^\w.]*$", re.IGNORECASE
)
_VERDICT = re.compile(r"((?i:yes|no))\b(?:[.!]\s+(?!\d)|[,;:-]\s+(?=[a-z])|\s*[–—]\s*(?=[a-z])|\s+\()")
_ABBREVIATED = re.compile(r"(?:\b(?:Jr|Sr|Inc|Ltd|Co|Corp|Bros|St|Mt|etc)|\b[A-Za-z]\.[A-Za-z])\.$")
_CHATTER = re.compile(r"\W*(?:sure|certainly|of course|okay|ok|great question)\b|.*:$", re.IGNORECASE)
_BUT = re.compile(r"\W{0,3}(?:however|but|still|yet|nevertheless|that said|unfortunately)\b,?\s+(.+)", re.IGNORECASE)
_BULLET = re.compile(r"[-–•>]\s+")
_DOTS = re.compile(r"\A\s*(?:…|\.{2,})\s*(?=\w)")
_MARKUP = " \t\n*_#"
_PAIRS = {'"': '"', "'": "'", "`": "`", "_": "_", "“": "”", "‘": "’", "«": "»", "[": "]"}


class NamedAnswer(NamedTuple):
    """An answer that a text names as such; ``is_explicit`` if the name opens a sentence ("So the answer is …") or
    labels a line, and is not in passing ("note that the answer is …")."""

    before: str
    answer: str
    is_explicit: bool


def find_answer(text: str) -> NamedAnswer | None:
    """Find the last answer that a text names, also "none"; one named explicitly comes before all others.

    >>> find_answer("Final answer: Rome. Note that the answer is only as good as the passages.").answer
    'Rome'
    >>> find_answer('It says "The answer is Rome." The answer is none.').answer
    'none'
    """
    passing: NamedAnswer | None = None
    for found in sorted((*_WRAPPED.finditer(text), *_ANSWER.finditer(text)), key=_position, reverse=True):
        if found.re is _WRAPPED:
            start, is_explicit, rest = found.start(), True, found[2] or found[4] or ""
        else:
            start, is_explicit = _opening(text, found)
            rest = text[found.end() : found.end() + MAX_LINE_CHARS]
        if (is_explicit or passing is None) and (answer := short_answer(rest)):
            named = NamedAnswer(text[:start].strip(_MARKUP), answer, is_explicit)
            if is_explicit:
                return named
            passing = named
    return passing


def _position(found: re.Match[str]) -> int:
    """Return the sort position of a named answer; a tag that is never closed holds none of them."""
    return found.start() if found.re is _WRAPPED and found["opened"] and not found["closed"] else found.end()


def _opening(text: str, found: re.Match[str]) -> tuple[int, bool]:
    """Find the start of the words that lead to an answer; True if they open a sentence or a line."""
    start = max(0, found.start() - 40)
    window = text[start : found.start()].rstrip(" \t*_")
    if conjunction := _CONJUNCTION.search(window):
        return start + conjunction.start(), bool(conjunction["firm"])
    opens = bool(found["label"]) or not window or window[-1] in ".!?:,)\n" or found[0][0].isupper()
    return start + len(window), opens


def short_answer(text: str) -> str | None:
    """Return the answer at the head of a text: the first sentence of its first line, without a closing full stop.

    >>> short_answer(" 'St. Louis'.  It lies in Missouri."), short_answer("No, they are not.")
    ('St. Louis', 'No')
    """
    line = next((line for line in text[:MAX_LINE_CHARS].splitlines() if line.strip(" *_\"'`")), "").strip(" *_")
    line = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
    if verdict := _VERDICT.match(line):
        return verdict[1]
    value = _unwrapped(_first_sentence(_DOTS.sub("", line, count=1)))
    while value and value[-1] in ".。" and not _ABBREVIATED.search(value):
        value = _unwrapped(value[:-1])
    return value if any(map(str.isalnum, value)) or not says_nothing(value) else None


def _first_sentence(line: str) -> str:
    """Return the first sentence; a title with "!" or "?" inside, or a number before it, is not cut there ("Arisan!
    Berondong Tua", "1. FC Köln")."""
    first, *others = sentences(line) or [""]
    if others and first.removesuffix(".").isdigit():
        first = f"{first} {others.pop(0)}"
    while others and first.endswith(("!", "?")):
        first = f"{first} {others.pop(0)}"
    return first.partition("。")[0]


def bare_answer(text: str) -> str | None:
    """Return a reply of one short line, which is the answer itself; None for any other."""
    if _takes_back(text):
        return None
    lines = _lines(text)
    return _standing_alone(lines[0], MAX_BARE_ANSWER_WORDS) if len(lines) == 1 else None


def leading_answer(text: str) -> str | None:
    """Return the answer that is the whole reply, or opens it before an explanation; None without one.

    >>> leading_answer("Lars Sonck. He designed Ainola, the house of the composer, in Järvenpää, in 1903 and 1904.")
    'Lars Sonck'
    """
    if _OTHER_FORM.search(text) or _takes_back(text):
        return None
    if answer := bare_answer(text):
        return answer
    lines = _lines(text)
    if lines and _CHATTER.match(lines[0]):
        del lines[0]
    answer = short_answer(lines[0]) if lines else None
    return _standing_alone(answer, MAX_LEADING_ANSWER_WORDS) if answer else None


def _takes_back(text: str) -> bool:
    """Return True if a reply goes on to decline ("Paris. However, I cannot determine it from the passages.")."""
    first, *others = [sentence for line in text.splitlines() for sentence in sentences(line)] or [""]
    declines = any(is_non_answer(turn[1]) for turn in map(_BUT.match, others) if turn)
    return declines and not is_non_answer(first)


def _standing_alone(line: str, max_words: int) -> str | None:
    """Return the answer that a line is; None if it has many words, introduces one, or is a form that is not filled."""
    if len(line.split()) > max_words or line.rstrip(" *").endswith((":", "：")):
        return None
    if any(form.search(line) for form in (_OTHER_FORM, _ANSWER, _WRAPPED)):
        return None
    return short_answer(line)


def _lines(text: str) -> list[str]:
    return [line for line in map(str.strip, text.splitlines()) if line.strip("*`") and not line.startswith("```")]


def clean_value(text: str | None) -> str | None:
    """Strip quotes and bold from a value; None for nothing and for words that mean nothing.

    >>> clean_value(' "Paris" '), clean_value("N/A")
    ('Paris', None)
    """
    value = _unwrapped(text or "")
    return None if says_nothing(value) else value


def _unwrapped(text: str) -> str:
    """Strip what a value is wrapped in: quotes, bold, the end of a filled bracket."""
    value = " ".join(text.replace("**", "").split()).removesuffix("```")
    if value.endswith("]") and "[" not in value:  # of a filled bracket, "[ANSWER: Paris]"
        value = value[:-1]
    before = None
    while value != before:
        before = value
        value = value.strip("* ")
        if len(value) > 1 and _PAIRS.get(value[0]) == value[-1] and not {value[0], value[-1]} & set(value[1:-1]):
            value = value[1:-1]
    return value
