"""``polyhop data``: datasets converted, checked, counted, sampled; corpora from contexts; predictions to hand in."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say, write
from polyhop.common.files import atomic_write
from polyhop.common.text import counted, printable
from polyhop.data import DEMO
from polyhop.data.contexts import Context, contexts_of, grounded_questions, questions_with_contexts, unique_passages
from polyhop.data.corpora import open_corpus
from polyhop.data.formats import ID_FIELDS
from polyhop.data.lines import first_of, write_objects
from polyhop.data.plain import flashrag_row, plain_row
from polyhop.data.questions import Dataset, open_questions, read_questions
from polyhop.data.statistics import DatasetStatistics, dataset_statistics, sample
from polyhop.data.submissions import (
    Row,
    hotpotqa_submission,
    kilt_submission,
    musique_submission,
    ragas_samples,
    trec_qrels,
    trec_run,
    two_wiki_submission,
)
from polyhop.errors import DataError, UnknownName, UsageError
from polyhop.types import Passage, Question

_ROWS: Mapping[str, Callable[[Question], dict[str, Any]]] = {"flashrag": flashrag_row, "jsonl": plain_row}
_QRELS = "trec-qrels"
CONVERTED = (*_ROWS, _QRELS)
OWN_IDS = (*ID_FIELDS, "q_id")
"""A sample keeps records unchanged if they have an id; others are known by their position, which changes."""
HANDED_IN = ("hotpotqa", "2wiki", "musique", "kilt", "trec-run", "ragas")

DatasetPath = Annotated[
    Path, typer.Argument(metavar="DATASET", help="Questions in any known format, hf:DATASET[:SPLIT], or 'demo'.")
]
WrittenTo = Annotated[Path | None, opt.option("--out", help="The file to write; default: stdout.")]

app = opt.new_app()
data_app = opt.new_app(help="Convert, check, count and sample datasets; export predictions.", no_args_is_help=True)
app.add_typer(data_app, name="data")


def opened(
    dataset: str | Path,
    form: str | None = None,
    *,
    skip_bad: bool = False,
    fields: Mapping[str, str] | None = None,
) -> Dataset:
    """Open a dataset and say which format it is read as, and why."""
    found = open_questions(dataset, format=form, skip_bad=skip_bad, fields=fields)
    say(f"{found.name} is read as {found.format.name}: {found.reason}")
    return found


def read(
    dataset: Path,
    form: str | None,
    *,
    skip_bad: bool,
    fields: Mapping[str, str] | None = None,
    contexts: bool = False,
) -> list[Question]:
    """Read all questions of a dataset, with their contexts or without, and say which format it has unless it is the
    demo."""
    if str(dataset) == DEMO and form is None and fields is None:
        return read_questions(dataset)
    source = opened(dataset, form, skip_bad=skip_bad, fields=fields)
    questions = questions_with_contexts(source) if contexts else list(source)
    _say_skipped(source)
    return questions


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
        _write(out, lambda stream: _write_text(lines, stream))
        _done(f"{counted(len(lines), 'gold passages')} of {counted(len(held), 'questions')}", out)
    else:
        count = _write(out, lambda stream: write_objects(map(_ROWS[to], questions), stream))
        _done(counted(count, "questions"), out)
    _say_skipped(source)


@data_app.command("validate")
def data_validate(
    dataset: DatasetPath, form: opt.DatasetFormat = None, fields: opt.Fields = None, as_json: opt.Json = False
) -> None:
    """List every fault of a dataset with its location. Exits with 1 if there is one."""
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
    _say_skipped(source)


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
    count = _write(out, lambda stream: write_objects(rows, stream))
    _done(counted(count, "questions") + ("" if own else " (plain JSON lines)"), out)
    _say_skipped(source)


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
    count = _write(out, lambda to: write_objects((each.to_dict() for each in unique_passages(sources)), to))
    _done(counted(count, "passages"), out)
    if questions is not None:
        grounded = (question for source in sources for question in grounded_questions(source))
        count = _write(questions, lambda to: write_objects(map(plain_row, grounded), to))
        _done(f"{counted(count, 'questions')} with ids of gold passages", questions)
    else:
        say("the dataset names its gold passages by title; --questions FILE writes their ids, which are exact")
    for source in sources:
        _say_skipped(source)


@data_app.command("predictions")
def data_predictions(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    to: Annotated[str, opt.option(help="hotpotqa, 2wiki, musique, kilt, trec-run or ragas.")],
    out: WrittenTo = None,
    dataset: Annotated[
        Path | None, opt.option(help="The dataset of the run: gives the order and, for musique, the paragraph numbers.")
    ] = None,
    form: opt.DatasetFormat = None,
) -> None:
    """Write predictions for a scorer, or for Ragas."""
    from polyhop.evaluation.store import PREDICTIONS, read_predictions

    if to not in HANDED_IN:
        raise UnknownName("form of predictions", to, HANDED_IN)
    if to == "musique" and dataset is None:
        raise UsageError("--to musique requires --dataset: support is given by the paragraph numbers of MuSiQue's file")
    if not (run / PREDICTIONS).is_file():
        raise DataError(f"not a run's folder: it has no {PREDICTIONS}", run)
    rows: list[Row] = list(read_predictions(run / PREDICTIONS))
    contexts = _contexts(opened(dataset, form)) if dataset is not None else {}
    if dataset is not None:
        rows = _in_order(rows, list(contexts))
    _write(out, lambda stream: _write_submission(to, rows, contexts, run, stream))
    _done(f"predictions of {counted(len(rows), 'questions')}", out)
    if missing := len(contexts) - len(rows) if contexts else 0:
        say(f"no prediction for {counted(missing, 'questions')} of the dataset; an official scorer expects all of them")
    if to in ("hotpotqa", "2wiki") and rows and not any(row.get("facts") for row in rows):
        say("no supporting facts: the corpus does not say where sentences begin, unlike one from contexts")


def _write_submission(
    to: str, rows: Sequence[Row], contexts: Mapping[str, Sequence[Context]], run: Path, stream: BinaryIO
) -> int:
    match to:
        case "hotpotqa":
            return write_objects([hotpotqa_submission(rows)], stream)
        case "2wiki":
            return write_objects([two_wiki_submission(rows)], stream)
        case "musique":
            return write_objects(musique_submission(rows, contexts), stream)
        case "kilt":
            return write_objects(kilt_submission(rows), stream)
        case "ragas":
            return write_objects(ragas_samples(rows, partial(_ranked, run)), stream)
        case _:
            return _write_text(trec_run(rows, f"polyhop-{run.resolve().name}"), stream)


def _ranked(run: Path, row: Row) -> Sequence[Passage]:
    from polyhop.evaluation.store import ranked_passages

    passages = ranked_passages(run, row)
    if passages is None:
        raise DataError(
            f"the trace of question {row['id']!r}, which has the texts of its passages, cannot be read", run
        )
    return passages


def _contexts(dataset: Dataset) -> dict[str, list[Context]]:
    """Return the contexts of each question of a dataset, in its order."""
    found: dict[str, list[Context]] = {}
    for number, row, question in dataset.valid_records():
        try:
            contexts = contexts_of(row or {})
        except ValueError as error:
            raise dataset.source.fault(number, str(error)) from None
        if isinstance(question, Question):
            found[question.id] = contexts
    return found


def _in_order(rows: Iterable[Row], order: Sequence[str]) -> list[Row]:
    """Return a run's lines in a dataset's order."""
    by_id = {row["id"]: row for row in rows}
    if strange := by_id.keys() - set(order):
        raise UsageError(f"the dataset has no question {min(strange)!r}, which the run answers: is it another one?")
    return [by_id[id] for id in order if id in by_id]


def _ids_of_titles(questions: Sequence[Question], corpus: Path | None) -> Mapping[str, list[str]]:
    """Return the ids of the passages of each gold title, for questions that name only titles."""
    titles = {title for question in questions if not question.gold_ids for title in question.gold_titles}
    found: defaultdict[str, list[str]] = defaultdict(list)
    if titles and corpus is not None:
        for passage in open_corpus(corpus):
            if passage.title in titles:
                found[passage.title].append(passage.id)
    return found


@contextmanager
def _target(out: Path | None) -> Iterator[BinaryIO]:
    """Open the output: a file, replaced once complete, or stdout."""
    if out is not None:
        with atomic_write(out) as stream:
            yield stream
        return
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def _write(out: Path | None, write: Callable[[BinaryIO], int]) -> int:
    with _target(out) as stream:
        return write(stream)


def _write_text(lines: Iterable[str], to: BinaryIO) -> int:
    count = 0
    for count, line in enumerate(lines, 1):  # noqa: B007
        to.write(line.encode() + b"\n")
    return count


def _done(what: str, out: Path | None) -> None:
    if out is not None:
        say(f"{what} written to {out}")


def _say_skipped(dataset: Dataset) -> None:
    if dataset.skipped:
        say(f"skipped {counted(dataset.skipped, 'malformed rows')} of {dataset.name}")


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
