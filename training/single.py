"""Examples over one passage at a time, as ``pocket`` reads parts of files: facts, their look-alikes and claims.

    python -m training.single DATA OUT --replay EXAMPLES [--seed N]

DATA: as of ``training.examples``. OUT: one JSON line an example. EXAMPLES: of ``training.examples``, a sample of which
is mixed in, as is one of ``training.everyday``, so that what was learnt before is kept. Domains that are held out are
not read, and questions of yes or no that people asked about everyday documents are left to measure on.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polyhop
from polyhop import Passage
from polyhop.common.text import normalise
from polyhop.lm.pocket.reading.descriptions import split
from polyhop.retrieval import open_plain_retriever
from polyhop.retrieval.index import index_for
from training.claims import SLOT, claim, kind_of, rivals
from training.data import Example, TitledText, lines, occurs, read, spans_of, write
from training.everyday import everyday, passage_of
from training.examples import held_out, pair, steps_of
from training.sets import FOLDER, HELD_OUT, DocumentSet, corpus_of, sets

READ = 5  # passages that BM25 finds, which are read one by one
NEAR = 1  # of them, without the answer, that a question is asked over
WHOLE = ("one", "table", "outdated", "lookalike")  # kinds of question that one fact answers
CLAIMED = {"squad_dev": 400, "qamr": 250, "squadshifts_new_wiki": 100}  # file: questions that claims are made of
MUSIQUE_CLAIMED, CONDAQA = 60, 700  # questions, and examples
EARLIER, EVERYDAY = 1200, 300  # examples of earlier stages
CLAIM_SHARE = 0.35  # share of everyday facts that claims are made of
OPEN_SHARE = 0.4  # share of claims that are asked over a passage which does not decide them, too


class Fact(NamedTuple):
    """A question that one passage answers, and the answer."""

    question: str
    answer: str
    passage: TitledText


Search = Callable[[str], Sequence[TitledText]]
"""Finds the passages that are read for a question."""


def documents(folder: Path, chance: random.Random) -> Iterator[Example]:
    """The facts of the sets of everyday documents, over the passages that are read for them."""
    for held in sets(folder):
        if held.domain in HELD_OUT:
            continue
        passages = list(corpus_of(held))
        engine = open_plain_retriever("bm25", index_for(polyhop.open_corpus(passages)))

        def search(question: str, engine: Any = engine) -> list[TitledText]:
            return [pair(passage) for passage in engine.search(question, READ)]

        facts = list(dict.fromkeys(facts_of(held, passages)))
        answers = by_asking((fact.question, fact.answer) for fact in facts)
        names = by_asking((fact.question, fact.answer) for fact in facts if kind_of(fact.answer) == "name")
        for fact in facts:
            near = [each for each in search(fact.question) if not _answers(fact.answer, each)]
            yield from _read(fact, near[:NEAR])
            if other := renamed(fact, names, chance):
                yield Example("single_renamed", other, [fact.passage], "none", [], 0, 0)
            if chance.random() < CLAIM_SHARE:
                yield from _claims("single_claim", fact, near, answers, chance)
        for asked in held.questions:
            if asked.kind == "unanswerable":
                for each in search(asked.text)[:NEAR]:
                    yield Example("single_unanswerable", asked.text, [each], "none", [], None, 0)


def facts_of(held: DocumentSet, passages: Sequence[Passage]) -> Iterator[Fact]:
    """The facts of a set: the steps that people wrote, whole questions of one step, and the two questions of a
    described thing, as ``pocket`` splits it."""
    files = {passage.metadata["source"] for passage in passages}
    for asked in held.questions:
        steps = [step for step in asked.steps if step.answer not in ("", "yes", "no")]
        if asked.kind in ("boolean", "unanswerable") or len(steps) < len(asked.steps) or not steps:
            continue
        if not files >= {step.path for step in steps}:
            continue
        own = [pair(passage_of(step, passages)) for step in steps]
        for step, passage in zip(steps, own, strict=True):
            if step.question:
                yield Fact(step.question, step.answer, passage)
        if asked.kind in WHOLE and len(steps) == 1:
            yield Fact(asked.text, steps[0].answer, own[0])
        if asked.kind == "bridge" and (parts := split(asked.text)):
            yield Fact(parts.inner, steps[0].answer, own[0])
            if len(steps) == 2:
                yield Fact(parts.about(steps[0].answer), steps[1].answer, own[1])


def _read(fact: Fact, near: Sequence[TitledText]) -> Iterator[Example]:
    spans = spans_of([fact.answer], [fact.passage], [0])
    if spans:
        yield Example("single", fact.question, [fact.passage], "span", spans, 1, 1)
    for other in near:
        yield Example("single_near", fact.question, [other], "none", [], 0, 0)


def _answers(answer: str, passage: TitledText) -> bool:
    return occurs(answer, passage[1]) or occurs(answer, passage[0])


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


def by_asking(facts: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The answers to questions that open with the same word."""
    found: dict[str, list[str]] = defaultdict(list)
    for question, answer in facts:
        found[_asks(question)].append(answer)
    return found


def _asks(question: str) -> str:
    return question.split(" ", 1)[0].lower()


def _claims(
    source: str, fact: Fact, near: Sequence[TitledText], answers: Mapping[str, Sequence[str]], chance: random.Random
) -> Iterator[Example]:
    """A true claim and a false one, and now and then one over a passage that does not decide it."""
    answer, text = fact.answer, fact.passage[1]
    spans = spans_of([answer], [fact.passage], [0])
    start = next((first for at, first, _ in spans if at == 0), None)
    before = (text[:start].split() or [""])[-1] if start is not None else ""
    made = claim(fact.question, before) if start is not None and len(answer.split()) <= 8 else None
    if made is None:
        return
    others = list(dict.fromkeys(answers[_asks(fact.question)]))
    inside = [other for other in others if occurs(other, text)]
    others = [*chance.sample(inside, len(inside)), *chance.sample(others, len(others))]
    wrong = [each for each in rivals(answer, text, others) if not occurs(each, fact.question)]
    wrong = [each for each in wrong if each not in answer]
    if not wrong:
        return
    alike = [each for each in wrong if each in others]  # who for who
    false = chance.choice((alike or wrong)[:3])
    yield Example(source, made.replace(SLOT, answer), [fact.passage], "yes", [], 1, 1)
    yield Example(source, made.replace(SLOT, false), [fact.passage], "no", [], 1, 1)
    if near and chance.random() < OPEN_SHARE:
        value = chance.choice([answer, false])
        yield Example(source, made.replace(SLOT, value), [near[0]], "none", [], 0, 0)


def encyclopedic(data: Path, chance: random.Random) -> Iterator[Example]:
    """Claims made of the questions of reading sets and of MuSiQue's steps."""
    for name, most in CLAIMED.items():
        rows = [row for row in lines(data / "reader" / f"{name}.jsonl.gz") if row["type"] == "span"]
        facts = [
            Fact(row["question"], row["answers"][0]["text"], (row.get("title") or "", row["context"])) for row in rows
        ]
        yield from _claimed(name, facts, most, chance)
    if (data / "musique" / "train.jsonl").exists():
        passages = {passage.id: passage for passage in polyhop.open_corpus(data / "musique" / "corpus.jsonl")}
        steps = [
            Fact(question, answer, pair(passages[pid]))
            for row in lines(data / "musique" / "train.jsonl")
            if not held_out(row["id"])
            for question, answer, pid in steps_of(row, passages)
        ]
        yield from _claimed("musique", steps, MUSIQUE_CLAIMED, chance)


def _claimed(name: str, facts: Sequence[Fact], most: int, chance: random.Random) -> Iterator[Example]:
    """The claims of some facts; passages of the same title are their look-alikes."""
    beside: dict[str, dict[TitledText, None]] = defaultdict(dict)
    asked: dict[TitledText, list[tuple[str, str]]] = defaultdict(list)
    for fact in facts:
        beside[fact.passage[0]][fact.passage] = None
        asked[fact.passage].append((fact.question, fact.answer))
    for fact in chance.sample(facts, min(most, len(facts))):
        near = [each for each in beside[fact.passage[0]] if not _answers(fact.answer, each)][:20]
        near = chance.sample(near, len(near))
        yield from _claims(f"{name}_claim", fact, near, by_asking(asked[fact.passage]), chance)


def contrasts(data: Path, chance: random.Random, most: int = CONDAQA) -> Iterator[Example]:
    """CondaQA's questions of yes or no, each over all edits of its passage, which decide it differently."""
    together = defaultdict(list)
    for row in lines(data / "reader" / "condaqa.jsonl.gz"):
        if row["type"] != "span":
            together[row["question"]].append(row)
    groups = [rows for rows in together.values() if len({row["type"] for row in rows}) > 1]
    count = 0
    for rows in chance.sample(groups, len(groups)):
        for row in rows:
            known = int(row["type"] != "none")
            yield Example("condaqa", row["question"], [("", row["context"])], row["type"], [], 1, known)
        count += len(rows)
        if count >= most:
            return


def main() -> None:
    """Write the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--replay", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    made = [*documents(FOLDER, chance), *encyclopedic(given.data, chance), *contrasts(given.data, chance)]
    before, own = list(read(given.replay)), list(everyday(FOLDER, chance))
    made += chance.sample(before, min(EARLIER, len(before))) + chance.sample(own, min(EVERYDAY, len(own)))
    chance.shuffle(made)
    write(made, given.out)
    counts = Counter(each.source for each in made)
    print(len(made), "examples:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
