"""Questions of yes or no: the sentences that are read for them, and what is made of the predictions."""

from __future__ import annotations

from polyhop.lm.pocket.reading.claims import decide, excerpt
from polyhop.lm.pocket.reading.passage import parse_passage
from polyhop.lm.pocket.reading.weighing import best_answer
from polyhop.types import Passage


def part(title: str, text: str) -> Passage:
    """A part of a file."""
    return Passage(title, title, text, metadata={"source": f"{title}.md"})


RULES = part(
    "Rules", "The pool opens at seven. Dogs are not allowed in the pool. Cats sleep in the barn. Bring a towel."
)


def test_an_excerpt_has_a_sentence_and_its_neighbours() -> None:
    page = parse_passage(RULES)
    assert (
        excerpt(page, 1, 1).text == "The pool opens at seven. Dogs are not allowed in the pool. Cats sleep in the barn."
    )
    assert excerpt(page, 0, 0, before=1, after=0).text == "The pool opens at seven."
    assert excerpt(page, 2, 3, before=0).text == "Cats sleep in the barn. Bring a towel."


def test_an_excerpt_has_fewer_neighbours_if_they_are_long() -> None:
    page = parse_passage(part("Log", f"It {'very ' * 120}rained. The tent held. The {'long ' * 120}night ended."))
    assert excerpt(page, 1, 1).text == "The tent held."


def test_a_question_is_decided_by_the_sentences_about_it() -> None:
    denied, confirmed = decide("Are dogs allowed in the pool?", [RULES]), decide("Do cats sleep in the barn?", [RULES])
    assert denied.yes < 0.5 < confirmed.yes
    assert min(denied.decided, confirmed.decided) > decide("Is the lift broken?", [RULES]).decided
    assert best_answer("Are dogs allowed in the pool?", [RULES])[0] == "no"


def test_nothing_is_decided_by_nothing() -> None:
    assert decide("Are dogs allowed?", []).decided == 0.0
    assert decide("Are dogs allowed?", [part("Empty", "")]).decided < 0.5
