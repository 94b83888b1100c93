"""Training examples from question sets and reading sets: a question over a row of passages, and what is true of it.

    python -m training.examples DATA OUT

DATA: see ``training/README.md``. Only ``train.jsonl`` of the question sets is read, never ``dev.jsonl``. OUT: one JSON
line an example, in an order that the seed decides.
"""

from __future__ import annotations

import argparse
import random
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polyhop
from polyhop import Passage
from polyhop.common.text import normalise
from polyhop.metrics import cover_em_token
from training.composing import composed
from training.data import AnswerSpan, Example, TitledText, answered, lines, spans_of, unanswered, write

SETS = ("hotpotqa", "2wikimultihopqa", "musique")
READING = {  # file: the most examples taken of it
    "squad_dev": 10000, "squadshifts_new_wiki": 5500, "nq_open_oracle": 2700, "qed_dev": 400, "qamr": 4000,
    "quoref_contrast": 1000, "ropes_contrast": 600, "drop_contrast": 400, "squad_paraphrase": 1200,
    "boolq_dev": 1600, "boolq_contrast": 400,
}  # fmt: skip
RELEVANCE = {"relevance_selqa": 1500}
ROUNDS = {"hotpotqa": 3, "2wikimultihopqa": 3, "musique": 8}
"""Examples per question over its gold passages, by set."""
NEGATIVES = 5  # paths a question that are not its gold ones


def reading(data: Path, chance: random.Random) -> Iterator[Example]:
    """Questions over one passage (or two, of HotpotQA), and the same questions over a passage that cannot answer."""
    for name, limit in READING.items():
        rows = lines(data / "reader" / f"{name}.jsonl.gz")
        rows = [row for row in rows if not row.get("start_inferred") or name != "ropes_contrast"]
        by_title = defaultdict(list)
        for row in rows:
            by_title[row.get("title") or row["id"]].append(row)
        for row in chance.sample(rows, min(limit, len(rows))):
            passages = [(row.get("title") or "", row["context"])]
            spans = [(0, a["start"], a["start"] + len(a["text"])) for a in row["answers"]]
            known = int(row["type"] != "none")
            yield Example(name, row["question"], passages, kind=row["type"], spans=spans, relevant=known, enough=known)
            others = [other for other in by_title[row.get("title") or ""] if other["context"] != row["context"]]
            if others and known and chance.random() < 0.15:
                other = chance.choice(others)
                if not any(cover_em_token(other["context"], [a["text"]]) for a in row["answers"]):
                    yield unanswered(name, row["question"], [(other["title"], other["context"])])


def relevance(data: Path, chance: random.Random) -> Iterator[Example]:
    """Sentences that answer a question, and three times as many for the same question that do not."""
    for name, limit in RELEVANCE.items():
        groups = defaultdict(list)
        for row in lines(data / "reader" / f"{name}.jsonl.gz"):
            groups[row["question"]].append(row)
        taken = 0
        for question in chance.sample(sorted(groups), len(groups)):
            right = [row for row in groups[question] if row["label"]]
            wrong = [row for row in groups[question] if not row["label"]]
            for row in [*right[:2], *chance.sample(wrong, min(3 * len(right[:2]), len(wrong)))]:
                taken += 1
                label = row["label"]
                yield Example(name, question, [(row["title"], row["passage"])], relevant=label, enough=label)
            if taken > limit:
                break


def hotpot_extra(data: Path, chance: random.Random) -> Iterator[Example]:
    """HotpotQA questions that come with their two gold paragraphs, and real distractors."""
    wrong = defaultdict(list)
    for row in lines(data / "reader" / "relevance_hotpot_dev_extra.jsonl.gz"):
        if not row["label"]:
            wrong[row["question"]].append((row["title"], row["passage"]))
    for row in lines(data / "reader" / "hotpot_dev_extra.jsonl.gz"):
        titles, gold = row["title"].split(" | "), []
        for title, paragraph in zip(titles, row["context"].split("\n"), strict=False):
            gold.append((title, paragraph.removeprefix(f"{title}: ")))
        answers = [answer["text"] for answer in row["answers"]]
        others, rounds = wrong[row["question"]], ROUNDS["hotpotqa"]
        yield from questions_over(
            "hotpot_extra", row["question"], answers or [row["type"]], gold, others, rounds, chance
        )


def questions_over(
    source: str, question: str, answers: Sequence[str], gold: Sequence[TitledText],
    wrong: Sequence[TitledText], rounds: int, chance: random.Random, bridges: Sequence[str] = (),
) -> Iterator[Example]:  # fmt: skip
    """A multi-hop question over its gold passages, over part of them, and over paths that leave the chain."""
    plain = normalise(answers[0])
    kind = plain if plain in ("yes", "no") else "span"
    for round_ in range(rounds):
        passages = list(gold)
        if round_:
            chance.shuffle(passages)
        if round_ and wrong and len(gold) < 3 and chance.random() < 0.6:  # one more that is not needed
            passages.insert(chance.randrange(len(passages) + 1), chance.choice(wrong))
        own = [at for at, each in enumerate(passages) if each in gold]
        spans = spans_of(answers, passages, own) if kind == "span" else []
        if kind == "span" and not spans:
            break
        only_gold = int(len(passages) == len(gold))
        yield Example(source, question, passages, kind=kind, spans=spans, relevant=only_gold, enough=1)
    for size in range(1, len(gold)):  # parts of the chain: on the way, not enough
        parts = [list(gold[at : at + size]) for at in range(len(gold) - size + 1)]
        for part in parts[:2] if size > 1 else parts[:3]:
            spans = onward(answers, bridges, gold, part)
            yield Example(source, question, part, spans=spans, relevant=1, enough=0)
    for number in range(min(NEGATIVES, 2 * len(wrong))):
        other = wrong[number % len(wrong)]
        alone = number < len(wrong) and number % 2 == 0
        path = [other] if alone else [chance.choice(list(gold)), other]
        spans = spans_of(answers, path, range(len(path))) if kind == "span" else []
        kind_there = "none" if kind == "span" and not spans else None
        yield Example(source, question, path, kind=kind_there, relevant=0, enough=0)


def onward(
    answers: Sequence[str], bridges: Sequence[str], gold: Sequence[TitledText], part: Sequence[TitledText]
) -> list[AnswerSpan]:
    """Return the target for a part of the chain: the answer if it is there, else the name that leads on."""
    if found := spans_of(answers, part, range(len(part))):
        return found
    titles = [re.sub(r" \(.*\)$", "", title) for title, text in gold if (title, text) not in part]
    held = " ".join(title for title, _ in part).lower()
    names = [name for name in (*titles, *bridges) if name.lower() not in held and len(name) > 2]
    return [span for span in spans_of(names, part, range(len(part))) if span[0] >= 0]


def held_out(question_id: str) -> bool:
    """Return True for held-out questions: one in eight, on which thresholds and weights are chosen."""
    return zlib.crc32(question_id.encode()) % 8 == 0


def multi_hop(data: Path, name: str, chance: random.Random) -> Iterator[Example]:
    """The questions of a set's train split over gold passages and over the paths that ``hops`` finds."""
    passages = {p.id: p for p in polyhop.open_corpus(data / name / "corpus.jsonl")}
    found = searched(data, name)
    for row in lines(data / name / "train.jsonl"):
        if held_out(row["id"]):
            continue
        gold = [pair(passages[pid]) for pid in gold_row(row)]
        hits = [pid for pid in found[row["id"]] if pid not in row["gold_pids"]]
        context = [pid for pid in row["context_pids"] if pid not in row["gold_pids"]]
        others = dict.fromkeys([*hits[:8], *chance.sample(context, min(2, len(context)))])
        wrong = [pair(passages[pid]) for pid in others]
        chance.shuffle(wrong)
        bridges = [value for _, _, value in row.get("evidences") or []]
        bridges += [step["answer"] for step in row.get("decomposition") or []]
        yield from questions_over(name, row["question"], row["answers"], gold, wrong, ROUNDS[name], chance, bridges)
        for question, answer, pid in steps_of(row, passages):
            one = [pair(passages[pid])]
            spans = spans_of([answer], one, [0])
            if spans:
                yield answered(f"{name}_step", question, one, spans)
                if wrong and not spans_of([answer], [wrong[0]], [0]):
                    yield unanswered(f"{name}_step", question, [wrong[0]])


def gold_row(row: Mapping[str, Any]) -> list[str]:
    """The gold passages, in the order of the hops if it is known."""
    order = [step["pid"] for step in row.get("decomposition") or []]
    named = list(zip(row["gold_titles"], row["gold_pids"], strict=False))
    order += [pid for subject, *_ in row.get("evidences") or [] for title, pid in named if title == subject]
    return list(dict.fromkeys([pid for pid in order if pid in row["gold_pids"]] + list(row["gold_pids"])))


def steps_of(row: Mapping[str, Any], passages: Mapping[str, Passage]) -> Iterator[tuple[str, str, str]]:
    """The single-hop questions of a question, with answer and passage."""
    found: list[str] = []
    for step in row.get("decomposition") or []:
        question = step["question"]
        for number, answer in enumerate(found, 1):
            question = question.replace(f"#{number}", answer)
        found.append(step["answer"])
        if ">>" in question:  # "Green >> performer", as the set writes a relation
            subject, relation = (part.strip() for part in question.split(">>", 1))
            question = f"What is the {relation} of {subject}?"
        yield question, step["answer"], step["pid"]
    by_title = dict(zip(row["gold_titles"], row["gold_pids"], strict=False))
    for subject, relation, value in row.get("evidences") or []:
        if subject in by_title:
            yield f"What is the {relation} of {subject}?", value, by_title[subject]
    for asked, (subject, _, value) in zip(row.get("gpt_sub_qa") or [], row.get("evidences") or [], strict=False):
        if subject in by_title and value.lower() in asked["answer"].lower():
            yield asked["question"], value, by_title[subject]


def searched(data: Path, name: str) -> dict[str, list[str]]:
    """The first paths of ``hops`` for every train question, which a path scorer must distinguish from gold ones."""
    found: dict[str, list[str]] = {}
    # By the linear model alone, so that the examples do not hang on the network that stands.
    with polyhop.Pipeline(data / name / "corpus.jsonl", "hops", "pocket", scorer="reasons", k=1) as pipeline:
        for row in lines(data / name / "train.jsonl"):
            found[row["id"]] = [passage.id for passage in pipeline.ask(row["question"]).passages[:16]]
    return found


def there(data: Path) -> list[str]:
    """The question sets in the data."""
    return [name for name in SETS if (data / name / "train.jsonl").exists()]


def pair(passage: Passage) -> TitledText:
    """A passage in the form of an example."""
    return passage.title, passage.text


def examples(data: Path, seed: int = 0) -> list[Example]:
    """All examples, shuffled."""
    chance = random.Random(seed)
    made = [*reading(data, chance), *relevance(data, chance), *hotpot_extra(data, chance)]
    for name in there(data):
        made += multi_hop(data, name, chance)
    made += composed(data, chance)
    chance.shuffle(made)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="which sample, in which order")
    given = parser.parse_args()
    made = examples(given.data, given.seed)
    write(made, given.out)
    counts = Counter(each.source for each in made)
    print(len(made), "examples:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
