"""Three passages, a question over two of them, and the scripted model that answers it, for tests of the adapters."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import strategies as st

from polyhop.lm.base import Completion, Message, Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Passage

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before it is imported: it would report to its makers

QUESTION = "Where was the director of Alien born?"
ANSWER = "South Shields"
CORPUS = [
    Passage("alien", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott.", metadata={"page": 3}),
    Passage("scott", "Ridley Scott", "Ridley Scott is an English director born in South Shields.", ("South Shields",)),
    Passage("rome", "Rome", "Rome is the capital of Italy."),
]


def scripted() -> ScriptedLM:
    """A model that gives the answer to any passages."""
    return ScriptedLM({"answer.read": {"rationale": None, "answer": ANSWER}})


def pipeline(**options: Any) -> Pipeline:
    """One retrieval over the three passages and one reading."""
    return Pipeline(CORPUS, "one-r", **{"lm": scripted(), **options})


def request(content: str = "Who?", **changes: Any) -> Request:
    """A call of a prompt task with a system turn and a user's."""
    messages: list[Message] = [{"role": "system", "content": "Answer."}, {"role": "user", "content": content}]
    return Request(**{"task": "answer.direct", "fields": {}, "messages": messages, **changes})


def facts(completion: Completion) -> tuple[Any, ...]:
    """Text, reasoning, finish reason, and tokens: prompt, completion, whether they are estimated."""
    usage = completion.usage
    assert usage is not None
    counts = (usage.prompt_tokens, usage.completion_tokens, usage.estimated)
    return (completion.text, completion.reasoning, completion.finish_reason, *counts)


def same(one: Passage, other: Passage) -> bool:
    """Compare two passages in every field, not by id alone."""
    fields = ("id", "title", "text", "links", "metadata")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


_words = st.text("aß\n\0", max_size=3)
_values = st.one_of(
    st.none(), st.integers(-9, 9), _words, st.lists(_words, max_size=2), st.dictionaries(_words, _words, max_size=1)
)
names = st.sampled_from(["title", "links", "polyhop", "page", "source", "score"]) | _words
metadata = st.dictionaries(names, _values, max_size=4)
passages = st.builds(
    Passage,
    st.sampled_from(["1", "ß", "a b"]),
    _words,
    _words,
    st.lists(_words, max_size=2).map(tuple),
    metadata,
)
"""Passages whose metadata has the names that documents of other libraries need for themselves."""
