"""Answering a question from a path of passages: by comparison, by following a chain of relations, or by reading; and
the next query, if something is still missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache

from polyhop.common.text import STOP_WORDS, fold, words
from polyhop.lm.pocket.encoder.cache import MAX_PASSAGES, predict
from polyhop.lm.pocket.encoder.inputs import EncoderOutput
from polyhop.lm.pocket.reading.candidates import (
    Candidate,
    PageMatches,
    candidate_features,
    kind_of,
    match_pages,
    rank_candidates,
)
from polyhop.lm.pocket.reading.cells import find_cell
from polyhop.lm.pocket.reading.chain import Hop, decompose, follow_chain
from polyhop.lm.pocket.reading.compare import Verdict, compare
from polyhop.lm.pocket.reading.comparison import Comparison
from polyhop.lm.pocket.reading.passage import Mention, ParsedPassage, parse_passage, share_of
from polyhop.lm.pocket.reading.question import ParsedQuestion, parse_question
from polyhop.lm.pocket.reading.tables import blends, weights
from polyhop.lm.pocket.reading.tables import words as word_tables
from polyhop.lm.pocket.reading.text import parse_date, stem_of, stem_weight
from polyhop.lm.pocket.reading.threshold import settle
from polyhop.types import Passage, are_of_documents

UNKNOWN = "unknown"
"""The answer if nothing is known: never empty, and correct for no question."""
_MAX_COMPARED = 12  # pages off which the encoder reads the values of a comparison
MAX_CACHED_READINGS = 256  # of paths
_MAX_UNMET = 12  # words of a query
_MAX_NAMED = 500  # candidates among which the two things of a comparison are looked for
_BRIDGE_KINDS = ("name", "short name", "quoted")  # of mentions that can be a bridge


@dataclass(frozen=True, slots=True)
class Solution:
    """The answer of pages to a question. ``complete``: every step was found, none was guessed. ``ranked``: the
    candidates, if it was read. ``narrowed``: the question of the last step, if only that one was left to read.
    ``yes``: the probability of "yes", if it was read for that."""

    parsed: ParsedQuestion
    answer: str | None
    _: KW_ONLY
    complete: bool = False
    verdict: Verdict | None = None
    hops: tuple[Hop, ...] = ()
    ranked: tuple[Candidate, ...] = ()
    narrowed: ParsedQuestion | None = None
    yes: float | None = None

    @property
    def used(self) -> list[ParsedPassage]:
        """The pages on which a comparison or a chain found its names."""
        if self.verdict:
            return [page for side in self.verdict.sides for page in (side.page, side.source) if page]
        return [hop.page for hop in self.hops if hop.page]

    def candidate(self, answer: str) -> Candidate | None:
        """The best candidate with the text of an answer."""
        return next((each for each in self.ranked if each.text == answer), None)

    @property
    def is_cell(self) -> bool:
        """True if it is a cell of a table."""
        return self.complete and not self.verdict and bool(self.ranked)

    @property
    def is_open_claim(self) -> bool:
        """True for a question of yes or no that no values decide."""
        how = self.parsed.comparison.how if self.parsed.comparison else "truth"
        if self.parsed.type != "boolean" or how not in ("truth", "same", "both"):
            return False
        decided = self.complete or (how == "truth" and self.is_guess)
        return not decided or how == "both"

    @property
    def is_guess(self) -> bool:
        """True if two values decide a comparison, but it is not sure that they are those that it compares."""
        return self.verdict is not None and self.verdict.answer is not None and not self.complete

    @property
    def is_undecided(self) -> bool:
        """True for a choice by values that are not stated, or that cannot be compared."""
        is_choice = self.parsed.comparison is not None and self.parsed.comparison.how == "choice"
        return is_choice and self.verdict is not None and self.verdict.answer is None

    @property
    def margin(self) -> float:
        """The lead of the best candidate over the next, in log-odds; 0 if nothing was read."""
        scores = [candidate.score for candidate in self.ranked[:2]]
        return scores[0] - scores[1] if len(scores) == 2 else (3.0 if scores else 0.0)


@dataclass
class PathReading:
    """A question read over the pages of a path: its matches, its answer and the encoder's prediction, on first use.

    ``of_documents``: the pages are parts of files, not articles with names.
    """

    question: str
    pages: tuple[ParsedPassage, ...]
    of_documents: bool = False

    @cached_property
    def parsed(self) -> ParsedQuestion:
        """The parsed question."""
        return parse_question(self.question)

    @cached_property
    def matches(self) -> PageMatches:
        """The matches of the question in each page."""
        return match_pages(self.parsed, self.pages)

    @cached_property
    def outline(self) -> Solution:
        """The answer by rules alone, without the encoder."""
        return solve_by_rules(self.question, self.pages)

    @cached_property
    def solution(self) -> Solution:
        """The answer of the pages."""
        outline = _with_read_values(self.outline, self.pages) if self.of_documents else self.outline
        return _read_open(outline, self.pages, self.of_documents)

    @cached_property
    def output(self) -> EncoderOutput | None:
        """The encoder's prediction for the path; None for no passage or too many."""
        return predict(self.question, [self.pages])[0] if 0 < len(self.pages) <= MAX_PASSAGES else None

    @cached_property
    def unmet(self) -> dict[str, float]:
        """The terms of the question that no page of the path contains, with their weights."""
        terms = self.parsed.terms.items()
        return {stem: value for stem, value in terms if not any(page.has(stem) for page in self.pages)}

    @property
    def coverage(self) -> float:
        """The share of the question's terms, by weight, that the path contains."""
        return 1.0 - sum(self.unmet.values()) / self.parsed.total


def read_path(question: str, passages: Sequence[Passage]) -> PathReading:
    """Read a question over passages. The latest ``MAX_CACHED_READINGS`` readings are cached."""
    rows = tuple((p.id, p.title, p.text, tuple(p.links)) for p in passages)
    return _read_path(question, rows, are_of_documents(passages))


@lru_cache(maxsize=MAX_CACHED_READINGS)
def _read_path(
    question: str, rows: tuple[tuple[str, str, str, tuple[str, ...]], ...], of_documents: bool
) -> PathReading:
    return PathReading(question, tuple(parse_passage(Passage(*row)) for row in rows), of_documents)


def clear_cache() -> None:
    """Drop the cached readings: they contain answers by the weights in use when they were made."""
    _read_path.cache_clear()


# --- the answer -------------------------------------------------------------------------------------------------------


def solve(question: str, pages: Sequence[ParsedPassage]) -> Solution:
    """Answer a question from pages.

    >>> from polyhop.lm.pocket.reading.passage import parse_passage
    >>> from polyhop.types import Passage
    >>> film = Passage("1", "Dark Mill", "Dark Mill is a 1931 film directed by Rolf Anders.")
    >>> director = Passage("2", "Rolf Anders", "Rolf Anders (4 May 1899 – 1950) was a German film director.")
    >>> solution = solve("When was the director of Dark Mill born?", [parse_passage(film), parse_passage(director)])
    >>> solution.answer, solution.complete
    ('4 May 1899', True)
    """
    return _read_open(solve_by_rules(question, pages), pages, of_documents=False)


def solve_by_rules(question: str, pages: Sequence[ParsedPassage]) -> Solution:
    """Answer a question from pages by rules alone: without an answer if they settle nothing."""
    parsed = parse_question(question)
    if parsed.type == "boolean" and (settled := settle(parsed.text, pages)):
        return Solution(parsed, settled.answer, complete=settled.complete, verdict=settled)
    if parsed.comparison:
        verdict = compare(parsed, parsed.comparison, pages)
        return Solution(parsed, verdict.answer, complete=verdict.complete, verdict=verdict)
    if parsed.type != "boolean" and (cell := find_cell(parsed, pages)):
        candidate = Candidate(cell.mention.text, 0.0, cell.page, cell.mention)
        return Solution(parsed, candidate.text, complete=True, ranked=(candidate,))
    steps = decompose(parsed.text)
    hops = tuple(follow_chain(steps, pages)) if steps else ()
    if hops and len(hops) == len(steps) and hops[-1].value and parsed.type != "boolean":
        return Solution(parsed, hops[-1].value.text, complete=True, hops=hops)
    return Solution(parsed, None, hops=hops, narrowed=_narrowed(hops, len(steps)))


def _with_read_values(outline: Solution, pages: Sequence[ParsedPassage]) -> Solution:
    """Compare the values that the encoder reads, too, where two values were chosen among many; if that decides nothing,
    the two remain."""
    parsed, verdict = outline.parsed, outline.verdict
    if parsed.comparison is None or verdict is None or (verdict.answer and verdict.probability == 1.0):
        return outline
    read = compare(parsed, parsed.comparison, pages[:_MAX_COMPARED], read=True)
    if verdict.answer and not read.answer:
        return outline
    return Solution(parsed, read.answer, complete=read.complete, verdict=read)


def _read_open(outline: Solution, pages: Sequence[ParsedPassage], of_documents: bool) -> Solution:
    """Read the answer that rules did not settle."""
    parsed, verdict = outline.parsed, outline.verdict
    if outline.answer is not None:
        return outline
    if verdict and parsed.comparison:
        pages = sorted(pages, key=lambda page: (page.title, page.text))
        return _undecided(parsed, parsed.comparison, verdict, pages, of_documents)
    return _read(parsed, outline.narrowed, pages, outline.hops, None, of_documents)


def _undecided(
    parsed: ParsedQuestion,
    comparison: Comparison,
    verdict: Verdict,
    pages: Sequence[ParsedPassage],
    of_documents: bool,
) -> Solution:
    """Answer a comparison that values do not decide: what both things have in common is read, and of a choice the thing
    that reads best is the answer. A draw stays open, as does a claim that only values could decide."""
    if comparison.how in ("same", "both", "common"):
        return _read(parsed, None, pages, (), verdict, of_documents)
    names = [side.name for side in verdict.sides]
    stated = all(side.value or (comparison.what == "life" and side.page) for side in verdict.sides)
    if comparison.how == "truth" or stated:
        return Solution(parsed, None, verdict=verdict)
    best: dict[str, Candidate] = {}
    for candidate in rank_candidates(parsed, pages, _MAX_NAMED, of_documents=of_documents):
        meant = [name for name in names if _same_name(fold(name), fold(candidate.text))]
        if len(meant) == 1:
            best.setdefault(meant[0], candidate._replace(text=meant[0]))
    ranked = tuple(best.values())
    return Solution(parsed, ranked[0].text if ranked else None, verdict=verdict, ranked=ranked)


def _same_name(name: str, text: str) -> bool:
    return f" {name} " in f" {text} " or f" {text} " in f" {name} "


def _narrowed(hops: Sequence[Hop], count: int) -> ParsedQuestion | None:
    """The question of the last step with its subject filled in; None if other steps are open too."""
    if len(hops) == count and hops and hops[-1].subject:
        return parse_question(hops[-1].step.question.replace(hops[-1].step.subject, hops[-1].subject))
    return None


def _read(
    parsed: ParsedQuestion,
    narrowed: ParsedQuestion | None,
    pages: Sequence[ParsedPassage],
    hops: tuple[Hop, ...],
    verdict: Verdict | None,
    of_documents: bool,
) -> Solution:
    ranked = tuple(rank_candidates(narrowed or parsed, pages, of_documents=of_documents))
    yes = _yes_probability(parsed, pages) if parsed.type == "boolean" else None
    if yes is not None:
        answer: str | None = "yes" if yes > 0.5 else "no"
    else:
        answer = as_answer(parsed, ranked[0]) if ranked else None
    return Solution(parsed, answer, verdict=verdict, hops=hops, ranked=ranked, narrowed=narrowed, yes=yes)


def _yes_probability(parsed: ParsedQuestion, pages: Sequence[ParsedPassage]) -> float:
    """The probability of "yes": by the encoder for few pages, else by the share of the question's words in them."""
    if 0 < len(pages) <= MAX_PASSAGES:
        kinds = predict(parsed.text, [pages])[0].kinds
        return kinds["yes"] / ((kinds["yes"] + kinds["no"]) or 1.0)
    return float(share_of(parsed.terms, pages) >= 0.7)


def as_answer(parsed: ParsedQuestion, candidate: Candidate) -> str:
    """A candidate as an answer: the year alone if a year is asked for, a measure with its unit."""
    text, mention = candidate.text, candidate.mention
    if parsed.type == "year" and mention.kind == "date" and (date := parse_date(text)) and date.year:
        return str(date.year)
    if parsed.head and parsed.type != "number":
        text = _without_noun(text, parsed.head)
    after = "".join(candidate.page.tokens[mention.last : mention.last + 1])
    is_measure = parsed.type == "number" and parsed.head is None and mention.kind == "number"
    return f"{text} {after}" if is_measure and after in word_tables().units else text


def _without_noun(text: str, noun: str) -> str:
    """A name without the noun that was asked for before it: "the journal Nature" to "which journal"."""
    tokens = text.split()
    for i, token in enumerate(tokens[:-1]):
        if not token.islower():
            break
        if stem_of(token) == noun:
            rest = tokens[i + 1 :]
            return " ".join(rest) if len(rest) == 1 or not rest[0][0].islower() else text
    return text


# --- the next query ---------------------------------------------------------------------------------------------------


def next_query(reading: PathReading) -> str | None:
    """The next query; None if none suggests itself."""
    return missing_name(reading) or _bridge_query(reading)


def missing_name(reading: PathReading) -> str | None:
    """The name that a comparison or a chain waits for: alone, since a page seldom contains the words of the
    relation."""
    outline = reading.outline
    if outline.verdict:
        waiting = [side for side in outline.verdict.sides if side.missing]
        waiting.sort(key=lambda side: side.page is None)  # finish the side begun: its film leads to its director
        return waiting[0].missing if waiting else None
    if outline.narrowed and outline.hops[-1].step.relation is None:
        return outline.narrowed.text
    return outline.hops[-1].subject if waits_for_page(reading) else None


def bridge(reading: PathReading) -> str | None:
    """The name on the path, not in the question, that most likely leads to the missing passage."""
    candidates = bridge_candidates(reading)
    if not candidates:
        return None
    return max(candidates, key=lambda candidate: bridge_score(reading, *candidate))[0].text


def bridge_score(reading: PathReading, mention: Mention, features: Mapping[str, float]) -> float:
    """The score of a name that may lead on: by its features, and by the encoder's prediction."""
    _, weight, floor = blends().bridge
    score = sum(weights().bridge.get(name, 0.0) * value for name, value in features.items())
    if reading.output is None:
        return score
    logs = [span.log_probability for span in reading.output.spans if fold(span.text(reading.pages)) == mention.folded]
    return score + weight * (max([floor, *logs]) - floor)


def bridge_candidates(reading: PathReading) -> list[tuple[Mention, dict[str, float]]]:
    """The names on the path that the question does not contain, each with its features."""
    subjects = {page.folded_name for page in reading.pages}
    found = []
    for i, page in enumerate(reading.pages[: len(reading.matches.by_page)]):
        for mention in page.mentions:
            kind = kind_of(mention)
            if kind not in _BRIDGE_KINDS or mention.folded in subjects or _in_question(mention, reading.parsed):
                continue
            features = candidate_features(reading.matches, i, mention)
            features[f"kind {kind}"] = 1.0
            features["on last page"] = float(i == len(reading.pages) - 1)
            found.append((mention, features))
    return found


def waits_for_page(reading: PathReading) -> bool:
    """True if a chain has found a name whose page is not on the path."""
    outline = reading.outline
    if not outline.hops or outline.complete:
        return False
    return bool(outline.hops[-1].subject) and outline.hops[-1].page is None


def _in_question(mention: Mention, parsed: ParsedQuestion) -> bool:
    return all(stem in parsed.terms for stem in mention.stems)


def unmet_words(reading: PathReading) -> list[str]:
    """The words of the question that no page of the path contains, in order, at most a dozen."""
    unmet = [
        word for word in dict.fromkeys(words(reading.parsed.text))
        if word not in STOP_WORDS and stem_of(word) in reading.unmet and stem_weight(stem_of(word)) > 0
    ]  # fmt: skip
    return unmet[:_MAX_UNMET]


def _bridge_query(reading: PathReading) -> str | None:
    name = bridge(reading)
    rest = unmet_words(reading)
    return " ".join(([name] if name else []) + rest) or None
