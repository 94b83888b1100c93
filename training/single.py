"""Examples over one passage at a time, as ``pocket`` reads parts of files: facts, and passages that do not tell.

    python -m training.single OUT --replay EXAMPLES ... [--facts N] [--seed N]

OUT: one JSON line an example: from the sets of everyday documents, and N of those made of ``training.facts``. EXAMPLES:
files of earlier stages; a sample of each is mixed in, as is one of ``training.everyday``, so that what was learnt
before is kept. Domains that are held out are not read.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polyhop
from polyhop import Passage
from polyhop.common.text import normalise
from polyhop.lm.pocket.reading.descriptions import DESCRIBES, inner_question, plain, split_by_rules
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.values import value_question
from polyhop.retrieval import open_plain_retriever
from polyhop.retrieval.index import index_for
from training.data import (
    AnswerSpan,
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
from training.everyday import everyday, examples_of, passage_of
from training.examples import pair
from training.facts import SetOf, facts, is_read
from training.sets import FOLDER, DocumentSet, Question, Step, corpus_of, descriptions, training_sets

READ = 5  # passages that are found and read one by one
NEAR = 2  # of them, without the answer, that a question is asked over
WHOLE = ("one", "table", "outdated", "lookalike")  # kinds of question that one fact answers
NEAR_A_FACT = 0.3  # share of the questions of ``training.facts`` that are asked over such a passage, too
PLAIN = 0.3  # share of the questions of one fact that are read for what they describe: nothing
EVERYDAY, EARLIER = 3000, 6000  # examples of whole questions over several passages, and of an earlier stage
_NAME = re.compile(r"[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*")


class Fact(NamedTuple):
    """A question that one passage answers, and the answer. ``whole``: a person asked it so, it is not a step."""

    question: str
    answer: str
    passage: TitledText
    whole: bool = False


Search = Callable[[str], Sequence[TitledText]]
"""Finds the passages that are read for a question."""


def documents(folder: Path, chance: random.Random, competing: int = 0) -> Iterator[Example]:
    """The questions of the sets of everyday documents, over the passages that are read for them. ``competing``: how
    many passages compete with that of a fact, those that ``pocket`` finds; 0 to read one or two that BM25 finds."""
    for held in training_sets(folder):
        passages = list(corpus_of(held))
        search = search_in(passages, "auto" if competing else "bm25")
        known = list(dict.fromkeys(facts_of(held, passages)))
        names = names_by_asking(known)
        for fact in known:
            yield from read_over(fact, search, held, competing)
            if other := renamed(fact, names, chance):
                yield unanswered("single_renamed", other, [fact.passage])
        for asked in held.questions:
            if asked.kind == "comparison" and is_read(held.domain):
                for fact in compared_values(asked, passages):
                    yield from read_over(fact, search, held, competing)
            yield from _decided(asked, passages, search)
            if asked.kind not in WHOLE or chance.random() < PLAIN:
                yield from described(asked)


def of_facts(folder: Path, found: Mapping[SetOf, Sequence[Question]], chance: random.Random) -> Iterator[Example]:
    """The questions of ``training.facts`` over their passages, and some over passages that do not tell."""
    for held in training_sets(folder):
        questions = found.get(SetOf(held.domain, held.name), ())
        if not questions:
            continue
        passages = list(corpus_of(held))
        search = search_in(passages)
        for asked in questions:
            if asked.kind != "comparison" or is_read(held.domain):
                yield from _of_fact(asked, passages, search, chance)


def _of_fact(asked: Question, passages: Sequence[Passage], search: Search, chance: random.Random) -> Iterator[Example]:
    own = {step: pair(passage_of(step, passages)) for step in asked.steps if step.path}
    if asked.kind == "unanswerable":
        yield unanswered("single_unanswerable", asked.text, list(own.values()), relevant=None)
        return
    for step in asked.steps:
        if step in own:
            made = list(read_over(Fact(step.question, step.answer, own[step]), search))
            yield from made[:1]
            yield from (each for each in made[1:] if chance.random() < NEAR_A_FACT)
        else:  # a value that nothing tells
            for each in search(step.question)[:NEAR]:
                yield unanswered("single_near", step.question, [each])
    if asked.kind == "bridge":
        yield from described(asked)
        yield from examples_of(asked, passages, chance)


def search_in(passages: Sequence[Passage], retriever: str = "bm25") -> Search:
    """A search for the passages that are read for a question."""
    engine = open_plain_retriever(retriever, index_for(polyhop.open_corpus(passages)))
    return lambda question: [pair(passage) for passage in engine.search(question, READ)]


def facts_of(held: DocumentSet, passages: Sequence[Passage]) -> Iterator[Fact]:
    """The facts of a set: the steps that people wrote, whole questions of one step, and the questions that ``pocket``
    splits a bridge question into."""
    files = {passage.metadata["source"] for passage in passages}
    for asked in held.questions:
        steps = [step for step in asked.steps if step.answer not in ("", "yes", "no")]
        if asked.kind in ("boolean", "unanswerable") or len(steps) < len(asked.steps) or not steps:
            continue
        if not files >= {step.path for step in steps}:
            continue
        own = {step: pair(passage_of(step, passages)) for step in steps}
        if asked.kind in WHOLE and len(steps) == 1:
            yield Fact(asked.text, steps[0].answer, own[steps[0]], whole=True)
        for step in steps:
            if step.question and step.question != asked.text:
                yield Fact(step.question, step.answer, own[step])
        if asked.kind == "bridge":
            for question, step in split_steps(asked):
                yield Fact(question, step.answer, own[step])


def compared_values(asked: Question, passages: Sequence[Passage]) -> Iterator[Fact]:
    """The values that a comparison of a set compares, each asked for as ``pocket`` does."""
    comparison = parse_question(asked.text).comparison
    files = {passage.metadata["source"] for passage in passages}
    for thing in comparison.options if comparison else ():
        own = [step for step in asked.steps if occurs(thing, step.question)]
        if len(own) == 1 and own[0].path in files:
            yield Fact(value_question(thing, asked.text), own[0].answer, pair(passage_of(own[0], passages)))


def split_steps(asked: Question) -> Iterator[tuple[str, Step]]:
    """The questions that ``pocket`` splits a bridge question into, each with the step that answers it."""
    *first, last = asked.steps
    marked = list(descriptions(asked))
    for described, step in marked:
        yield inner_question(described.text), step
    if marked and len(marked) == len(first):
        described, step = marked[-1]
        yield described.about(step.answer), last
    elif len(first) == 1 and (parts := split_by_rules(asked.text)):
        yield parts.inner, first[0]
        yield parts.about(first[0].answer), last


def described(asked: Question) -> Iterator[Example]:
    """Questions read for the words that describe something: a bridge question, what is left of it when they are
    replaced by an answer, and a question that describes nothing."""
    if asked.kind in WHOLE:
        yield read_for_description(asked.text, [])
    marked = list(descriptions(asked))
    for part, _ in marked:
        yield read_for_description(part.question, [(0, part.start, part.end)])
    if marked and len(marked) == len(asked.steps) - 1:
        part, step = marked[-1]
        yield read_for_description(part.about(step.answer), [])


def read_for_description(question: str, spans: list[AnswerSpan]) -> Example:
    """A question read for the words that describe something, which stand at the spans."""
    return Example("described", DESCRIBES, [("", plain(question))], kind="span" if spans else "none", spans=spans)


def read_over(fact: Fact, search: Search, held: DocumentSet | None = None, competing: int = 0) -> Iterator[Example]:
    """A fact over its passage, and over passages that do not tell it; see ``documents``. ``held``: the set."""
    spans = spans_of([fact.answer], [fact.passage], [0])
    if not spans:
        return
    group = f"{held.domain}/{held.name}: {fact.question}" if held and competing else ""
    yield replace(answered("single", fact.question, [fact.passage], spans), group=group)
    near = [each for each in search(fact.question) if not occurs(fact.answer, " ".join(each))]
    for other in near[: competing or (NEAR if fact.whole else 1)]:
        yield replace(unanswered("single_near", fact.question, [other]), group=group)


def _decided(asked: Question, passages: Sequence[Passage], search: Search) -> Iterator[Example]:
    """A question of yes or no over the passage that decides it, and a question that nothing answers."""
    if asked.kind not in ("boolean", "unanswerable"):
        return
    files = {passage.metadata["source"] for passage in passages}
    own = list(dict.fromkeys(pair(passage_of(step, passages)) for step in asked.steps if step.path in files))
    near = [each for each in search(asked.text) if each not in own]
    if asked.kind == "boolean" and len(own) == 1:
        evidence = spans_of([asked.steps[0].quote], own, [0])
        yield answered("single_boolean", asked.text, own, evidence, asked.answers[0])
        for each in near[:1]:
            yield unanswered("single_near", asked.text, [each])
    if asked.kind == "unanswerable":
        for each in [*own[:1], *near[:1]]:
            yield unanswered("single_unanswerable", asked.text, [each], relevant=None)


def renamed(fact: Fact, names: Mapping[str, Sequence[str]], chance: random.Random) -> str | None:
    """The question of a fact about a look-alike of what it names, which its passage does not speak of; None without
    one. ``names``: by the word that asks for them, so that a person gives way to a person."""
    title, text = fact.passage
    words = set(normalise(f"{title} {text}").split())
    for alike in names.values():
        own = [name for name in alike if occurs(name, fact.question)]
        others = sorted(name for name in set(alike) if not words & set(normalise(name).split()))
        if own and others:
            return fact.question.replace(own[0], chance.choice(others))
    return None


def names_by_asking(facts: Iterable[Fact]) -> dict[str, list[str]]:
    """The names among the answers to questions that open with the same word."""
    found: dict[str, list[str]] = defaultdict(list)
    for fact in facts:
        if _NAME.fullmatch(fact.answer):
            found[fact.question.split(" ", 1)[0].lower()].append(fact.answer)
    return found


def main() -> None:
    """Write the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--replay", type=Path, nargs="+", required=True)
    parser.add_argument("--facts", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    made = list(documents(FOLDER, chance))
    others = [(everyday(FOLDER, chance), EVERYDAY), *((read(file), EARLIER) for file in given.replay)]
    if given.facts:
        others.append((of_facts(FOLDER, facts(), chance), given.facts))
    for examples, count in others:
        made += sampled([examples], count, chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
