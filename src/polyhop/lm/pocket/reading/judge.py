"""Judging paths: relevance and sufficiency of a path, its answer, and the answer span of one passage.

Relevance and sufficiency are small logistic models over features that a person could name, fitted by
``benchmarks/pocket_fit.py`` and blended with the encoder's prediction. A third model, of rules alone, tells which paths
the encoder need not read.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from polyhop.common.odds import sigmoid
from polyhop.common.text import find_folded, fold
from polyhop.lm.pocket.reading.answer import PathReading, Solution, as_answer, read_path
from polyhop.lm.pocket.reading.candidates import names_page
from polyhop.lm.pocket.reading.passage import ParsedPassage, share_of
from polyhop.lm.pocket.reading.tables import blends, weights
from polyhop.types import Passage, Span

_MENTIONED_ABOVE = 0.6  # share of the words of a thing in a part of a file that mentions it
_HIGHEST = 7.0  # log-odds by the encoder
FIRST_ABOVE, LATER_ABOVE = -2.2, -2.2
"""Log-odds by rules from which the first passage of a path, or a later one, may be relevant."""


# --- a path -----------------------------------------------------------------------------------------------------------


def relevance_features(reading: PathReading) -> dict[str, float]:
    """The features of the last passage of a path: reasons for it to be relevant."""
    pages, parsed, by_page = reading.pages, reading.parsed, reading.matches.by_page
    last, before = pages[-1], pages[:-1]
    match = by_page[min(len(pages), len(by_page)) - 1]
    linked = any(names_page(page, last) for page in before)
    unknown = ((stem, value) for stem, value in parsed.terms.items() if not any(page.has(stem) for page in before))
    new = sum(value for stem, value in unknown if last.has(stem)) / parsed.total
    folded = last.folded_with_title
    named = [fold(name) for name in parsed.names]
    used = reading.outline.used
    return {
        "one": 1.0,
        "later": float(bool(before)),
        "title in question": float(match.title_in_question),
        "title close to a name": _title_share(reading, last),
        "linked": float(linked),
        "links back": float(any(names_page(last, page) for page in before)),
        "coverage": match.coverage,
        "new": new if before else 0.0,
        "names": sum(name in folded for name in named) / len(named) if named else 0.0,
        "best sentence": max(match.by_sentence.values(), default=0.0),
        "solves": float(reading.outline.complete),
        "on the chain": float(last in used),
        "off the chain": float(bool(reading.outline.hops) and last not in used and not linked),
        "comparison": float(parsed.comparison is not None),
        "comparison, title absent": float(parsed.comparison is not None and not match.title_in_question and not linked),
        "class asked for": float(parsed.head is not None and parsed.head in last.classes),
    }


def sufficiency_features(reading: PathReading) -> dict[str, float]:
    """The features of a path: reasons for it to contain everything that the answer needs."""
    pages, parsed, solution = reading.pages, reading.parsed, reading.solution
    by_page = reading.matches.by_page
    folded = " ".join(page.folded_with_title for page in pages)
    named = [fold(name) for name in parsed.names]
    best = solution.ranked[0] if solution.ranked else None
    linked = any(
        names_page(page, later) or names_page(later, page) for i, page in enumerate(pages) for later in pages[i + 1 :]
    )
    steps, verdict = len(solution.hops), solution.verdict
    return {
        "one": 1.0,
        "several": float(len(pages) > 1),
        "three or more": float(len(pages) > 2),
        "complete": float(solution.complete),
        "guess on several": float(len(pages) > 1 and not solution.complete),
        "comparison": float(parsed.comparison is not None),
        "comparison complete": float(parsed.comparison is not None and solution.complete),
        "chain stuck": float(steps > 0 and not solution.complete),
        "chain waits": float(steps > 0 and not solution.complete and solution.hops[-1].page is None),
        "last step's coverage": _narrowed_coverage(reading),
        "last step open": float(solution.narrowed is not None),
        "side missing": float(verdict is not None and any(side.missing for side in verdict.sides)),
        "coverage": reading.coverage,
        "names": sum(name in folded for name in named) / len(named) if named else 0.0,
        "linked": float(linked and len(pages) > 1),
        "all titles in question": float(all(match.title_in_question for match in by_page)),
        "answer on last page": float(best is not None and len(pages) > 1 and best.page is pages[-1]),
        "margin": min(solution.margin, 4.0) if best else 0.0,
        "score": max(-4.0, min(best.score, 8.0)) if best else 0.0,
    }


def screening_features(reading: PathReading) -> dict[str, float]:
    """The features of the last passage of a path that need no encoder: those of its relevance, and the question's
    words in a sentence before it that names it."""
    last, matches = reading.pages[-1], reading.matches
    before = zip(reading.pages[:-1], matches.by_page, strict=False)
    naming = (match.by_sentence.get(number, 0.0) for page, match in before for number in _naming(page, last))
    return {**relevance_features(reading), "mention": max(naming, default=0.0)}


def _naming(page: ParsedPassage, other: ParsedPassage) -> set[int]:
    """The sentences of a page that contain the words of another page's name."""
    sentences = [{page.sentence_of[i] for i in page.positions.get(stem, ())} for stem in other.name_stems]
    return set.intersection(*sentences) if sentences else set()


def is_hopeless(reading: PathReading) -> bool:
    """True for a path of articles whose last passage is so unlikely to be relevant, by rules alone, that the encoder
    need not read it. Passages of files are never hopeless: rules count on titles that are names."""
    if not reading.pages or reading.of_documents:
        return False
    return _screened(reading) < (FIRST_ABOVE if len(reading.pages) == 1 else LATER_ABOVE)


def is_likely(reading: PathReading) -> bool:
    """True for a path of articles whose last passage is as likely as not to be relevant, by rules alone."""
    return _screened(reading) >= 0


def _screened(reading: PathReading) -> float:
    table = weights().screen_first if len(reading.pages) == 1 else weights().screen_later
    return log_odds(table, screening_features(reading))


def mentions_compared(reading: PathReading) -> bool:
    """True for a path whose last passage mentions one of the two things that the question compares: a part of a file
    does if it has most of the words that only one of them has."""
    comparison = reading.parsed.comparison if reading.pages else None
    if comparison is None:
        return False
    last = reading.pages[-1]
    if any(find_folded(fold(name), last.folded_with_title) for name in comparison.options):
        return True
    return reading.of_documents and any(
        share_of(terms, [last]) >= _MENTIONED_ABOVE for terms in comparison.distinct_terms if terms
    )


def relevance(reading: PathReading) -> float:
    """The probability that a path is relevant to the question; 0 for an empty path."""
    if not reading.pages:
        return 0.0
    odds = log_odds(weights().relevance, relevance_features(reading))
    if reading.output is not None:
        blend = blends().document_relevance if reading.of_documents else blends().relevance
        odds = blend.log_odds(odds, reading.output.relevance)
    return sigmoid(odds)


def sufficiency(reading: PathReading) -> float:
    """The probability that a path suffices to answer the question; 0 if it gives no answer."""
    if not reading.pages or _lacks_values(reading):
        return 0.0
    solution = reading.solution
    undecided = solution.verdict is not None and solution.verdict.answer is None and not solution.ranked
    if solution.answer is None or undecided:
        return 0.0
    odds = log_odds(weights().sufficiency, sufficiency_features(reading))
    if reading.output is not None:
        blend = blends().document_sufficiency if reading.of_documents else blends().sufficiency
        odds = blend.log_odds(odds, reading.output.sufficiency)
    return sigmoid(odds)


def may_suffice(reading: PathReading) -> bool:
    """False for a path of articles that does not suffice by rules, whatever the encoder would say."""
    if not reading.pages or _lacks_values(reading):
        return False
    if reading.of_documents or reading.outline.answer is None:
        return True
    return blends().sufficiency.log_odds(log_odds(weights().sufficiency, sufficiency_features(reading)), _HIGHEST) >= 0


def answerable(reading: PathReading) -> float:
    """The probability that a passage contains the answer, by the encoder; 0 if it gives none."""
    if reading.output is None or reading.solution.answer is None:
        return 0.0
    return sigmoid(reading.output.answerable)


def _lacks_values(reading: PathReading) -> bool:
    """True for a comparison that values on a path do not decide, and that cannot be read off it either: one with a
    thing that the path does not mention, or a choice; over own documents, which decide some choices in words, only a
    choice by values."""
    comparison = reading.parsed.comparison
    if comparison is None:
        return False
    verdict = (reading.solution if reading.of_documents else reading.outline).verdict
    if verdict is None or verdict.answer is not None:
        return False
    texts = [page.folded_with_title for page in reading.pages]
    named = all(any(fold(side.name) in text for text in texts) for side in verdict.sides)
    return not named or (comparison.how == "choice" and (not reading.of_documents or comparison.what == "value"))


def log_odds(table: dict[str, float], features: dict[str, float]) -> float:
    """The weighted sum of features."""
    return sum(table[name] * value for name, value in features.items())


def _title_share(reading: PathReading, page: ParsedPassage) -> float:
    """The share of the stems of a title that are in the question."""
    stems = page.title_stems
    return sum(stem in reading.parsed.terms for stem in stems) / len(stems) if stems else 0.0


def _narrowed_coverage(reading: PathReading) -> float:
    """The share of the terms of the last step's question that one page of the path contains."""
    narrowed = reading.solution.narrowed
    if narrowed is None:
        return 0.0
    return max((share_of(narrowed.terms, [page]) for page in reading.pages), default=0.0)


# --- answers ----------------------------------------------------------------------------------------------------------


def answer_probabilities(solution: Solution) -> Mapping[str, float]:
    """The probability of each answer of a solution: 1 for one that a rule found, else shared among the candidates."""
    if solution.complete or not solution.ranked:
        return {solution.answer: 1.0} if solution.answer else {}
    if solution.yes is not None:
        return {"yes": solution.yes, "no": 1.0 - solution.yes}
    top = solution.ranked[0].score
    odds: dict[str, float] = defaultdict(float)
    for candidate in solution.ranked:
        odds[as_answer(solution.parsed, candidate)] += math.exp(candidate.score - top)
    total = sum(odds.values())
    return {answer: value / total for answer, value in odds.items()}


# --- the answer of one path -------------------------------------------------------------------------------------------


def path_answer(question: str, path: Sequence[Passage]) -> tuple[str | None, float]:
    """The answer of a path read as a whole, "yes" and "no" included, and its confidence, 0 to 1: the sufficiency of the
    path times the probability of the answer among the candidates."""
    reading = read_path(question, path)
    answer = reading.solution.answer
    share = answer_probabilities(reading.solution).get(answer or "", 0.0)
    if reading.solution.parsed.type == "boolean":
        share = 1.0
    return answer, sufficiency(reading) * share


# --- a span -----------------------------------------------------------------------------------------------------------


def extract_span(question: str, passage: Passage) -> Span | None:
    """Extract the answer from one passage; None if no span of it can be the answer (to a yes/no question).

    The confidence is the relevance of the passage times the probability of the answer among the candidates. Of 570
    spans for the single questions that 2Wiki's and MuSiQue's are made of (held out of training), in what BM25 finds and
    in the passage that answers, 85 % of those above 0.5 were correct, 76 % above 0.2, 48 % of all.

    >>> film = Passage("1", "Dark Mill", "Dark Mill is a 1931 film directed by Rolf Anders.")
    >>> extract_span("Who directed Dark Mill?", film).text
    'Rolf Anders'
    """
    reading = read_path(question, [passage])
    solution = reading.solution
    if solution.parsed.type == "boolean" or not (solution.answer or solution.ranked):
        return None
    if (span := find_folded(solution.answer or "", passage.text)) is None and solution.ranked:
        page, mention = solution.ranked[0].page, solution.ranked[0].mention
        span = page.starts[mention.first], page.starts[mention.last - 1] + len(page.tokens[mention.last - 1])
    if span is None:
        return None
    start, end = span
    confidence = relevance(reading) * max(answer_probabilities(solution).values(), default=0.0)
    return Span(passage.id, passage.text[start:end], start, end, confidence)
