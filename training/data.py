"""Training examples, and the files that they are read from and written to."""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any

TitledText = tuple[str, str]
"""A passage's title and text."""
AnswerSpan = tuple[int, int, int]
"""A passage's number, and a start and end in its text; in its title if the number is ``-1 - passage``."""
CLAIMS = ("claim", "claim_near", "claim_open", "note_claim", "note_claim_open", "verified")
"""Sources of questions of yes or no, which are learnt for that alone."""


@dataclass
class Example:
    """A question over passages.

    ``kind``: what the answer is, None where that is not known; ``spans``: where the answer stands; ``relevant``:
    whether every passage bears on the question; ``enough``: whether they hold all that the answer needs; ``group``: the
    same for examples that compete, which ask one question over a passage each.
    """

    source: str
    question: str = ""
    passages: list[TitledText] = field(default_factory=list)
    _: KW_ONLY
    kind: str | None = None
    spans: list[AnswerSpan] = field(default_factory=list)
    relevant: int | None = None
    enough: int | None = None
    group: str = ""


def answered(
    source: str, question: str, passages: Sequence[TitledText], spans: list[AnswerSpan], kind: str = "span"
) -> Example:
    """Return an example whose passages answer the question, and all bear on it."""
    return Example(source, question, list(passages), kind=kind, spans=spans, relevant=1, enough=1)


def unanswered(source: str, question: str, passages: Sequence[TitledText], relevant: int | None = 0) -> Example:
    """Return an example whose passages do not answer the question."""
    return Example(source, question, list(passages), kind="none", relevant=relevant, enough=0)


def lines(file: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSON Lines file, gzipped or not; none if the file is absent."""
    if not file.exists():
        return []
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return [json.loads(line) for line in raw.splitlines()]


def read(file: Path) -> Iterator[Example]:
    """Read the examples of a file."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield Example(**json.loads(line))


def sampled(sources: Iterable[Iterable[Example]], count: int, chance: random.Random) -> list[Example]:
    """Draw so many examples from each source, those of a group together; all of one that has fewer."""
    drawn: list[Example] = []
    for source in sources:
        groups: dict[str | int, list[Example]] = defaultdict(list)
        for at, each in enumerate(source):
            groups[each.group or at].append(each)
        own: list[Example] = []
        for group in chance.sample(list(groups.values()), min(count, len(groups))):
            own += group if len(own) < count else []
        drawn += own
    return drawn


def write(examples: Iterable[Example], file: Path) -> None:
    """Write examples to a file, atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".new")
    with unfinished.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in examples)
    unfinished.replace(file)


def write_mixed(examples: list[Example], file: Path, chance: random.Random) -> None:
    """Write examples in a random order, and print how many there are of each source."""
    chance.shuffle(examples)
    write(examples, file)
    counts = Counter(each.source for each in examples)
    print(len(examples), "examples:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


def mix_parser(description: str | None, earlier: int, *inputs: str) -> argparse.ArgumentParser:
    """Return the options of a later stage: its inputs, where to write, and how much of earlier stages to mix in."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in (*inputs, "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--replay", type=Path, nargs="+", required=True)
    parser.add_argument("--earlier", type=int, default=earlier)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def occurrences(answer: str, text: str) -> Iterator[tuple[int, int]]:
    """Find every occurrence of the answer as whole words, ignoring case."""
    pattern = re.escape(answer.strip())
    if pattern:
        for match in re.finditer(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE):
            yield match.span()


def occurs(answer: str, text: str) -> bool:
    """Return True if a text contains the answer as whole words."""
    return next(occurrences(answer, text), None) is not None


def spans_of(answers: Iterable[str], passages: Sequence[TitledText], inside: Iterable[int]) -> list[AnswerSpan]:
    """Find the answers in the passages numbered ``inside``: in texts, else in titles."""
    answers, inside = list(answers), list(inside)
    texts = [(at, *span) for at in inside for answer in answers for span in occurrences(answer, passages[at][1])]
    titles = [(-1 - at, *span) for at in inside for answer in answers for span in occurrences(answer, passages[at][0])]
    return sorted(set(texts[:12] + titles[:4]))
