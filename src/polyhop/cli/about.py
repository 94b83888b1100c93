"""``polyhop methods`` and ``prompts``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import write
from polyhop.engine.options import PipelineOptions

if TYPE_CHECKING:
    from polyhop.prompts.prompt import Rendering


app = opt.new_app()
prompts_app = opt.new_app(help="Show the prompts, which are text files.", no_args_is_help=True)
app.add_typer(prompts_app, name="prompts")


@app.command("methods")
def methods_(
    name: Annotated[str | None, typer.Argument(help="Show one method in full.")] = None,
    as_json: opt.Json = False,
) -> None:
    """List the methods by family: papers, needs, calls, settings. Calls are typical calls per question."""
    from polyhop.cli.listings import print_method, print_methods

    if name is None:
        print_methods(as_json)
    else:
        print_method(name, as_json)


@prompts_app.command("list")
@opt.takes_options("prompts")
def prompts_list(options: PipelineOptions, as_json: opt.Json = False) -> None:
    """List the prompt tasks: role, fields, output."""
    from polyhop.cli.listings import print_prompts
    from polyhop.engine.parts import open_prompts

    print_prompts(open_prompts(options.prompts), as_json)


@prompts_app.command("show")
@opt.takes_options("prompts", "rendering")
def prompts_show(
    task: Annotated[str, typer.Argument(help="A prompt task, such as tor.review.")],
    options: PipelineOptions,
    rendered: Annotated[
        bool, opt.option("--rendered", help="Show it as the model sees it, with demonstrations.")
    ] = False,
) -> None:
    """Show a prompt file, or the prompt as the model sees it."""
    from polyhop.engine.parts import open_prompts
    from polyhop.prompts.tasks import SCORED

    book = open_prompts(options.prompts)
    if not rendered:
        write((book.scored(task) if task in SCORED else book[task]).text)
        return
    fields = book.example(task)
    if task in SCORED:
        write(f"{book.scored(task).render(fields)}\n")
        return
    prompt = book[task]
    rendering: Rendering = "json" if options.rendering == "json" else "text"
    for turn in prompt.render(fields, rendering=rendering, shots=prompt.settings.shots):
        write(f"--- {turn['role']}\n{turn['content']}\n\n")
