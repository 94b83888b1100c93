"""The tasks that recall or condense passages before they answer: recitation, SuRe and RECOMP.

``candidate`` is a possible answer, ``summary`` what passages were condensed to, ``summaries`` two of them to compare.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field, field_validator

from polyhop.common.sentences import sentences
from polyhop.prompts.answers import bare_answer, clean_value, short_answer
from polyhop.prompts.lines import Items, YesNo, read_items, whole_reply, write_items
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import Malformed, after_label, has_marker, own_mark
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.answers import direct_answer
from polyhop.prompts.tasks.base import BY_TYPE, Fields, Output, Show, Task
from polyhop.prompts.tasks.decomposition import show_numbered


class Recitation(Output):
    """Recitation-augmented generation (Sun et al., 2022): passages from the model's own memory."""

    recitations: list[str] = Field(description="short passages recalled from memory, one for each fact needed")


class Summary(Output):
    """The part of the passages that helps to answer the question: ReSP's global evidence (§3.1), SuRe's summaries."""

    summary: str = Field(description="what the passages say that helps, or empty")

    @field_validator("summary")
    @classmethod
    def _empty_if_nothing_helps(cls, value: str) -> str:
        return "" if is_filler(value) else value


class Candidates(Output):
    """SuRe §3.2 (Kim et al., 2024): possible answers, the likeliest first."""

    candidates: list[str] = Field(description="possible answers, the likeliest first, each {>brief}")

    def missing(self) -> str | None:
        return None if any(self.candidates) else "at least one candidate is needed"


class Validity(Output):
    """SuRe §3.3: true if a summary supports the answer that it was written for."""

    valid: bool = Field(description="whether the summary supports the answer")


class Preference(Output):
    """SuRe §3.3: the one of two summaries that is more informative about the question; null for neither."""

    better: int | None = Field(description="1 or 2, null if neither is better")

    @field_validator("better", mode="before")
    @classmethod
    def _one_or_two(cls, value: Any) -> int | None:
        return _number(str(value)[:_MAX_CHOICE_CHARS])


_DONE = re.compile(r"\[\s*done\s*\]|\n[^\w\n]*done\W*\Z", re.IGNORECASE)
_HELPFUL = r"(?:relevant|helpful|useful|supporting|pertinent|such)"
_CONTENT = r"(?:information|facts?|details?|evidence|passages?|texts?|documents?|sentences?|content|summary)"
_FILLER = re.compile(
    rf"\W*(?:done|empty|an empty summary|empty summary|no (?:summary|{_CONTENT}|(?:passages? )?helps?)"
    rf"|(?:not |ir|un)(?:relevant|related|helpful)|nothing(?: (?:in the passages )?(?:helps?|{_HELPFUL}).{{0,100}})?"
    rf"|(?:there (?:is|are|was|were) )?no {_HELPFUL} {_CONTENT}\b.{{0,200}}"
    rf"|(?:the |these |all (?:the )?)?(?:passages?|texts?|documents?) (?:is|are) (?:all )?(?:not |ir|un)"
    rf"(?:relevant|related|helpful)\b.{{0,200}})\W*",
    re.IGNORECASE,
)
"""A sentence that stands where nothing is to be summarized."""
_CONTRAST = re.compile(r"\b(?:but|however|though|although|except)\b", re.IGNORECASE)
_HEADING = re.compile(r"\A[\s*#:>-]*(?:(?:response|passage|summary)[ \t*]*:[\s*]*)?", re.IGNORECASE)
_MAX_CHOICE_CHARS = 80
"""Characters of a line that can name one of two."""
_NUMBER = re.compile(r"(?<![\w.])[12](?![\w]|\.\d)")
_NEITHER = re.compile(r"\b(?:neither|both|equal|tie|none|null)\b", re.IGNORECASE)


def is_filler(text: str) -> bool:
    """Return True if a text stands for an empty summary: [DONE], "Nothing helps.", "No passage mentions him."

    >>> is_filler("DONE"), is_filler("No relevant facts. The passages do not mention him.")
    (True, True)
    >>> is_filler("No relevant facts about Alien, but Jaws is by Steven Spielberg.")
    False
    """
    return not _CONTRAST.search(text) and all(
        _FILLER.fullmatch(sentence) or is_non_answer(sentence) for sentence in sentences(text)
    )


def read_summary(text: str, fields: Fields) -> dict[str, Any]:
    """Read a summary that [DONE] ends. One that was cut off before it is taken as it is; [DONE] alone is an empty one.

    The first [DONE] counts, or the last if one may be quoted.

    >>> read_summary("Response: Alien is by Ridley Scott. [DONE] Question: …", {})
    {'summary': 'Alien is by Ridley Scott.'}
    """
    done = own_mark(_DONE, text, fields)
    passage = _HEADING.sub("", text[: done.start()] if done else text, count=1)
    summary = clean_value(passage)
    if done is None and (summary is None or summary.startswith(("{", "```"))):
        raise Malformed("write the passage, then [DONE]; [DONE] alone if nothing helps")
    return {"summary": summary or ""}


def summary_task(
    name: str, *, fields: tuple[str, ...], demonstrations: str = "", show: Show = BY_TYPE
) -> Task[Summary]:
    """Make a task whose reply is a summary that [DONE] ends."""
    return Task(
        name, fields, Summary, {"summary": ""}, parse=read_summary,
        write=lambda output, fields: f"{output.summary} [DONE]".strip(), demonstrations=demonstrations,
        show=show,
    )  # fmt: skip


def read_candidates(text: str, fields: Fields) -> dict[str, Any]:
    """Read numbered answers; a reply of one short line is one answer.

    >>> read_candidates("1. Ridley Scott\\n2. James Cameron.", {})
    {'candidates': ['Ridley Scott', 'James Cameron']}
    """
    alone, own = (clean_value, clean_value) if fields.get("kind") == "long" else (bare_answer, short_answer)
    candidates = [answer for item in read_items(text, fields) if (answer := own(item))]
    candidates = candidates or [("" if has_marker(text) else alone(text)) or ""]
    if not any(candidates):
        raise Malformed("the reply must be the candidates, each with its number: 1. <candidate>")
    return {"candidates": candidates}


def read_preference(text: str, fields: Fields) -> dict[str, Any]:
    """Read the number of the better one, or "neither".

    >>> read_preference("Better: Summary 2", {}), read_preference("Both are equal.", {})
    ({'better': 2}, {'better': None})
    """
    line = after_label(text, "better(?: summary)?", "answer") or text.strip().partition("\n")[0]
    line = line[:_MAX_CHOICE_CHARS]
    better = _number(line)
    if better is None and not _NEITHER.search(line):
        raise Malformed('the reply must be "Better:" and 1, 2 or neither')
    return {"better": better}


def _number(text: str) -> int | None:
    """Return the one of two that a text names; None if it names neither, or both."""
    named = set(_NUMBER.findall(text))
    return int(named.pop()) if len(named) == 1 else None


def show_summaries(summaries: Sequence[str] | None, fields: Fields) -> str:
    """Show each summary under its number, one per line."""
    shown = (one_line(summary) or "(empty)" for summary in summaries or ())
    return "\n".join(f"Summary {number}: {summary}" for number, summary in enumerate(shown, 1))


RECITE_RECALL = Task(
    "recite.recall",
    fields=("question", "kind"),
    output=Recitation,
    lines=(Items("recitations", "the recited passages", otherwise=whole_reply),),
    default={"recitations": ()},
)
RECITE_ANSWER = direct_answer("recite.answer", fields=("question", "recitations"), show={"recitations": show_numbered})
SURE_CANDIDATES = Task(
    "sure.candidates",
    fields=("question", "passages", "count", "kind"),
    output=Candidates,
    parse=read_candidates,
    write=lambda output, fields: write_items(output.candidates),
    default={"candidates": ()},
)
SURE_SUMMARIZE = summary_task(
    "sure.summarize",
    fields=("question", "passages", "candidates", "candidate", "kind"),
    show={"candidates": show_numbered},
)
SURE_VALIDATE = Task(
    "sure.validate",
    fields=("question", "candidate", "summary", "kind"),
    output=Validity,
    lines=(YesNo("valid"),),
    default={"valid": False},
)
SURE_RANK = Task(
    "sure.rank",
    fields=("question", "summaries", "kind"),
    output=Preference,
    parse=read_preference,
    write=lambda output, fields: f"Better: {output.better or 'neither'}",
    default={"better": None},
    show={"summaries": show_summaries},
)
RECOMP_COMPRESS = summary_task(
    "recomp.compress", fields=("question", "passages", "kind"), demonstrations="resp.summarize"
)
RECOMP_ANSWER = direct_answer("recomp.answer", fields=("question", "summary"))
