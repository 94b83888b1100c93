"""Instructions for PromptRank to choose from: ours, a file's, or a model's that fills gaps in a template (§2.2).

Khalifa et al., 2023: a span-filling T5 completes a template that names documents and a question, in two variants, one
to stand before the passages and one after. The templates here are our own; what a model fills in is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from polyhop.errors import DataError, UsageError

Fill: TypeAlias = Callable[[str, int, int], Sequence[Sequence[str]]]
"""``(template, count, seed) -> spans``: ``count`` draws of the text in the template's gaps, in their order."""

OURS = Path(__file__).with_name("instructions.txt")

GAPS = ("<extra_id_0>", "<extra_id_1>")
"""Marks of the gaps, as T5's vocabulary spells them."""

TEMPLATES = {
    "after": "Exercise: {} documents above, then {} question that they answer. Question:",
    "before": "Exercise: {} documents below, then {} question that they answer. Question:",
}
ROUNDS = 10
"""Maximum number of rounds of drawing while too few distinct draws can be used."""

MAX_SPAN_WORDS = 12
"""Maximum number of words in a gap."""


def read_instructions(path: str | Path = OURS) -> list[str]:
    """Read the distinct instructions of a file, one per line; by default ours. ``#`` starts a comment.

    Raises:
        DataError: the file cannot be read, holds none, or a line has a position but no text.
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise DataError(f"the instructions cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise DataError("the instructions are not UTF-8 text", path) from None
    instructions: dict[str, None] = {}
    for number, line in enumerate(lines, 1):
        if not (line := line.strip()) or line.startswith("#"):
            continue
        if line.removesuffix(":") in TEMPLATES:
            raise DataError(f"{line!r} is not an instruction: it has a position but no text", path, number)
        instructions[line] = None
    if not instructions:
        raise DataError("no instruction: one per line is needed", path)
    return list(instructions)


def generate_instructions(fill: Fill, count: int, *, seed: int = 0) -> list[str]:
    """Generate ``count`` different instructions (§3: 200), every second one to stand before the passages.

    There are fewer if the model keeps repeating itself.

    Raises:
        UsageError: nothing that was drawn can be used.
    """
    drawn: dict[str, list[str]] = {position: [] for position in TEMPLATES}
    for turn in range(ROUNDS):
        for i, (position, template) in enumerate(TEMPLATES.items()):
            wanted = (count + 1 - i) // 2 - len(drawn[position])
            if wanted > 0:
                spans = fill(template.format(*GAPS), wanted, seed + turn)
                new = (f"{position}: {sentence}" for sentence in _filled(template, spans))
                drawn[position] += [line for line in dict.fromkeys(new) if line not in drawn[position]]
    if not any(drawn.values()):
        raise UsageError("the generator filled no gap as a sentence can be: is it a span-filling T5, as t5-base is?")
    return [drawn[position][n] for n in range(count) for position in TEMPLATES if n < len(drawn[position])][:count]


def _filled(template: str, draws: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the template's sentence with its gaps filled, for each usable draw."""
    sentence = template.removeprefix("Exercise: ").removesuffix(" Question:")
    for spans in draws:
        phrases = [" ".join(span.split()) for span in spans]
        if len(phrases) == len(GAPS) and all(map(_can_be_used, phrases)):
            first, *others = phrases
            yield sentence.format(first[:1].upper() + first[1:], *others)


def _can_be_used(span: str) -> bool:
    """Return True if a span is words: not empty, not marks only, and no longer than ``MAX_SPAN_WORDS``.

    >>> [_can_be_used(span) for span in ("Read the", "", "...", "<extra_id_2>", "1. The")]
    [True, False, False, False, True]
    """
    words = span.split()
    return 0 < len(words) <= MAX_SPAN_WORDS and "<" not in span and any(char.isalpha() for char in span)
