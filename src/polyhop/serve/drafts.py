"""The files of an upload while they arrive, in a private folder and within limits.

Nothing that a client sends becomes a path. A file is stored under a number and one of our own suffixes; the path that
the client gives is text, shown as the source of its passages.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from polyhop.common.text import counted, normalise_unicode, printable
from polyhop.data.converting.converter import Converter, suffix_of
from polyhop.data.corpora import corpus_of_files
from polyhop.data.corpus import Corpus
from polyhop.data.documents import kind_of, unreadable
from polyhop.errors import IndexFolderError, UsageError
from polyhop.serve.errors import NotStored, Stopping, TooLarge

MAX_NAME = 60
"""Maximum characters of a corpus' name."""

_DEFAULT_NAME = "My files"

_MAX_PART, _MAX_DEPTH = 200, 20  # characters of a part of a path, and number of its parts
_MAX_SUFFIX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """Limits of uploads.

    Attributes:
        files: maximum number of files of an upload.
        file_bytes: maximum size of a file; a larger one is left out.
        total_bytes: maximum size of an upload.
        corpora: maximum number of uploaded corpora that are kept. For another one, the oldest is deleted: of the client
            that has the most.
    """

    files: int = 2_000
    file_bytes: int = 50_000_000
    total_bytes: int = 200_000_000
    corpora: int = 8

    @property
    def body_bytes(self) -> int:
        """The maximum size of a request's body, which also has a head for each file."""
        return self.total_bytes + 4_096 * (self.files + 2)


class Draft:
    """The files of an upload while they arrive. Any step raises ``Stopping`` once it is stopped.

    Attributes:
        client: the key of the request.
        folder: its private folder.
        name: the name that the client gives the corpus, "" for none; then the name that it gets.
        unread: the number of files left out, by kind and reason.
        bytes: the size of everything that arrived.
        is_stopped: True when nobody waits for it any more.
    """

    def __init__(self, client: str, folder: Path, limits: UploadLimits) -> None:
        self.client, self.folder, self.name, self.bytes = client, folder, "", 0
        self.unread = Counter[tuple[str, str]]()
        self.is_stopped = False
        self._converter = Converter()
        self._limits = limits
        self._paths: dict[str, Path] = {}
        self._count = self._size = 0
        self._shown = ""
        self._stream: BinaryIO | None = None

    def begin(self, path: str) -> None:
        """Begin a file. Hidden files are passed over, as in a folder."""
        self.check()
        self._count, self._size, self._shown = self._count + 1, 0, shown_path(path)
        if self._count > self._limits.files:
            raise TooLarge(f"the upload has more than {counted(self._limits.files, 'files')}, which is the maximum")
        if not self._shown or any(part.startswith(".") for part in self._shown.split("/")):
            return
        if reason := unreadable(self._shown):
            self.unread[kind_of(self._shown), reason] += 1
            return
        with storing():
            self._stream = self._path.open("xb")

    def write(self, data: bytes) -> None:
        """Take the next part of the file."""
        self.check()
        self.bytes += len(data)
        self._size += len(data)
        if self.bytes > self._limits.total_bytes:
            raise TooLarge(f"the upload has more than {in_megabytes(self._limits.total_bytes)}, which is the maximum")
        if self._stream is None:
            return
        with storing():
            if self._size <= self._limits.file_bytes:
                self._stream.write(data)
                return
            self._close()
            self._path.unlink()
        self.unread[kind_of(self._shown), f"larger than {in_megabytes(self._limits.file_bytes)}"] += 1

    def end(self) -> None:
        """End the file."""
        if self._stream is None:
            return
        with storing():
            self._close()
        suffix = Path(self._shown).suffix
        self._paths[_free_name(self._shown.removesuffix(suffix), self._paths, suffix)] = self._path

    def corpus(self, taken: Collection[str]) -> Corpus:
        """Return the corpus of the files, which have all arrived. A folder that all of them are in is left out of their
        paths, and names the corpus if the client does not; a name that is ``taken`` gets a number.

        Raises:
            UsageError: there are no files.
        """
        self.check()
        if not self._count:
            raise UsageError("the upload has no files")
        files = dict(sorted(self._paths.items()))
        tops = {path.partition("/")[0] if "/" in path else "" for path in files}
        top = next(iter(tops)) if len(tops) == 1 else ""
        if top:
            files = {path.removeprefix(f"{top}/"): stored for path, stored in files.items()}
        self.name = _free_name(corpus_name(self.name) or corpus_name(top) or _DEFAULT_NAME, taken)
        return corpus_of_files(self.name, files, self.unread, self._converter)

    def check(self) -> None:
        """Raise ``Stopping`` if it is stopped."""
        if self.is_stopped:
            raise Stopping("the upload was stopped before it was complete; upload it again")

    def stop(self) -> None:
        """End the work on it, on whatever thread: at its next step, or at once if a document is converted."""
        self.is_stopped = True
        self._converter.stop()

    def discard(self) -> None:
        """Delete everything of it."""
        self.stop()
        with suppress(OSError):  # what it still had to write
            self._close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _path(self) -> Path:
        return self.folder / f"{self._count:06}{suffix_of(self._shown)}"

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def shown_path(given: str) -> str:
    """Return a path as it is shown: one line of text, relative, with slashes, of bounded length.

    >>> shown_path("C:\\\\notes\\\\..\\\\day 1.md"), shown_path("/etc/\\x00passwd"), shown_path("../")
    ('C:/notes/day 1.md', 'etc/passwd', '')
    """
    parts = (printable(normalise_unicode("NFC", part)) for part in given[:10_000].replace("\\", "/").split("/"))
    return "/".join([_cut(part) for part in parts if part not in ("", ".", "..")][-_MAX_DEPTH:])


def corpus_name(given: str) -> str:
    """Return a name for a corpus as it is shown.

    >>> corpus_name("  my/notes@home\\n")
    'my notes home'
    """
    return printable("".join(" " if c in "/\\@" else c for c in normalise_unicode("NFC", given)))[:MAX_NAME].strip()


def in_megabytes(size: int) -> str:
    """Return a size in words.

    >>> in_megabytes(50_000_000), in_megabytes(1_500_000), in_megabytes(900)
    ('50 MB', '1.5 MB', '900 bytes')
    """
    return f"{size / 1e6:.3g} MB" if size >= 100_000 else counted(size, "bytes")


@contextmanager
def storing() -> Iterator[None]:
    """Raise system errors within the block, such as a full disk, as ``NotStored``."""
    try:
        yield
    except (OSError, IndexFolderError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        why = getattr(cause, "strerror", None) or type(cause).__name__
        raise NotStored(f"the server cannot store the upload: {why}") from error


def _cut(part: str) -> str:
    """Cut the name of a file or folder, but not its suffix."""
    if len(part) <= _MAX_PART:
        return part
    suffix = Path(part).suffix[:_MAX_SUFFIX]
    return f"{part[: _MAX_PART - len(suffix)]}{suffix}"


def _free_name(stem: str, taken: Collection[str], suffix: str = "") -> str:
    """Return a name that is not taken, with a number if need be.

    >>> _free_name("a", {"a.md", "a (2).md"}, ".md")
    'a (3).md'
    """
    name, number = f"{stem}{suffix}", 1
    while name in taken:
        number += 1
        name = f"{stem} ({number}){suffix}"
    return name
