"""The replies of SuRe, RECOMP, Verify-and-Edit and ERA-CoT as models write them: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.prompts.tasks.era_cot import Entities, Scores
from polyhop.prompts.tasks.iterative import EditedSentence
from polyhop.prompts.tasks.summaries import Candidates, Preference, Validity

BOOK = PromptBook()
RELATION = {"head": "Alien", "relation": "director", "tail": "Ridley Scott"}


def read(task: str, text: str, rendering: Rendering = "text", **fields: Any) -> dict[str, Any]:
    return BOOK[task].read(text, fields, rendering).model_dump()


# --- candidates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("1. Larvik\n2. Oslo", ["Larvik", "Oslo"]),
        ("Sure!\n\n1) **Larvik**\n2) Oslo.", ["Larvik", "Oslo"]),
        ("- Larvik\n- Oslo", ["Larvik", "Oslo"]),
        ("1. Larvik, because he was born there. It lies in Vestfold.", ["Larvik, because he was born there"]),
        ("1. yes, they are\n2. no", ["yes", "no"]),
        ("Larvik", ["Larvik"]),
        ("1. none\n2. Oslo", ["Oslo"]),
        ('{"candidates": ["Larvik", "Oslo"]}', ["Larvik", "Oslo"]),
    ],
)
def test_candidates_are_read(text: str, candidates: list[str]) -> None:
    assert read("sure.candidates", text) == {"candidates": candidates}


@pytest.mark.parametrize(
    "text", ["I cannot tell which of the towns it was, as the passages that were given speak of neither.", "{", "…"]
)
def test_no_candidate_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="candidates"):
        read("sure.candidates", text)


# --- verdicts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "valid"),
    [("Yes", True), ("**No.** It names another.", False), ("Answer: yes", True), ('{"valid": false}', False)],
)
def test_a_validity_is_read(text: str, valid: bool) -> None:
    assert read("sure.validate", text) == {"valid": valid}


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("Better: 2", 2),
        ("Better: Summary 1", 1),
        ("**Better:** 2.", 2),
        ("2", 2),
        ("Summary 2 is better: it names the town.", 2),
        ("Better: neither", None),
        ("Both are equal.", None),
        ("Better summary: 1 (it is fuller)", 1),
        ('{"better": "Summary 2"}', 2),
        ('{"better": null}', None),
        ('{"better": 3}', None),
    ],
)
def test_a_preference_is_read(text: str, better: int | None) -> None:
    assert read("sure.rank", text) == {"better": better}


@pytest.mark.parametrize("text", ["Hm.", "Better: the one about Larvik", "In 1947, 3 of them", "1 or 2", "Better: 1.5"])
def test_a_preference_for_none_of_the_two_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="Better"):
        read("sure.rank", text)


# --- sentences ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Thor Heyerdahl led it.", "Thor Heyerdahl led it."),
        ("Answer: Thor Heyerdahl led it.\nHe was born in Larvik.", "Thor Heyerdahl led it."),
        ("**Sentence:** Thor Heyerdahl led it.", "Thor Heyerdahl led it."),
        ("None.", ""),
        ("none", ""),
        ('{"sentence": "He led it."}', "He led it."),
        ('{"sentence": ""}', ""),
    ],
)
def test_an_edited_sentence_is_read(text: str, sentence: str) -> None:
    assert read("verify_edit.edit", text) == {"sentence": sentence}


@pytest.mark.parametrize("text", ["[RELEVANT]", "{", "```", "Answer:"])
def test_no_sentence_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        read("verify_edit.edit", text)


# --- entities and scores -----------------------------------------------------------------------------------------


def test_entities_are_read() -> None:
    entities = ["Alien (film)", "Ridley Scott (person)"]
    assert read("era_cot.entities", "Entities:\n1. Alien (film)\n2. Ridley Scott (person)") == {"entities": entities}
    assert read("era_cot.entities", "- Alien (film)\n- Ridley Scott (person)") == {"entities": entities}
    with pytest.raises(Malformed, match="entities"):
        read("era_cot.entities", "There are none.")


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("1. 9\n2. 0\n3. 7.5", [9, 0, 7.5]),
        ("1) 9/10\n2) 0/10\n3) 7 / 10", [9, 0, 7]),
        ("1. (Alien; director; Ridley Scott): 9\n2. (Alien; made in; 1979): 3.", [9, 3, 0]),
        ("Scores:\n**1.** 10 – it is stated\n**2.** 4", [10, 4, 0]),
        ("Relation 2: 8", [0, 8, 0]),
        ("1. 99\n2. -3\n3. likely", [10, 0, 0]),  # within 0 and 10; what is no number is 0
        ("1. 5\n9. 8", [5, 0, 0]),  # a relation that is not there
        ("1. 5\n1. 6", [6, 0, 0]),
        ('{"scores": [9, "3", null]}', [9, 3, 0]),
        ('{"scores": [1e400, -1, true]}', [0, 0, 1]),
    ],
)
def test_scores_are_read(text: str, scores: list[float]) -> None:
    assert read("era_cot.score", text, triplets=[RELATION] * 3) == {"scores": scores}


@pytest.mark.parametrize("text", ["All of them are likely.", "9", "Scores: high, low"])
def test_no_score_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="score"):
        read("era_cot.score", text, triplets=[RELATION])


# --- there and back ----------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["Ann Lee", "Rome", "12 May 1903", "the film Alien", "1979", "no"])
AGAIN = settings(max_examples=150, deadline=None, derandomize=True, database=None)
OUTPUTS: dict[str, st.SearchStrategy[Any]] = {
    "sure.candidates": st.builds(lambda values: Candidates(candidates=values), st.lists(WORDS, min_size=1, max_size=5)),
    "sure.validate": st.builds(lambda valid: Validity(valid=valid), st.booleans()),
    "sure.rank": st.builds(lambda better: Preference(better=better), st.sampled_from([1, 2, None])),
    "verify_edit.edit": st.builds(lambda name: EditedSentence(sentence=name and f"So {name}."), WORDS | st.just("")),
    "era_cot.entities": st.builds(
        lambda names: Entities(entities=[f"{name} (thing)" for name in names]),
        st.lists(WORDS, min_size=1, max_size=5),
    ),
    "era_cot.score": st.builds(
        lambda values: Scores(scores=values), st.lists(st.integers(0, 20).map(lambda n: n / 2), min_size=1, max_size=9)
    ),
}


@AGAIN
@given(st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    for task, outputs in OUTPUTS.items():
        output = data.draw(outputs)
        fields = {"triplets": [RELATION] * len(getattr(output, "scores", ()))}
        assert BOOK[task].read(TASKS[task].write_text(output, fields), fields) == output
        assert BOOK[task].read(output.model_dump_json(), fields, "json") == output
