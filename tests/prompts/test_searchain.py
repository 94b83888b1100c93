"""SearChain's replies as models really write them, and its demonstrations by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyhop.common.text import citation_marks, without_citation_marks
from polyhop.errors import PromptError
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.tasks.searchain import read_chain, read_content, show_chains, show_feedback
from polyhop.types import Passage

BOOK = PromptBook()
KINDS = ("qa", "boolean", "slot", "fact", "long")


def nodes(text: str, kind: str = "qa") -> list[tuple[str, str | None]]:
    return [(node["query"], node["answer"]) for node in read_chain(text, {"kind": kind})["nodes"]]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[Query 1]: Who?\n[Answer 1]: Ann\n[Unsolved Query]: Where?", [("Who?", "Ann"), ("Where?", None)]),
        ("[Query 1]: Who? [Answer 1]: Ann [Query 2]: Where? [Answer 2]: Cork", [("Who?", "Ann"), ("Where?", "Cork")]),
        ("**[Query 1]**: Who?\n**[Answer 1]**: **Ann**", [("Who?", "Ann")]),
        ("Sure! Here is the chain.\n[query]: Who?\n[ANSWER] Ann", [("Who?", "Ann")]),
        ("Query 1: Who?\nAnswer 1: Ann\nUnsolved Query: Where?", [("Who?", "Ann"), ("Where?", None)]),
        ("[Query 1]: Who?\n[Unsolved Query]", [("Who?", None)]),
        ("[Query 1]: Who?\n[Unsolved Query]: Who?", [("Who?", None)]),
        ("[Query 1]: Who?\n[Answer 1]: unknown\n[Answer 1]: N/A", [("Who?", "unknown")]),
        ("[Query 1]: Who?\n[Answer 1]: None", [("Who?", None)]),
        ("[Query 1]: A?\n[Query 2]: B?\n[Answer 1]: a\n[Answer 2]: b", [("A?", "a"), ("B?", "b")]),
        ("[Query 1]: A?\n[Answer 1]: a\n[Answer 1]: again", [("A?", "a")]),  # the first later answer line counts
        ("[Answer 1]: nothing asked\n[Query 1]: A?", [("A?", None)]),
        ("[Query 1]: A?\n[Answer 1]: a\nand a half\n\nI hope this helps!", [("A?", "a and a half")]),
        ("[Query 1]: Who made [the] film?\n[Answer 1]: Ann [Lee]", [("Who made [the] film?", "Ann [Lee]")]),
    ],
)
def test_chains_are_read_as_meant(text: str, read: list[tuple[str, str | None]]) -> None:
    assert nodes(text) == read


@pytest.mark.parametrize(
    "text", ["I do not know.", "[Final Content]: So the final answer is Rome.", "[Query 1]:", "{}"]
)
def test_a_chain_needs_a_query(text: str) -> None:
    with pytest.raises(Malformed, match="the chain needs its queries"):
        read_chain(text, {})


def test_an_endless_chain_is_cut() -> None:
    assert len(nodes("\n".join(f"[Query {n}]: Q{n}?" for n in range(1000)))) == 50


@pytest.mark.parametrize(
    ("text", "kind", "final"),
    [
        ("[Final Content]: It is by Ann. So the final answer is Ann Lee.", "qa", "Ann Lee"),
        ("[Final Content] The final answer is: Ann Lee", "qa", "Ann Lee"),
        ("[Final Content]: It cannot be said.", "qa", None),
        ("", "qa", None),
        ("[Final Content]: The Moon pulls [1]. The Earth turns.", "long", "The Moon pulls. The Earth turns."),
    ],
)
def test_the_chains_final_answer(text: str, kind: str, final: str | None) -> None:
    assert read_chain(f"[Query 1]: A?\n[Answer 1]: a\n{text}", {"kind": kind})["final"] == final


@pytest.mark.parametrize(
    ("text", "kind", "content", "answer"),
    [
        ("[Final Content]: By Ann [1]. So the final answer is Ann [1].", "qa", "By Ann [1]. [1]", "Ann"),
        ("By Ann [1]. So the final answer is Ann.", "qa", "By Ann [1].", "Ann"),
        ("[Final Content]: So the final answer is Ann.", "qa", "", "Ann"),
        ("[Final Content]: It pulls [1].\nIt is [2].", "long", "It pulls [1].\nIt is [2].", "It pulls. It is."),
    ],
)
def test_contents_are_read_as_meant(text: str, kind: str, content: str, answer: str) -> None:
    assert read_content(text, {"kind": kind}) == {"content": content, "answer": answer}


@pytest.mark.parametrize(("text", "kind"), [("It cannot be said [1].", "qa"), ("[Final Content]: …", "long")])
def test_a_content_needs_an_answer(text: str, kind: str) -> None:
    with pytest.raises(Malformed):
        read_content(text, {"kind": kind})


def test_marks_are_numbers_in_brackets() -> None:
    text = "a [1] b [2,3] c [4; 5] d [six] e [] f [2019a] g[7]"
    assert [numbers for _, _, numbers in citation_marks(text)] == [[1], [2, 3], [4, 5], [7]]
    assert without_citation_marks(text) == "a b c d [six] e [] f [2019a] g"


def test_a_first_call_shows_the_question_alone() -> None:
    fields = {"question": "Who?", "kind": "qa", "open_book": True, "chains": [], "feedback": []}
    assert BOOK["searchain.chain"].render(fields)[-1]["content"] == "Question: Who?"


def test_feedback_follows_the_chain_it_answers() -> None:
    passage = Passage("p", "Title", "Text.")
    first: dict[str, Any] = {"query": "A?", "answer": "a", "passage": passage, "reason": "verify"}
    feedback = [first, {**first, "reason": "complete"}, {**first, "answer": None, "passage": None}]
    chain = [{"query": "A?", "answer": "b"}]
    shown = show_chains([chain, chain, chain], {"feedback": feedback})
    assert shown.count("its answer should be a") == 2
    assert "You can change your answer" in shown.partition("Chain 2")[0]
    assert "You can give your answer" in shown.partition("Chain 2")[2]
    assert show_feedback(feedback, {}) == 'Feedback on the query "A?". Nothing was found. Ask for it in another way.'


@pytest.mark.parametrize("task", ["searchain.chain", "searchain.trace"])
def test_every_kind_has_its_own_demonstrations(task: str) -> None:
    suited = {kind: BOOK[task].demonstrations_for({"kind": kind, "open_book": True}) for kind in KINDS}
    assert suited["qa"] == suited["slot"]
    assert {kind: len(demos) >= 2 for kind, demos in suited.items()} == dict.fromkeys(KINDS, True)
    assert len(suited["fact"]) >= 4  # the paper's Table 8
    assert {id(demo) for kind in KINDS for demo in suited[kind]} == set(map(id, BOOK[task].demonstrations))


@pytest.mark.parametrize(("kind", "shots"), [("qa", 2), ("slot", 2), ("boolean", 6), ("fact", 4), ("long", 2)])
def test_a_closed_book_shows_no_unsolved_query_and_no_feedback(kind: str, shots: int) -> None:
    """``shots``: those of the paper's Table 8 without retrieval."""
    demos = BOOK["searchain.chain"].demonstrations_for({"kind": kind, "open_book": False})
    assert len(demos) >= shots
    for demo in demos:
        assert not demo.fields.get("feedback")
        assert all(node.answer for node in demo.output.nodes)  # type: ignore[attr-defined]


def test_an_open_book_shows_a_round_after_feedback_within_its_first_two_demonstrations() -> None:
    for kind in KINDS:
        demos = BOOK["searchain.chain"].demonstrations_for({"kind": kind, "open_book": True})[:2]
        assert any(demo.fields.get("feedback") for demo in demos), kind


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ('{"kid": ["qa"]}', "unknown switch 'kid'; did you mean 'kind'"),
        ('{"kind": "qa"}', '"when" is {"a field": ["a value", …]}'),
        ("7", '"when" is {"a field": ["a value", …]}'),
    ],
)
def test_a_demonstrations_kinds_are_checked(tmp_path: Path, when: str, said: str) -> None:
    line = f'{{"when": {when}, "fields": {{"question": "Q"}}, "output": {{"nodes": [{{"query": "A?"}}]}}}}'
    (tmp_path / "searchain.chain.demos.jsonl").write_text(line)
    with pytest.raises(PromptError) as raised:
        PromptBook(tmp_path)
    assert said in str(raised.value)
