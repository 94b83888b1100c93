"""Methods with ``pocket`` on small sets of everyday documents, by kind of question.

    python -m benchmarks.documents [SETS] [--domains held-out|training|all|a,b] [--methods a,b] [--limit N]
                                   [--together N] [--questions FOLDER] [--show METHOD]

SETS: a folder of sets (``training/sets.py``), by default ``training/documents``; ``held-out`` domains are never trained
on. An answer is right if it is a gold answer, or contains one and at most three more words. Printed per method:

* right answers, in percent, by kind of question, and seconds per question;
* ``swapped``: comparisons that get the same answer with their two names swapped;
* ``withheld``: unanswerable questions that are not answered, or whose answer is not supported;
* ``doubted``: right answers that are marked not supported;
* AUROC and ECE of the confidence over all answered questions;
* ``read``: gold documents among the first ten passages.

``--together`` makes one folder of every N sets of a domain, so that each question is asked over more documents.
``--questions`` asks those of another folder over the same documents: ``training/unseen`` has 300 of one fact that
nothing was chosen on. ``training/independent --domains all`` measures on harder sets of more documents, by other hands.
``--show`` prints the wrong answers of a method.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from training.sets import FOLDER, HELD_OUT, KINDS, DocumentSet, Question, corpus_of, sets, together, with_questions

from polyhop import Answer, Pipeline, metrics
from polyhop.common.text import normalise
from polyhop.evaluation.calibration import auroc, calibration_bins, calibration_error
from polyhop.lm.pocket.reading.comparison import find_comparison

METHODS = ("one-r", "hops", "tor", "searchain", "resp", "ge")
WORDS_BESIDE = 3
"""Maximum number of words that a right answer may have beyond the gold answer."""


@dataclass
class Tally:
    """The results of a method."""

    right: dict[str, list[bool]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    swapped: list[bool] = field(default_factory=list)
    withheld: list[bool] = field(default_factory=list)
    doubted: list[bool] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)
    sure: list[bool] = field(default_factory=list)
    read: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, asked: Question, answer: Answer, seconds: float) -> bool:
        """Count one answer; True if it is right."""
        right = is_right(answer.text, asked.answers)
        if asked.answers:
            self.right[asked.kind].append(right)
            files = {passage.metadata["source"] for passage in answer.passages[:10]}
            self.read += [step.path in files for step in asked.steps]
            if right:
                self.doubted.append(not answer.supported)
        else:
            right = answer.abstained or not answer.text
            self.right[asked.kind].append(right)
            self.withheld.append(right or not answer.supported)
        if answer.text and answer.confidence is not None:
            self.confidence.append(answer.confidence)
            self.sure.append(bool(asked.answers) and right)
        self.seconds.append(seconds)
        return right


def is_right(text: str, answers: Sequence[str]) -> bool:
    """Return True if the text is one of the answers, or contains one and little else."""
    words = len(normalise(text).split())
    return any(
        metrics.exact_match(text, [gold])
        or (metrics.cover_em_token(text, [gold]) and words <= len(normalise(gold).split()) + WORDS_BESIDE)
        for gold in answers
    )


def swapped(asked: Question) -> str | None:
    """Return a comparison with its two names swapped; None if it does not choose between two that it names."""
    found = find_comparison(asked.text, yes_or_no=False) if asked.kind == "comparison" else None
    if found is None or found.how not in ("choice", "fits"):
        return None
    left, right = found.options
    pieces = re.split(f"({re.escape(left)}|{re.escape(right)})", asked.text)
    if left in right or right in left or len(pieces) != 5:
        return None
    return "".join((pieces[0], pieces[3], pieces[2], pieces[1], pieces[4]))


def _of_domains(chosen: Iterable[DocumentSet], limit: int | None, size: int) -> Iterator[DocumentSet]:
    for _, each in groupby(chosen, key=lambda held: held.domain):
        held = list(each)[:limit]
        yield from (together(held[at : at + size]) if size > 1 else held[at] for at in range(0, len(held), size))


def measure(held: DocumentSet, methods: Sequence[str], tallies: dict[str, Tally], show: str) -> None:
    """Answer every question of a set with every method."""
    corpus = corpus_of(held)
    for method in methods:
        with Pipeline(corpus, method, "pocket") as pipeline:
            for asked in held.questions:
                begun = time.perf_counter()
                answer = pipeline.ask(asked.text)
                right = tallies[method].add(asked, answer, time.perf_counter() - begun)
                if method == show and not right:
                    print(f"{held.domain}/{held.name} {asked.kind}: {asked.text}\n  gold {asked.answers}")
                    print(f"  said {answer.text!r}, confidence {answer.confidence}, supported {answer.supported}")
                if other := swapped(asked):
                    tallies[method].swapped.append(normalise(pipeline.ask(other).text) == normalise(answer.text))


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    """Return the table, one row per method, in percent."""
    rows = [columns(method, tally) for method, tally in tallies.items()]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    for row in ({name: name for name in widths}, *rows):
        yield "  ".join(f"{row[name]:>{width}}" for name, width in widths.items())


def columns(method: str, tally: Tally) -> dict[str, str]:
    """Return a row of the table by the names of its columns."""
    answerable = [right for kind, each in tally.right.items() if kind != "unanswerable" for right in each]
    area = auroc(tally.confidence, tally.sure)
    error = calibration_error(calibration_bins(tally.confidence, tally.sure))
    return {
        "method": method,
        "right": _percent(answerable),
        **{kind: _percent(tally.right[kind]) for kind in KINDS},
        "swapped": _percent(tally.swapped),
        "withheld": _percent(tally.withheld),
        "doubted": _percent(tally.doubted),
        "AUROC": "-" if area is None else f"{100 * area:.0f}",
        "ECE": "-" if error is None else f"{100 * error:.0f}",
        "read": _percent(tally.read),
        "s": f"{sum(tally.seconds) / max(1, len(tally.seconds)):.2f}",
    }


def _percent(each: Sequence[bool]) -> str:
    return f"{100 * sum(each) / len(each):.0f}" if each else "-"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--domains", default="held-out")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--limit", type=int, help="sets per domain")
    parser.add_argument("--together", type=int, default=1, help="sets in one folder")
    parser.add_argument("--questions", type=Path, help="a folder of other questions over the sets")
    parser.add_argument("--show", default="")
    options = parser.parse_args()
    named = (held for held in sets(options.folder) if _is_chosen(held.domain, options.domains))
    if options.questions:
        named = (with_questions(held, options.questions) for held in named)
    chosen = list(_of_domains(named, options.limit, options.together))
    tallies = {method: Tally() for method in options.methods.split(",")}
    for held in chosen:
        measure(held, tuple(tallies), tallies, options.show)
    asked = sum(len(held.questions) for held in chosen)
    print(f"{len(chosen)} sets of {len({held.domain for held in chosen})} domains, {asked} questions")
    print("\n".join(table(tallies)))
    return 0


def _is_chosen(domain: str, domains: str) -> bool:
    named = {"held-out": domain in HELD_OUT, "training": domain not in HELD_OUT, "all": True}
    return named.get(domains, domain in domains.split(","))


if __name__ == "__main__":
    sys.exit(main())
