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
"""``(template, count, seed) -> spans``: that many draws of what stands in the template's gaps, in their order."""

OURS = Path(__file__).with_name("instructions.txt")

GAPS = ("<extra_id_0>", "<extra_id_1>")
"""Marks of the gaps, as T5's vocabulary spells them."""

TEMPLATES = {
    "after": "Exercise: {} documents above, then {} question that they answer. Question:",
    "before": "Exercise: {} documents below, then {} question that they answer. Question:",
}
ROUNDS = 10
"""So many times it is drawn again, while too few draws differ and can be used."""

LONGEST_SPAN = 12
"""Words in a gap."""


def read_instructions(path: str | Path = OURS) -> list[str]:
    """The instructions of a file, one a line, each once; by default ours. Lines that open with ``#`` are remarks.

    Raises:
        DataError: the file cannot be read, holds none, or a line says where but not what.
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise DataError(f"the instructions cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise DataError("the instructions are not UTF-8 text", path) from None
    told: dict[str, None] = {}
    for number, line in enumerate(lines, 1):
        if not (line := line.strip()) or line.startswith("#"):
            continue
        if line.removesuffix(":") in TEMPLATES:
            raise DataError(f"{line!r} is not an instruction: it says where, and not what", path, number)
        told[line] = None
    if not told:
        raise DataError("no instruction: one a line is needed", path)
    return list(told)


def generate_instructions(fill: Fill, count: int, *, seed: int = 0) -> list[str]:
    """``count`` different instructions (§3: 200), every second one for before the passages; fewer where the model keeps
    repeating itself.

    Raises:
        UsageError: nothing that was drawn can be used.
    """
    told: dict[str, list[str]] = {position: [] for position in TEMPLATES}
    for turn in range(ROUNDS):
        for at, (position, template) in enumerate(TEMPLATES.items()):
            wanted = (count + 1 - at) // 2 - len(told[position])
            if wanted > 0:
                spans = fill(template.format(*GAPS), wanted, seed + turn)
                new = (f"{position}: {one}" for one in _filled(template, spans))
                told[position] += [one for one in dict.fromkeys(new) if one not in told[position]]
    if not any(told.values()):
        raise UsageError("the generator filled no gap as a sentence can be: is it a span-filling T5, as t5-base is?")
    return [told[position][n] for n in range(count) for position in TEMPLATES if n < len(told[position])][:count]


def _filled(template: str, draws: Sequence[Sequence[str]]) -> Iterator[str]:
    """The template's sentence with its gaps filled, for each draw that can be used."""
    sentence = template.removeprefix("Exercise: ").removesuffix(" Question:")
    for spans in draws:
        told = [" ".join(span.split()) for span in spans]
        if len(told) == len(GAPS) and all(map(_can_be_used, told)):
            first, *others = told
            yield sentence.format(first[:1].upper() + first[1:], *others)


def _can_be_used(span: str) -> bool:
    """Whether a span is words: neither empty, nor marks, nor a passage of its own.

    >>> [_can_be_used(span) for span in ("Read the", "", "...", "<extra_id_2>", "1. The")]
    [True, False, False, False, True]
    """
    words = span.split()
    return 0 < len(words) <= LONGEST_SPAN and "<" not in span and any(char.isalpha() for char in span)
