"""Pocket, measured and fitted: how well it answers, and where the numbers in ``lm/pocket/weights.py`` come from.

    python benchmarks/pocket.py measure DATA [--split dev] [--limit 100]
    python benchmarks/pocket.py fit DATA          # rewrites weights.py from the train splits

DATA holds one folder a data set with ``corpus.jsonl`` (pid, title, text) and ``train.jsonl``, ``dev.jsonl`` (question,
answers, gold_pids, context_pids), and may hold ``reader/*.jsonl.gz`` (question, title, context, answers, type).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyhop import Passage, Pipeline, metrics
from polyhop.data.corpora import open_corpus
from polyhop.lm.pocket import judging, queries, reading, weights
from polyhop.lm.pocket import study as studies
from polyhop.lm.pocket.pages import Page, open_page
from polyhop.lm.pocket.questions import Asked, ask
from polyhop.lm.pocket.study import study
from polyhop.lm.pocket.tasks import RELEVANT_ABOVE, SUFFICIENT_ABOVE, do
from polyhop.lm.pocket.values import parse_date
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import index_for
from polyhop.text import fold, normalise

SETS = ("hotpotqa", "2wikimultihopqa", "musique")
BY_TYPE = ("near", "focused", "beside", "sentence", "first sentence", "cue before")
READER_FILES = ("squad_dev", "hotpot_dev_extra", "qed_dev", "nq_open_oracle", "quoref_contrast")
READER_WEIGHT = 0.2  # of a one-passage example against a multi-hop one
READER_LIMIT = 2500  # examples of a file
Reasons = dict[str, float]


@dataclass
class Group:
    """Candidates of which some are right: their reasons, which are right, and how much the group counts."""

    rows: list[Reasons]
    right: list[bool]
    weight: float = 1.0


@dataclass
class Split:
    """One data set's questions of one split, its passages and its BM25."""

    name: str
    questions: list[dict[str, Any]]
    passages: dict[str, Passage]
    search: Callable[[str, int], list[Passage]]


def load(data: Path, split: str, limit: int | None = None) -> list[Split]:
    """The data sets that are there."""
    splits = []
    for name in SETS:
        corpus = data / name / "corpus.jsonl"
        if corpus.exists():
            lines = (data / name / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()[:limit]
            passages = {passage.id: passage for passage in open_corpus(corpus)}
            search = BM25(index_for(open_corpus(corpus))).search
            splits.append(Split(name, [json.loads(line) for line in lines], passages, search))
    return splits


# ---- measuring ----


def measure(data: Path, split: str, limit: int | None) -> None:
    """Answers from gold passages, from the BM25 top 5, closed book, by Tree of Reviews; and the review's decisions."""
    for part in load(data, split, limit):
        answerers: dict[str, Callable[[dict[str, Any]], str]] = {
            "closed book": lambda row: do("answer.direct", row)["answer"],
            "gold passages": lambda row, part=part: _read(row, [part.passages[pid] for pid in row["gold_pids"]]),  # type: ignore[misc]
            "BM25 top 5": lambda row, part=part: _read(row, part.search(row["question"], 5)),  # type: ignore[misc]
        }
        print(f"{part.name}, {split}, {len(part.questions)} questions")
        for name, answer in answerers.items():
            _print_scores(name, [(answer(row), row) for row in part.questions])
        with Pipeline(data / part.name / "corpus.jsonl", "tor", "pocket") as pipeline:
            start = time.process_time()
            told = [(pipeline.ask(row["question"]).text, row) for row in part.questions]
            spent = (time.process_time() - start) / max(1, len(told))
        _print_scores("Tree of Reviews", told, f"{1000 * spent:.0f} ms CPU a question")
        _print_reviews(part)


def _read(row: dict[str, Any], passages: list[Passage]) -> str:
    answer: str = do("answer.read", {"question": row["question"], "passages": passages})["answer"]
    return answer


def _print_scores(name: str, told: list[tuple[str, dict[str, Any]]], note: str = "") -> None:
    f1 = np.mean([metrics.f1(answer, row["answers"]) for answer, row in told])
    em = np.mean([metrics.exact_match(answer, row["answers"]) for answer, row in told])
    print(f"  {name:16} F1 {100 * f1:5.1f}  EM {100 * em:5.1f}  {note}")


def _print_reviews(part: Split) -> None:
    relevance: list[tuple[bool, bool]] = []
    sufficiency: list[tuple[bool, bool]] = []
    for row, path in paths(part):
        found = study(row["question"], path)
        relevance.append((judging.relevant(found) >= RELEVANT_ABOVE, _all_gold(row, path)))
        if len(path) > 1:
            sufficiency.append((judging.sufficient(found) >= SUFFICIENT_ABOVE, _is_enough(row, path)))
    for name, pairs in (("relevance", relevance), ("sufficiency", sufficiency)):
        both = sum(said and true for said, true in pairs)
        said, true = (max(1, sum(pair[at] for pair in pairs)) for at in (0, 1))
        print(f"  {name:16} precision {both / said:.3f}  recall {both / true:.3f}  of {len(pairs)} paths")


# ---- training examples ----


def paths(part: Split) -> Iterator[tuple[dict[str, Any], tuple[Passage, ...]]]:
    """Paths as Tree of Reviews meets them: roots, second hops after gold and other roots, and gold paths."""
    for row in part.questions:
        roots = part.search(row["question"], 5)
        gold = [part.passages[pid] for pid in row["gold_pids"]]
        yield from ((row, (root,)) for root in roots)
        good = [root for root in roots if root in gold] or gold[:1]
        for root in (*good[:2], *[root for root in roots if root not in gold][:1]):
            query = queries.next_query(study(row["question"], [root])) or row["question"]
            hits = [hit for hit in part.search(query, 4) if hit != root]
            yield from ((row, (root, hit)) for hit in hits[: 3 if root in gold else 2])
        yield row, tuple(gold[:3])
        if len(gold) > 2:
            yield row, tuple(gold[:2])


def _all_gold(row: dict[str, Any], path: Sequence[Passage]) -> bool:
    return all(passage.id in row["gold_pids"] for passage in path)


def _is_enough(row: dict[str, Any], path: Sequence[Passage]) -> bool:
    answer = study(row["question"], path).solution.answer
    if answer is None:
        return False
    spoken = normalise(row["answers"][0]) not in ("yes", "no") and metrics.f1(answer, row["answers"]) >= 0.6
    everything = set(row["gold_pids"]) <= {passage.id for passage in path}
    return everything or (spoken and len(path) > 1 and _all_gold(row, path))


def reading_groups(parts: Iterable[Split], data: Path) -> Iterator[Group]:
    """Each question over its gold passages, alone and among three others; then questions over one passage."""
    chance = random.Random(0)
    for part in parts:
        for row in part.questions:
            asked = ask(row["question"])
            compared = asked.comparison is not None and asked.comparison.how != "common"
            if row["answers"][0].lower() in ("yes", "no") or compared:
                continue
            gold = list(row["gold_pids"])
            others = [pid for pid in row["context_pids"] if pid not in gold and pid in part.passages]
            for pids in (gold, gold + chance.sample(others, min(3, len(others)))):
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


# ---- fitting ----


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
    _install(weights.RELEVANT, fit_decision(*_judged(examples, judging.relevance_features, _all_gold)))
    _install(weights.SUFFICIENT, fit_decision(*_judged(examples, judging.sufficiency_features, _is_enough)))
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
    page = ['"""The weights of the reader and the judges, fitted by ``benchmarks/pocket.py``: larger is stronger."""\n']
    page.append("from __future__ import annotations\n")
    for name, note in (
        ("WEIGHTS", "Reasons for and against a candidate answer (``reading.features``)."),
        ("BY_TYPE", "What is added to a reason's weight where the question asks for a type."),
        ("FIT", "How well a kind of mention fits a type of answer."),
        ("RELEVANT", "Reasons for a path to bear on the question (``judging.relevance_features``)."),
        ("SUFFICIENT", "Reasons for a path to be enough (``judging.sufficiency_features``)."),
        ("BRIDGE", "Reasons for a name to lead on to the next passage (``queries.bridge_candidates``)."),
    ):
        table = getattr(weights, name)
        nested = isinstance(next(iter(table.values())), dict)
        kind = "dict[str, dict[str, float]]" if nested else "dict[str, float]"
        rows = [f"    {json.dumps(key)}: {{\n{_rows(value, 8)}\n    }}," for key, value in sorted(table.items())]
        page.append(f"# {note}\n{name}: {kind} = {{\n" + ("\n".join(rows) if nested else _rows(table, 4)))
        page.append("}  # fmt: skip\n")
    return "\n".join(page)


def _rows(table: Reasons, indent: int) -> str:
    pairs = [f"{json.dumps(name)}:\u00a0{value:.2f},".replace(" ", "\u2007") for name, value in sorted(table.items())]
    lines = textwrap.fill(" ".join(pairs), 119, initial_indent=" " * indent, subsequent_indent=" " * indent)
    return lines.replace("\u00a0", " ").replace("\u2007", " ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("measure", "fit"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    if arguments.verb == "fit":
        fit(arguments.data)
    else:
        measure(arguments.data, arguments.split, arguments.limit)
