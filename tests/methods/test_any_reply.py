"""No output of a language model raises or loops: at most the documented number of calls, whatever is written."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyhop.lm.base import Capabilities, Completion
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.prompts.prompt import Rendering
from polyhop.types import Passage, Span
from tests.kit.prompt_cases import SWITCHED
from tests.kit.tries import tries

BOOK = PromptBook()
PASSAGES = [Passage(name, f"Title {name}", f"Text {name} of it.") for name in "abc"]
CASES: dict[str, tuple[dict[str, Any], int]] = {
    # T summaries; T-1 responses, judgements and plans, as many plans once more; the answer
    "resp": ({"max_iterations": 3}, 3 + 2 + 2 + 2 * 2 + 1),
    # the graph; a step's sub-question, answers twice, triplets of k passages, filter; the answer
    "ge": ({"max_steps": 3, "samples": 2}, 1 + 3 * (1 + 2 + 2 + 1 + 2) + 1),
    # a chain a round; the traced content
    "searchain": ({"max_rounds": 3}, 3 + 1),
    # an answer a round
    "iter-retgen": ({"max_turns": 3}, 3),
    # sentences, those of a conclusion alone among them; the reader
    "ircot": ({"max_turns": 3, "max_sentences": 4}, 4 + 1),
    # sentences, two of them tried, asked about and written anew; the reader
    "flare": ({"max_turns": 3, "max_sentences": 4, "query": "question"}, 4 + 2 * (1 + 3) + 1),
    # thoughts with their actions; the finish, or samples
    "react": ({"max_turns": 2}, 2 + 1),
    "react-cot-sc": ({"max_turns": 2, "samples": 2}, 2 + 1 + 2),
    # turns; the finish
    "agent": ({"max_turns": 2}, 2 + 1),
    # calls; the end of the text
    "toolformer": ({"max_turns": 2}, 2 + 1),
    # turns; the end of the text
    "search-agent": ({"max_turns": 2}, 2 + 1),
    # the plan; the solution
    "plan-solve-ir": ({}, 1 + 1),
    # proposals and values, of each state kept; the reader
    "tot-ir": ({"steps": 2, "breadth": 2, "keep": 2}, (1 + 2) + (2 + 4) + 1),
    # queries of each hop; samples
    "dsp": ({"max_turns": 3, "queries": 2, "samples": 2}, 3 * 2 + 2),
    # explorations; a completion per pair; the answer
    "knowtrace": ({"max_turns": 2, "max_pairs": 2}, 2 + 2 * 2 + 1),
    # the triplets; a resolution per round; the answer
    "t2rag": ({"max_turns": 2}, 1 + 2 + 1),
    # grades of passages and their strips, the query, the answer
    "crag": ({"k": 2}, 2 + 2 + 1 + 2 + 1),
    # the strategy; IRCoT's sentences and reader
    "route": ({"max_turns": 2}, 1 + 10 + 1),
    # candidates, a summary and a validity for each, both orders of their pairs
    "sure": ({"candidates": 3}, 1 + 3 + 3 + 6),
    # the summary; the answer
    "recomp": ({}, 1 + 1),
    # an answer a passage
    "replug": ({"k": 3}, 3),
    # samples; a question and an edit a sentence; the answer
    "verify-edit": ({"samples": 3, "edit_below": 2, "max_turns": 2}, 3 + 2 * 2 + 1),
    # entities, relations stated and inferred, scores; the answer
    "era-cot": ({}, 4 + 1),
}
"""The settings of a method and its maximum number of calls, each of which may be retried once."""


def written() -> list[str]:
    """Return what a good model writes for any task, in both renderings: for every other task, the wrong markers."""
    found: dict[str, None] = {}
    for name, switches in SWITCHED:
        for demo in BOOK[name].demonstrations_for(switches)[:2]:
            fields = {**dict.fromkeys(BOOK[name].task.fields), **demo.fields, **switches}
            found[BOOK[name].task.write_text(demo.output, fields)] = None
            found[json.dumps(demo.output.model_dump())] = None
    return list(found)


WRITTEN = st.deferred(lambda: st.sampled_from(written()))
SCRIPTS = st.sampled_from(["東京はどこですか？", "أين وُلد؟", "Где он родился?", "כן", "ใช่", "👍🏽", "\u202e\u200b\x00"])
REPLIES = st.one_of(
    st.text(max_size=60),
    WRITTEN,
    st.builds(lambda text, share: text[: int(share * len(text))], WRITTEN, st.floats(0, 1)),  # cut off
    st.lists(WRITTEN | SCRIPTS, min_size=2, max_size=3).map("\n".join),
    st.builds(lambda text, times: text * times, WRITTEN | SCRIPTS, st.integers(50, 2000)),  # without end
)


def completion(text: str) -> Completion:
    """A reply in tokens of three letters, every other one of them unlikely; short ones come without probabilities."""
    tokens = tuple(text[at : at + 3] for at in range(0, len(text), 3))
    logprobs = tuple(-3.0 * (at % 2) for at in range(len(tokens)))
    return Completion(text=text, tokens=tokens, logprobs=logprobs) if len(text) > 9 else Completion(text=text)


@pytest.mark.parametrize("rendering", get_args(Rendering))
@pytest.mark.parametrize("method", list(CASES))
@settings(
    max_examples=tries(20), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(replies=st.lists(REPLIES, min_size=1, max_size=8))
async def test_whatever_is_written_it_ends_within_its_calls(
    method: str, rendering: Rendering, replies: list[str]
) -> None:
    given_, maximum = CASES[method]
    able = Capabilities(json_schema=True, token_logprobs=True, seed=True)
    lm = ScriptedLM(lambda task, fields: completion(replies[(len(lm.calls) - 1) % len(replies)]), capabilities=able)
    given_ = given_ if method == "agent" else {**given_, "shots": 0}
    if method == "searchain":
        given_ = given_ | {"reader": lambda question, passages: [Span(passages[0].id, "Text", 0, 4, 1.0)]}
    pipeline = Pipeline(
        method=method, lm=lm, retriever=lambda query, k: PASSAGES[len(query) % 3 :][:k],
        prompts=BOOK, rendering=rendering, **given_,
    )  # fmt: skip
    async with pipeline as qa:
        answer = await qa.aask("Who was it?")
    assert sum(call.attempt == 1 for call in answer.trace.calls) <= maximum
    assert len(answer.trace.calls) <= 2 * maximum
