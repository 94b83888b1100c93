"""SearChain's replies as models really write them, and its demonstrations by kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from polyhop.common.text import citation_marks, without_citation_marks
from polyhop.errors import PromptError
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
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


def test_only_the_last_feedback_shows_its_passage() -> None:
    first, second = (
        {"query": f"{name}?", "answer": None, "passage": Passage(name, f"Title {name}", f"Text {name}.")}
        for name in "AB"
    )
    fields = {"question": "Q?", "kind": "qa", "open_book": True, "chains": [[], []], "feedback": [first, second]}
    shown = BOOK["searchain.chain"].render(fields)[-1]["content"]
    assert ("Title A" in shown, "Text A." in shown, shown.count("<passage")) == (True, False, 1)
    assert shown.endswith("<passage 1>\nTitle: Title B\nText B.\n</passage 1>")
    before = BOOK["searchain.chain"].render({**fields, "chains": [[]], "feedback": [first]})[-1]["content"]
    assert shown.startswith(before.partition("<passage")[0])  # servers can cache all that comes before


def test_feedback_and_instruction_agree_on_how_the_next_chain_begins() -> None:
    nothing = show_feedback([{"query": "A?", "answer": None, "passage": None}], {})
    assert nothing == 'Feedback on the query "A?". Nothing was found. Begin the new chain with a different query.'
    fields = {"question": "Q?", "kind": "qa", "open_book": True, "chains": [], "feedback": []}
    instruction = BOOK["searchain.chain"].render(fields)[0]["content"]
    assert "Begin the new chain with that query and its answer" in instruction
    assert "If nothing was found, begin with a different query instead." in instruction


@pytest.mark.parametrize("task", ["searchain.chain", "searchain.trace"])
def test_a_claim_is_called_a_claim(task: str) -> None:
    fields = {"question": "So?", "open_book": True, "chains": [], "feedback": [], "with_passages": False, "nodes": []}
    first = {kind: BOOK[task].render({**fields, "kind": kind})[-1]["content"].splitlines()[0] for kind in KINDS}
    assert first == {kind: "Claim: So?" if kind == "fact" else "Question: So?" for kind in KINDS}


def test_a_long_answer_is_written_from_the_passages_each_shown_once() -> None:
    tide, moon = Passage("t", "Tide", "Two a day."), Passage("m", "Moon", "It pulls.")
    path = [("A?", "a", tide), ("B?", "b", moon), ("C?", "c", tide), ("D?", "d", None)]
    nodes = [dict(zip(("query", "answer", "passage"), node, strict=True)) for node in path]
    fields = {"question": "Why?", "kind": "long", "with_passages": True, "nodes": nodes}
    instruction, *_, last = (turn["content"] for turn in BOOK["searchain.trace"].render(fields))
    assert "each with the passage that was found for it" in instruction
    assert [line for line in last.splitlines() if "assage" in line] == [
        *("<passage 1>", "</passage 1>", "<passage 2>", "</passage 2>"),
        "(passage 1 again)",
    ]
    assert "Two a day." in last
    instruction, *_, last = (
        turn["content"] for turn in BOOK["searchain.trace"].render({**fields, "with_passages": False})
    )
    assert "passage" not in instruction + last


LOOKED_UP = re.compile(
    r"look(?:ed|s)? (?:it |them )?up|search|retriev|document|passage|unsolved|feedback|checked", re.I
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rendering", ["text", "json"])
def test_a_closed_book_is_never_shown_a_search(kind: str, rendering: Rendering) -> None:
    fields = {"question": "Q?", "kind": kind, "open_book": False, "chains": [], "feedback": []}
    path = [{"query": "Who?", "answer": "Ann", "passage": None}]
    traced = {"question": "Q?", "kind": kind, "with_passages": False, "nodes": path}
    for task, given in (("searchain.chain", fields), ("searchain.trace", traced)):
        instruction = BOOK[task].render(given, rendering=rendering, shots=0)
        assert LOOKED_UP.findall(str(instruction).replace("to be checked", "")) == []
    with pytest.raises(Malformed) as refused:
        BOOK["searchain.chain"].read("I cannot say.", fields)
    assert "Unsolved" not in str(refused.value)


@pytest.mark.parametrize("task", ["searchain.chain", "searchain.trace"])
def test_every_kind_has_its_own_demonstrations(task: str) -> None:
    books = (True, False)
    suited = {
        kind: [BOOK[task].demonstrations_for({"kind": kind, "open_book": held}) for held in books] for kind in KINDS
    }
    shown = {kind: {id(demo) for demos in suited[kind] for demo in demos} for kind in KINDS}
    assert sum(map(len, shown.values())) == len(set.union(*shown.values())) == len(BOOK[task].demonstrations)


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
