"""``polyhop run``, and its batches: what was read, what to submit next, and with which commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say, say_read
from polyhop.common.text import counted
from polyhop.engine.options import PipelineOptions, PriceSource
from polyhop.errors import UsageError

if TYPE_CHECKING:
    from polyhop.data.questions import Dataset
    from polyhop.evaluation.batches import Batch
    from polyhop.evaluation.repeats import Repeated
    from polyhop.evaluation.report import Report
    from polyhop.evaluation.runs import MethodReports
    from polyhop.lm.batches import ImportCounts, RequestFile
    from polyhop.types import Question

WAITS = 3
"""Exit code of a run that waits for results."""
SHOWN = 10
"""Number of files whose commands are shown; thousands of questions fill few files."""

_OPENAI = """\
  auth="Authorization: Bearer $OPENAI_API_KEY"; api=https://api.openai.com/v1
  curl $api/files -H "$auth" -F purpose=batch -F file=@{requests}
  curl $api/batches -H "$auth" -H "Content-Type: application/json" \\
    -d '{{"input_file_id": "FILE_ID", "endpoint": "{url}", "completion_window": "24h"}}'
  curl $api/batches/BATCH_ID -H "$auth"    # until its status is completed
  curl $api/files/OUTPUT_FILE_ID/content -H "$auth" -o {output}
  curl $api/files/ERROR_FILE_ID/content -H "$auth" -o {errors}    # if there is one"""
_VLLM = """\
  vllm run-batch -i {requests} -o {output}.part --model {model} --enable-prefix-caching && mv {output}.part {output}"""

app = opt.new_app()


@app.command()
@opt.takes_options(method={"help": "A method, several separated by commas, or 'all'."})
def run(
    dataset: Annotated[
        Path, opt.option(help="Questions in any known format, hf:DATASET[:SPLIT], or 'demo'; see 'polyhop data'.")
    ],
    corpus: opt.RunCorpus = None,
    language: opt.Language = None,
    *,
    options: PipelineOptions,
    setup: Annotated[
        str | None,
        opt.option(
            help="A paper's budgets for every method of the run: tor, resp, ge, promptrank or searchain; "
            "own: each method's own paper's settings; -o takes precedence."
        ),
    ] = None,
    out: Annotated[Path | None, opt.option(help="The run's folder; the same command again resumes it.")] = None,
    batch: Annotated[
        Path | None,
        opt.option(
            metavar="DIR",
            help="Write model calls to batch files in this folder instead of sending them, and read their results.",
        ),
    ] = None,
    limit: opt.Limit = None,
    concurrency: opt.Concurrency = 16,
    engine: Annotated[
        str | None,
        opt.option("--engine", help="ray: distribute the questions over a Ray cluster; default: this process."),
    ] = None,
    address: opt.Address = None,
    workers: opt.Workers = None,
    skip_bad: opt.SkipBad = False,
    form: opt.DatasetFormat = None,
    fields: opt.Fields = None,
    metrics: opt.Metrics = None,
    repeat: Annotated[
        int, opt.option(min=1, help="Repeat the run N times, with seeds SEED, SEED+1, …; each is kept in OUT/seed-K.")
    ] = 1,
    telemetry: opt.Telemetry = False,
    as_json: opt.Json = False,
) -> None:
    """Run a method, or several, over a dataset and measure it."""
    from polyhop.cli.datasets import read
    from polyhop.cli.progress import ProgressBar
    from polyhop.data import DEMO
    from polyhop.data.contexts import corpus_of_contexts, is_contexts
    from polyhop.data.corpora import open_corpus
    from polyhop.data.questions import open_questions
    from polyhop.evaluation.repeats import evaluate_repeated
    from polyhop.evaluation.runner import evaluate
    from polyhop.evaluation.runs import evaluate_methods, parse_methods
    from polyhop.evaluation.setups import PAPER_OPTIONS, setup_settings
    from polyhop.telemetry import start

    of_contexts = is_contexts(corpus)
    opened = opt.corpus_of(corpus, language, skip_bad) if corpus and not of_contexts else None
    executor = opt.engine_of(engine, address, workers)
    names = parse_methods(options.method)
    if telemetry:
        start()
    arguments = {
        **options.arguments(),
        "out": out,
        "limit": limit,
        "concurrency": concurrency,
        "skip_bad": skip_bad,
        "metrics": metrics,
        "title": dataset.name,
        "telemetry": telemetry,
        "engine": executor,
    }
    columns = opt.fields_of(fields)
    questions = read(dataset, form, skip_bad=skip_bad, fields=columns, contexts=of_contexts)
    if not options.allow_unanswerable:
        _say_unanswerable(questions[:limit])
    if of_contexts:
        opened = corpus_of_contexts(questions)
        opened.language = language
    if opened is None and str(dataset) == DEMO:
        opened = open_corpus(dataset)
    if opened is None and options.retriever is None:
        again = partial(open_questions, dataset, format=form, skip_bad=skip_bad, fields=columns)
        _offer_contexts(names, options, again)
    if setup is not None:
        own = setup_settings(setup, names[0], options.settings, questions) if len(names) == 1 else {"setup": setup}
        arguments = {**PAPER_OPTIONS, **arguments, **own}
    if repeat > 1 and len(names) > 1:
        raise UsageError("--repeat repeats one method: name one")
    with resumable(out), through(batch, names, arguments) as given, ProgressBar("questions") as progress:
        given["progress"] = progress.update
        if len(names) > 1:
            several = evaluate_methods(names, questions, opened, **given)
        elif repeat > 1:
            repeated = evaluate_repeated(repeat, questions, opened, names[0], **given)
        else:
            report = evaluate(questions, opened, names[0], **given)
    say_read(opened)
    if len(names) > 1:
        finish_several(several, out, as_json)
    elif repeat > 1:
        finish_repeated(repeated, out, as_json)
    else:
        finish(report, out, as_json, prices=options.prices)


def _say_unanswerable(questions: Sequence[Question]) -> None:
    """Say how many questions have no gold answer, unless no question says anything of answers."""
    lacking = sum(question.answerable is not True for question in questions)
    if lacking and any(question.answerable is not None for question in questions):
        say(
            f"{lacking:,} of {counted(len(questions), 'questions')} have no gold answer, and EM and F1 leave them out: "
            "--allow-unanswerable lets the method say that there is none, and scores it"
        )


def _offer_contexts(names: Sequence[str], options: PipelineOptions, open_dataset: Callable[[], Dataset]) -> None:
    """Say that the contexts of a dataset can be searched, if methods search and there is no corpus; an error if all of
    them search."""
    from polyhop.data.contexts import has_contexts
    from polyhop.methods.registry import method_named

    searching = [
        name
        for name in names
        if "retriever"
        in (method := method_named(name)).needs(
            method.resolve({key: value for key, value in options.settings.items() if key in method.settings})
        )
    ]
    if not searching or not has_contexts(dataset := open_dataset()):
        return
    offer = (
        f"{searching[0]} searches, and there is no corpus. The records of {dataset.name} have contexts: --corpus "
        "contexts answers each question from its own (the distractor setting), 'polyhop data corpus-from-contexts' "
        "makes one corpus of all"
    )
    if len(searching) == len(names):
        raise UsageError(offer)
    say(offer)


@contextmanager
def resumable(out: Path | None) -> Iterator[None]:
    """End the verb at an interrupt, and say how to resume the run."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"the same command resumes it: {out}" if out else "nothing was kept (no --out)"
        say(f"\nstopped; {kept}")
        raise typer.Exit(130) from None


def finish_several(several: MethodReports, out: Path | None, as_json: bool) -> None:
    """Print several methods' reports as one table; exit 1 if a question of one failed."""
    from polyhop.cli import show as draw
    from polyhop.cli import tables
    from polyhop.evaluation.results import results

    if as_json:
        draw.print_json(several.to_dict())
    else:
        tables.print_results(results(several.reports), "table", None)
    for name, why in several.left_out.items():
        say(f"{name} was left out: {why}")
    if out:
        say(f"runs kept in {out}")
    if failed := {name: len(report.failed) for name, report in several.reports.items() if report.failed}:
        say("questions failed: " + ", ".join(f"{count} of {name}" for name, count in failed.items()))
        tables.say_causes(several.reports.values())
        raise typer.Exit(1)


def finish_repeated(runs: Repeated, out: Path | None, as_json: bool) -> None:
    """Print mean and standard deviation over runs; exit 1 if a question of one failed."""
    from polyhop.cli.tables import print_repeated, say_causes

    print_repeated(runs, "json" if as_json else "table")
    if out:
        say(f"runs kept in {out}")
    if failed := {seed: len(report.failed) for seed, report in runs.reports.items() if report.failed}:
        say("questions failed: " + ", ".join(f"{count} with seed {seed}" for seed, count in failed.items()))
        say_causes(runs.reports.values())
        raise typer.Exit(1)


def finish(
    report: Report, out: Path | None, as_json: bool, prices: PriceSource | None = None, *, brief: bool = False
) -> None:
    """Print a report, or with ``brief`` its main figures; exit 1 if a question of it failed."""
    from polyhop.cli import show as draw
    from polyhop.cli import tables
    from polyhop.engine.budget import Prices

    if as_json:
        draw.print_json(report.to_dict())
    else:
        tables.print_report(report, draw.console(), None if prices is None else Prices.of(prices), brief=brief)
    tables.say_unscored(report)
    if out:
        say(f"run kept in {out}")
    tables.say_failed(report, "; the same command tries them again" if out else "")
    if report.failed:
        raise typer.Exit(1)


@contextmanager
def through(folder: Path | None, methods: Sequence[str], arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a run's arguments with models that write their calls to a folder; without a folder, the arguments as given.

    Exits with 3 at the end if results are missing, and says how to get them.
    """
    if folder is None:
        yield dict(arguments)
        return
    from polyhop.evaluation.batches import batched

    _check(folder, methods, arguments)
    options = {name: arguments.get(name) for name in ("cache", "lm_options")}
    with batched(folder, arguments["lm"], **options, skip_bad=arguments["skip_bad"]) as batch:
        say_taken(batch.taken)
        yield {**arguments, "lm": batch.models, "lm_options": None, "cache": None}
    if batch.waiting:
        say_next(batch)
        raise typer.Exit(WAITS)


def _check(folder: Path, methods: Sequence[str], arguments: Mapping[str, Any]) -> None:
    """Refuse what a batch cannot do, before anything is read."""
    out = arguments["out"]
    if out is None:
        raise UsageError("--batch requires --out, another folder, for finished questions")
    if out.resolve() == folder.resolve():
        raise UsageError(f"--batch and --out are both {folder}: name two folders")
    if arguments.get("engine") is not None:
        raise UsageError("--batch sends no calls, so there is nothing to distribute over a cluster: leave out --engine")
    if arguments.get("max_seconds") is not None:
        raise UsageError("--max-seconds limits the time for replies, which does not apply to a batch: leave it out")
    if len(methods) == 1:  # of several, ``evaluate_methods`` leaves out those that cannot run, and says why
        from polyhop.methods.registry import method_named

        method = method_named(methods[0])
        given = {name: value for name, value in arguments.items() if name in method.settings}
        if any(need.startswith("score") for need in method.needs(method.resolve(given))):
            raise UsageError(
                f"{method.name} scores given texts with these settings, which batches do not support: leave out "
                "--batch, or choose another method or other settings"
            )


def say_taken(taken: ImportCounts) -> None:
    """Say which results were read, and which had errors."""
    if taken.answered or taken.duplicates:
        again = f", {taken.duplicates:,} were known already" if taken.duplicates else ""
        say(f"{counted(taken.answered, 'replies')} read{again}")
    if wrong := taken.failed + taken.missing:
        say(f"{counted(wrong, 'requests')} failed, {taken.missing:,} of them without a result; they are sent again")
    if taken.refused:
        say(f"{counted(taken.refused, 'requests')} refused: the questions that need them fail")
    for words, count in taken.reasons.most_common(3):
        say(f"  {count:,} x {words}")
    if taken.skipped:
        say(f"{counted(taken.skipped, 'lines')} skipped")


def say_next(batch: Batch) -> None:
    """Say which files to submit now, with which commands."""
    requests = sum(part.requests for part in batch.waiting)
    files = counted(len(batch.waiting), "files")
    waiting = f"{counted(requests, 'requests')}, {files} in {batch.folder}"
    say(f"\nwaiting for the results of {waiting}. Submit those that you have not submitted yet:")
    for part in batch.waiting[:SHOWN]:
        say(f"\n{part.file}: {counted(part.requests, 'requests')} to {part.model}\n{commands(batch.folder, part)}")
    if len(batch.waiting) > SHOWN:
        say(f"\nand {len(batch.waiting) - SHOWN} more in the same way")
    say("\nThen run the same command again.")


def commands(folder: Path, part: RequestFile) -> str:
    """Return the commands that submit a file and fetch its results: OpenAI's API, or vLLM's if the model has its own
    server."""
    from polyhop.lm.names import model_and_url

    model, server = model_and_url("openai", part.model.partition(":")[2])
    results = part.file.replace("requests", "results")
    names = {
        "requests": quote(str(folder / part.file)),
        "output": quote(str(folder / results)),
        "errors": quote(str(folder / results.replace("results", "errors"))),
        "model": quote(model),
        "url": part.url,
    }
    return (_VLLM if server else _OPENAI).format(**names)
