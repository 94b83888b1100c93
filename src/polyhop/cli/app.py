"""The verbs of the command line. Each imports what it needs when it is called, so that help is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt

app = typer.Typer(
    name="polyhop",
    help="Multi-hop question answering over your own documents, by any of the published methods, with any LM.",
    epilog="Options can come from the environment too: --lm of run as POLYHOP_RUN_LM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"auto_envvar_prefix": "POLYHOP", "help_option_names": ["-h", "--help"]},
)
index_app = typer.Typer(help="Build an index folder of a corpus, or look into one.", no_args_is_help=True)
prompts_app = typer.Typer(help="See the prompts: every one is a text file.", no_args_is_help=True)
data_app = typer.Typer(help="Convert, check, count and sample datasets; hand in predictions.", no_args_is_help=True)
tune_app = typer.Typer(help="Fit what papers leave open on labelled questions.", no_args_is_help=True)
app.add_typer(index_app, name="index")
app.add_typer(prompts_app, name="prompts")
app.add_typer(data_app, name="data")
app.add_typer(tune_app, name="tune")


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[
        bool, opt.option("--version", allow_from_autoenv=False, help="Show the version and stop.")
    ] = False,
) -> None:
    if version:
        from polyhop import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.command()
def demo(
    method: opt.Method = "tor",
    lm: opt.Lm = "pocket",
    concurrency: opt.Concurrency = 8,
    as_json: opt.Json = False,
) -> None:
    """Answer three questions with their reasoning, then measure all. Questions and corpus ship inside."""
    from polyhop.cli.demo import run_demo

    run_demo(method, lm, concurrency, as_json)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    corpus: opt.CorpusPath = None,
    method: opt.Method = "tor",
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    reader: opt.Reader = "pocket",
    settings: opt.Settings = None,
    set_from: opt.SetFrom = None,
    show: Annotated[str | None, opt.option(help="'trace' draws how the answer was found.")] = None,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    max_cost: opt.MaxCost = None,
    price: opt.Price = None,
    abstain_below: opt.Abstain = None,
    seed: opt.Seed = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    as_json: opt.Json = False,
) -> None:
    """Answer one question over a corpus, with citations."""
    from polyhop.cli.ask import run_ask

    arguments = opt.pipeline_arguments(locals())
    run_ask(question, corpus, method, arguments, show, as_json)


@app.command()
def run(
    dataset: Annotated[
        Path, opt.option(help="Questions in any known format, hf:DATASET[:SPLIT], or 'demo'; 'polyhop data' tells.")
    ],
    corpus: opt.CorpusPath = None,
    method: opt.Methods = "tor",
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    reader: opt.Reader = "pocket",
    settings: opt.Settings = None,
    set_from: opt.SetFrom = None,
    setup: opt.Setup = None,
    out: Annotated[Path | None, opt.option(help="The run's folder; the same command again goes on there.")] = None,
    limit: opt.Limit = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    form: opt.DatasetFormat = None,
    metrics: opt.Metrics = None,
    repeat: Annotated[
        int, opt.option(min=1, help="Run so often, with the seeds SEED, SEED + 1, …; OUT/seed-K holds each.")
    ] = 1,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    max_cost: opt.MaxCost = None,
    price: opt.Price = None,
    abstain_below: opt.Abstain = None,
    seed: opt.Seed = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    as_json: opt.Json = False,
) -> None:
    """Run a method, or several, over a dataset and measure it."""
    from polyhop.cli.run import run_run

    arguments = opt.pipeline_arguments(locals())
    run_run(
        dataset, corpus, method, arguments, out, limit, concurrency, skip_bad, metrics, form, repeat, setup, as_json
    )


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, finished or under way.")],
    form: Annotated[
        str | None,
        opt.option("--format", help="table, markdown, latex, csv, json or html; by default --out's, else table."),
    ] = None,
    out: Annotated[Path | None, opt.option(help="Write it to this file: .md, .tex, .csv, .json or .html.")] = None,
    traces: Annotated[
        int, opt.option(min=0, help="Of how many questions a page (html) holds the traces, wrong answers first.")
    ] = 100,
    by: Annotated[
        str | None, opt.option(help="Group the questions by 'type', 'hops' or a statistic of the first run.")
    ] = None,
    metrics: opt.Metrics = None,
    dataset: Annotated[
        Path | None, opt.option(help="Score anew by this file's gold, such as one with more aliases.")
    ] = None,
    judge: Annotated[
        str | None, opt.option(metavar="LM", help="Also let this model judge the answers; verdicts are kept.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    conditions: opt.Where = None,
    price: opt.Price = None,
    frontier: Annotated[
        str | None, opt.option(help="Which runs no other beats at no more calls, tokens, money or seconds.")
    ] = None,
    metric: Annotated[str, opt.option(help="What --frontier weighs against the cost.")] = "f1",
) -> None:
    """Show what runs found and cost. Nothing is asked of a model but a judge."""
    from polyhop.cli.report import run_report

    options = {"concurrency": concurrency, "prompts": prompts, "rendering": rendering, "cache": cache}
    judging = {"lm": judge, **options} if judge else None
    scoring = {"metrics": metrics, "dataset": dataset}
    run_report(runs, form, by, conditions or [], price, frontier, metric, scoring, judging, out, traces)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs over the same questions, the baseline first.")],
    conditions: opt.Where = None,
    metric: Annotated[
        str | None,
        opt.option(help="Metrics to compare, with commas between: p is corrected for these; by default all shown."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compare runs with the first one, question by question. Tells how far they agree, too."""
    from polyhop.cli.report import run_compare

    run_compare(runs, conditions or [], metric, as_json)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep, a TOML file: [run], [[grid]] and [[point]].")],
    out: Annotated[
        Path | None, opt.option(help="A folder with a run's folder for each point; the same command goes on there.")
    ] = None,
    dry_run: Annotated[bool, opt.option("--dry-run", help="Estimate calls, tokens and money; ask nothing.")] = False,
    sample: Annotated[int, opt.option(min=1, help="Questions that pocket answers for the estimate of --dry-run.")] = 5,
    price: opt.Price = None,
    as_json: opt.Json = False,
) -> None:
    """Run methods at many settings and show one table. Only what differs is asked."""
    from polyhop.cli.sweep import run_sweep

    run_sweep(file, out, dry_run, sample, price, as_json)


@app.command()
def search(
    index: Annotated[Path, typer.Argument(help="An index folder, or any corpus.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, opt.option("-k", min=1, help="How many passages.")] = 5,
    retriever: opt.Retriever = "bm25",
    rerank: opt.Rerank = None,
    lm: opt.Lm = "pocket",
    links: Annotated[bool, opt.option("--links", help="Show what each passage links to.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Search a corpus."""
    from polyhop.cli.corpora import run_search

    run_search(index, query, k, {"retriever": retriever, "rerank": rerank, "lm": lm}, links, as_json)


@index_app.command("build")
def index_build(
    corpus: Annotated[Path, typer.Argument(help=opt.CORPUS_HELP)],
    out: Annotated[Path, opt.option(help="The index folder to write.")],
    stem: Annotated[bool, opt.option(help="Stem English words.")] = True,
    keep_stop_words: Annotated[bool, opt.option("--keep-stop-words", help="Index stop words too.")] = False,
    links: Annotated[
        str, opt.option(help="titles (the corpus' hyperlinks, else title mentions), own or none.")
    ] = "titles",
    dense: Annotated[
        str | None,
        opt.option(help="Encode it too, for the retriever dense:NAME; after a stop the same command goes on."),
    ] = None,
    overwrite: Annotated[bool, opt.option("--overwrite", help="Replace an index that is there.")] = False,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Build an index folder of a corpus."""
    from polyhop.cli.corpora import run_build

    run_build(corpus, out, stem, keep_stop_words, links, dense, overwrite, skip_bad, as_json)


@index_app.command("info")
def index_info(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    as_json: opt.Json = False,
) -> None:
    """Say what an index folder holds."""
    from polyhop.cli.corpora import run_info

    run_info(index, as_json)


@data_app.command("convert")
def data_convert(
    dataset: opt.DatasetPath,
    to: Annotated[str, opt.option(help="flashrag, jsonl (plain lines) or trec-qrels (its gold passages).")],
    out: opt.WrittenTo = None,
    form: opt.DatasetFormat = None,
    corpus: Annotated[
        Path | None, opt.option(help="Where trec-qrels finds the ids of gold passages that are known by title.")
    ] = None,
    limit: opt.Limit = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Write a dataset in another form."""
    from polyhop.cli.data import run_convert

    run_convert(dataset, to, out, form, corpus, limit, skip_bad)


@data_app.command("validate")
def data_validate(dataset: opt.DatasetPath, form: opt.DatasetFormat = None, as_json: opt.Json = False) -> None:
    """Name every fault of a dataset with its place. Exits 1 if there is one."""
    from polyhop.cli.data import run_validate

    run_validate(dataset, form, as_json)


@data_app.command("stats")
def data_stats(
    dataset: opt.DatasetPath,
    corpus: Annotated[Path | None, opt.option(help="Tell how much of the gold this corpus has.")] = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Count what a dataset holds."""
    from polyhop.cli.data import run_stats

    run_stats(dataset, corpus, form, skip_bad, as_json)


@data_app.command("sample")
def data_sample(
    dataset: opt.DatasetPath,
    n: Annotated[int, opt.option("-n", min=1, help="How many questions.")] = 500,
    seed: Annotated[int, opt.option(help="Another seed draws others.")] = 0,
    stratify: Annotated[
        str | None, opt.option(help="Keep the shares of type, kind, hops or a field of the metadata.")
    ] = None,
    out: opt.WrittenTo = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Draw questions, the same ones on every machine."""
    from polyhop.cli.data import run_sample

    run_sample(dataset, n, seed, stratify, out, form, skip_bad)


@data_app.command("corpus-from-contexts")
def data_corpus_from_contexts(
    datasets: Annotated[list[Path], typer.Argument(help="Files of HotpotQA, 2WikiMultiHopQA or MuSiQue.")],
    out: Annotated[Path, opt.option(help="The corpus to write, JSON lines.")],
    questions: Annotated[Path | None, opt.option(help="Also write the questions, their gold passages by id.")] = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Make a corpus of the passages datasets bring along."""
    from polyhop.cli.data import run_corpus_from_contexts

    run_corpus_from_contexts(datasets, out, questions, form, skip_bad)


@data_app.command("predictions")
def data_predictions(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    to: Annotated[str, opt.option(help="hotpotqa, 2wiki, musique, kilt or trec-run.")],
    out: opt.WrittenTo = None,
    dataset: Annotated[
        Path | None, opt.option(help="The dataset that was run: its order, and for musique its paragraphs' numbers.")
    ] = None,
    form: opt.DatasetFormat = None,
) -> None:
    """Write a run's predictions for a benchmark's scorer."""
    from polyhop.cli.data import run_predictions

    run_predictions(run, to, out, dataset, form)


@tune_app.command("reader")
def tune_reader(
    dataset: opt.Labelled,
    corpus: opt.TunedCorpus,
    reader: opt.Reader = "pocket",
    retriever: opt.Retriever = "bm25",
    k: Annotated[int, opt.option("-k", min=1, help="Hits a question that are read beside the gold passages.")] = 5,
    limit: opt.Limit = None,
    skip_bad: opt.SkipBad = False,
    out: opt.SettingsOut = None,
    as_json: opt.Json = False,
) -> None:
    """Fit a reader's threshold. Above which confidence does a passage hold the answer?"""
    from polyhop.cli.tune import run_tune_reader

    run_tune_reader(dataset, corpus, reader, retriever, k, limit, skip_bad, out, as_json)


@tune_app.command("ge")
def tune_ge(
    dataset: opt.Labelled,
    corpus: opt.TunedCorpus,
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    retrieve_below: Annotated[str | None, opt.option(help="Values to try, as 0.7,0.8,0.9.")] = None,
    keep_above: Annotated[str | None, opt.option(help="Values to try, as 0.4,0.7.")] = None,
    objective: Annotated[str, opt.option(help="f1, em or cover_em.")] = "f1",
    settings: opt.Settings = None,
    limit: opt.Limit = None,
    out: opt.SettingsOut = None,
    work: Annotated[
        Path | None, opt.option(help="A folder with a run a point; the same command again goes on there.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    seed: opt.Seed = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    as_json: opt.Json = False,
) -> None:
    """Fit when GE retrieves and which answers it keeps. A grid of retrieve_below and keep_above is tried."""
    from polyhop.cli.tune import run_tune_ge

    grid = {"retrieve_below": retrieve_below, "keep_above": keep_above}
    search = {"limit": limit, "work": work, "concurrency": concurrency, "skip_bad": skip_bad, "objective": objective}
    run_tune_ge(dataset, corpus, grid, {**opt.pipeline_arguments(locals()), **search}, out, as_json)


@tune_app.command("promptrank")
def tune_promptrank(
    dataset: opt.Labelled,
    corpus: opt.TunedCorpus,
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    retriever: opt.MethodRetriever = None,
    instructions: Annotated[Path | None, opt.option(help="A file of instructions to try, one a line.")] = None,
    generate: Annotated[int | None, opt.option(min=1, help="Have so many instructions written; 200 here.")] = None,
    generator: Annotated[str | None, opt.option(help="What writes them, a T5 that fills gaps: hf:t5-base.")] = None,
    temperatures: Annotated[str | None, opt.option(help="Values to try, as 1,1.2,1.4.")] = None,
    demos: Annotated[int, opt.option(min=0, help="Also choose so many demonstrations, an even number.")] = 0,
    reader: Annotated[str | None, opt.option(help="Also fit λ (path_weight) to this reader, as pocket.")] = None,
    weights: Annotated[str | None, opt.option(help="Values of λ to try, as 0.8,0.9.")] = None,
    objective: Annotated[str, opt.option(help="What λ is fitted by: f1 or em.")] = "f1",
    settings: opt.Settings = None,
    limit: Annotated[int, opt.option(min=1, help="Only so many questions: the first.")] = 128,
    sample: Annotated[int | None, opt.option(help="Draw the questions at random by this seed instead.")] = None,
    out: opt.SettingsOut = None,
    work: Annotated[
        Path | None, opt.option(help="A folder for what is measured; the same command again goes on there.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    prompts: opt.Prompts = None,
    cache: opt.Cache = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    as_json: opt.Json = False,
) -> None:
    """Find the instruction and temperature that suit a model. By R@2; then demonstrations and λ where asked."""
    from polyhop.cli.tune_promptrank import run_tune_promptrank

    arguments = opt.pipeline_arguments({name: value for name, value in locals().items() if name != "reader"})
    values = {"temperatures": temperatures, "weights": weights}
    search = {"demos": demos, "reader": reader, "objective": objective, "limit": limit, "sample": sample, "work": work}
    search |= {"concurrency": concurrency, "skip_bad": skip_bad}
    run_tune_promptrank(dataset, corpus, instructions, generate, generator, values, arguments, search, out, as_json)


@app.command("reproduce")
def reproduce_(
    key: Annotated[
        str, typer.Argument(metavar="list|KEY", help="'list' shows every recipe; a key, as tor/table2, runs it.")
    ],
    data: Annotated[
        Path | None,
        opt.option(help="A folder with one for each benchmark: hotpotqa/dev.jsonl, hotpotqa/corpus.jsonl."),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        opt.option(metavar="NAME=FILE", help="A benchmark's questions, NAME/train=FILE too; repeatable."),
    ] = None,
    corpus: Annotated[
        list[str] | None, opt.option(metavar="NAME=FILE", help="A benchmark's corpus or index folder; repeatable.")
    ] = None,
    lm: opt.Lm = "pocket",
    lm_for: Annotated[
        list[str] | None,
        opt.option("--lm-for", metavar="NAME=LM", help="Another model for one the paper names, as GPT-4; repeatable."),
    ] = None,
    retriever: opt.MethodRetriever = None,
    reader: opt.Reader = "pocket",
    checkpoint: Annotated[
        list[str] | None, opt.option(metavar="ROW=RETRIEVER", help="What runs a trained row, as MDR=mdr:FOLDER.")
    ] = None,
    instructions: Annotated[
        Path | None, opt.option(help="PromptRank's instructions, one a line, the best first; by default ours.")
    ] = None,
    out: Annotated[
        Path | None, opt.option(help="A folder for runs and table; the same command again goes on there.")
    ] = None,
    limit: opt.Limit = None,
    repeat: Annotated[
        int | None, opt.option(min=1, help="Runs where the paper has several; by default as many as it has.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    max_calls: opt.MaxCalls = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    as_json: opt.Json = False,
) -> None:
    """Run a table of the five papers, their numbers beside ours. 'list' shows all of them."""
    from polyhop.cli.reproduce import LIST, run_list, run_reproduce

    if key == LIST:
        run_list(as_json)
        return
    arguments = opt.pipeline_arguments({**locals(), "lm_for": None, "settings": None})
    limits = {"limit": limit, "repeat": repeat, "concurrency": concurrency, "skip_bad": skip_bad}
    arguments |= {**limits, "instructions": instructions}
    run_reproduce(key, data, dataset, corpus, lm_for, checkpoint, arguments, out, as_json)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="One method, to tell all of it.")] = None,
    as_json: opt.Json = False,
) -> None:
    """List the methods by family: papers, needs, calls, settings. Calls are a question's, typically."""
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
    rendered: Annotated[bool, opt.option("--rendered", help="As the model sees it, with demonstrations.")] = False,
) -> None:
    """Show a prompt file, or the prompt as the model sees it."""
    from polyhop.cli.info import run_prompts_show

    run_prompts_show(task, prompts, rendering, rendered)


@app.command()
def doctor(
    lm: Annotated[str | None, opt.option(help="Also try this language model with one small call.")] = None,
    as_json: opt.Json = False,
) -> None:
    """Check the installation. Tells versions, extras and cache folder, and tries a language model if named."""
    from polyhop.cli.info import run_doctor

    run_doctor(lm, as_json)
