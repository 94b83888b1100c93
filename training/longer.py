"""Examples of sets of longer documents, in which several things of a kind stand side by side.

    python -m training.longer OUT --replay EXAMPLES ... [--earlier N] [--seed N]

OUT: one JSON line an example: what ``training.single``, ``training.claims`` and ``training.verified`` make of the sets
in ``longer/DOMAIN/NAME.txt``, and a sample of what ``training.everyday`` does; facts of ``phrasings/``; and N examples
of each file of earlier stages. A fact's passage competes with the passages that ``pocket`` finds beside it.

``python -m training.sets training/longer/*/*.txt`` prints the faults of the sets, and what there is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from training import claims, phrasings, single
from training.data import Example, mix_parser, read, sampled, write_mixed
from training.everyday import everyday, passage_of
from training.examples import pair
from training.facts import SetOf
from training.sets import FOLDER as SETS
from training.sets import Question, corpus_of, training_sets
from training.verified import answers_of

FOLDER = Path(__file__).parent / "longer"
EVERYDAY, EARLIER = 6000, 2000
"""Examples of whole questions over several passages, and of each earlier stage."""
COMPETING = 3
"""Passages beside that of a fact."""
PHRASED = 0.12
"""Share of the questions of ``phrasings/`` whose passages compete."""


def longer(folder: Path, chance: random.Random) -> Iterator[Example]:
    """The examples of the sets of a folder."""
    yield from single.documents(folder, chance, COMPETING)
    yield from sampled([everyday(folder, chance)], EVERYDAY, chance)
    yield from claims.of_documents(folder, chance)
    for held in training_sets(folder):
        yield from (found.example for found in answers_of(held, held.questions, chance))


def phrased(folder: Path, asked: Mapping[SetOf, Sequence[Question]], chance: random.Random) -> Iterator[Example]:
    """A sample of questions about the sets of a folder, each step over its passage and those beside it."""
    for held in training_sets(folder):
        known = asked.get(SetOf(held.domain, held.name), ())
        drawn = [each for each in known if each.kind != "unanswerable" and chance.random() < PHRASED]
        if not drawn:
            continue
        passages = list(corpus_of(held))
        search = single.search_in(passages, "auto")
        for step in (step for each in drawn for step in each.steps if step.path):
            fact = single.Fact(step.question, step.answer, pair(passage_of(step, passages)))
            yield from single.read_over(fact, search, held, COMPETING)


def main() -> None:
    """Write the examples."""
    given = mix_parser(__doc__, EARLIER).parse_args()
    chance = random.Random(given.seed)
    made = [*longer(FOLDER, chance), *phrased(SETS, phrasings.questions(), chance)]
    made += sampled(map(read, given.replay), given.earlier, chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
