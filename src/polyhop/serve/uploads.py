"""Uploaded corpora: indexed in a temporary folder of the server, kept within limits, and seen only by their client."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TypeAlias

from polyhop.common.progress import show_progress
from polyhop.common.text import counted
from polyhop.data.corpus import Corpus
from polyhop.errors import PolyhopError
from polyhop.retrieval.index import Index, build_index
from polyhop.serve.drafts import Draft, UploadLimits, storing
from polyhop.serve.errors import Busy, NotStored, NoUploads, Stopping, UnknownCorpus
from polyhop.serve.limits import CLIENT
from polyhop.serve.resources import Resources

MAX_AT_ONCE = 4
"""Maximum number of uploads that are received or indexed at once."""

_FREE_BYTES = 64 << 20
"""Disk space that stays free, besides twice the size of an upload."""

_REPORT_SECONDS = 0.1

_log = logging.getLogger("polyhop.serve")


@dataclass(frozen=True, slots=True)
class UploadStarted:
    """An upload that has arrived: the name that its corpus will have, and its size in bytes."""

    corpus: str
    bytes: int


@dataclass(frozen=True, slots=True)
class UploadProgress:
    """Progress of indexing: ``done`` of ``total`` things, which ``stage`` names (files, passages linked), and the
    passages so far."""

    stage: str
    done: int
    total: int | None
    passages: int


@dataclass(eq=False)
class Upload:
    """An uploaded corpus. ``key``: its unique name among all corpora of the service; ``readers``: the number of
    questions that read it."""

    key: str
    name: str
    client: str
    folder: Path
    index: Index
    files: int
    left_out: tuple[str, ...]
    guesses: tuple[str, ...]
    readers: int = 0


UploadEvent: TypeAlias = UploadStarted | UploadProgress | Upload
Receive: TypeAlias = Callable[[Draft], Awaitable[None]]
"""Receives the files of an upload."""


class Uploads:
    """The uploads of a service, in a temporary folder that only its owner can read. Used from one event loop; a client
    sees only its own.

    Args:
        limits: what is refused, and how much is kept; None refuses all uploads.
        resources: where corpora are opened.
        corpora: the names of the service's own corpora. The first one's language is that of uploads.
        method: the method whose retriever is opened for each upload.
        forget: called with the key of an upload that is deleted.
    """

    def __init__(
        self,
        limits: UploadLimits | None,
        resources: Resources,
        corpora: Sequence[str],
        method: str,
        forget: Callable[[str], object],
    ) -> None:
        self.limits = limits if resources.over_corpora else None
        self._resources, self._corpora, self._method, self._forgotten = resources, corpora, method, forget
        self._kept: dict[str, Upload] = {}
        self._used = defaultdict[str, set[str]](set)  # names of each client, also of deleted uploads
        self._drafts: set[Draft] = set()
        self._indexing: set[asyncio.Task[Upload]] = set()
        self._root: TemporaryDirectory[str] | None = None
        self._is_stopping = False

    def names(self) -> tuple[str, ...]:
        """Return the names of the current client's uploads, oldest first."""
        return tuple(upload.name for upload in self._own())

    def find(self, name: str | None) -> Upload | None:
        """Return the current client's upload of this name; None if it has none."""
        return next((upload for upload in self._own() if upload.name == name), None)

    async def add(self, size: int, receive: Receive) -> AsyncGenerator[UploadEvent, None]:
        """Receive and index an upload of at most ``size`` bytes: yield its start when it has arrived, its progress, and
        the upload. Leaving the loop stops the work, and nothing of it stays.

        Raises:
            NoUploads: the service takes none.
            Busy: too many uploads are under way.
            TooLarge, NotStored: it exceeds the limits, or there is no space for it.
            UsageError: it has no files, or none that can be read.
            Stopping: the service stops.
        """
        draft, indexing = self._begin(size), None
        try:
            await receive(draft)
            corpus = draft.corpus({*self._corpora, *self._used[draft.client], *self._names_of_drafts(draft)})
            yield UploadStarted(corpus.name, draft.bytes)
            loop, events = asyncio.get_running_loop(), asyncio.Queue[UploadProgress | None]()
            work = self._index(draft, corpus, lambda event: loop.call_soon_threadsafe(events.put_nowait, event))
            indexing = loop.create_task(work)
            self._indexing.add(indexing)
            indexing.add_done_callback(lambda _: events.put_nowait(None))
            indexing.add_done_callback(self._ended)
            while (event := await events.get()) is not None:
                yield event
            yield indexing.result()
        finally:
            if indexing is None:
                self._discard(draft)
            draft.stop()

    def delete(self, name: str) -> None:
        """Delete an upload of the current client: at once or, if it is read, after its last reader.

        Raises:
            UnknownCorpus: it has no upload of this name.
        """
        upload = self.find(name)
        if upload is None:
            raise UnknownCorpus("uploaded corpus", name[:200], self.names())
        self._drop(upload)

    @contextmanager
    def reading(self, name: str | None) -> Iterator[Upload | None]:
        """Yield the current client's upload of this name, and keep its files within the block."""
        upload = self.find(name)
        if upload is None:
            yield None
            return
        upload.readers += 1
        try:
            yield upload
        finally:
            upload.readers -= 1
            if upload.key not in self._kept:
                self._clear(upload)

    def stop(self) -> None:
        """Accept no more uploads, and stop those under way."""
        self._is_stopping = True
        for draft in self._drafts:
            draft.stop()

    async def aclose(self) -> None:
        """Stop, and delete everything."""
        self.stop()
        await asyncio.gather(*self._indexing, return_exceptions=True)
        self._kept.clear()
        if self._root is not None:
            self._root.cleanup()

    def _own(self) -> list[Upload]:
        return [upload for upload in self._kept.values() if upload.client == CLIENT.get()]

    def _names_of_drafts(self, own: Draft) -> list[str]:
        return [draft.name for draft in self._drafts if draft is not own and draft.client == own.client]

    def _begin(self, size: int) -> Draft:
        if self.limits is None:
            raise NoUploads("this server takes no uploads; its owner may allow them with --allow-uploads")
        if self._is_stopping:
            raise Stopping("the service is stopping; upload again later")
        if len(self._drafts) >= MAX_AT_ONCE:
            raise Busy(f"{counted(MAX_AT_ONCE, 'uploads')} are under way, which is the maximum; try again later")
        with storing():
            self._root = self._root or TemporaryDirectory(prefix="polyhop-uploads-", ignore_cleanup_errors=True)
            if shutil.disk_usage(self._root.name).free < 2 * size + _FREE_BYTES:
                raise NotStored("the server cannot store the upload: its disk is full")
            folder = Path(self._root.name) / token_hex(8)
            folder.mkdir(mode=0o700)
        draft = Draft(CLIENT.get(), folder, self.limits)
        self._drafts.add(draft)
        return draft

    def _discard(self, draft: Draft) -> None:
        self._drafts.discard(draft)
        draft.discard()

    async def _index(self, draft: Draft, corpus: Corpus, show: Callable[[UploadProgress], object]) -> Upload:
        try:
            upload = await asyncio.to_thread(self._build, draft, corpus, show)
            draft.check()
        except BaseException as error:
            self._forget(_key(draft))
            self._drafts.discard(draft)
            try:
                draft.check()
            except Stopping as stopped:
                raise stopped from error
            finally:
                draft.discard()
            raise
        self._drafts.discard(draft)
        self._kept[upload.key] = upload
        self._used[upload.client].add(upload.name)
        while self.limits and len(self._kept) > self.limits.corpora:
            counts = Counter(kept.client for kept in self._kept.values())
            self._drop(next(kept for kept in self._kept.values() if counts[kept.client] == max(counts.values())))
        return upload

    def _build(self, draft: Draft, corpus: Corpus, show: Callable[[UploadProgress], object]) -> Upload:
        stored = [path for path in draft.folder.iterdir() if path.is_file()]
        corpus.language = self._resources.language(self._corpora[0])
        with storing(), show_progress(Reporter(draft, corpus, show)):
            index = build_index(corpus, draft.folder / "index")
            for path in stored:  # the index has their passages
                path.unlink()
            unread, guesses = tuple(corpus.left_out), tuple(corpus.all_guesses)
            name, files = corpus.name, corpus.documents
            upload = Upload(_key(draft), name, draft.client, draft.folder, index, files, unread, guesses)
            self._resources.add(upload.key, index, self._method)
        return upload

    def _ended(self, task: asyncio.Task[Upload]) -> None:
        self._indexing.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, PolyhopError):
            _log.error("an upload failed", exc_info=error)

    def _drop(self, upload: Upload) -> None:
        del self._kept[upload.key]
        self._clear(upload)

    def _forget(self, key: str) -> None:
        self._resources.forget(key)
        self._forgotten(key)

    def _clear(self, upload: Upload) -> None:
        if not upload.readers:
            self._forget(upload.key)
            upload.index.let_go()
            shutil.rmtree(upload.folder, ignore_errors=True)


def _key(draft: Draft) -> str:
    return f"upload {draft.folder.name}"


class Reporter:
    """Shows the progress of a draft that is indexed, at most every tenth of a second. Raises ``Stopping`` once it is
    stopped. Given to ``show_progress``."""

    def __init__(self, draft: Draft, corpus: Corpus, show: Callable[[UploadProgress], object]) -> None:
        self._draft, self._corpus, self._show = draft, corpus, show
        self._noun, self._last = "", 0.0

    @contextmanager
    def __call__(self, noun: str, before: int) -> Iterator[Reporter]:
        """Open a display."""
        self._noun = noun
        yield self

    def update(self, done: int, total: int | None = None) -> None:
        """Report that ``done`` of ``total`` are done."""
        self._draft.check()
        if monotonic() - self._last >= _REPORT_SECONDS:
            self._last = monotonic()
            self._show(UploadProgress(self._noun, done, total, self._corpus.passages))
