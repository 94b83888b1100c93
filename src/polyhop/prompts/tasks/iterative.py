"""The tasks of IRCoT, FLARE and DSP: one sentence of a chain of thought, a question for an unsure phrase, one hop.

``reasoning`` is ``[str]``, the sentences written so far; ``summaries`` is ``[str]``, what the hops before found out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from polyhop.common.text import normalise, sentences
from polyhop.prompts.answers import clean_value, find_answer
from polyhop.prompts.parsing import Malformed, has_marker, quotable
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.ge import SubQuestion, read_subquestion, write_subquestion


class Sentence(Output):
    """The next sentence of a chain of thought; the last one names the answer."""

    sentence: str = Field(description='the next sentence; the last one is "So the answer is …"')

    def missing(self) -> str | None:
        return None if self.sentence else 'the "sentence" must not be empty'

    @property
    def answer(self) -> str | None:
        """The answer, where the sentence names it."""
        named = find_answer(self.sentence)
        return named.answer if named else None


class Hop(Output):
    """One hop: what the last search found out, and what to search next."""

    summary: str | None = Field(default=None, description="what the passages tell that helps, null without passages")
    query: str | None = Field(default=None, description="the next search query, null if nothing is missing")


MAX_BARE_QUERY_WORDS = 20
"""Words: a reply of one line up to this length is taken as the query itself."""
_LEAD = re.compile(r"^[^\w\n]{0,6}(?:(?:the )?next sentence|so far|sentence)[ \t*]{0,3}:[ \t*]{0,3}", re.IGNORECASE)
_LABEL = re.compile(
    r"^[^\w\n]{0,6}(?:(?P<sums>summary)|(?:next |search ){0,2}query)[ \t]?(?:\d{1,2})?[ \t*]{0,3}:[ \t*]{0,3}",
    re.IGNORECASE | re.M,
)


def read_sentence(text: str, fields: Fields) -> dict[str, Any]:
    """The first sentence that has not been written so far; what a model goes on to write is not read.

    >>> read_sentence("A is by Ann. Ann is from Rome. So it is Rome.", {"reasoning": ["A is by Ann."]})
    {'sentence': 'Ann is from Rome.'}
    """
    said = {"", *map(normalise, fields.get("reasoning") or ())}
    for line in [] if has_marker(text) else text.splitlines():
        own = _LEAD.sub("", line).strip(" \t*")
        if own.endswith(":") or own.startswith(("{", "```")):
            continue
        for sentence in sentences(own):
            if normalise(sentence) not in said:
                return {"sentence": sentence}
    raise Malformed("the reply must be one sentence that has not been written yet")


def write_sentence(output: Any, fields: Fields) -> str:
    """The inverse of ``read_sentence``."""
    return str(output.sentence)


def read_hop(text: str, fields: Fields) -> dict[str, Any]:
    """Summary: … and Query: …, "N/A" where nothing is missing; one line alone is the query.

    The first of each counts, the last if one may be quoted.

    >>> read_hop("Summary: Ann made it.\\nQuery: Ann birthplace", {"passages": ["…"]})
    {'summary': 'Ann made it.', 'query': 'Ann birthplace'}
    """
    labels = list(_LABEL.finditer(text))
    last = len(labels) > 1 and quotable(_LABEL, fields)
    found: dict[str, str | None] = {}
    for label, following in itertools.zip_longest(labels, labels[1:]):
        value = text[label.end() : following.start() if following else None]
        name = "summary" if label["sums"] else "query"
        if last or name not in found:
            found[name] = clean_value(value if label["sums"] else value.lstrip("\n").partition("\n")[0])
    if not labels and len(text.split()) <= MAX_BARE_QUERY_WORDS and len(text.strip().splitlines()) == 1:
        found["query"] = None if has_marker(text) else clean_value(text)
    if "query" not in found or not (found["query"] or fields.get("passages")):
        raise Malformed('a line must give the next search query: "Query: …"')
    return {"summary": found.get("summary") if fields.get("passages") else None, "query": found["query"]}


def write_hop(output: Any, fields: Fields) -> str:
    """The inverse of ``read_hop``."""
    summary = f"Summary: {output.summary or 'none'}\n" if fields.get("passages") else ""
    return f"{summary}Query: {output.query or 'N/A'}"


def show_lines(texts: Sequence[str] | None, fields: Fields) -> str:
    """Sentences one after another, as one paragraph."""
    return " ".join(map(one_line, texts or ()))


TASKS = (
    Task(
        "cot.sentence",
        fields=("question", "reasoning", "passages"),
        output=Sentence,
        parse=read_sentence,
        write=write_sentence,
        default={"sentence": ""},
        show={"reasoning": show_lines},
    ),
    Task(
        "flare.question",
        fields=("question", "reasoning", "sentence", "phrase"),
        output=SubQuestion,
        parse=read_subquestion,
        write=write_subquestion,
        default={"sub_question": None},
        show={"reasoning": show_lines},
    ),
    Task(
        "dsp.hop",
        fields=("question", "summaries", "passages"),
        output=Hop,
        parse=read_hop,
        write=write_hop,
        default={},
        show={"summaries": show_lines},
    ),
)
