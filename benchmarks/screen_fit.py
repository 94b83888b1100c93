"""Fit the rules that tell which articles ``tor`` need not have read by the encoder, and write them into
``lm/pocket/tables/weights.toml``.

    python -m benchmarks.screen_fit DATA

Tree of Reviews asks the questions of the train splits that the network was not trained on, and every path is read. A
path is worth it if its last passage is a gold one and is found relevant. Printed is, for several log-odds, the share of
paths that are still read from there, and of those worth reading the share that are (in cross-validation by questions);
``judge.FIRST_ABOVE`` and ``LATER_ABOVE`` are chosen from it.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from benchmarks.pocket_data import Split, load
from benchmarks.pocket_fit import Reasons, fit_decision, install, weights_page

from polyhop import Pipeline
from polyhop.lm.pocket.reading import judge
from polyhop.lm.pocket.reading.answer import read_path
from polyhop.lm.pocket.reading.comparison import canonical
from polyhop.lm.pocket.reading.tables import WEIGHTS, weights
from polyhop.trace import Ask

FOLDS = 5
SHARES = (0.6, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2)
"""Shares of the paths that are read, at which the log-odds are printed."""


class Reviewed(NamedTuple):
    """A reviewed path: its question's id, its features without the encoder, and whether it was worth reading."""

    question: str
    features: Reasons
    is_later: bool
    is_worth_it: bool


def reviewed(parts: Sequence[Split]) -> Iterator[Reviewed]:
    """Yield the paths that ``tor`` reviews, each once per question, but for those that are read in any case: they
    mention what is compared."""
    for part in parts:
        with (
            patch.multiple(judge, FIRST_ABOVE=-math.inf, LATER_ABOVE=-math.inf),
            Pipeline(list(part.passages.values()), "tor", "pocket") as pipeline,
        ):
            for row in part.questions:
                trace = pipeline.ask(row["question"]).trace
                asked = [step for step in trace.steps if isinstance(step, Ask) and step.task == "tor.review"]
                paths = {tuple(step.fields["passages"]): step.output or {} for step in asked}
                for path, review in paths.items():
                    reading = read_path(canonical(row["question"]), path)
                    if not judge.mentions_compared(reading):
                        is_worth_it = bool(review.get("relevant")) and path[-1].id in row["gold_pids"]
                        features = judge.screening_features(reading)
                        yield Reviewed(row["id"], features, len(path) > 1, is_worth_it)


def cross_validated(paths: Sequence[Reviewed]) -> list[float]:
    """Return the log-odds of each path by the weights fitted on the other questions."""
    folds = [zlib.crc32(path.question.encode()) % FOLDS for path in paths]
    tables = [fit([path for path, own in zip(paths, folds, strict=True) if own != fold]) for fold in range(FOLDS)]
    return [judge.log_odds(tables[fold], path.features) for path, fold in zip(paths, folds, strict=True)]


def fit(paths: Sequence[Reviewed]) -> Reasons:
    """Fit the weights that tell the paths worth reading."""
    return fit_decision([path.features for path in paths], [path.is_worth_it for path in paths])


def report(paths: Sequence[Reviewed], odds: Sequence[float]) -> Iterator[str]:
    """Yield a line per share of the paths that are read."""
    worth = np.array([path.is_worth_it for path in paths])
    yield f"{len(paths)} paths, {worth.sum()} worth reading"
    for share in SHARES:
        lowest = float(np.quantile(odds, 1 - share))
        kept = (np.array(odds) >= lowest)[worth].mean()
        yield f"from {lowest:5.1f}: {100 * share:.0f} % read, {100 * kept:.0f} % kept"


def main(data: Path) -> None:
    """Fit both tables, print what they keep, and write ``weights.toml``."""
    paths = list(reviewed(load(data, "held")))
    for table, is_later in ((weights().screen_first, False), (weights().screen_later, True)):
        some = [path for path in paths if path.is_later == is_later]
        print("later passages" if is_later else "first passages")
        print("\n".join(report(some, cross_validated(some))))
        install(table, fit(some))
    WEIGHTS.write_text(weights_page(), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    main(parser.parse_args().data)
