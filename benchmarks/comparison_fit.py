"""Fit the weights of the pairs of quantities that a comparison compares, ``pair`` in ``lm/pocket/tables/weights.toml``.

    python -m benchmarks.comparison_fit [SETS]

SETS: a folder of sets (``training/sets.py``); only their training domains are read. A pair is right if both quantities
are in what the question's steps quote and decide for the answer; none is, if the sets do not answer the question or no
such pair is found. Prints, in cross-validation over domains, how often the likeliest outcome is right and how often an
unanswerable question is decided, by the probability that is asked for; then fits all questions.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.documents import is_right
from benchmarks.pocket_fit import Group, fit_choice, install, weights_page
from training.sets import FOLDER, HELD_OUT, Question, corpus_of, sets

from polyhop import open_corpus
from polyhop.lm.pocket.reading.comparison import Comparison
from polyhop.lm.pocket.reading.evidence import Fact, find_facts
from polyhop.lm.pocket.reading.pairs import Pair, choose, nothing, pairs_of
from polyhop.lm.pocket.reading.passage import parse_passage
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.tables import WEIGHTS, weights
from polyhop.retrieval import open_plain_retriever
from polyhop.retrieval.index import index_for

READ = 10  # passages of a question
FOLDS, EPOCHS, PENALTY = 4, 30, 2.0
AROUND = 250  # characters on both sides of a quantity, among which a quotation is looked for
QUOTED = 0.7  # share of the quotation's words that are there
LEVELS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)  # probabilities that are asked for


@dataclass
class Example:
    """A comparison with the facts of its two things; ``outcome``: what the answer says, None if there is none."""

    domain: str
    comparison: Comparison
    left: list[Fact]
    right: list[Fact]
    outcome: int | None
    quotes: list[list[str]]

    def group(self) -> Group:
        """Return its pairs, with no pair as the last row."""
        pairs = list(pairs_of(self.comparison, self.left, self.right))
        right = [self._is_right(pair) for pair in pairs]
        return Group([*(pair.features for pair in pairs), nothing(self.comparison)], [*right, not any(right)])

    def _is_right(self, pair: Pair) -> bool:
        decides = self.outcome is not None and pair.outcome == self.outcome
        return decides and all(any(_is_quoted(fact, quote) for quote in self.quotes) for fact in pair[:2])


def examples(folder: Path) -> Iterator[Example]:
    """Yield the comparisons of values in the training domains, answered or not."""
    for held in sets(folder):
        asked = [] if held.domain in HELD_OUT else [(each, _compared(each)) for each in held.questions]
        compared = [(question, found) for question, found in asked if found]
        if not compared:
            continue
        engine = open_plain_retriever("bm25", index_for(open_corpus(list(corpus_of(held)))))
        for question, comparison in compared:
            pages = [parse_passage(passage) for passage in engine.search(question.text, READ)]
            left, right = find_facts(comparison.options, comparison.measure, pages)
            quotes = [_words(step.quote) for step in question.steps]
            yield Example(held.domain, comparison, left, right, _outcome(question, comparison), quotes)


def _compared(question: Question) -> Comparison | None:
    """The comparison of a question, if values decide it."""
    found = parse_question(question.text).comparison
    if found is None or found.what == "name" or not found.wins:
        return None
    answered = question.kind == "comparison" and found.how == "choice" and _outcome(question, found) is not None
    claimed = question.kind == "boolean" and found.how == "truth"
    return found if answered or claimed or (question.kind == "unanswerable" and found.how != "fits") else None


def _outcome(question: Question, comparison: Comparison) -> int | None:
    if question.kind == "boolean":
        return 1 if question.answers[0] == "yes" else -1
    first, second = (is_right(option, question.answers) for option in comparison.options)
    return None if first == second else (1 if first else -1)


def _words(text: str) -> list[str]:
    return re.sub(r"<[^<>]*>|\W+", " ", text).lower().split()


def _is_quoted(fact: Fact, quote: Sequence[str]) -> bool:
    """True if the quotation holds the quantity, and most of its words stand around it."""
    text, quantity = fact.page.text, fact.quantity
    near = set(_words(text[max(0, quantity.start - AROUND) : quantity.end + AROUND]))
    holds = f" {' '.join(_words(text[quantity.start : quantity.end]))} " in f" {' '.join(quote)} "
    return holds and sum(word in near for word in quote) >= QUOTED * len(quote)


def fitted(chosen: Sequence[Example]) -> dict[str, float]:
    """Return the weights fitted to examples."""
    return fit_choice([each.group() for each in chosen], penalty=PENALTY, epochs=EPOCHS)


def report(every: Sequence[Example], chances: Sequence[tuple[int | None, float]]) -> Iterator[str]:
    """Describe, for each level, how many questions are decided and how many of them right."""
    cases = [(each.outcome, *chance) for each, chance in zip(every, chances, strict=True)]
    answered, without = ([case for case in cases if (case[0] is None) == is_open] for is_open in (False, True))
    yield f"{len(answered)} questions with an answer, {len(without)} without"
    for level in LEVELS:
        decided = [truth == said for truth, said, chance in answered if chance >= level]
        wrongly = sum(chance >= level for _, _, chance in without)
        yield (
            f"from {level}: {len(decided)} decided, {100 * sum(decided) / max(1, len(decided)):.0f} % of them right;"
            f" {100 * wrongly / max(1, len(without)):.0f} % of those without an answer"
        )


def main() -> None:
    """Cross-validate, fit and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    every = list(examples(parser.parse_args().folder))
    domains = sorted({each.domain for each in every})
    chances: list[tuple[int | None, float]] = [(None, 0.0)] * len(every)
    for fold in range(FOLDS):
        out = domains[fold::FOLDS]
        install(weights().pair, fitted([each for each in every if each.domain not in out]))
        for at, each in enumerate(every):
            if each.domain in out and (choice := choose(each.comparison, each.left, each.right)):
                chances[at] = choice.outcome, choice.probability
    print("\n".join(report(every, chances)))
    install(weights().pair, fitted(every))
    WEIGHTS.write_text(weights_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
