"""Questions of yes or no about words quoted from the sets of everyday documents (``training.sets``).

A file ``quotes/DOMAIN.txt`` holds those of a domain. ``== NAME`` opens a set; ``> path :: words`` quotes a document of
it, verbatim but for white space; the questions follow, each with the answer that the sentences with these words give,
read alone under their title:

* ``+ Is the till opened with Chiara's key?``: yes (``+``), no (``-``), or they do not say (``?``).

``python -m training.quotes [FILE ...]`` prints the faults, and what there is.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.checking import report
from training.notes import ANSWERS
from training.sets import HELD_OUT, Step

FOLDER = Path(__file__).parent / "quotes"


@dataclass
class Quote:
    """Words of a document, where they stand in the file, and the questions about them: text and answer."""

    domain: str
    set: str
    step: Step
    where: str
    questions: list[tuple[str, str]] = field(default_factory=list)


def quotes(folder: Path = FOLDER) -> Iterator[Quote]:
    """Read all quotations of a folder, in the order of the files' names."""
    for file in sorted(folder.glob("*.txt")):
        yield from read_quotes(file)


def read_quotes(file: Path) -> Iterator[Quote]:
    """Read the quotations of a file.

    Raises:
        ValueError: a line that has no meaning, with file and line number.
    """
    name, quote = "", None
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        mark, _, text = line.strip().partition(" ")
        path, separated, words = text.partition(" :: ")
        if mark in ("==", ">") and quote:
            yield quote
            quote = None
        if mark == "==" and text:
            name = text
        elif mark == ">" and name and separated:
            quote = Quote(file.stem, name, Step(path, words, "", ""), f"{file}:{number}")
        elif mark in ANSWERS and text and quote:
            quote.questions.append((text, ANSWERS[mark]))
        elif line.strip():
            raise ValueError(f"{file}:{number}: neither '== set', '> path :: words' nor '+', '-' or '?' and a question")
    if quote:
        yield quote


def faults(found: Sequence[Quote]) -> Iterator[str]:
    """Find the faults of quotations: a domain that is held out, no questions, a question asked twice with two
    answers."""
    for quote in found:
        if quote.domain in HELD_OUT:
            yield f"{quote.where}: {quote.domain} is held out"
        if not quote.questions:
            yield f"{quote.where}: no questions"
        if len(dict(quote.questions)) < len(set(quote.questions)):
            yield f"{quote.where}: a question with two answers"


def main(files: Sequence[str]) -> int:
    """Print the faults of the quotations, and what there is of each answer; 1 if there are faults."""
    found = [quote for file in files for quote in read_quotes(Path(file))] if files else list(quotes())
    counts = Counter(answer for quote in found for _, answer in quote.questions)
    answers = ", ".join(f"{count} {answer}" for answer, count in counts.most_common())
    return report(faults(found), f"{len(found)} quotations: {answers}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
