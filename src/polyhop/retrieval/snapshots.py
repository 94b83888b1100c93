"""The states of an index folder; its manifest names the current one.

A state is a folder inside the index folder whose files never change once they are sealed. A writer fills a new state
and seals it, which replaces the manifest in one step: whoever opens the index, also after the writer was killed, finds
the old state or the new one whole. Writers wait for each other. A reader holds its state by a shared lock, so what it
opened stays there; states that neither count nor are held are removed by writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from polyhop.common.files import locked
from polyhop.data.index_folder import INDEX_MANIFEST, INDEX_READERS, STATE_PREFIX, manifest_of, state_of
from polyhop.errors import IndexFolderError
from polyhop.retrieval.sealed_folder import (
    check,
    check_free,
    clear_left,
    ensure_dir,
    is_free,
    new_folder,
    remove,
    write_manifest,
    writing,
)

_WRITER = "writer.lock"


@contextmanager
def first_state(folder: Path, *, kind: str, overwrite: bool) -> Iterator[Path]:
    """Create a folder to fill and commit as the only state of a new index folder; removed unless the block ends well.

    With ``overwrite``, a folder of that kind may stand there; all it holds is given up once the new state is sealed.

    Raises:
        IndexFolderError: something stands there already, something else than a ``kind``, or it cannot be written.
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
    """Create a folder to fill and, perhaps, commit as the next state, once no other writer is at work. The remains of
    killed writers are removed, and this folder too if it is not committed.

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
    """Open the current state, checked: its folder, its manifest, and a lock that keeps it until closed.

    Raises:
        IndexFolderError: as ``folder.check``.
    """
    while True:
        named = manifest_of(folder)
        with ExitStack() as holding:
            holding.enter_context(locked(folder / state_of(named) / INDEX_READERS, wait=False, shared=True))
            try:
                facts = check(folder, kind=kind, version=version)
            except IndexFolderError:
                if named == manifest_of(folder):  # else a writer was quicker
                    raise
            else:
                if named == manifest_of(folder):
                    return folder / state_of(named), facts, holding.pop_all()


def _new(folder: Path) -> Path:
    state = ensure_dir(folder / f"{STATE_PREFIX}{token_hex(8)}", within=folder)
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
