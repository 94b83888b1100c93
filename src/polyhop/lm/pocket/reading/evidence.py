"""The quantities that passages state of two things: beside the words of a measure, in sentences and rows of tables."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from polyhop.lm.pocket.reading.comparison import ends_name
from polyhop.lm.pocket.reading.passage import ParsedPassage
from polyhop.lm.pocket.reading.quantities import YEAR, Quantity, find_quantities
from polyhop.lm.pocket.reading.tables import measures
from polyhop.lm.pocket.reading.text import TOKEN, stem_of, stem_weight

_KEY = re.compile(r"(?:^|[;\n.:|] ?)(?P<key>[^\s;:.|][^;:.|\n]{0,48}): ")
_UNIT_BREAK = re.compile(r"[\s()\[\],]+")
_NAMED, _TITLED, _PARTLY = 1.0, 0.8, 0.6  # strength of a mention: of all words, in the title, of a part
_BESIDE = 1.5  # times a mention right before the quantity: "Skua 300 m"
_FADING = 0.8  # of a mention: per sentence without another one, and per other name before the quantity
_REACH = 6.0  # tokens over which a word of the measure loses its weight
_OPENS = 2  # a name among these first tokens of a sentence replaces the article's subject from there on
_LABEL = 3  # tokens before a quantity that introduce it
_MAX_WORDS = 2  # of a measure that count
_HEADED = 3  # tokens after an article in which a word of the measure heads its phrase: "a total height of"
_PRONOUNS = frozenset("it its he his she her they their".split())
_BEING = frozenset("is was are were".split())
_ARTICLES = frozenset("a an the its his her their whose each every".split())
_LOCATING = frozenset("of in at on from".split())
_CLAUSE = frozenset({",", ";", "and", "–", "—"})  # with "the" after it, something else follows
_RELATIVE = frozenset("which that who whose where and".split())
_OTHERWISE = frozenset("not no never than while whereas but unlike beside".split())

Stems = Sequence[str]


@dataclass(frozen=True, slots=True)
class StatedValue:
    """A quantity that a passage states of a thing. ``about``: how certainly of this thing, 0 to 1.5; ``measure``: how
    close the measure's words are, 0 to 1; ``label``: the stems that introduce it; ``unit``: that of its column;
    ``in_row``: it is a cell of a table; ``first``: the first token of its sentence or row; ``read``: the probability
    that the encoder reads it for the thing (``values.read_values``)."""

    quantity: Quantity
    page: ParsedPassage
    about: float
    measure: float
    label: frozenset[str]
    unit: str = ""
    in_row: bool = False
    first: int = 0
    read: float = 0.0

    @property
    def text(self) -> str:
        """The quantity as the passage writes it, with the unit of its column."""
        return f"{self.page.text[self.quantity.start : self.quantity.end]} {self.unit}".rstrip()


class _Segment(NamedTuple):
    """A sentence, or a row of a table with the tokens of the names of its columns."""

    first: int
    last: int
    keys: tuple[tuple[int, int], ...]


class _Mention(NamedTuple):
    """A mention of one of the two things: its first token, the number of the thing and the strength."""

    token: int
    thing: int
    strength: float


def find_facts(
    things: tuple[str, str], measure: Mapping[str, float], pages: Sequence[ParsedPassage]
) -> tuple[list[StatedValue], list[StatedValue]]:
    """Find the quantities that pages state of each of two things.

    >>> from polyhop.lm.pocket.reading.passage import parse_passage
    >>> from polyhop.types import Passage
    >>> page = parse_passage(Passage("1", "Buoys", "The Skua is rated to 300 m, the Tern to 1,200 m."))
    >>> [[fact.text for fact in facts] for facts in find_facts(("Skua", "Tern"), {"rat": 1.0}, [page])]
    [['300 m'], ['1,200 m']]
    """
    names = [_stems(thing) for thing in things]
    found: tuple[list[StatedValue], list[StatedValue]] = ([], [])
    for page in pages:
        for mention, fact in _facts(page, names, measure):
            found[mention.thing].append(fact)
    return found


def find_own_facts(thing: str, measure: Mapping[str, float], pages: Sequence[ParsedPassage]) -> Iterator[StatedValue]:
    """Find the quantities that pages state of one thing, without those that may be said of something else between its
    name and the quantity.

    >>> from polyhop.lm.pocket.reading.passage import parse_passage
    >>> from polyhop.types import Passage
    >>> page = parse_passage(Passage("1", "Mills", "Ost Mill is 12 m high. Near Ost Mill, a tower is 40 m high."))
    >>> [fact.text for fact in find_own_facts("Ost Mill", {"high": 1.0}, [page])]
    ['12 m']
    """
    name = _stems(thing)
    for page in pages:
        for mention, fact in _facts(page, [name], measure):
            if mention.strength > _PARTLY and _is_own(page, name, mention, fact, measure):
                yield fact


def is_in_row(page: ParsedPassage, character: int) -> bool:
    """True if a character of a page is in a row of a table."""
    token = bisect_left(page.starts, character)
    return any(segment.first <= token < segment.last for segment in _segments(page) if segment.keys)


def _is_own(
    page: ParsedPassage, name: Stems, mention: _Mention, fact: StatedValue, measure: Mapping[str, float]
) -> bool:
    """True if nothing else is named between the thing and the quantity, and a sentence without the thing's name goes on
    about it."""
    first, token = fact.first, bisect_left(page.starts, fact.quantity.start)
    if fact.in_row:
        keys = [
            key for key in _KEY.finditer(page.text) if page.starts[first] <= key.start("key") <= fact.quantity.start
        ]
        return first <= mention.token < bisect_left(page.starts, keys[1].start("key") if len(keys) > 1 else 0)
    words = [word.lower() for word in page.tokens]
    start = mention.token + len(name) if mention.token >= 0 else first
    if mention.token > token or not _OTHERWISE.isdisjoint(words[start:token]):
        return False
    if mention.token >= 0 and _is_part(page, mention.token, start, measure):
        return False
    within = {i for i in range(start, token) if "(" in words[start:i] and ")" in words[i:token]}
    others = [
        each for each in page.mentions
        if each.kind in ("name", "quoted") and start <= each.first < token and each.first not in within
        and each.folded not in measures().units
    ]  # fmt: skip
    if mention.token < first:
        opening = [word for word in range(first, min(first + 2, token)) if words[word] not in ("the", "this")][:1]
        if not any(words[i] in _PRONOUNS or page.stems[i] in name or page.stems[i] in measure for i in opening):
            return False
        others = [each for each in others if each.first not in opening]
    if any(words[each.first - 1] not in _LOCATING for each in others):
        return False
    if others and not _RELATIVE.isdisjoint(words[others[-1].last : token]):
        return False
    for i in range(max(start, first + 1), token):
        if words[i] not in _ARTICLES or words[i - 1] in _BEING:
            continue
        begins = words[i - 1] in _CLAUSE
        before = () if begins else page.stems[max(start, first) : i]
        head = () if begins and words[i] == "the" else page.stems[i : min(i + 1 + _HEADED, token)]
        if measure.keys().isdisjoint({*before, *head}):
            return False
    return True


def _is_part(page: ParsedPassage, first: int, last: int, measure: Mapping[str, float]) -> bool:
    """True for a name that is a part of another one ("the old bridge", "Vasa Museum"), or that owns what is spoken of
    ("the tower's spire"), unless that is the measure."""
    tokens, stems = page.tokens, page.stems
    before, after = tokens[first - 1 : first] if first else [], tokens[last : last + 1]
    if any(re.search("['’]s?$", token) for token in tokens[first:last]) or after in (["'"], ["’"]):
        return measure.keys().isdisjoint(stems[last : last + _HEADED])
    if after and after[0][0].isupper() and stems[last] not in measure:
        return True
    if not tokens[first][0].islower():
        return False
    is_longer = bool(before) and before[0].islower() and stem_weight(stems[first - 1]) > 0
    return is_longer or bool(
        after and stem_weight(stems[last]) and stems[last] not in measure and not ends_name(after[0])
    )


def _stems(name: str) -> tuple[str, ...]:
    stems = tuple(stem_of(token) for token in TOKEN.findall(name) if token.lower() not in ("one", "ones"))
    return tuple(filter(stem_weight, stems)) or stems


def _facts(
    page: ParsedPassage, names: Sequence[Stems], measure: Mapping[str, float]
) -> Iterator[tuple[_Mention, StatedValue]]:
    """The quantities of a page, each with the mention of the thing that it is said of."""
    quantities = _quantities(page.text)
    others = [[stem for j, other in enumerate(names) if j != i for stem in other] for i in range(len(names))]
    title = list(map(stem_of, TOKEN.findall(page.title)))
    titled = [i for i, name in enumerate(names) if set(name) <= set(title)]
    subject = _Mention(-1, titled[0], _TITLED) if len(titled) == 1 else None
    is_article = bool(page.folded_name) and page.folded.strip().startswith(page.folded_name)
    for segment in _segments(page) if quantities else ():
        mentions = sorted(
            mention for i, name in enumerate(names)
            for mention in _mentions(page, segment, name, i, others[i])
        )  # fmt: skip
        inside = [
            (token, quantity) for quantity in quantities
            if segment.first <= (token := bisect_left(page.starts, quantity.start)) < segment.last
            and not any(m.token <= token < m.token + len(names[m.thing]) for m in mentions)
            and not _ends_name(page, segment, mentions, token, quantity)
        ]  # fmt: skip
        for token, quantity in inside:
            end = bisect_left(page.starts, quantity.end)
            quantity, written = _in_unit_of_column(page, segment, token, quantity)
            if mention := _owner(page, segment, mentions, token, end, [token for token, _ in inside]) or subject:
                about = mention.strength
                if mention in mentions and not segment.keys:
                    gap = token - mention.token - len(names[mention.thing])
                    about *= _BESIDE if 0 <= gap < 2 else _FADING ** _names_between(page, mention, token)
                described = _described(page, segment, token, quantity, measure)
                in_row, first = bool(segment.keys), segment.first
                yield mention, StatedValue(quantity, page, about, *described, written, in_row, first)
        if len({mention.thing for mention in mentions}) == 1 and not segment.keys:
            if not is_article or mentions[-1].thing in titled or mentions[0].token - segment.first < _OPENS:
                subject = mentions[-1]
            elif not titled:
                subject = None  # "She married Tom Reed. She died in 1851."
        elif mentions or _opens_another(page, segment):
            subject = None
        if subject is not None and subject.thing not in titled:
            subject = None if segment.keys else subject._replace(strength=subject.strength * _FADING)


def _opens_another(page: ParsedPassage, segment: _Segment) -> bool:
    """True for a line that begins with the name of something else, as an entry of a list does."""
    start = page.starts[segment.first] if segment.first < len(page.starts) else 0
    if not page.text[:start].rstrip(" *-–•#").endswith("\n"):
        return False
    return any(name.kind == "name" and name.first == segment.first for name in page.mentions)


def _ends_name(
    page: ParsedPassage, segment: _Segment, mentions: Sequence[_Mention], token: int, quantity: Quantity
) -> bool:
    """True for a bare number at the end of a name of something else: "Weaver Street 8."."""
    before, after = page.tokens[max(segment.first, token - 2) : token], page.tokens[token + 1 : token + 2]
    if quantity.dimension != "number" or len(before) < 2 or any(not word[0].isupper() for word in before):
        return False
    is_thing = any(mention.token >= token - 2 and mention.token < token for mention in mentions)
    return not is_thing and (not after or not after[0][0].isalnum())


def _in_unit_of_column(page: ParsedPassage, segment: _Segment, token: int, quantity: Quantity) -> tuple[Quantity, str]:
    """A number of a table in the unit that the name of its column ends with ("Load (kg)"), and that unit."""
    key = next((key for key in reversed(segment.keys) if key[1] <= token), None)
    if key is None or quantity.dimension != "number":
        return quantity, ""
    named = _UNIT_BREAK.split(page.text[page.starts[key[0]] : page.starts[key[1]]].lower().rstrip(" :)]"))
    known = measures().units.get(named[-1])
    if known is None or YEAR.fullmatch(page.text, quantity.start, quantity.end):
        return quantity, ""
    return quantity._replace(dimension=known[0], value=round(quantity.value * known[1], 6)), named[-1]


@lru_cache(maxsize=2048)
def _quantities(text: str) -> tuple[Quantity, ...]:
    return tuple(find_quantities(text))


def _segments(page: ParsedPassage) -> Iterator[_Segment]:
    """The sentences and rows of a page, in order. A row begins where the first column of its table comes again."""
    keys = [tuple(bisect_left(page.starts, end) for end in match.span("key")) for match in _KEY.finditer(page.text)]
    starts = {i for i, (a, b) in enumerate(pairwise(page.sentence_of), 1) if a != b}
    for begin, end in keys:
        if page.tokens[begin:end] == page.tokens[slice(*keys[0])]:  # by stems, "ordered" would be "order"
            starts.add(begin)
    for first, last in pairwise([*sorted({0, *starts}), len(page.tokens)]):
        inside = tuple((begin, end) for begin, end in keys if first <= begin < last)
        yield _Segment(first, last, inside if len(inside) > 1 else ())


def _mentions(page: ParsedPassage, segment: _Segment, name: Stems, thing: int, other: Stems) -> Iterator[_Mention]:
    """The mentions of a thing: all words of its name close together; if there are none, a word that only this thing
    has, unless it belongs to a longer name."""
    stems, tokens, wanted = page.stems, page.tokens, set(name)
    indices = [i for i in range(segment.first, segment.last) if stems[i] in wanted]
    whole = [i for i in indices if wanted <= set(stems[i : min(i + len(name) + 1, segment.last)])]
    if whole:
        for i in whole:
            if stems[i] == name[0] or len(whole) == 1:
                before = tokens[i - 1] if i > segment.first else ""
                is_longer = before[:1].isupper() and stem_weight(stems[i - 1]) > 0 and stems[i - 1] not in other
                yield _Mention(i, thing, _PARTLY if is_longer else _NAMED)  # "Little Skua"
        return
    for i in indices:
        beside = [j for j in (i - 1, i + 1) if segment.first <= j < segment.last and stems[j] not in wanted]
        is_longer = any(tokens[j][0].isupper() and stem_weight(stems[j]) for j in beside)
        is_own = len(name) > 1 and stems[i] not in other and len(stems[i]) > 2
        if is_own and tokens[i].isalpha() and tokens[i][0].isupper() and not is_longer:
            yield _Mention(i, thing, _PARTLY)


def _owner(
    page: ParsedPassage,
    segment: _Segment,
    mentions: Sequence[_Mention],
    token: int,
    end: int,
    quantities: Sequence[int],
) -> _Mention | None:
    """The mention of the thing that a quantity is said of: the one before it, or after it if quantities come first."""
    before = [mention for mention in mentions if mention.token <= token]
    after = [mention for mention in mentions if mention.token > token]
    if after and after[0].token == end and not segment.keys:
        return after[0]  # "5 bats"
    if before and not after and "respectively" in page.tokens[segment.first : segment.last]:
        listed = [other for other in quantities if other > before[-1].token]
        return before[listed.index(token) % len(before)]
    opens = after and quantities[0] < mentions[0].token and quantities[0] - segment.first < _LABEL
    if after and (not before or (opens and not segment.keys)):
        return after[0]  # "In 2017 Tomas joined, in 2019 Priya"
    return before[-1] if before else None


def _names_between(page: ParsedPassage, mention: _Mention, token: int) -> int:
    """The number of other names between a mention and a quantity: it may be said of one of them."""
    names = (name for name in page.mentions if name.kind == "name")
    return sum(mention.token + 1 < name.first < token for name in names)


def _described(
    page: ParsedPassage, segment: _Segment, token: int, quantity: Quantity, measure: Mapping[str, float]
) -> tuple[float, frozenset[str]]:
    """The closeness of the measure's words to a quantity, 0 to 1, and the stems that introduce it: the name of its
    column, else the words before it and the one after it."""
    end = bisect_left(page.starts, quantity.end)
    before = (max(segment.first, token - _LABEL), token)
    first, last = next((key for key in reversed(segment.keys) if key[1] <= token), before)
    label = {*page.stems[first:last], *(() if segment.keys else page.stems[end : min(end + 1, segment.last)])}
    near: dict[str, float] = {}
    for i in range(segment.first, segment.last):
        if weight := measure.get(page.stems[i]):
            column = next((key for key in segment.keys if key[0] <= i < key[1]), None)
            if column not in (None, (first, last)):
                continue  # the name of another column
            gap = 0 if column else max(token - i, i - end + 1, 1) - 1
            near[page.stems[i]] = max(near.get(page.stems[i], 0.0), weight * math.exp(-gap / _REACH))
    return min(1.0, sum(sorted(near.values())[-_MAX_WORDS:])), frozenset(label)
