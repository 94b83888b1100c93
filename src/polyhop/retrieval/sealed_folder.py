"""Folders on the disk that are complete or absent, and checked when they are opened: indexes and what belongs to them.

An index folder has states; its manifest names the current one. A state is a folder inside it whose files never change
once they are sealed. A writer fills a new state and seals it, which replaces the manifest in one step: whoever opens
the index, even after the writer was killed, finds either the old state or the new one. Writers wait for each other. A
reader holds its state by a shared lock, so that its files stay; writers remove states that are neither current nor
held.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import orjson

from polyhop._version import __version__
from polyhop.common.files import (
    cache_folder,
    check_inside,
    file_inside,
    locked,
    make_private,
    read_inside,
    set_permissions,
)
from polyhop.data.index_folder import INDEX_MANIFEST, INDEX_READERS, STATE_PREFIX, manifest_of, state_of
from polyhop.errors import IndexFolderError

_LOCK, _WRITTEN, _WRITER = ".building", f".{INDEX_MANIFEST}", "writer.lock"
OTHER_CACHE = "set POLYHOP_CACHE to a folder that can be written to"

_SAMPLES, _SAMPLE_BYTES = 64, 64 * 1024


@contextmanager
def new_folder(folder: Path, *, kind: str, overwrite: bool = False, within: Path | None = None) -> Iterator[Path]:
    """Build in a temporary folder beside ``folder``: renamed to it if the block succeeds, else removed.

    The next build of the same folder removes what a killed one left. With ``overwrite``, an earlier folder of the same
    kind is replaced; anything else is never touched. The folder is private to its owner (``files.make_private``), or
    has the permissions of the folder ``within``.

    Raises:
        IndexFolderError: the folder exists already, is something else than a ``kind``, or cannot be written.
    """
    check_free(folder, kind, overwrite)
    with _translate_errors(folder.parent, "name another folder"):
        folder.parent.mkdir(parents=True, exist_ok=True)  # it is not the index's: with the permissions of the umask
    clear_left(folder)
    building = folder.with_name(f".{folder.name}{_LOCK}-{token_hex(8)}")
    unnamed = folder.with_name(f".polyhop-{token_hex(8)}")
    ensure_dir(unnamed, within=within)
    try:
        with writing(folder), locked(unnamed / _LOCK):
            unnamed.rename(building)  # named only when locked: no other build takes it for a left one
            yield building
            (building / _LOCK).unlink(missing_ok=True)  # it does not exist if files cannot be locked
            _put_in_place(building, folder, kind, overwrite)
    except BaseException:
        remove(unnamed)
        remove(building)
        raise


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise system errors within the block, such as a full disk, as ``IndexFolderError``."""
    try:
        yield
    except OSError as error:
        why = error.strerror or f"the disk took no more ({error})"  # numpy's own errors have no system error
        raise IndexFolderError(f"cannot be written: {why}; what was there stays", folder) from error


def clear_left(folder: Path) -> None:
    """Remove what killed builds left next to a folder."""
    for left in folder.parent.glob(f"{_glob_literal(f'.{folder.name}{_LOCK}-')}*"):
        with locked(left / _LOCK, wait=False) as free:
            if free:
                remove(left)


def ensure_dir(folder: Path, instead: str = "name another folder", *, within: Path | None = None) -> Path:
    """Return the folder, created if missing: private to its owner (``files.make_private``), or with the permissions of
    the folder ``within``. If it cannot be created, ``IndexFolderError`` says what to do ``instead``."""
    with _translate_errors(folder, instead):
        if within is None:
            make_private(folder)
        else:
            folder.mkdir(within.stat().st_mode & 0o777, exist_ok=True)
    return folder


@contextmanager
def _translate_errors(folder: Path, instead: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IndexFolderError(f"the folder cannot be made: {error.strerror}; {instead}", folder) from None


def sidecar_dir(index: Path, name: str, key: str) -> Path:
    """Return the folder for data derived from an index: inside it or, if that is read-only, in the cache."""
    folder = index / name
    if folder.is_dir() or os.access(index, os.W_OK):
        return folder
    folder = cache_folder() / name / sha256(key.encode()).hexdigest()[:32]
    ensure_dir(folder.parent, OTHER_CACHE)
    return folder


def remove(folder: Path) -> None:
    """Remove a folder; repeat if a thread of tantivy, which checks for changes once, just left a lock file in it."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.01)


def write_manifest(folder: Path, *, kind: str, version: int, facts: Mapping[str, Any], state: str = "") -> None:
    """Write the manifest of a finished folder: its kind, format version, facts, and each file's size and checksum.

    ``state`` is the folder inside it that holds its files. They and the manifest are on the disk when this returns; an
    earlier manifest is replaced in one step.
    """
    base = folder / state
    files: dict[str, list[int]] = {}
    for path in _files(base):
        files[path.relative_to(base).as_posix()] = _measure(path)
        _on_disk(path)
    manifest = {"kind": kind, "version": version, "byte_order": sys.byteorder, "polyhop": __version__, **facts}
    manifest |= {"files": files, **({"state": state} if state else {})}
    manifest["checksum"] = _checksum(manifest)
    data = orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    written = base / _WRITTEN
    written.write_bytes(data)
    set_permissions(base, folder)
    for path in (written, base):
        _on_disk(path)
    written.replace(folder / INDEX_MANIFEST)
    _on_disk(folder)


def check(folder: Path, *, kind: str, version: int) -> dict[str, Any]:
    """Check that all files of a folder are unchanged; return its manifest.

    Checksums cover a file of up to 4 MB completely, and evenly spread samples of a larger one, so this takes
    milliseconds.

    Raises:
        IndexFolderError: the folder is missing, partial, damaged, of another kind or version, or cannot be read.
    """
    try:
        return _checked(folder, kind, version)
    except OSError as error:
        raise IndexFolderError(f"cannot be read: {error.strerror} ({error.filename})", folder) from error


def _checked(folder: Path, kind: str, version: int) -> dict[str, Any]:
    again = f"build the {kind} again"
    if not folder.is_dir():
        message = "a file, not a folder" if folder.is_file() else "no such folder"
        raise IndexFolderError(message, folder)
    try:
        content = read_inside(folder, INDEX_MANIFEST)
    except FileNotFoundError:
        message = f"not a polyhop {kind}, or a partial one: it has no {INDEX_MANIFEST}; {again}"
        raise IndexFolderError(message, folder) from None
    try:
        manifest = orjson.loads(content)
        found, files = (manifest["kind"], manifest["version"], manifest["byte_order"]), dict(manifest["files"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise IndexFolderError(f"its {INDEX_MANIFEST} is damaged ({error}); {again}", folder) from error
    if found != (kind, version, sys.byteorder):
        what = f"{found[0]} format {found[1]}, {found[2]}-endian, by polyhop {manifest.get('polyhop')}"
        raise IndexFolderError(f"written in {what}; this polyhop reads {kind} format {version}; {again}", folder)
    if manifest.pop("checksum", None) != _checksum(manifest):
        raise IndexFolderError(f"its {INDEX_MANIFEST} is damaged or was edited; {again}", folder)
    state = state_of(manifest)
    check_inside(folder, state)
    for name, written in files.items():
        try:
            file = file_inside(folder, Path(state, name))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise IndexFolderError(f"partial: {name} is missing; {again}", folder) from None
        if _measure(file) != written:
            raise IndexFolderError(f"{name} is truncated or damaged; {again}", folder)
    return cast(dict[str, Any], manifest)


def check_free(folder: Path, kind: str, overwrite: bool) -> None:
    """Raise ``IndexFolderError`` if ``folder`` exists and may not be replaced by a ``kind``."""
    if is_free(folder):
        return
    if not overwrite:
        raise IndexFolderError("exists already; overwrite it (--overwrite) or name another folder", folder)
    if manifest_of(folder).get("kind") != kind:
        raise IndexFolderError(f"is not a polyhop {kind}, so it is not overwritten; name another folder", folder)


def is_free(folder: Path) -> bool:
    """Return True if nothing exists there, or an empty folder."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _put_in_place(building: Path, folder: Path, kind: str, overwrite: bool) -> None:
    check_free(folder, kind, overwrite)
    if folder.exists():
        old = folder.with_name(f".{folder.name}{_LOCK}-{token_hex(8)}")
        folder.rename(old)
        building.rename(folder)
        remove(old)
    else:
        building.rename(folder)


def _files(folder: Path) -> list[Path]:
    """List the files of a folder, without its manifest, lock files and hidden folders."""
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(root, name) for name in names if name not in (INDEX_MANIFEST, _WRITTEN, _LOCK)]
    return sorted(path for path in found if path.suffix != ".lock")


def _on_disk(path: Path) -> None:
    """Wait until a file or folder is on the disk, if the system supports it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folder
        return
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _measure(path: Path) -> list[int]:
    """Return a file's size in bytes, and the CRC of evenly spread samples, or of all of a small file."""
    size = path.stat().st_size
    crc = 0
    with path.open("rb") as stream:
        for start in range(0, size, max(_SAMPLE_BYTES, size // _SAMPLES)):
            stream.seek(start)
            crc = zlib.crc32(stream.read(_SAMPLE_BYTES), crc)
        with suppress(OSError):
            stream.seek(-_SAMPLE_BYTES, os.SEEK_END)
            crc = zlib.crc32(stream.read(), crc)
    return [size, crc]


def _checksum(manifest: Mapping[str, Any]) -> int:
    return zlib.crc32(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS))


def _glob_literal(text: str) -> str:
    """Escape the characters that ``glob`` reads as patterns.

    >>> _glob_literal(".my[idx]")
    '.my[[]idx]'
    """
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


# --- the states of an index folder ------------------------------------------------------------------------------------


@contextmanager
def first_state(folder: Path, *, kind: str, overwrite: bool) -> Iterator[Path]:
    """Create a folder to fill and commit as the only state of a new index folder; removed if the block fails.

    With ``overwrite``, a folder of that kind may exist; its content is removed once the new state is sealed.

    Raises:
        IndexFolderError: something exists there already, is no ``kind``, or it cannot be written.
    """
    check_free(folder, kind, overwrite)
    if is_free(folder):
        with new_folder(folder, kind=kind) as building:
            yield _new(building)
        return
    clear_left(folder)
    with next_state(folder) as state:
        yield state
        _clear(folder, keep_others=False)


@contextmanager
def next_state(folder: Path) -> Iterator[Path]:
    """Create a folder to fill and perhaps commit as the next state, once no other writer is active. What killed writers
    left is removed, and this folder too if it is not committed.

    Raises:
        IndexFolderError: the index folder cannot be written to.
    """
    with writing(folder), locked(folder / _WRITER) as held:
        if not held:
            raise IndexFolderError("cannot be written to, so it cannot be changed", folder)
        _clear(folder)
        try:
            yield _new(folder)
        finally:
            _clear(folder)


def commit_state(state: Path, *, kind: str, version: int, facts: Mapping[str, Any]) -> None:
    """Make a filled state the current one."""
    write_manifest(state.parent, kind=kind, version=version, facts=facts, state=state.name)


def read_state(folder: Path, *, kind: str, version: int) -> tuple[Path, dict[str, Any], ExitStack]:
    """Check and open the current state: its folder, its manifest, and a lock that keeps it until it is closed.

    Raises:
        IndexFolderError: as for ``check``.
    """
    while True:
        named = manifest_of(folder)
        with ExitStack() as holding:
            holding.enter_context(locked(folder / state_of(named) / INDEX_READERS, wait=False, shared=True))
            try:
                facts = check(folder, kind=kind, version=version)
            except IndexFolderError:
                if named == manifest_of(folder):  # otherwise a writer was faster
                    raise
            else:
                if named == manifest_of(folder):
                    return folder / state_of(named), facts, holding.pop_all()


def _new(folder: Path) -> Path:
    state = folder / f"{STATE_PREFIX}{token_hex(8)}"
    state.mkdir(folder.stat().st_mode & 0o777)
    (state / INDEX_READERS).touch()
    return state


def _clear(folder: Path, *, keep_others: bool = True) -> None:
    """Remove the states that are neither current nor held; with ``keep_others`` false, everything else too."""
    current = state_of(manifest_of(folder))
    if not current:  # the current state is unknown
        return
    for path in folder.iterdir():
        if path.name.startswith(STATE_PREFIX) and path.name != current:
            with locked(path / INDEX_READERS, wait=False) as free:
                if free:
                    remove(path)
        elif not keep_others and path.name not in (current, INDEX_MANIFEST, _WRITER):
            remove(path) if path.is_dir() else path.unlink()
