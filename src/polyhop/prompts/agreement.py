"""Agreement of two short texts: an answer and a reader's span, or two queries for the same thing.

This rule is ours, for ``searchain``: in the paper a span is consistent if the answer contains it, and the code compares
queries by a model of question similarity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Le

from polyhop.common.text import fold, normalise, words
from polyhop.prompts.answers import short_answer

Likeness: TypeAlias = Annotated[float, Ge(0), Le(1)] | Literal["exact"]
"""The similarity from which two queries are equal; "exact": the same words after normalisation."""

_INTERROGATIVES = frozenset({"who", "whom", "whose", "when", "where", "why", "how"})
_WORD = re.compile(r"\w+")


def agree(answer: str, span: str) -> bool:
    """Return True if either contains the other as whole words, whatever form their dates and numbers have.

    >>> agree("1937", "November 30, 1937"), agree("12,500 people", "12500"), agree("Ann", "Hannover")
    (True, True, False)
    """
    first, second = (f" {' '.join(_canonical(text))} " for text in (answer, span))
    return not first.isspace() and not second.isspace() and (first in second or second in first)


def is_yes_or_no(answer: str) -> bool:
    """Return True if an answer is yes or no, alone or with an explanation.

    >>> is_yes_or_no("No, it is not."), is_yes_or_no("No Country for Old Men")
    (True, False)
    """
    return normalise(short_answer(answer) or "") in ("yes", "no")


def _canonical(text: str) -> Iterator[str]:
    """Yield the words of a text; a date as year, month and day, a number by its value."""
    from polyhop.lm.pocket.reading.text import Date, find_dates, find_numbers  # late: few methods need it

    text = fold(text)
    end = 0
    for found in sorted(
        (*find_dates(text), *find_numbers(text)), key=lambda found: (found.start, found.kind == "number")
    ):
        if found.start < end:  # a number within a date
            continue
        yield from normalise(text[end : found.start]).split()
        if isinstance(found.value, Date):
            year, month, day = found.value
            yield from ([str(float(year))] if year else []) + [f"{month}m"] * (month > 0) + [f"{day}d"] * (day > 0)
        else:
            yield str(float(found.value))
        end = found.end
    yield from normalise(text[end:]).split()


def key_of(query: str) -> str:
    """Return the key of a query: its words after normalisation; a query of punctuation alone is its own key."""
    return normalise(query) or query


def find_equal(
    query: str, known: Sequence[str], likeness: Likeness, similarity: Callable[[str, Sequence[str]], Sequence[float]]
) -> str | None:
    """Return the first known query that asks for the same as ``query``; None if there is none.

    They are equal after normalisation, or similar without a word that tells them apart. ``similarity`` is the run's.
    """
    key = key_of(query)
    if equal := next((other for other in known if key_of(other) == key), None):
        return equal
    if likeness == "exact":
        return None
    candidates = [other for other in known if not tell_apart(query, other)]
    if not candidates:
        return None  # the usual case, in which no encoder need be asked
    values = similarity(query, [query, *candidates])[1:]  # fitted on the query too, or words of its own count nothing
    return next((other for other, value in zip(candidates, values, strict=True) if value >= likeness), None)


def tell_apart(query: str, other: str) -> bool:
    """Return True if two similar queries differ in a word that counts: a name, a number or an interrogative of one that
    the other lacks, or a word in place of another.

    >>> tell_apart("Who directed Alien?", "Who is the director of the film Alien?")
    False
    >>> tell_apart("Who directed Jaws?", "Who produced Jaws?"), tell_apart("When was she born?", "Where was she born?")
    (True, True)
    """
    from polyhop.lm.pocket.reading.text import content_stems, stem_of  # late: few methods need it

    ours, theirs = set(content_stems(query)), set(content_stems(other))
    names = {stem_of(word) for word in _WORD.findall(f"{query} {other}") if word[0].isupper() or word[0].isdigit()}
    asks = [_INTERROGATIVES & set(words(text)) for text in (query, other)]
    return asks[0] != asks[1] or bool(names & (ours ^ theirs)) or bool(ours - theirs and theirs - ours)
