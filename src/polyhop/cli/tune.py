"""``polyhop tune``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say, say_read, write
from polyhop.engine.options import Group, PipelineOptions
from polyhop.errors import UsageError

if TYPE_CHECKING:
    from polyhop.evaluation.tuning.confidence import ConfidenceFit
    from polyhop.evaluation.tuning.grid_search import GridSearchResult
    from polyhop.evaluation.tuning.readers import ReaderFit
    from polyhop.evaluation.tuning.route import RouteFit
    from polyhop.evaluation.tuning.staged import StagedSearchResult

Found = TypeVar("Found", "ReaderFit", "GridSearchResult", "StagedSearchResult", "ConfidenceFit", "RouteFit")
Labelled = Annotated[Path, opt.option("--dataset", help="Questions with gold answers, in any known format.")]
TunedCorpus = Annotated[Path, opt.option("--corpus", help=opt.CORPUS_HELP)]
SettingsOut = Annotated[Path | None, opt.option("--out", help="The settings file to write, for --set-from.")]
RETRIEVER = {
    "default": "bm25",
    "help": "bm25, tfidf, tfidf-bm25, dense:NAME, hybrid:A+B, colbert:FOLDER, mdr:FOLDER, ppr, hops, "
    "elastic:URL/INDEX, http://URL, web:API or, with a model, promptrank.",
}

app = opt.new_app()
tune_app = opt.new_app(help="Fit settings that the papers leave open, on labelled questions.", no_args_is_help=True)
app.add_typer(tune_app, name="tune")


@tune_app.command("reader")
@opt.takes_options("reader", "retriever", retriever=RETRIEVER)
def reader(
    dataset: Labelled,
    corpus: TunedCorpus,
    language: opt.Language = None,
    *,
    options: PipelineOptions,
    k: Annotated[
        int, opt.option("-k", min=1, help="Hits per question that are read in addition to the gold passages.")
    ] = 5,
    limit: opt.Limit = None,
    skip_bad: opt.SkipBad = False,
    out: SettingsOut = None,
    as_json: opt.Json = False,
) -> None:
    """Fit a reader's threshold. Above this confidence a passage counts as containing the answer."""
    from polyhop.cli.progress import ProgressBar
    from polyhop.cli.stages import print_fit
    from polyhop.data.questions import read_questions
    from polyhop.evaluation.tuning.readers import fit_reader
    from polyhop.retrieval.index import index_for

    questions = read_questions(dataset, limit=limit, skip_bad=skip_bad)
    opened = opt.corpus_of(corpus, language, skip_bad)
    index = index_for(opened)
    say_read(opened)
    names = str(options.reader), str(options.retriever)
    with ProgressBar("passages") as progress:
        fit = fit_reader(questions, index, names[0], retriever=names[1], k=k, progress=progress.update)
    fitted_on = {"dataset": dataset.name, "questions": fit.questions, "reader": fit.reader}
    settings = {"method": "searchain", "settings": {"confidence": fit.fitted.at}, "fitted_on": fitted_on}
    end(fit, {**settings, "scores": {"f1": fit.fitted.f1}}, print_fit, out, as_json)


@tune_app.command("ge")
@opt.takes_options(Group.MODEL, "retriever", "rerank", "settings", "prompts", "rendering", "seed", Group.RATES)
def ge(
    dataset: Labelled,
    corpus: TunedCorpus,
    language: opt.Language = None,
    *,
    options: PipelineOptions,
    retrieve_below: Annotated[str | None, opt.option(help="Values to try, such as 0.7,0.8,0.9.")] = None,
    keep_above: Annotated[str | None, opt.option(help="Values to try, such as 0.4,0.7.")] = None,
    objective: Annotated[str, opt.option(help="f1, em or cover_em.")] = "f1",
    limit: opt.Limit = None,
    out: SettingsOut = None,
    work: Annotated[
        Path | None, opt.option(help="A folder with one run per point; the same command again resumes it.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Fit when GE retrieves and which answers it keeps. Searches a grid of retrieve_below and keep_above."""
    from polyhop.cli.progress import ProgressBar
    from polyhop.cli.stages import print_grid_search
    from polyhop.evaluation.tuning.grid_search import GE_GRID, tune
    from polyhop.retrieval.index import index_for

    given = {"retrieve_below": retrieve_below, "keep_above": keep_above}
    grid: dict[str, Sequence[Any]] = {
        name: GE_GRID[name] if text is None else text.split(",") for name, text in given.items()
    }
    opened = opt.corpus_of(corpus, language, skip_bad)
    index = index_for(opened)
    say_read(opened)
    with ProgressBar("answers") as progress, resumable(work):
        tuned = tune(
            "ge",
            grid,
            dataset,
            index,
            objective=objective,
            work=work,
            limit=limit,
            concurrency=concurrency,
            skip_bad=skip_bad,
            progress=progress.update,
            **options.arguments(),
        )
    end(tuned, tuned.file, print_grid_search, out, as_json)


@tune_app.command("promptrank")
@opt.takes_options(Group.MODEL, "retriever", "settings", "prompts", "cache", Group.RATES)
def promptrank(
    dataset: Labelled,
    corpus: TunedCorpus,
    language: opt.Language = None,
    *,
    options: PipelineOptions,
    instructions: Annotated[Path | None, opt.option(help="A file of instructions to try, one per line.")] = None,
    generate: Annotated[
        int | None, opt.option(min=1, help="Generate N instructions; polyhop's own come from 200.")
    ] = None,
    generator: Annotated[
        str | None, opt.option(help="Model that generates them, a T5 that fills gaps: hf:t5-base.")
    ] = None,
    temperatures: Annotated[str | None, opt.option(help="Values to try, such as 1,1.2,1.4.")] = None,
    ensembles: Annotated[str | None, opt.option(help="Also try the best N instructions together, such as 3,5.")] = None,
    demos: Annotated[int, opt.option(min=0, help="Also choose N demonstrations; an even number.")] = 0,
    reader: Annotated[str | None, opt.option(help="Also fit λ (path_weight) to this reader, such as pocket.")] = None,
    weights: Annotated[str | None, opt.option(help="Values of λ to try, such as 0.8,0.9.")] = None,
    objective: Annotated[str, opt.option(help="Metric that λ is fitted to: f1 or em.")] = "f1",
    limit: Annotated[int, opt.option(min=1, help="Use only the first N questions.")] = 128,
    sample: Annotated[int | None, opt.option(help="Draw the questions at random with this seed instead.")] = None,
    out: SettingsOut = None,
    instructions_out: Annotated[
        Path | None, opt.option(help="A file to write the instructions to, best first.")
    ] = None,
    demos_out: Annotated[
        Path | None, opt.option(help="A file to write the questions with their gold paths to, for demos_from.")
    ] = None,
    work: Annotated[
        Path | None, opt.option(help="A folder for measurements; the same command again resumes from it.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Find the instruction and temperature that suit a model. By R@2; then demonstrations and λ if requested."""
    from polyhop.cli.progress import ProgressBar
    from polyhop.cli.stages import candidate_instructions, print_stages
    from polyhop.evaluation.tuning.promptrank import SEARCHED, tune_promptrank
    from polyhop.retrieval.index import index_for

    arguments = options.arguments()
    if both := sorted(arguments.keys() & SEARCHED):
        raise UsageError(f"{both[0]} is tuned: do not give it a value")
    opened = opt.corpus_of(corpus, language, skip_bad)
    values = {"temperatures": temperatures, "ensembles": ensembles, "weights": weights}
    tried: dict[str, Any] = {name: text.split(",") for name, text in values.items() if text is not None}
    with resumable(work):
        candidates = candidate_instructions(instructions, generate, generator, work)
        index = index_for(opened)
        with ProgressBar("questions") as progress:
            tuned = tune_promptrank(
                dataset,
                index,
                instructions=candidates,
                demos=demos,
                reader=reader,
                objective=objective,
                instructions_out=instructions_out,
                demos_out=demos_out,
                work=work,
                limit=limit,
                sample=sample,
                concurrency=concurrency,
                skip_bad=skip_bad,
                progress=progress.update,
                **tried,
                **arguments,
            )
    end(tuned, tuned.file, print_stages, out, as_json)
    if instructions_out:
        say(f"instructions kept in {instructions_out}: -o instructions_from={instructions_out}")
    if demos_out:
        say(f"demonstrations kept in {demos_out}: -o demos=2 -o demos_from={demos_out}")


@tune_app.command("confidence")
def confidence(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs of one model on labelled questions.")],
    out: Annotated[Path | None, opt.option("--out", help="The file to write, for --calibration.")] = None,
    as_json: opt.Json = False,
) -> None:
    """Fit confidence as the probability that an answer is right. From runs on labelled questions, by method."""
    from polyhop.cli.stages import print_confidence
    from polyhop.evaluation.store import read_report
    from polyhop.evaluation.tuning.confidence import fit_confidence

    reports = [read_report(run) for run in runs]
    models = sorted({report.lm for report in reports})
    if len(models) > 1:
        raise UsageError(f"the runs are of several models, and a calibration is of one: {', '.join(models)}")
    fit = fit_confidence([(report.method, report.rows) for report in reports], models[0])
    kept = f"calibration kept in {out}: polyhop ask --calibration {out}"
    end(fit, fit.file, print_confidence, out, as_json, kept)


@tune_app.command("route")
def route(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of three runs: without retrieval, with one, with several.")
    ],
    out: Annotated[Path | None, opt.option("--out", help="The file to write, for -o classifier=FILE.")] = None,
    as_json: opt.Json = False,
) -> None:
    """Fit the classifier of route. From runs of its three strategies on the same labelled questions."""
    from polyhop.evaluation.store import read_report
    from polyhop.evaluation.tuning.route import fit_route

    reports = [read_report(run) for run in runs]
    fit = fit_route([(report.method, report.rows) for report in reports])
    kept = f"classifier kept in {out}: polyhop run --method route -o by=classifier -o classifier={out}"
    end(fit, fit.to_dict(), _print_route, out, as_json, kept)


def _print_route(fit: RouteFit) -> None:
    labels = ", ".join(f"{name} {count:,}" for name, count in fit.labels.items())
    write(f"labels: {labels}; predicted {100 * fit.accuracy:.0f} % in cross-validation\n")


@contextmanager
def resumable(work: Path | None) -> Iterator[None]:
    """End the verb at an interrupt, and say how to resume the search."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\nstopped; the same command resumes it: {work}" if work else "\nstopped (no --work)")
        raise typer.Exit(130) from None


def end(
    found: Found,
    settings: Mapping[str, Any],
    show: Callable[[Found], None],
    out: Path | None,
    as_json: bool,
    kept: str | None = None,
) -> None:
    """Write the settings that were found, and print the result. ``kept``: what is said of the file."""
    from polyhop.cli.show import print_json
    from polyhop.methods.registry import write_settings

    if out:
        write_settings(out, settings)
    if as_json:
        print_json(found.to_dict())
    else:
        show(found)
    if out:
        say(kept or f"settings kept in {out}: polyhop run --method {settings['method']} --set-from {out}")
