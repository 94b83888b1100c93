"""Small sets of everyday documents with questions, in ``training/documents/DOMAIN/NAME.txt``: read and checked.

    python -m training.sets [FILE ...]

A set is a text file: ``=== path`` opens a document, ``=== questions`` the questions::

    === teams/ledger.md
    # Ledger
    The team is led by Tomas Lindqvist.
    === people/tomas.md
    Tomas Lindqvist joined in 2017 and works from Malmö.
    === questions
    ? Which city does [the lead of the Ledger team] work from?
    kind: bridge
    = Malmö
    - teams/ledger.md :: led by Tomas Lindqvist :: Who leads the Ledger team? :: Tomas Lindqvist
    - people/tomas.md :: works from Malmö :: Which city does Tomas Lindqvist work from? :: Malmö

``=`` holds the answers, the best first, separated by ``|``; none for a question that the documents do not answer.
A ``-`` line is one step in the order of reading: the document, words of it (verbatim but for white space) that hold the
fact, the step's question, its answer. A single step may leave out both: then they are the question's. An unanswerable
question's steps are what is nearest, with the answer left out. Brackets mark what a bridge question describes and an
earlier step finds, one inside the other if that is described with something described; they are not part of the text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from polyhop.data.corpora import open_corpus
from polyhop.data.corpus import Corpus
from training.checking import report

FOLDER = Path(__file__).parent / "documents"
HELD_OUT = ("clinic", "festival", "harbour", "observatory", "opensource")
"""Domains that training never reads: thresholds are chosen and figures measured on them."""
UNSEEN = Path(__file__).parent / "unseen"
"""A folder of more questions over these domains, each of one fact, that nothing was chosen on."""
INDEPENDENT = Path(__file__).parent / "independent"
"""A folder of sets by hands that knew neither polyhop nor the other sets; training never reads them."""
KINDS = ("one", "bridge", "comparison", "boolean", "count", "table", "outdated", "lookalike", "unanswerable")
_INNERMOST = re.compile(r"\[([^\[\]]*)\]")
_MARKS = re.compile(r"[\[\]]")
FREE = ("boolean", "comparison", "count")  # kinds whose answer need not stand in a quotation


@dataclass(frozen=True)
class Step:
    """One fact on the way: its document, the words that hold it, its question and answer."""

    path: str
    quote: str
    question: str
    answer: str


@dataclass(frozen=True)
class Question:
    """A question over a set, with its answers (none: unanswerable) and steps. ``marked``: its text with brackets around
    what it describes."""

    marked: str
    kind: str
    answers: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def text(self) -> str:
        """The question."""
        return _MARKS.sub("", self.marked)


class Described(NamedTuple):
    """A question of which ``start:end`` describes what a step finds."""

    question: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The description."""
        return self.question[self.start : self.end]

    def about(self, name: str) -> str:
        """The question about a name instead."""
        return self.question[: self.start] + name + self.question[self.end :]


@dataclass
class DocumentSet:
    """Documents by path, and the questions over them."""

    name: str
    domain: str
    documents: dict[str, str] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)


def sets(folder: Path = FOLDER) -> Iterator[DocumentSet]:
    """Read all sets of a folder, in the order of their names."""
    for file in sorted(folder.glob("*/*.txt")):
        yield read_set(file)


def training_sets(folder: Path) -> Iterator[DocumentSet]:
    """Read the sets of a folder that are trained on: those whose domain is not held out."""
    return (held for held in sets(folder) if held.domain not in HELD_OUT)


def read_set(file: Path) -> DocumentSet:
    """Read a set.

    Raises:
        ValueError: a line that has no meaning, with file and line number.
    """
    held = DocumentSet(file.stem, file.parent.name)
    lines, current = file.read_text(encoding="utf-8").splitlines(), ""
    bodies: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(lines, 1):
        if line.startswith("=== "):
            current = line[4:].strip()
            if current in bodies:
                raise ValueError(f"{file}:{number}: {current} stands here twice")
            bodies[current] = []
        elif current:
            bodies[current].append((number, line))
        elif line.strip():
            raise ValueError(f"{file}:{number}: text before the first '=== path'")
    asked = bodies.pop("questions", [])
    held.documents = {path: "\n".join(line for _, line in body).strip() + "\n" for path, body in bodies.items()}
    held.questions = list(_questions(asked, file))
    return held


def with_questions(held: DocumentSet, folder: Path) -> DocumentSet:
    """The set with the questions that another folder has about its documents."""
    return replace(held, questions=read_set(folder / held.domain / f"{held.name}.txt").questions)


def together(held: Sequence[DocumentSet]) -> DocumentSet:
    """Make one set of several of a domain, with the documents of each in a folder of its name."""
    made = DocumentSet("+".join(each.name for each in held), held[0].domain)
    for each in held:
        made.documents |= {f"{each.name}/{path}": text for path, text in each.documents.items()}
        for asked in each.questions:
            steps = tuple(replace(step, path=f"{each.name}/{step.path}") for step in asked.steps)
            made.questions.append(replace(asked, steps=steps))
    return made


def corpus_of(held: DocumentSet) -> Corpus:
    """The passages of a set's documents, as they are of a folder that holds them."""
    with TemporaryDirectory() as folder:
        for path, text in held.documents.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return open_corpus(list(open_corpus(folder)))


def _questions(lines: Sequence[tuple[int, str]], file: Path) -> Iterator[Question]:
    text, kind, answers, steps = "", "", (), []  # type: str, str, tuple[str, ...], list[Step]
    for number, line in [*lines, (0, "? ")]:
        mark, rest = line[:2], line[2:].strip()
        if mark == "? ":
            if text:
                yield Question(text, kind, answers, _complete(steps, text, kind, answers))
            text, kind, answers, steps = rest, "", (), []
        elif line.startswith("kind:"):
            kind = line[5:].strip()
        elif line.strip() == "=" or mark == "= ":
            answers = tuple(part.strip() for part in rest.split("|") if part.strip())
        elif mark == "- ":
            parts = [part.strip() for part in rest.split(" :: ")]
            if len(parts) not in (2, 4):
                raise ValueError(f"{file}:{number}: a step is 'path :: quotation :: question :: answer'")
            steps.append(Step(*parts, *[""] * (4 - len(parts))))
        elif line.strip():
            raise ValueError(f"{file}:{number}: neither '?', 'kind:', '=' nor '-': {line[:40]!r}")


def _complete(steps: Sequence[Step], text: str, kind: str, answers: Sequence[str]) -> tuple[Step, ...]:
    """Give the only step of a question what it leaves out."""
    if len(steps) == 1 and not steps[0].question and answers and kind not in FREE:
        return (replace(steps[0], question=text, answer=answers[0]),)
    return tuple(steps)


def faults(held: DocumentSet) -> Iterator[str]:
    """Find the faults of a set: quotations that are not in their document, answers not in a quotation, names of the
    bridge given away by the question."""
    texts = {path: _plain(text) for path, text in held.documents.items()}
    for asked in held.questions:
        where = f"{held.domain}/{held.name}: {asked.text!r}"
        if asked.kind not in KINDS:
            yield f"{where}: kind {asked.kind!r} is none of {', '.join(KINDS)}"
        if bool(asked.answers) == (asked.kind == "unanswerable"):
            yield f"{where}: exactly the unanswerable questions have no answer"
        if asked.marked != asked.text and (asked.kind != "bridge" or not any(descriptions(asked))):
            yield f"{where}: brackets mark what a bridge describes"
        if asked.kind == "boolean" and asked.answers and asked.answers[0] not in ("yes", "no"):
            yield f"{where}: a boolean's answer is yes or no"
        for step in asked.steps:
            if _plain(step.quote) not in texts.get(step.path, ""):
                yield f"{where}: {step.path} does not hold {step.quote!r}"
            if step.answer and step.answer not in ("yes", "no") and _plain(step.answer) not in _plain(step.quote):
                yield f"{where}: {step.answer!r} is not in the quotation {step.quote!r}"
        if asked.answers:
            yield from _answer_faults(asked, where)


def _answer_faults(asked: Question, where: str) -> Iterator[str]:
    if not asked.steps:
        yield f"{where}: no step"
        return
    if asked.kind not in FREE and _plain(asked.answers[0]) != _plain(asked.steps[-1].answer):
        yield f"{where}: the last step's answer is {asked.steps[-1].answer!r}"
    if asked.kind not in FREE and _plain(asked.answers[0]) in _plain(asked.text):
        yield f"{where}: the question holds its answer"
    if asked.kind == "bridge":
        if len(asked.steps) < 2:
            yield f"{where}: a bridge has two steps or more"
        for step in asked.steps[:-1]:
            if step.answer and _plain(step.answer) in _plain(asked.text):
                yield f"{where}: the question names {step.answer!r}, which its step is to find"


def descriptions(asked: Question) -> Iterator[tuple[Described, Step]]:
    """The descriptions in a question, innermost first, each with the step that finds it; a later one is in the question
    about the answers before.

    >>> steps = [Step("a", "", "", "Dee"), Step("b", "", "", "Kit"), Step("c", "", "", "9")]
    >>> asked = Question("How old is [the dog of [the cook]]?", "bridge", ("9",), tuple(steps))
    >>> [described.about(step.answer) for described, step in descriptions(asked)]
    ['How old is the dog of Dee?', 'How old is Kit?']
    """
    marked = asked.marked
    for step in asked.steps[:-1]:
        if (innermost := _INNERMOST.search(marked)) is None:
            return
        start = len(_MARKS.sub("", marked[: innermost.start()]))
        yield Described(_MARKS.sub("", marked), start, start + len(innermost[1])), step
        marked = marked[: innermost.start()] + step.answer + marked[innermost.end() :]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()


def main(files: Sequence[str]) -> int:
    """Print the faults of the sets, and what there is of each kind; 1 if there are faults."""
    found = [read_set(Path(file)) for file in files] if files else list(sets())
    asked = [question for held in found for question in held.questions]
    kinds = ", ".join(f"{sum(each.kind == kind for each in asked)} {kind}" for kind in KINDS)
    documents = sum(len(held.documents) for held in found)
    wrong = (fault for held in found for fault in faults(held))
    return report(wrong, f"{len(found)} sets, {documents} documents, {len(asked)} questions: {kinds}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
