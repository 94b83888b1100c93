"""The command line: results on stdout, everything else on stderr.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 waiting for the results of a batch.
"""

from __future__ import annotations

import gc
import io
import os
import shutil
import sys
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from typing import TextIO

    from polyhop.cli.progress import ProgressBar

COLLECT_AT = (20_000, 20, 20)
"""Thresholds of the garbage collector. A run makes many objects and few cycles: with the default of 700 objects,
collection took a fifth of a call's time."""


def main() -> None:
    """Run the ``polyhop`` command."""
    if os.path.basename(sys.argv[0]) == "polyhop" and sys.argv[1:] in (["--help"], ["-h"]):
        from polyhop.cli.help import help_text

        sys.stdout.write(help_text("polyhop", shutil.get_terminal_size().columns))
        sys.exit(0)
    gc.set_threshold(*COLLECT_AT)
    from polyhop.redaction import RedactedStream

    with redirect_stderr(cast("TextIO", RedactedStream(sys.stderr))):
        code = _run()
    sys.exit(code)


def _run() -> int | None:
    """Run the command and print its error; return the exit code."""
    from polyhop.cli.printing import print_error, warnings_shown
    from polyhop.common.progress import show_progress
    from polyhop.errors import PolyhopError

    try:
        with show_progress(_shown), warnings_shown():
            code = _command()
        sys.stdout.flush()
    except PolyhopError as error:
        print_error(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        print_error("stopped")
        code = 130
    except OSError as error:  # a full disk, or a file that may not be read or written
        if not isinstance(error, BrokenPipeError):  # the reader of a pipe has closed it
            print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
        code = 1
        _drop_output()
    except Exception:  # noqa: BLE001 - it is printed here, redacted
        import traceback

        traceback.print_exc()
        code = 1
    return code


def _command() -> int | None:
    """Run the command; return the exit code."""
    from typer import Abort

    from polyhop.cli.app import app
    from polyhop.cli.printing import say

    try:
        code: int | None = app(standalone_mode=False)
    except Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # wrong use: typer has its own copy of click, without a public name
            raise
        message = io.StringIO()
        error.show(message)  # type: ignore[attr-defined]
        say(message.getvalue().rstrip("\n"))
        code = error.exit_code  # type: ignore[attr-defined]
    return code


def _drop_output() -> None:
    """Discard stdout's buffer: Python would try to write it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _shown(noun: str, before: int) -> ProgressBar:
    from polyhop.cli.progress import ProgressBar  # late, so that help is quick

    return ProgressBar(noun, before)
