"""Folders that are written whole or not at all, and checked when opened: an index, and what is added to it later."""

from __future__ import annotations

import os
import shutil
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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
from polyhop.data.index_folder import INDEX_MANIFEST, manifest_of, state_of
from polyhop.errors import IndexFolderError

_LOCK, _WRITTEN = ".building", f".{INDEX_MANIFEST}"
OTHER_CACHE = "set POLYHOP_CACHE to a folder that can be written to"

_SAMPLES, _SAMPLE_BYTES = 64, 64 * 1024


@contextmanager
def new_folder(folder: Path, *, kind: str, overwrite: bool = False, within: Path | None = None) -> Iterator[Path]:
    """Build in a temporary folder beside ``folder``: renamed to it when the block ends well, else removed.

    The next build of the same folder removes the remains of a killed one. With ``overwrite`` an earlier folder of the
    same kind is replaced; anything else that exists there is never touched. The folder is for its owner alone
    (``files.make_private``), or for those who may read the folder ``within``.

    Raises:
        IndexFolderError: the folder exists already, is something else than a ``kind``, or cannot be written.
    """
    check_free(folder, kind, overwrite)
    with _translate_errors(folder.parent, "name another folder"):
        folder.parent.mkdir(parents=True, exist_ok=True)  # not of the index: as the umask has it
    clear_left(folder)
    building = folder.with_name(f".{folder.name}{_LOCK}-{token_hex(8)}")
    unnamed = folder.with_name(f".polyhop-{token_hex(8)}")
    ensure_dir(unnamed, within=within)
    try:
        with writing(folder), locked(unnamed / _LOCK):
            unnamed.rename(building)  # named once locked: another build never takes it for left behind
            yield building
            (building / _LOCK).unlink(missing_ok=True)  # it does not exist if files cannot be locked
            _put_in_place(building, folder, kind, overwrite)
    except BaseException:
        remove(unnamed)
        remove(building)
        raise


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise errors of the system within the block, such as a full disk, as ``IndexFolderError``."""
    try:
        yield
    except OSError as error:
        why = error.strerror or f"the disk took no more ({error})"  # numpy's own words have no error of the system
        raise IndexFolderError(f"cannot be written: {why}; what was there stays", folder) from error


def clear_left(folder: Path) -> None:
    """Remove the remains of killed builds beside a folder."""
    for left in folder.parent.glob(f"{_glob_literal(f'.{folder.name}{_LOCK}-')}*"):
        with locked(left / _LOCK, wait=False) as free:
            if free:
                remove(left)


def ensure_dir(folder: Path, instead: str = "name another folder", *, within: Path | None = None) -> Path:
    """The folder, made now if it is not there: for its owner alone (``files.make_private``), or as the folder
    ``within`` that it stands.

    ``IndexFolderError`` says what to do ``instead`` if it cannot be made.
    """
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
    """The folder for data derived from an index: ``name`` inside it or, if that is read-only, one in the cache."""
    folder = index / name
    if folder.is_dir() or os.access(index, os.W_OK):
        return folder
    folder = cache_folder() / name / sha256(key.encode()).hexdigest()[:32]
    ensure_dir(folder.parent, OTHER_CACHE)
    return folder


def remove(folder: Path) -> None:
    """Remove a folder, and again where a thread of tantivy's, which looks once for changes, just left a lock file."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.01)


def write_manifest(folder: Path, *, kind: str, version: int, facts: Mapping[str, Any], state: str = "") -> None:
    """Write the manifest of a finished folder: its kind, format version, facts, and each file's size and checksum.

    ``state``: the folder inside it where its files stand (``snapshots.py``). They and the manifest are on the disk once
    this returns; an earlier manifest is replaced in one step.
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
    """Check that all files of a folder are as they were written; return its manifest.

    Checksums cover all of a file up to 4 MB and evenly spread samples of a larger one, so this takes milliseconds.

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
    """True if nothing exists there, or an empty folder."""
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
    """Every file of a folder but its manifest and lock files, and but what was made later in folders of their own."""
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(root, name) for name in names if name not in (INDEX_MANIFEST, _WRITTEN, _LOCK)]
    return sorted(path for path in found if path.suffix != ".lock")


def _on_disk(path: Path) -> None:
    """Wait until a file or folder is on the disk, if the system supports that."""
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
    """Size in bytes, and the CRC of a file's evenly spread samples (of all of it where it is small)."""
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
    """``text`` with the characters that ``glob`` reads as patterns made plain.

    >>> _glob_literal(".my[idx]")
    '.my[[]idx]'
    """
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
