"""Every format's reader on real files of it, whole and damaged."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path

import pytest

from polyhop.data.contexts import grounded_questions, unique_passages
from polyhop.data.questions import open_questions, read_questions
from polyhop.data.statistics import gold_in_corpus
from polyhop.errors import DataError
from tests.conftest import SHARED

pytestmark = pytest.mark.shared

FORMATS = SHARED / "formats"
SAMPLES = {
    "hotpotqa_official.json": ("hotpotqa", 60),
    "2wikimultihopqa_official.jsonl": ("2wiki", 60),
    "musique_official.json": ("musique", 60),
    "strategyqa_dev.json": ("strategyqa", 229),
    "bamboogle.csv": ("bamboogle", 125),
    "fever_dev.jsonl": ("fever", 300),
    "fever_with_evidence.jsonl": ("fever", 300),
    "zsre.json": ("zsre", 300),
    "trex.json": ("trex", 300),
}
KINDS = {"strategyqa": "boolean", "fever": "fact", "zsre": "slot", "trex": "slot"}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_recognised_and_read_completely(name: str) -> None:
    dataset = open_questions(FORMATS / name)
    questions = list(dataset)
    assert (dataset.format.name, len(questions)) == SAMPLES[name]
    assert {question.kind for question in questions} == {KINDS.get(dataset.format.name, "qa")}
    assert all(question.answers and question.text == question.text.strip() for question in questions)
    assert not any("[SEP]" in question.text for question in questions)


def test_gold_is_that_of_the_files() -> None:
    def by(name: str, field: str) -> Counter[str]:
        return Counter(str(question.metadata.get(field)) for question in read_questions(FORMATS / name))

    assert set(by("hotpotqa_official.json", "type")) == {"bridge", "comparison"}
    assert sum(by("2wikimultihopqa_official.jsonl", "type").values()) == 60
    two_wiki = read_questions(FORMATS / "2wikimultihopqa_official.jsonl")
    assert all(question.metadata["evidences"] for question in two_wiki)
    musique = read_questions(FORMATS / "musique_official.json")
    assert all(len(question.steps) == int(question.metadata["type"][0]) for question in musique)
    labels = Counter(question.answers[0] for question in read_questions(FORMATS / "fever_dev.jsonl"))
    assert labels == {"REFUTES": 115, "SUPPORTS": 99, "NOT ENOUGH INFO": 86}
    gold = [bool(question.gold_titles) for question in read_questions(FORMATS / "fever_dev.jsonl")]
    assert gold.count(False) == 86
    yes = Counter(question.answers[0] for question in read_questions(FORMATS / "strategyqa_dev.json"))
    assert set(yes) == {"yes", "no"}
    two = [question.answers for question in read_questions(FORMATS / "bamboogle.csv") if len(question.answers) > 1]
    assert two == [("Mildred Warner", "Mildred Gale")]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_truncated_sample_is_an_error_that_names_the_file(tmp_path: Path, name: str) -> None:
    content = (FORMATS / name).read_bytes()
    path = tmp_path / name
    for cut in (len(content) // 3, len(content) // 2, len(content) - 2):
        path.write_bytes(content[:cut].rstrip())
        try:
            read = len(read_questions(path))
        except DataError as error:
            assert str(error).startswith(str(path))  # noqa: PT017  # a cut between two lines is none
        else:
            assert read <= SAMPLES[name][1]
            assert not name.endswith(".json"), "an array without its end"


@pytest.mark.parametrize("name", SAMPLES)
def test_byte_order_mark_line_ends_and_compression_do_not_matter(tmp_path: Path, name: str) -> None:
    content = (FORMATS / name).read_bytes()
    expected = read_questions(FORMATS / name)
    crlf = content if name.endswith(".csv") else content.replace(b"\n", b"\r\n")  # cells hold line ends
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + crlf)
    assert read_questions(tmp_path / name) == expected
    (tmp_path / name).write_bytes(gzip.compress(content))
    assert read_questions(tmp_path / name) == expected


@pytest.mark.parametrize("name", [name for name in SAMPLES if not name.endswith(".csv")])
def test_a_doubled_sample_repeats_its_ids_or_keeps_counting(tmp_path: Path, name: str) -> None:
    content = (FORMATS / name).read_bytes().strip()
    join = content + b"\n" + content if name.endswith("l") else content[:-1] + b"," + content[1:]
    path = tmp_path / name
    path.write_bytes(join)
    count = SAMPLES[name][1]
    if SAMPLES[name][0] in ("zsre", "trex"):  # they have no ids
        assert len(read_questions(path)) == 2 * count
    else:
        with pytest.raises(DataError, match="duplicate id"):
            read_questions(path)
        assert len(read_questions(path, skip_bad=True)) == count


@pytest.mark.parametrize("name", ["hotpotqa_official.json", "2wikimultihopqa_official.jsonl", "musique_official.json"])
def test_contexts_hold_all_the_gold(name: str) -> None:
    dataset = open_questions(FORMATS / name)
    passages = list(unique_passages([dataset]))
    grounded = list(grounded_questions(dataset))
    found = gold_in_corpus(grounded, passages)
    assert (found.found, found.whole) == (found.passages, 60)
    assert all(question.gold_ids for question in grounded)
    assert len({passage.id for passage in passages}) == len(passages)
    texts = {passage.id: passage.text for passage in passages}
    sentences = {(p.id, p.title): len(p.metadata.get("sentences", ())) for p in passages}
    beyond = [
        title
        for question in grounded
        for title, number in question.supporting
        if not any(number < sentences.get((id, title), 0) for id in question.gold_ids)
    ]
    assert beyond in ([], ["Prince Hubertus of Hohenzollern"])  # 2Wiki's file numbers a sentence that is not there
    assert all(texts[step["pid"]] for question in grounded for step in question.steps)


def test_aliases_beside_the_real_file_are_gold_answers(tmp_path: Path) -> None:
    shutil.copy(FORMATS / "2wikimultihopqa_official.jsonl", tmp_path / "train.jsonl")
    (tmp_path / "id_aliases.json").write_text('{"Q_id": "Q20979359", "aliases": ["Prairie King"], "demonyms": []}\n')
    questions = read_questions(tmp_path / "train.jsonl")
    assert next(q for q in questions if q.answers[0] == "The Prairie King").answers == (
        "The Prairie King",
        "Prairie King",
    )
