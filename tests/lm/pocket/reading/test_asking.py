"""The place where a question asks: its last sentence, what follows a request, or yes or no."""

from __future__ import annotations

import pytest

from polyhop.lm.pocket.reading.asking import bare_word, find_asking
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.text import tokenize


def asking_word(text: str) -> str:
    """The word at which a text asks, "yes or no", or "nothing"."""
    tokenized = tokenize(text)
    words = [bare_word(token) for token in tokenized.tokens]
    found = find_asking(words, tokenized.sentence_of)
    return "yes or no" if found.yes_or_no else "nothing" if found.at is None else words[found.at]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("When did the mill close?", "when"),
        ("In which year did it close?", "which"),
        ("The singer of Larn Blues was in what band?", "what"),
        ("What's wrong with the mill?", "what"),
        ("who’s the miller", "who"),
        ("I lost my key when I was out. Where do I get another?", "where"),
        ("My furnace shows E-04, what's wrong with it?", "what"),
        ("I must fetch the will - which box is it in?", "which"),
        ("I need the number of the woman who runs the mill.", "need"),
        ("I'd like to know how many mills there are.", "how"),
        ("Can you tell me when the mill closes?", "when"),
        ("Do you know the name of the man whose boat has a roof?", "know"),
        ("Name the mill that was built first.", "name"),
        ("Is the mill open on Mondays?", "yes or no"),
        ("When I am ill, do I have to call the miller?", "yes or no"),
        ("Mr Reed wants to say what he paid - is he allowed to?", "yes or no"),
        ("i was away three nights, do they pay the laundry", "yes or no"),
        ("In our view, can Mr Reed lock the gate?", "yes or no"),
        ("I wonder whether dogs may come in.", "yes or no"),
        ("dogs allowed?", "yes or no"),
        ("It was closed. Is it open?", "yes or no"),
        ("longest time anybody was in the queue", "nothing"),
        ("", "nothing"),
    ],
)
def test_the_word_that_asks_is_found(text: str, word: str) -> None:
    assert asking_word(text) == word


def test_what_a_request_is_for_has_a_type() -> None:
    parsed = parse_question("I need the phone number of the woman who runs the mill.")
    assert (parsed.type, parsed.head) == ("number", "number")
