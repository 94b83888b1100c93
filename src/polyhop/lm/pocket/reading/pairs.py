"""Two things a question sets against each other, and what decides between them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from polyhop.lm.pocket.reading.names import name_before, name_from

# Comparatives that name both how a comparison is decided and by which fact. First match wins, here and below.
_COMPARATIVES = (
    (r"lived longer|longer life|longest life", "most", "life"),
    (r"younger|youngest", "latest", "birth date"),
    (r"older film|earlier film|older movie", "earliest", "release"),
    (r"older|oldest|elder", "earliest", "birth date"),
)
# The event whose dates are compared, and the words for earlier and later.
_EVENTS = (
    (r"born|birth", "birth date"),
    (r"died?|death", "death date"),
    (r"founded|formed|established|started|created|built|opened|launched|begun", "start"),
    (r"released|came out|come out|published|premiered|aired|took place|came", "release"),
)
_ORDERS = (
    (r"first|earlier|earliest|before|oldest", "earliest"),
    (r"later|last|latest|recent|recently|newer", "latest"),
)
_SIZES = (
    (r"larger|largest|bigger|taller|tallest|higher|highest|longer|more|most", "most", "number"),
    (r"smaller|smallest|shorter|shortest|lower|fewer|less", "least", "number"),
)
# Of two things joined by "and": what is asked to be the same.
_SAMES = (
    (r"same (?:nationality|country|nation)|shared? (?:\w+ ){0,2}nationality", "country"),
    (r"born in the same (?:place|city|town)|same (?:birthplace|place of birth)", "birth place"),
    (r"born in the same year", "birth date"),
    (r"(?:released|come out) in the same year", "release"),
)
_COMMON_WORDS = r"in common|common|mutual|shared?|both"
_DESCRIBED = (
    r"(?:the )?(?:directors?|performers?|composers?|authors?|writers?|painters?|designers?) of (?:both )?(?:the )?"
    r"(?:films?|movies?|songs?|books?|novels?|albums?)?:? ?"
)
_BETWEEN = re.compile(rf",? (?P<word>or|and|&) (?:is |was )?(?:{_DESCRIBED})?", re.IGNORECASE)
# "..., gold or silver?": a choice between two things without capitals.
_PLAIN_CHOICE = re.compile(r", (?:the )?(?P<left>\w+(?: \w+)?) or (?:the )?(?P<right>\w+(?: \w+)?)\s*\?$")


def _says(pattern: str, text: str) -> bool:
    return re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two things and what decides between them: ``how`` (earliest, latest, most, least, same, common, fits, both)."""

    options: tuple[str, str]
    how: str
    what: str


def find_comparison(text: str, yes_or_no: bool) -> Comparison | None:
    """The comparison a question asks for, None where it names no two things to compare.

    >>> find_comparison("Which mill was built first, Ost Mill or The Brenner?", yes_or_no=False)
    Comparison(options=('Ost Mill', 'The Brenner'), how='earliest', what='start')
    >>> find_comparison("Do Ann Lee and Ida Kuhn have the same nationality?", yes_or_no=True)
    Comparison(options=('Ann Lee', 'Ida Kuhn'), how='same', what='country')
    """
    found = _options(text)
    if found is None:
        return None
    left, right, word = found
    rest = text.replace(left, " ").replace(right, " ")
    if word == "or":
        how, what = _choice(rest) or ("fits", "terms")
    elif yes_or_no:
        same = next((what for pattern, what in _SAMES if _says(pattern, rest)), None)
        how, what = ("same", same) if same else ("both", "terms")
    elif _says("which|who|between|of", rest) and (chosen := _choice(rest)):
        how, what = chosen
    elif _says(_COMMON_WORDS, rest) or text.startswith(left):
        how, what = "common", "class"
    else:
        return None
    return Comparison((left, right), how, what)


def _choice(rest: str) -> tuple[str, str] | None:
    """How a choice between two is decided, and by which fact."""
    for pattern, how, what in _COMPARATIVES:
        if _says(pattern, rest):
            return how, what
    order = next((how for pattern, how in _ORDERS if _says(pattern, rest)), None)
    event = next((what for pattern, what in _EVENTS if _says(pattern, rest)), None)
    if order and event:
        return order, event
    if _says("more recent|newer", rest):
        return "latest", "release"
    return next(((how, what) for pattern, how, what in _SIZES if _says(pattern, rest)), None)


def _options(text: str) -> tuple[str, str, str] | None:
    """The two names around an "or", or around an "and" where the question is about both."""
    found = []
    for match in _BETWEEN.finditer(text):
        left = name_before(text, match.start())
        right = name_from(text, match.end())
        if left and right and right[0] - match.end() <= 4 and match.start() - left[1] <= 1:
            word = "or" if match["word"].lower() == "or" else "and"
            found.append((text[slice(*left)], text[slice(*right)], word))
    if not found and (plain := _PLAIN_CHOICE.search(text)):
        return plain["left"], plain["right"], "or"
    choices = [option for option in found if option[2] == "or"]
    if choices:
        return choices[-1]
    asks_both = re.search(r"\b(?:both|same|common|mutual|share|between|of the two)\b", text, re.IGNORECASE)
    plural = re.match(r"(?:are|were|do|did|have|has|can)\b", text, re.IGNORECASE)
    starts = found and text.startswith(found[0][0])
    return found[0] if found and (asks_both or plural or starts) else None
