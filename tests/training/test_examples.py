"""From data to examples: nothing but train is read, spans are the answers, what is held out stays out."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from training.composing import composed, description
from training.data import Example, occurrences, read, spans_of, write
from training.examples import examples, gold_row, held_out, onward, steps_of

from tests.kit.training_data import BORN, BOTH, HELD, OLDER, PAGES, SETS, written


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("recipe") / "data")


@pytest.fixture(scope="module")
def made(data: Path) -> list[Example]:
    """Examples of the whole folder; that ``dev.jsonl`` is not opened shows by no error, for it is a folder."""
    return examples(data)


def named(example: Example) -> list[str]:
    return [title for title, _ in example.passages]


def texts(example: Example) -> set[str]:
    """The words that the spans mark."""
    return {
        example.passages[at][1][start:end] if at >= 0 else example.passages[-1 - at][0][start:end]
        for at, start, end in example.spans
    }


def test_opening_a_dev_file_would_be_noticed(data: Path) -> None:
    for name in SETS:
        with pytest.raises(IsADirectoryError):
            (data / name / "dev.jsonl").read_bytes()


def test_every_source_gives_examples(made: list[Example]) -> None:
    assert {example.source for example in made} == {
        "hotpotqa", "2wikimultihopqa", "2wikimultihopqa_step", "musique", "musique_step", "squad_dev", "boolq_dev",
        "relevance_selqa", "hotpot_extra", "composed",
    }  # fmt: skip


def test_what_is_held_out_is_in_no_question(made: list[Example]) -> None:
    held = [row["id"] for rows in SETS.values() for row in rows if held_out(row["id"])]
    assert len(held) == 1
    assert HELD not in {example.question for example in made}
    assert sum(held_out(str(number)) for number in range(8000)) == pytest.approx(1000, abs=100)


def test_spans_mark_the_answer_and_nothing_else(made: list[Example]) -> None:
    answers = {
        BORN: "Elstow",
        OLDER: "Red Barn",
        "Who directed Dark Mill?": "Ann Lee",
        "Where was Ann Lee born?": "Elstow",
    }
    for asked, answer in answers.items():
        whole = [example for example in made if example.question == asked and example.kind == "span"]
        assert whole
        assert all(texts(example) == {answer} for example in whole), asked
    for example in made:
        assert all(0 <= start < end for _, start, end in example.spans)
        assert bool(example.spans) or example.kind != "span"


def test_gold_passages_are_sufficient_and_only_together(made: list[Example]) -> None:
    about_it = [example for example in made if example.question == BORN]
    gold = {"Dark Mill", "Ann Lee"}
    for example in about_it:
        if gold <= set(named(example)):
            assert (example.kind, example.enough, example.relevant) == ("span", 1, int(len(example.passages) == 2))
        elif set(named(example)) <= gold:
            assert (example.kind, example.enough, example.relevant) == (None, 0, 1)
        else:
            assert (example.enough, example.relevant, example.spans) == (0, 0, [])
    kinds = {(example.relevant, example.enough) for example in about_it}
    assert kinds >= {(1, 1), (1, 0), (0, 0)}
    assert {example.kind for example in made if example.question == BOTH and example.enough} == {"yes"}


def test_part_of_a_chain_leads_on_by_the_next_name() -> None:
    gold = [("Dark Mill", PAGES["Dark Mill"]), ("Ann Lee", PAGES["Ann Lee"])]
    (span,) = onward(["Elstow"], [], gold, gold[:1])
    assert PAGES["Dark Mill"][span[1] : span[2]] == "Ann Lee"
    (span,) = onward(["Elstow"], [], gold, gold[1:])
    assert PAGES["Ann Lee"][span[1] : span[2]] == "Elstow"


def test_steps_and_the_order_of_hops() -> None:
    (row,) = SETS["musique"]
    assert [asked for asked, _, _ in steps_of(row, {})] == [
        "What is the director of Dark Mill?", "Where was Ann Lee born?", "In which county is Elstow ?",
    ]  # fmt: skip
    assert gold_row(row) == ["p0", "p1", "p4"]
    (row,) = SETS["2wikimultihopqa"]
    assert gold_row(row) == ["p2", "p0"]
    assert ("When did Red Barn come out?", "1925", "p2") in list(steps_of(row, {}))


def test_composed_questions_put_a_description_for_a_name(made: list[Example], data: Path) -> None:
    answerable = [example for example in composed(data, random.Random(0)) if example.enough]
    assert [example.question for example in answerable] == ["In which year was the person who directed Dark Mill born?"]
    assert {*named(answerable[0])} == {"Dark Mill", "Ann Lee"}
    assert texts(answerable[0]) == {"1899"}
    assert answerable[0].question in {example.question for example in made if example.source == "composed"}


def test_some_composed_questions_have_an_irrelevant_passage(data: Path, tmp_path: Path) -> None:
    (tmp_path / "reader").mkdir()
    rows = [
        json.loads(line) for line in gzip.decompress((data / "reader" / "squad_dev.jsonl.gz").read_bytes()).splitlines()
    ]
    other = {**rows[0], "question": "Of what?", "title": "Ann Lee", "context": "Ann Lee is spoken of."}
    other |= {"answers": [{"text": "spoken", "start": 11}]}
    packed = gzip.compress("\n".join(map(json.dumps, [*rows, other])).encode())
    (tmp_path / "reader" / "squad_dev.jsonl.gz").write_bytes(packed)
    seen = set()
    for seed in range(20):
        for example in composed(tmp_path, random.Random(seed)):
            if example.enough:
                assert texts(example) == {"1899"}
                assert example.relevant == int(len(example.passages) == 2)
                seen.add((len(example.passages), named(example)[0]))
    assert {length for length, _ in seen} == {2, 3}
    assert {title for _, title in seen} == {"Dark Mill", "Ann Lee"}


@pytest.mark.parametrize(
    ("asked", "described"),
    [
        ("Who wrote the play Hamlet?", "the person who wrote the play Hamlet"),
        ("What is the capital of Norway?", "the capital of Norway"),
        ("Which river flows through Vienna?", "the river that flows through Vienna"),
        ("Who did Ann marry?", None),
        ("When was Ann born?", None),
        ("What did they say about it?", None),
    ],
)
def test_a_question_as_a_description(asked: str, described: str | None) -> None:
    assert description(asked) == described


def test_occurrences_are_whole_words_of_any_case() -> None:
    assert list(occurrences("ann", "Ann met Hannah and ANN.")) == [(0, 3), (19, 22)]
    assert list(occurrences("U.S.", "The U.S. and USA")) == [(4, 8)]
    assert list(occurrences(" ", "a b")) == []
    assert spans_of(["Ann"], [("Ann", "no"), ("x", "Ann")], [0, 1]) == [(-1, 0, 3), (1, 0, 3)]
    assert spans_of(["Ann"], [("Ann", "Ann")], []) == []


def test_the_same_data_gives_the_same_examples_and_a_file_gives_them_back(
    made: list[Example], data: Path, tmp_path: Path
) -> None:
    assert examples(data) == made
    assert examples(data, seed=1) != made
    write(made, tmp_path / "new" / "examples.jsonl")
    back = list(read(tmp_path / "new" / "examples.jsonl"))
    assert [example.question for example in back] == [example.question for example in made]
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["examples.jsonl"]


def test_what_is_absent_is_left_out(tmp_path: Path) -> None:
    assert examples(tmp_path) == []
