"""The quality of a language model's confidence as a predictor of right answers, on recorded answers.

    python -m benchmarks.confidence --data DIR [--measure generated|sentence|answer] [--gold FILE …]

Reads ProbTree's question trees (``DIR/transcripts/probtree_*.json``): every node is answered closed-book and open-book,
each answer with the mean log-probability of the generated text: only the answer on HotpotQA, reasoning and answer on
2Wiki and MuSiQue. An answer is right if it contains a reference, or the reference contains it, normalised. The
reference is

* the gold answer, for the root questions in ``DIR``'s questions or a ``--gold`` file (``question``, ``answers``);
* else a second, better-informed answer to the same question, a substitute that is sometimes wrong: a sub-question's
  open-book answer judges its closed-book one, and a root's answer composed from its children judges both. There is no
  better answer for an open-book answer to a sub-question, so it is not judged.

Answers without a log-probability (recorded as "Unknown", −100) are counted and left out. ``mean`` is the exponential of
the mean log-probability of the text selected by ``--measure``:

* ``generated``: the whole generated text, as recorded;
* ``sentence``, as in ``ge -o confidence=sentence``: only the reasoning, on the assumption that the copy of the answer
  after it had probability 1, which is nearly true of copies;
* ``answer``, the default of ``ge``: the answer's first occurrence. For a reply with reasoning this is a lower bound,
  as if every other word had probability 1. On HotpotQA only the answer was generated, so the three are equal.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from polyhop.common.text import counted, normalise
from polyhop.data.questions import read_questions
from polyhop.evaluation.calibration import auroc, calibration_bins, calibration_error
from polyhop.lm.reply import first_writing
from polyhop.metrics import cover_em

How = Literal["closed", "open"]
Measure = Literal["generated", "sentence", "answer"]
CHARACTERS = 4.5
"""Approximate characters per token: the records do not contain the tokens."""
Gold = Mapping[str, Sequence[str]]
QUESTIONS = ("hotpotqa", "2wikimultihopqa", "musique")
RETRIEVE_BELOW = (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0)
KEEP_ABOVE = (0.0, 0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
KEYS: Mapping[How, str] = {"closed": "cb_answer", "open": "ob_answer"}


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer and its mean log-probability; None for a question the model gave up on."""

    text: str
    logprob: float | None

    @property
    def mean(self) -> float:
        """The geometric mean of the tokens' probabilities; 0 without a log-probability."""
        return 0.0 if self.logprob is None else math.exp(min(0.0, self.logprob))


@dataclass(frozen=True, slots=True)
class Node:
    """A question of a tree. ``composed``: the answer derived from its children's; ``gold``: the gold answers."""

    closed: Prediction
    open: Prediction
    composed: Prediction | None
    leaf: bool
    gold: Sequence[str]

    def prediction(self, how: How) -> Prediction:
        """Return the answer of one kind."""
        return self.closed if how == "closed" else self.open

    def right(self, how: How) -> bool | None:
        """Return True if that answer agrees with its reference; None without a reference."""
        prediction = self.prediction(how)
        if self.gold:
            return agree(prediction.text, self.gold)
        other = self.open if self.leaf and how == "closed" else self.composed
        return None if other is None or other.logprob is None else agree(prediction.text, [other.text])


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of the confidence of one kind of answer: number judged, share right, AUROC, ECE of ``mean``."""

    n: int
    right: float
    auroc: float | None
    ece: float | None


def agree(prediction: str, references: Iterable[str]) -> bool:
    """Return True if the answer contains one of the references, or one of them contains it.

    >>> agree("Crown Prince Hyomyeong (posthumously named Ikjong).", ["Hyomyeong"]), agree("no", ["Norway"])
    (True, False)
    """
    return any(cover_em(prediction, [other]) or cover_em(other, [prediction]) for other in references)


def read_trees(path: Path, gold: Gold, measure: Measure = "generated") -> list[Node]:
    """Yield every node of a file of trees."""
    return [_node(row, gold, measure) for tree in json.loads(path.read_text()) for row in tree]


def measured(text: str, logprob: float, reply: str, measure: Measure) -> float:
    """Return the mean log-probability of a part of ``reply``, if the whole has ``logprob`` and the rest is certain.

    >>> measured("Rome", -0.1, "It is Rome. So the answer is: Rome.", "generated")
    -0.1
    >>> round(measured("Rome", -0.1, "It is Rome. So the answer is: Rome.", "sentence"), 2)
    -0.32
    """
    if measure == "generated" or not reply:
        return logprob
    start, end = (first_writing(text.rstrip("."), reply) or (0, len(text))) if measure == "answer" else (0, 0)
    part = end - start or len(reply.split("So the answer is")[0].strip())
    return logprob * (len(reply) / CHARACTERS) / max(1.0, part / CHARACTERS)


def _node(row: Mapping[str, Any], gold: Gold, measure: Measure) -> Node:
    def read(key: str) -> Prediction:
        text, logprob, *reply = row[key]
        return Prediction(text, None if logprob <= -100 else measured(text, logprob, "".join(reply[:1]), measure))

    leaf = not row["sons"]
    known = [] if leaf else gold.get(normalise(row["question"]), [])
    return Node(read("cb_answer"), read("ob_answer"), None if leaf else read("child_answer"), leaf, known)


def read_gold(data: Path, more: Iterable[Path] = ()) -> dict[str, Sequence[str]]:
    """Gold answers by normalised question."""
    files = [data / name / f"{part}.jsonl" for name in QUESTIONS for part in ("train", "dev")]
    every = (question for path in (*filter(Path.exists, files), *more) for question in read_questions(path))
    return {normalise(question.text): question.answers for question in every}


def judged(nodes: Iterable[Node], how: How) -> tuple[list[float], list[bool]]:
    """Return the confidence ``mean`` of every answer that can be judged, and whether it is right."""
    cases = [(prediction.mean, right) for node in nodes if (prediction := node.prediction(how)).logprob is not None
             and (right := node.right(how)) is not None]  # fmt: skip
    return [sure for sure, _ in cases], [right for _, right in cases]


def quality(nodes: Iterable[Node], how: How) -> Quality:
    """Return AUROC and ECE of one kind of answer."""
    sure, right = judged(nodes, how)
    share = sum(right) / len(right) if right else 0.0
    return Quality(len(sure), share, auroc(sure, right), calibration_error(calibration_bins(sure, right)))


def retrieving(nodes: Sequence[Node], below: float) -> dict[str, float]:
    """Return the cost and benefit of ``retrieve_below`` over sub-questions: searches per question, the share right of
    the answers kept closed-book, and the share of the right closed-book answers that are searched for nonetheless."""
    cases = [(node.closed.mean, right) for node in nodes if node.leaf and (right := node.right("closed")) is not None]
    kept = [right for sure, right in cases if sure >= below]
    rights = sum(right for _, right in cases)
    return {
        "searched": 1 - len(kept) / len(cases),
        "kept right": sum(kept) / len(kept) if kept else math.nan,
        "needless": 1 - sum(kept) / rights,
    }


def answering(nodes: Sequence[Node], below: float) -> dict[str, float]:
    """Return the effect of ``retrieve_below`` on composed questions: the share searched, and the share right if those
    are answered open-book and the others closed-book; a missing answer is wrong."""
    cases = [node for node in nodes if node.composed is not None and node.composed.logprob is not None]
    ways: list[How] = ["open" if node.closed.mean < below else "closed" for node in cases]
    right = [
        bool(node.prediction(how).logprob is not None and node.right(how))
        for node, how in zip(cases, ways, strict=True)
    ]
    return {"searched": ways.count("open") / len(cases), "right": sum(right) / len(cases)}


def keeping(nodes: Sequence[Node], above: float) -> dict[str, float]:
    """Return the cost and benefit of ``keep_above`` over judged open-book answers: the share dropped, the share right
    of those kept, and the shares of the right and of the wrong answers that are dropped."""
    sure, right = judged(nodes, "open")
    kept = [good for value, good in zip(sure, right, strict=True) if value >= above]
    wrong = len(right) - sum(right)
    return {
        "dropped": 1 - len(kept) / len(right),
        "kept right": sum(kept) / len(kept) if kept else math.nan,
        "right lost": 1 - sum(kept) / sum(right),
        "wrong gone": 1 - (len(kept) - sum(kept)) / wrong,
    }


def show(name: str, nodes: Sequence[Node]) -> None:
    """Print the tables of one data set."""
    known = sum(bool(node.gold) for node in nodes)
    print(f"\n== {name}: {counted(len(nodes), 'questions')}, gold for {known}")
    print(f"{'answers':<24}{'n':>6}{'right':>8}{'AUROC':>8}{'ECE':>8}{'gave up':>9}")
    for label, how, which in kinds(nodes):
        if not which:
            continue
        found = quality(which, how)
        lost = sum(node.prediction(how).logprob is None for node in which)
        print(f"{label:<24}{found.n:>6}{found.right:>8.3f}{_number(found.auroc):>8}{_number(found.ece):>8}{lost:>9}")
    for how in KEYS:
        print(f"calibration of {how}-book answers (mean):   bin  confidence  right  n")
        for bin in calibration_bins(*judged(nodes, how)):
            print(f"{bin.low:>41.1f}–{bin.high:.1f}{bin.confidence:>10.3f}{bin.right:>8.3f}{bin.n:>5}")
    _grid("retrieve_below", RETRIEVE_BELOW, [retrieving(nodes, value) for value in RETRIEVE_BELOW])
    _grid("composed", RETRIEVE_BELOW, [answering(nodes, value) for value in RETRIEVE_BELOW])
    _grid("keep_above", KEEP_ABOVE, [keeping(nodes, value) for value in KEEP_ABOVE])


def kinds(nodes: Sequence[Node]) -> Iterator[tuple[str, How, Sequence[Node]]]:
    """The kinds of answers: answers to sub-questions, to composed questions, and to those with gold."""
    composed, gold = [node for node in nodes if not node.leaf], [node for node in nodes if node.gold]
    yield "closed-book, single hop", "closed", [node for node in nodes if node.leaf]
    yield "closed-book, composed", "closed", composed
    yield "open-book, composed", "open", composed
    yield "closed-book, gold known", "closed", gold
    yield "open-book, gold known", "open", gold


def _grid(name: str, values: Sequence[float], rows: Sequence[Mapping[str, float]]) -> None:
    print(f"{name:<16}" + "".join(f"{column:>12}" for column in rows[0]))
    for value, row in zip(values, rows, strict=True):
        print(f"{value:<16}" + "".join(f"{share:>12.3f}" for share in row.values()))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def main() -> None:
    """Read the recorded answers and print the tables, for each data set and for all together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with transcripts/ and the question sets")
    parser.add_argument("--gold", type=Path, nargs="*", default=[], help="more questions with their gold answers")
    parser.add_argument("--measure", choices=get_args(Measure), default="generated", help="the tokens measured")
    options = parser.parse_args()
    paths = sorted((options.data / "transcripts").glob("probtree_*.json"))
    if not paths:
        parser.error(f"no transcripts/probtree_*.json in {options.data}")
    gold = read_gold(options.data, options.gold)
    every = {path.stem.removeprefix("probtree_"): read_trees(path, gold, options.measure) for path in paths}
    for name, nodes in every.items():
        show(name, nodes)
    show("all", [node for nodes in every.values() for node in nodes])


if __name__ == "__main__":
    main()
