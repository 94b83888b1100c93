"""Questions about single facts of the sets of everyday documents (``training.sets``), several about each passage.

A file ``facts/DOMAIN.txt`` holds those of a domain. ``== NAME`` opens a set; ``#NUMBER path :: words`` a passage of it,
by its document and its first words. The questions about the passage follow:

* ``What did the ticket cost before May? = 12 kr``: with the answer, copied from the passage;
* ``? Who cleans the till?``: which the set does not answer, though the passage is about such things.

At the end of the set stand questions about something described, with what that is and the number of the passage that
tells it, and the answer with that of its passage:

* ``& Where does [the woman who keeps the till] live? = Chiara #9 = Bodvik #12``

and comparisons of two things, with the answer (``?`` for none) and the value of each with its passage, in the order in
which the question names them; ``?`` for a value that the set does not tell:

* ``~ Which is washed hotter, wool or linen? = linen ; wool #3 30 degrees ; linen #4 60``

``python -m training.facts [FILE ...]`` prints the faults, and what there is.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from polyhop.lm.pocket.reading.descriptions import inner_question
from polyhop.lm.pocket.reading.values import value_question
from training.checking import report
from training.data import occurs
from training.sets import HELD_OUT, Question, Step

FOLDER = Path(__file__).parent / "facts"
_PASSAGE = re.compile(r"#(\d+) (.+?) :: (.+)")
_BRIDGE = re.compile(r"& ([^\[\]]*)\[([^\[\]]+)\]([^\[\]]*) = (.+) #(\d+) = (.+) #(\d+)")
_COMPARISON = re.compile(r"~ (.+?) = (.+?) ; (.+?) (?:#(\d+) (.+?)|\?) ; (.+?) (?:#(\d+) (.+)|\?)")
_FACT = re.compile(r"(\w.*?) = (.+)")


class SetOf(NamedTuple):
    """A set, by its domain and name."""

    domain: str
    name: str


def facts(files: Sequence[Path] = ()) -> dict[SetOf, list[Question]]:
    """Read the questions of files (by default, all) by the set that they are about."""
    found: dict[SetOf, list[Question]] = defaultdict(list)
    for file in files or sorted(FOLDER.glob("*.txt")):
        for held, asked in read_facts(file):
            found[held].append(asked)
    return found


def read_facts(file: Path) -> Iterator[tuple[SetOf, Question]]:
    """Read the questions of a file, each with the set that it is about.

    Raises:
        ValueError: a line that has no meaning, with file and line number.
    """
    held = SetOf(file.stem, "")
    passages: dict[str, Step] = {}
    for number, line in enumerate(map(str.strip, file.read_text(encoding="utf-8").splitlines()), 1):
        if line.startswith("== "):
            held, passages = SetOf(file.stem, line[3:]), {}
        elif match := _PASSAGE.fullmatch(line):
            passages[match[1]] = Step(match[2], match[3], "", "")
        elif line:
            try:
                yield held, _question(line, passages)
            except ValueError as error:
                raise ValueError(f"{file}:{number}: {error}") from None


def _question(line: str, passages: Mapping[str, Step]) -> Question:
    """The question of a line below the passages of its set so far; by default it is about the last one."""
    if not passages:
        raise ValueError("text before the first '#number path :: words' of a set")
    here = list(passages)[-1]
    if line.startswith("? "):
        return Question(line[2:], "unanswerable", (), (passages[here],))
    if match := _BRIDGE.fullmatch(line):
        front, described, tail, name, first, answer, last = match.groups()
        steps = (
            _step(passages, first, inner_question(described), name),
            _step(passages, last, f"{front}{name}{tail}", answer),
        )
        return Question(f"{front}[{described}]{tail}", "bridge", (answer,), steps)
    if match := _COMPARISON.fullmatch(line):
        question, answer, *sides = match.groups()
        one, other = (
            _step(passages, at, value_question(thing, question), value) for thing, at, value in (sides[:3], sides[3:])
        )
        return Question(question, "comparison", () if answer == "?" else (answer,), (one, other))
    if match := _FACT.fullmatch(line):
        question, answer = match.groups()
        return Question(question, "one", (answer,), (_step(passages, here, question, answer),))
    raise ValueError(
        "neither '#number path :: words', 'question = answer', '? question', '& question = name #number = answer "
        "#number' nor '~ question = answer ; thing #number value ; thing #number value'"
    )


def _step(passages: Mapping[str, Step], number: str | None, question: str, answer: str | None) -> Step:
    """The step of a passage of the set; of none for a value that the set does not tell."""
    if number is None:
        return Step("", "", question, "")
    if number not in passages:
        raise ValueError(f"the set has no passage #{number}")
    return replace(passages[number], question=question, answer=answer or "")


def is_read(domain: str) -> bool:
    """True for domains whose comparisons the encoder is trained on: on the others, one in six, the weights of what it
    reads are fitted (``benchmarks/comparison_fit.py``)."""
    return zlib.crc32(domain.encode()) % 6 > 0


def faults(found: dict[SetOf, list[Question]]) -> Iterator[str]:
    """Find the faults of questions: a domain that is held out, a question that holds its answer or what it describes, a
    question asked twice with two answers."""
    for held, questions in found.items():
        where = "/".join(held)
        if held.domain in HELD_OUT:
            yield f"{where}: {held.domain} is held out"
        answers: dict[str, tuple[str, ...]] = {}
        for asked in questions:
            if answers.setdefault(asked.text, asked.answers) != asked.answers:
                yield f"{where}: {asked.text!r} has two answers"
            if asked.kind == "comparison":
                continue
            given = [step.answer for step in asked.steps if step.answer and occurs(step.answer, asked.text)]
            if given:
                yield f"{where}: {asked.text!r} holds {given[0]!r}"


def main(files: Sequence[str]) -> int:
    """Print the faults of the questions, and what there is of each kind; 1 if there are faults."""
    found = facts([Path(file) for file in files])
    counts = Counter(asked.kind for questions in found.values() for asked in questions)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    return report(faults(found), f"{len(found)} sets: {kinds}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
