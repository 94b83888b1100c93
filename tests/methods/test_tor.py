"""Tree of Reviews worked by hand: the defaults and every setting that shapes the tree, each small enough to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.trace import Ask, Branch
from tests.kit.scene import Scene, evidence, names, notes, passage


def verdicts(answer: Answer) -> list[tuple[str, str | None]]:
    return [(step.label, step.verdict) for step in answer.trace.steps if isinstance(step, Branch)]


# --- the defaults ------------------------------------------------------------------------------------------------


async def test_the_defaults() -> None:
    scene = Scene(
        hits={"Q": "a b c d e f", "about d": "x y z w", "about y": "b c p q"},
        reviews={
            "a": "reject",
            "b": "accept Anna",
            "d": "search who is d",
            "d x": "reject",
            "d y": "search who is y",
            "d y p": "accept Paula",
            "d z": "search more",
        },
        missing={"d": "about d", "d y": "about y", "d z": "about z"},
        answer="Paula",
    )
    answer = await scene.play("tor")
    assert scene.transcript == [
        "search Q, 5",
        "review a",
        "review b",  # accepted: b is in the pool from here on
        "review c",
        "review d",
        "complete d",
        "search about d, 3",  # the missing paragraph is the query
        "review d x",
        "review d y",
        "complete d y",
        "search about y, 3",  # b, c and p: b is pruned, and nothing is fetched in its place
        "review d y c",
        "review d y p",  # the last layer, accepted
        "review d z",
        "complete d z",
        "search about z, 3",
        "review e",  # depth first: the last of the root's five comes last
        "fuse evidence: b = Anna | d y p = Paula",
    ]
    assert answer.text == "Paula"
    assert answer.evidence
    assert evidence(answer) == [("b", "Anna"), ("d y p", "Paula")]
    assert names(answer.passages) == "b d y p"
    assert answer.statistics == {"reviews": 10, "documents": 9, "evidence": 2}
    assert answer.usage.calls_by_task == {"tor.review": 10, "tor.complete": 3, "tor.fuse": 1}
    assert answer.usage.searches == 4
    assert notes(answer) == []


async def test_verdicts_and_the_tree_stand_in_the_trace() -> None:
    scene = Scene(
        hits={"Q": "a b", "go": "d e f"},
        reviews={"a": "search go", "a d": "accept X", "a e": "search on", "a f": "reject", "b": "guess Y"},
    )
    answer = await scene.play("tor", widths=(2, 3), expansion="direct")
    assert verdicts(answer) == [("A", "search"), ("D", "accept"), ("E", "stop"), ("F", "reject"), ("B", "search")]
    branches = [step for step in answer.trace.steps if isinstance(step, Branch)]
    root = branches[0].id
    assert [branch.parent for branch in branches] == [None, root, root, root, None]
    reviews = [call for call in answer.trace.calls if call.task == "tor.review"]
    assert [review.parent for review in reviews] == [branch.id for branch in branches]


async def test_the_whole_path_is_shown_in_order_and_no_other_passage() -> None:
    scene = Scene(hits={"Q": "a b", "go": "c"}, reviews={"b": "search go", "b c": "accept X"})
    await scene.play("tor", expansion="direct", shots=0)
    prompt = scene.prompt(call=2)
    assert prompt.index("b0 b1 b2") < prompt.index("c0 c1 c2")
    assert "a0 a1 a2" not in prompt


# --- expansion (Table 4) -----------------------------------------------------------------------------------------

SEARCHED = {"a": "search next", "a b": "accept X"}


@pytest.mark.parametrize(
    ("expansion", "expected"),
    [
        ("direct", ["search Q, 5", "review a", "search next, 3", "review a b"]),
        ("cot", ["search Q, 5", "think a", "search next, 3", "think a b"]),
        ("mpc", ["search Q, 5", "review a", "complete a", "search the missing paragraph, 3", "review a b"]),
    ],
)
async def test_expansion(expansion: str, expected: list[str]) -> None:
    scene = Scene(
        hits={"Q": "a", "next": "b", "the missing paragraph": "b"},
        reviews=SEARCHED,
        missing={"a": "the missing paragraph"},
    )
    await scene.play("tor", expansion=expansion)
    assert scene.transcript == [*expected, "fuse evidence: a b = X"]


async def test_mpc_keeps_its_own_answer_in_the_trace_unused() -> None:
    scene = Scene(hits={"Q": "a"}, reviews={"a": "search next"}, missing={"a": "info"})
    answer = await scene.play("tor")
    completed = next(call for call in answer.trace.calls if call.task == "tor.complete")
    assert completed.output == {"thought": None, "information": "info", "answer": "a guess"}
    assert answer.text == "the end"


async def test_mpc_is_not_asked_in_the_last_layer() -> None:
    scene = Scene(hits={"Q": "a", "info": "b"}, reviews={"a": "search", "a b": "search"}, missing={"a": "info"})
    await scene.play("tor", widths=(1, 1))
    assert "complete a" in scene.transcript
    assert "complete a b" not in scene.transcript


@pytest.mark.parametrize("missing", ["", "unreadable"])
@pytest.mark.parametrize("query", [None, "mpc", "both"])
async def test_mpc_without_information_searches_the_question_or_a_query_of_the_review(
    missing: str, query: str | None
) -> None:
    """A review under mpc is not asked for a query, which would be thrown away."""
    scene = Scene(
        hits={"Q": "a"}, reviews={"a": "search next" if query == "both" else "search"}, missing={"a": missing}
    )
    await scene.play("tor", widths=(1, 1), query=query)
    assert scene.model.calls[0].fields["asks_query"] is (query == "both")
    assert ("[QUERY]" in scene.prompt(0)) is (query == "both")
    assert scene.transcript[-2] == ("search next, 1" if query == "both" else "search Q, 1")


@pytest.mark.parametrize("expansion", ["direct", "cot", "mpc"])
async def test_without_any_query_the_question_is_searched(expansion: str) -> None:
    scene = Scene(hits={"Q": "a b"}, reviews={"a": "search", "a b": "accept X"})
    await scene.play("tor", expansion=expansion)
    assert [line for line in scene.transcript if line.startswith("search")] == ["search Q, 5", "search Q, 3"]


# --- pruning (Table 5) -------------------------------------------------------------------------------------------


async def test_relevance_pruning_off_expands_an_irrelevant_node_like_an_insufficient_one() -> None:
    scene = Scene(
        hits={"Q": "a", "the rest": "b", "more": "c"},
        reviews={"a": "reject look", "a b": "claim X", "a b c": "accept Y"},
        missing={"a": "the rest", "a b": "more"},
    )
    answer = await scene.play("tor", relevance_pruning=False)
    assert scene.transcript == [
        "search Q, 5",
        "review a",
        "complete a",
        "search the rest, 3",
        "review a b",  # supported though irrelevant: neither accepted nor, now, rejected
        "complete a b",
        "search more, 3",
        "review a b c",
        "fuse evidence: a b c = Y",
    ]
    assert answer.statistics["evidence"] == 1


async def test_relevance_pruning_rejects_whatever_supported_says() -> None:
    scene = Scene(hits={"Q": "a"}, reviews={"a": "claim X"})
    answer = await scene.play("tor")
    assert scene.transcript == ["search Q, 5", "review a", "answer.cot"]
    assert verdicts(answer) == [("A", "reject")]


@pytest.mark.parametrize(
    ("settings", "reviewed"),
    [
        ({}, ["a", "a c", "b"]),
        ({"repetitive_pruning": False}, ["a", "a c", "b", "b a", "b c"]),
        ({"repetitive_pruning": False, "prune_when": "review"}, ["a", "a c", "b", "b a", "b c"]),
    ],
)
async def test_repetitive_pruning_drops_hits_that_are_in_the_pool(
    settings: dict[str, Any], reviewed: list[str]
) -> None:
    scene = Scene(
        hits={"Q": "a b", "to c": "c", "from b": "a c"},
        reviews={"a": "search to c", "a c": "accept X", "b": "search from b"},
    )
    await scene.play("tor", expansion="direct", **settings)
    assert [line.removeprefix("review ") for line in scene.transcript if "review" in line] == reviewed


@pytest.mark.parametrize(("prune_when", "reviewed"), [("retrieval", ["a", "a b", "b"]), ("review", ["a", "a b"])])
async def test_prune_when_review_looks_at_the_pool_once_more(prune_when: str, reviewed: list[str]) -> None:
    """``b`` was retrieved with ``a``, before ``a``'s own subtree put it into the pool."""
    scene = Scene(hits={"Q": "a b", "to b": "b"}, reviews={"a": "search to b", "a b": "accept X"})
    answer = await scene.play("tor", expansion="direct", prune_when=prune_when)
    assert [line.removeprefix("review ") for line in scene.transcript if "review" in line] == reviewed
    assert answer.statistics["reviews"] == len(reviewed)


async def test_an_accepted_path_is_not_expanded_by_default() -> None:
    scene = Scene(hits={"Q": "a"}, reviews={"a": "accept X"})
    await scene.play("tor", relevance_pruning=False, repetitive_pruning=False)
    assert scene.transcript == ["search Q, 5", "review a", "fuse evidence: a = X"]


@pytest.mark.parametrize("early_stop", [None, 1])
async def test_accepted_paths_are_expanded_on_request(early_stop: int | None) -> None:
    """Not if the answer is settled, and not below the last layer."""
    scene = Scene(
        hits={"Q": "a", "more of a": "a b"}, reviews={"a": "accept X", "a b": "accept Y"}, missing={"a": "more of a"}
    )
    answer = await scene.play("tor", widths=(1, 2), expand_accepted=True, early_stop=early_stop)
    below = ["complete a", "search more of a, 2", "review a b"]
    pieces = ["a = X", "a b = Y"] if early_stop is None else ["a = X"]
    assert scene.transcript == [
        "search Q, 1", "review a", *(below if early_stop is None else []), f"fuse evidence: {' | '.join(pieces)}"
    ]  # fmt: skip
    assert verdicts(answer) == [("A", "accept"), ("B", "accept")][: len(pieces)]


async def test_a_passage_never_repeats_on_a_path() -> None:
    scene = Scene(hits={"Q": "a", "on": "a b a", "and on": "b a"}, reviews={"a": "search on", "a b": "search and on"})
    await scene.play("tor", expansion="direct", relevance_pruning=False, repetitive_pruning=False)
    assert [line for line in scene.transcript if "review" in line] == ["review a", "review a b"]


# --- depth and width (Table 6) -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ((2,), ["search Q, 2", "review a", "review b"]),
        ((1, 2), ["search Q, 1", "review a", "search 1, 2", "review a c", "review a d"]),
        (
            (1, 1, 2),
            ["search Q, 1", "review a", "search 1, 1", "review a c", "search 2, 2", "review a c e", "review a c f"],
        ),
    ],
)
async def test_widths(widths: tuple[int, ...], expected: list[str]) -> None:
    """Each layer asks for its own number of passages; in the last, a path that is not enough ends unaccepted."""
    scene = Scene(
        hits={"Q": "a b x", "1": "c d x", "2": "e f x"},
        reviews={"a": "search 1", "b": "search 1", "a c": "search 2", "a d": "search 2", "a c e": "search 3"},
    )
    answer = await scene.play("tor", widths=widths, expansion="direct")
    assert scene.transcript[:-1] == expected
    assert answer.evidence == ()


class Endless(Scene):
    """Every search finds passages never seen before, and nothing is ever enough."""

    def _search(self, query: str, k: int) -> list[Any]:
        self.transcript.append(f"search {query}, {k}")
        return [passage(f"{len(self.transcript)}-{number}") for number in range(k)]


@pytest.mark.parametrize(("widths", "reviews"), [((5, 3, 3), 65), ((5, 3), 20), ((10, 5, 3), 210)])
async def test_a_full_tree_counts_what_the_paper_counts(widths: tuple[int, ...], reviews: int) -> None:
    """Table 5, last row: 65 = 5 + 15 + 45 reviews when nothing is pruned; accepted nodes are expanded too."""
    for review, pieces in (("reject", 0), ("accept X", reviews)):
        scene = Endless(otherwise=review)
        pruning = {"relevance_pruning": False, "repetitive_pruning": False, "expand_accepted": True}
        answer = await scene.play("tor", widths=widths, expansion="direct", shots=0, **pruning)
        assert answer.statistics == {"reviews": reviews, "documents": reviews, "evidence": pieces}
        last = "tor.fuse" if pieces else "answer.cot"
        assert answer.usage.calls_by_task == {"tor.review": reviews, last: 1}


async def test_documents_are_counted_once_and_reviews_every_time() -> None:
    scene = Scene(hits={"Q": "a b", "on": "b c"}, reviews={"a": "search on", "b": "search on"})
    answer = await scene.play("tor", widths=(2, 2), expansion="direct")
    assert [line for line in scene.transcript if "review" in line] == [
        "review a",
        "review a b",
        "review a c",
        "review b",
        "review b c",
    ]
    assert answer.statistics == {"reviews": 5, "documents": 3, "evidence": 0}


# --- replies that cannot be read ---------------------------------------------------------------------------------


async def test_a_review_that_cannot_be_read_twice_is_a_rejection() -> None:
    scene = Scene(hits={"Q": "a b"}, reviews={"a": "unreadable", "b": "accept X"})
    answer = await scene.play("tor")
    assert scene.transcript == ["search Q, 5", "review a", "review a", "review b", "fuse evidence: b = X"]
    assert verdicts(answer) == [("A", "reject"), ("B", "accept")]
    assert answer.statistics["reviews"] == 2  # one review, however often it had to be asked for
    assert answer.usage.calls_by_task["tor.review"] == 3
    assert answer.usage.malformed_by_task == {"tor.review": 2}
    assert answer.usage.defaulted_by_task == {"tor.review": 1}


class Speaking(Scene):
    """A scene whose model says its ``answer`` as it is, in no form, when it is asked for the answer."""

    def _script(self, task: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | str:
        reply = super()._script(task, fields)
        return self.answer if task == "tor.fuse" else reply


PROSE = "The three passages were read one by one and then compared with each other with great care. It may be Oslo."
REFUSAL = (
    "I'm sorry, but I cannot answer this question from the passages that were provided to me. Please provide the "
    "passages about the city in which he was born."
)


@pytest.mark.parametrize("said", ["", PROSE])
async def test_an_answer_that_cannot_be_read_twice_is_the_most_frequent_of_the_pool(said: str) -> None:
    """Also if the reply ends in words that could be an answer."""
    reviews = {"a": "accept Oslo", "b": "accept Rome", "c": "accept the Rome"}
    scene = Speaking(hits={"Q": "a b c"}, reviews=reviews, answer=said)
    answer = await scene.play("tor")
    assert (answer.text, bool(answer.evidence), answer.parsed) == ("Rome", True, True)
    assert [citation.passage_id for citation in answer.citations] == ["b", "c"]
    fallback = ("unread", {"fallback": "the most frequent answer of the evidence", "answer": "Rome"})
    assert notes(answer)[-1] == fallback
    assert answer.usage.defaulted_by_task == {"tor.fuse": 1}


@pytest.mark.parametrize(("said", "calls"), [("I don't know.", 1), ("The answer is unknown.", 1), (REFUSAL, 2)])
async def test_a_refusal_is_an_abstention_whatever_its_form(said: str, calls: int) -> None:
    """The reader saw the evidence and does not believe it: what the pool says is no answer then."""
    scene = Speaking(hits={"Q": "a"}, reviews={"a": "accept Oslo"}, answer=said)
    answer = await scene.play("tor")
    assert (answer.text, answer.abstained, answer.supported) == ("", True, False)
    assert "unread" not in dict(notes(answer))
    assert answer.usage.calls_by_task["tor.fuse"] == calls


@pytest.mark.parametrize(("said", "kept"), [("", ""), (PROSE, "It may be Oslo.")])
async def test_an_answer_that_cannot_be_read_and_has_no_evidence_is_what_the_reply_ends_in(
    said: str, kept: str
) -> None:
    scene = Speaking(hits={"Q": "a"}, reviews={"a": "search"}, answer=said)
    answer = await scene.play("tor", widths=(1,))
    assert (answer.text, answer.supported, answer.parsed) == (kept, False, False)


async def test_enough_without_an_answer_twice_is_accepted_without_analysis() -> None:
    scene = Scene(hits={"Q": "a b"}, reviews={"a": "accept", "b": "accept X"})
    answer = await scene.play("tor")
    assert scene.transcript == ["search Q, 5", "review a", "review a", "review b", "fuse evidence: a = None | b = X"]
    assert verdicts(answer) == [("A", "accept"), ("B", "accept")]
    assert evidence(answer) == [("a", None), ("b", "X")]
    assert answer.usage.malformed_by_task == {"tor.review": 2}


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shots", [0, 1, 3])
async def test_every_call_shows_as_many_demonstrations_as_shots(shots: int) -> None:
    scene = Scene(hits={"Q": "a"}, reviews={"a": "search next"}, missing={"a": "info"})
    await scene.play("tor", shots=shots)
    assert [call.task for call in scene.model.calls] == ["tor.review", "tor.complete", "tor.fuse"]
    assert [len(call.messages) for call in scene.model.calls] == [2 + 2 * shots] * 3
    closed = Scene()
    await closed.play("tor", shots=shots)
    assert len(closed.model.calls[0].messages) == 2 + 2 * shots


async def test_the_last_call_alone_is_final() -> None:
    for scene in (Scene(), Scene(hits={"Q": "a"}, reviews={"a": "accept X"})):
        answer = await scene.play("tor")
        finals = [call.final for call in answer.trace.calls if isinstance(call, Ask)]
        assert finals == [False] * (len(finals) - 1) + [True]
