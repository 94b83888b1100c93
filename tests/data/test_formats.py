"""Every format of questions is recognised by its rows and read with its gold; every fault is located."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from polyhop.data.contexts import questions_with_contexts
from polyhop.data.questions import FORMATS, open_questions, read_questions
from polyhop.errors import DataError, UnknownName
from polyhop.evaluation.tuning.readers import steps_of
from polyhop.metrics import score_passages
from polyhop.types import Passage, Question

HOTPOTQA = {
    "_id": "5a8b",
    "question": "Where was the author of Emma born? ",
    "answer": "Steventon",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Emma (novel)", 0], ["Jane Austen", 1], ["Emma (novel)", 2]],
    "context": [["Emma (novel)", ["Emma is a novel.", " It is by Jane Austen."]], ["Oslo", ["Oslo is a city."]]],
}
TWO_WIKI = {
    **HOTPOTQA,
    "type": "compositional",
    "answer_id": "Q1",
    "evidences": [["Emma", "author", "Jane Austen"], ["Jane Austen", "place of birth", "Steventon"]],
    "evidences_id": [["Q7", "author", "Q8"], ["Q8", "place of birth", "Q1"]],
}
MUSIQUE = {
    "id": "2hop__1_2",
    "question": "Where was the author of Emma born?",
    "answer": "Steventon",
    "answer_aliases": ["Steventon, Hampshire"],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Oslo", "paragraph_text": "Oslo is a city.", "is_supporting": False},
        {"idx": 1, "title": "Jane Austen", "paragraph_text": "She was born in Steventon.", "is_supporting": True},
        {"idx": 2, "title": "Emma", "paragraph_text": "Emma is by Jane Austen.", "is_supporting": True},
    ],
    "question_decomposition": [
        {"id": 1, "question": "Who wrote Emma?", "answer": "Jane Austen", "paragraph_support_idx": 2},
        {"id": 2, "question": "Where was #1 born?", "answer": "Steventon", "paragraph_support_idx": 1},
    ],
}
STRATEGYQA = {
    "qid": "e004",
    "term": "Mount Fuji",
    "question": "Would Mount Fuji stick out of the Sea of Japan?",
    "answer": True,
    "facts": ["The sea is at most 3,742 metres deep."],
    "decomposition": ["How tall is Mount Fuji?", "How deep is the Sea of Japan?", "Is #1 greater than #2?"],
    "evidence": [
        [["no_evidence"], ["operation"]],
        [[["Mount Fuji-18", "Sea of Japan-15"]], ["operation"]],
        [[["Yeah! (song)-1"]], [["Non-stop-2"], "no_evidence"]],
    ],
}
FEVER = {
    "id": 54168,
    "verifiable": "VERIFIABLE",
    "label": "REFUTES",
    "claim": "Annie came out in 2013.",
    "evidence": [[[1, 2, "Annie_-LRB-2014_film-RRB-", 5], [1, 2, "Annie", 0]], [[3, 4, "Annie", 1]]],
}
ZSRE = {
    "input": "Mapo Bridge [SEP] crosses",
    "template_questions": ["What river does Mapo Bridge cross?"],
    "answer": "Han River",
    "relation": "crosses",
    "alias": ["Han River", "Hangang"],
}
TREX = {
    "input": "Public Speaking [SEP] genre",
    "wikipedia_title": "Public Speaking (film)",
    "answer": "documentary film",
    "alias": ["documentary film", "documentary"],
}
PAGES = [{"wikipedia_id": "1", "title": "Emma"}, {"wikipedia_id": "2", "title": "Jane Austen"}]
KILT = {
    "id": "k1",
    "input": "Where was the author of Emma born?",
    "output": [
        {"answer": "Steventon", "provenance": PAGES},
        {"answer": "Steventon, Hampshire"},
        {"provenance": [{"wikipedia_id": "3", "title": "Steventon"}]},
    ],
    "meta": {},
}
ELI5 = {"q_id": "5l", "title": "Why is the sky blue?", "selftext": "", "answers": {"text": ["Because …", "It …"]}}
MOREHOPQA = {
    "_id": "m_1",
    "question": "How many letters has the first name of the author of Emma?",
    "answer": "4",
    "previous_question": "Who is the author of Emma?",
    "previous_answer": "Jane Austen",
    "question_decomposition": [
        {
            "sub_id": "1",
            "question": "Who wrote Emma?",
            "answer": "Jane Austen",
            "paragraph_support_title": "Emma (novel)",
        },
        {
            "sub_id": "2",
            "question": "How many letters has the first name of Jane Austen?",
            "answer": "4",
            "paragraph_support_title": "",
            "details": [
                {
                    "sub_id": "2_1",
                    "question": "What is her first name?",
                    "answer": "Jane",
                    "paragraph_support_title": "",
                }
            ],
        },
    ],
    "context": [["Emma (novel)", ["Emma is a novel.", " It is by Jane Austen."]]],
    "answer_type": "number",
    "no_of_hops": 2,
    "reasoning_type": "Symbolic, Arithmetic",
}
HIPPORAG = {
    "question": "Where was the author of Emma born?",
    "answer": "Steventon",
    "paragraphs": [
        {"title": "Emma", "paragraph_text": "Emma is by Jane Austen.", "is_supporting": True},
        {"title": "Jane Austen", "paragraph_text": "She was born in Steventon.", "is_supporting": True},
        {"title": "Oslo", "paragraph_text": "Oslo is a city.", "is_supporting": False},
    ],
}
MULTIHOP_RAG = {
    "query": "Do both reports say that the canal reopened?",
    "answer": "Yes",
    "question_type": "comparison_query",
    "evidence_list": [
        {"title": "Canal open again", "author": "A. Dahl", "url": "https://example.org/1", "fact": "It reopened."},
        {"title": "Ships return", "author": "B. Moe", "url": "https://example.org/2", "fact": "It is open."},
    ],
}
FRAMES = {
    "Unnamed: 0": 4,
    "Prompt": "Where was the author of Emma born?",
    "Answer": "Steventon",
    "wikipedia_link_1": "https://en.wikipedia.org/wiki/Emma_(novel)",
    "wikipedia_link_2": "https://en.wikipedia.org/wiki/Jane_Austen#Family",
    "wikipedia_link_11+": None,
    "reasoning_types": "Multiple constraints",
    "wiki_links": "['https://en.wikipedia.org/wiki/Emma_(novel)', 'https://en.wikipedia.org/wiki/Jane_Austen']",
}
BROWSECOMP_PLUS = {
    "query_id": "769",
    "query": "In which village was the author of a novel about a matchmaker born?",
    "answer": "Steventon",
    "gold_docs": [{"docid": "20", "text": "She was born in Steventon.", "url": "https://example.org/20"}],
    "evidence_docs": [
        {"docid": "10", "text": "Emma is by Jane Austen.", "url": "https://example.org/10"},
        {"docid": "20", "text": "She was born in Steventon.", "url": "https://example.org/20"},
    ],
    "negative_docs": [{"docid": "30", "text": "Oslo is a city.", "url": "https://example.org/30"}],
}
GRAPHRAG_BENCH = {
    "id": "Novel-1",
    "source": "Novel-30752",
    "question": "Who gives away the bride?",
    "answer": "Her brother gives her away.",
    "question_type": "Fact Retrieval",
    "evidence": ["Her brother led her to the altar."],
    "evidence_relations": "The brother leads the bride.",
}
SQUAD = {
    "id": "56be",
    "title": "Emma (novel)",
    "context": "Emma is a novel by Jane Austen.",
    "question": "Who wrote Emma?",
    "answers": {"text": ["Jane Austen", "Austen", "Austen"], "answer_start": [19, 24, 24]},
}
FLASHRAG = {"id": "dev_0", "question": "Who wrote Emma?", "golden_answers": ["Jane Austen"], "metadata": {"type": "x"}}

ROWS: Mapping[str, Mapping[str, Any]] = {
    "hotpotqa": HOTPOTQA,
    "2wiki": TWO_WIKI,
    "musique": MUSIQUE,
    "strategyqa": STRATEGYQA,
    "squad": SQUAD,
    "fever": FEVER,
    "zsre": ZSRE,
    "trex": TREX,
    "kilt": KILT,
    "eli5": ELI5,
    "morehopqa": MOREHOPQA,
    "hipporag": HIPPORAG,
    "multihop-rag": MULTIHOP_RAG,
    "frames": FRAMES,
    "browsecomp-plus": BROWSECOMP_PLUS,
    "graphrag-bench": GRAPHRAG_BENCH,
    "flashrag": FLASHRAG,
    "jsonl": {"question": "Who wrote Emma?", "answer": "Jane Austen"},
}


def lines(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def array(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    return path


def table(path: Path, *rows: Sequence[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    return path


def one(tmp_path: Path, row: Mapping[str, Any], format: str | None = None) -> Question:
    (question,) = read_questions(lines(tmp_path / "one.jsonl", row), format=format)
    return question


@pytest.mark.parametrize("name", ROWS)
def test_a_format_is_recognised_by_its_rows_as_lines_and_as_an_array(tmp_path: Path, name: str) -> None:
    for path in (lines(tmp_path / "d.jsonl", ROWS[name]), array(tmp_path / "d.json", ROWS[name])):
        dataset = open_questions(path)
        assert (dataset.format.name, len(list(dataset))) == (name, 1)
        assert dataset.reason.startswith("JSON array; " if path.suffix == ".json" else "JSON lines; ")


def test_every_format_is_tested_here_or_is_a_table() -> None:
    assert set(ROWS) | {"csv", "bamboogle", "dpr", "beir"} == set(FORMATS)


def test_a_format_can_be_forced_and_a_wrong_name_lists_them(tmp_path: Path) -> None:
    path = lines(tmp_path / "d.jsonl", HOTPOTQA)
    dataset = open_questions(path, format="jsonl")
    assert (dataset.format.name, dataset.reason, next(iter(dataset)).text) == (
        "jsonl",
        "as specified",
        HOTPOTQA["question"][:-1],
    )
    with pytest.raises(UnknownName, match="unknown format of questions 'hotpot'; did you mean 'hotpotqa'"):
        open_questions(path, format="hotpot")
    with pytest.raises(DataError, match=r"d\.jsonl:1: missing field 'input'; has '_id', 'question'"):
        read_questions(path, format="kilt")


def test_hotpotqa(tmp_path: Path) -> None:
    question = one(tmp_path, HOTPOTQA)
    assert question == Question(
        id="5a8b",
        text="Where was the author of Emma born?",
        answers=("Steventon",),
        gold_titles=("Emma (novel)", "Jane Austen"),
        supporting=(("Emma (novel)", 0), ("Jane Austen", 1), ("Emma (novel)", 2)),
        metadata={"type": "bridge", "level": "hard"},
    )
    unlabelled = one(tmp_path, {name: HOTPOTQA[name] for name in ("_id", "question", "context")})
    assert (unlabelled.answers, unlabelled.gold_titles, unlabelled.metadata) == ((), (), {})


def test_hotpotqa_as_the_hub_has_it(tmp_path: Path) -> None:
    row = {
        "id": "5a8b",
        "question": "Who?",
        "answer": "yes",
        "supporting_facts": {"title": ["Emma", "Oslo"], "sent_id": [0, 3]},
        "context": {"title": ["Emma", "Oslo"], "sentences": [["Emma is a novel."], ["Oslo is a city."]]},
    }
    question = one(tmp_path, row)
    assert (question.supporting, question.kind) == ((("Emma", 0), ("Oslo", 3)), "qa")


def test_2wiki_and_its_aliases(tmp_path: Path) -> None:
    path = array(tmp_path / "dev.json", TWO_WIKI)
    (alone,) = read_questions(path)
    assert alone.answers == ("Steventon",)
    assert alone.metadata == {"type": "compositional", "level": "hard", "evidences": TWO_WIKI["evidences"]}
    lines(
        tmp_path / "id_aliases.json",
        {"Q_id": "Q1", "aliases": ["Steventon, Hampshire"], "demonyms": ["Steventon"]},
        {"Q_id": "Q8", "aliases": ["Miss Austen"], "demonyms": []},
        {"Q_id": "Q9", "aliases": ["someone else"], "demonyms": []},
    )
    dataset = open_questions(path)
    (question,) = dataset
    assert "answer aliases from id_aliases.json beside it" in dataset.reason
    assert question.answers == ("Steventon", "Steventon, Hampshire")
    assert question.metadata["entity_aliases"] == {
        "Jane Austen": ["Miss Austen"],
        "Steventon": ["Steventon, Hampshire", "Steventon"],
    }
    (tmp_path / "id_aliases.json").write_text('{"Q_id": "Q1", "aliases": 3}\n')
    with pytest.raises(DataError, match=r"id_aliases\.json:1: 'aliases' is a number"):
        read_questions(path)


def test_musique_steps_are_questions(tmp_path: Path) -> None:
    question = one(tmp_path, MUSIQUE)
    assert question.answers == ("Steventon", "Steventon, Hampshire")
    assert question.gold_titles == ("Emma", "Jane Austen")  # in the order of the hops
    assert question.metadata == {"type": "2hop", "answerable": True, "pair": "2hop__1_2"}
    assert [step["title"] for step in question.steps] == ["Emma", "Jane Austen"]
    assert [step.text for step in steps_of(question)] == ["Who wrote Emma?", "Where was Jane Austen born?"]


def test_musique_full_has_each_question_twice(tmp_path: Path) -> None:
    steps = [{**step, "paragraph_support_idx": None} for step in MUSIQUE["question_decomposition"]]  # type: ignore[attr-defined]
    twin = {**MUSIQUE, "answerable": False, "paragraphs": [], "question_decomposition": steps}
    answerable, unanswerable = read_questions(lines(tmp_path / "full.jsonl", MUSIQUE, twin))
    assert answerable.metadata["pair"] == unanswerable.metadata["pair"] == "2hop__1_2"
    assert unanswerable == Question(
        id="2hop__1_2~unanswerable",
        text=answerable.text,
        metadata={"type": "2hop", "answerable": False, "pair": "2hop__1_2"},
    )


def test_squad_in_both_forms(tmp_path: Path) -> None:
    twin = {**SQUAD, "id": "57", "question": "Who filmed Emma?", "answers": {"text": [], "answer_start": []}}
    by_row = read_questions(lines(tmp_path / "rows.jsonl", SQUAD, twin))
    assert [(question.answers, question.answerable, question.gold_titles) for question in by_row] == [
        (("Jane Austen", "Austen"), True, ("Emma (novel)",)),
        ((), False, ()),
    ]
    answers = [{"text": text, "answer_start": 19} for text in ("Jane Austen", "Austen", "Austen")]
    asked = [
        {"id": "56be", "question": "Who wrote Emma?", "answers": answers, "is_impossible": False},
        {"id": "57", "question": "Who filmed Emma?", "answers": answers[:0], "is_impossible": True},
    ]
    paragraph = {"context": SQUAD["context"], "qas": asked}
    file = lines(
        tmp_path / "dev.json", {"version": "v2.0", "data": [{"title": "Emma (novel)", "paragraphs": [paragraph]}]}
    )
    official = open_questions(file)
    assert (official.format.name, list(official)) == ("squad", by_row)
    for source in (official, open_questions(tmp_path / "rows.jsonl")):
        (first, _) = questions_with_contexts(source)
        assert [passage.text for passage in first.contexts] == ["Emma is a novel by Jane Austen."]
        assert first.gold_ids == (first.contexts[0].id,)
    del asked[1]["question"]
    with pytest.raises(DataError, match="record 2: missing field 'question'"):
        read_questions(lines(file, {"data": [{"title": "Emma", "paragraphs": [paragraph]}]}))
    with pytest.raises(DataError, match="record 1: 'qas' is a string"):
        read_questions(lines(file, {"data": [{"title": "Emma", "paragraphs": [{"qas": "none"}]}]}))


def test_strategyqa(tmp_path: Path) -> None:
    question = one(tmp_path, STRATEGYQA)
    assert (question.kind, question.answers) == ("boolean", ("yes",))
    assert question.gold_titles == ("Mount Fuji", "Sea of Japan")  # of the first person who named any
    assert question.metadata["evidence_sets"] == [["Mount Fuji", "Sea of Japan"], ["Yeah! (song)", "Non-stop"]]
    assert question.metadata["facts"] == STRATEGYQA["facts"]
    assert [step["question"] for step in question.steps] == STRATEGYQA["decomposition"]
    assert steps_of(question) == [question]  # its steps have no answers to fill in
    assert one(tmp_path, {**STRATEGYQA, "answer": False, "evidence": None}).answers == ("no",)


def test_fever_in_both_forms(tmp_path: Path) -> None:
    question = one(tmp_path, FEVER)
    assert (question.id, question.kind, question.answers) == ("54168", "fact", ("REFUTES",))
    assert question.gold_titles == ("Annie (2014 film)", "Annie")  # of the first sufficient set
    assert question.supporting == (("Annie (2014 film)", 5), ("Annie", 0))
    assert question.metadata["evidence_sets"] == [["Annie (2014 film)", "Annie"], ["Annie"]]
    row = {"id": 1, "question": "Tilda is a vegan.", "label": "not_enough_info", "evidence": [[[7, None, None, None]]]}
    open_ = one(tmp_path, row)
    assert (open_.answers, open_.gold_titles, open_.text) == (("NOT ENOUGH INFO",), (), "Tilda is a vegan.")
    assert one(tmp_path, {"id": 2, "claim": "It is so."}).answers == ()


def test_slots_become_head_and_relation(tmp_path: Path) -> None:
    zsre, trex = one(tmp_path, ZSRE), one(tmp_path, TREX)
    assert (zsre.text, zsre.kind, zsre.answers) == ("Mapo Bridge: crosses", "slot", ("Han River", "Hangang"))
    assert zsre.metadata == {
        "head": "Mapo Bridge",
        "relation": "crosses",
        "template_questions": ["What river does Mapo Bridge cross?"],
    }
    assert (trex.text, trex.gold_titles) == ("Public Speaking: genre", ("Public Speaking (film)",))
    kilt = {"id": "s", "input": TREX["input"], "output": [{"answer": "documentary film", "provenance": PAGES[:1]}]}
    assert one(tmp_path, kilt).kind == one(tmp_path, kilt, "trex").kind == "slot"
    assert one(tmp_path, kilt).gold_titles == ("Emma",)


def test_kilt_takes_the_first_provenance_by_title(tmp_path: Path) -> None:
    question = one(tmp_path, KILT)
    assert (question.kind, question.answers) == ("qa", ("Steventon", "Steventon, Hampshire"))
    assert (question.gold_titles, question.gold_ids) == (("Emma", "Jane Austen"), ())
    assert question.metadata == {"wikipedia_ids": ["1", "2"], "evidence_sets": [["Emma", "Jane Austen"], ["Steventon"]]}
    untitled = {**KILT, "output": [{"answer": "x", "provenance": [{"wikipedia_id": "1"}, {"wikipedia_id": 1}]}]}
    assert (one(tmp_path, untitled).gold_ids, one(tmp_path, untitled).gold_titles) == (("1",), ())
    assert one(tmp_path, {"id": "t", "input": "Who?", "meta": {}}).answers == ()  # a test file


@pytest.mark.parametrize("label", ["SUPPORTS", "REFUTES"])
def test_kilt_fever_is_a_fact(tmp_path: Path, label: str) -> None:
    question = one(tmp_path, {"id": "f", "input": "It is so.", "output": [{"answer": label}]})
    assert (question.kind, question.answers) == ("fact", (label,))


def test_eli5_is_recognised_by_its_name_or_its_long_answers(tmp_path: Path) -> None:
    short = {"id": "1", "input": "Why?", "output": [{"answer": "Because."}]}
    long = {"id": "1", "input": "Why?", "output": [{"answer": "word " * 41}]}
    assert one(tmp_path, short).kind == "qa"
    assert one(tmp_path, short, "eli5").kind == "long"
    assert one(tmp_path, long).kind == "long"
    assert read_questions(lines(tmp_path / "eli5-dev-kilt.jsonl", short))[0].kind == "long"
    original = one(tmp_path, ELI5)
    assert (original.id, original.kind, original.answers) == ("5l", "long", ("Because …", "It …"))


def test_flashrag_metadata_becomes_fields(tmp_path: Path) -> None:
    metadata = {
        "type": "bridge",
        "context": {"title": ["Emma"], "sentences": [["Emma is a novel."]]},
        "supporting_facts": {"title": ["Emma"], "sent_id": [0]},
        "decomposition": ["Who?", "Where?"],
        "evidences": {"fact": ["Emma"], "relation": ["author"], "entity": ["Jane Austen"]},
    }
    question = one(tmp_path, {**FLASHRAG, "metadata": metadata})
    assert question.metadata == {"type": "bridge", "evidences": [["Emma", "author", "Jane Austen"]]}
    assert (question.gold_titles, question.steps) == (("Emma",), ({"question": "Who?"}, {"question": "Where?"}))
    assert one(tmp_path, {**FLASHRAG, "golden_answers": ["REFUTES"]}).kind == "fact"


def test_bamboogle_with_and_without_a_header(tmp_path: Path) -> None:
    path = table(
        tmp_path / "b.csv", ["Who is it?", "", "", "", "Ann\n", "Anne", ""], ["And this, who?", "", "", "", "Bob"]
    )
    dataset = open_questions(path)
    assert (dataset.format.name, [q.answers for q in dataset]) == ("bamboogle", [("Ann", "Anne"), ("Bob",)])
    assert [q.id for q in dataset] == ["q1", "q2"]
    headed = open_questions(table(tmp_path / "h.csv", ["Question", "Answer"], ["Who is it?", "Ann"]))
    assert (headed.format.name, [(q.text, q.answers) for q in headed]) == ("csv", [("Who is it?", ("Ann",))])
    assert read_questions(tmp_path / "h.csv", format="bamboogle") == list(headed)


def test_a_table_with_a_header(tmp_path: Path) -> None:
    path = table(
        tmp_path / "t.csv",
        ["id", "Question", "answers", "kind", "type", "gold_titles"],
        ["7", "Is it so, then?", '["yes", "it is"]', "boolean", "comparison", "Emma"],
        ["8", "Who?", "Ann", "", "", ""],
    )
    first, second = read_questions(path)
    assert (first.id, first.answers, first.kind) == ("7", ("yes", "it is"), "boolean")
    assert (first.metadata, first.gold_titles) == ({"type": "comparison"}, ("Emma",))
    assert (second.answers, second.kind) == (("Ann",), "qa")
    (tmp_path / "t.tsv").write_text("question\tanswer\tid\nWho?\tAnn\t7\n")
    assert [(q.id, q.answers) for q in read_questions(tmp_path / "t.tsv")] == [("7", ("Ann",))]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("hotpotqa", {"question": None}, "missing field 'question'"),
        ("hotpotqa", {"answer": {"text": "x"}}, "'answer' is an object, expected an array of strings"),
        ("hotpotqa", {"supporting_facts": [["Emma"]]}, "expected [title, sentence] pairs"),
        ("hotpotqa", {"supporting_facts": {"title": ["a"], "sent_id": []}}, "arrays of different lengths: 1, 0"),
        ("2wiki", {"evidences": [["Emma", "author"]]}, "expected [subject, relation, object] triples"),
        ("2wiki", {"evidences": {"fact": 1}}, "without the arrays 'fact', 'relation' and 'entity'"),
        ("musique", {"paragraphs": [{"idx": 0, "title": "T"}]}, "missing field 'paragraph_text'"),
        ("musique", {"paragraphs": [{"idx": "0", "title": "T", "paragraph_text": "x"}]}, "'idx' is a string"),
        (
            "musique",
            {"question_decomposition": [{"question": "?", "paragraph_support_idx": 9}]},
            "is 9; the paragraphs",
        ),
        ("musique", {"answerable": "yes"}, "'answerable' is a string, expected true or false"),
        ("strategyqa", {"answer": "yes"}, "'answer' is a string, expected true or false"),
        ("strategyqa", {"evidence": [[[3]]]}, "'evidence' holds a number, expected names of paragraphs"),
        ("strategyqa", {"decomposition": "one"}, "'decomposition' is a string"),
        ("fever", {"label": "MAYBE"}, "'label' is 'MAYBE', expected one of SUPPORTS, REFUTES, NOT ENOUGH INFO"),
        ("fever", {"evidence": [[["a", "b"]]]}, "expected [annotation, id, page, sentence]"),
        ("fever", {"evidence": {}}, "'evidence' is an object, expected an array of sets"),
        ("zsre", {"input": "Mapo Bridge"}, "expected 'head [SEP] relation'"),
        ("zsre", {"alias": "Han"}, "'alias' is a string, expected an array of strings"),
        ("trex", {"wikipedia_title": 3}, "'wikipedia_title' is a number, expected a string"),
        ("kilt", {"output": {"answer": "x"}}, "'output' is an object, expected an array of objects"),
        ("kilt", {"output": [{"answer": ["x"]}]}, "'answer' is an array, expected a string"),
        ("kilt", {"output": [{"provenance": "p"}]}, "'provenance' is a string, expected an array of objects"),
        ("eli5", {"answers": {"text": "x"}}, "'text' is a string, expected an array of strings"),
        ("eli5", {"q_id": None, "id": None}, "missing field one of 'q_id', 'id'"),
        ("flashrag", {"golden_answers": "x", "metadata": 3}, "'metadata' is a number, expected an object"),
    ],
)
def test_the_fault_of_a_record_is_located(tmp_path: Path, name: str, change: Mapping[str, Any], message: str) -> None:
    good, other = ({**ROWS[name], "_id": None, "qid": None, "id": id, "q_id": id} for id in ("a", "b"))
    broken = {**ROWS[name], "id": "c", **change}
    for path, location in (
        (lines(tmp_path / "d.jsonl", good, broken, other), "d.jsonl:2: "),
        (array(tmp_path / "d.json", good, broken, other), "d.json: record 2: "),
    ):
        with pytest.raises(DataError) as caught:
            read_questions(path, format=name)
        assert location in str(caught.value)
        assert message in str(caught.value)
        dataset = open_questions(path, format=name, skip_bad=True)
        assert (len(list(dataset)), dataset.skipped) == (2, 1)


def test_unknown_fields_are_listed(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"d\.jsonl:1: unknown format of questions: its fields are 'words', 'gold'\. Kn"
    ):
        read_questions(lines(tmp_path / "d.jsonl", {"words": "Who?", "gold": "x"}))


def test_gold_titles_of_any_format_are_scored(tmp_path: Path) -> None:
    for row in (HOTPOTQA, MUSIQUE, STRATEGYQA, FEVER, TREX, KILT):
        question = one(tmp_path, row)
        ranked = [Passage(str(n), title, "") for n, title in enumerate(question.gold_titles)]
        assert score_passages(ranked, question)["recall_all@5"] == 1.0


def test_the_guide_lists_every_format() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    for name in FORMATS:
        assert f"`{name}`" in guide
