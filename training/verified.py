"""Examples of questions beside an answer, right or wrong: is it the answer?

    python -m training.verified DATA OUT --replay EXAMPLES ... [--earlier N] [--seed N]

DATA: see ``training/README.md``. OUT: one JSON line an example: questions about single facts of everyday documents
beside their answers, and beside wrong ones that ``pocket``, with the encoder that is installed, reads off the passage
of the fact and off the nearest others; the new examples of ``training.phrasings``; and N examples of each file of
earlier stages. Domains that are held out are not read.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polyhop
from polyhop import Passage
from polyhop.common.text import normalise
from polyhop.lm.pocket.reading.documents import read_unverified
from polyhop.lm.pocket.reading.verification import verifying
from polyhop.retrieval import open_plain_retriever
from polyhop.retrieval.index import index_for
from training import phrasings
from training.data import Example, mix_parser, read, sampled, write_mixed
from training.everyday import passage_of
from training.examples import pair
from training.facts import SetOf, facts
from training.sets import FOLDER, DocumentSet, Question, corpus_of, training_sets
from training.single import WHOLE

COUNTS = {True: 10_000, None: 5_000, False: 9_500}
"""Examples of answers that are right, that questions without one tempt to, and that are otherwise wrong."""
EARLIER = 7000
OF_PHRASINGS, OF_FACTS, OF_UNANSWERABLE = 0.6, 0.2, 0.4
"""Shares of the questions that are read: ``phrasings/``, ``facts/``, and those of the sets that have no answer."""
_NEAR = 3  # passages that BM25 finds, of which one or two are read
_READ = 6  # best answers that are looked at
_LEAST = 0.005  # weight of a wrong answer to a question that has a right one


class Answered(NamedTuple):
    """A question beside an answer that is read off a passage. ``right``: None if the question has no answer."""

    question: str
    answer: str
    passage: Passage
    right: bool | None

    @property
    def example(self) -> Example:
        """The example."""
        kind = "yes" if self.right else "no"
        return Example("verified", verifying(self.question, self.answer), [pair(self.passage)], kind=kind)


def answers_of(held: DocumentSet, questions: Iterable[Question], chance: random.Random) -> Iterator[Answered]:
    """The answers to questions about single facts of a set: the right one, and wrong ones that are read."""
    passages = list(corpus_of(held))
    files = {passage.metadata["source"] for passage in passages}
    engine = open_plain_retriever("bm25", index_for(polyhop.open_corpus(passages)))
    for asked in questions:
        own = [passage_of(step, passages) for step in asked.steps if step.path in files]
        if asked.kind == "unanswerable" or (asked.kind in WHOLE and len(own) == 1):
            near = [each for each in engine.search(asked.text, _NEAR) if each not in own]
            yield from _answers(asked, own[:1], near[: chance.choice((1, 1, 1, 2, 2))])


def _answers(asked: Question, own: Sequence[Passage], near: Sequence[Passage]) -> Iterator[Answered]:
    right = [normalise(answer) for answer in asked.answers] if asked.kind in WHOLE else []
    if right:
        yield Answered(asked.text, asked.answers[0], own[0], right=True)
    seen, wrong = set(right[:1]), 0
    for found in read_unverified(asked.text, [*own, *near])[:_READ]:
        plain = normalise(found.answer)
        if plain in seen or not plain:
            continue
        seen.add(plain)
        if any(plain in each or each in plain for each in right):
            continue
        if wrong < (2 if right else 1) and (found.weight > _LEAST or not right):
            wrong += 1
            yield Answered(asked.text, found.answer, found.passage, right=False if right else None)


def questions_of(chance: random.Random) -> Iterator[tuple[DocumentSet, list[Question]]]:
    """The sets that are trained on, each with a sample of the questions about it."""
    shares = ((phrasings.questions(), OF_PHRASINGS), (facts(), OF_FACTS))
    for held in training_sets(FOLDER):
        about = [
            asked
            for found, share in shares
            for asked in found.get(SetOf(held.domain, held.name), ())
            if chance.random() < share
        ]
        own = [each for each in held.questions if each.kind != "unanswerable" or chance.random() < OF_UNANSWERABLE]
        yield held, [*about, *own]


def drawn(answers: Sequence[Answered], counts: Mapping[bool | None, int], chance: random.Random) -> list[Example]:
    """The examples of a sample of answers, so many of each kind."""
    made: list[Example] = []
    for right, count in counts.items():
        made += sampled([[each.example for each in answers if each.right is right]], count, chance)
    return made


def main() -> None:
    """Write the examples."""
    given = mix_parser(__doc__, EARLIER, "data").parse_args()
    chance = random.Random(given.seed)
    every = [found for held, asked in questions_of(chance) for found in answers_of(held, asked, chance)]
    made = drawn(every, COUNTS, chance)
    made += phrasings.examples(given.data, chance)
    made += sampled(map(read, given.replay), given.earlier, chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
