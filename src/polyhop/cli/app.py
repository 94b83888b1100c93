"""The command: its verbs are loaded when they are called."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from polyhop.cli import options as opt
from polyhop.cli.help import EPILOG, SUMMARY, VERBS, VERSION, help_text
from polyhop.cli.printing import write


class _Verbs(Mapping[str, Any]):
    """The verbs by name; each is loaded when it is first used."""

    def __getitem__(self, name: str) -> Any:
        module = import_module(f"polyhop.cli.{VERBS[name].module}")
        return typer.main.get_group(module.app).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class _Command(TyperGroup):
    """The command ``polyhop``, which prints its help without loading any verb."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Verbs()  # type: ignore[assignment]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # typer would end without a word
            raise typer.Abort from None

    def get_help(self, ctx: Any) -> str:
        return help_text(ctx.command_path, shutil.get_terminal_size().columns).rstrip("\n")


app = opt.new_app(
    name="polyhop",
    cls=_Command,
    help=SUMMARY,
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": "POLYHOP", "help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, opt.option("--version", allow_from_autoenv=False, help=VERSION)] = False,
) -> None:
    if version:
        from polyhop import __version__

        write(f"{__version__}\n")
        raise typer.Exit
