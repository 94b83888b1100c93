"""Comparisons: a value is read for each of two things, and code decides between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from polyhop.common.text import bare_title, fold
from polyhop.lm.pocket.reading.chain import find_page
from polyhop.lm.pocket.reading.comparison import WORKS, Comparison
from polyhop.lm.pocket.reading.counting import asked_noun, of_counted
from polyhop.lm.pocket.reading.evidence import StatedValue, find_facts
from polyhop.lm.pocket.reading.facts import facts
from polyhop.lm.pocket.reading.pairs import choose
from polyhop.lm.pocket.reading.passage import ParsedPassage, share_of
from polyhop.lm.pocket.reading.quantities import Quantity, dimension_in, find_quantities, less
from polyhop.lm.pocket.reading.question import ParsedQuestion
from polyhop.lm.pocket.reading.tables import country_of, relations
from polyhop.lm.pocket.reading.text import content_stems, parse_date, stem_weight
from polyhop.lm.pocket.reading.values import read_values

_WORK_BEFORE = re.compile(rf"{WORKS.pattern} $", re.IGNORECASE)
_OF_LIFE = frozenset({"birth date", "death date"})
_DATES = _OF_LIFE | {"start", "release"}
_LIKELY, _SURE = 0.2, 0.5  # probability of what two values decide, and of what settles the question


@lru_cache(maxsize=1)
def _through() -> re.Pattern[str]:
    """The pattern of "the director of film X": the thing compared is one relation away from the thing named."""
    return re.compile(
        rf"\b(?:the |both |of |do |are |have )?(?P<noun>{'|'.join(relations().compared_through)})s?\b"
        r"(?= (?:of|who|that|born|died|from|share|both|have|are|was|were|is)\b)",
        re.IGNORECASE,
    )


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two things: its name, its page, the page that its value was read from, and the value as written.
    ``missing``: the name to search for next, None if nothing is missing."""

    name: str
    page: ParsedPassage | None
    source: ParsedPassage | None
    value: str | None
    missing: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a comparison. ``answer``: None if it cannot be decided yet. ``probability``: of the answer, if two
    quantities were chosen among many; else 1."""

    answer: str | None
    sides: tuple[Side, Side]
    probability: float = 1.0

    @property
    def complete(self) -> bool:
        """True if both values were found and decide the comparison."""
        return self.answer is not None and all(side.missing is None for side in self.sides)


def compare(
    parsed: ParsedQuestion, comparison: Comparison, pages: Sequence[ParsedPassage], *, read: bool = False
) -> Verdict:
    """Compare the two things that a question names, as far as the pages allow. ``read``: by the values that the encoder
    reads, too, not by rules alone.

    >>> from polyhop.lm.pocket.reading.passage import parse_passage
    >>> from polyhop.lm.pocket.reading.question import parse_question
    >>> from polyhop.types import Passage
    >>> texts = {"Ann Lee": "Ann Lee (born 3 May 1950) is a poet.", "Ida Kuhn": "Ida Kuhn (born 1961) is a singer."}
    >>> pages = [parse_passage(Passage(name, name, text)) for name, text in texts.items()]
    >>> parsed = parse_question("Who is younger, Ann Lee or Ida Kuhn?")
    >>> compare(parsed, parsed.comparison, pages).answer
    'Ida Kuhn'
    """
    pages = sorted(pages, key=lambda page: (page.title, page.text))  # no value depends on their order
    via = via_of(parsed, comparison)
    first, second = (_side(option, comparison, via, parsed, pages) for option in comparison.options)
    outcome, probability = None, 1.0
    is_value = comparison.how in ("choice", "truth", "same") and comparison.what not in ("name", "life")
    if is_value and not via and None in (first.value, second.value):
        first, second, outcome, probability = _measured(parsed, comparison, pages, first, second, read)
    if not outcome:  # also a draw: over articles "in 2019" and "in 2019" may not be the same day
        answer = _decide(parsed, comparison, first, second)
        if answer is None and read and comparison.how == "choice" and _are_equal(first, second):
            answer = "both"
    elif comparison.how == "choice":
        answer = ("both", first.name, second.name)[outcome]
    else:
        answer = "yes" if outcome > 0 else "no"
    return Verdict(answer, (first, second), probability)


def via_of(parsed: ParsedQuestion, comparison: Comparison) -> str | None:
    """The relation of the thing compared to the thing named, as of a director to a film; None if they are the same."""
    if comparison.what == "terms":
        return None
    rest = parsed.text
    for option in comparison.options:
        rest = rest.replace(option, "#")
    found = _through().search(rest)
    if found is None:
        return None
    of_work = re.match(r"s? of (?:the )?#", rest[found.end("noun") :])
    if not of_work and (_WORK_BEFORE.search(rest, 0, found.start("noun")) or not WORKS.search(rest)):
        return None  # "which film director is younger"
    return relations().compared_through[found["noun"].lower()]


def _side(
    option: str, comparison: Comparison, via: str | None, parsed: ParsedQuestion, pages: Sequence[ParsedPassage]
) -> Side:
    page = _find(option, pages)
    name = _option_name(option, page)
    if page is None:
        return Side(name, None, None, None, bare_title(option))
    source = page
    if via:
        people = facts(page, via)
        linked = [found for value in people if (found := find_page(value.text, [p for p in pages if p is not page]))]
        if not linked:
            return Side(name, page, None, None, people[0].text if people else f"{page.title} {via}")
        source = linked[0]
        name = source.name if parsed.type == "person" else name  # "who" asks for the director, "which" for the film
    value = _value(comparison, source)
    settled = value is not None or comparison.what in ("terms", "class", "value", "name")
    return Side(name, page, source, value, None if settled else f"{source.name} {comparison.what}")


def _measured(
    parsed: ParsedQuestion,
    comparison: Comparison,
    pages: Sequence[ParsedPassage],
    first: Side,
    second: Side,
    read: bool,
) -> tuple[Side, Side, int | None, float]:
    """The two sides with the two quantities that passages most probably state of them, what these decide, and the
    probability of it."""
    left, right = find_facts(comparison.options, comparison.measure, pages)
    if comparison.what in _OF_LIFE:  # "died in 1989" says nothing of a birth
        left, right = ([fact for fact in side if fact.measure > 0] for side in (left, right))
    if read:
        left, right = read_values(parsed.text, comparison, pages, (left, right))
    if "length" in comparison.wins:  # what is open longer need not close later
        left, right = _without_ends(left), _without_ends(right)
    if asked := asked_noun(parsed.text):
        left, right = (of_counted(asked, side) for side in (left, right))
    chosen = choose(comparison, left, right, read=read)
    if chosen is None or (chosen.outcome is not None and chosen.probability < _LIKELY):
        return first, second, None, 0.0
    sure = chosen.probability >= _SURE
    return (
        Side(first.name, chosen.first.page, chosen.first.page, chosen.first.text, None if sure else first.name),
        Side(second.name, chosen.second.page, chosen.second.page, chosen.second.text, None if sure else second.name),
        chosen.outcome,
        chosen.probability,
    )


def _without_ends(facts: Sequence[StatedValue]) -> list[StatedValue]:
    """The facts without the two times of day of a period among them."""
    periods = [(fact.page, fact.quantity) for fact in facts if fact.quantity.dimension == "time"]

    def is_end(fact: StatedValue) -> bool:
        inside = (page is fact.page and time.start <= fact.quantity.start < time.end for page, time in periods)
        return fact.quantity.dimension == "clock" and any(inside)

    return [fact for fact in facts if not is_end(fact)]


def _find(option: str, pages: Sequence[ParsedPassage]) -> ParsedPassage | None:
    """The page of an option; if commas made the option too long, the page of one of its ends."""
    found = find_page(option, pages)
    if found is None and "," in option:
        found = find_page(option.rpartition(",")[2], pages) or find_page(option.partition(",")[0], pages)
    return found


def _option_name(option: str, page: ParsedPassage | None) -> str:
    """The option as the question writes it, without what commas or a parenthesis added."""
    bare = bare_title(option)
    if page is not None and "," in bare and "," not in page.name:
        pieces = [piece.strip() for piece in bare.split(",")]
        return next((piece for piece in pieces if fold(piece) == fold(page.name)), bare)
    return bare


def _value(comparison: Comparison, page: ParsedPassage) -> str | None:
    if comparison.what == "life":
        born, died = facts(page, "birth date"), facts(page, "death date")
        return f"{born[0].text} – {died[0].text}" if born and died else None
    found = facts(page, comparison.what)
    if not found and comparison.what == "start":
        found = facts(page, "release")
    return found[0].text if found else None


def _decide(parsed: ParsedQuestion, comparison: Comparison, first: Side, second: Side) -> str | None:
    if comparison.what == "terms":
        return (_fits if comparison.how == "fits" else _both)(parsed, first, second)
    if comparison.how == "common":
        return _common(parsed, first, second)
    if first.value is None or second.value is None:
        return None
    if comparison.how == "same":
        same = _same(comparison.what, first.value, second.value)
        return None if same is None else ("yes" if same else "no")
    wins = _first_wins(comparison, first.value, second.value)
    if comparison.how == "truth":
        return None if wins is None else ("yes" if wins > 0 else "no")
    return None if wins is None else ("both", first.name, second.name)[wins]


def _same(what: str, first: str, second: str) -> bool | None:
    if what == "country":
        return (country_of(first) or fold(first)) == (country_of(second) or fold(second))
    if what in _DATES:
        left, right = parse_date(first), parse_date(second)
        return bool(left and right and left.year == right.year)
    for a, b in _alike(first, second):
        return less(a, b) is None
    return fold(first) == fold(second)


def _first_wins(comparison: Comparison, first: str, second: str) -> int | None:
    """1 if the first of two values wins, -1 if the second does, 0 if they are equal; None if that is unknown."""
    if comparison.what == "life":
        lived, other = _days(first), _days(second)
        if lived is None or other is None:
            return None
        longer = (lived > other) - (lived < other)
        return longer if comparison.wins.get("time", 1) > 0 else -longer
    for a, b in _alike(first, second):
        sign = comparison.wins.get(dimension_in(comparison.wins, a) or "")
        if sign is None:
            continue
        lower = less(a, b)
        if lower is None:
            return None if a.date and not (a.date.day and b.date and b.date.day) else 0
        return -sign if lower else sign
    return None


def _are_equal(first: Side, second: Side) -> bool:
    """True if the values of both sides are known, and the same as far as they are stated."""
    pairs = _alike(first.value or "", second.value or "")
    return any(less(a, b) is None and a[2:] == b[2:] for a, b in pairs)


def _alike(first: str, second: str) -> list[tuple[Quantity, Quantity]]:
    """The pairs of quantities of one dimension in two values."""
    return [(a, b) for a in find_quantities(first) for b in find_quantities(second) if a.dimension == b.dimension]


def _days(life: str) -> int | None:
    """The length of a life written "born – died", in days of months of 31; None without both dates."""
    dates = [parse_date(part) for part in life.split(" – ")]
    if len(dates) != 2 or dates[0] is None or dates[1] is None:
        return None
    born, died = dates[0], dates[1]
    return (died.year - born.year) * 372 + (died.month - born.month) * 31 + died.day - born.day


def _rest(parsed: ParsedQuestion, *sides: Side) -> dict[str, float]:
    """The terms of the question without the names of the two things."""
    named = {stem for side in sides for stem in content_stems(side.name)}
    return {stem: value for stem, value in parsed.terms.items() if stem not in named}


def _fits(parsed: ParsedQuestion, first: Side, second: Side) -> str | None:
    """The name that the rest of the question describes better."""
    terms = _rest(parsed, first, second)
    if first.page is None and second.page is None:
        return None
    left, right = (share_of(terms, [side.page] if side.page else []) for side in (first, second))
    return None if left == right else (first if left > right else second).name


def _both(parsed: ParsedQuestion, first: Side, second: Side) -> str | None:
    """ "yes" if the words of the question are on both pages, else "no"."""
    if first.page is None or second.page is None:
        return None
    terms = _rest(parsed, first, second)
    return "yes" if min(share_of(terms, [page]) for page in (first.page, second.page)) >= 0.5 else "no"


def _common(parsed: ParsedQuestion, first: Side, second: Side) -> str | None:
    """A class that both pages state of their subjects, or a place if a place is asked for."""
    if first.page is None or second.page is None:
        return None
    if parsed.type == "country":
        value = facts(first.page, "country")
        return value[0].text if value else None
    if parsed.type in ("place", "group"):
        shared = {m.folded for m in second.page.mentions if m.kind == "name"}
        places = [
            m
            for m in first.page.mentions
            if m.kind == "name" and m.folded in shared and m.folded not in fold(parsed.text)
        ]
        return places[-1].text if parsed.head == "country" and places else (places[0].text if places else None)
    return _shared_class(first.page, second.page) if parsed.type == "thing" else None


def _shared_class(first: ParsedPassage, second: ParsedPassage) -> str | None:
    """The longest run of words in the lead of the first page whose stems are classes of both."""
    shared = first.classes & second.classes
    best: list[str] = []
    run: list[str] = []
    for token, stem in zip(first.tokens[:80], first.stems[:80], strict=True):
        if stem in shared and stem_weight(stem) and token[0].islower():
            run.append(token)
            best = max(best, run, key=len)
        else:
            run = []
    return " ".join(best) or None
