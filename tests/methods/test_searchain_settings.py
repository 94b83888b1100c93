"""SearChain's settings: every ablation of its Tables 1, 7 and 8 changes exactly what it should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from polyhop.errors import SettingError, UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Kind, Passage, Span, SpanChoice
from tests.kit.searchain_case import FILM, MAN, QUESTION, WHERE, WHO, Case, chain, path, span

# --- agreement (§3.3, Table 7) -----------------------------------------------------------------------------------

LONG = "It is a film of 1931 by Rolf Anders"  # 8 of its 9 words stand in this order among the passage's 10


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({}, "lm"),
        ({"rouge": 0.84}, "lm"),
        ({"rouge": 0.85}, "corrected"),  # F = 16/19 = 0.842
        ({"rouge": 0.85, "rouge_kind": "precision"}, "lm"),  # 8/9
        ({"rouge": 0.80, "rouge_kind": "recall"}, "corrected"),  # 8/10: not above
        ({"rouge": 0.85, "confidence": 0.9}, "lm"),  # the gate holds here too
        ({"form": "short"}, "corrected"),
    ],
)
async def test_long_form_compares_answer_and_passage(given: dict[str, Any], source: str) -> None:
    case = Case(chains=[chain(f"{WHO} = {LONG}")], spans={WHO: [span(FILM, "Dark Mill")]})
    assert path(await case.play("long", **given))[0][2] == source
    case = Case(chains=[chain(f"{WHO} = {LONG}")], spans={WHO: [span(FILM, "Dark Mill")]})
    assert path(await case.play("qa", **{"form": "long", **given}))[0][2] == source


@pytest.mark.parametrize("given", [{"rouge": 0.0}, {"rouge": 1.0}, {"rouge_kind": "recall"}])
async def test_rouge_is_of_long_form_alone(given: dict[str, Any]) -> None:
    for answer in (LONG, "Ann Lee"):
        case = Case(chains=[chain(f"{WHO} = {answer}")], spans={WHO: [span(FILM, "Rolf Anders")]})
        plain = await case.play()
        assert path(await case.play(**given)) == path(plain)
        assert case.transcript[: len(case.transcript) // 2] * 2 == case.transcript


# --- ablations (Table 1) -----------------------------------------------------------------------------------------


async def test_without_verification_answered_nodes_are_searched_not_read() -> None:
    case = Case(
        chains=[chain(f"{WHO} = Ann Lee", WHERE), chain(f"{WHERE} = Bremen")],
        spans={WHO: [span(FILM, "Rolf Anders")], WHERE: [span(MAN, "Bremen")]},
    )
    answer = await case.play(verification=False)
    assert case.transcript == ["chain", f"search {WHO}", f"search {WHERE}", f"read {WHERE} in man", "chain", "trace"]
    assert path(answer) == [(WHO, "Ann Lee", "lm"), (WHERE, "Bremen", "completed")]
    assert case.calls[-1][1]["nodes"][0]["passage"] == FILM


async def test_without_completion_unsolved_nodes_are_passed_over_not_processed() -> None:
    spans = {WHERE: [span(MAN, "Bremen")], WHO: [span(FILM, "Rolf Anders")]}
    case = Case(chains=[chain(WHO, f"{WHERE} = Cork"), chain(f"{WHO} = Rolf Anders")], spans=spans)
    answer = await case.play(completion=False)
    assert f"search {WHO}" not in case.transcript[: case.transcript.index(f"search {WHERE}")]
    assert path(answer) == [(WHERE, "Bremen", "corrected"), (WHO, "Rolf Anders", "lm")]


async def test_closed_book_is_one_chain() -> None:
    case = Case(chains=[chain(f"{WHO} = Rolf Anders", WHERE, final="Cork")])
    answer = await case.play(open_book=False)
    assert (answer.text, case.transcript, answer.citations) == ("Cork", ["chain"], ())
    case = Case(chains=[chain(f"{WHO} = Rolf Anders", WHERE, f"{WHO} = again")])
    answer = await case.play(open_book=False)
    assert (answer.text, case.transcript, answer.citations) == ("Bremen", ["chain", "trace"], ())
    assert case.calls[-1][1]["nodes"] == [{"query": WHO, "answer": "Rolf Anders", "passage": None}]
    assert answer.statistics["marks dropped"] == 2


async def test_closed_book_needs_no_corpus_and_open_book_does() -> None:
    def pipeline(**given: Any) -> Pipeline:
        case = Case(chains=[chain(f"{WHO} = Rolf Anders", final="Cork")])
        return Pipeline(method="searchain", lm=ScriptedLM(case.script), **given)

    async with pipeline(open_book=False, reader=None) as qa:
        assert (await qa.aask(QUESTION)).text == "Cork"
    with pytest.raises(UsageError, match="searchain searches a corpus: give one"):
        pipeline()
    with pytest.raises(UsageError, match="searchain reads passages: give reader="):
        pipeline(retriever=lambda query, k: [], reader=None)


# --- the reader's span -------------------------------------------------------------------------------------------


class Picking:
    """A reader with a choice of how to select its spans, as a DPR reader can."""

    name, threshold = "picking", 0.5
    span: SpanChoice = "joint"

    def __init__(self) -> None:
        self.spans_asked: list[SpanChoice | None] = []

    def read(self, question: str, passages: Sequence[Passage], *, span: SpanChoice | None = None) -> list[Span]:
        self.spans_asked.append(span)
        return []


@pytest.mark.parametrize("choice", [None, "joint", "independent"])
async def test_span_reaches_the_reader_at_every_read(choice: SpanChoice | None) -> None:
    reader = Picking()
    await Case(chains=[chain(f"{WHO} = Ann Lee", WHERE)]).play(reader=reader, span=choice)
    assert reader.spans_asked == [choice, choice]


def test_span_with_a_reader_without_the_choice_is_an_error_before_any_call() -> None:
    given: dict[str, Any] = {"method": "searchain", "lm": ScriptedLM({}), "retriever": lambda query, k: []}
    with pytest.raises(SettingError, match=r"span=joint: the reader pocket .* dpr:PATH has a choice"):
        Pipeline(**given, span="joint")
    with pytest.raises(SettingError, match="the reader your own"):
        Pipeline(**given, span="joint", reader=lambda question, passages: [])
    Pipeline(**given, span="joint", open_book=False)  # nothing is read


# --- prompts by kind (Table 8) -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("qa", "several facts"),
        ("boolean", "yes or no"),
        ("slot", "relation"),
        ("fact", "REFUTES"),
        ("long", "paragraph"),
    ],
)
async def test_the_kind_chooses_prompt_and_demonstrations(kind: Kind, said: str) -> None:
    case = Case(chains=[chain(f"{WHO} = Rolf Anders")])
    model = ScriptedLM(case.script)
    async with Pipeline(method="searchain", lm=model, retriever=case.search, reader=case.read) as qa:
        await qa.aask(QUESTION, kind=kind)
    assert all(call.fields["kind"] == kind for call in model.calls)
    assert said in model.calls[0].messages[0]["content"]


TABLE_8: dict[Kind, tuple[int, int]] = {"qa": (2, 2), "boolean": (2, 6), "slot": (2, 2), "fact": (4, 4), "long": (2, 2)}
"""Demonstrations with retrieval and without."""


@pytest.mark.parametrize("kind", TABLE_8)
@pytest.mark.parametrize("open_book", [True, False])
async def test_demonstrations_are_table_8s(kind: Kind, open_book: bool) -> None:
    cases: list[tuple[dict[str, Any], int]] = [({}, TABLE_8[kind][not open_book]), ({"shots": 1}, 1), ({"shots": 0}, 0)]
    for settings_given, expected in cases:
        case = Case(chains=[chain(f"{WHO} = Rolf Anders")])
        model = ScriptedLM(case.script)
        await case.play(kind, lm=model, open_book=open_book, **settings_given)
        assert [call.task for call in model.calls] == ["searchain.chain", "searchain.trace"]
        assert [len(call.messages) for call in model.calls] == [2 + 2 * expected] * 2  # instruction, pairs, input
