"""BEIR folders and DPR's tab-separated files, as datasets and as corpora."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from polyhop.data.beir import read_qrels
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import open_questions, read_questions
from polyhop.errors import DataError, UsageError
from tests.data.test_formats import lines


def folder(tmp_path: Path, *splits: str) -> Path:
    (tmp_path / "qrels").mkdir()
    lines(
        tmp_path / "queries.jsonl",
        {"_id": "1", "text": "Who wrote Emma?", "metadata": {"answer": "Jane Austen"}},
        {"_id": "2", "text": "Unjudged?"},
        {"_id": "3", "text": "Where is Oslo?", "metadata": {}},
    )
    lines(tmp_path / "corpus.jsonl", {"_id": "a", "title": "Emma", "text": "Emma is a novel."})
    for split in splits:
        (tmp_path / "qrels" / f"{split}.tsv").write_text(
            "query-id\tcorpus-id\tscore\n1\ta\t1\n1\tb\t2\n1\tc\t0\n3\tz\t1\n"
        )
    return tmp_path


def test_a_folder_is_its_judged_queries(tmp_path: Path) -> None:
    dataset = open_questions(folder(tmp_path, "dev", "test"))
    assert dataset.format.name == "beir"
    first, second = dataset
    assert (first.id, first.answers, first.gold_ids) == ("1", ("Jane Austen",), ("b", "a"))
    assert (second.id, second.answers, second.gold_ids) == ("3", (), ("z",))
    assert [p.id for p in open_corpus(tmp_path)] == ["a"]


def test_a_file_of_judgements_names_the_split(tmp_path: Path) -> None:
    path = folder(tmp_path, "dev", "train")
    with pytest.raises(UsageError, match=r"has several splits: name one of .*dev\.tsv, .*train\.tsv"):
        read_questions(path)
    (path / "qrels" / "dev.tsv").write_text("3 0 z 1\n")  # TREC's columns
    assert [(q.id, q.gold_ids) for q in read_questions(path / "qrels" / "dev.tsv")] == [("3", ("z",))]


def test_malformed_judgements_and_queries_are_named(tmp_path: Path) -> None:
    path = folder(tmp_path)
    with pytest.raises(DataError, match=r"no judgements: it has no qrels/\*\.tsv"):
        read_questions(path)
    qrels = path / "qrels" / "test.tsv"
    for text in ("1\ta\n", "1\ta\tmany\n", "1 0 a 1 more\n"):
        qrels.write_text("query-id\tcorpus-id\tscore\n" + text)
        with pytest.raises(DataError, match=r"test\.tsv:2: not a judgement"):
            read_questions(path)
    qrels.write_text("1\ta\t1\n")
    lines(path / "queries.jsonl", {"_id": "1", "text": 3})
    with pytest.raises(DataError, match=r"queries\.jsonl:1: 'text' is a number"):
        read_questions(path)
    qrels.write_bytes(gzip.compress(b"1\ta\t1\n" * 999)[:-9])
    with pytest.raises(DataError, match="damaged or unreadable"):
        read_qrels(qrels)


def test_dpr_questions(tmp_path: Path) -> None:
    path = tmp_path / "nq-test.qas.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream, delimiter="\t").writerows(
            [["who wrote emma", "['Jane Austen', \"Miss Austen's\"]"], ["when was it", '["1815"]']]
        )
    dataset = open_questions(path)
    assert dataset.format.name == "dpr"
    assert [(q.id, q.answers) for q in dataset] == [("q1", ("Jane Austen", "Miss Austen's")), ("q2", ("1815",))]
    path.write_text("who wrote emma\t['Jane Austen']\nwhen was it\t['18\nand then\t[print(1)]\nso\t{'a': 1}\n")
    faults = [str(record.question) for record in open_questions(path, skip_bad=True).records()]
    assert "row 2: the answers are \"['18\", expected a list such as ['a', 'b']" in faults[1]
    assert "row 3: the answers are '[print(1)]'" in faults[2]
    assert "row 4: 'answers' is an object" in faults[3]


def test_dpr_passages(tmp_path: Path) -> None:
    path = tmp_path / "psgs_w100.tsv"
    path.write_text('id\ttext\ttitle\n1\t"""Emma"" is a novel."\tEmma\n2\tOslo is a city.\tOslo\n3\n')
    corpus = open_corpus(path, skip_bad=True)
    assert [(p.id, p.title, p.text) for p in corpus] == [
        ("1", "Emma", '"Emma" is a novel.'),
        ("2", "Oslo", "Oslo is a city."),
    ]
    assert corpus.skipped == 1
    with pytest.raises(DataError, match=r"psgs_w100\.tsv.*4.*missing field one of 'text', 'contents'"):
        list(open_corpus(path))
