"""Words that only say that there is no answer, and answers that look like them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.decomposition import Decomposition
from polyhop.prompts.tasks.searchain import QueryNode
from polyhop.prompts.tasks.summaries import Summary

SHORT = [
    "unknown", "I don't know", "I don’t know", "I do not know", "not known", "not mentioned", "not specified",
    "not stated", "not provided", "not available", "unclear", "cannot be determined", "can't be determined",
    "unable to determine", "no answer", "no information", "not enough information", "insufficient information",
    "not applicable", "n/a", "it is unknown", "the answer is unknown", "not explicitly mentioned", "not sure",
]  # fmt: skip
WHERE = [
    "", " in the passages", " in the provided context", " from the given information", " based on the text",
    " at this time", ", based on the retrieved documents",
]  # fmt: skip
SENTENCES = [
    "I don't know where he was born.",
    "I cannot determine the answer from this.",
    "I'm not sure which of them is meant.",
    "I do not have enough information to answer this.",
    "The passages do not say where he was born.",
    "The provided context doesn't contain information about his birth.",
    "The text provided does not provide enough information to answer this question.",
    "There is no information about his spouse in the passages.",
    "There is no mention of a sibling of his.",
    "No relevant information was found in the passages.",
    "It is not known where she died.",
    "It is unclear who wrote it.",
    "His place of birth is not mentioned in the passages.",
    "Unknown. Louis Tessier is not mentioned in any of the articles provided.",
    "unknown (not mentioned in the passages)",
    "The evidence does not mention it. There is no information on it.",
]
REFUSALS = [
    "I'm sorry, but I can't help with that request.",
    "I’m sorry, but I cannot assist with that.",
    "I'm sorry. I can't help you with this question.",
    "Sorry, I can't answer that.",
    "Unfortunately, I am unable to determine the answer.",
    "I cannot comply with this request.",
    "As an AI language model, I don't have access to real-time information.",
    "As an AI, I cannot browse the internet. Please provide more context.",
    "I apologize, but I don't have enough information to answer. Is there anything else I can help with?",
    "I won't answer this.",
]
ANSWERS = [
    "I Can't Help Myself", "Can't Help Falling in Love", "I can't help it", "I'm Sorry", "Sorry", "Sorry Not Sorry",
    "I'm sorry, the birthplace is Larvik", "Unfortunately, Larvik", "I Won't Dance", "I, Robot",
    "Unknown Pleasures", "The Unknown", "Unknown Soldier", "Unknown Mortal Orchestra", "Unknown (2011 film)",
    "Unknown to No One", "Known Unknown", "None but the Brave", "None of the above", "N/A Records", "Nothing Records",
    "Not Given Lightly", "Not Known Press", "I Don't Know How to Love Him", "Can't Be Tamed", "No Answer Records",
    "No Information Left Behind", "No Country for Old Men", "Nobody Knows", "nobody", "neither", "no", "No", "yes", "0",
    "zero", "Nonesuch", "Information Society", "An unknown soldier", "not enough info", "NOT ENOUGH INFO",
    "The passages do not say where he was born, but his birthplace is Larvik.",
    "The passages do not mention Oslo. Thor Heyerdahl was born in Larvik.",
    "Greg Anthony did not play for the Portland Trailblazers",
]  # fmt: skip


@given(
    st.sampled_from(SHORT),
    st.sampled_from(WHERE),
    st.sampled_from([str, str.lower, str.capitalize, str.upper]),
    st.sampled_from(["{}", "{}.", " {} ", '"{}"', "**{}**", "“{}.”", "[{}]", "{}\n"]),
)
def test_a_short_form_is_none_however_it_is_written(words: str, where: str, case: type[str], form: str) -> None:
    assert is_non_answer(form.format(case(words + where)))


@pytest.mark.parametrize("said", [*SENTENCES, *REFUSALS])
def test_a_sentence_that_says_so_is_none(said: str) -> None:
    assert is_non_answer(said)


@pytest.mark.parametrize("said", ["", " ", "-", "none", "None.", "nothing", "null"])
def test_empty_text_is_a_non_answer(said: str) -> None:
    assert is_non_answer(said)
    assert is_non_answer(said, "Who directed Dark Mill?")


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_one_whatever_its_words(answer: str) -> None:
    assert not is_non_answer(answer)
    assert not is_non_answer(f'"{answer}"')


@given(
    st.sampled_from([words for words in SHORT if " " not in words]), st.from_regex(r"[A-Z][a-z]{2,9}", fullmatch=True)
)
def test_a_title_that_begins_with_such_a_word_is_an_answer(word: str, rest: str) -> None:
    title = f"{word.capitalize()} {rest}"
    assert is_non_answer(title) is (rest.lower() in ("here", "yet", "currently"))


@pytest.mark.parametrize(
    "question", ["How many sisters had she?", "What is the number of her films?", "Which of them won?"]
)
def test_none_answers_a_question_of_how_many(question: str) -> None:
    assert not is_non_answer("none", question)
    assert is_non_answer("unknown", question)


def test_what_the_question_names_is_an_answer() -> None:
    assert not is_non_answer("Unknown", "Which is older, Unknown or Taken?")


@pytest.mark.parametrize(("length", "says_nothing"), [(1_000, True), (1_001, False)])
def test_a_text_of_more_than_a_thousand_characters_says_something(length: int, says_nothing: bool) -> None:
    text = "The passages do not say ".ljust(length, "x")
    assert is_non_answer(text) is says_nothing


@given(st.text(max_size=300), st.text(max_size=60))
def test_any_text_can_be_judged(text: str, question: str) -> None:
    assert isinstance(is_non_answer(text, question), bool)


def test_outputs_hold_none_but_in_the_field_that_answers() -> None:
    assert QueryNode(query="Who?", answer="I don't know").answer is None
    assert Summary(summary="The passages do not mention him.").summary == ""
    assert Decomposition(sub_questions=["Who?", "not specified"]).sub_questions == ["Who?"]
    assert Response(answer="unknown").answer == "unknown"
