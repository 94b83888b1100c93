"""The command and its verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import write
from polyhop.cli.verbs import about, asking, corpora, data, results, serving, tune

app = typer.Typer(
    name="polyhop",
    help="Multi-hop question answering over your own documents, by any of the published methods, with any LM.",
    epilog="Options can also be set in the environment: --lm of run as POLYHOP_RUN_LM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"auto_envvar_prefix": "POLYHOP", "help_option_names": ["-h", "--help"]},
)
for room in (asking, results, corpora, data, serving, tune, about):
    app.add_typer(room.app)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[
        bool, opt.option("--version", allow_from_autoenv=False, help="Show the version and exit.")
    ] = False,
) -> None:
    if version:
        from polyhop import __version__

        write(f"{__version__}\n")
        raise typer.Exit
