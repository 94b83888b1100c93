"""``polyhop doctor``: the installation, and what a language model can be used for."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop import __version__
from polyhop.cli import options as opt
from polyhop.cli.printing import say, write
from polyhop.common.extras import EXTRA_MODULES, is_installed
from polyhop.common.files import cache_folder
from polyhop.common.text import printable
from polyhop.engine.options import Group, PipelineOptions
from polyhop.errors import PolyhopError, UsageError
from polyhop.redaction import redacted

if TYPE_CHECKING:
    from polyhop.evaluation.conformance import Conformance

CORE = ("aiohttp", "orjson", "pydantic", "numpy", "tantivy", "typer", "rich")

app = opt.new_app()


@app.command()
@opt.takes_options("lm_option", "max_tokens_per_call", "reasoning_tokens", "prompts", "price", Group.RATES)
def doctor(
    lm: Annotated[
        str | None, opt.option(help="Also test this language model: which replies can be read, what its server does.")
    ] = None,
    *,
    quick: Annotated[bool, opt.option("--quick", help="Test the language model with one small call.")] = False,
    options: PipelineOptions,
    as_json: opt.Json = False,
) -> None:
    """Check the installation, and test a language model.

    Shows versions, extras and the cache folder. With --lm, tests the model with about forty short calls and ends with
    the recommended options. Exit code 2: the model cannot be reached, or most replies cannot be read.
    """
    if quick and lm is None:
        raise UsageError("--quick is a test of a language model: name it with --lm")
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
    result = None
    if lm is not None and quick:
        found[redacted(f"lm {lm}")] = _try(lm, options)
    elif lm is not None:
        result = _examine(lm, options)
    if as_json:
        from polyhop.cli.conformance import row_of
        from polyhop.cli.show import print_json

        print_json({**found, **({redacted(f"lm {lm}"): row_of(result, options)} if result else {})})
    else:
        for name, value in found.items():
            write(printable(f"{name}: {value}") + "\n")
        if result:
            from polyhop.cli.conformance import print_conformance

            print_conformance(result, options)
    if result and not result.recommended:
        say("most replies of the model could not be read")
        raise typer.Exit(2)


def _examine(lm: str, options: PipelineOptions) -> Conformance:
    """Test a model, with progress on stderr."""
    from polyhop.cli.progress import ProgressBar
    from polyhop.common.aio import LoopThread
    from polyhop.engine.budget import Prices
    from polyhop.engine.parts import open_models, open_prompts
    from polyhop.evaluation.conformance import examine

    models, _ = open_models(lm, False, options.lm_options or {})
    model = models["default"]
    thread = LoopThread()
    try:
        with ProgressBar("calls and checks") as progress:
            return thread.run(
                examine(
                    model,
                    prompts=open_prompts(options.prompts),
                    prices=None if options.prices is None else Prices.of(options.prices),
                    max_tokens=options.max_tokens_per_call,
                    reasoning_tokens=options.reasoning_tokens,
                    progress=progress.update,
                )
            )
    finally:
        if close := getattr(model, "aclose", None):
            thread.run(close())
        thread.stop()


def _try(name: str, options: PipelineOptions) -> str:
    """Ask a model one question, as a method would; raise an error if the reply cannot be read."""
    from polyhop.cli.answers import cut_replies
    from polyhop.cli.show import clean
    from polyhop.pipeline import Pipeline
    from polyhop.prompts.json_objects import holds_object

    with Pipeline(None, "direct", **replace(options, lm=name, cache=False).arguments()) as pipeline:
        answer = pipeline.ask("Which planet do we live on?")
    calls = answer.trace.calls
    if calls[-1].output is None:
        replies = ", then ".join(repr(clean(call.text, 60)) for call in calls)
        raise PolyhopError(f"{name} gave no readable answer; it replied {replies}")
    ignored = calls[-1].rendering == "json" and not holds_object(calls[-1].text)
    notes = cut_replies(answer.usage), "it ignores the JSON schema: --rendering text" if ignored else ""
    return "; ".join(filter(None, (f"answers ({clean(answer.text or calls[-1].text, 60)!r})", *notes)))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
