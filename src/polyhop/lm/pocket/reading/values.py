"""The values of two things that are compared, as the encoder reads them: off each passage, for each of the two."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from polyhop.common.odds import sigmoid
from polyhop.lm.pocket.encoder.cache import predict
from polyhop.lm.pocket.encoder.inputs import EncoderOutput
from polyhop.lm.pocket.reading.comparison import Comparison, canonical
from polyhop.lm.pocket.reading.evidence import StatedValue, is_in_row
from polyhop.lm.pocket.reading.passage import ParsedPassage
from polyhop.lm.pocket.reading.quantities import Quantity, find_quantities

_ARTICLE = re.compile(r"^(?:the|an?|our|its|their|your) ", re.IGNORECASE)
_LEAST = 0.01
"""The minimum probability for a quantity to be added to those that rules find."""


def value_question(thing: str, question: str) -> str:
    """The question for the value of one of the things that a question compares, in whichever order.

    >>> value_question("the wool", "Which is washed hotter, wool or linen?")
    'wool: Which is washed hotter, linen or wool?'
    """
    return f"{_ARTICLE.sub('', thing)}: {canonical(question)}"


def read_values(
    question: str,
    comparison: Comparison,
    pages: Sequence[ParsedPassage],
    found: tuple[list[StatedValue], list[StatedValue]],
) -> tuple[list[StatedValue], list[StatedValue]]:
    """Give the facts of two things that rules found the probability that the encoder reads them, and add those that
    rules did not find."""
    left, right = (
        _read(value_question(thing, question), pages, facts)
        for thing, facts in zip(comparison.options, found, strict=True)
    )
    return left, right


def _read(question: str, pages: Sequence[ParsedPassage], facts: Sequence[StatedValue]) -> list[StatedValue]:
    read: dict[tuple[str, str, int], float] = {}
    added: list[StatedValue] = []
    known = {_place(fact.page, fact.quantity) for fact in facts}
    tables = {fact.page.text for fact in facts if fact.in_row}  # with a row for the thing
    for page, output in zip(pages, predict(question, [[page] for page in pages]), strict=True):
        for quantity, probability in _quantities(page, output):
            place = _place(page, quantity)
            read[place] = probability
            if place in known or probability <= _LEAST:
                continue
            if not (page.text in tables and is_in_row(page, quantity.start)):
                added.append(StatedValue(quantity, page, 0.0, 0.0, frozenset()))
    return [replace(fact, read=read.get(_place(fact.page, fact.quantity), 0.0)) for fact in (*facts, *added)]


def _quantities(page: ParsedPassage, output: EncoderOutput) -> list[tuple[Quantity, float]]:
    """The quantities that the encoder's spans hold, the first of each, with the probability that the page states it."""
    chances: dict[Quantity, float] = {}
    stated = sigmoid(output.answerable)
    every = find_quantities(page.text)
    for span in output.spans:
        inside = [] if span.in_title else [each for each in every if span.start <= each.start < span.end]
        if inside:
            chances[inside[0]] = chances.get(inside[0], 0.0) + stated * math.exp(span.log_probability)
    return list(chances.items())


def _place(page: ParsedPassage, quantity: Quantity) -> tuple[str, str, int]:
    return page.title, page.text, quantity.start
