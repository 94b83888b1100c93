"""Examples of sets of longer documents, in which several things of a kind stand side by side.

    python -m training.longer OUT --replay EXAMPLES ... [--earlier N] [--seed N]

OUT: one JSON line an example: what ``training.single``, ``training.claims`` and ``training.verified`` make of the sets
in ``longer/DOMAIN/NAME.txt``, and a sample of what ``training.everyday`` does; and N examples of each file of earlier
stages.

``python -m training.sets training/longer/*/*.txt`` prints the faults of the sets, and what there is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from training import claims, single
from training.data import Example, mix_parser, read, sampled, write_mixed
from training.everyday import everyday
from training.sets import HELD_OUT, sets
from training.verified import answers_of

FOLDER = Path(__file__).parent / "longer"
EVERYDAY, EARLIER = 9000, 2500
"""Examples of whole questions over several passages, and of each earlier stage."""


def longer(folder: Path, chance: random.Random) -> Iterator[Example]:
    """The examples of the sets of a folder."""
    yield from single.documents(folder, chance)
    yield from sampled([everyday(folder, chance)], EVERYDAY, chance)
    yield from claims.of_documents(folder, chance)
    for held in sets(folder):
        if held.domain not in HELD_OUT:
            yield from (found.example for found in answers_of(held, held.questions, chance))


def main() -> None:
    """Write the examples."""
    given = mix_parser(__doc__, EARLIER).parse_args()
    chance = random.Random(given.seed)
    made = list(longer(FOLDER, chance))
    made += sampled(map(read, given.replay), given.earlier, chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
