"""Fit the path weights of ``hops``, ``path_start`` and ``path_step`` in ``lm/pocket/tables/weights.toml``.

    python -m benchmarks.hops_fit DATA

DATA as in ``benchmarks/pocket.py``; only the train splits are read. Among each question's passages (BM25's first 100
and the links of its first 30), every gold passage should outrank all others. The score of a passage is that of its best
path, which is chosen again as the weights change. Prints mean R@5 in cross-validation, then the fit to all questions.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.pocket import SETS, Split, load
from benchmarks.pocket_fit import weights_page

from polyhop import Passage
from polyhop.data.corpora import open_corpus
from polyhop.lm.pocket.paths import Features, start_features, step_features, weigh_question
from polyhop.lm.pocket.reading.tables import WEIGHTS, weights
from polyhop.retrieval.index import index_for

FIRST, EXTENDED = 100, 30
FOLDS, EPOCHS, BATCH, PENALTY, RATE = 4, 25, 32, 1.0, 0.05
COUNTS = {"musique": 2.5}  # of a question: the set has few


@dataclass
class Example:
    """A question's paths: their features, the passages on each, and which passages are gold."""

    rows: np.ndarray  # path × reason
    paths: np.ndarray  # the path of each (passage, path) pair, pairs sorted by passage
    starts: np.ndarray  # where each passage's pairs begin
    gold: np.ndarray  # of each passage
    missed: int  # gold passages on no path
    weight: float

    def best(self, solution: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each passage's score and its best path."""
        scores = self.rows @ solution
        ends = np.append(self.starts[1:], len(self.paths))
        chosen = np.array(
            [
                self.paths[start + np.argmax(scores[self.paths[start:end]])]
                for start, end in zip(self.starts, ends, strict=True)
            ]
        )
        return scores[chosen], chosen

    def recall(self, solution: np.ndarray, k: int = 5) -> float:
        """Return the share of the gold passages that are among the ``k`` best."""
        order = np.argsort(-self.best(solution)[0], kind="stable")[:k]
        return float(self.gold[order].sum() / (self.gold.sum() + self.missed))

    def slope(self, solution: np.ndarray) -> np.ndarray:
        """Return the gradient of the mean over gold passages of -log P(it ranks before all that are not gold)."""
        scores, chosen = self.best(solution)
        rows, others = self.rows[chosen], ~self.gold
        if not self.gold.any() or not others.any():
            return np.zeros_like(solution)
        top = scores[others].max()
        shares = np.exp(scores[others] - top)
        total = shares.sum()
        behind = 1 / (1 + np.exp(np.clip(scores[self.gold] - top - np.log(total), -50, 50)))
        pulled = behind.mean() * (shares / total) @ rows[others] - behind @ rows[self.gold] / len(behind)
        return self.weight * np.asarray(pulled)


def reasons_of(question: str, found: Sequence[Passage], index: Any) -> Iterator[tuple[list[str], Features]]:
    """Return every path of one or two passages: its ids and its features; those of a step are prefixed ``step:``."""
    asked = weigh_question(question, found)
    for i, passage in enumerate(found):
        start = start_features(asked, passage)
        yield [passage.id], start
        for target in index.links(passage) if i < EXTENDED else []:
            step = step_features(asked, [passage], target)
            yield [passage.id, target.id], {**start, **{f"step:{name}": value for name, value in step.items()}}


def examples(part: Split, index: Any, names: Sequence[str]) -> Iterator[Example]:
    """Read the questions of a data set."""
    for row in part.questions:
        paths_reasons = list(reasons_of(row["question"], part.search(row["question"], FIRST), index))
        rows = np.array([[reasons.get(name, 0.0) for name in names] for _, reasons in paths_reasons])
        ids = sorted({id_ for path, _ in paths_reasons for id_ in path})
        number = {id_: at for at, id_ in enumerate(ids)}
        pairs = sorted((number[id_], at) for at, (path, _) in enumerate(paths_reasons) for id_ in path)
        owners, paths = (np.array(column) for column in zip(*pairs, strict=True))
        gold = np.array([id_ in row["gold_pids"] for id_ in ids])
        missed = len(set(row["gold_pids"])) - int(gold.sum())
        yield Example(rows, paths, np.searchsorted(owners, np.arange(len(ids))), gold, missed, COUNTS.get(part.name, 1))


def fitted(data: Sequence[Example]) -> np.ndarray:
    """Fit with Adam over the questions, in a fixed order."""
    scale = np.concatenate([example.rows for example in data[::5]]).std(axis=0) + 1e-6
    solution = np.zeros(len(scale))
    first, second, step, order = solution.copy(), solution.copy(), 0, list(data)
    for epoch in range(EPOCHS):
        random.Random(epoch).shuffle(order)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            slope = sum(example.slope(solution / scale) for example in batch) / scale / len(batch)
            slope = slope + PENALTY * solution / len(order)
            step += 1
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            solution -= RATE * 0.9**epoch * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return np.asarray(solution / scale)


def fit(data: Path) -> None:
    """Fit on the train splits, and write ``weights.toml``."""
    names = [*sorted(weights().path_start), *(f"step:{name}" for name in sorted(weights().path_step))]
    sets = {part.name: part for part in load(data, "train")}
    held = {
        name: list(examples(sets[name], index_for(open_corpus(data / name / "corpus.jsonl")), names))
        for name in SETS
        if name in sets
    }
    recalls: dict[str, list[float]] = {name: [] for name in held}
    for fold in range(FOLDS):
        solution = fitted([e for own in held.values() for at, e in enumerate(own) if at % FOLDS != fold])
        for name, own in held.items():
            recalls[name] += [example.recall(solution) for example in own[fold::FOLDS]]
    solution = fitted([example for own in held.values() for example in own])
    for name, own in held.items():
        print(f"{name}: R@5 {100 * np.mean(recalls[name]):.1f} in cross-validation, ", end="")
        print(f"{100 * np.mean([example.recall(solution) for example in own]):.1f} fitted to all")
    for name, value in zip(names, solution.tolist(), strict=True):
        (weights().path_step if name.startswith("step:") else weights().path_start)[name.removeprefix("step:")] = value
    WEIGHTS.write_text(weights_page(), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    fit(parser.parse_args().data)
