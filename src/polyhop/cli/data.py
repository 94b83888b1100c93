"""``polyhop data``: datasets converted, checked, counted, sampled; corpora from contexts; predictions to hand in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from polyhop.cli import options as opt
from polyhop.cli.datasets import DatasetPath, WrittenTo, opened, say_skipped, say_written, write_text, write_to
from polyhop.cli.printing import say, write
from polyhop.cli.submissions import data_predictions
from polyhop.common.text import counted, printable
from polyhop.data.contexts import grounded_questions, unique_passages
from polyhop.data.corpora import open_corpus
from polyhop.data.formats import ID_FIELDS
from polyhop.data.lines import first_of, write_objects
from polyhop.data.plain import flashrag_row, plain_row
from polyhop.data.statistics import DatasetStatistics, dataset_statistics, sample
from polyhop.data.submissions import trec_qrels
from polyhop.errors import DataError, UnknownName, UsageError
from polyhop.types import Question

_ROWS: Mapping[str, Callable[[Question], dict[str, Any]]] = {"flashrag": flashrag_row, "jsonl": plain_row}
_QRELS = "trec-qrels"
CONVERTED = (*_ROWS, _QRELS)
OWN_IDS = (*ID_FIELDS, "q_id")
"""A sample keeps records unchanged if they have an id; others are known by their position, which changes."""

app = opt.new_app()
data_app = opt.new_app(help="Convert, check, count and sample datasets; export predictions.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command("convert")
def data_convert(
    dataset: DatasetPath,
    to: Annotated[str, opt.option(help="flashrag, jsonl (plain lines) or trec-qrels (its gold passages).")],
    out: WrittenTo = None,
    form: opt.DatasetFormat = None,
    corpus: Annotated[
        Path | None, opt.option(help="Corpus in which trec-qrels finds the ids of gold passages known only by title.")
    ] = None,
    fields: opt.Fields = None,
    limit: opt.Limit = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Write a dataset in another format."""
    if to not in CONVERTED:
        raise UnknownName("form to convert to", to, CONVERTED)
    source = opened(dataset, form, skip_bad=skip_bad, fields=opt.fields_of(fields))
    questions = islice(source, limit)
    if to == _QRELS:
        held = list(questions)
        lines = list(trec_qrels(held, _ids_of_titles(held, corpus)))
        if not lines:
            raise UsageError("no gold passage has an id: if they have titles, --corpus finds their ids")
        write_to(out, lambda stream: write_text(lines, stream))
        say_written(f"{counted(len(lines), 'gold passages')} of {counted(len(held), 'questions')}", out)
    else:
        count = write_to(out, lambda stream: write_objects(map(_ROWS[to], questions), stream))
        say_written(counted(count, "questions"), out)
    say_skipped(source)


@data_app.command("validate")
def data_validate(
    dataset: DatasetPath, form: opt.DatasetFormat = None, fields: opt.Fields = None, as_json: opt.Json = False
) -> None:
    """List the faulty rows of a dataset. Each comes with its location and first fault; exits with 1 if there is one."""
    from polyhop.cli.show import print_json

    source = opened(dataset, form, skip_bad=True, fields=opt.fields_of(fields))
    questions: list[Question] = []
    problems: list[str] = []
    try:
        for record in source.records():
            if isinstance(record.question, Question):
                questions.append(record.question)
            else:
                problems.append(str(record.question))
    except DataError as error:  # nothing after it can be read
        problems.append(str(error))
    summary: dict[str, Any] = {
        "format": source.format.name,
        "reason": source.reason,
        "questions": len(questions),
        "without_answers": sum(not question.answers for question in questions),
        "without_gold_passages": sum(not (question.gold_ids or question.gold_titles) for question in questions),
        "problems": problems,
    }
    if as_json:
        print_json(summary)
    else:
        for problem in problems:
            write(f"{printable(problem)}\n")
        write(
            f"{counted(summary['questions'], 'questions')} ({summary['without_answers']} without answers, "
            f"{summary['without_gold_passages']} without gold passages), {counted(len(problems), 'problems')}\n"
        )
    if problems or not questions:
        raise typer.Exit(1)


@data_app.command("stats")
def data_stats(
    dataset: DatasetPath,
    corpus: Annotated[
        Path | None, opt.option(help="Also show the share of the gold evidence that this corpus has.")
    ] = None,
    form: opt.DatasetFormat = None,
    fields: opt.Fields = None,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Show statistics of a dataset."""
    from polyhop.cli.show import print_json

    source = opened(dataset, form, skip_bad=skip_bad, fields=opt.fields_of(fields))
    passages = open_corpus(corpus, skip_bad=skip_bad) if corpus is not None else None
    found = dataset_statistics(list(source), passages)
    if as_json:
        print_json({"format": source.format.name, **found.to_dict()})
    else:
        _print_statistics(found)
    say_skipped(source)


@data_app.command("sample")
def data_sample(
    dataset: DatasetPath,
    n: Annotated[int, opt.option("-n", min=1, help="Number of questions.")] = 500,
    seed: Annotated[int, opt.option(help="Random seed of the sample.")] = 0,
    stratify: Annotated[
        str | None, opt.option(help="Keep the proportions of type, kind, hops or a metadata field.")
    ] = None,
    out: WrittenTo = None,
    form: opt.DatasetFormat = None,
    fields: opt.Fields = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Draw a random sample. It is the same on every machine."""
    source = opened(dataset, form, skip_bad=skip_bad, fields=opt.fields_of(fields))
    chosen = sample(source, n, seed=seed, stratify=stratify)
    own = (
        source.source.layout != "CSV"
        and not fields
        and all(record.row and first_of(record.row, OWN_IDS) for record in chosen)
    )
    rows = [
        record.row if own and record.row else plain_row(record.question)
        for record in chosen
        if isinstance(record.question, Question)
    ]
    count = write_to(out, lambda stream: write_objects(rows, stream))
    say_written(counted(count, "questions") + ("" if own else " (plain JSON lines)"), out)
    say_skipped(source)


@data_app.command("corpus-from-contexts")
def data_corpus_from_contexts(
    datasets: Annotated[list[Path], typer.Argument(help="Files of HotpotQA, 2WikiMultiHopQA or MuSiQue.")],
    out: Annotated[Path, opt.option(help="The corpus to write, JSON lines.")],
    questions: Annotated[Path | None, opt.option(help="Also write the questions, with gold passages by id.")] = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Build a corpus from the passages in datasets."""
    sources = [opened(dataset, form, skip_bad=skip_bad) for dataset in datasets]
    count = write_to(out, lambda to: write_objects((each.to_dict() for each in unique_passages(sources)), to))
    say_written(counted(count, "passages"), out)
    if questions is not None:
        grounded = (question for source in sources for question in grounded_questions(source))
        count = write_to(questions, lambda to: write_objects(map(plain_row, grounded), to))
        say_written(f"{counted(count, 'questions')} with ids of gold passages", questions)
    else:
        say("the dataset names its gold passages by title; --questions FILE writes their ids, which are exact")
    for source in sources:
        say_skipped(source)


data_app.command("predictions")(data_predictions)


def _ids_of_titles(questions: Sequence[Question], corpus: Path | None) -> Mapping[str, list[str]]:
    """Return the ids of the passages of each gold title, for questions that name only titles."""
    titles = {title for question in questions if not question.gold_ids for title in question.gold_titles}
    found: defaultdict[str, list[str]] = defaultdict(list)
    if titles and corpus is not None:
        for passage in open_corpus(corpus):
            if passage.title in titles:
                found[passage.title].append(passage.id)
    return found


def _print_statistics(found: DatasetStatistics) -> None:
    from rich.text import Text

    from polyhop.cli.show import console, print_rows

    summary = found.to_dict()
    to = console()
    to.print(Text(counted(summary["questions"], "questions"), style="bold"))
    for name, counts in summary["by"].items():
        rows = [[name, "questions", "%"]]
        rows += [[value, str(n), f"{100 * n / max(1, found.questions):.1f}"] for value, n in counts.items()]
        print_rows(rows, to, names=1)
    for name in ("question_words", "answer_words"):
        if (spread := summary[name]) is not None:
            middle = f"mean {spread['mean']:.1f}, median {spread['median']}, most {spread['most']}"
            to.print(Text(f"{name.replace('_', ' ')}: {middle}"))
    answers = summary["answers"]
    to.print(
        Text(
            f"answers: {100 * answers['yes_or_no']:.1f} % yes or no, "
            f"{counted(answers['without'], 'questions')} without, "
            f"{answers['aliases_per_question']:.2f} aliases per question"
        )
    )
    for name in ("with_gold_passages", "with_supporting_facts", "with_steps"):
        to.print(Text(f"{name.replace('_', ' ')}: {100 * summary[name]:.1f} %"))
    if gold := summary["gold_in_corpus"]:
        to.print(
            Text(
                f"gold in the corpus: {100 * gold['share_of_passages']:.1f} % of "
                f"{counted(gold['passages'], 'passages')}; "
                f"all of it for {100 * gold['share_of_questions']:.1f} % of {counted(gold['questions'], 'questions')}"
            )
        )
