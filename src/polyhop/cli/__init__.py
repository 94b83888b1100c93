"""The command line, a thin roof: results on stdout, all else on stderr; exit 0 done, 1 failed, 2 wrong
use, 3 the results of a batch are waited for."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from typing import TextIO

    from polyhop.cli.progress import Watched

_WIDTH = 80
"""Columns that help is set in, where a terminal has as many."""
COLLECT_AT = (20_000, 20, 20)
"""When Python looks for cycles: seldom. A run makes a great many objects and next to no cycles; at the usual 700
objects the search took a fifth of a call's time."""


def main() -> None:
    """The ``polyhop`` command."""
    if told := _written_help():
        sys.stdout.write(told)
        sys.exit(0)
    gc.set_threshold(*COLLECT_AT)
    from polyhop.redaction import RedactedStream

    with redirect_stderr(cast("TextIO", RedactedStream(sys.stderr))):
        _run()


def _run() -> None:
    from polyhop.cli.app import app
    from polyhop.errors import PolyhopError
    from polyhop.watching import watching

    try:
        with watching(_shown):
            app()
    except PolyhopError as error:
        print(f"polyhop: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("polyhop: stopped", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except Exception:  # noqa: BLE001 - it is printed here, redacted
        import traceback

        traceback.print_exc()
        sys.exit(1)


def _written_help() -> str | None:
    """What ``polyhop --help`` prints, where that is asked for: ``help.txt`` holds it, because to import what would make
    it takes most of a short command's time."""
    asked = os.path.basename(sys.argv[0]) == "polyhop" and sys.argv[1:] in (["--help"], ["-h"])
    if not asked or shutil.get_terminal_size().columns < _WIDTH:
        return None
    with open(os.path.join(os.path.dirname(__file__), "help.txt"), encoding="utf-8") as text:
        return text.read()


def _shown(noun: str, before: int) -> Watched:
    from polyhop.cli.progress import Watched  # late, so that help is quick

    return Watched(noun, before)
