"""Candidate answers: every mention of the pages, scored by how well it fits the question.

The score is a small linear model, fitted on questions with known answers (``benchmarks/pocket_fit.py``); each feature
is a reason that a person could give.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from polyhop.common.text import fold
from polyhop.lm.pocket.encoder.cache import MAX_PASSAGES, predict
from polyhop.lm.pocket.encoder.inputs import EncoderOutput
from polyhop.lm.pocket.reading.passage import Mention, ParsedPassage
from polyhop.lm.pocket.reading.question import ParsedQuestion
from polyhop.lm.pocket.reading.tables import SpanBlend, blends, countries, weights

# The words right before a candidate that suggest its type: "by <person>", "in <place>".
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
_REACH = 8.0  # tokens over which the weight of a matched word decays
_MAX_PAGES = 40
_NO_FIT = -3.0
_NOT_IN_WORD = re.compile(r"[\W_]")
_REST_OF_NUMBER = re.compile(r"(?<=\b[Nn]o)\. \d[\w-]*")  # "Roller no. 17", of which "Roller no" tells nothing
_ISO_DATE = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")


class Candidate(NamedTuple):
    """A candidate answer with its score (log-odds against the other candidates), its page and its mention."""

    text: str
    score: float
    page: ParsedPassage
    mention: Mention


@dataclass(slots=True)
class PageMatch:
    """The matches of a question in one page. ``words``: the token, the weight and the focus of each matched word."""

    words: list[tuple[int, float, float]] = field(default_factory=list)
    by_sentence: dict[int, float] = field(default_factory=dict)
    best_sentence: float = 0.0
    coverage: float = 0.0
    title_in_question: bool = False
    mentioned: bool = False


@dataclass(slots=True)
class PageMatches:
    """The matches of a question in all pages, and how often each mention and each title occurs."""

    parsed: ParsedQuestion
    pages: Sequence[ParsedPassage]
    by_page: list[PageMatch]
    counts: Counter[str]
    titles: dict[str, list[ParsedPassage]]
    question: str
    best_sentence: float
    best_page: float


def match_pages(parsed: ParsedQuestion, pages: Sequence[ParsedPassage]) -> PageMatches:
    """Match a question with pages."""
    pages = pages[:_MAX_PAGES]
    question = f" {fold(parsed.text)} "
    titles: dict[str, list[ParsedPassage]] = {}
    counts: Counter[str] = Counter()
    for page in pages:
        titles.setdefault(page.folded_name, []).append(page)
        counts.update({mention.folded for mention in page.mentions})
    by_page = [_match(parsed, page, question, pages) for page in pages]
    best_sentence = max((match.best_sentence for match in by_page), default=0.0)
    best_page = max((match.coverage for match in by_page), default=0.0)
    return PageMatches(parsed, pages, by_page, counts, titles, question, best_sentence, best_page)


def _match(parsed: ParsedQuestion, page: ParsedPassage, question: str, pages: Sequence[ParsedPassage]) -> PageMatch:
    match = PageMatch()
    by_sentence: dict[int, dict[str, float]] = {}
    found = 0.0
    for stem, value in parsed.terms.items():
        positions = page.positions.get(stem, ())
        focus = parsed.focus[stem]
        for i in positions[:12]:
            match.words.append((i, value, focus))
            by_sentence.setdefault(page.sentence_of[i], {})[stem] = value
        if positions or stem in page.title_stems:
            found += value
    subject = sum(parsed.terms.get(stem, 0.0) for stem in page.title_stems)
    match.coverage = found / parsed.total
    match.by_sentence = {s: (sum(terms.values()) + 0.5 * subject) / parsed.total for s, terms in by_sentence.items()}
    match.best_sentence = max(match.by_sentence.values(), default=0.0)
    match.title_in_question = named_in(page, question)
    match.mentioned = any(other is not page and names_page(other, page) for other in pages)
    match.words.sort()
    return match


def named_in(page: ParsedPassage, folded: str) -> bool:
    """True if a text (folded, with a space at each end) names the subject of a page."""
    name = page.folded_name
    start = folded.find(name) if name else -1
    while start >= 0:
        end = start + len(name)
        if not (folded[start - 1 : start].isalnum() or folded[end : end + 1].isalnum()):
            return True
        end_of_word = _NOT_IN_WORD.search(folded, start)  # no name begins within a word
        start = folded.find(name, end_of_word.end()) if end_of_word else -1
    return False


def names_page(page: ParsedPassage, other: ParsedPassage) -> bool:
    """True if a page names the subject of another page, or links to it."""
    return other.title in page.links or (bool(other.name_stems) and named_in(other, page.folded))


def candidate_features(matches: PageMatches, i: int, mention: Mention) -> dict[str, float]:
    """The features of a mention in page ``i``, by name: reasons for and against it."""
    parsed, page, match = matches.parsed, matches.pages[i], matches.by_page[i]
    before = page.tokens[mention.first - 1].lower() if mention.first else ""
    after = page.tokens[mention.last] if mention.last < len(page.tokens) else ""
    sentence = match.by_sentence.get(mention.sentence, 0.0)
    titled = matches.titles.get(mention.folded)
    return {
        **_nearness(parsed, page, match, mention),
        **_identity(matches, page, mention),
        **_head_features(parsed, page, mention, titled),
        "sentence": sentence,
        "best sentence": float(sentence >= matches.best_sentence > 0),
        "page's best sentence": float(sentence >= match.best_sentence > 0),
        "page": match.coverage,
        "best page": float(match.coverage >= matches.best_page),
        "page in question": float(match.title_in_question),
        "page is reached": float(match.mentioned and not match.title_in_question),
        "first sentence": float(mention.sentence == 0),
        "late": math.log1p(mention.sentence),
        "is a title": float(titled is not None),
        "cue before": float(before in _BEFORE.get(parsed.type, ())),
        "comma before": float(before == ","),
        "comma after": float(after == ","),
        "in parenthesis": float(before == "("),
        "of after": float(after == "of"),
        "quoted": float(before == '"'),
        "long": math.log(mention.last - mention.first),
    }


def _nearness(parsed: ParsedQuestion, page: ParsedPassage, match: PageMatch, mention: Mention) -> dict[str, float]:
    """The question's words in the sentence, by closeness: all, those near the question word, those right beside."""
    near = focused = beside = 0.0
    for i, value, focus in match.words:
        gap = mention.first - i if i < mention.first else i - mention.last + 1
        if gap > 0 and page.sentence_of[i] == mention.sentence:
            decay = math.exp(-gap / _REACH)
            near += value * decay
            focused += focus * decay
            beside += focus if gap <= 2 else 0.0
    return {"near": near / parsed.total, "focused": focused / parsed.total, "beside": beside / parsed.total}


def _identity(matches: PageMatches, page: ParsedPassage, mention: Mention) -> dict[str, float]:
    """Features of a mention that repeats the question or the title of its page, or that other pages contain."""
    stems, text = mention.stems, mention.folded
    own = text == page.folded_name
    return {
        "repeats question": sum(stem in matches.parsed.terms for stem in stems) / len(stems) if stems else 1.0,
        "is in question": float(f" {text}" in matches.question),
        "is own title": float(own),
        "part of title": float(bool(stems) and page.title_stems.issuperset(stems) and not own),
        "known elsewhere": min(3.0, matches.counts[text] - 1.0),
    }


def _head_features(
    parsed: ParsedQuestion, page: ParsedPassage, mention: Mention, titled: list[ParsedPassage] | None
) -> dict[str, float]:
    head = parsed.head
    if head is None:
        return {}
    before = page.stems[max(0, mention.first - 4) : mention.first]
    after = page.stems[mention.last : mention.last + 3]
    return {
        "head inside": float(head in page.stems[mention.first : mention.last] and mention.last - mention.first > 1),
        "head before": float(head in before),
        "head after": float(head in after),
        "title of the class": float(any(head in p.classes for p in titled or ())),
    }


def kind_of(mention: Mention) -> str:
    """The kind of a mention in ``kind_fit``, where countries and regions are apart from other names.

    >>> kind_of(Mention("France", "name", 0, 1, 0, ("france",), "france"))
    'country'
    """
    lowered, table = mention.text.lower(), countries()
    if mention.kind == "name":
        if lowered in table.names:
            return "country"
        if lowered in table.regions:
            return "region"
        if mention.stems and len(mention.stems) == 1:
            return "short name"
    if mention.kind == "phrase" and lowered in table.peoples:
        return "people"
    return mention.kind


def rank_candidates(
    parsed: ParsedQuestion, pages: Sequence[ParsedPassage], max_candidates: int = 20, *, of_documents: bool = False
) -> list[Candidate]:
    """Rank the candidate answers in pages, best first, each text once. For few pages, the encoder's prediction counts
    too. ``of_documents``: the pages are parts of files.

    >>> from polyhop.lm.pocket.reading.passage import parse_passage
    >>> from polyhop.lm.pocket.reading.question import parse_question
    >>> from polyhop.types import Passage
    >>> page = parse_passage(Passage("1", "Orvil", "Orvil is a town in Norland. Its mayor is Ida Kuhn since 1990."))
    >>> rank_candidates(parse_question("Who is the mayor of Orvil?"), [page])[0].text
    'Ida Kuhn'
    """
    matches, model = match_pages(parsed, pages), weights()
    extra, fit = model.candidate_by_type.get(parsed.type, {}), model.kind_fit.get(parsed.type, {})
    table = {name: weight + extra.get(name, 0.0) for name, weight in model.candidate.items()}
    best: dict[str, Candidate] = {}
    for i, page in enumerate(matches.pages):
        for mention in page.mentions:
            features = candidate_features(matches, i, mention)
            weighted = [table[name] * value for name, value in features.items() if value]
            value = fit.get(kind_of(mention), _NO_FIT) + sum(weighted)
            if mention.folded not in best or value > best[mention.folded].score:
                best[mention.folded] = Candidate(mention.text, value, page, mention)
    if 0 < len(pages) <= MAX_PASSAGES:
        blend = blends().document_reading if of_documents else blends().reading
        best = _blended(best, predict(parsed.text, [pages])[0], pages, blend)
    return sorted(best.values(), key=lambda candidate: -candidate.score)[:max_candidates]


def _blended(
    best: dict[str, Candidate], output: EncoderOutput, pages: Sequence[ParsedPassage], blend: SpanBlend
) -> dict[str, Candidate]:
    """The candidates with the encoder's log-probabilities in their scores; its own spans are candidates too."""
    rules, encoder, floor = blend
    lowest = min((candidate.score for candidate in best.values()), default=0.0)
    logs: dict[str, float] = {}
    for span in output.spans:
        page = pages[span.passage]
        if not span.in_title:
            if _begins_in_date(page.text, span.start):
                continue
            if numbered := _REST_OF_NUMBER.match(page.text, span.end):
                span = span._replace(end=numbered.end())
        text = span.text(pages)
        if (key := fold(text)) not in best and not span.in_title and page.tokens:
            best[key] = Candidate(text, lowest, page, page.mention_at(span.start, span.end))
        logs[key] = max(span.log_probability, logs.get(key, floor))
    return {
        key: Candidate(text, rules * score + encoder * max(floor, logs.get(key, floor)), page, mention)
        for key, (text, score, page, mention) in best.items()
    }


def _begins_in_date(text: str, start: int) -> bool:
    """True for a part of a date such as 2015-06-12 that is not its year."""
    near = _ISO_DATE.finditer(text, max(0, start - len("2015-06-")), start + len("06-12"))
    return any(found.start() < start < found.end() for found in near)
