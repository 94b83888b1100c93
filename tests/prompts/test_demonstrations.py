"""Demonstrations: a faulty line is named with its number; the shipped ones are read back as written, and are true."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from polyhop.common.text import STOP_WORDS, find_folded
from polyhop.errors import PromptError
from polyhop.prompts.book import PromptBook
from polyhop.prompts.loading import Demonstration
from polyhop.prompts.prompt import Prompt, Rendering
from polyhop.prompts.tasks.tor import Review, Supplement
from polyhop.types import Passage
from tests.kit.prompt_cases import SWITCHED, Write, filled, overriding

BOOK = PromptBook()
COMPUTED = "48"
"""The years from 1889 to 1937, which a demonstration computes."""


@pytest.fixture
def override(tmp_path: Path) -> Write:
    return overriding(tmp_path / "own")


# --- faults ------------------------------------------------------------------------------------------------------

FIELDS: dict[str, Any] = {"question": "Who?", "passages": [{"title": "A", "text": "B."}]}
OUTPUT: dict[str, Any] = {"relevant": True, "supported": False, "query": "A"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", 'a line is {"fields": {…}, "output": {…}}'),
        ({"fields": FIELDS}, 'a line is {"fields": {…}, "output": {…}}'),
        ({"fields": [], "output": OUTPUT}, 'a line is {"fields": {…}, "output": {…}}'),
        ({"fields": {"question": "Who?"}, "output": OUTPUT}, "the field 'passages' is missing"),
        ({"fields": FIELDS | {"thoughts": True}, "output": OUTPUT}, "unknown field 'thoughts'"),
        ({"fields": FIELDS | {"pasages": []}, "output": OUTPUT}, "unknown field 'pasages'; did you mean 'passages'?"),
        ({"fields": FIELDS | {"passages": [{"title": "A"}]}, "output": OUTPUT}, 'a passage is {"title": …, "text": …}'),
        ({"fields": FIELDS | {"passages": ["A"]}, "output": OUTPUT}, 'a passage is {"title": …, "text": …}'),
        ({"fields": FIELDS, "output": OUTPUT | {"supported": "perhaps"}}, "supported: Input should be a valid boolean"),
        ({"fields": FIELDS, "output": {"relevant": True}}, "supported: Field required"),
        ({"fields": FIELDS, "output": OUTPUT | {"anwser": "A"}}, "field 'anwser'; did you mean 'answer'?"),
    ],
)  # fmt: skip
def test_a_faulty_demonstration_is_named_with_its_line(override: Write, row: Any, message: str) -> None:
    good = {"fields": FIELDS, "output": OUTPUT}
    with pytest.raises(PromptError) as raised:
        override("tor.review.demos.jsonl", f"{json.dumps(good)}\n{row if isinstance(row, str) else json.dumps(row)}\n")
    assert "tor.review.demos.jsonl:2: not a demonstration of tor.review: " in str(raised.value)
    assert message in str(raised.value)


def test_a_demonstration_without_an_answer_is_an_error(override: Write) -> None:
    with pytest.raises(PromptError, match=r'answer\.cot\.demos\.jsonl:1: .*"answer" must not be empty'):
        override("answer.cot.demos.jsonl", '{"fields": {"question": "Who?"}, "output": {"answer": ""}}')


def test_a_line_separator_inside_a_string_does_not_end_the_line(override: Write) -> None:
    line = '{"fields": {"question": "Who\u2028?"}, "output": {"answer": "Ann\x85"}}'
    assert override("answer.cot.demos.jsonl", line)["answer.cot"].demonstrations[0].fields["question"] == "Who\u2028?"


# --- the shipped ones --------------------------------------------------------------------------------------------


def demonstrations() -> Iterator[tuple[Prompt, dict[str, Any], Demonstration]]:
    for name, switches in SWITCHED:
        for demo in BOOK[name].demonstrations_for(switches):
            yield BOOK[name], {**demo.fields, **switches}, demo


def test_every_demonstration_is_read_back_as_written() -> None:
    for prompt, fields, demo in demonstrations():
        unasked = set(type(demo.output).model_fields).difference(prompt.task.asked(fields))
        asked_for = demo.output.model_copy(update=dict.fromkeys(unasked))
        written = prompt.task.write_text(demo.output, fields)
        assert prompt.check(prompt.task.read_text(written, fields)) == asked_for
        assert prompt.read(written, fields) == asked_for


def test_every_demonstration_in_a_rendered_prompt_is_read_back() -> None:
    for name, switches in SWITCHED:
        prompt = BOOK[name]
        fields = filled(name, switches)
        asked = set(prompt.task.asked(fields))
        for rendering in get_args(Rendering):
            turns = prompt.render(fields, rendering=rendering, shots=len(prompt.demonstrations))
            replies = [turn["content"] for turn in turns if turn["role"] == "assistant"]
            shown = prompt.demonstrations_for(fields)
            assert len(replies) == len(shown) > 0
            for reply, demo in zip(replies, shown, strict=True):
                for read_as in get_args(Rendering):
                    output = prompt.read(reply, fields, read_as)
                    assert output.model_dump(include=asked) == demo.output.model_dump(include=asked)
            if rendering == "json":
                assert [set(json.loads(reply)) for reply in replies] == [asked] * len(replies)


def test_shots_are_the_first_demonstrations() -> None:
    for shots in (0, 1, 3, 9):
        turns = BOOK["answer.cot"].render({"question": "Who?"}, shots=shots)
        assert [turn["role"] for turn in turns] == ["system", *["user", "assistant"] * shots, "user"]


def test_every_prompt_has_eight_demonstrations_for_every_call() -> None:
    """As many as papers and repositories of this field show, whatever a call's switches and optional fields are."""
    for name, switches in SWITCHED:
        for held in itertools.product((True, False), repeat=len(BOOK[name].cases)):
            fields = {**switches, **dict(zip(BOOK[name].cases, held, strict=True))}
            if not (name == "ge.subanswer" and all(held)):  # triplets or passages
                assert len(BOOK[name].demonstrations_for(fields)) >= 8, (name, fields)


def test_answers_of_demonstrations_can_be_read_off_their_passages() -> None:
    for prompt, fields, demo in demonstrations():
        shown = [f"{passage.title}. {passage.text}" for passage in passages_in(demo.fields)]
        known = [getattr(demo.output, name, None) for name in ("information", "rationale")[: 1 if shown else 2]]
        asked = demo.fields.get("question") or demo.fields.get("sub_question")
        visible = " ".join(filter(None, [asked, *shown, *remembered(demo.fields.get("memory")), *known, *drawn(demo)]))
        answer = getattr(demo.output, "answer", None)
        if fields.get("kind") != "long":  # a paragraph is written, not read off
            labels = ("yes", "no", "SUPPORTS", "REFUTES", "NOT ENOUGH INFO", "unknown", None)
            assert answer in (*labels, COMPUTED) or find_folded(answer, visible), (prompt.task.name, answer)
        assert not (strange := unfounded(demo.output, visible)), (prompt.task.name, strange)


def test_reviews_of_demonstrations_show_every_verdict() -> None:
    verdicts = {(demo.output.relevant, demo.output.supported) for demo in BOOK["tor.review"].demonstrations}  # type: ignore[attr-defined]
    assert verdicts == {(True, False), (True, True), (False, False)}
    for demo in BOOK["tor.review"].demonstrations:
        assert isinstance(demo.output, Review)
        assert (demo.output.answer is not None) is demo.output.supported
        assert (demo.output.query is not None) is not demo.output.supported
        assert (demo.output.analysis is not None) is demo.output.supported
        assert len((demo.output.thought or "").split("\n")) == 2
    assert all(isinstance(demo.output, Supplement) for demo in BOOK["tor.complete"].demonstrations)


def remembered(memory: Any) -> list[str]:
    """All that the memories of a demonstration say."""
    return [*memory["global_evidence"], *(pair["response"] or "" for pair in memory["local_pathway"])] if memory else []


def drawn(demo: Demonstration) -> Iterator[str]:
    """Other facts in demonstrations: answers so far, triplets, recitations, and a sentence, a rationale or follow-ups
    where nothing else is given."""
    for pair in demo.fields.get("history") or ():
        yield f"{pair['sub_question']} {pair.get('sentence', pair['answer'])}"
    yield from demo.fields.get("recitations") or ()
    yield from (demo.fields.get(name) or "" for name in ("summary", "rationale"))
    yield from (step.answer for step in getattr(demo.output, "steps", ()))
    if demo.fields.get("history") == []:
        yield getattr(demo.output, "rationale", None) or ""
    for triplet in demo.fields.get("triplets") or ():
        yield " ".join(triplet.values())
    if not (demo.fields.get("triplets") or demo.fields.get("passages")):
        yield getattr(demo.output, "sentence", "")


def passages_in(value: Any) -> Iterator[Passage]:
    """Every passage of a demonstration's fields, at any depth."""
    if isinstance(value, Passage):
        yield value
    elif isinstance(value, dict):
        yield from passages_in(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from passages_in(item)


def unfounded(output: Any, visible: str) -> list[str]:
    """Names and numbers of the reasoning that stand nowhere in what it was drawn from; a sentence's first apart."""
    reasoning = getattr(output, "thought", None) or getattr(output, "rationale", None) or ""
    names = re.findall(r"(?<=[^.:;\n] )\b(?:[A-ZÄÖÅ]\w+|\d+)", reasoning)
    return [name for name in names if name.lower() not in (*STOP_WORDS, COMPUTED) and not find_folded(name, visible)]
