"""Fit the weights of ``pocket``, and write them into ``lm/pocket/tables/weights.toml``.

    python -m benchmarks.pocket_fit DATA

DATA as in ``benchmarks/pocket.py``; only the train splits are read. ``reader/*.jsonl.gz`` (question, title, context,
answers, type), if it exists, adds questions over one passage.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.pocket import Split, all_gold, is_enough, load, paths

from polyhop import Passage
from polyhop.common.text import fold, normalise
from polyhop.lm.pocket.reading import answer, candidates, judge
from polyhop.lm.pocket.reading.answer import PathReading, read_path
from polyhop.lm.pocket.reading.passage import ParsedPassage, parse_passage
from polyhop.lm.pocket.reading.question import ParsedQuestion, parse_question
from polyhop.lm.pocket.reading.tables import WEIGHTS, weights
from polyhop.lm.pocket.reading.text import parse_date

BY_TYPE = ("near", "focused", "beside", "sentence", "first sentence", "cue before")
READER_FILES = ("squad_dev", "hotpot_dev_extra", "qed_dev", "nq_open_oracle", "quoref_contrast")
READER_WEIGHT = 0.2  # of a one-passage example against a multi-hop one
OTHERS = 6  # passages a question's gold ones are read among
READER_LIMIT = 2500  # examples of a file
Reasons = dict[str, float]
_HEAD = "# The weights of pocket's linear models. Written by pocket_fit.py and the other *_fit.py of benchmarks.\n"
NOTES = {
    "candidate": "Reasons for and against a candidate answer (candidates.candidate_features).",
    "candidate_by_type": "Added to a reason's weight if the question asks for a type.",
    "kind_fit": "The fit of a kind of mention to a type of answer.",
    "relevance": "Reasons for a path to bear on the question (judge.relevance_features).",
    "sufficiency": "Reasons for a path to be enough (judge.sufficiency_features).",
    "bridge": "Reasons for a name to lead on to the next passage (answer.bridge_candidates).",
    "path_start": "Reasons for a path to begin with a passage (paths.start_features).",
    "path_step": "Reasons for a path to go on with a passage (paths.step_features).",
    "screen_first": "Reasons for a first passage to be worth the encoder (judge.is_hopeless).",
    "screen_later": "Reasons for a further passage of a path to be worth the encoder (judge.is_hopeless).",
    "pair": "Reasons for two quantities to be those that a comparison compares (pairs.pairs_of).",
    "read_pair": "The same, where the encoder has read the values (values.read_values).",
}
"""The tables of ``weights.toml``, in their order, and the comment above each."""


@dataclass
class Group:
    """Candidates of which some are right: their features, which ones are right, and the weight of the group."""

    rows: list[Reasons]
    right: list[bool]
    weight: float = 1.0


def reading_groups(parts: Iterable[Split], data: Path) -> Iterator[Group]:
    """Yield each question over its gold passages, alone and among others; then questions over one passage."""
    chance = random.Random(0)
    for part in parts:
        for row in part.questions:
            asked = parse_question(row["question"])
            compared = asked.comparison is not None and asked.comparison.how != "common"
            if row["answers"][0].lower() in ("yes", "no") or compared:
                continue
            gold = list(row["gold_pids"])
            others = [pid for pid in row["context_pids"] if pid not in gold and pid in part.passages]
            for pids in (gold, gold + chance.sample(others, min(OTHERS, len(others)))):
                chance.shuffle(pids)
                yield _group(asked, [parse_passage(part.passages[pid]) for pid in pids], row["answers"])
    for name in READER_FILES:
        file = data / "reader" / f"{name}.jsonl.gz"
        if file.exists():
            yield from _one_passage_groups(file)


def _one_passage_groups(file: Path) -> Iterator[Group]:
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    spans = [row for row in rows if row["type"] == "span"]
    for row in random.Random(1).sample(spans, min(READER_LIMIT, len(spans))):
        context = row["context"] if isinstance(row["context"], str) else " ".join(row["context"])
        page = parse_passage(Passage(row["id"], row.get("title") or "", context))
        yield _group(parse_question(row["question"]), [page], [gold["text"] for gold in row["answers"]], READER_WEIGHT)


def _group(asked: ParsedQuestion, pages: list[ParsedPassage], answers: list[str], weight: float = 1.0) -> Group:
    seen = candidates.match_pages(asked, pages)
    wanted = {fold(normalise(text)) for text in answers}
    group = Group([], [], weight)
    for at, page in enumerate(seen.pages):
        for mention in page.mentions:
            reasons = candidates.candidate_features(seen, at, mention)
            typed = {f"{name}|{asked.type}": reasons[name] for name in BY_TYPE}
            group.rows.append(reasons | typed | {f"{asked.type}/{candidates.kind_of(mention)}": 1.0})
            date = parse_date(mention.text) if asked.type == "year" and mention.kind == "date" else None
            group.right.append(fold(normalise(str(date.year) if date else mention.text)) in wanted)
    return group


def bridge_groups(parts: Iterable[Split]) -> Iterator[Group]:
    """Yield, for each gold passage, which of its names is the title of another gold passage."""
    for part in parts:
        for row in part.questions:
            gold = [part.passages[pid] for pid in row["gold_pids"]]
            for root in gold:
                found = read_path(row["question"], [root])
                if answer.missing_name(found):
                    continue
                titles = {fold(parse_passage(passage).name) for passage in gold if passage != root}
                leads = answer.bridge_candidates(found)
                yield Group([reasons for _, reasons in leads], [fold(m.text) in titles for m, _ in leads])


def fit_choice(groups: Iterable[Group], penalty: float, epochs: int = 30) -> Reasons:
    """Fit a softmax over each group's candidates: raise the total probability of the right ones (Adam)."""
    usable = [group for group in groups if any(group.right)]
    names = sorted({name for group in usable for row in group.rows for name in row})
    data = [(_matrix(group.rows, names), np.array(group.right), group.weight) for group in usable]
    solution, first, second = np.zeros(len(names)), np.zeros(len(names)), np.zeros(len(names))
    step = 0
    for epoch in range(epochs):
        random.Random(epoch).shuffle(data)
        for start in range(0, len(data), 32):
            batch = data[start : start + 32]
            slope = sum(_slope(solution, *example) for example in batch) / len(batch) + penalty * solution / len(data)
            step += 1
            first = 0.9 * first + 0.1 * slope
            second = 0.999 * second + 0.001 * slope**2
            rate = 0.05 * 0.93**epoch
            solution -= rate * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return dict(zip(names, solution.tolist(), strict=True))


def _slope(solution: np.ndarray, rows: np.ndarray, right: np.ndarray, weight: float) -> np.ndarray:
    scores = rows @ solution
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    target = chances * right / ((chances * right).sum() + 1e-12)
    slope: np.ndarray = weight * (rows.T @ (chances - target))
    return slope


def fit_decision(rows: list[Reasons], labels: list[bool], penalty: float = 2.0) -> Reasons:
    """Logistic regression by Newton's method."""
    names = list(rows[0])
    matrix, truth, solution = _matrix(rows, names), np.array(labels, float), np.zeros(len(names))
    for _ in range(25):
        chances = 1 / (1 + np.exp(-matrix @ solution))
        slope = matrix.T @ (chances - truth) + penalty * solution
        curve = (matrix * (chances * (1 - chances))[:, None]).T @ matrix + penalty * np.eye(len(names))
        solution -= np.linalg.solve(curve, slope)
    return dict(zip(names, solution.tolist(), strict=True))


def _matrix(rows: list[Reasons], names: list[str]) -> np.ndarray:
    column = {name: i for i, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)), dtype=np.float32)
    for at, row in enumerate(rows):
        for name, value in row.items():
            matrix[at, column[name]] = value
    return matrix


def fit(data: Path) -> None:
    """Fit everything on the train splits, each part with the previous parts in use, and write ``weights.toml``."""
    parts = load(data, "train")
    _install_reader(fit_choice(reading_groups(parts, data), penalty=1.0))
    install(weights().bridge, fit_choice(bridge_groups(parts), penalty=0.3, epochs=60))
    examples = [(read_path(row["question"], path), row, path) for part in parts for row, path in paths(part)]
    install(weights().relevance, fit_decision(*_judged(examples, judge.relevance_features, all_gold)))
    install(weights().sufficiency, fit_decision(*_judged(examples, judge.sufficiency_features, is_enough)))
    WEIGHTS.write_text(weights_page(), encoding="utf-8")


def _judged(
    examples: list[Any],
    features: Callable[[PathReading], Reasons],
    truth: Callable[[dict[str, Any], Sequence[Passage]], bool],
) -> tuple[list[Reasons], list[bool]]:
    return [features(found) for found, _, _ in examples], [truth(row, path) for _, row, path in examples]


def install(table: Reasons, fitted: Reasons) -> None:
    """Use fitted weights in a table."""
    table.clear()
    table.update(fitted)
    answer.clear_cache()


def _install_reader(fitted: Reasons) -> None:
    by_type: dict[str, Reasons] = defaultdict(dict)
    fits: dict[str, Reasons] = defaultdict(dict)
    general: Reasons = {}
    for name, value in fitted.items():
        if "|" in name:
            by_type[name.partition("|")[2]][name.partition("|")[0]] = value
        elif "/" in name:
            fits[name.partition("/")[0]][name.partition("/")[2]] = value
        else:
            general[name] = value
    install(weights().candidate, general)
    weights().candidate_by_type = dict(by_type)
    weights().kind_fit = dict(fits)


def weights_page() -> str:
    """Return the text of ``weights.toml`` for the weights in use."""
    page = [_HEAD]
    for name, note in NOTES.items():
        table = getattr(weights(), name)
        page.append(f"\n# {note}\n")
        if isinstance(next(iter(table.values())), dict):
            page += [f"[{name}.{row}]\n{_rows(table[row])}" for row in sorted(table)]
        else:
            page.append(f"[{name}]\n{_rows(table)}")
    return "".join(page)


def _rows(table: Reasons) -> str:
    return "".join(f"{json.dumps(name)} = {value:.2f}\n" for name, value in sorted(table.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    fit(parser.parse_args().data)
