"""``polyhop methods``, ``prompts`` and ``doctor``."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop import __version__
from polyhop.cli import options as opt
from polyhop.cli.printing import write
from polyhop.common.extras import EXTRA_MODULES, is_installed
from polyhop.common.files import cache_folder
from polyhop.common.text import printable
from polyhop.engine.options import PipelineOptions
from polyhop.errors import PolyhopError
from polyhop.redaction import redacted

if TYPE_CHECKING:
    from polyhop.prompts.prompt import Rendering

CORE = ("aiohttp", "orjson", "pydantic", "numpy", "tantivy", "typer", "rich")

app = opt.new_app()
prompts_app = opt.new_app(help="Show the prompts: each is a text file.", no_args_is_help=True)
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


@app.command()
@opt.takes_options("lm_option", "max_tokens_per_call", "reasoning_tokens")
def doctor(
    lm: Annotated[str | None, opt.option(help="Also test this language model with one small call.")] = None,
    *,
    options: PipelineOptions,
    as_json: opt.Json = False,
) -> None:
    """Check the installation. Shows versions, extras and the cache folder, and tests a language model if named."""
    found: dict[str, Any] = {
        "polyhop": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in CORE},
        **{
            f"extra {name}": "installed" if is_installed(name) else f"not installed: pip install 'polyhop[{name}]'"
            for name in EXTRA_MODULES
        },
        "cache folder": str(cache_folder()),
    }
    if lm is not None:
        found[redacted(f"lm {lm}")] = _try(lm, options)
    if as_json:
        from polyhop.cli.show import print_json

        print_json(found)
    else:
        for name, value in found.items():
            write(printable(f"{name}: {value}") + "\n")


def _try(name: str, options: PipelineOptions) -> str:
    """Ask a model one question, as a method would; raise an error if the reply cannot be read."""
    from polyhop.cli.answers import cut_replies
    from polyhop.cli.show import clean
    from polyhop.pipeline import Pipeline

    with Pipeline(None, "direct", **replace(options, lm=name, cache=False).arguments()) as pipeline:
        answer = pipeline.ask("Which planet do we live on?")
    calls = answer.trace.calls
    if calls[-1].output is None:
        replies = ", then ".join(repr(clean(call.text, 60)) for call in calls)
        raise PolyhopError(f"{name} gave no readable answer; it replied {replies}")
    cut = cut_replies(answer.usage)
    return f"answers ({clean(answer.text or calls[-1].text, 60)!r}){cut and '; ' + cut}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
