"""A passage taken apart once: its words, mentions and subject. Kept for reuse, bounded."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from polyhop.common.text import STOP_WORDS, bare_title, fold
from polyhop.lm.pocket.reading.mentions import Mention, find_mentions
from polyhop.lm.pocket.reading.text import Wording, content_roots, take_apart, weight
from polyhop.types import Passage

MOST_CHARACTERS = 8000  # of a passage that are read: a page of a web crawl must not take seconds
PAGES_KEPT = 1024
_LEAD = 80  # tokens in which a page says what its subject is
_LONGEST_CLASS = 24  # tokens
_CLASS_ENDS = frozenset(". ; who which that by from starring located".split())


@dataclass(slots=True, eq=False)
class Page(Wording):
    """A passage taken apart.

    ``positions``: the tokens of each telling stem; ``folded``: the text without case and accents, a space at each end;
    ``name``: the title without its parenthesis; ``classes``: the stems of what its subject is; ``memory``: what was
    once worked out about it.
    """

    id: str
    title: str
    positions: dict[str, list[int]]
    mentions: list[Mention]
    name: str
    name_roots: tuple[str, ...]
    title_roots: frozenset[str]
    links: tuple[str, ...]
    folded: str
    folded_name: str
    classes: frozenset[str] = frozenset()
    memory: dict[str, object] = field(default_factory=dict)

    def mentions_from(self, character: int) -> Iterator[Mention]:
        """The mentions that begin at or after a character, in order of place."""
        token = bisect_left(self.starts, character)
        place = bisect_left(self.mentions, token, key=lambda mention: mention.first)
        return islice(self.mentions, place, None)

    def mention_at(self, start: int, end: int) -> Mention:
        """The stretch between two characters as a mention of no kind."""
        first = max(0, bisect_right(self.starts, start) - 1)
        last = max(first + 1, bisect_left(self.starts, end))
        text = self.text[start:end]
        return Mention(text, "phrase", first, last, self.sentence_of[first], tuple(content_roots(text)), fold(text))

    def sentence_at(self, character: int) -> int:
        """The number of the sentence a character stands in."""
        place = max(0, bisect_right(self.starts, character) - 1)
        return self.sentence_of[place] if self.sentence_of else 0

    def sentence(self, number: int) -> str:
        """The text of one sentence."""
        inside = [i for i, s in enumerate(self.sentence_of) if s == number]
        if not inside:
            return ""
        return self.text[self.starts[inside[0]] : self.starts[inside[-1]] + len(self.tokens[inside[-1]])]


def open_page(passage: Passage) -> Page:
    """The passage taken apart; the same passage again costs nothing (at most ``PAGES_KEPT`` are kept).

    >>> page = open_page(Passage("1", "Ada Byrne", "Ada Byrne (born 4 May 1970) is an Irish painter in Cork."))
    >>> [(m.kind, m.text) for m in page.mentions if m.kind != "phrase"]
    [('name', 'Ada Byrne'), ('date', '4 May 1970'), ('people', 'Irish'), ('name', 'Cork')]
    """
    return _page(passage.id, passage.title, passage.text, tuple(passage.links))


@lru_cache(maxsize=PAGES_KEPT)
def _page(id_: str, title: str, text: str, links: tuple[str, ...]) -> Page:
    wording = take_apart(text[:MOST_CHARACTERS])
    positions: dict[str, list[int]] = defaultdict(list)
    for place, root in enumerate(wording.roots):
        if weight(root):
            positions[root].append(place)
    name = bare_title(title)
    return Page(
        text=wording.text,
        tokens=wording.tokens,
        starts=wording.starts,
        roots=wording.roots,
        sentence_of=wording.sentence_of,
        id=id_,
        title=title,
        positions=dict(positions),
        mentions=find_mentions(wording),
        name=name,
        name_roots=content_roots(name),
        title_roots=frozenset(content_roots(title)),
        links=links,
        folded=f" {fold(wording.text)} ",
        folded_name=fold(name),
        classes=_classes(wording),
    )


def _classes(wording: Wording) -> frozenset[str]:
    """What the subject is: the telling stems after the first "is a", up to the next clause."""
    being = next((at for at, token in enumerate(wording.tokens[:_LEAD]) if token in ("is", "was", "are", "were")), None)
    if being is None:
        return frozenset()
    found = []
    for at in range(being + 1, min(being + 1 + _LONGEST_CLASS, len(wording.tokens))):
        if wording.tokens[at] in _CLASS_ENDS:
            break
        found.append(wording.roots[at])
    return frozenset(root for root in found if root not in STOP_WORDS)
