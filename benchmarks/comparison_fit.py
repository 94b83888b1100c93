"""Fit the weights of the pairs of quantities that a comparison compares: ``pair`` and ``read_pair`` in
``lm/pocket/tables/weights.toml``.

    python -m benchmarks.comparison_fit [SETS]

SETS: a folder of sets (``training/sets.py``); only their training domains are read. ``pair`` is fitted to facts that
rules find, ``read_pair`` to those that the encoder has read, too, on domains whose comparisons it was not trained on
(``training.facts.is_read``). A pair is right if both quantities are in what the question's steps quote and decide for
the answer; none is, if the sets do not answer the question or no such pair is found. Prints, in cross-validation over
domains, how often the likeliest outcome is right and how often an unanswerable question is decided, by the probability
that is asked for; then fits all questions.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.documents import is_right
from benchmarks.pocket_fit import Group, fit_choice, install, weights_page
from training.facts import SetOf, facts, is_read
from training.sets import FOLDER, HELD_OUT, Question, corpus_of, sets

from polyhop import open_corpus
from polyhop.lm.pocket.reading.comparison import Comparison
from polyhop.lm.pocket.reading.evidence import StatedValue, find_facts
from polyhop.lm.pocket.reading.pairs import Pair, choose, nothing, pairs_of
from polyhop.lm.pocket.reading.passage import parse_passage
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.tables import WEIGHTS, Weights, weights
from polyhop.lm.pocket.reading.values import read_values
from polyhop.retrieval import open_plain_retriever
from polyhop.retrieval.index import index_for

READ = 10  # passages of a question
FOLDS, EPOCHS, PENALTY = 4, 30, 2.0
AROUND = 250  # characters on both sides of a quantity, among which a quotation is looked for
QUOTED = 0.7  # share of the quotation's words that are there
DRAWS = ("both", "the same", "neither", "equal", "equally")  # answers to a choice between two that are alike
LEVELS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)  # probabilities that are asked for


@dataclass
class Example:
    """A comparison with the facts of its two things; ``outcome``: what the answer says, None if there is none."""

    domain: str
    comparison: Comparison
    left: list[StatedValue]
    right: list[StatedValue]
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


def examples(folder: Path, *, read: bool) -> Iterator[Example]:
    """Yield the comparisons of values in the training domains, answered or not. ``read``: only those that the encoder
    was not trained on, with the values that it reads, and those of ``training.facts``."""
    written = facts() if read else {}
    for held in sets(folder):
        if held.domain in HELD_OUT or (read and is_read(held.domain)):
            continue
        own = [(each, [step.quote for step in each.steps]) for each in held.questions]
        more = [
            (each, [step.answer for step in each.steps if step.answer])
            for each in written.get(SetOf(held.domain, held.name), ()) if each.kind == "comparison"
        ]  # fmt: skip
        compared = [(each, found, quotes) for each, quotes in (*own, *more) if (found := _compared(each))]
        if not compared:
            continue
        engine = open_plain_retriever("bm25", index_for(open_corpus(list(corpus_of(held)))))
        for question, comparison, quotes in compared:
            pages = [parse_passage(passage) for passage in engine.search(question.text, READ)]
            left, right = find_facts(comparison.options, comparison.measure, pages)
            if read:
                left, right = read_values(question.text, comparison, pages, (left, right))
            outcome = _outcome(question, comparison)
            yield Example(held.domain, comparison, left, right, outcome, [_words(quote) for quote in quotes])


def _compared(question: Question) -> Comparison | None:
    """The comparison of a question, if values decide it."""
    found = parse_question(question.text).comparison
    if found is None or found.what == "name" or not found.wins:
        return None
    if not question.answers:
        return None if found.how == "fits" else found
    is_answered = question.kind in ("comparison", "boolean") and found.how in ("choice", "truth")
    return found if is_answered and _outcome(question, found) is not None else None


def _outcome(question: Question, comparison: Comparison) -> int | None:
    if not question.answers:
        return None
    if comparison.how == "truth":
        return {"yes": 1, "no": -1}.get(question.answers[0])
    if question.answers[0].lower() in DRAWS:
        return 0
    first, second = (is_right(option, question.answers) for option in comparison.options)
    return None if first == second else (1 if first else -1)


def _words(text: str) -> list[str]:
    return re.sub(r"<[^<>]*>|\W+", " ", text).lower().split()


def _is_quoted(fact: StatedValue, quote: Sequence[str]) -> bool:
    """True if the quotation holds the quantity, and most of its words stand around it."""
    text, quantity = fact.page.text, fact.quantity
    near = set(_words(text[max(0, quantity.start - AROUND) : quantity.end + AROUND]))
    holds = f" {' '.join(_words(text[quantity.start : quantity.end]))} " in f" {' '.join(quote)} "
    return holds and sum(word in near for word in quote) >= QUOTED * len(quote)


def fitted(chosen: Sequence[Example]) -> dict[str, float]:
    """Return the weights fitted to examples."""
    return fit_choice([each.group() for each in chosen], penalty=PENALTY, epochs=EPOCHS)


def fit(every: Sequence[Example], table: Weights, *, read: bool) -> None:
    """Cross-validate, print, and fit a table of weights to all examples."""
    domains = sorted({each.domain for each in every})
    chances: list[tuple[int | None, float]] = [(None, 0.0)] * len(every)
    for fold in range(FOLDS):
        out = domains[fold::FOLDS]
        install(table, fitted([each for each in every if each.domain not in out]))
        for at, each in enumerate(every):
            if each.domain in out and (choice := choose(each.comparison, each.left, each.right, read=read)):
                chances[at] = choice.outcome, choice.probability
    print("\n".join(report(every, chances)))
    install(table, fitted(every))


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
    folder = parser.parse_args().folder
    fit(list(examples(folder, read=False)), weights().pair, read=False)
    fit(list(examples(folder, read=True)), weights().read_pair, read=True)
    WEIGHTS.write_text(weights_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
