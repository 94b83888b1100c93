"""Fit the confidence of ``pocket``, and write ``lm/pocket/tables/confidence.json``.

    python -m benchmarks.pocket_confidence WORK [--data DATA] [--methods a,b] [--sets N] [--limit N] [--out FILE]

Runs every method over questions that the encoder was not trained on, since it is overconfident on the others: document
sets of the domains ``HELD_OUT`` (N sets per domain) and the independent ones, each over its own documents, and the
first questions of the benchmarks in DATA (``benchmarks/pocket_data.py``, the split ``held``). The runs are in the
folder WORK and resume there; ``polyhop tune confidence`` does the same for your own runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.pocket_data import there
from benchmarks.pocket_parts import Job
from training.sets import FOLDER, HELD_OUT, INDEPENDENT, DocumentSet, sets

from polyhop import Question, evaluate, open_corpus
from polyhop.cli.stages import print_confidence
from polyhop.engine.calibration import SHIPPED
from polyhop.evaluation.store import read_report
from polyhop.evaluation.tuning.confidence import fit_confidence
from polyhop.methods.registry import write_settings

METHODS = ("hops", "one-r", "searchain", "tor")
UNANSWERABLE = 1 / 3
"""The weight of an unanswerable question. They are 45 % of the sets' questions, to measure on; so weighted, 22 %."""


def questions_of(held: DocumentSet) -> Iterator[Question]:
    """Return the questions of a set, each with the set's passages as its contexts."""
    name = f"{held.domain}/{held.name}"
    with TemporaryDirectory() as folder:
        for path, text in held.documents.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        own = tuple(replace(passage, id=f"{name}#{passage.id}") for passage in open_corpus(folder))
    for number, asked in enumerate(held.questions):
        yield Question(f"{name}#{number}", asked.text, asked.answers, contexts=own, metadata={"type": asked.kind})


def held_out(per_domain: int) -> Iterator[DocumentSet]:
    """Return the first sets of each domain that the encoder is not trained on."""
    count: dict[str, int] = {}
    for held in sets(FOLDER):
        count[held.domain] = count.get(held.domain, 0) + 1
        if held.domain in HELD_OUT and count[held.domain] <= per_domain:
            yield held


def run(work: Path, methods: Sequence[str], per_domain: int, data: Path | None, limit: int) -> None:
    """Make the runs that WORK lacks."""
    for held in (*held_out(per_domain), *sets(INDEPENDENT)):
        asked = list(questions_of(held))
        for method in methods:
            out = work / method / f"{held.domain}-{held.name}"
            evaluate(asked, asked[0].contexts, method, "pocket", out=out, title=held.name)
    for job in [Job(data, name, "held", limit) for name in there(data)] if data else []:
        for method in methods:
            evaluate(job.questions, job.index, method, "pocket", out=work / method / job.name, title=job.name)


def main() -> int:
    """Run, fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    options = parser.parse_args()
    run(options.work, options.methods.split(","), options.sets, options.data, options.limit)
    reports = [read_report(path.parent) for path in sorted(options.work.glob("*/*/run.json"))]
    fit = fit_confidence([(report.method, report.rows) for report in reports], "pocket", UNANSWERABLE)
    print_confidence(fit)
    write_settings(options.out, fit.file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
