"""``pocket`` answers every task in the form of the question's kind."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.lm.pocket.tasks import do
from polyhop.methods.registry import methods
from polyhop.pipeline import Pipeline
from polyhop.types import Kind, Passage

FILM = Passage("film", "Dark Mill", "Dark Mill is a silent film of 1931, directed by Rolf Anders near Ulm.")
MAN = Passage("man", "Rolf Anders", "Rolf Anders was born in Bremen in 1899 and died in 1970.")
CLAIM, FALSEHOOD = "Dark Mill was directed by Rolf Anders.", "Ann Lee lives in a Roman villa with nine cats."
PLAYED = ["one-r", "cot", "self-ask", "react", "ircot", "tor", "cor", "resp", "ge", "recomp", "sure", "verify-edit"]


def said(task: str, kind: Kind, question: str = CLAIM, **fields: Any) -> Any:
    return do(task, {"question": question, "kind": kind, **fields})


def test_a_claim_is_judged_by_its_passages() -> None:
    assert said("answer.read", "fact", passages=[FILM])["answer"] == "SUPPORTS"
    assert said("answer.read", "fact", FALSEHOOD, passages=[FILM])["answer"] == "REFUTES"
    assert said("answer.cot", "fact")["answer"] == "NOT ENOUGH INFO"
    assert said("react.finish", "fact", steps=[{"passages": [FILM]}])["answer"] == "SUPPORTS"
    memory = {"global_evidence": ["[Dark Mill] Dark Mill was directed by Rolf Anders."], "local_pathway": []}
    assert said("resp.generate", "fact", memory=memory)["answer"] == "SUPPORTS"
    assert said("recomp.answer", "fact", summary=memory["global_evidence"][0])["answer"] == "SUPPORTS"
    assert said("sure.candidates", "fact", passages=[FILM], count=3)["candidates"] == ["SUPPORTS"]


def test_a_long_answer_is_a_paragraph_of_the_passages() -> None:
    found = said("answer.read", "long", "Who directed Dark Mill, and where was he born?", passages=[FILM, MAN])[
        "answer"
    ]
    assert found.endswith(".")
    assert "[" not in found
    assert "directed by Rolf Anders" in found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "answers"),
    [("fact", {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}), ("boolean", {"yes", "no"})],
)
@pytest.mark.parametrize("method", PLAYED)
async def test_methods_answer_in_the_form_of_the_kind(method: str, kind: Kind, answers: set[str]) -> None:
    assert method in methods()
    async with Pipeline(method=method, lm="pocket", reader="pocket", corpus=[FILM, MAN]) as pipeline:
        answer = await pipeline.aask(CLAIM, kind=kind)
    assert answer.text in answers


@pytest.mark.parametrize("task", ["answer.read", "plan_solve_ir.solve", "react.finish"])
def test_an_answer_that_is_likelier_wrong_is_declined_if_it_may_be(task: str) -> None:
    man = Passage("man", "Rolf Anders", "Rolf Anders (4 May 1899 – 1950) was a German film director.")

    def asked(*passages: Passage, **more: Any) -> str:
        given = {"passages": list(passages), "plan": [], "steps": [{"passages": list(passages)}]}
        return str(said(task, "qa", "When was the director of Dark Mill born?", **given, **more)["answer"])

    assert asked(FILM, man, may_decline=True) == asked(FILM, man) == "4 May 1899"
    assert asked(FILM, may_decline=True) == "unanswerable" != asked(FILM)
