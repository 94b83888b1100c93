"""The tasks of Tree of Reviews."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.lm.pocket.encoder.cache import CacheMiss, cached_only
from polyhop.lm.pocket.reading.answer import read_path
from polyhop.lm.pocket.reading.comparison import canonical
from polyhop.lm.pocket.tasks import do, tor
from polyhop.types import Passage
from tests.lm.pocket.scene import ANDERS, FERRY, MILL, QUESTION, ask


async def test_a_path_is_rejected_extended_or_accepted() -> None:
    wrong = await ask("tor.review", question=QUESTION, passages=[FERRY], thoughts=False, asks_query=True)
    begun = await ask("tor.review", question=QUESTION, passages=[MILL], thoughts=False, asks_query=True)
    done = await ask("tor.review", question=QUESTION, passages=[MILL, ANDERS], thoughts=False, asks_query=True)
    assert (wrong["relevant"], wrong["supported"]) == (False, False)
    assert (begun["relevant"], begun["supported"], begun["query"]) == (True, False, "Rolf Anders")
    assert (done["relevant"], done["supported"], done["answer"]) == (True, True, "Bremen")
    assert done["query"] is None


OTT = Passage("ott", "Ulla Ott", "Ulla Ott (3 May 1901 – 1970) was a German painter.")
LINES = Passage("lines", "Ship lines", "Ship lines run between many ports.")


@pytest.mark.parametrize("path", [[LINES], [MILL, LINES]])
def test_the_encoder_reads_no_hopeless_article(path: list[Passage]) -> None:
    with cached_only():
        review = tor.review({"question": QUESTION, "passages": path, "asks_query": False})
    assert (review["relevant"], review["supported"]) == (False, False)


@pytest.mark.parametrize("passage", [replace(LINES, metadata={"source": "lines.md"}), replace(ANDERS, id="new")])
def test_the_encoder_reads_parts_of_files_and_what_the_question_leads_to(passage: Passage) -> None:
    question = "Which trade had the director of Dark Mill in the end?"
    path = [passage] if passage.metadata else [MILL, passage]
    with cached_only(), pytest.raises(CacheMiss):
        tor.review({"question": question, "passages": path, "asks_query": False})


def test_the_encoder_does_not_read_articles_on_which_rules_find_all_that_is_asked() -> None:
    path = [MILL, replace(ANDERS, text=f"{ANDERS.text} He made nine films.")]
    with cached_only():
        review = tor.review({"question": QUESTION, "passages": path, "asks_query": False})
    assert (review["relevant"], review["supported"], review["answer"]) == (True, True, "Bremen")


@pytest.mark.parametrize("path", [[OTT], [OTT, LINES]])
def test_a_choice_between_values_of_which_one_is_missing_is_not_read(path: list[Passage]) -> None:
    question = "Who was born first, Ulla Ott or Rolf Anders?"
    with cached_only():
        review = tor.review({"question": question, "passages": path, "asks_query": False})
        supplement = tor.complete({"question": question, "passages": path})
    assert (review["relevant"], review["supported"]) == (path == [OTT], False)
    assert supplement["information"] == "Rolf Anders"
    assert supplement["thought"] == "The passages lead to Rolf Anders."


@pytest.mark.parametrize("metadata", [{}, {"source": "lines.md"}])
@pytest.mark.parametrize(("title", "text"), [("Lines", "The Norrin calls at nine ports."), ("Norrin", "Nine ports.")])
def test_a_passage_that_mentions_one_of_two_compared_things_is_relevant(
    title: str, text: str, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tor, "relevance", lambda reading: 0.0)
    passage = Passage("lines", title, text, metadata=metadata)
    other = replace(passage, title="Lines", text="The Norrington calls at nine ports.")
    fields = {"question": "Which line calls at more ports, Norrin or Westkap?", "asks_query": False}
    assert tor.review({**fields, "passages": [passage]})["relevant"]
    assert not tor.review({**fields, "passages": [other]})["relevant"]


@pytest.mark.parametrize(
    ("text", "metadata", "relevant"),
    [
        ("Lease of Unit 7, Weir Lane. Signed in May.", {"source": "lease.md"}, True),
        ("The contract for yarn from Ashgrove was signed in June.", {"source": "yarn.md"}, True),
        ("Weir Street is closed in May.", {"source": "street.md"}, False),
        ("Lease of Unit 7, Weir Lane. Signed in May.", {}, False),
    ],
)
def test_a_part_of_a_file_mentions_a_thing_by_most_of_its_words(
    text: str, metadata: dict[str, Any], relevant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tor, "relevance", lambda reading: 0.0)
    question = "Which was signed first, the lease for Weir Lane or the yarn contract with Ashgrove?"
    fields = {"question": question, "passages": [Passage("1", "Papers", text, metadata=metadata)], "asks_query": False}
    assert tor.review(fields)["relevant"] is relevant


async def test_thoughts_are_written_only_on_request() -> None:
    silent = await ask("tor.review", question=QUESTION, passages=[MILL], thoughts=False, asks_query=True)
    spoken = await ask("tor.review", question=QUESTION, passages=[MILL], thoughts=True, asks_query=True)
    assert silent["thought"] is None
    assert "Rolf Anders" in spoken["thought"]


async def test_completion_names_what_is_missing_and_invents_nothing() -> None:
    supplement = await ask("tor.complete", question=QUESTION, passages=[MILL])
    known = f"{QUESTION} {MILL.title} {MILL.text}".lower()
    assert supplement["information"] == "Rolf Anders"
    assert all(word.lower() in known for word in supplement["information"].split())
    assert supplement["answer"] is None


async def test_the_merged_review_holds_review_and_missing_piece() -> None:
    merged = await ask("tor.merged", question=QUESTION, passages=[MILL])
    assert (merged["relevant"], merged["supported"], merged["information"]) == (True, False, "Rolf Anders")
    accepted = await ask("tor.merged", question=QUESTION, passages=[MILL, ANDERS])
    assert (accepted["answer"], accepted["information"]) == ("Bremen", None)


async def test_fusion_reads_the_passages_together_whatever_the_wrong_paths_say() -> None:
    good = {"passages": [MILL, ANDERS], "answer": "Bremen", "analysis": None}
    stray = {"passages": [FERRY], "answer": "Lisbon", "analysis": None}
    fused = await ask("tor.fuse", question=QUESTION, evidence=[stray, good, *[stray] * 20], mode="evidence")
    assert fused["answer"] == "Bremen"


async def test_fusion_of_one_accepted_path_reads_nothing_else() -> None:
    question = "What was the trade of the man behind Dark Mill?"
    path = [ANDERS, FERRY, MILL]
    review = await ask("tor.review", question=question, passages=path, thoughts=False, asks_query=False)
    assert read_path(canonical(question), path).outline.answer is None
    accepted = {"passages": path, "answer": review["answer"] or "Bremen", "analysis": None}
    fields = {"question": question, "evidence": [accepted], "mode": "evidence"}
    with cached_only():
        assert do("tor.fuse", fields)["answer"]
    with cached_only(), pytest.raises(CacheMiss):
        do("tor.fuse", {**fields, "evidence": [{**accepted, "answer": None}]})


async def test_fusion_of_the_demo_set_prefers_what_leads_on_from_the_name_asked_about() -> None:
    question = "In which city was the engineer who designed the Széchenyi Chain Bridge born?"
    of = {passage.title: passage for passage in open_corpus("demo")}
    paths = (
        ("Széchenyi Chain Bridge", "William Tierney Clark"),
        ("Menai Suspension Bridge", "Budapest", "Clifton Suspension Bridge"),
        ("Budapest", "John von Neumann"),
    )
    evidence = [{"passages": [of[title] for title in path], "answer": None, "analysis": None} for path in paths]
    assert (await ask("tor.fuse", question=question, evidence=evidence, mode="evidence"))["answer"] == "Bristol"


async def test_fusion_of_analyses_counts_the_answers() -> None:
    answers: list[str] = ["Lisbon", "Bremen", "Lisbon", "Bremen", "Bremen"]
    bare: list[dict[str, Any]] = [{"passages": [], "answer": answer, "analysis": None} for answer in answers]
    heard = await ask("tor.fuse", question=QUESTION, evidence=bare, mode="analysis")
    assert heard["answer"] == "Bremen"


async def test_fusion_by_paragraph_reads_all_passages_as_one() -> None:
    split = [
        {"passages": [MILL, FERRY], "answer": None, "analysis": None},
        {"passages": [ANDERS], "answer": None, "analysis": None},
    ]
    assert (await ask("tor.fuse", question=QUESTION, evidence=split, mode="paragraph"))["answer"] == "Bremen"


async def test_enough_needs_agreement() -> None:
    sure = {"passages": [MILL, ANDERS], "answer": "Bremen", "analysis": None}
    assert (await ask("tor.enough", question=QUESTION, evidence=[sure, sure]))["sufficient"]
    stray = {"passages": [FERRY], "answer": "x", "analysis": None}
    assert not (await ask("tor.enough", question=QUESTION, evidence=[stray]))["sufficient"]
    assert not (await ask("tor.enough", question=QUESTION, evidence=[]))["sufficient"]


async def test_no_query_is_written_that_is_not_asked_for() -> None:
    begun = await ask("tor.review", question=QUESTION, passages=[MILL], thoughts=False, asks_query=False)
    assert (begun["relevant"], begun["query"]) == (True, None)
