"""Pocket, fitted: where the numbers in ``lm/pocket/reading/weights.py`` come from; it writes them anew.

    python -m benchmarks.pocket_fit DATA

DATA as in ``benchmarks/pocket.py``, read from the train splits alone; ``reader/*.jsonl.gz`` (question, title, context,
answers, type), where it is there, adds questions over one passage.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.pocket import Split, all_gold, is_enough, load, paths

from polyhop import Passage
from polyhop.common.text import fold, normalise
from polyhop.lm.pocket.reading import candidates as reading
from polyhop.lm.pocket.reading import judge as judging
from polyhop.lm.pocket.reading import queries, weights
from polyhop.lm.pocket.reading import study as studies
from polyhop.lm.pocket.reading.passage import Page, open_page
from polyhop.lm.pocket.reading.question import Asked, ask
from polyhop.lm.pocket.reading.study import study
from polyhop.lm.pocket.reading.values import parse_date

BY_TYPE = ("near", "focused", "beside", "sentence", "first sentence", "cue before")
READER_FILES = ("squad_dev", "hotpot_dev_extra", "qed_dev", "nq_open_oracle", "quoref_contrast")
READER_WEIGHT = 0.2  # of a one-passage example against a multi-hop one
OTHERS = 6  # passages a question's gold ones are read among
READER_LIMIT = 2500  # examples of a file
Reasons = dict[str, float]


@dataclass
class Group:
    """Candidates of which some are right: their reasons, which are right, and how much the group counts."""

    rows: list[Reasons]
    right: list[bool]
    weight: float = 1.0


def reading_groups(parts: Iterable[Split], data: Path) -> Iterator[Group]:
    """Each question over its gold passages, alone and among others; then questions over one passage."""
    chance = random.Random(0)
    for part in parts:
        for row in part.questions:
            asked = ask(row["question"])
            compared = asked.comparison is not None and asked.comparison.how != "common"
            if row["answers"][0].lower() in ("yes", "no") or compared:
                continue
            gold = list(row["gold_pids"])
            others = [pid for pid in row["context_pids"] if pid not in gold and pid in part.passages]
            for pids in (gold, gold + chance.sample(others, min(OTHERS, len(others)))):
                chance.shuffle(pids)
                yield _group(asked, [open_page(part.passages[pid]) for pid in pids], row["answers"])
    for name in READER_FILES:
        file = data / "reader" / f"{name}.jsonl.gz"
        if file.exists():
            yield from _one_passage_groups(file)


def _one_passage_groups(file: Path) -> Iterator[Group]:
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    spans = [row for row in rows if row["type"] == "span"]
    for row in random.Random(1).sample(spans, min(READER_LIMIT, len(spans))):
        context = row["context"] if isinstance(row["context"], str) else " ".join(row["context"])
        page = open_page(Passage(row["id"], row.get("title") or "", context))
        yield _group(ask(row["question"]), [page], [answer["text"] for answer in row["answers"]], READER_WEIGHT)


def _group(asked: Asked, pages: list[Page], answers: list[str], weight: float = 1.0) -> Group:
    seen = reading.view(asked, pages)
    wanted = {fold(normalise(answer)) for answer in answers}
    group = Group([], [], weight)
    for at, page in enumerate(seen.pages):
        for mention in page.mentions:
            reasons = reading.features(seen, at, mention)
            typed = {f"{name}|{asked.type}": reasons[name] for name in BY_TYPE}
            group.rows.append(reasons | typed | {f"{asked.type}/{reading.kind_of(mention)}": 1.0})
            date = parse_date(mention.text) if asked.type == "year" and mention.kind == "date" else None
            group.right.append(fold(normalise(str(date.year) if date else mention.text)) in wanted)
    return group


def bridge_groups(parts: Iterable[Split]) -> Iterator[Group]:
    """From each gold passage alone: which of its names is the title of another gold passage."""
    for part in parts:
        for row in part.questions:
            gold = [part.passages[pid] for pid in row["gold_pids"]]
            for root in gold:
                found = study(row["question"], [root])
                if queries.missing_piece(found):
                    continue
                titles = {fold(open_page(passage).name) for passage in gold if passage != root}
                candidates = queries.bridge_candidates(found)
                yield Group([reasons for _, reasons in candidates], [fold(m.text) in titles for m, _ in candidates])


def fit_choice(groups: Iterable[Group], penalty: float, epochs: int = 30) -> Reasons:
    """Softmax over each group's candidates: raise the probability of the right ones together (Adam)."""
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
    place = {name: at for at, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)), dtype=np.float32)
    for at, row in enumerate(rows):
        for name, value in row.items():
            matrix[at, place[name]] = value
    return matrix


def fit(data: Path) -> None:
    """Fit everything on the train splits, each part with the parts before it in place, and write ``weights.py``."""
    parts = load(data, "train")
    _install_reader(fit_choice(reading_groups(parts, data), penalty=1.0))
    _install(weights.BRIDGE, fit_choice(bridge_groups(parts), penalty=0.3, epochs=60))
    examples = [(study(row["question"], path), row, path) for part in parts for row, path in paths(part)]
    _install(weights.RELEVANT, fit_decision(*_judged(examples, judging.relevance_features, all_gold)))
    _install(weights.SUFFICIENT, fit_decision(*_judged(examples, judging.sufficiency_features, is_enough)))
    Path(weights.__file__).write_text(weights_page(), encoding="utf-8")


def _judged(
    examples: list[Any],
    features: Callable[[studies.Study], Reasons],
    truth: Callable[[dict[str, Any], Sequence[Passage]], bool],
) -> tuple[list[Reasons], list[bool]]:
    return [features(found) for found, _, _ in examples], [truth(row, path) for _, row, path in examples]


def _install(table: Reasons, fitted: Reasons) -> None:
    table.clear()
    table.update(fitted)
    studies.forget()


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
    _install(weights.WEIGHTS, general)
    weights.BY_TYPE.clear()
    weights.BY_TYPE.update(by_type)
    weights.FIT.clear()
    weights.FIT.update(fits)


def weights_page() -> str:
    """The text of ``weights.py`` for the weights in place."""
    page = [
        '"""The weights of reader, judges and path scorer, fitted by ``benchmarks/pocket_fit.py`` and '
        '``hops_fit.py``."""\n',
    ]
    page.append("from __future__ import annotations\n")
    for name, note in (
        ("WEIGHTS", "Reasons for and against a candidate answer (``reading.features``)."),
        ("BY_TYPE", "What is added to a reason's weight where the question asks for a type."),
        ("FIT", "How well a kind of mention fits a type of answer."),
        ("RELEVANT", "Reasons for a path to bear on the question (``judging.relevance_features``)."),
        ("SUFFICIENT", "Reasons for a path to be enough (``judging.sufficiency_features``)."),
        ("BRIDGE", "Reasons for a name to lead on to the next passage (``queries.bridge_candidates``)."),
        ("START", "Reasons for a path to begin with a passage (``paths.start_reasons``)."),
        ("STEP", "Reasons for a path to go on with a passage (``paths.step_reasons``)."),
    ):
        table = getattr(weights, name)
        first = next(iter(table.values()))
        kind = "dict[str, dict[str, float]]" if isinstance(first, dict) else "dict[str, float]"
        page.append(f"# {note}\n{name}: {kind} = {{\n{_table(table)}\n}}  # fmt: skip\n")
    return "\n".join(page)


def _table(table: dict[str, Any]) -> str:
    if isinstance(next(iter(table.values())), dict):
        return "\n".join(
            f"    {json.dumps(name)}: {{\n{_pairs(row, 8)}\n    }}," for name, row in sorted(table.items())
        )
    return _pairs(table, 4)


def _pairs(table: Reasons, indent: int) -> str:
    """Name and number pairs, as many a line as fit; a mark stands in for spaces so that no pair is broken."""
    pairs = [f"{json.dumps(name)}: {value:.2f},".replace(" ", "~") for name, value in sorted(table.items())]
    lines = textwrap.wrap(" ".join(pairs), 118 - indent, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines).replace("~", " "), " " * indent)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    fit(parser.parse_args().data)
