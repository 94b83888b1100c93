"""What a benchmark found, figure by figure, with its bars: checked at once, and compared with an earlier run's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

WORSE = 1.25
"""A ratio this many times worse than it was is a regression; less is what a busy machine does."""


@dataclass(frozen=True)
class Figure:
    """One figure. ``most`` or ``least`` is its bar; without a unit it is a ratio, which another machine has too."""

    name: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None

    def missed(self) -> str | None:
        """What it falls short of, in words."""
        bar, word = (self.most, "at most") if self.most is not None else (self.least, "at least")
        kept = bar is None or (self.value <= bar if self.most is not None else self.value >= bar)
        return None if kept else f"{self.name}: {self.value:.2f}{self.unit}, the bar is {word} {bar:g}{self.unit}"

    @property
    def compared(self) -> bool:
        """Whether it is held against an earlier run's: a ratio that has a bar."""
        return not self.unit and (self.most is not None or self.least is not None)

    def worse_than(self, before: float) -> bool:
        """Whether it is worse than it was by more than chance.

        >>> Figure("wall / ideal", 1.4, most=1.5).worse_than(1.1), Figure("speed-up", 5.5, least=5).worse_than(6)
        (True, False)
        """
        return self.value > WORSE * before if self.most is not None else self.value < before / WORSE


def regressions(figures: Mapping[str, Sequence[Figure]], before: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What got worse, in words; figures by benchmark, and the values they had by benchmark and name."""
    return [
        f"{benchmark}: {figure.name} is {figure.value:.2f}, it was {known[figure.name]:.2f}"
        for benchmark, found in figures.items()
        if (known := before.get(benchmark))
        for figure in found
        if figure.compared and figure.name in known and figure.worse_than(known[figure.name])
    ]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    made.add_argument("--figures", type=Path, help="a file to write the figures to, as JSON")
    return made


def conclude(figures: Iterable[Figure], options: argparse.Namespace) -> None:
    """Write the figures where asked to; name the bars that are missed and, asked to check, exit with 1."""
    found = list(figures)
    if options.figures:
        options.figures.write_bytes(orjson.dumps(found))
    missed = [words for figure in found if (words := figure.missed())]
    for words in missed:
        print(f"missed: {words}", file=sys.stderr)
    if options.check and missed:
        sys.exit(1)


def read(path: Path) -> list[Figure]:
    """The figures that a benchmark wrote."""
    return [Figure(**row) for row in orjson.loads(path.read_bytes())]
