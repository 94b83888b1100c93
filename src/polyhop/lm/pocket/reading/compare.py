"""Comparisons: read one value for each of two things, then decide in code, not in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.common.text import bare_title, fold
from polyhop.lm.pocket.reading.chains import link
from polyhop.lm.pocket.reading.countries import country_of
from polyhop.lm.pocket.reading.facts import facts
from polyhop.lm.pocket.reading.pairs import Comparison
from polyhop.lm.pocket.reading.passage import Page
from polyhop.lm.pocket.reading.question import Asked
from polyhop.lm.pocket.reading.text import content_roots, weight
from polyhop.lm.pocket.reading.values import Date, earlier, parse_date, parse_number

_RELATION = {"director": "director", "performer": "performer", "singer": "performer", "composer": "composer",
             "author": "writer", "writer": "writer", "producer": "producer",
             "painter": "creator", "designer": "creator", "architect": "creator"}  # fmt: skip
# "the director of film X": the thing compared is one relation away from the thing named.
_VIA = re.compile(
    rf"\b(?:the |both |of |do |are |have )?(?P<noun>{'|'.join(_RELATION)})s?\b"
    r"(?= (?:of|who|that|born|died|from|share|both|have|are|was|were|is)\b)",
    re.IGNORECASE,
)
_WORKS = re.compile(r"\b(?:films?|movies?|songs?|books?|novels?|albums?)\b", re.IGNORECASE)
_DATES = frozenset({"birth date", "death date", "start", "release"})


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two things: its name, its page, the page its value was read from, and the value as written."""

    name: str
    page: Page | None
    source: Page | None
    value: str | None
    missing: str | None  # what to look for next: a name, or None where everything is there


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a comparison; ``answer`` None where it cannot be decided yet."""

    answer: str | None
    sides: tuple[Side, Side]

    @property
    def complete(self) -> bool:
        """Whether both values were there and told the two apart."""
        return self.answer is not None and all(side.missing is None for side in self.sides)


def compare(asked: Asked, comparison: Comparison, pages: Sequence[Page]) -> Verdict:
    """Compare the two things a question names, as far as the pages allow.

    >>> from polyhop.lm.pocket.reading.passage import open_page
    >>> from polyhop.lm.pocket.reading.question import ask
    >>> from polyhop.types import Passage
    >>> texts = {"Ann Lee": "Ann Lee (born 3 May 1950) is a poet.", "Ida Kuhn": "Ida Kuhn (born 1961) is a singer."}
    >>> pages = [open_page(Passage(name, name, text)) for name, text in texts.items()]
    >>> asked = ask("Who is younger, Ann Lee or Ida Kuhn?")
    >>> compare(asked, asked.comparison, pages).answer
    'Ida Kuhn'
    """
    via = via_of(asked, comparison)
    first, second = (_side(option, comparison, via, asked, pages) for option in comparison.options)
    answer = _decide(asked, comparison, first, second)
    return Verdict(answer, (first, second))


def via_of(asked: Asked, comparison: Comparison) -> str | None:
    """The relation between a thing named and the thing compared, as of a film to its director; None for none."""
    if comparison.what == "terms":
        return None
    rest = asked.text
    for option in comparison.options:
        rest = rest.replace(option, "#")
    found = _VIA.search(rest)
    if found is None or not (_WORKS.search(rest) or re.match(r"s? of (?:the )?#", rest[found.end("noun") :])):
        return None
    return _RELATION[found["noun"].lower()]


def _side(option: str, comparison: Comparison, via: str | None, asked: Asked, pages: Sequence[Page]) -> Side:
    page = _find(option, pages)
    name = _spoken(option, page)
    if page is None:
        return Side(name, None, None, None, bare_title(option))
    source = page
    if via:
        people = facts(page, via)
        linked = [found for value in people if (found := link(value.text, [p for p in pages if p is not page]))]
        if not linked:
            return Side(name, page, None, None, people[0].text if people else f"{page.title} {via}")
        source = linked[0]
        name = source.name if asked.type == "person" else name  # "who" asks for the director, "which" for the film
    value = _value(comparison, source, asked)
    settled = value is not None or comparison.what in ("terms", "class", "number")
    return Side(name, page, source, value, None if settled else f"{source.name} {comparison.what}")


def _find(option: str, pages: Sequence[Page]) -> Page | None:
    """The option's page; where commas made the option too long, the page of one of its ends."""
    found = link(option, pages)
    if found is None and "," in option:
        found = link(option.rpartition(",")[2], pages) or link(option.partition(",")[0], pages)
    return found


def _spoken(option: str, page: Page | None) -> str:
    """The option as the question writes it, without what commas or namesakes added to it."""
    bare = bare_title(option)
    if page is not None and "," in bare and "," not in page.name:
        pieces = [piece.strip() for piece in bare.split(",")]
        return next((piece for piece in pieces if fold(piece) == fold(page.name)), bare)
    return bare


def _value(comparison: Comparison, page: Page, asked: Asked) -> str | None:
    if comparison.what == "number":
        return _number(page, asked)
    if comparison.what == "life":
        born, died = facts(page, "birth date"), facts(page, "death date")
        return f"{born[0].text} – {died[0].text}" if born and died else None
    found = facts(page, comparison.what)
    if not found and comparison.what == "start":
        found = facts(page, "release")
    return found[0].text if found else None


def _number(page: Page, asked: Asked) -> str | None:
    """The number that stands nearest to the question's other words."""
    places = sorted(
        place for root in asked.terms if root not in page.title_roots for place in page.positions.get(root, ())
    )
    numbers = [mention for mention in page.mentions if mention.kind == "number"]
    if not places or not numbers:
        return numbers[0].text if numbers else None
    return min(numbers, key=lambda m: (min(abs(m.first - place) for place in places), m.first)).text


def _decide(asked: Asked, comparison: Comparison, first: Side, second: Side) -> str | None:
    if comparison.what == "terms":
        return (_fits if comparison.how == "fits" else _both)(asked, first, second)
    if comparison.how == "common":
        return _common(asked, first, second)
    if first.value is None or second.value is None:
        return None
    if comparison.how == "same":
        return "yes" if _same(comparison.what, first.value, second.value) else "no"
    wins = _first_wins(comparison, first.value, second.value)
    return None if wins is None else (first if wins else second).name


def _same(what: str, one: str, other: str) -> bool:
    if what == "country":
        return (country_of(one) or fold(one)) == (country_of(other) or fold(other))
    if what in _DATES:
        left, right = parse_date(one), parse_date(other)
        return bool(left and right and left.year == right.year)
    return fold(one) == fold(other)


def _first_wins(comparison: Comparison, one: str, other: str) -> bool | None:
    if comparison.what == "life":
        spans = [_years(value) for value in (one, other)]
        return spans[0] > spans[1] if spans[0] != spans[1] else None
    if comparison.what in _DATES:
        left, right = parse_date(one), parse_date(other)
        before = earlier(left, right) if left and right else None
        return before if before is None or comparison.how in ("earliest", "least") else not before
    left_number, right_number = parse_number(one), parse_number(other)
    if left_number is None or right_number is None or left_number == right_number:
        return None
    return (left_number > right_number) == (comparison.how == "most")


def _years(life: str) -> float:
    born, died = (parse_date(part) or Date(0) for part in life.split(" – ", 1))
    return (died.year - born.year) * 372 + (died.month - born.month) * 31 + died.day - born.day


def _rest(asked: Asked, *sides: Side) -> dict[str, float]:
    """The question's terms without the names of the two things."""
    named = {root for side in sides for root in content_roots(side.name)}
    return {root: value for root, value in asked.terms.items() if root not in named}


def _covered(page: Page, terms: dict[str, float]) -> float:
    have = sum(value for root, value in terms.items() if root in page.positions or root in page.title_roots)
    return have / (sum(terms.values()) or 1.0)


def _fits(asked: Asked, first: Side, second: Side) -> str | None:
    """Which of the two the rest of the question describes better."""
    terms = _rest(asked, first, second)
    if first.page is None and second.page is None:
        return None
    scores = [(_covered(side.page, terms) if side.page else 0.0) for side in (first, second)]
    return (first if scores[0] >= scores[1] else second).name


def _both(asked: Asked, first: Side, second: Side) -> str | None:
    """Whether what the question says holds of both: its words stand on both pages."""
    if first.page is None or second.page is None:
        return None
    terms = _rest(asked, first, second)
    return "yes" if min(_covered(side.page, terms) for side in (first, second) if side.page) >= 0.5 else "no"


def _common(asked: Asked, first: Side, second: Side) -> str | None:
    """What both pages say of their subjects: a class they share, or a place where a place is asked for."""
    if first.page is None or second.page is None:
        return None
    if asked.type == "country":
        value = facts(first.page, "country")
        return value[0].text if value else None
    if asked.type in ("place", "group"):
        shared = {m.folded for m in second.page.mentions if m.kind == "name"}
        places = [
            m
            for m in first.page.mentions
            if m.kind == "name" and m.folded in shared and m.folded not in fold(asked.text)
        ]
        return places[-1].text if asked.head == "country" and places else (places[0].text if places else None)
    return _shared_class(first.page, second.page)


def _shared_class(one: Page, other: Page) -> str | None:
    """The longest run of class words of one page that the other page's classes hold too."""
    shared = one.classes & other.classes
    best: list[str] = []
    run: list[str] = []
    for token, root in zip(one.tokens[:80], one.roots[:80], strict=True):
        if root in shared and weight(root) and token[0].islower():
            run.append(token)
            best = max(best, run, key=len)
        else:
            run = []
    return " ".join(best) or None
