"""No text raises an error: any script, nothing at all, or far too much.

``POLYHOP_TRIES=20`` makes twenty times as many texts, and gives every long one to every task.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyhop.lm.pocket.paths import log_likelihood
from polyhop.lm.pocket.tasks import TASKS, do
from polyhop.types import Passage
from tests.kit.tries import in_turn, tries

pytestmark = pytest.mark.slow

PIECES = """the The of director film or and is was born died #1 #9 's 'S Who Which What when How many (1931 film) “Mill”
" ( ) , ? . - – 1931 May 5 Ann Lee mother Größe 東京 Москва القاهرة same country both in which that where located 12,000
""".split()
texts = st.one_of(st.text(max_size=150), st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join))
passages = st.lists(st.builds(Passage, st.text(max_size=3), texts, texts), max_size=4)

KINDS = ("qa", "boolean", "slot", "fact", "long")


def fields(question: str, given_: list[Passage], analysis: str | None, mode: str) -> dict[str, Any]:
    evidence = [
        {"passages": given_, "answer": analysis, "analysis": analysis},
        {"passages": [], "answer": None, "analysis": None},
    ]
    feedback = [{"query": p.title, "answer": analysis, "passage": p, "reason": "complete"} for p in given_]
    nodes = [{**node, "answer": analysis or "a"} for node in feedback]
    chat = {"kind": KINDS[len(question) % 5], "chains": [[] for _ in feedback], "feedback": feedback, "nodes": nodes}
    pathway = [{"sub_question": text, "response": analysis} for p in given_ for text in (p.title, question)]
    notes = [f"{p.title} [{p.title}] {p.text}" for p in given_]
    memory = {"global_evidence": notes, "local_pathway": pathway}
    resp = {"sub_question": question, "asked": [question], "rejected": analysis, "memory": memory}
    given = {"question": question, "passages": given_, "thoughts": True, "evidence": evidence, "mode": mode}
    graph, condensed = ge_fields(question, given_, analysis), summary_fields(question, given_, analysis)
    acted = acting_fields(question, given_, analysis)
    facts = [{"head": passage.title, "relation": question, "tail": passage.text} for passage in given_]
    judged = {"answers": [analysis or "a", question], "prediction": question, "facts": facts}
    return given | chat | resp | graph | condensed | acted | judged | {"conclude": mode == "paragraph"}


def summary_fields(question: str, given_: list[Passage], analysis: str | None) -> dict[str, Any]:
    texts = [*(passage.text for passage in given_), analysis or ""]
    values = {
        "candidate": analysis or "a",
        "candidates": ["a"],
        "summary": " ".join(texts),
        "summaries": [*texts, question][:2],
        "count": 2,
    }
    values |= {"reasoning": [f"{question}? {text}" for text in texts], "phrase": analysis or "a"}
    return {**values, "sentence": question, "rationale": " ".join(texts), "entities": texts}


def acting_fields(question: str, given_: list[Passage], analysis: str | None) -> dict[str, Any]:
    step = {"thought": analysis, "action": "Search", "argument": question, "text": analysis, "query": question}
    steps = [{**step, "passages": given_[:number]} for number in range(len(given_))]
    protocol = {
        "draft": analysis or "",
        "tags": {"search": ("<search>", "</search>"), "answer": ("<answer>", "</answer>")},
    }
    return {"steps": steps, "written": steps, "plan": [question, analysis or "a"], **protocol}


def ge_fields(question: str, given_: list[Passage], analysis: str | None) -> dict[str, Any]:
    triplets = [{"head": p.title, "relation": analysis or "states", "tail": p.text} for p in given_]
    pair = {"sub_question": question, "sentence": analysis or "", "answer": analysis or "a"}
    values = {"typed": True, "verbal": True, "sub_question": question, "history": [pair] * (len(given_) % 3)}
    passage = given_[0] if given_ else Passage("", "", "")
    return {**values, "triplet": triplets[0] if len(given_) > 2 else None, "triplets": triplets, "passage": passage}


@settings(max_examples=tries(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(texts, passages, st.one_of(st.none(), texts), st.sampled_from(["evidence", "analysis", "paragraph"]))
def test_any_text_is_answered(question: str, given_: list[Passage], analysis: str | None, mode: str) -> None:
    for task in TASKS:
        value = do(task, fields(question, given_, analysis, mode))
        if task.startswith("answer.") or task in ("tor.fuse", "searchain.trace", "resp.generate"):
            assert value["answer"]
        assert value == do(task, fields(question, given_, analysis, mode))


@settings(max_examples=100, deadline=None)
@given(texts, texts, st.floats(0.2, 5.0))
def test_any_text_is_scored(prompt: str, target: str, temperature: float) -> None:
    tokens, logprobs = log_likelihood(prompt, target, temperature)
    assert len(tokens) == len(logprobs)
    assert all(-200 < value <= 0 for value in logprobs)


LONG = [
    *(
        "A ",
        "a",
        "born in ",
        '("A, ',
        "of the ",
        "1 ",
        "May ",
        "director of ",
        "X or ",
        "A's mother ",
        "東京",
        "A. ",
    ),
    *("was a ", "the country where ", "by the a b c d e ", "A (B ", '"A" ', "film by A, and ", "¿", "\n"),
]


@pytest.mark.parametrize("piece", LONG)
def test_too_long_text_is_cut(piece: str) -> None:
    """A third of the tasks is done with a piece, another third with the next one."""
    long = piece * (60_000 // len(piece))
    given_ = [Passage(str(number), long[:500], long) for number in range(3)]
    for task in in_turn([*TASKS], LONG.index(piece), of=3):
        do(task, fields(long, given_, None, "evidence"))
    do("tor.review", fields("Who is the mother of the director of A?", given_, None, "evidence"))
    log_likelihood(long, "a b c", 1.4)


def test_many_passages_are_read_within_bounds() -> None:
    many = [Passage(str(n), f"Page {n}", f"Page {n} was written by Ann Lee in 19{n % 90 + 10}.") for n in range(300)]
    assert do("answer.read", {"question": "Who wrote Page 7?", "passages": many})["answer"] == "Ann Lee"


@pytest.mark.parametrize("question", ["Who is the spouse of COUNTY OF #3?", "COUNTY OF #0", "the director of #1#2"])
@pytest.mark.parametrize("task", ["ge.graph", "searchain.chain", "resp.plan", "answer.read"])
def test_a_number_sign_in_the_question_is_a_name(task: str, question: str) -> None:
    assert isinstance(do(task, fields(question, [Passage("p", "County", "A county.")], None, "evidence")), dict)
