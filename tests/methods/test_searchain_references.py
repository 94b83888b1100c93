"""SearChain's tracing (§3.3): marks resolved to passages, and what judges whether these support them."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.types import Span
from tests.kit.scene import notes
from tests.kit.searchain_case import FILM, MAN, OTHER, WHERE, WHO, Case, chain, path, span


async def test_marks_are_resolved_and_those_without_a_node_dropped() -> None:
    case = Case(
        chains=[chain(f"{WHO} = Rolf Anders", "Lost? = x", f"{WHERE} = a harbour")],
        content="By Rolf Anders [1, 7], lost [2]. A harbour [3] it was [3][0].",
    )
    answer = await case.play()
    assert [(c.marker, c.passage_id) for c in answer.citations] == [(1, "film"), (3, "man")]
    first, last = answer.citations
    assert FILM.text[first.start : first.end] == "Rolf Anders"
    assert (last.start, last.end) == (None, None)
    assert notes(answer)[0][1]["text"] == "By Rolf Anders [1], lost. A harbour [3] it was [3]."
    statistics = answer.statistics
    assert (
        statistics["skc"],
        statistics["references"],
        statistics["marks dropped"],
        statistics["supported references"],
    ) == (2, 3, 3, 1 / 3)


def references(answer: Answer) -> list[tuple[int, str, str, bool | None]]:
    """Marker, passage, fragment and verdict of every reference, as the trace records them."""
    (data,) = [data for name, data in notes(answer) if name == "final content"]
    return [(each["marker"], each["passage"], each["fragment"], each["supported"]) for each in data["references"]]


async def test_every_reference_has_its_fragment_and_verdict() -> None:
    case = Case(
        chains=[chain(f"{WHO} = Rolf Anders", f"{WHERE} = a harbour")],
        content="Well. It is by Mr. Rolf Anders [1], born in a harbour. [2][1] So it is [9].",
    )
    answer = await case.play()
    assert references(answer) == [
        (1, "film", "It is by Mr. Rolf Anders", True),
        (2, "man", "born in a harbour", False),
        (1, "film", "born in a harbour", True),
    ]
    assert notes(answer)[0][1]["references"][0]["how"] == "containment"
    assert answer.statistics["supported references"] == 2 / 3


@pytest.mark.parametrize(
    ("spans", "supported"),
    [
        ([span(FILM, "Rolf Anders", 0.9)], True),
        ([span(FILM, "Anders", 0.9)], True),  # it stands in the answer
        ([span(FILM, "Rolf Anders", 0.5)], False),  # not above θ
        ([span(FILM, "Rolf Anders", 0.9, answerable=False)], False),
        ([], False),
    ],
)
@pytest.mark.parametrize("verification", [True, False])
async def test_verify_by_the_reader(spans: list[Span], supported: bool, verification: bool) -> None:
    case = Case(chains=[chain(f"{WHO} = Rolf Anders")], spans={WHO: spans}, content="By him [1]. Him [1].")
    answer = await case.play(verify="reader", verification=verification)
    assert references(answer) == [(1, "film", "By him", supported), (1, "film", "Him", supported)]
    assert notes(answer)[0][1]["references"][0]["how"] == "reader"
    assert answer.statistics["supported references"] == float(supported)
    walk, read = ["chain", f"search {WHO}"], [f"read {WHO} in film"]  # the walk's reading serves; else there is one
    assert case.transcript == [*walk, *(read if verification else []), "trace", *(read if not verification else [])]


async def test_verify_by_the_reader_of_corrected_and_completed_nodes() -> None:
    lost = "Which river?"
    case = Case(
        chains=[chain(f"{WHO} = Ann Lee"), chain(WHERE), chain(lost), chain(f"{lost} = the Weser")],
        hits={WHO: [FILM], WHERE: [MAN], lost: [OTHER]},
        spans={WHO: [span(FILM, "Rolf Anders")], WHERE: [span(MAN, "Bremen", 0.1)]},
        content="By him [1], born there [2], on the Weser [3].",
    )
    answer = await case.play(verify="reader")
    assert [source for _, _, source in path(answer)] == ["corrected", "completed", "completed"]
    assert [verdict for *_, verdict in references(answer)] == [True, False, False]
    long = await case.play("long", verify="reader")  # a span is short of any ROUGE; it is the reader's own answer
    assert [verdict for *_, verdict in references(long)] == [True, False, False]


@pytest.mark.parametrize(("text", "supported"), [("Rolf Anders", False), ("Yes", True)])
async def test_a_span_that_does_not_correct_yes_does_not_support_it_either(text: str, supported: bool) -> None:
    spans = {WHO: [span(FILM, text, start=0, end=3)]}
    case = Case(chains=[chain(f"{WHO} = yes")], spans=spans, content="So it is [1].")
    answer = await case.play(verify="reader")
    assert path(answer) == [(WHO, "yes", "lm")]
    assert [verdict for *_, verdict in references(answer)] == [supported]


async def test_verify_none_takes_references_at_their_word() -> None:
    case = Case(chains=[chain(f"{WHO} = Ann Lee")], content="By her [1].")
    answer = await case.play(verify="none")
    assert references(answer) == [(1, "film", "By her", None)]
    assert "supported references" not in answer.statistics


async def test_verify_changes_nothing_else() -> None:
    def references_of(answer: Answer) -> Any:
        return answer.text, answer.citations, answer.passages, path(answer), answer.usage.calls_by_task

    case = Case(
        chains=[chain(f"{WHO} = Ann Lee", WHERE), chain(f"{WHERE} = Bremen")], spans={WHERE: [span(MAN, "1899")]}
    )
    first, *others = [await case.play(verify=how) for how in ("containment", "reader", "none")]
    assert all(references_of(other) == references_of(first) for other in others)


async def test_a_spent_budget_leaves_references_unverified() -> None:
    case = Case(chains=[chain(f"{WHO} = Rolf Anders")], spans={WHO: [span(FILM, "Rolf Anders")]}, content="By him [1].")
    first, last = (await case.play(verify="reader", verification=False)).trace.calls
    for last_of in (0, last.prompt_tokens + last.completion_tokens):
        spent = first.prompt_tokens + first.completion_tokens + last_of
        answer = await case.play(verify="reader", verification=False, max_tokens=spent + 1)
        assert [verdict for *_, verdict in references(answer)] == [last_of > 0]
        assert answer.trace.budget == (None if last_of else "max_tokens")


async def test_an_unreadable_content_leaves_the_last_chains_final_answer() -> None:
    case = Case(chains=[chain(f"{WHO} = Rolf Anders", final="Rolf Anders")], answer="")
    assert (await case.play()).text == "Rolf Anders"
