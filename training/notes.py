"""Short notes in two versions, with questions that the versions answer differently.

One file holds many notes. A note begins with ``# title``; its versions follow in lines of ``> text`` (the first) and
``< text`` (the second, which changes a few facts), then its questions, each with its answer by either version:

* ``+- Is the library open on Sundays?``: yes (``+``), no (``-``), or the version does not say (``?``);
* ``= When does it close? :: at six :: at eight``: words of the version, or nothing where it does not say.

A blank line ends a note. ``python -m training.notes [FILE ...]`` prints the faults, and what there is.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.checking import report

FOLDER = Path(__file__).parent / "notes"
ANSWERS = {"+": "yes", "-": "no", "?": "none"}
"""The meaning of each mark of a question of yes or no."""
_YES_NO = re.compile(r"([-+?])([-+?]) (\S.*)")


@dataclass(frozen=True)
class Asked:
    """A question, and its answer by each version of a note: "yes", "no", "none", or words of the version."""

    text: str
    answers: tuple[str, str]
    yes_or_no: bool


@dataclass
class Note:
    """A note: its title, its two versions, its questions, and where it stands."""

    title: str
    where: str
    versions: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    questions: list[Asked] = field(default_factory=list)

    @property
    def texts(self) -> tuple[str, str]:
        """The text of each version."""
        return "\n".join(self.versions[0]), "\n".join(self.versions[1])


def notes(folder: Path = FOLDER) -> Iterator[Note]:
    """Read all notes of a folder, in the order of the files' names."""
    for file in sorted(folder.glob("*.txt")):
        yield from read_notes(file)


def read_notes(file: Path) -> Iterator[Note]:
    """Read the notes of a file.

    Raises:
        ValueError: a line that has no meaning, with file and line number.
    """
    note: Note | None = None
    for number, line in enumerate([*file.read_text(encoding="utf-8").splitlines(), "# "], 1):
        if line.startswith("# "):
            if note:
                yield note
            note = Note(line[2:].strip(), f"{file}:{number}")
        elif not line.strip():
            continue
        elif note is None:
            raise ValueError(f"{file}:{number}: text before the first '# title'")
        elif line[:2] in ("> ", "< "):
            note.versions["><".index(line[0])].append(line[2:].strip())
        elif match := _YES_NO.fullmatch(line.strip()):
            note.questions.append(Asked(match[3], (ANSWERS[match[1]], ANSWERS[match[2]]), yes_or_no=True))
        elif line.startswith("= ") and len(parts := [part.strip() for part in line[2:].split("::")]) == 3:
            note.questions.append(Asked(parts[0], (parts[1] or "none", parts[2] or "none"), yes_or_no=False))
        else:
            raise ValueError(
                f"{file}:{number}: neither '#', '>', '<', two marks of + - ? nor '= a :: b :: c': {line[:40]!r}"
            )


def faults(note: Note) -> Iterator[str]:
    """Find the faults of a note: a version or questions missing, versions alike, answers that are not in the text."""
    where = f"{note.where} {note.title!r}"
    if not all(note.texts) or len(note.questions) < 2:
        yield f"{where}: a note has two versions and at least two questions"
    if note.texts[0] == note.texts[1]:
        yield f"{where}: the versions are the same"
    for asked in note.questions:
        if asked.yes_or_no:
            continue
        for text, answer in zip(note.texts, asked.answers, strict=True):
            if answer != "none" and _plain(answer) not in _plain(text):
                yield f"{where}: {answer!r} is not in its version"
            if answer != "none" and _plain(answer) in _plain(asked.text):
                yield f"{where}: {asked.text!r} holds its answer"


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()


def main(files: Sequence[str]) -> int:
    """Print the faults of the notes, and what there is of each answer; 1 if there are faults."""
    found = [note for file in files for note in read_notes(Path(file))] if files else list(notes())
    counts = Counter(
        answer if asked.yes_or_no else "not told" if answer == "none" else "words"
        for note in found for asked in note.questions for answer in asked.answers
    )  # fmt: skip
    answers = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return report((fault for note in found for fault in faults(note)), f"{len(found)} notes: {answers}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
