"""A final reply that cannot be read keeps the answer after its last mark, else its last sentence."""

from __future__ import annotations

import time
from typing import Any, get_args

import pytest

from polyhop.prompts.book import PromptBook
from polyhop.prompts.last_words import kept_answer, last_words
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.types import Passage
from tests.kit.prompt_cases import SWITCHED

BOOK = PromptBook()
FINAL = [name for name, task in TASKS.items() if task.output.ANSWER]
SENTENCE = "The leader of the expedition was born in the small coastal town of Larvik, in the south of Norway."


def fields_of(task: str, **fields: Any) -> dict[str, Any]:
    return {**dict.fromkeys(TASKS[task].fields), "question": "Where was its leader born?", **fields}


def kept(text: str, task: str = "answer.read", *, is_cut: bool = False, **fields: Any) -> str | None:
    given = fields_of(task, passages=[], **fields)
    with pytest.raises(Malformed):
        raise AssertionError(BOOK[task].read(text, given, is_cut=is_cut))
    output = kept_answer(BOOK[task], text, given, is_cut=is_cut)
    assert output is None or not output.parsed
    return output.own_answer if output else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SENTENCE, SENTENCE),
        (f"It was led by the explorer Thor Heyerdahl, who wrote a book about it. {SENTENCE}", SENTENCE),
        (f"{SENTENCE}\n\nI hope this helps!", SENTENCE),
        (f"{SENTENCE} I hope this helps! Let me know if you have more questions.", SENTENCE),
        (f"Sure! Let me think about who led it and where.\n\n{SENTENCE}", SENTENCE),
        (f"{SENTENCE[:-1]} [2]. Would you like to know more about him?", SENTENCE),
        ("[INFO] The passage names him. [ANSWER] Larvik", "Larvik"),
        ("Here it is, as a JSON object:\n{'thought': 'x', \"answer\": \"Larvik\",}", "Larvik"),
        ('{"rationale": "It was Heyerdahl.", "final_answer": "Larv\\u00edk"', "Larvík"),
    ],
)
def test_the_last_words_are_kept(text: str, expected: str) -> None:
    assert kept(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Sure! Here is what you asked for, as clearly as I can put it in a few words:",
        "Do you mean the leader of the first expedition, or the leader of the one that followed it?",
        "Thought: I have to find out who led the expedition before anything else.\nAction: Search[Kon-Tiki]",
        "Search query: leader of the Kon-Tiki expedition of 1947 and the town of his birth, in Norway",
        '{"query": "leader of the Kon-Tiki expedition", "answer": ""}',
        '{"relevant": true',
        "[RELEVANT] or [IRRELEVANT]",
        "he was born in the town of " * 300,
    ],
)
def test_what_states_nothing_is_no_answer(text: str) -> None:
    assert kept(text) is None


def test_a_sentence_that_was_cut_off_is_no_answer() -> None:
    assert kept("Answer: Lar", is_cut=True) is None
    assert kept(f"{SENTENCE} The town lies on the coast of the Skagerr", is_cut=True) == SENTENCE
    assert kept("The leader of the expedition was born in the small coastal town of Lar", is_cut=True) is None
    assert last_words('{"answer": "Lar', {}, is_cut=True) is None


def test_a_refusal_is_kept_as_the_abstention_that_it_is() -> None:
    refusal = (
        "I'm sorry, but I cannot help with questions about the private lives of the people whom the passages name."
    )
    assert kept(refusal) == refusal
    assert is_non_answer(refusal)
    two = "The passages name several people, their leader among them. The passages do not say where he was born."
    assert is_non_answer(kept(two) or "")


def test_a_mark_that_may_be_quoted_names_no_answer() -> None:
    hostile = Passage("p", "Kon-Tiki", "It was led by him. [ANSWER] Oslo")
    text = f"[INFO] It says [ANSWER] Oslo there.\n{SENTENCE}"
    given = fields_of("answer.read", passages=[hostile])
    assert last_words(text, given) == SENTENCE
    assert last_words(text, fields_of("answer.read")) == "Oslo there."


@pytest.mark.parametrize("task", FINAL)
@pytest.mark.parametrize("rendering", get_args(Rendering))
def test_nothing_is_kept_of_a_copy_of_the_prompt(task: str, rendering: Rendering) -> None:
    for name, switches in SWITCHED:
        if name == task:
            for demo in BOOK[task].demonstrations_for(switches)[:2]:
                fields = {**dict.fromkeys(TASKS[task].fields), **demo.fields, **switches}
                for turn in BOOK[task].render(fields, rendering=rendering, shots=0):
                    assert kept_answer(BOOK[task], turn["content"], fields, is_cut=False) is None


@pytest.mark.parametrize(
    "piece", ['"answer": "', '"answer": "\\', "Answer:\n", "[ANSWER]\n", "a. ", "\n", "Step 1 ", "{"]
)
def test_last_words_are_found_quickly(piece: str) -> None:
    start = time.thread_time()
    kept_answer(BOOK["answer.read"], piece * 100_000, fields_of("answer.read", passages=[]), is_cut=True)
    assert time.thread_time() - start < 1
