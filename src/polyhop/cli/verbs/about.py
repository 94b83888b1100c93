"""Information: methods, prompts, this installation."""

from __future__ import annotations

from typing import Annotated

import typer

from polyhop.cli import options as opt

app = typer.Typer()
prompts_app = typer.Typer(help="Show the prompts: each is a text file.", no_args_is_help=True)
app.add_typer(prompts_app, name="prompts")


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Show one method in full.")] = None,
    as_json: opt.Json = False,
) -> None:
    """List the methods by family: papers, needs, calls, settings. Calls are typical calls per question."""
    from polyhop.cli.info import run_methods

    run_methods(name, as_json)


@prompts_app.command("list")
def prompts_list(prompts: opt.Prompts = None, as_json: opt.Json = False) -> None:
    """List the prompt tasks: role, fields, output."""
    from polyhop.cli.info import run_prompts_list

    run_prompts_list(prompts, as_json)


@prompts_app.command("show")
def prompts_show(
    task: Annotated[str, typer.Argument(help="A prompt task, such as tor.review.")],
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    rendered: Annotated[
        bool, opt.option("--rendered", help="Show it as the model sees it, with demonstrations.")
    ] = False,
) -> None:
    """Show a prompt file, or the prompt as the model sees it."""
    from polyhop.cli.info import run_prompts_show

    run_prompts_show(task, prompts, rendering, rendered)


@app.command()
def doctor(
    lm: Annotated[str | None, opt.option(help="Also test this language model with one small call.")] = None,
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    as_json: opt.Json = False,
) -> None:
    """Check the installation. Shows versions, extras and the cache folder, and tests a language model if named."""
    from polyhop.cli.info import run_doctor

    run_doctor(lm, opt.lm_arguments(locals()), as_json)
