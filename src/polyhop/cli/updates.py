"""``polyhop index add`` and ``polyhop index remove``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from polyhop.cli import show as draw
from polyhop.cli.ask import say_left_out
from polyhop.cli.progress import ProgressBar
from polyhop.common.text import counted
from polyhop.data.corpora import Corpus
from polyhop.errors import DataError, UsageError
from polyhop.retrieval.updating import Updated, add_passages, remove_passages


def run_add(index: Path, corpus: Corpus, replace: bool, as_json: bool) -> None:
    """Add a corpus' passages to an index, with progress."""
    with ProgressBar("passages") as progress:
        done = add_passages(index, corpus, replace=replace, progress=progress.update)
    _say(done, as_json)
    say_left_out(corpus)


def run_remove(index: Path, ids: Sequence[str], file: Path | None, missing_ok: bool, as_json: bool) -> None:
    """Remove the passages with these ids, and with those in a file, from an index."""
    if file is None and not ids:
        raise UsageError("which passages? name their ids, or a file of them (--ids)")
    _say(remove_passages(index, [*ids, *(_ids_in(file) if file else [])], missing_ok=missing_ok), as_json)


def _ids_in(file: Path) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return [id for line in data.decode("utf-8-sig").split("\n") if (id := line.rstrip("\r"))]
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file) from None
    except UnicodeDecodeError as error:
        raise DataError(f"is no text in UTF-8: {error.reason} at byte {error.start}", file) from None


def _say(done: Updated, as_json: bool) -> None:
    counts = {name: getattr(done, name) for name in ("added", "replaced", "standing", "removed")}
    passages = len(done.index)
    if as_json:
        draw.print_json({**counts, "passages": passages, "fingerprint": done.index.fingerprint})
        return
    words = {"added": "added", "replaced": "replaced", "standing": "there already", "removed": "removed"}
    parts = [f"{count} {words[name]}" for name, count in counts.items() if count]
    draw.console().print(Text(f"{', '.join(parts) or 'nothing to do'}; {counted(passages, 'passages')}"))
