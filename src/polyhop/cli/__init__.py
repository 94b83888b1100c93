"""The command line, a thin roof: results on stdout, all else on stderr; exit 0 done, 1 failed, 2 wrong use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyhop.cli.progress import Watched


def main() -> None:
    """The ``polyhop`` command."""
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


def _shown(noun: str, before: int) -> Watched:
    from polyhop.cli.progress import Watched  # late, so that help is quick

    return Watched(noun, before)
