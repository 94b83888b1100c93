"""A corpus: a re-iterable stream of passages in constant memory, with counts of what is not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from polyhop.common.progress import report_progress
from polyhop.common.text import printable
from polyhop.data.index_folder import is_index
from polyhop.data.passages import Items, Location, passage_id
from polyhop.errors import DataError
from polyhop.types import Passage

Unread: TypeAlias = Counter[tuple[str, str]]
"""The number of files of a folder that are not read, by kind and reason."""

Read: TypeAlias = Callable[[], Items]

_REPORT_EVERY = 1000  # passages
_MAX_NAMED = 8  # kinds of files, and bad documents, that a summary names


class Corpus:
    """A named stream of passages. Each iteration reads it again; nothing is held.

    Attributes:
        name: the name of its file or folder, for people.
        path: its file or folder; None for passages handed in.
        passages, documents: the numbers that the latest iteration read; ``documents`` is 0 unless they are documents.
        skipped: the number of bad lines left out with ``skip_bad``, or of documents of a folder that cannot be read;
            ``faults`` names the first of such documents, with the reason.
        guesses: the first documents whose encoding was guessed, with its name; ``guessed`` is their number.
        language: the language of its texts, for search; None for English or, for an index folder, the language it was
            built in.
    """

    language: str | None = None

    def __init__(
        self,
        name: str,
        read: Read,
        fingerprint: Callable[[], str],
        *,
        path: Path | None,
        skip_bad: bool,
        unread: Callable[[], Unread] | None = None,
        count: Callable[[], int] | None = None,
    ) -> None:
        self.name, self.path, self.skip_bad = name, path, skip_bad
        self._read, self._fingerprint, self._unread, self._count = read, fingerprint, unread, count
        self._reset()

    def _reset(self) -> None:
        self.passages = self.documents = self.skipped = self.guessed = 0
        self.faults: list[str] = []
        self.guesses: list[str] = []

    def __repr__(self) -> str:
        return f"Corpus({self.name!r})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that change with the passages. For files, a cheap digest of size, time and sampled content."""
        return self._fingerprint()

    @property
    def is_index(self) -> bool:
        """True if this is the corpus inside an index folder."""
        return self.path is not None and is_index(self.path)

    @property
    def facts(self) -> dict[str, Any]:
        """The counts of the latest iteration, which an index of this corpus stores."""
        return {name: getattr(self, name) for name in ("documents", "skipped", "guessed", "faults", "guesses")}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore ``facts`` from an index of this corpus, as they were when it was built."""
        numbers = [facts.get(name) for name in ("passages", "documents", "skipped", "guessed")]
        self.passages, self.documents, self.skipped, self.guessed = (n if isinstance(n, int) else 0 for n in numbers)
        lists = [facts.get(name) for name in ("faults", "guesses")]
        self.faults, self.guesses = (
            [printable(str(item)) for item in items] if isinstance(items, list) else [] for items in lists
        )

    @property
    def left_out(self) -> list[str]:
        """Everything that is not read: files by kind, links out of the folder, and the bad documents (by name) and bad
        lines (by number) of the latest iteration. Scans a folder again."""
        kinds = (self._unread() if self._unread else Unread()).most_common()
        shown = [f"{_count_text(number, kind)} ({reason})" for (kind, reason), number in kinds[:_MAX_NAMED]]
        if more := sum(number for _, number in kinds[_MAX_NAMED:]):
            shown.append(f"{_count_text(more, 'file')} of other kinds")
        shown += self.faults
        if more := self.skipped - len(self.faults):
            kind = "malformed line" if self._unread is None else "more document" if self.faults else "document"
            shown.append(_count_text(more, kind))
        return shown

    @property
    def all_guesses(self) -> list[str]:
        """The documents whose encoding was guessed: the first by name, the number of the others."""
        more = self.guessed - len(self.guesses)
        return [*self.guesses, *([_count_text(more, "more file")] if more else [])]

    @property
    def summary(self) -> str:
        """The numbers read and left out, in words."""
        files = [_count_text(self.documents, "file")] if self.documents else []
        read = ", ".join([*files, _count_text(self.passages, "passage")])
        named = {"left out": self.left_out, "encoding guessed": self.all_guesses}
        return "; ".join([read, *(f"{name}: {', '.join(items)}" for name, items in named.items() if items)])

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in order.

        Raises:
            DataError: a line or row is malformed (the message gives file and number), unless ``skip_bad``; or there is
                no passage.
        """
        return (passage for passage, _ in self._valid())

    def unique(self) -> Iterator[Passage]:
        """Yield the passages in order, each id once, to build an index from. Holds the ids, and reports progress: of
        documents, the number of files.

        Raises:
            DataError: as iterating does, and for a repeated id, unless ``skip_bad``.
        """
        total = self._count() if self._count else None
        with report_progress("passages" if total is None else "files") as report:
            yield from self._unique(lambda: self._report(report, total))

    def _report(self, report: Callable[[int, int | None], object], total: int | None) -> None:
        if total is not None:
            report(self.documents + self.skipped - 1, total)  # the latest is not finished
        elif self.passages % _REPORT_EVERY == 0:
            report(self.passages, None)

    def _unique(self, read_on: Callable[[], object]) -> Iterator[Passage]:
        seen: set[str] = set()
        for passage, location in self._valid():
            read_on()
            if passage.id not in seen:
                seen.add(passage.id)
                yield passage
            elif passage.id == passage_id(passage.title, passage.text):
                self.passages -= 1  # the same passage again
            elif self.skip_bad:
                self.passages, self.skipped = self.passages - 1, self.skipped + 1
            else:
                raise DataError(
                    f"duplicate id {passage.id!r}{self._first_location(passage.id, location[0])}", *location
                )

    def _valid(self) -> Iterator[tuple[Passage, Location]]:
        self._reset()
        latest = None
        for item, location in self._read():
            if isinstance(item, Passage):
                self.passages += 1
                if self._unread and location[0] != latest:
                    latest = location[0]
                    self._count_document(item)
                yield item, location
            elif self.skip_bad:
                self._skip(item, location)
            else:
                raise item
        if not self.passages:
            excuse = f"; left out: {', '.join(left_out)}" if (left_out := self.left_out) else ""
            raise DataError(f"no passages in it{excuse}", self.path or self.name)

    def _count_document(self, first: Passage) -> None:
        """Count the document of a passage, the first from it."""
        self.documents += 1
        if encoding := first.metadata.get("encoding"):
            self.guessed += 1
            if len(self.guesses) < _MAX_NAMED:
                self.guesses.append(printable(f"{first.metadata['source']} ({encoding})"))

    def _skip(self, fault: DataError, location: Location) -> None:
        self.skipped += 1
        path = location[0]
        if self._unread and path and len(self.faults) < _MAX_NAMED:
            name = path.relative_to(self.path) if self.path and self.path != path else path.name if self.path else path
            reason = str(fault).removeprefix(f"{path}: ")
            self.faults.append(printable(f"{name} ({reason})"))

    def _first_location(self, id: str, here: Path | None) -> str:
        """Describe the first use of ``id`` in an error message; reads again up to it."""
        for item, (path, line) in self._read():
            if isinstance(item, Passage) and item.id == id:
                on_line = f" on line {line}" if line else ""
                in_file = f" in {path}" if path != here or not line else ""
                return f"; first{on_line}{in_file}" if path else ""
        return ""


def _count_text(number: int, kind: str) -> str:
    """Return a number with its noun.

    >>> _count_text(1, "file"), _count_text(2, "file without a suffix"), _count_text(2, ".pptx")
    ('1 file', '2 files without a suffix', '2 .pptx')
    """
    noun, gap, rest = kind.partition(" without")
    return f"{number:,} {noun}{'s' * (number != 1 and not kind.startswith('.'))}{gap}{rest}"
