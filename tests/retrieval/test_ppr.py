"""The retriever by personalised PageRank: where walks start, what they reach, and what follows an index."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from polyhop.data.corpora import open_corpus
from polyhop.errors import IndexFolderError, SettingError, UnknownName, UsageError
from polyhop.pipeline import Pipeline
from polyhop.retrieval import Index, build_index, open_index, open_plain_retriever, open_retriever
from polyhop.retrieval.base import Retriever, ScoringRetriever
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.ppr import PPR, name_graph
from polyhop.retrieval.updating import add_passages, remove_passages
from polyhop.types import Passage
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

FILM = Passage("film", "Dark Mill", "A film directed by Ann Lee.")
LEE = Passage("lee", "Ann Lee", "She was born in Elstow.")
ELSTOW = Passage("elstow", "Elstow", "A village.")
FAN = Passage("fan", "Journal", "Essays on Ann Lee.")
OTHERS = [Passage(f"o{n}", f"Other {n}", f"A film of the mill number {n}.") for n in range(5)]
QUESTION = "Who made the film Dark Mill?"


def make(folder: Path, passages: list[Passage], **settings: object) -> Index:
    return build_index(open_corpus(passages), folder / "index", **settings)  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return make(tmp_path, [FILM, LEE, ELSTOW, FAN, *OTHERS])


def ids(retriever: Retriever, query: str, k: int = 20) -> list[str]:
    return [passage.id for passage in retriever.search(query, k)]


def test_walks_reach_what_shares_no_word_with_the_question(index: Index) -> None:
    assert {"lee", "elstow", "fan"}.isdisjoint(ids(BM25(index), QUESTION))
    found = ids(PPR(index, BM25(index)), QUESTION)
    assert found[:2] == ["film", "lee"]
    assert {"elstow", "fan"} <= set(found)  # two links on; and by a name that both mention


def test_names_in_the_question_are_starts_of_their_own(index: Index) -> None:
    retriever = PPR(index, BM25(index), first=1)
    scores = {passage.id: score for passage, score in retriever.search_scored("Journal, a film of Ann Lee", 9)}
    assert scores["lee"] > scores["elstow"] > 0
    assert ids(retriever, "Which?") == ids(retriever, "") == []


def test_without_links_walks_stay_at_the_first_hits(tmp_path: Path) -> None:
    index = make(tmp_path, OTHERS)
    assert ids(PPR(index, BM25(index)), "mill number 3 film") == ids(BM25(index), "mill number 3 film")
    hit = BM25(index).search_scored("mill number 3 film", 9)
    assert [score for _, score in PPR(index, BM25(index)).search_scored("mill number 3 film", 9)] == pytest.approx(
        [score for _, score in softmax(hit)]
    )


def softmax(hits: list[tuple[Passage, float]]) -> list[tuple[Passage, float]]:
    scores = np.array([score for _, score in hits])
    weights = np.exp((scores - scores.max()) / scores.std())
    return [(passage, weight) for (passage, _), weight in zip(hits, (weights / weights.sum()).tolist(), strict=True)]


def test_titles_take_most_walks_from_a_name_and_other_mentions_the_rest(index: Index) -> None:
    assert index.link_tables is not None
    graph = name_graph(index.link_tables)
    edges = {
        row: dict(zip(graph.targets[a:b].tolist(), graph.weights[a:b].tolist(), strict=True))
        for row, (a, b) in enumerate(zip(graph.starts[:-1].tolist(), graph.starts[1:].tolist(), strict=True))
    }
    (name,) = edges[0]  # the film mentions Ann Lee alone; nobody mentions the film
    assert edges[name] == pytest.approx({1: 0.9, 0: 0.05, 3: 0.05})
    assert name in edges[1]  # her own page leads to her name, and so to those who mention it
    assert edges[4] == {}  # nothing mentions it, and it mentions nothing


def test_ties_are_broken_by_id_also_at_the_cut(tmp_path: Path) -> None:
    hub = Passage("hub", "Hub", "The towns are Nord, Sund, Vest, Ost.")
    towns = [Passage(id, title, "A town.") for id, title in (("d", "Nord"), ("b", "Sund"), ("c", "Vest"), ("a", "Ost"))]
    index = make(tmp_path, [hub, *towns])
    retriever = PPR(index, BM25(index), first=1)
    assert ids(retriever, "hub") == ["hub", "a", "b", "c", "d"]
    assert [ids(retriever, "hub", k) for k in (1, 2, 3)] == [["hub"], ["hub", "a"], ["hub", "a", "b"]]


def test_hyperlinks_are_followed_instead_of_mentions(tmp_path: Path) -> None:
    index = make(tmp_path, [Passage("film", "Dark Mill", "By Ann Lee.", links=("Elstow", "It")), LEE, ELSTOW,
                            Passage("it", "It", "A novel.")])  # fmt: skip
    assert ids(PPR(index, BM25(index), first=1), "Dark Mill") == ["film", "elstow", "it"]
    assert ids(PPR(index, BM25(index), first=1), "It") == []  # a stop word, and the title of a page


def test_an_update_is_followed_and_an_index_opened_again_finds_the_same(tmp_path: Path, index: Index) -> None:
    before = PPR(index, BM25(index)).search_scored(QUESTION, 9)
    folder = index.folder
    again = open_index(folder)
    assert PPR(again, BM25(again)).search_scored(QUESTION, 9) == before
    index = remove_passages(folder, ["lee"]).index
    assert not {"lee", "elstow", "fan"} & set(ids(PPR(index, BM25(index)), QUESTION))
    index = add_passages(
        folder, open_corpus([Passage("new", "Ann Lee", "Of Oslo."), Passage("oslo", "Oslo", "A city.")])
    ).index
    assert {"new", "oslo", "fan"} <= set(ids(PPR(index, BM25(index)), QUESTION))


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("ppr:bm25", SettingError, "as in ppr.start=bm25"),
        ("ppr?begin=bm25", UnknownName, "Valid: damping, first, start"),
        ("ppr?damping=1", SettingError, "damping=1: must be above 0 and below 1"),
        ("ppr?damping=much", SettingError, "damping=much: must be a number above 0"),
        ("ppr?first=0", SettingError, "first=0: must be at least 1"),
        ("ppr?start=hops", UsageError, "hops asks a language model"),
        ("ppr?start=hybrid:rrf:bm25", SettingError, "at least two"),
    ],
)
def test_errors_say_what_would_work(index: Index, spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_plain_retriever(spec, index)


def test_it_needs_links_and_a_start_with_scores(index: Index, tmp_path: Path) -> None:
    bare = make(tmp_path / "bare", [FILM], links=False)
    with pytest.raises(UsageError, match="ppr follows links, and the index was built without: build it with links"):
        open_retriever("ppr", bare)

    class Unscored:
        name = "mine"
        search = search_many = links = BM25(index).search

    with pytest.raises(UsageError, match="mine has no scores to start from: use bm25, dense:… or hybrid:…"):
        PPR(index, Unscored())  # type: ignore[arg-type]


def test_damaged_links_are_no_traceback(index: Index) -> None:
    assert index.link_tables is not None
    index.link_tables._names = memoryview(bytes([9] * 400)).cast("I")
    with pytest.raises(IndexFolderError, match=r"its links are damaged .*; build the index again"):
        PPR(index, BM25(index))


def test_it_is_a_retriever_by_name_for_any_method(index: Index) -> None:
    retriever = open_plain_retriever("ppr?first=2&start=hybrid:bm25+tfidf", index)
    assert isinstance(retriever, ScoringRetriever)
    assert retriever.name == "ppr?first=2&start=hybrid:bm25+tfidf"
    assert retriever.links(FILM) == [LEE]
    fused = open_plain_retriever("hybrid:bm25+ppr", index)
    assert "lee" in ids(fused, QUESTION)
    with Pipeline(index, "one-r", "pocket", retriever="ppr") as pipeline:
        answer = pipeline.ask("In which village was the director of Dark Mill born?")
    assert answer.text == "Elstow"
    assert {"film", "lee"} <= {passage.id for passage in answer.passages}


def test_the_command_line_searches_answers_and_runs_with_it(cli: Cli, tmp_path: Path) -> None:
    corpus, questions = tmp_path / "corpus.jsonl", tmp_path / "questions.jsonl"
    corpus.write_text("".join(json.dumps(p.to_dict()) + "\n" for p in (FILM, LEE, ELSTOW, FAN, *OTHERS)))
    question = "In which village was the director of Dark Mill born?"
    questions.write_text(json.dumps({"id": "q", "question": question, "answers": ["Elstow"], "gold_pids": ["lee"]}))
    given = ("--corpus", corpus, "--retriever", "ppr?first=3")
    assert "Ann Lee" in cli("search", corpus, question, "--retriever", "ppr", "-k", "3").out
    assert "Answer: Elstow" in cli("ask", question, *given, "--method", "one-r").out
    assert cli("run", "--dataset", questions, *given, "--method", "one-r", "--out", tmp_path / "run").code == 0
    assert "ppr?first=3" in (tmp_path / "run" / "run.json").read_text()
    result = cli("ask", question, "--corpus", corpus, "--retriever", "ppr?damping=2")
    assert result.code == 2
    assert "damping=2: must be above 0 and below 1" in result.err
