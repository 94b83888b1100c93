"""The chain and the one-call methods worked by hand: ``cor``, ``direct``, ``cot``, ``one-r``."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.common.text import estimate_tokens
from polyhop.errors import SettingError
from polyhop.trace import Branch
from tests.kit.scene import Scene, evidence, names, notes


def turns(answer: Answer) -> list[tuple[str, str | None]]:
    """The query and the verdict of each round."""
    return [(step.label, step.verdict) for step in answer.trace.steps if isinstance(step, Branch)]


# --- cor (§4.4 "CoR", Table 13) ----------------------------------------------------------------------------------


async def test_cor_reviews_everything_found_so_far() -> None:
    scene = Scene(
        hits={"Q": "a b c d e f", "second": "b g", "third": "h a i"},
        reviews={
            "a b c d e": "search second",
            "a b c d e g": "reject third",  # irrelevant is no end for a chain
            "a b c d e g h i": "accept X",
        },
    )
    answer = await scene.play("cor")
    assert scene.transcript == [
        "search Q, 5",
        "think a b c d e",
        "search second, 5",
        "think a b c d e g",
        "search third, 5",
        "think a b c d e g h i",
        "fuse evidence: a b c d e g h i = X",
    ]
    assert (answer.text, bool(answer.evidence)) == ("the end", True)
    assert names(answer.passages) == "a b c d e g h i"
    assert evidence(answer) == [("a b c d e g h i", "X")]
    assert answer.statistics == {"rounds": 3}
    assert turns(answer) == [("Q", "search"), ("second", "search"), ("third", "accept")]


async def test_cor_stops_when_the_passages_are_enough() -> None:
    scene = Scene(hits={"Q": "a"}, reviews={"a": "accept X"})
    await scene.play("cor")
    assert scene.transcript == ["search Q, 5", "think a", "fuse evidence: a = X"]


async def test_cor_takes_support_without_relevance_for_a_rejection() -> None:
    """The review has no query, so that the question would be searched again: the chain ends."""
    scene = Scene(hits={"Q": "a"}, reviews={"a": "claim X"})
    answer = await scene.play("cor")
    assert scene.transcript == ["search Q, 5", "think a", "fuse paragraph: a = None"]
    assert (answer.evidence, answer.supported, names(answer.passages)) == ((), False, "a")
    assert turns(answer) == [("Q", "stop")]


async def test_cor_stops_after_three_searches_and_reads_what_it_has() -> None:
    scene = Scene(
        hits={"Q": "a", "1": "b", "2": "c", "3": "d"},
        reviews={"a": "search 1", "a b": "search 2", "a b c": "search 3"},
    )
    answer = await scene.play("cor")
    assert scene.transcript[-2:] == ["think a b c", "fuse paragraph: a b c = None"]
    assert turns(answer) == [("Q", "search"), ("1", "search"), ("2", "stop")]
    assert (answer.supported, answer.evidence) == (False, ())
    assert names(answer.passages) == "a b c"


async def test_cor_does_not_show_the_analysis_of_a_chain_that_was_not_accepted() -> None:
    scene = Scene(hits={"Q": "a"}, reviews={"a": "guess X"})
    await scene.play("cor", max_turns=1)
    assert scene.transcript[-1] == "fuse paragraph: a = None"


@pytest.mark.parametrize("query", ["next", "Next?", "the next", "Q", ""])
async def test_cor_ends_with_a_query_that_was_searched(query: str) -> None:
    """Without a query the question would be searched again."""
    scene = Scene(hits={"Q": "a", "next": "b"}, reviews={"a": "search next", "a b": f"search {query}".strip()})
    answer = await scene.play("cor")
    assert scene.transcript[2:] == ["search next, 5", "think a b", "fuse paragraph: a b = None"]
    assert answer.statistics == {"rounds": 2}
    assert turns(answer) == [("Q", "search"), ("next", "stop")]


async def test_cor_ends_with_a_search_that_finds_nothing_new() -> None:
    """The same review would follow."""
    scene = Scene(hits={"Q": "a", "next": "a"}, reviews={"a": "search next"})
    answer = await scene.play("cor")
    assert scene.transcript == ["search Q, 5", "think a", "search next, 5", "fuse paragraph: a = None"]
    assert turns(answer) == [("Q", "search"), ("next", "stop")]


async def test_cor_with_nothing_found_is_supported_by_nothing() -> None:
    scene = Scene(reviews={"": "claim X"})
    answer = await scene.play("cor")
    assert scene.transcript == ["search Q, 5", "answer.cot"]
    assert (answer.text, answer.supported, answer.evidence, answer.passages) == ("the end", False, (), ())


async def test_cor_that_cannot_be_read_is_not_supported() -> None:
    scene = Scene(hits={"Q": "a"}, reviews={"a": "unreadable"})
    answer = await scene.play("cor", max_turns=1)
    assert scene.transcript == ["search Q, 5", "think a", "think a", "fuse paragraph: a = None"]
    assert not answer.supported


async def test_cors_settings() -> None:
    scene = Scene(hits={"Q": "a b c", "1": "d e f"}, reviews={"a b": "search 1", "a b d e": "accept X"})
    answer = await scene.play("cor", k=2, thoughts=False, fusion="paragraph", shots=1, rank_limit=3)
    assert scene.transcript == [
        "search Q, 2",
        "review a b",
        "search 1, 2",
        "review a b d e",
        "fuse paragraph: a b d e = X",
    ]
    assert [len(call.messages) for call in scene.model.calls] == [4, 4, 4]
    assert names(answer.passages) == "a b d"
    assert names(answer.evidence[0].passages) == "a b d e"


async def test_cor_cuts_its_one_piece_to_the_context() -> None:
    scene = Scene(hits={"Q": "a b"}, reviews={"a b": "accept X"})
    answer = await scene.play("cor", thoughts=False, context_tokens=800)
    assert scene.transcript[-1] == "fuse evidence:  = X"
    assert notes(answer) == [("left out", {"passages": ["A", "B"]})]
    assert (answer.evidence, answer.supported, names(answer.passages)) == ((), False, "a b")


async def test_cor_keeps_its_reviews_to_the_context() -> None:
    """The oldest passages become titles first."""
    scene = Scene(
        hits={"Q": "a", "next": "b"}, reviews={"a": "search next", "a b": "accept X"}, words={"a": 400, "b": 400}
    )
    answer = await scene.play("cor", shots=0, context_tokens=1000)
    first, second = (call.fields["passages"] for call in scene.model.calls[:2])
    assert [len(p.text.split()) for p in first] == [400]
    assert [len(p.text.split()) for p in second] == [0, 400]
    assert all(sum(estimate_tokens(turn["content"]) for turn in c.messages) <= 1000 for c in scene.model.calls)
    assert ("left out", {"shortened": ["A"]}) in notes(answer)
    assert (evidence(answer), bool(answer.evidence)) == ([("a b", "X")], True)


async def test_cor_defaults_to_five_passages_three_turns_and_fifteen_ranked() -> None:
    letters = "a b c d e f g h i j k l m n o p q r"
    reviews = {"a b c d e": "search 1", "a b c d e f": "search 2", "a b c d e f g": "search 3"}
    scene = Scene(hits={"Q": letters, "1": "f", "2": "g", "3": "h"}, reviews=reviews)
    answer = await scene.play("cor")
    searches = [line for line in scene.transcript if line.startswith("search")]
    assert searches == ["search Q, 5", "search 1, 5", "search 2, 5"]
    scene = Scene(hits={"Q": letters})
    answer = await scene.play("cor", k=18)
    assert names(answer.passages) == letters[: 2 * 15 - 1]


# --- direct and cot ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "task"), [("direct", "answer.direct"), ("cot", "answer.cot")])
@pytest.mark.parametrize("shots", [0, 2, 3])
async def test_closed_book_is_one_call(method: str, task: str, shots: int) -> None:
    scene = Scene()
    answer = await scene.play(method, shots=shots)
    assert scene.transcript == [task]
    assert (answer.text, answer.supported, answer.passages, answer.evidence) == ("the end", False, (), ())
    assert len(scene.model.calls[0].messages) == 2 + 2 * shots
    assert scene.model.calls[0].fields == {"question": "Q", "kind": "qa"}
    assert (answer.usage.calls, answer.usage.layers, answer.usage.searches) == (1, 1, 0)


# --- one-r -------------------------------------------------------------------------------------------------------

SIXTEEN = "a b c d e f g h i j k l m n o p"


@pytest.mark.parametrize(("style", "task"), [("direct", "answer.read"), ("cot", "answer.read_cot")])
async def test_one_retrieval_reads_five_and_ranks_fifteen(style: str, task: str) -> None:
    scene = Scene(hits={"Q": SIXTEEN})
    answer = await scene.play("one-r", style=style)
    assert scene.transcript == ["search Q, 15", f"{task} a b c d e"]
    assert names(answer.passages) == SIXTEEN[: 2 * 15 - 1]
    assert evidence(answer) == [("a b c d e", "the end")]
    assert answer.evidence
    assert len(scene.model.calls[0].messages) == 2 + 2 * 3


async def test_one_retrieval_reads_directly_by_default() -> None:
    scene = Scene(hits={"Q": "a"})
    await scene.play("one-r")
    assert scene.transcript == ["search Q, 15", "answer.read a"]


@pytest.mark.parametrize(
    ("settings", "searched", "read", "ranked"),
    [
        ({"k": 2}, 15, "a b", SIXTEEN[: 2 * 15 - 1]),
        ({"k": 2, "rank_limit": 4}, 4, "a b", "a b c d"),
        ({"k": 4, "rank_limit": 2}, 4, "a b c d", "a b"),
    ],
)
async def test_one_retrievals_limits(settings: dict[str, Any], searched: int, read: str, ranked: str) -> None:
    scene = Scene(hits={"Q": SIXTEEN})
    answer = await scene.play("one-r", **settings)
    assert scene.transcript == [f"search Q, {searched}", f"answer.read {read}"]
    assert names(answer.passages) == ranked


@pytest.mark.parametrize("style", ["direct", "cot"])
async def test_one_retrieval_that_finds_nothing_answers_closed_book(style: str) -> None:
    scene = Scene()
    answer = await scene.play("one-r", style=style, shots=1)
    assert scene.transcript == ["search Q, 15", "answer.cot"]
    assert (answer.supported, answer.evidence) == (False, ())
    assert len(scene.model.calls[0].messages) == 4


async def test_one_retrieval_fits_a_budget_of_one_call() -> None:
    scene = Scene(hits={"Q": "a"})
    answer = await scene.play("one-r", max_calls=1)
    assert scene.transcript == ["search Q, 15", "answer.read a"]
    assert answer.trace.budget is None


@pytest.mark.parametrize(
    ("method", "setting"),
    [("cor", {"k": 0}), ("cor", {"max_turns": 0}), ("one-r", {"style": "long"}), ("direct", {"shots": -1})],
)
async def test_a_setting_they_cannot_take_is_named(method: str, setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"{method}: {next(iter(setting))}="):
        await Scene().play(method, **setting)
