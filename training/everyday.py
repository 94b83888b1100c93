"""Examples from small sets of everyday documents (``training.sets``), as ``open_corpus`` makes passages of them.

    python -m training.everyday OUT [--replay FILE] [--seed N]

OUT: one JSON line an example. ``--replay``: examples of ``training.examples``, as many of which are mixed in, so that
what was learnt from encyclopedias is kept. The domains that are held out are not read.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from polyhop import Passage
from polyhop.common.text import words
from training.data import Example, TitledText, answered, read, sampled, spans_of, unanswered, write_mixed
from training.examples import pair, questions_over
from training.sets import FOLDER, Question, Step, corpus_of, training_sets

ROUNDS = 4
"""Examples per question over its gold passages."""
WRONG = 6
"""Passages per question that are not its own: those that share most words with it, and some by chance."""


def everyday(folder: Path, chance: random.Random) -> Iterator[Example]:
    """The questions of the sets, over their passages and over others of the same documents."""
    for asked, passages in asked_of(folder):
        yield from examples_of(asked, passages, chance)


def asked_of(folder: Path) -> Iterator[tuple[Question, list[Passage]]]:
    """The questions of the sets that are trained on, each with the passages of its set, if they have its documents."""
    for held in training_sets(folder):
        passages = list(corpus_of(held))
        files = {passage.metadata["source"] for passage in passages}
        for asked in held.questions:
            if files >= {step.path for step in asked.steps}:
                yield asked, passages


def examples_of(asked: Question, passages: Sequence[Passage], chance: random.Random) -> Iterator[Example]:
    """A question over its passages, over others of the set, and its steps over their own."""
    found = [passage_of(step, passages) for step in asked.steps]
    gold = [pair(passage) for passage in dict.fromkeys(found)]
    wrong = _wrong(asked.text, [each for each in passages if pair(each) not in gold], chance)
    if asked.kind == "unanswerable":
        yield unanswered("everyday", asked.text, gold, relevant=None)
        for other in wrong[:3]:
            yield unanswered("everyday", asked.text, [*gold, other][-2:], relevant=None)
        return
    bridges = [step.answer for step in asked.steps[:-1]]
    rounds = ROUNDS if len(gold) > 1 else 2
    yield from questions_over("everyday", asked.text, asked.answers, gold[:4], wrong, rounds, chance, bridges)
    for step, passage in zip(asked.steps, found, strict=True):
        own = [pair(passage)]
        spans = spans_of([step.answer], own, [0]) if step.answer not in ("yes", "no") else []
        if step.question and spans:
            yield answered("everyday_step", step.question, own, spans)
            others = [other for other in _wrong(step.question, passages, chance) if other != own[0]]
            for other in others[:2]:
                if not spans_of([step.answer], [other], [0]):
                    yield unanswered("everyday_step", step.question, [other])


def passage_of(step: Step, passages: Sequence[Passage]) -> Passage:
    """The passage of a step's document that holds most of its quotation."""
    quoted = set(words(f"{step.quote} {step.answer}"))
    own = [passage for passage in passages if passage.metadata["source"] == step.path]
    return max(own, key=lambda passage: len(quoted & set(words(f"{passage.title} {passage.text}"))))


def _wrong(question: str, passages: Sequence[Passage], chance: random.Random) -> list[TitledText]:
    """Passages that are not the question's: half of them those that share most words with it."""
    near = nearest(question, passages)
    rest = near[WRONG // 2 :]
    drawn = [*near[: WRONG // 2], *chance.sample(rest, min(WRONG // 2, len(rest)))]
    return [pair(passage) for passage in chance.sample(drawn, len(drawn))]


def nearest(question: str, passages: Sequence[Passage]) -> list[Passage]:
    """Sort passages by the number of words that they share with a question."""
    asked = set(words(question))
    return sorted(passages, key=lambda passage: -len(asked & set(words(f"{passage.title} {passage.text}"))))


def main() -> None:
    """Write the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    made = list(everyday(FOLDER, chance))
    if given.replay:
        made += sampled([read(given.replay)], len(made), chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
