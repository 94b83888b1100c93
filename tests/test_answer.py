"""Numbered citations: which passages an answer cites, and the answer as a text with its marks and their list."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop import Pipeline, ScriptedLM
from polyhop.answer import NO_ANSWER, Answer, cite, content_is_answer, references, with_citation_marks, with_references
from polyhop.types import Citation, Evidence, Passage
from tests.kit.method_families import FERRY, FILM, MAN, answered

SHORT = Answer("Bremen", (FILM, MAN, FERRY), (Evidence((FILM, MAN), "Bremen"), Evidence((FERRY,), "Ulm")))


def test_citations_follow_the_order_of_evidence_without_marks() -> None:
    answer = replace(SHORT, citations=cite(SHORT))
    assert [(each.markers, each.passage.id) for each in references(answer)] == [((1,), "film"), ((2,), "man")]
    assert with_citation_marks(answer) == "Bremen [2]"  # the one that has the answer in it
    assert with_references(answer) == "Bremen [2]\n\n- [1] Dark Mill (film)\n- [2] Rolf Anders"


def test_marks_that_stand_in_the_text_keep_their_numbers() -> None:
    cited = (Citation(3, "man", 48, 54), Citation(1, "film"), Citation(2, "man"), Citation(9, "nowhere"))
    answer = replace(SHORT, citations=cited, content="By Rolf Anders [1], of Bremen [3, 2].")
    assert [(each.marks, each.passage.id, each.spans) for each in references(answer)] == [
        ("[1]", "film", ()),
        ("[2][3]", "man", ((48, 54),)),
    ]
    text, reasoning, listed = with_references(answer).split("\n\n")
    assert (text, reasoning) == ("Bremen", "By Rolf Anders [1], of Bremen [3, 2].")
    assert listed.splitlines() == ["- [1] Dark Mill (film)", "- [2][3] Rolf Anders"]


async def test_a_long_answer_is_its_content() -> None:
    answer = await answered("searchain", "long")
    assert content_is_answer(answer)
    assert answer.to_dict()["content"] == with_citation_marks(answer)
    assert [(c["marker"], c["passage_id"]) for c in answer.to_dict()["citations"]] == [(1, "film"), (2, "man")]
    assert with_references(answer) == (
        "Dark Mill was directed by Rolf Anders [1], who was born in Bremen [2].\n\n"
        "- [1] Dark Mill (film)\n- [2] Rolf Anders"
    )


async def test_an_answer_that_is_withheld_has_no_content() -> None:
    answer = await answered("searchain", abstain_below=0.9)
    assert (answer.text, answer.content, answer.citations) == ("", "", ())
    assert with_references(answer) == f"{NO_ANSWER}\n\n- nearest: Dark Mill (film)\n- nearest: Rolf Anders"


def test_titles_are_no_markdown() -> None:
    title = "![x](http://a/b) <img src=y> *a* `b`\n\x1b[2J"
    passage = Passage("p", title, "Bremen", metadata={"source": "r.pdf", "page": 3})
    answer = Answer("Bremen", (passage,), citations=(Citation(1, "p", 0, 6),))
    listed = with_references(answer).splitlines()[-1]
    assert listed == r"- [1] \!\[x\](http://a/b) \<img src=y\> \*a\* \`b\` \[2J (r.pdf, p. 3)"
    nameless = replace(answer, passages=(Passage("p", "\x1b", "Bremen"),))
    assert with_references(nameless).endswith("- [1] p")


@settings(deadline=None)
@given(st.text(), st.text(), st.lists(st.integers(0, 3), max_size=4))
def test_every_answer_has_a_text(text: str, content: str, markers: list[int]) -> None:
    cited = tuple(Citation(marker, "man", 0, 4) for marker in markers)
    answer = replace(SHORT, text=text, content=content, citations=cited)
    assert with_references(answer).endswith("Rolf Anders" if markers else with_citation_marks(answer))


async def test_what_was_read_is_reported_whether_cited_or_not() -> None:
    answer = await answered("tor")
    rows = {row["id"]: row["cited"] for row in answer.to_dict(with_trace=False)["passages"]}
    read = {passage.id for passage in answer.trace.read}
    assert read <= set(rows)
    assert {name for name, cited in rows.items() if cited} == {each.passage_id for each in answer.citations}
    assert [passage.id for passage in answer.not_cited] == [name for name, cited in rows.items() if not cited]
    assert set(rows) - read <= {passage.id for passage in answer.passages}


async def test_a_closed_book_answer_shows_what_was_read() -> None:
    lm = ScriptedLM({"tor.review": {"relevant": False, "supported": False}, "answer.cot": {"answer": "Ulm"}})
    async with Pipeline([FILM, MAN], "tor", lm, widths=(2,), cache=False) as pipeline:
        answer = await pipeline.aask("Where was the director of the film Dark Mill born?")
    assert (answer.text, answer.passages, answer.citations) == ("Ulm", (), ())
    assert {row["id"] for row in answer.to_dict(with_trace=False)["passages"]} == {"film", "man"}


async def test_an_answer_prints_in_a_few_lines() -> None:
    answer = replace(SHORT, citations=cite(SHORT), confidence=0.75)
    assert str(answer) == "Bremen [2]  (not verified, confidence 0.75)\n[1] Dark Mill (film)\n[2] Rolf Anders"
    assert str(Answer("", abstained=True)) == NO_ANSWER


def test_an_abstention_shows_the_nearest_passages() -> None:
    passages = (FILM, MAN, FERRY, Passage("<b>", "<b>", "b"), Passage("c", "C", "c"))
    answer = Answer("", passages, abstained=True)
    assert str(answer).splitlines() == [
        NO_ANSWER, "nearest: Dark Mill (film)", "nearest: Rolf Anders", "nearest: Ferry", "and 2 more",
    ]  # fmt: skip
    assert with_references(answer).endswith("- nearest: Ferry\n- and 2 more")
    shown = answer._repr_html_()
    assert re.findall(r"<b>([^<]*)</b>", shown) == [NO_ANSWER, "Dark Mill (film)", "Rolf Anders", "Ferry"]
    assert shown.endswith("</ul>and 2 more</div>")
    assert replace(SHORT, citations=cite(SHORT)).nearest == ()


async def test_a_notebook_shows_the_answer_its_passages_and_its_tree() -> None:
    shown = (await answered("tor", "qa"))._repr_html_()
    assert shown.count("<mark>") >= 1
    assert "<summary>Steps: " in shown
    assert "<i>accept</i>" in shown


def test_a_notebook_shows_text_as_text() -> None:
    evil = Passage("p", "<script>alert(1)</script>", "a <img src=x onerror=alert(1)> b\x1b[31m")
    answer = Answer("<b>x</b>", (evil,), (Evidence((evil,), "<b>x</b>"),))
    shown = replace(answer, citations=cite(answer))._repr_html_()
    assert re.findall(r"<(?!/)[^>]*>", shown) == ["<div>", "<p>", "<b>", "<small>", "<ul>", "<li>", "<b>", "<br>"]
    assert "\x1b" not in shown
