"""Examples of questions as people ask: in other words, in a few key words, out of their own situation.

    python -m training.phrasings DATA OUT --replay EXAMPLES ... [--described N] [--earlier N] [--seed N]

DATA: see ``training/README.md``. OUT: one JSON line an example: the questions of ``phrasings/DOMAIN.txt``, about the
sets of everyday documents and in the form of ``facts/`` (``training.facts``); N questions that describe something, over
articles; those of DATA's decompositions; and N examples of each file of earlier stages.

``python -m training.facts training/phrasings/*.txt`` prints the faults of the questions, and what there is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from polyhop.common.text import content_words
from training import articles
from training.data import Example, lines, mix_parser, read, sampled, write_mixed
from training.descriptions import of_articles
from training.facts import SetOf, facts
from training.sets import FOLDER as SETS
from training.sets import Question
from training.single import of_facts, read_for_description

FOLDER = Path(__file__).parent / "phrasings"
DESCRIBED, EARLIER = 2000, 6000
_SOURCES = ("break_high_hotpot", "break_high_cwq")
_IN_STEPS = frozenset({"select", "project"})  # steps that each ask about what the one before it has found
_REFERENCE = re.compile(r"#(\d+)")
_DESCRIBES = re.compile(r"(?:the|an?) |.*['’]s? ", re.IGNORECASE)


def questions() -> dict[SetOf, list[Question]]:
    """Read the questions by the set that they are about."""
    return facts(sorted(FOLDER.glob("*.txt")))


def of_decompositions(data: Path) -> Iterator[Example]:
    """The questions of Break whose first step is something that their own words describe."""
    for row in lines(data / "reader" / "decompositions.jsonl.gz"):
        kinds = set(re.findall(r"\w+", row.get("operators") or ""))
        if row["source"] in _SOURCES and kinds <= _IN_STEPS and (words := described_in(row["question"], row["steps"])):
            start = row["question"].index(words)
            yield read_for_description(row["question"], [(0, start, start + len(words))])


def described_in(question: str, steps: Sequence[str]) -> str | None:
    """The words of a question that describe what one of its steps finds: the first that is no bare name, that a later
    step refers to, and whose words stand together; None if there is none.

    >>> described_in("Where does Leviathan's author live?", ["the author of Leviathan", "where does #1 live"])
    "Leviathan's author"
    >>> described_in("Who wrote Leviathan?", ["Leviathan", "who wrote #1"]) is None
    True
    """
    whole: list[str] = []
    for number, step in enumerate(steps, 1):
        whole.append(_REFERENCE.sub(lambda found: _earlier(whole, found), step))
        asked_about = any(f"#{number}" in later for later in steps[number:])
        if asked_about and not _is_name(whole[-1]) and (words := _shortest(question, whole[-1])):
            return words
    return None


def _earlier(whole: Sequence[str], reference: re.Match[str]) -> str:
    number = int(reference[1])
    return whole[number - 1] if number <= len(whole) else reference[0]


def _is_name(step: str) -> bool:
    return all(not word[0].islower() or word in ("the", "of", "and") for word in step.split())


def _shortest(question: str, step: str) -> str | None:
    """The shortest words of a question with just the content words of a step, and the article before them; None if
    they are no description, or the whole question."""
    wanted, tokens = set(content_words(step)), list(re.finditer(r"\S+", question.rstrip("? ")))
    if wanted == set(content_words(question)):
        return None
    found = [
        (first.start(), last.end())
        for at, first in enumerate(tokens)
        for last in tokens[at:]
        if set(content_words(question[first.start() : last.end()])) == wanted
    ]
    start, end = min(found, key=lambda span: span[1] - span[0], default=(0, 0))
    if article := re.search(r"\b(?:the|an?) $", question[:start], re.IGNORECASE):
        start = article.start()
    words = question[start:end].rstrip(",")
    return words if _DESCRIBES.match(words) else None


def examples(data: Path, chance: random.Random, described: int = DESCRIBED) -> list[Example]:
    """The examples of this stage alone."""
    made = list(of_facts(SETS, questions(), chance))
    return [*made, *of_decompositions(data), *sampled([of_articles(articles.FOLDER)], described, chance)]


def main() -> None:
    """Write the examples."""
    parser = mix_parser(__doc__, EARLIER, "data")
    parser.add_argument("--described", type=int, default=DESCRIBED)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    made = examples(given.data, chance, given.described)
    made += sampled(map(read, given.replay), given.earlier, chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
