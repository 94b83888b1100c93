"""``polyhop sweep``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say, say_read
from polyhop.cli.run import resumable
from polyhop.engine.options import PipelineOptions
from polyhop.errors import UsageError

if TYPE_CHECKING:
    from polyhop.evaluation.sweeps.sweep import SweepResult

PAGE = "sweep.html"

app = opt.new_app()


@app.command("sweep")
@opt.takes_options("price")
def sweep_(
    file: Annotated[Path, typer.Argument(help="The sweep, a TOML file: [run], [[grid]] and [[point]].")],
    options: PipelineOptions,
    out: Annotated[
        Path | None, opt.option(help="A folder with one run folder per point; the same command again resumes it.")
    ] = None,
    dry_run: Annotated[
        bool, opt.option("--dry-run", help="Estimate calls, tokens and cost without calling the model.")
    ] = False,
    dataset: Annotated[Path | None, opt.option(help="Questions to use instead of the file's.")] = None,
    corpus: Annotated[str | None, opt.option(help="Corpus to use instead of the file's.")] = None,
    limit: Annotated[int | None, opt.option(min=1, help="Use the first N questions.")] = None,
    sample: Annotated[
        int, opt.option(min=1, help="Number of questions that pocket answers for the estimate of --dry-run.")
    ] = 5,
    as_json: opt.Json = False,
) -> None:
    """Run methods at many settings and show one table. Calls that points share are made once."""
    from polyhop.cli.datasets import read
    from polyhop.cli.progress import ProgressBar
    from polyhop.cli.tables import print_estimate
    from polyhop.data.contexts import is_contexts
    from polyhop.data.corpora import open_corpus
    from polyhop.evaluation.sweeps.estimate import estimate
    from polyhop.evaluation.sweeps.plan import read_plan
    from polyhop.evaluation.sweeps.sweep import sweep

    plan = read_plan(file)
    if dataset is not None:
        plan = replace(plan, dataset=str(dataset), corpus=None)
    plan = replace(plan, corpus=corpus or plan.corpus, limit=limit or plan.limit)
    if options.prices is not None:
        plan = replace(plan, price=options.prices)
    if not dry_run and out is None:
        raise UsageError("a sweep needs a folder for its runs: --out DIR (or --dry-run, which calls no model)")
    of_contexts = is_contexts(plan.corpus)
    questions = read(Path(plan.dataset), plan.format, skip_bad=plan.skip_bad, fields=plan.fields, contexts=of_contexts)
    plan = plan.with_contexts(questions)
    if plan.corpus is not None:
        plan = replace(plan, corpus=open_corpus(plan.corpus, skip_bad=plan.skip_bad, language=plan.language))
    if out is None or dry_run:
        with ProgressBar("answers by pocket") as progress:
            estimated = estimate(plan, sample=sample, questions=questions, progress=progress.update)
        say_read(plan.corpus)
        print_estimate(estimated, as_json)
        return
    with ProgressBar("answers") as progress, resumable(out):
        swept = sweep(plan, out, questions=questions, progress=progress.update)
    say_read(plan.corpus)
    finish(swept, out, as_json)


def finish(swept: SweepResult, out: Path, as_json: bool) -> None:
    """Print a sweep's table and what sharing saved, write its page with plots; exit 1 if a question failed."""
    from polyhop.cli import tables
    from polyhop.cli.forms import put
    from polyhop.cli.show import print_json
    from polyhop.evaluation.pages.page import page

    if as_json:
        print_json(swept.to_dict())
    else:
        tables.print_sweep(swept)
    for report in list(swept.reports.values())[:1]:
        tables.say_unscored(report)
    say(f"runs kept in {out}; polyhop report {out}/*/ shows more of them")
    put(page({str(out / name): report for name, report in swept.reports.items()}), out / PAGE)
    if failed := {name: len(report.failed) for name, report in swept.reports.items() if report.failed}:
        counts = ", ".join(f"{count} of {name}" for name, count in failed.items())
        say(f"questions failed: {counts}; the same command tries them again")
        tables.say_causes(swept.reports.values())
        raise typer.Exit(1)
