"""Two-hop questions composed of one-hop ones that share a name."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyhop.common.text import normalise
from training.data import Example, TitledText, lines, occurs

LIMIT = 4500  # questions
SOURCES = ("squad_dev", "squadshifts_new_wiki", "nq_open_oracle", "qed_dev")
_NAME = re.compile(r"(?:[A-Z][\w.'’-]+(?: (?:of|the|de|von|and) (?=[A-Z]))? ?)+")
_WHO = re.compile(r"^who (?!do|did|does|is the|was the|are|were)(.{8,70})\?$", re.IGNORECASE)
_WHAT = re.compile(r"^(?:what|who|which) (?:is|was) (?:the name of )?(the .{8,70})\?$", re.IGNORECASE)
_WHICH = re.compile(
    r"^(?:what|which) (\w+(?: \w+)?) ((?:is|was|are|were|has|had|\w+ed|\w+s) .{6,60})\?$", re.IGNORECASE
)


def composed(data: Path, chance: random.Random, limit: int = LIMIT) -> Iterator[Example]:
    """Two-hop questions made of two that share a name: the name in one gives way to the other, put as a description.
    A third of them with one more passage about the same things that does not tell."""
    rows = [row for name in SOURCES for row in lines(data / "reader" / f"{name}.jsonl.gz") if row["type"] == "span"]
    by_answer, by_title = _by_answer(rows), _by_title(rows)
    count = 0
    for row in chance.sample(rows, len(rows)):
        for name in dict.fromkeys(each.strip(" ?,.") for each in _NAME.findall(row["question"][1:])):
            first = [each for each in by_answer.get(name, ()) if each[1]["context"] != row["context"]]
            if not first or any(answer["text"] == name for answer in row["answers"]):
                continue
            described, other = chance.choice(first)
            question = _with(row["question"], name, described)
            if normalise(row["answers"][0]["text"]) in normalise(described) or question == row["question"]:
                continue
            passages = [(other["title"], other["context"]), (row["title"], row["context"])]
            near = [each for part in (other, row) for each in by_title[part["title"]] if each not in passages]
            near = [each for each in near if not any(occurs(answer["text"], each[1]) for answer in row["answers"])]
            more = chance.sample(near, min(chance.choice((0, 0, 1)), len(near)))
            mixed = chance.sample([*passages, *more], len(passages) + len(more))
            at = mixed.index(passages[1])
            spans = [(at, each["start"], each["start"] + len(each["text"])) for each in row["answers"]]
            yield Example("composed", question, mixed, kind="span", spans=spans, relevant=int(not more), enough=1)
            if chance.random() < 0.5:
                yield Example("composed", question, passages[:1] if count % 2 else passages[1:], relevant=1, enough=0)
            count += 1
            if count >= limit:
                return


def _by_answer(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    """Rewrite questions as descriptions, by the name that they ask for."""
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for row in rows:
        if (described := description(row["question"])) is not None:
            for answer in dict.fromkeys(each["text"] for each in row["answers"]):
                if len(answer) > 3 and answer[:1].isupper() and len(answer.split()) <= 5:
                    found[answer].append((described, row))
    return found


def _by_title(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[TitledText]]:
    """The passages of each title."""
    found: dict[str, dict[TitledText, None]] = defaultdict(dict)
    for row in rows:
        found[row["title"]][row["title"], row["context"]] = None
    return {title: list(held) for title, held in found.items()}


def _with(question: str, name: str, described: str) -> str:
    return re.sub(rf"(?:\b[Tt]he )?(?<!\w){re.escape(name)}(?!\w)", lambda _: described, question)


def description(question: str) -> str | None:
    """Rewrite a question as a description of its answer.

    >>> description("Who wrote the play Hamlet in London?")
    'the person who wrote the play Hamlet in London'
    >>> description("What company published the Journal of Ideas?")
    'the company that published the Journal of Ideas'
    """
    if match := _WHO.match(question):
        return f"the person who {match[1]}"
    if match := _WHAT.match(question):
        return match[1]
    if (match := _WHICH.match(question)) and match[1].split()[-1].lower() not in (
        "did",
        "does",
        "do",
        "is",
        "was",
        "of",
    ):
        return f"the {match[1]} that {match[2]}"
    return None
