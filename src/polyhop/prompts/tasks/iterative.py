"""The tasks of methods that write and search in turn: IRCoT, FLARE, Verify-and-Edit (Zhao et al., 2023) and DSP.

``reasoning`` is ``[str]``, the sentences written so far; ``summaries`` is ``[str]``, the findings of the hops so far.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from polyhop.common.sentences import sentences
from polyhop.common.text import normalise
from polyhop.prompts.answers import clean_value, find_answer
from polyhop.prompts.non_answers import says_nothing
from polyhop.prompts.parsing import Malformed, has_marker, labelled_parts, quotable
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.answers import direct_answer
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.ge import sub_question_task


class Sentence(Output):
    """The next sentence of a chain of thought; the last one names the answer."""

    sentence: str = Field(description='the next sentence; the last one is "So the answer is <answer>."')

    def missing(self) -> str | None:
        return None if self.sentence else 'the "sentence" must not be empty'

    @property
    def answer(self) -> str | None:
        """The answer, if the sentence names it."""
        named = find_answer(self.sentence)
        return named.answer if named else None


class EditedSentence(Output):
    """Verify-and-Edit §3.3: the sentence that the passages support; empty if they say nothing about it."""

    sentence: str = Field(description="one sentence that answers the question from the passages, or empty")


class Hop(Output):
    """One hop: the findings of the last search, and the next query."""

    summary: str | None = Field(default=None, description="what the passages tell that helps, null without passages")
    query: str | None = Field(default=None, description="the next search query, null if nothing is missing")


MAX_BARE_QUERY_WORDS = 20
"""Words: a reply of one line up to this length is taken as the query itself."""
_LEAD = re.compile(r"^[^\w\n]{0,6}(?:(?:the )?next sentence|so far|sentence)[ \t*]{0,3}:[ \t*]{0,3}", re.IGNORECASE)
_HEADING = re.compile(r"\A[\s*#:>-]*(?:(?:(?:the )?(?:answer|sentence|edited sentence))[ \t*]*:[\s*]*)?", re.IGNORECASE)
_LABEL = re.compile(
    r"^[^\w\n]{0,6}(?:(?P<sums>summary)|(?:next |search ){0,2}query)[ \t]?(?:\d{1,2})?[ \t*]{0,3}:[ \t*]{0,3}",
    re.IGNORECASE | re.M,
)


def read_sentence(text: str, fields: Fields) -> dict[str, Any]:
    """Read the first sentence that has not been written so far; the rest of the reply is ignored.

    >>> read_sentence("A is by Ann. Ann is from Rome. So it is Rome.", {"reasoning": ["A is by Ann."]})
    {'sentence': 'Ann is from Rome.'}
    """
    written = {"", *map(normalise, fields.get("reasoning") or ())}
    for line in [] if has_marker(text) else text.splitlines():
        own = _LEAD.sub("", line).strip(" \t*")
        if own.endswith(":") or own.startswith(("{", "```")):
            continue
        for sentence in sentences(own):
            if normalise(sentence) not in written:
                return {"sentence": sentence}
    raise Malformed("the reply must be one sentence that has not been written yet")


def read_edited(text: str, fields: Fields) -> dict[str, Any]:
    """Read the first line that says something; "none" for none.

    >>> read_edited("Answer: Thor Heyerdahl was born in Larvik.", {}), read_edited("None.", {})
    ({'sentence': 'Thor Heyerdahl was born in Larvik.'}, {'sentence': ''})
    """
    sentence = _HEADING.sub("", text, count=1).partition("\n")[0].strip()
    if not sentence or sentence.startswith(("{", "```")) or has_marker(sentence):
        raise Malformed("the reply must be one sentence, or none")
    return {"sentence": "" if says_nothing(sentence) else clean_value(sentence) or ""}


def read_hop(text: str, fields: Fields) -> dict[str, Any]:
    """Read "Summary: …" and "Query: …", "N/A" if nothing is missing; one line alone is the query.

    The first of each counts, or the last if one may be quoted.

    >>> read_hop("Summary: Ann made it.\\nQuery: Ann birthplace", {"passages": ["…"]})
    {'summary': 'Ann made it.', 'query': 'Ann birthplace'}
    """
    labels = list(_LABEL.finditer(text))
    last = len(labels) > 1 and quotable(_LABEL, fields)
    found: dict[str, str | None] = {}
    for label, value in labelled_parts(labels, text):
        name = "summary" if label["sums"] else "query"
        if last or name not in found:
            found[name] = clean_value(value if label["sums"] else value.lstrip("\n").partition("\n")[0])
    if not labels and len(text.split()) <= MAX_BARE_QUERY_WORDS and len(text.strip().splitlines()) == 1:
        found["query"] = None if has_marker(text) else clean_value(text)
    if "query" not in found or not (found["query"] or fields.get("passages")):
        raise Malformed('a line must give the next search query: "Query: <query>"')
    return {"summary": found.get("summary") if fields.get("passages") else None, "query": found["query"]}


def write_hop(output: Hop, fields: Fields) -> str:
    """Write the form that ``read_hop`` reads."""
    summary = f"Summary: {output.summary or 'none'}\n" if fields.get("passages") else ""
    return f"{summary}Query: {output.query or 'N/A'}"


def show_lines(texts: Sequence[str] | None, fields: Fields) -> str:
    """Show sentences as one paragraph."""
    return " ".join(map(one_line, texts or ()))


COT_SENTENCE = Task(
    "cot.sentence",
    fields=("question", "reasoning", "passages", "kind"),
    output=Sentence,
    parse=read_sentence,
    write=lambda output, fields: output.sentence,
    default={"sentence": ""},
    show={"reasoning": show_lines},
)
FLARE_QUESTION = sub_question_task(
    "flare.question", fields=("question", "reasoning", "sentence", "phrase", "kind"), show={"reasoning": show_lines}
)
VERIFY_EDIT_QUESTION = sub_question_task("verify_edit.question", fields=("question", "sentence", "kind"))
VERIFY_EDIT_EDIT = Task(
    "verify_edit.edit",
    fields=("sub_question", "passages"),
    output=EditedSentence,
    parse=read_edited,
    write=lambda output, fields: output.sentence or "none",
    default={"sentence": ""},
)
VERIFY_EDIT_ANSWER = direct_answer("verify_edit.answer", fields=("question", "rationale"))
DSP_HOP = Task(
    "dsp.hop",
    fields=("question", "summaries", "passages", "kind"),
    output=Hop,
    parse=read_hop,
    write=write_hop,
    default={},
    show={"summaries": show_lines},
)
