"""Questions over two or three articles of the question sets' passages, and examples made of them.

    python -m training.articles                                            # prints the faults, and what there is
    python -m training.articles DATA OUT --replay EXAMPLES ... [--earlier N]

DATA: see ``training/README.md``. OUT: one JSON line an example: of these questions, and N of each file of earlier
stages. The passages stay in DATA; none of them belongs to a dev question.

A file ``articles/SET.txt`` holds the questions over passages of ``DATA/SET/corpus.jsonl``. ``== pid pid`` names two or
three passages; the questions about them follow:

* ``& Where was [the director of Dark Mill] born? = Ann Lee = Elstow``: with what is found on the way, in the order of
  the hops, and the answer; each passage names the next. Brackets mark what describes the first thing found, where such
  words stand together;
* ``* Are Dark Mill and Salt both films? = yes``: about both passages at once.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import polyhop
from polyhop import Passage
from polyhop.common.text import words
from polyhop.lm.pocket.reading.descriptions import inner_question
from polyhop.retrieval import open_plain_retriever
from polyhop.retrieval.index import index_for
from training.checking import report
from training.data import (
    Example,
    TitledText,
    answered,
    occurs,
    read,
    sampled,
    spans_of,
    unanswered,
    write_mixed,
)
from training.examples import pair, questions_over
from training.single import read_for_description

FOLDER = Path(__file__).parent / "articles"
EARLIER = 10000
_FOUND = 8  # passages that BM25 finds, of which one that does not help is read
_ORDERS = 2  # ways to put a question over its own passages, of which one is taken
_OTHER = 0.2  # share of the examples over parts of them, or over others
_STEPS = 0.3  # share of the examples of steps and descriptions
_MARKED = re.compile(r"([^\[\]]*)\[([^\[\]]+)\]([^\[\]]*)")


class Asked(NamedTuple):
    """A question over articles: its text, the words that describe the first thing found on the way (empty if they are
    not marked), the names found on the way, the answer, and the passages' ids."""

    text: str
    described: str
    names: tuple[str, ...]
    answer: str
    pids: tuple[str, ...]


def read_articles(file: Path) -> Iterator[Asked]:
    """Read the questions of a file.

    Raises:
        ValueError: a line that has no meaning, with file and line number.
    """
    pids: tuple[str, ...] = ()
    for number, line in enumerate(map(str.strip, file.read_text(encoding="utf-8").splitlines()), 1):
        if line.startswith("== "):
            pids = tuple(line[3:].split())
        elif line:
            question, *names = line[2:].split(" = ")
            marked = _MARKED.fullmatch(question)
            hops = range(2, len(pids) + 1) if line.startswith("& ") else (1,) if line.startswith("* ") else ()
            if len(names) not in hops or ("[" in question) != bool(marked):
                raise ValueError(
                    f"{file}:{number}: neither '== pid pid', '& question = name = answer' (at most one [description], "
                    "fewer names than passages) nor '* question = answer'"
                )
            text = "".join(marked.groups()) if marked else question
            yield Asked(text, marked[2] if marked else "", tuple(names[:-1]), names[-1], pids)


def faults(asked: Sequence[Asked], passages: Mapping[str, Passage] | None = None) -> Iterator[str]:
    """Find the faults of questions: one that holds its answer or what is found on the way, one asked twice; and, if the
    passages are given, an answer that none of them has."""
    for text, times in Counter(each.text for each in asked).items():
        if times > 1:
            yield f"{text!r} is asked {times} times"
    for each in asked:
        given = [name for name in (*each.names, each.answer) if each.names and occurs(name, each.text)]
        if given:
            yield f"{each.text!r} holds {given[0]!r}"
        if passages is not None and each.answer not in ("yes", "no"):
            own = " | ".join(f"{passages[pid].title} | {passages[pid].text}" for pid in each.pids)
            yield from (f"{each.text!r}: no {name!r}" for name in (*each.names, each.answer) if not occurs(name, own))


def examples_of(
    asked: Asked, passages: Mapping[str, Passage], found: Sequence[TitledText], chance: random.Random
) -> Iterator[Example]:
    """A question over its articles, and a sample of the examples over parts of them, over one that does not help, and
    of its steps. ``found``: passages that are like it."""
    gold = [pair(passages[pid]) for pid in _needed(asked, passages)]
    wrong = [each for each in found if each not in gold and not occurs(asked.answer, " ".join(each))]
    drawn = chance.sample(wrong, min(1, len(wrong)))
    made = list(questions_over("article", asked.text, [asked.answer], gold, drawn, _ORDERS, chance, asked.names))
    whole = [each for each in made if each.enough]
    yield from chance.sample(whole, min(1, len(whole)))
    yield from (each for each in made if not each.enough and chance.random() < _OTHER)
    if asked.described:
        yield from (each for each in _steps(asked, gold) if chance.random() < _STEPS)


def _needed(asked: Asked, passages: Mapping[str, Passage]) -> tuple[str, ...]:
    """The passages of a question: of three, for one of two hops, the two that have its names and share most words with
    it."""
    if len(asked.pids) <= len(asked.names) + 1 or not asked.names:
        return asked.pids
    texts = {pid: f"{passages[pid].title} | {passages[pid].text}" for pid in asked.pids}
    fitting = [
        both for both in pairwise(asked.pids)
        if all(any(occurs(name, texts[pid]) for pid in both) for name in (*asked.names, asked.answer))
    ]  # fmt: skip
    return max(fitting, key=lambda both: _shared(asked.text, *(texts[pid] for pid in both)), default=asked.pids)


def _shared(question: str, *texts: str) -> int:
    return len(set(words(question)) & {word for text in texts for word in words(text)})


def _steps(asked: Asked, gold: Sequence[TitledText]) -> Iterator[Example]:
    """The words that describe something, the question of what that is, and the rest of the question about it."""
    yield from described(asked)
    about = _about(asked)
    for question, answer, of in (
        (inner_question(asked.described), asked.names[0], asked.described),
        *([(about, asked.answer, about)] if len(asked.names) == 1 else []),
    ):
        telling = [each for each in gold if spans_of([answer], [each], [0])]
        if telling:
            best = max(telling, key=lambda each: _shared(of, *each))
            yield answered("article_step", question, [best], spans_of([answer], [best], [0]))
        yield from (unanswered("article_step", question, [each]) for each in gold if each not in telling)


def described(asked: Asked) -> Iterator[Example]:
    """The question read for the words that describe something, and the rest of it about what they describe, which
    describes nothing any more; nothing where such words are not marked."""
    if asked.described:
        start = asked.text.index(asked.described)
        yield read_for_description(asked.text, [(0, start, start + len(asked.described))])
        if len(asked.names) == 1:
            yield read_for_description(_about(asked), [])


def _about(asked: Asked) -> str:
    return asked.text.replace(asked.described, asked.names[0], 1)


def articles(data: Path, chance: random.Random) -> Iterator[Example]:
    """The examples of all questions whose set is in the data."""
    for file in sorted(FOLDER.glob("*.txt")):
        corpus = data / file.stem / "corpus.jsonl"
        if not corpus.exists():
            continue
        every = polyhop.open_corpus(corpus)
        passages = {passage.id: passage for passage in every}
        engine = open_plain_retriever("bm25", index_for(every))
        for asked in read_articles(file):
            found = [pair(passage) for passage in engine.search(asked.text, _FOUND)]
            yield from examples_of(asked, passages, found, chance)


def check() -> int:
    """Print the faults of the questions, and what there is of each kind; 1 if there are faults."""
    found = [list(read_articles(file)) for file in sorted(FOLDER.glob("*.txt"))]
    hops = Counter(len(asked.names) for each in found for asked in each)
    summary = f"{sum(hops.values())} questions: {hops[1] + hops[2]} with a bridge, {hops[0]} about all passages at once"
    return report((fault for each in found for fault in faults(each)), summary)


def main() -> None:
    """Print what there is, or write the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--replay", type=Path, nargs="+", default=[])
    parser.add_argument("--earlier", type=int, default=EARLIER, help="examples of each file of earlier stages")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.data is None or given.out is None:
        raise SystemExit(check())
    chance = random.Random(given.seed)
    made = list(articles(given.data, chance))
    made += sampled(map(read, given.replay), given.earlier, chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
