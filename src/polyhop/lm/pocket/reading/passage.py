"""Parsing a passage: its tokens, its mentions (every span that could be an answer) and its subject. Cached."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from polyhop.common.text import STOP_WORDS, bare_title, fold
from polyhop.lm.pocket.reading.tables import countries, words
from polyhop.lm.pocket.reading.text import (
    QUOTES,
    TokenizedText,
    content_stems,
    find_dates,
    find_numbers,
    is_short,
    stem_weight,
    tokenize,
)
from polyhop.types import Passage

MAX_CHARACTERS = 8000  # read of a passage: a page of a web crawl must not take seconds
MAX_CACHED = 1024  # parsed passages
_LEAD = 80  # tokens in which a page defines its subject
_MAX_CLASS = 24  # tokens of that definition
_CLASS_ENDS = frozenset(". ; who which that by from starring located".split())
_MAX_QUOTED = 9  # tokens of a quoted title
_MAX_PHRASE = 4  # tokens of a phrase that is no name
# Small words that a name may contain.
_NAME_JOINERS = frozenset("of the de la le du des di da del della von van der den zu el al & y e bin ibn".split())


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of a text that could be an answer: its tokens ``first:last``, the number of its sentence, and its kind:
    name, quoted, people, date, year, number or phrase."""

    text: str
    kind: str
    first: int
    last: int
    sentence: int
    stems: tuple[str, ...]
    folded: str


class FactValue(NamedTuple):
    """The value of a fact as the passage writes it, and the number of its sentence."""

    text: str
    sentence: int


@dataclass(slots=True, eq=False)
class ParsedPassage(TokenizedText):
    """A parsed passage.

    ``positions``: the tokens of each stem that has a weight; ``folded``: the text without case and accents, a space at
    each end; ``name``: the title without its parenthesis; ``classes``: the stems of the words that define its subject;
    ``facts``: values found so far, by relation.
    """

    id: str
    title: str
    positions: dict[str, list[int]]
    mentions: list[Mention]
    name: str
    name_stems: tuple[str, ...]
    title_stems: frozenset[str]
    links: tuple[str, ...]
    folded: str
    folded_name: str
    classes: frozenset[str] = frozenset()
    facts: dict[str, list[FactValue]] = field(default_factory=dict)

    @property
    def folded_with_title(self) -> str:
        """The title and the text without case and accents."""
        return f"{fold(self.title)} {self.folded}"

    def has(self, stem: str) -> bool:
        """True if the text or the title contains a stem."""
        return stem in self.positions or stem in self.title_stems

    def mentions_from(self, character: int) -> Iterator[Mention]:
        """The mentions that begin at or after a character, in order."""
        token = bisect_left(self.starts, character)
        first = bisect_left(self.mentions, token, key=lambda mention: mention.first)
        return islice(self.mentions, first, None)

    def mention_at(self, start: int, end: int) -> Mention:
        """The text between two characters as a mention of kind "phrase"."""
        first = max(0, bisect_right(self.starts, start) - 1)
        last = max(first + 1, bisect_left(self.starts, end))
        text = self.text[start:end]
        return Mention(text, "phrase", first, last, self.sentence_of[first], tuple(content_stems(text)), fold(text))

    def sentence_at(self, character: int) -> int:
        """The number of the sentence that contains a character."""
        token = max(0, bisect_right(self.starts, character) - 1)
        return self.sentence_of[token] if self.sentence_of else 0

    def sentence(self, number: int) -> str:
        """The text of one sentence."""
        inside = [i for i, s in enumerate(self.sentence_of) if s == number]
        if not inside:
            return ""
        return self.text[self.starts[inside[0]] : self.starts[inside[-1]] + len(self.tokens[inside[-1]])]


def share_of(terms: Mapping[str, float], pages: Sequence[ParsedPassage]) -> float:
    """The share of weighted terms that pages contain, 0 to 1."""
    contained = sum(value for stem, value in terms.items() if any(page.has(stem) for page in pages))
    return contained / (sum(terms.values()) or 1.0)


def parse_passage(passage: Passage) -> ParsedPassage:
    """Parse a passage. The latest ``MAX_CACHED`` are cached.

    >>> page = parse_passage(Passage("1", "Ada Byrne", "Ada Byrne (born 4 May 1970) is an Irish painter in Cork."))
    >>> [(m.kind, m.text) for m in page.mentions if m.kind != "phrase"]
    [('name', 'Ada Byrne'), ('date', '4 May 1970'), ('people', 'Irish'), ('name', 'Cork')]
    """
    return _parse(passage.id, passage.title, passage.text, tuple(passage.links))


@lru_cache(maxsize=MAX_CACHED)
def _parse(id_: str, title: str, text: str, links: tuple[str, ...]) -> ParsedPassage:
    tokenized = tokenize(text[:MAX_CHARACTERS])
    positions: dict[str, list[int]] = defaultdict(list)
    for i, stem in enumerate(tokenized.stems):
        if stem_weight(stem):
            positions[stem].append(i)
    name = bare_title(title)
    return ParsedPassage(
        text=tokenized.text,
        tokens=tokenized.tokens,
        starts=tokenized.starts,
        stems=tokenized.stems,
        sentence_of=tokenized.sentence_of,
        id=id_,
        title=title,
        positions=dict(positions),
        mentions=find_mentions(tokenized),
        name=name,
        name_stems=content_stems(name),
        title_stems=frozenset(content_stems(title)),
        links=links,
        folded=f" {fold(tokenized.text)} ",
        folded_name=fold(name),
        classes=_classes(tokenized),
    )


def _classes(tokenized: TokenizedText) -> frozenset[str]:
    """The stems that define the subject: those after the first "is a", up to the next clause."""
    being = next((i for i, token in enumerate(tokenized.tokens[:_LEAD]) if token in ("is", "was", "are", "were")), None)
    if being is None:
        return frozenset()
    found = []
    for i in range(being + 1, min(being + 1 + _MAX_CLASS, len(tokenized.tokens))):
        if tokenized.tokens[i] in _CLASS_ENDS:
            break
        found.append(tokenized.stems[i])
    return frozenset(stem for stem in found if stem not in STOP_WORDS)


# --- mentions ---------------------------------------------------------------------------------------------------------


def find_mentions(tokenized: TokenizedText) -> list[Mention]:
    """Find all mentions in a text, in order. A date is no number, and a word belongs to one name or phrase."""
    found: list[Mention] = []
    taken: set[int] = set()

    def add(first: int, last: int, kind: str) -> None:
        start, end = tokenized.starts[first], tokenized.starts[last - 1] + len(tokenized.tokens[last - 1])
        stems = tuple(stem for stem in tokenized.stems[first:last] if stem_weight(stem))
        text = tokenized.text[start:end]
        found.append(Mention(text, kind, first, last, tokenized.sentence_of[first], stems, fold(text)))

    for first, last, kind in _values(tokenized):
        if first not in taken:
            add(first, last, kind)
            taken.update(range(first, last))
    for first, last in _quoted(tokenized.tokens):
        add(first, last, "quoted")
    for first, last in _capital_runs(tokenized, taken):
        cut = _people_end(tokenized.tokens, first, last)
        if cut > first:
            add(first, cut, "people")
        if cut < last:
            add(cut, last, "name")
        taken.update(range(first, last))
    for first, last in _phrases(tokenized, taken):
        add(first, last, "phrase")
    return sorted(found, key=lambda mention: (mention.first, -mention.last))


def _values(tokenized: TokenizedText) -> list[tuple[int, int, str]]:
    """The tokens and kind of each date, then of each number."""
    token_at = {start: i for i, start in enumerate(tokenized.starts)}
    spans = []
    for value in (*find_dates(tokenized.text), *find_numbers(tokenized.text)):
        first = token_at.get(value.start)
        if first is None:
            continue
        last = first
        while last < len(tokenized.tokens) and tokenized.starts[last] < value.end:
            last += 1
        spans.append((first, last, value.kind))
    return spans


def _people_end(tokens: Sequence[str], first: int, last: int) -> int:
    """The end of the adjective of a people that opens a run of capitalised tokens: "South Korean", "Danish-born"."""
    if " ".join(tokens[first : min(first + 2, last)]).lower() in countries().peoples:
        return min(first + 2, last)
    return first + (tokens[first].lower().partition("-")[0] in countries().peoples)


def _quoted(tokens: Sequence[str]) -> list[tuple[int, int]]:
    spans = []
    opened: int | None = None
    for i, token in enumerate(tokens):
        if token in QUOTES:
            if opened is not None and 0 < i - opened - 1 <= _MAX_QUOTED:
                spans.append((opened + 1, i))
                opened = None
            else:
                opened = i
    return spans


def _capital_runs(tokenized: TokenizedText, taken: set[int]) -> list[tuple[int, int]]:
    """Runs of capitalised tokens, which small words may join, without a stop word in front."""
    runs = []
    tokens, i = tokenized.tokens, 0
    while i < len(tokens):
        if not tokens[i][0].isupper() or i in taken:
            i += 1
            continue
        first, last = i, i + 1
        while (further := _continued(tokenized, last, taken)) and tokenized.sentence_of[
            further - 1
        ] == tokenized.sentence_of[first]:
            last = further
        while first < last and tokens[first].lower() in STOP_WORDS:
            first += 1
        if first < last:
            runs.append((first, last))
        i = last
    return runs


def _continued(tokenized: TokenizedText, last: int, taken: set[int]) -> int | None:
    """The end of a name that continues at token ``last``: with a capital, joining words, the stop of an initial, or a
    number. None if it does not continue."""
    tokens, count = tokenized.tokens, len(tokenized.tokens)
    step = last
    while step < count and step - last < 3 and tokens[step] in _NAME_JOINERS:
        step += 1
    if step < count and step not in taken and (tokens[step][0].isupper() or _is_numeral(tokenized, step)):
        return step + 1
    if last + 1 < count and tokens[last] == "." and is_short(tokens[last - 1]) and tokens[last + 1][0].isupper():
        return last + 2
    return None


def _is_numeral(tokenized: TokenizedText, i: int) -> bool:
    """True for a short number one space after a word: "Big Mill 6"."""
    token, before = tokenized.tokens[i], tokenized.tokens[i - 1]
    return token.isdigit() and len(token) < 4 and tokenized.starts[i] == tokenized.starts[i - 1] + len(before) + 1


def _phrases(tokenized: TokenizedText, taken: set[int]) -> list[tuple[int, int]]:
    """Runs of plain words between stop words, verbs of telling and punctuation; of long runs the last words."""
    spans = []
    verbs = words().phrase_ends
    first: int | None = None
    for i, token in enumerate([*tokenized.tokens, "."]):
        plain = i not in taken and _is_plain(token) and token.lower() not in verbs
        if plain and first is None:
            first = i
        elif not plain and first is not None:
            spans.append((max(first, i - _MAX_PHRASE), i))
            if i - first > 2:
                spans.append((i - 2, i))
            if i - first > 1:
                spans.append((i - 1, i))
            first = None
    return spans


def _is_plain(token: str) -> bool:
    return token[0].isalpha() and token.lower() not in STOP_WORDS
