"""Measure ``pocket``: retrieval, answers, confidence, cost and determinism.

    python -m benchmarks.pocket DATA [--split dev] [--limit N] [--only SET] [--part PART] [--methods a,b]
                                     [--retrievers a,b] [--out FILE] [--check]

DATA as in ``benchmarks/pocket_data.py``. The parts:

* ``retrieval``: R@k of ``hops``, of BM25, of the network's vectors and of both; the mean share of a question's gold
  passages in the first k, with its 95 % bootstrap interval; the ceiling of ``hops``, the share of gold passages among
  those of its first search and of its scored paths; ms per question. The first use of vectors encodes the whole corpus.
* ``answers``: EM, F1 and recall of every method with ``pocket``, its calls, and seconds per question, in sequence.
  ``METHOD@RETRIEVER`` in ``--methods`` replaces the method's own retriever; ``gold passages`` reads only these;
  ``METHOD without rules`` compares no values by rules and follows no relations.
* ``calibration``: AUROC and ECE of confidences, where right means an EM of 1: of the answers of some methods; of the
  reader's most confident span over gold passages and over those that ``hops`` read; and of its span over one passage at
  a time for single-hop sub-questions, with the threshold of best F1 and the result of the threshold in use.
* ``reviews``: precision and recall of the judgements that Tree of Reviews uses.
* ``speed``: on two cores over the whole corpus: ``hops`` with its reading, a path in a batch of encodings, memory, and
  the start.
* ``determinism``: the differences between asking alone and among others, and in another order.

A row is measured in its own process. ``--out`` keeps the rows in a file: existing rows are not measured again. With
``--check`` the exit code is 1 if a figure misses its bar (``benchmarks/pocket_tables.py``).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from benchmarks.pocket_data import SETS, SPLITS, Split, all_gold, is_enough, load, paths, there
from benchmarks.pocket_parts import GOLD, NO_RULES, Figures, Job, fresh
from benchmarks.pocket_tables import ALL, ONE_BY_ONE, READERS, Row, bars, best, tables

from benchmarks import pocket_parts as parts
from polyhop.lm.pocket.encoder.network import fingerprint
from polyhop.methods.registry import method_named, methods

__all__ = ["SETS", "Bench", "Results", "Split", "all_gold", "is_enough", "load", "paths"]

RETRIEVERS = ("hops", "bm25", "dense:pocket", "hybrid:bm25+dense:pocket")
SURE = ("hops", "one-r", "tor", "ge", "resp", "searchain", "promptrank")
"""Methods whose confidence is measured."""
TWICE = ("hops", "tor", "resp")
"""Methods that answer everything twice."""


class Results:
    """The rows measured so far, in a file if one is given; ``settings`` are those of the measurement.

    Raises ``SystemExit`` where the file holds rows of other settings.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self.path, self.settings = path, dict(settings)
        self.rows: list[Row] = []
        if path is not None and path.exists():
            held = orjson.loads(path.read_bytes())
            if held["settings"] != self.settings:
                raise SystemExit(
                    f"{path} holds what was measured under {held['settings']}; now {self.settings}: name another --out"
                )
            self.rows = held["rows"]

    def row(self, part: str, name: str, what: str, measured: Callable[..., Figures], *arguments: Any) -> Row:
        """Return the row of a part, a data set and a method from the file, else measure and keep it."""
        if (held := self.find(part, name, what)) is not None:
            return held
        print(f"{part} · {name} · {what}", file=sys.stderr, flush=True)
        row: Row = {"part": part, "set": name, "name": what, **measured(*arguments)}
        self.rows.append(row)
        if self.path is not None:
            beside = self.path.with_name(f"{self.path.name}.part")
            beside.write_bytes(orjson.dumps({"settings": self.settings, "rows": self.rows}))
            os.replace(beside, self.path)
        return row

    def find(self, part: str, name: str, what: str) -> Row | None:
        """Return an existing row."""
        return next((row for row in self.rows if (row["part"], row["set"], row["name"]) == (part, name, what)), None)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The measurements, their questions, and the results that they are added to."""

    data: Path
    split: str
    limit: int | None
    sets: Sequence[str]
    methods: Sequence[str] = ()
    retrievers: Sequence[str] = RETRIEVERS
    results: Results

    def measure(self, part: str) -> None:
        """Measure what the results lack for one of ``PARTS``."""
        for name in self.sets:
            PARTS[part](self, name)
        if part == "speed":
            self.results.row(part, ALL, "start", parts.starting)

    def job(self, name: str, what: str = "") -> Job:
        """Return the job that measures one thing on one data set."""
        return Job(self.data, name, self.split, self.limit, what)

    def retrieval(self, name: str) -> None:
        """Measure every named retriever."""
        for what in self.retrievers:
            self.results.row("retrieval", name, what, fresh, parts.retrieval, self.job(name, what))

    def answers(self, name: str) -> None:
        """Measure every named method."""
        for what in self.methods:
            self._answered(name, what)

    def _answered(self, name: str, what: str) -> Row:
        return self.results.row("answers", name, what, fresh, parts.answers, self.job(name, what))

    def calibration(self, name: str) -> None:
        """Measure the confidence of answers, from ``answers`` if they are missing, and the reader's."""
        for what in (GOLD, *(method for method in SURE if method in self.methods)):
            predictions = self._answered(name, what)["predictions"]
            self.results.row("calibration", name, what, parts.confidence, predictions)
        for reader, read in zip(READERS, (None, self._answered(name, "hops")["predictions"]), strict=True):
            self.results.row("calibration", name, reader, fresh, parts.reading, self.job(name), read)
        self.results.row("calibration", name, ONE_BY_ONE, fresh, parts.one_by_one, self.job(name))

    def reviews(self, name: str) -> None:
        """Measure both decisions of a review."""
        for what in ("relevance", "sufficiency"):
            self.results.row("reviews", name, what, fresh, parts.reviews, self.job(name, what))

    def speed(self, name: str) -> None:
        """Measure the speed of ``hops``."""
        self.results.row("speed", name, "hops", fresh, parts.speed, self.job(name, "hops"))

    def determinism(self, name: str) -> None:
        """Run some methods and encodings twice."""
        for what in TWICE:
            self.results.row("determinism", name, what, parts.twice, self.job(name, what))
        self.results.row("determinism", name, "looks", fresh, parts.looks_alike, self.job(name))


PARTS: Mapping[str, Callable[[Bench, str], None]] = {
    "retrieval": Bench.retrieval,
    "answers": Bench.answers,
    "calibration": Bench.calibration,
    "reviews": Bench.reviews,
    "speed": Bench.speed,
    "determinism": Bench.determinism,
}


def pooled(rows: Sequence[Row]) -> list[Row]:
    """Add the calibration of each name over the cases of all data sets together."""
    held: dict[str, list[tuple[float, bool]]] = {}
    for row in rows:
        if row["part"] == "calibration" and "judged" in row:
            held.setdefault(row["name"], []).extend(row["judged"])
    return [{"part": "calibration", "set": ALL, "name": name, **parts.sureness(cases)} for name, cases in held.items()]


def show(rows: Sequence[Row]) -> None:
    """Print the tables, the best method of each data set, and the bars."""
    print(*tables(rows), sep="\n\n", end="\n\n")
    for name in SETS:
        if (top := best(rows, name)) is not None:
            print(f"best on {name}: {top['name']}, F1 {100 * top['F1']['value']:.1f}")
    for bar in bars(rows):
        print(f"{'kept ' if bar.is_kept else 'short'}  {bar}")


def main() -> int:
    """Measure the requested parts and print all results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", choices=SPLITS, default="dev")
    parser.add_argument("--limit", type=int, help="the first questions of each set only")
    parser.add_argument("--only", choices=SETS, action="append", help="this set alone; may be repeated")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part alone; may be repeated")
    parser.add_argument("--methods", help="for the answers, with commas between; by default every one")
    parser.add_argument("--retrievers", help="for retrieval, with commas between", default=",".join(RETRIEVERS))
    parser.add_argument("--out", type=Path, help="a JSON file that keeps the rows")
    parser.add_argument("--check", action="store_true", help="exit 1, naming what falls short")
    given = parser.parse_args()
    usual = [name for name, method in methods().items() if method.family != "control"]
    named = given.methods.split(",") if given.methods else [*usual, GOLD]
    for what in named:
        if (method := what.removesuffix(NO_RULES)) != GOLD:
            method_named(method.partition("@")[0])
    results = Results(given.out, {"split": given.split, "limit": given.limit, "network": fingerprint()})
    sets = [name for name in there(given.data) if not given.only or name in given.only]
    bench = Bench(
        data=given.data,
        split=given.split,
        limit=given.limit,
        sets=sets,
        methods=named,
        retrievers=given.retrievers.split(","),
        results=results,
    )
    for part in given.part or PARTS:
        bench.measure(part)
    rows = [*results.rows, *pooled(results.rows)]
    show(rows)
    missed = [bar for bar in bars(rows) if not bar.is_kept]
    for bar in missed if given.check else ():
        print(f"missed: {bar}", file=sys.stderr)
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
