"""hops by hand and at random: which paths are scored, how passages rank, what each setting changes."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.common.turns import waited
from polyhop.data.corpora import open_corpus
from polyhop.errors import CapabilityError, UnknownName
from polyhop.lm.base import Capabilities
from polyhop.lm.pocket.paths import likelihood_scores, path_scores
from polyhop.lm.pocket.reading.descriptions import Split
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.as_retriever import HopsRetriever
from polyhop.methods.hops import second_query
from polyhop.methods.registry import method_named
from polyhop.pipeline import Pipeline
from polyhop.retrieval import build_index, open_retriever
from polyhop.retrieval.bm25 import BM25
from polyhop.trace import Note, Searched
from polyhop.types import Passage
from tests.kit.random_web import Web
from tests.kit.scene import names, notes, passage
from tests.kit.tries import tries

FILM = Passage("film", "Dark Mill", "Dark Mill is a film directed by Ann Lee.")
PERSON = Passage("person", "Ann Lee", "Ann Lee was born in Elstow.")
TOWN = Passage("town", "Elstow", "Elstow is a village.")
OTHERS = [Passage(f"o{n}", f"Other {n}", f"A director of mill number {n} was born in a dark town.") for n in range(8)]
QUESTION = "In which town was the director of Dark Mill born?"
WEBS = st.integers(0, 10**6)
Paths = Sequence[Sequence[Passage]]


class Graph:
    """A few passages by letter that link to others, and what a path is worth, by the line of its letters."""

    name = "graph"

    def __init__(self, found: str, links: Mapping[str, str], worth: Mapping[str, float]) -> None:
        self.found, self.linked, self.worth = found, links, worth
        self.rounds: list[list[str]] = []
        self.queries: list[str] = []
        self.led: list[str] = []
        self.again = ""
        self.parts: dict[str, str] = {}
        self.read: dict[str, tuple[str, str]] = {}
        self.steps: list[tuple[str, str, Sequence[str]]] = []
        self.lm = ScriptedLM({"answer.read": {"answer": "read"}, "answer.cot": {"answer": "known"}})

    def search(self, query: str, k: int) -> list[Passage]:
        self.queries.append(query)
        return [passage(each) for each in (self.again if len(self.queries) > 1 else self.found).split()][:k]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [self.search(query, k) for query in queries]

    def links(self, held: Passage) -> list[Passage]:
        return [passage(each) for each in self.linked.get(held.id, "").split()]

    async def scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> list[float]:
        return self.linear_scores(question, paths, found)

    def linear_scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> list[float]:
        self.rounds.append([names(path) for path in paths])
        return [self.worth.get(names(path), -9.0) for path in paths]

    def likelihood_scores(self, question: str, paths: Paths) -> list[float]:
        return self.linear_scores(question, paths, ())

    async def leads(self, question: str, path: Sequence[Passage], max_leads: int) -> list[str]:
        self.led.append(names(path))
        return [f"{names(path)} first", f"{names(path)} second"][:max_leads]

    async def split(self, question: str) -> Split | None:
        described = self.parts.get(question)
        return Split(described, "About ", "") if described else None

    async def read_step(
        self, question: str, passages: Sequence[Passage], known: Sequence[str]
    ) -> tuple[str, Passage] | None:
        self.steps.append((question, names(passages), known))
        answer, id_ = self.read.get(question, ("", ""))
        return (answer, passage(id_)) if id_ else None

    async def run(self, **chosen: Any) -> Answer:
        async with Pipeline(method="hops", lm=self.lm, retriever=self, path_scorer=self, **chosen) as pipeline:
            return await pipeline.aask("Q")


LINKS = {"a": "d a", "b": "d c", "c": "b", "d": "e"}
WORTH = {"a": 1.0, "b": 3.0, "c": 2.0, "b d": 5.0, "b c": 0.5, "c b": 4.0, "b d e": 6.0}


# --- by hand ----------------------------------------------------------------------------------------------------


async def test_the_best_paths_are_extended_and_a_passage_is_worth_its_best() -> None:
    graph = Graph("a b c", LINKS, WORTH)
    answer = await graph.run(keep=2)
    assert graph.rounds == [["a", "b", "c"], ["b d", "b c", "c b"]]
    assert names(answer.passages) == "b d c a"  # 5 for b and d, which stand by id; 4 for c; 1 for a
    assert answer.statistics["paths scored"] == 6
    ((_, data),) = [note for note in notes(answer) if note[0] == "paths"]
    assert [(" ".join(row["passages"]), row["score"]) for row in data["ranked"][:2]] == [("b d", 5.0), ("c b", 4.0)]


class SlowGraph(Graph):
    """A graph whose scorer takes 20 ms, of which it waits 10 for its turn."""

    async def scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> list[float]:
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        waited(begun)
        await asyncio.sleep(0.01)
        return self.linear_scores(question, paths, found)


async def test_path_scoring_is_a_questions_own_time() -> None:
    answer = await SlowGraph("a b c", LINKS, WORTH).run(keep=2, requery=0, scorer="pocket")
    scored = [step for step in answer.trace.steps if isinstance(step, Note) and step.name == "path scoring"]
    assert [step.data["paths"] for step in scored] == [3, 3]
    assert all(0.01 <= (step.own or 0) < step.seconds for step in scored)
    assert 0.02 <= answer.usage.seconds < answer.usage.elapsed


async def test_one_call_reads_the_first_k() -> None:
    graph = Graph("a b c", LINKS, WORTH)
    answer = await graph.run(keep=2, k=2, shots=1, rank_limit=3)
    (call,) = graph.lm.calls
    assert (call.task, names(call.fields["passages"])) == ("answer.read", "b d")
    assert (answer.text, names(answer.passages), bool(answer.evidence)) == ("read", "b d c", True)
    assert [names(piece.passages) for piece in answer.evidence] == ["b d"]


@pytest.mark.parametrize(
    ("metadata", "chosen", "count"), [({}, {}, 5), ({"source": "f"}, {}, 8), ({"source": "f"}, {"k": 5}, 5)]
)
async def test_more_passages_of_files_are_read(metadata: dict[str, str], chosen: dict[str, int], count: int) -> None:
    graph = Graph("", {}, {})
    hits = [Passage(str(number), "T", "Text.", metadata=metadata) for number in range(9)]
    graph.search = lambda query, k: hits[:k]  # type: ignore[method-assign]
    answer = await graph.run(**chosen)
    (call,) = graph.lm.calls
    assert len(call.fields["passages"]) == len(answer.evidence[0].passages) == count


async def test_nothing_found_is_answered_closed_book() -> None:
    answer = await Graph("", LINKS, WORTH).run()
    assert (answer.text, answer.passages, answer.supported) == ("known", (), False)


@pytest.mark.parametrize(
    ("chosen", "rounds", "ranking"),
    [
        ({"hops": 1}, [["a", "b", "c"]], "b c a"),
        ({"first": 1}, [["a"], ["a d"]], "a d"),
        ({"first": 2, "keep": 1, "hops": 3}, [["a", "b"], ["b d", "b c"], ["b d e"]], "b d e a c"),
        ({"links": 0, "keep": 1}, [["a", "b", "c"], ["b d", "b c"], []], "b c a"),
        ({"keep": 1}, [["a", "b", "c"], ["b d", "b c"]], "b d c a"),
    ],
    ids=str,
)
async def test_each_setting_changes_the_paths(chosen: dict[str, Any], rounds: list[list[str]], ranking: str) -> None:
    graph = Graph("a b c", LINKS, WORTH)
    answer = await graph.run(**chosen)
    assert (graph.rounds, names(answer.passages)) == (rounds, ranking)


async def test_links_beyond_the_limit_are_the_best_by_the_scorer_inside() -> None:
    worth = {"a b": 0.1, "a c": 0.2, "a d": 0.3}
    graph = Graph("a", {"a": "b c d"}, worth)
    await graph.run(links=2)
    assert graph.rounds == [["a"], ["a b", "a c", "a d"], ["a d", "a c"]]
    graph = Graph("a", {"a": "b c d"}, worth)
    await graph.run(links=3)
    assert graph.rounds == [["a"], ["a b", "a c", "a d"]]  # none to choose: the order of the links


async def test_second_queries_extend_the_best_paths_too() -> None:
    graph = Graph("a b", {"b": "c"}, {"b": 2.0, "a": 1.0})
    graph.again = "b c x y"
    await graph.run(requery=3, requeried=1)
    assert (graph.led, graph.queries) == (["b"], ["Q", "b first q", "b second q"])
    assert graph.rounds[1] == ["b c", "b x"]  # its own passage and what is linked already are no second path


@pytest.mark.parametrize(
    ("chosen", "led", "queries"),
    [
        ({"requery": 0}, [], 1),
        ({"leads": 0}, ["b", "a"], 1),
        ({"leads": 1}, ["b", "a"], 3),
        ({"leads": 2, "requeried": 1}, ["b"], 3),
        ({"requeried": 0}, [], 1),
        ({"hops": 1}, [], 1),
        ({"scorer": "reasons"}, [], 1),
        ({"scorer": "likelihood"}, [], 1),
    ],
    ids=str,
)
async def test_what_is_searched_for_a_second_time(chosen: dict[str, Any], led: list[str], queries: int) -> None:
    graph = Graph("a b", {}, {"b": 2.0, "a": 1.0})
    await graph.run(**chosen)
    assert (graph.led, len(graph.queries)) == (led, queries)


def test_the_second_query_is_a_name_and_what_no_passage_has_said() -> None:
    assert second_query(QUESTION, (FILM,), "Ann Lee") == "Ann Lee town director born"
    assert second_query(QUESTION, (FILM, PERSON), "Elstow") == "Elstow town director"
    assert second_query("", (FILM,), "Ann Lee") == "Ann Lee"


# --- in steps ---------------------------------------------------------------------------------------------------


def graph_in_steps() -> Graph:
    """Two hops before the last question: who, then where."""
    graph = Graph("a b c d e", {"a": "b"}, {"a": 2.0, "a b": 3.0, "c": 1.0})
    graph.again = "f g h"
    graph.parts = {"Q": "which town", "which town": "who"}
    graph.read = {"who": ("Ann", "f"), "About Ann": ("Ost", "g"), "About Ost": ("1912", "h")}
    return graph


async def test_the_passages_of_the_steps_come_after_the_best_path() -> None:
    graph = graph_in_steps()
    answer = await graph.run(requery=0, steps=2)
    assert graph.queries == ["Q", "who", "About Ann", "About Ost"]
    assert graph.steps == [("who", "f g", ()), ("About Ann", "f g", ("Ann",)), ("About Ost", "f g", ("Ost",))]
    assert names(answer.passages) == "a b f g h c d e"
    read = [(data["question"], data["answer"], data["passage"]) for name, data in notes(answer) if name == "step"]
    assert read == [("who", "Ann", "f"), ("About Ann", "Ost", "g"), ("About Ost", "1912", "h")]
    assert ("split", {"question": "Q", "inner": "which town"}) in notes(answer)


async def test_a_step_without_an_answer_ends_them() -> None:
    graph = graph_in_steps()
    del graph.read["who"]
    answer = await graph.run(requery=0)
    assert (graph.queries, names(answer.passages)) == (["Q", "who"], "a b c d e")
    graph = graph_in_steps()
    del graph.read["About Ost"]
    answer = await graph.run(requery=0)
    assert (graph.queries[1:], names(answer.passages[:4])) == (["who", "About Ann", "About Ost"], "a b f g")


async def test_a_question_that_describes_itself_is_split_three_times_at_most() -> None:
    graph = graph_in_steps()
    graph.parts = {"Q": "Q"}
    graph.read = {"Q": ("Ann", "f")}
    await graph.run(requery=0)
    assert graph.queries == ["Q", "Q", "About Ann", "About Ann", "About Ann"]


@pytest.mark.parametrize("chosen", [{"steps": 0}, {"scorer": "reasons"}, {"scorer": "likelihood"}], ids=str)
async def test_no_steps_are_read(chosen: dict[str, Any]) -> None:
    graph = graph_in_steps()
    answer = await graph.run(requery=0, **chosen)
    assert (graph.queries, graph.steps, names(answer.passages)) == (["Q"], [], "a b c d e")


async def test_a_question_that_describes_nothing_has_no_steps() -> None:
    graph = graph_in_steps()
    graph.parts = {}
    assert names((await graph.run(requery=0)).passages) == "a b c d e"
    assert (graph.queries, graph.steps) == (["Q"], [])


@pytest.mark.parametrize("scorer", ["pocket", "reasons", "likelihood"])
async def test_no_model_is_asked_to_rank(scorer: str) -> None:
    index = [FILM, PERSON, TOWN, *OTHERS]
    lm = ScriptedLM({"answer.read": {"answer": "Elstow"}}, capabilities=Capabilities(score=False))
    async with Pipeline(index, "hops", lm, scorer=scorer) as pipeline:
        answer = await pipeline.aask(QUESTION)
    assert len(lm.calls) == answer.usage.calls == 1
    if scorer == "pocket":
        assert set(names(answer.passages[:2]).split()) == {"film", "person"}


async def test_promptranks_score_asks_the_model() -> None:
    def score(request: Any) -> float:
        return {"film person": -1.0, "film": -2.0}.get(names(request.fields["passages"]), -9.0)

    lm = ScriptedLM({"answer.read": {"answer": "Elstow"}}, score=score)
    async with Pipeline([FILM, PERSON, *OTHERS], "hops", lm, scorer="promptrank") as pipeline:
        answer = await pipeline.aask(QUESTION)
    assert names(answer.passages[:2]) == "film person"
    assert answer.usage.calls == len(lm.score_calls) + 1 == answer.statistics["paths scored"] + 1
    deaf = ScriptedLM({}, capabilities=Capabilities(score=False))
    with pytest.raises(CapabilityError, match="hops needs score, which scripted does not have"):
        Pipeline([FILM], "hops", deaf, scorer="promptrank")


async def test_a_spent_budget_ranks_what_was_scored_before_what_was_found() -> None:
    lm = ScriptedLM({"answer.read": {"answer": "Elstow"}}, score=lambda request: -1.0)
    async with Pipeline([FILM, PERSON, *OTHERS], "hops", lm, scorer="promptrank", max_calls=3) as pipeline:
        answer = await pipeline.aask(QUESTION)
    assert (answer.trace.budget, answer.text) == ("max_calls", "Elstow")
    assert answer.usage.calls <= 3
    assert len(answer.passages) == len(set(answer.passages)) == len(OTHERS) + 2


@pytest.mark.parametrize(
    ("chosen", "layers"), [({}, 1), ({"hops": 4}, 1), ({"scorer": "promptrank", "hops": 3}, 4)], ids=str
)
def test_layers(chosen: dict[str, Any], layers: int) -> None:
    method = method_named("hops")
    assert method.layers(method.resolve(chosen)) == layers


# --- as a retriever ---------------------------------------------------------------------------------------------


async def test_any_method_searches_by_it(tmp_path: FilePath) -> None:
    index = build_index(open_corpus([FILM, PERSON, TOWN, *OTHERS]), tmp_path / "index")
    file = tmp_path / "hops.json"
    file.write_text(json.dumps({"method": "hops", "settings": {"first": 2, "hops": 1}, "retriever": "tfidf"}))
    lm = ScriptedLM({"answer.read": {"answer": "Elstow"}})
    for spec, k, firsts in (("hops", 3, 100), (f"hops:{file}", 3, 3)):
        async with Pipeline(index, "one-r", lm, retriever=spec, k=2, rank_limit=k) as pipeline:
            answer = await pipeline.aask(QUESTION)
        assert len(answer.passages) == k
        assert [step.k for step in answer.trace.steps if isinstance(step, Searched)][:2] == [k, firsts]
        assert answer.usage.calls == 1
    opened = open_retriever(f"hops:{file}", index)
    assert (opened.name, opened.innermost.name) == (f"hops:{file}", "tfidf")  # type: ignore[union-attr]
    start = open_retriever("hops", index)
    assert isinstance(start.innermost, BM25)  # type: ignore[union-attr]
    assert start.links(FILM) == [PERSON]
    with pytest.raises(UnknownName, match="setting of hops"):
        HopsRetriever(BM25(index), hop=3)


@pytest.mark.slow
@settings(max_examples=tries(30))
@given(WEBS)
async def test_retriever_and_method_rank_alike(seed: int) -> None:
    chosen: dict[str, Any] = {"hops": 3, "requery": seed % 3, "keep": 4}
    ranked = (await Web.random(seed).run("hops", **chosen, rank_limit=50)).passages
    web = Web.random(seed)
    found = await web.run("one-r", retriever=HopsRetriever(web, **chosen), rank_limit=50)
    assert found.passages == ranked[:50]


# --- at random --------------------------------------------------------------------------------------------------


async def ranked_by(seed: int, **chosen: Any) -> tuple[Web, list[tuple[tuple[str, ...], float]], list[str]]:
    """A web, its scored paths and its ranking."""
    web = Web.random(seed)
    answer = await web.run("hops", rank_limit=50, **chosen)
    ranked_notes = [data for name, data in notes(answer) if name == "paths"]
    rows = ranked_notes[0]["ranked"] if ranked_notes else []
    return web, [(tuple(row["passages"]), row["score"]) for row in rows], [held.id for held in answer.passages]


def enumerated(web: Web, hops: int) -> list[tuple[Passage, ...]]:
    """Every path from what is found first, along any links, without a passage twice."""
    paths: list[tuple[Passage, ...]] = [(held,) for held in web.search(web.question, 100)]
    whole = paths
    for _ in range(1, hops):
        paths = [
            (*path, target) for path in paths for target in dict.fromkeys(web.links(path[-1])) if target not in path
        ]
        whole = [*whole, *paths]
    return whole


@settings(max_examples=tries(30))
@given(WEBS, st.integers(1, 3), st.sampled_from(["pocket", "likelihood"]))
async def test_with_room_for_all_it_is_the_full_enumeration(seed: int, hops: int, scorer: str) -> None:
    web, rows, ranking = await ranked_by(seed, hops=hops, keep=10**6, links=10**6, requery=0, scorer=scorer)
    paths, found = enumerated(web, hops), web.search(web.question, 100)
    worth: dict[tuple[str, ...], float] = {}
    for length in range(1, hops + 1):  # scored together, hop by hop: of each hop's paths the encoder sees the best
        alike = [path for path in paths if len(path) == length]
        by_pocket = scorer == "pocket"
        scores = path_scores(web.question, alike, found) if by_pocket else likelihood_scores(web.question, alike)
        ids = [tuple(held.id for held in path) for path in alike]
        worth |= {path: round(score, 4) for path, score in zip(ids, scores, strict=True)}
    assert rows == sorted(worth.items(), key=lambda row: (-row[1], row[0]))
    best = {id_: max(score for path, score in worth.items() if id_ in path) for path in worth for id_ in path}
    assert ranking == sorted(best, key=lambda id_: (-best[id_], id_))


@settings(max_examples=tries(30))
@given(WEBS, st.integers(1, 4), st.integers(1, 5), st.integers(0, 3), st.integers(0, 3))
async def test_no_path_repeats_a_passage_and_runs_agree(
    seed: int, hops: int, keep: int, links: int, requery: int
) -> None:
    chosen = {"hops": hops, "keep": keep, "links": links, "requery": requery}
    _, rows, ranking = await ranked_by(seed, **chosen)
    paths = [path for path, _ in rows]
    assert len(set(paths)) == len(paths)
    assert all(len(set(path)) == len(path) <= hops for path in paths)
    assert sum(len(path) > 1 for path in paths) <= (hops - 1) * keep * (links + 2 * requery)
    assert set(ranking) == set(itertools.chain.from_iterable(paths))
    assert (await ranked_by(seed, **chosen))[1:] == (rows, ranking)


def test_pagerank_scores_a_path_by_the_links_between_all_passages(tmp_path: FilePath) -> None:
    index = build_index(open_corpus([FILM, PERSON, TOWN, *OTHERS]), tmp_path / "index")
    with Pipeline(index, "hops", "pocket", retriever="bm25", scorer="ppr") as pipeline:
        answer = pipeline.ask(QUESTION)
    (ranked,) = (data["ranked"] for name, data in notes(answer) if name == "paths")
    scores = {tuple(path["passages"]): path["score"] for path in ranked}
    assert scores[("film", "person")] == pytest.approx((scores[("film",)] + scores[("person",)]) / 2, abs=2e-4)
    assert "person" in [passage.id for passage in answer.passages]
    assert answer.usage.calls == 1  # the reading
