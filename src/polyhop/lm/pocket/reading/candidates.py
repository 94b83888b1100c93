"""Reading: every mention of the given pages is a candidate answer, weighed by how it fits the question.

The weights are a small linear model, fitted on questions with known answers
(``benchmarks/pocket_fit.py``); each feature is a reason a person could give.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from polyhop.common.text import fold
from polyhop.lm.pocket.encoder.cache import MOST_LOOKED_AT, looks
from polyhop.lm.pocket.encoder.outputs import Look
from polyhop.lm.pocket.reading import blends
from polyhop.lm.pocket.reading.countries import COUNTRIES, PEOPLES, REGIONS
from polyhop.lm.pocket.reading.mentions import Mention
from polyhop.lm.pocket.reading.passage import Page
from polyhop.lm.pocket.reading.question import Asked
from polyhop.lm.pocket.reading.weights import BY_TYPE, FIT, WEIGHTS

# The word right before a candidate that speaks for a type: "by <person>", "in <place>".
_BEFORE: dict[str, frozenset[str]] = {
    "person": frozenset("by with and actor actress singer director author king queen president to".split()),
    "place": frozenset("in at near from of to".split()),
    "country": frozenset("in from of a an".split()),
    "group": frozenset("by for at the with of from".split()),
    "work": frozenset("film album song novel book series show in".split()),
    "date": frozenset("on in since from".split()),
    "year": frozenset("in since".split()),
    "number": frozenset("of about over with approximately around".split()),
}
_REACH = 8.0  # tokens over which nearness to a matched word fades
_MOST_PAGES = 40
_NO_FIT = -3.0


class Ranked(NamedTuple):
    """A candidate answer with its score (log-odds against the other candidates) and where it stands."""

    text: str
    score: float
    page: Page
    mention: Mention


@dataclass(slots=True)
class Sight:
    """What the question matches in one page."""

    matches: list[tuple[int, float, float]] = field(default_factory=list)
    by_sentence: dict[int, float] = field(default_factory=dict)
    best_sentence: float = 0.0
    coverage: float = 0.0
    title_in_question: bool = False
    mentioned: bool = False


@dataclass(slots=True)
class View:
    """The question over all given pages: what each page matches, and how the pages point to each other."""

    asked: Asked
    pages: Sequence[Page]
    sights: list[Sight]
    counts: Counter[str]
    titles: dict[str, list[Page]]
    question: str
    best_sentence: float
    best_page: float


def view(asked: Asked, pages: Sequence[Page]) -> View:
    """Look at the pages through the question."""
    pages = pages[:_MOST_PAGES]
    question = f" {fold(asked.text)} "
    titles: dict[str, list[Page]] = {}
    counts: Counter[str] = Counter()
    for page in pages:
        titles.setdefault(page.folded_name, []).append(page)
        counts.update({mention.folded for mention in page.mentions})
    sights = [_sight(asked, page, question, pages) for page in pages]
    best_sentence = max((sight.best_sentence for sight in sights), default=0.0)
    best_page = max((sight.coverage for sight in sights), default=0.0)
    return View(asked, pages, sights, counts, titles, question, best_sentence, best_page)


def _sight(asked: Asked, page: Page, question: str, pages: Sequence[Page]) -> Sight:
    sight = Sight()
    heaviest: dict[int, dict[str, float]] = {}
    seen = 0.0
    for root, value in asked.terms.items():
        places = page.positions.get(root, ())
        focus = asked.focus[root]
        for place in places[:12]:
            sight.matches.append((place, value, focus))
            heaviest.setdefault(page.sentence_of[place], {})[root] = value
        if places or root in page.title_roots:
            seen += value
    subject = sum(asked.terms.get(root, 0.0) for root in page.title_roots)
    sight.coverage = seen / asked.total
    sight.by_sentence = {s: (sum(found.values()) + 0.5 * subject) / asked.total for s, found in heaviest.items()}
    sight.best_sentence = max(sight.by_sentence.values(), default=0.0)
    sight.title_in_question = named_in(page, question)
    sight.mentioned = any(other is not page and mentions(other, page) for other in pages)
    sight.matches.sort()
    return sight


def named_in(page: Page, folded: str) -> bool:
    """Whether a page's subject is named in a text (given folded, with a space at each end)."""
    name = page.folded_name
    place = folded.find(name) if name else -1
    while place >= 0:
        end = place + len(name)
        if not (folded[place - 1 : place].isalnum() or folded[end : end + 1].isalnum()):
            return True
        place = folded.find(name, place + 1)
    return False


def mentions(page: Page, other: Page) -> bool:
    """Whether a page's text names another page's subject, or links to it."""
    return other.title in page.links or (bool(other.name_roots) and named_in(other, page.folded))


def features(seen: View, at: int, mention: Mention) -> dict[str, float]:
    """The reasons for and against a mention of page ``at``, by name."""
    asked, page, sight = seen.asked, seen.pages[at], seen.sights[at]
    before = page.tokens[mention.first - 1].lower() if mention.first else ""
    after = page.tokens[mention.last] if mention.last < len(page.tokens) else ""
    sentence = sight.by_sentence.get(mention.sentence, 0.0)
    titled = seen.titles.get(mention.folded)
    return {
        **_nearness(asked, page, sight, mention),
        **_identity(seen, page, mention),
        **_head_features(asked, page, mention, titled),
        "sentence": sentence,
        "best sentence": float(sentence >= seen.best_sentence > 0),
        "page's best sentence": float(sentence >= sight.best_sentence > 0),
        "page": sight.coverage,
        "best page": float(sight.coverage >= seen.best_page),
        "page in question": float(sight.title_in_question),
        "page is reached": float(sight.mentioned and not sight.title_in_question),
        "first sentence": float(mention.sentence == 0),
        "late": math.log1p(mention.sentence),
        "is a title": float(titled is not None),
        "cue before": float(before in _BEFORE.get(asked.type, ())),
        "comma before": float(before == ","),
        "comma after": float(after == ","),
        "in parenthesis": float(before == "("),
        "of after": float(after == "of"),
        "quoted": float(before == '"'),
        "long": math.log(mention.last - mention.first),
    }


def _nearness(asked: Asked, page: Page, sight: Sight, mention: Mention) -> dict[str, float]:
    """How close the question's words stand in the sentence: all, those near the question word, those right beside."""
    near = focused = beside = 0.0
    for place, value, focus in sight.matches:
        gap = mention.first - place if place < mention.first else place - mention.last + 1
        if gap > 0 and page.sentence_of[place] == mention.sentence:
            fading = math.exp(-gap / _REACH)
            near += value * fading
            focused += focus * fading
            beside += focus if gap <= 2 else 0.0
    return {"near": near / asked.total, "focused": focused / asked.total, "beside": beside / asked.total}


def _identity(seen: View, page: Page, mention: Mention) -> dict[str, float]:
    """Whether the mention only repeats the question or the page's title, and how many other pages have it."""
    roots, text = mention.roots, mention.folded
    own = text == page.folded_name
    return {
        "repeats question": sum(root in seen.asked.terms for root in roots) / len(roots) if roots else 1.0,
        "is in question": float(f" {text}" in seen.question),
        "is own title": float(own),
        "part of title": float(bool(roots) and page.title_roots.issuperset(roots) and not own),
        "known elsewhere": min(3.0, seen.counts[text] - 1.0),
    }


def _head_features(asked: Asked, page: Page, mention: Mention, titled: list[Page] | None) -> dict[str, float]:
    head = asked.head
    if head is None:
        return {}
    before = page.roots[max(0, mention.first - 4) : mention.first]
    after = page.roots[mention.last : mention.last + 3]
    return {
        "head inside": float(head in page.roots[mention.first : mention.last] and mention.last - mention.first > 1),
        "head before": float(head in before),
        "head after": float(head in after),
        "title of the class": float(any(head in p.classes for p in titled or ())),
    }


def kind_of(mention: Mention) -> str:
    """The kind of a mention as the table of fits knows it: countries and other places apart from other names.

    >>> kind_of(Mention("France", "name", 0, 1, 0, ("france",), "france"))
    'country'
    """
    lowered = mention.text.lower()
    if mention.kind == "name":
        if lowered in COUNTRIES:
            return "country"
        if lowered in REGIONS:
            return "region"
        if mention.roots and len(mention.roots) == 1:
            return "short name"
    if mention.kind == "phrase" and lowered in PEOPLES:
        return "people"
    return mention.kind


def score(asked: Asked, mention: Mention, reasons: dict[str, float]) -> float:
    """The weighted sum of the reasons and of how the mention's kind fits the type asked for."""
    extra = BY_TYPE.get(asked.type, {})
    fit = FIT.get(asked.type, {}).get(kind_of(mention), _NO_FIT)
    return fit + sum((WEIGHTS[name] + extra.get(name, 0.0)) * value for name, value in reasons.items())


def rank(asked: Asked, pages: Sequence[Page], most: int = 20) -> list[Ranked]:
    """Candidate answers of the pages, best first, each text once; [] where there is none. Of few pages, what the
    encoder would read counts too.

    >>> from polyhop.lm.pocket.reading.passage import open_page
    >>> from polyhop.lm.pocket.reading.question import ask
    >>> from polyhop.types import Passage
    >>> page = open_page(Passage("1", "Orvil", "Orvil is a town in Norland. Its mayor is Ida Kuhn since 1990."))
    >>> rank(ask("Who is the mayor of Orvil?"), [page])[0].text
    'Ida Kuhn'
    """
    seen = view(asked, pages)
    best: dict[str, Ranked] = {}
    for at, page in enumerate(seen.pages):
        for mention in page.mentions:
            value = score(asked, mention, features(seen, at, mention))
            if mention.folded not in best or value > best[mention.folded].score:
                best[mention.folded] = Ranked(mention.text, value, page, mention)
    if 0 < len(pages) <= MOST_LOOKED_AT:
        best = _blended(best, looks(asked.text, [pages])[0], pages)
    return sorted(best.values(), key=lambda ranked: -ranked.score)[:most]


def _blended(best: dict[str, Ranked], look: Look, pages: Sequence[Page]) -> dict[str, Ranked]:
    """The candidates, weighed by how likely the encoder finds each too; its own stretches are candidates."""
    own, seen, floor = blends.READING
    least = min((ranked.score for ranked in best.values()), default=0.0)
    shares: dict[str, float] = {}
    for stretch in look.spans:
        page = pages[stretch.passage]
        text = stretch.text(pages)
        if (key := fold(text)) not in best and not stretch.in_title and page.tokens:
            best[key] = Ranked(text, least, page, page.mention_at(stretch.start, stretch.end))
        shares[key] = max(stretch.log_share, shares.get(key, floor))
    return {
        key: ranked._replace(score=own * ranked.score + seen * max(floor, shares.get(key, floor)))
        for key, ranked in best.items()
    }
