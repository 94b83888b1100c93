"""Tree of Reviews worked by hand, from the pool on: fusion, an empty pool, the context, the ranking."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.common.text import estimate_tokens
from polyhop.prompts.book import PromptBook
from polyhop.trace import Branch, Note
from tests.kit.scene import QUESTION, Scene, evidence, names, notes, passage

# --- fusion (Table 3) --------------------------------------------------------------------------------------------


class Reasoned(Scene):
    """A scene whose reviews explain what they accept."""

    def _script(self, task: str, fields: Any) -> Any:
        reply: Any = super()._script(task, fields)
        return {**reply, "analysis": f"It follows: {reply['answer']}."} if reply.get("supported") else reply


@pytest.mark.parametrize(
    ("settings", "mode", "times"),
    [
        ({}, "evidence", 1),
        ({"repeat_passages": True}, "repeated", 2),
        ({"fusion": "analysis", "repeat_passages": True}, "analysis", 0),
        ({"fusion": "paragraph", "repeat_passages": True}, "paragraph", 1),
    ],
)
async def test_fusion_shows_passages_analyses_or_both(settings: dict[str, Any], mode: str, times: int) -> None:
    """Tables 10 to 12: the evidence first, the question last. A passage of two pieces is shown once or twice."""
    scene = Reasoned(
        hits={"Q": "a b", "to c": "c", "also to c": "c"},
        reviews={"a": "search to c", "a c": "accept Xenia", "b": "search also to c", "b c": "accept Yusuf"},
    )
    answer = await scene.play("tor", expansion="direct", repetitive_pruning=False, shots=0, **settings)
    assert scene.transcript[-1] == f"fuse {mode}: a c = Xenia | b c = Yusuf"
    assert [piece.analysis for piece in answer.evidence] == ["It follows: Xenia.", "It follows: Yusuf."]
    shown = scene.model.calls[-1].messages[-1]["content"]
    for said in ("Xenia – It follows: Xenia.", "Yusuf – It follows: Yusuf."):
        assert (said in shown) == (mode != "paragraph")
    assert shown.count("c0 c1 c2") == times
    assert shown.count("a0 a1 a2") == (mode != "analysis")
    assert shown.endswith("\n\nQuestion: Q")


async def test_assertions_name_their_passages_by_number() -> None:
    scene = Scene(hits={"Q": "a b", "to c": "c"}, reviews={"a": "search to c", "a c": "accept X", "b": "accept Y"})
    await scene.play("tor", expansion="direct", shots=0)
    lines = scene.model.calls[-1].messages[-1]["content"].splitlines()
    assert lines[lines.index("<passage 3>") + 1] == "Title: B"
    assert lines[-4:-2] == ["Assertion 1 (from passages 1, 2): X", "Assertion 2 (from passage 3): Y"]


async def test_a_piece_without_an_answer_makes_no_assertion() -> None:
    """Its passages are read all the same."""
    scene = Scene(hits={"Q": "a b"}, reviews={"a": "accept", "b": "accept Y"})
    for settings in ({}, {"repeat_passages": True}, {"fusion": "analysis"}):
        await scene.play("tor", shots=0, **settings)
        shown = scene.model.calls[-1].messages[-1]["content"]
        assertions = [line for line in shown.splitlines() if line.startswith("Assertion ")]
        assert [line.partition(": ")[2] for line in assertions] == ["Y"]
        assert ("a0 a1 a2" in shown) is ("fusion" not in settings)


@pytest.mark.parametrize("fusion", ["evidence", "analysis", "paragraph"])
async def test_without_any_assertion_the_passages_are_read(fusion: str) -> None:
    scene = Scene(hits={"Q": "a"}, reviews={"a": "accept"})
    answer = await scene.play("tor", fusion=fusion)
    assert scene.transcript[-1] == "fuse paragraph: a = None"
    assert (evidence(answer), bool(answer.evidence)) == ([("a", None)], True)


# --- an empty pool -----------------------------------------------------------------------------------------------


async def test_an_empty_search_is_answered_closed_book() -> None:
    scene = Scene()
    answer = await scene.play("tor")
    assert scene.transcript == ["search Q, 5", "answer.cot"]
    assert (answer.text, answer.supported, answer.passages, answer.evidence) == ("the end", False, (), ())
    assert notes(answer) == [("empty pool", {"fallback": "closed book"})]
    assert answer.statistics == {"reviews": 0, "documents": 0, "evidence": 0}


async def test_nothing_relevant_is_answered_closed_book() -> None:
    scene = Scene(hits={"Q": "a b"})
    answer = await scene.play("tor")
    assert scene.transcript == ["search Q, 5", "review a", "review b", "answer.cot"]
    assert not answer.supported


@pytest.mark.parametrize("fusion", ["evidence", "analysis", "paragraph"])
async def test_an_empty_pool_is_answered_from_the_relevant_paths(fusion: str) -> None:
    scene = Scene(
        hits={"Q": "a b c", "1": "d e", "2": "d f"},
        reviews={"a": "search 1", "a d": "search on", "a e": "reject", "b": "reject", "c": "search 2"},
    )
    answer = await scene.play("tor", widths=(3, 2), expansion="direct", fusion=fusion)
    assert scene.transcript[-1] == "fuse paragraph: a d c = None"
    assert (answer.text, answer.supported, answer.evidence) == ("the end", False, ())
    assert names(answer.passages) == "a d c"  # what was read is ranked and cited
    assert [citation.passage_id for citation in answer.citations] == ["a", "d", "c"]
    assert notes(answer) == [("empty pool", {"fallback": "relevant passages"})]


async def test_a_relevant_path_goes_on_through_an_irrelevant_review() -> None:
    """With relevance pruning off an irrelevant path may be extended to a relevant one: all of it is shown, once."""
    scene = Scene(
        hits={"Q": "a", "1": "b", "2": "c"},
        reviews={"a": "search 1", "a b": "reject 2", "a b c": "search on"},
    )
    await scene.play("tor", widths=(1, 1, 1), expansion="direct", relevance_pruning=False)
    assert scene.transcript[-1] == "fuse paragraph: a b c = None"


# --- the context and the ranking ---------------------------------------------------------------------------------


def fused_tokens(scene: Scene, pieces: str, mode: str = "evidence") -> int:
    """Tokens of the fusion prompt over "a b = X | c = Y"; it is longer than that of a review of the same passages."""
    shown = []
    for piece in pieces.split(" | "):
        path, _, analysis = piece.partition(" = ")
        passages = [passage(n, scene.words.get(n, 3)) for n in path.split()]
        shown.append({"passages": passages, "answer": analysis, "analysis": None})
    turns = PromptBook()["tor.fuse"].render({"question": QUESTION, "evidence": shown, "mode": mode}, shots=3)
    return sum(estimate_tokens(turn["content"]) for turn in turns)


def three_pieces() -> Scene:
    return Scene(
        hits={"Q": "a b c"},
        reviews={"a": "accept X", "b": "accept Y", "c": "accept Z"},
        words={"a": 20, "b": 130, "c": 1},
    )


async def test_fusion_stops_at_the_first_piece_that_does_not_fit() -> None:
    """``c`` is short and would fit, but stands after ``b``, which does not."""
    scene = three_pieces()
    room = fused_tokens(scene, "a = X | c = Z")
    answer = await scene.play("tor", context_tokens=room)
    assert scene.transcript[-1] == "fuse evidence: a = X"
    assert evidence(answer) == [("a", "X")]  # what the prompt held
    assert notes(answer) == [("left out", {"evidence": ["B", "C"]})]
    assert [citation.passage_id for citation in answer.citations] == ["a"]
    assert names(answer.passages) == "a b c"  # the ranking is the pool's
    assert answer.statistics["evidence"] == 3


async def test_context_tokens_bound_the_whole_prompt_to_the_token() -> None:
    scene = three_pieces()
    whole = fused_tokens(scene, "a = X | b = Y | c = Z")
    await scene.play("tor", context_tokens=whole)
    assert scene.transcript[-1] == "fuse evidence: a = X | b = Y | c = Z"
    await scene.play("tor", context_tokens=whole - 1)
    assert scene.transcript[-1] == "fuse evidence: a = X | b = Y"


async def test_demonstrations_count_towards_the_context() -> None:
    scene = three_pieces()
    await scene.play("tor", context_tokens=fused_tokens(scene, "a = X | b = Y | c = Z"), shots=4)
    assert len(scene.model.calls[-1].fields["evidence"]) < 3


@pytest.mark.parametrize(("room", "words"), [(0, 200), (-1, 199), (-100, 120), (-215, 9)])
async def test_a_first_piece_that_does_not_fit_is_cut_from_the_end_of_its_passages(room: int, words: int) -> None:
    reviews = {"a": "search on", "a b": "accept X", "b": "accept X"}  # the review may have no room for a
    scene = Scene(hits={"Q": "a", "on": "b"}, reviews=reviews, words={"a": 5, "b": 200})
    limit = fused_tokens(scene, "a b = X") + room
    answer = await scene.play("tor", expansion="direct", context_tokens=limit)
    first, last = scene.model.calls[-1].fields["evidence"][0]["passages"]
    assert first.text == passage("a", 5).text
    assert passage("b", 200).text.startswith(last.text)
    assert abs(len(last.text.split()) - words) <= 2
    sent = sum(estimate_tokens(turn["content"]) for turn in scene.model.calls[-1].messages)
    assert limit - 1 <= sent <= limit
    assert notes(answer)[-1:] == ([("left out", {"shortened": ["B"]})] if room else [])
    assert [(piece.id, piece.text) for piece in answer.evidence[0].passages] == [
        ("a", passage("a", 5).text), ("b", passage("b", 200).text)
    ]  # fmt: skip


async def test_a_passage_that_has_no_room_at_all_is_left_out() -> None:
    scene = Scene(hits={"Q": "a", "on": "b"}, reviews={"a": "search on", "a b": "accept X"}, words={"a": 5, "b": 5})
    answer = await scene.play("tor", expansion="direct", context_tokens=fused_tokens(scene, "a = X"))
    assert scene.transcript[-1] == "fuse evidence: a = X"
    assert evidence(answer) == [("a", "X")]
    assert notes(answer) == [("left out", {"passages": ["B"]})]
    answer = await scene.play("tor", expansion="direct", context_tokens=fused_tokens(scene, " = X") - 1)
    assert scene.transcript[-1] == "fuse evidence:  = X"
    assert (answer.evidence, answer.supported, names(answer.passages)) == ((), False, "a b")


async def test_the_fallbacks_passages_are_cut_too() -> None:
    scene = Scene(hits={"Q": "a b"}, reviews={"a": "search", "b": "search"}, words={"a": 3, "b": 300})
    room = fused_tokens(scene, "a = ", "paragraph")
    answer = await scene.play("tor", widths=(2,), context_tokens=room)
    assert scene.transcript[-1] == "fuse paragraph: a = None"
    assert names(answer.passages) == "a"  # what was read


@pytest.mark.parametrize(
    ("shown", "note"),
    [
        ([("a", 60), ("b", 40), ("c", 20)], {}),
        ([("a", 0), ("b", 40), ("c", 20)], {"shortened": ["A"]}),
        ([("a", 0), ("b", 0), ("c", 20)], {"shortened": ["B", "A"]}),
        ([("b", 0), ("c", 20)], {"shortened": ["B"], "passages": ["A"]}),
        ([("c", 20)], {"passages": ["B", "A"]}),
        ([("c", 12)], {"shortened": ["C"], "passages": ["B", "A"]}),
    ],
)
async def test_a_path_that_does_not_fit_loses_its_oldest_passages_first(
    shown: list[tuple[str, int]], note: dict[str, list[str]]
) -> None:
    """They become titles, then they go; the newest, which the review is about, is cut last."""
    scene = Scene(
        hits={"Q": "a", "1": "b", "2": "c"},
        reviews={"a": "search 1", "a b": "search 2", "b": "search 2"},
        missing={"a": "1", "a b": "2", "b": "2"},
        words={"a": 60, "b": 40, "c": 20},
    )
    path = [passage(name, words) for name, words in shown]
    fields = {"question": QUESTION, "passages": path, "thoughts": False, "asks_query": False}
    room = sum(estimate_tokens(turn["content"]) for turn in PromptBook()["tor.review"].render(fields, shots=0))
    answer = await scene.play("tor", widths=(1, 1, 1), context_tokens=room, shots=0)
    last = [call for call in scene.model.calls if call.task == "tor.review"][-1]
    assert [(p.id, len(p.text.split())) for p in last.fields["passages"]] == shown
    assert all(sum(estimate_tokens(turn["content"]) for turn in c.messages) <= room for c in scene.model.calls)
    branch = [step for step in answer.trace.steps if isinstance(step, Branch)][-1]
    assert [dict(n.data) for n in answer.trace.steps if isinstance(n, Note) and n.parent == branch.id] == [note] * bool(
        note
    )


async def test_past_the_rank_limit_evidence_is_ranked_by_its_likeness_to_the_response() -> None:
    scene = Scene(
        hits={"Q": "a b c"},
        reviews={"a": "accept X", "b": "accept Y", "c": "accept Zanzibar"},
        answer="Zanzibar c0 c1 b1",
    )
    answer = await scene.play("tor", rank_limit=2)
    assert names(answer.passages) == "c b"
    assert evidence(answer) == [("a", "X"), ("b", "Y"), ("c", "Zanzibar")]  # the evidence keeps the pool's order
    within = await scene.play("tor", rank_limit=3)
    assert names(within.passages) == "a b c"


async def test_the_rationale_counts_in_the_ranking() -> None:
    class Reasoned(Scene):
        def _script(self, task: str, fields: Any) -> Any:
            found = super()._script(task, fields)
            return {"rationale": "By c1 and c2.", "answer": "yes"} if task == "tor.fuse" else found

    scene = Reasoned(hits={"Q": "a b c"}, reviews={"a": "accept X", "b": "accept Y", "c": "accept Z"})
    answer = await scene.play("tor", rank_limit=1)
    assert names(answer.passages) == "c"


async def test_a_passage_of_two_pieces_is_ranked_once() -> None:
    scene = Scene(
        hits={"Q": "a b", "to c": "c"},
        reviews={"a": "search to c", "b": "search to c", "a c": "accept X", "b c": "accept Y"},
    )
    answer = await scene.play("tor", expansion="direct", repetitive_pruning=False)
    assert names(answer.passages) == "a c b"
