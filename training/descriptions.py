"""Examples of questions that describe something, and of questions that describe nothing.

    python -m training.descriptions OUT --replay EXAMPLES ... [--earlier N] [--seed N]

OUT: one JSON line an example: N of the questions of the everyday documents, with the bridges of ``facts/``; N of those
over articles; and N of each file of earlier stages.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from training import articles
from training.data import Example, mix_parser, read, sampled, write_mixed
from training.facts import SetOf, facts
from training.sets import FOLDER, HELD_OUT, DocumentSet, Question, sets
from training.single import described

EARLIER = 6000


def of_documents(held: Iterable[DocumentSet], found: Mapping[SetOf, Sequence[Question]]) -> Iterator[Example]:
    """The questions about the sets that are trained on."""
    for each in held:
        if each.domain not in HELD_OUT:
            facts_of_set = found.get(SetOf(each.domain, each.name), ())
            for asked in (*each.questions, *(fact for fact in facts_of_set if fact.kind == "bridge")):
                yield from described(asked)


def of_articles(folder: Path) -> Iterator[Example]:
    """The questions over articles."""
    for file in sorted(folder.glob("*.txt")):
        for asked in articles.read_articles(file):
            yield from articles.described(asked)


def main() -> None:
    """Write the examples."""
    given = mix_parser(__doc__, EARLIER).parse_args()
    chance = random.Random(given.seed)
    kinds = (of_documents(sets(FOLDER), facts()), of_articles(articles.FOLDER), *map(read, given.replay))
    write_mixed(sampled(kinds, given.earlier, chance), given.out, chance)


if __name__ == "__main__":
    main()
