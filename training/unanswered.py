"""Examples of questions that documents do not answer, over the passages that tempt to answer them.

    python -m training.unanswered LONGER OUT --replay EXAMPLES ... [--earlier N] [--seed N]

OUT: one JSON line an example: questions without an answer, of the sets of everyday documents, ``phrasings/`` and
``facts/``, each over passages that ``pocket`` finds for it and beside the answer that it reads off them; right and
wrong answers to other questions; a sample of LONGER, which ``training.longer`` wrote; and N examples of each file of
earlier stages.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import chain

from training import longer, single, verified
from training.data import Example, mix_parser, read, sampled, unanswered, write_mixed
from training.everyday import passage_of
from training.examples import pair
from training.sets import DocumentSet, Question, corpus_of, training_sets

LONGER, EARLIER = 12_000, 2500
"""Examples of ``training.longer``, and of each earlier stage."""
ANSWERS = {True: 5500, None: 5000, False: 3500}
"""Examples of answers that are right, that questions without one tempt to, and that are otherwise wrong."""
_ANSWERED = 0.25
"""Share of the questions with an answer that are read."""
_NEAR, _OVER = 3, 2  # passages that are found for a question, and over how many of them it is asked


def over_what_tempts(held: DocumentSet, questions: Iterable[Question], chance: random.Random) -> Iterator[Example]:
    """Questions of a set that have no answer, each over two of the passages that people name or ``pocket`` finds."""
    passages = list(corpus_of(held))
    files, search = {passage.metadata["source"] for passage in passages}, single.search_in(passages, "auto")
    for asked in questions:
        own = [pair(passage_of(step, passages)) for step in asked.steps if step.path in files]
        near = list(dict.fromkeys([*own, *search(asked.text)]))[:_NEAR]
        for each in chance.sample(near, min(_OVER, len(near))):
            yield unanswered("single_unanswerable", asked.text, [each], relevant=None)


def questions_of(chance: random.Random) -> Iterator[tuple[DocumentSet, list[Question]]]:
    """The sets that are trained on, each with the questions without an answer about it and a sample of the others."""
    longest = ((held, held.questions) for held in training_sets(longer.FOLDER))
    for held, asked in chain(verified.questions_of(chance), longest):
        yield held, [each for each in asked if each.kind == "unanswerable" or chance.random() < _ANSWERED]


def examples(chance: random.Random) -> list[Example]:
    """The examples of this stage alone."""
    made: list[Example] = []
    answers: list[verified.Answered] = []
    for held, asked in questions_of(chance):
        made += over_what_tempts(held, [each for each in asked if each.kind == "unanswerable"], chance)
        answers += verified.answers_of(held, asked, chance)
    return [*made, *verified.drawn(answers, ANSWERS, chance)]


def main() -> None:
    """Write the examples."""
    given = mix_parser(__doc__, EARLIER, "longer").parse_args()
    chance = random.Random(given.seed)
    made = [*examples(chance), *sampled([read(given.longer)], LONGER, chance)]
    made += sampled(map(read, given.replay), given.earlier, chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
