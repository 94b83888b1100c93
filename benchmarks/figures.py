"""The figures of a benchmark with their bars: checked at once, and compared with an earlier run's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

WORSE = 1.25
"""A ratio that is this many times worse than before is a regression; smaller changes are noise."""


@dataclass(frozen=True)
class Figure:
    """A figure. ``most`` or ``least`` is its bar; one without a unit is a ratio, comparable between machines."""

    name: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None

    def missed(self) -> str | None:
        """Describe the missed bar; None if none is missed."""
        bar, word = (self.most, "at most") if self.most is not None else (self.least, "at least")
        kept = bar is None or (self.value <= bar if self.most is not None else self.value >= bar)
        return None if kept else f"{self.name}: {self.value:.2f}{self.unit}, the bar is {word} {bar:g}{self.unit}"

    @property
    def compared(self) -> bool:
        """Return True if it is compared with an earlier run's: a ratio that has a bar."""
        return not self.unit and (self.most is not None or self.least is not None)

    def worse_than(self, before: float) -> bool:
        """Return True if it is worse than before by more than noise.

        >>> Figure("wall / ideal", 1.4, most=1.5).worse_than(1.1), Figure("speed-up", 5.5, least=5).worse_than(6)
        (True, False)
        """
        return self.value > WORSE * before if self.most is not None else self.value < before / WORSE


def regressions(figures: Mapping[str, Sequence[Figure]], before: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Describe the regressions, from figures by benchmark and earlier values by benchmark and name."""
    return [
        f"{benchmark}: {figure.name} is {figure.value:.2f}, it was {known[figure.name]:.2f}"
        for benchmark, found in figures.items()
        if (known := before.get(benchmark))
        for figure in found
        if figure.compared and figure.name in known and figure.worse_than(known[figure.name])
    ]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    made.add_argument("--figures", type=Path, help="a file to write the figures to, as JSON")
    return made


def conclude(figures: Iterable[Figure], options: argparse.Namespace) -> None:
    """Write the figures to the given file; name the missed bars and, with ``--check``, exit with 1."""
    found = list(figures)
    if options.figures:
        options.figures.write_bytes(orjson.dumps(found))
    missed = [words for figure in found if (words := figure.missed())]
    for words in missed:
        print(f"missed: {words}", file=sys.stderr)
    if options.check and missed:
        sys.exit(1)


def read(path: Path) -> list[Figure]:
    """Read the figures that a benchmark wrote."""
    return [Figure(**row) for row in orjson.loads(path.read_bytes())]
