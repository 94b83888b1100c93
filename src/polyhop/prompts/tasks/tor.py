"""The tasks of Tree of Reviews and its chain (Li et al., 2024, Tables 7 to 13)."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from polyhop.prompts.answers import clean_value
from polyhop.prompts.lines import Judgement
from polyhop.prompts.parsing import (
    Malformed,
    after_label,
    after_marker,
    find_judgement,
    from_marker,
    judgement,
    thoughts,
    without_echo,
    without_thoughts,
)
from polyhop.prompts.show import show_evidence
from polyhop.prompts.tasks.answers import reasoned_answer
from polyhop.prompts.tasks.base import Fields, Output, Task


class Review(Output):
    """ToR §3.2, Tables 7 and 8: the judgement of a path, then its brief analysis and answer, or the next query."""

    USABLE_INCOMPLETE = True  # relevant and sufficient, without an answer: the passages can still be read

    thought: str | None = Field(default=None, description="a short thought on steps 1 and 2")
    relevant: bool = Field(description="step 1")
    supported: bool = Field(description="step 2, are they enough")
    analysis: str | None = Field(
        default=None, description="step 3, if supported: how the answer follows, in one sentence"
    )
    answer: str | None = Field(default=None, description="step 3, if supported: the answer")
    query: str | None = Field(default=None, description="step 3, if not supported")

    def missing(self) -> str | None:
        lacks = self.relevant and self.supported and not self.answer
        return "Step 3 lacks the answer, though step 2 judges that the passages are enough" if lacks else None


class Supplement(Output):
    """ToR §3.4, Table 9 (missing paragraph completion): the missing information, from the model's own knowledge."""

    thought: str | None = Field(default=None, description="which fact is missing")
    information: str = Field(description="the missing fact, as an encyclopedia would word it")
    answer: str | None = Field(default=None, description="{>few}")


class MergedReview(Review):
    """A review that writes the missing paragraph itself: ToR's Tables 8 and 9 in one call (``mpc_merged``)."""

    information: str | None = Field(default=None, description="step 3, if not supported: the missing fact")


class Sufficiency(Output):
    """True if the gathered evidence is enough to answer."""

    sufficient: bool = Field(description="whether it is enough")


def read_review(text: str, fields: Fields) -> dict[str, Any]:
    """Read three steps: [RELEVANT] or [IRRELEVANT]; [SUPPORTED] or [UNSUPPORTED]; Analysis: … [ANSWER] … or [QUERY] …

    >>> read_review("[RELEVANT] [UNSUPPORTED] [QUERY] Who wrote it?", {})["query"]
    'Who wrote it?'
    """
    relevant, rest = _judged_relevant(without_echo(text))
    supported = judgement(rest, "SUPPORTED", "UNSUPPORTED")
    answer, query = after_marker(rest, "ANSWER", whole=fields.get("kind") == "long"), after_marker(rest, "QUERY")
    if supported is None:
        if relevant and answer is None and query is None:
            raise Malformed("Step 2 needs its judgment: [SUPPORTED] or [UNSUPPORTED]")
        supported = relevant and answer is not None
    return {
        "thought": thoughts(text),
        "relevant": relevant,
        "supported": supported,
        "analysis": _analysis(text) if supported else None,
        "answer": (answer or after_label(rest, "answer", "output")) if supported else None,
        "query": None if supported else query or after_label(rest, "query", "output"),
    }


_ANALYSIS = re.compile(r"^[^\w\n]*+(?:step[ \t]*+\d+[^\w\n]*+)?analysis[ \t*]*+:[\s*]*+", re.IGNORECASE | re.M)
_ANALYSIS_END = re.compile(
    r"\n[ \t]*\n|(?:\boutput[ \t*:]*+)?\[[\s*]{0,3}(?:ANSWER|QUERY|INFO)"
    r"|^[^\w\n]*+(?:step[ \t]*+\d|(?:output|answer)[ \t*]*+:)",
    re.IGNORECASE | re.M,
)


def _analysis(text: str) -> str | None:
    """Read what follows the last "Analysis:", up to the answer, a step or an empty line."""
    label = next(reversed([*_ANALYSIS.finditer(text)]), None)
    return clean_value(_ANALYSIS_END.split(text[label.end() :], maxsplit=1)[0]) if label else None


def _judged_relevant(text: str) -> tuple[bool, str]:
    """Read step 1; return it and the rest of the reply. Marks within a thought count only without others."""
    for own in (without_thoughts(text), text):
        if found := find_judgement(own, "RELEVANT", "IRRELEVANT"):
            return found.value, own[found.end :]
    raise Malformed("Step 1 needs its judgment: [RELEVANT] or [IRRELEVANT]")


def write_review(output: Review, fields: Fields) -> str:
    """Write the form that ``read_review`` reads; a thought of two lines is spread over the first two steps."""
    third = [f"Output: [QUERY] {output.query}"] if fields.get("asks_query", True) else []
    if output.supported:
        third = [f"Analysis: {output.analysis}"] * bool(output.analysis) + [f"Output: [ANSWER] {output.answer}"]
    return "\n".join([*_judgements(output, fields), *["Step 3"] * bool(third), *third])


def _judgements(output: Review, fields: Fields) -> list[str]:
    thoughts = [f"Thought: {line}" for line in (output.thought or "").split("\n") if line and fields.get("thoughts")]
    return [
        *("Step 1", *thoughts[:1], f"Judgment: [{'RELEVANT' if output.relevant else 'IRRELEVANT'}]"),
        *("Step 2", *thoughts[1:], f"Judgment: [{'SUPPORTED' if output.supported else 'UNSUPPORTED'}]"),
    ]


def read_supplement(text: str, fields: Fields) -> dict[str, Any]:
    """Read a thought, [INFO] and the missing information, [ANSWER] and the answer.

    >>> read_supplement("[INFO] Alien was directed by Ridley Scott. [ANSWER] 1937", {})["information"]
    'Alien was directed by Ridley Scott.'
    """
    information = after_marker(text, "INFO", "INFORMATION", whole=True) or after_label(text, "information")
    if information is None:
        raise Malformed("the missing information must follow [INFO]")
    after = from_marker(text, "INFO", "INFORMATION")
    answer = after_marker(after, "ANSWER", whole=fields.get("kind") == "long") or after_label(after, "answer")
    return {"thought": thoughts(text), "information": information, "answer": answer}


def write_supplement(output: Supplement, fields: Fields) -> str:
    """Write the form that ``read_supplement`` reads."""
    thought = f"Thought: {output.thought}\n" if output.thought else ""
    answer = f"\nAnswer: [ANSWER] {output.answer}" if output.answer else ""
    return f"{thought}Information: [INFO] {output.information}{answer}"


def read_merged(text: str, fields: Fields) -> dict[str, Any]:
    """Read a review whose third step is [ANSWER] … or [INFO] and the missing information.

    >>> read_merged("[RELEVANT] [UNSUPPORTED] [INFO] Alien is by Ridley Scott.", {})["information"]
    'Alien is by Ridley Scott.'
    """
    review = read_review(text, fields)
    information = None
    if not review["supported"]:
        information = after_marker(_judged_relevant(without_echo(text))[1], "INFO", "INFORMATION", whole=True)
    return {**review, "information": information}


def write_merged(output: MergedReview, fields: Fields) -> str:
    """Write the form that ``read_merged`` reads."""
    if output.supported:
        return write_review(output, fields)
    return "\n".join([*_judgements(output, fields), "Step 3", f"Output: [INFO] {output.information}"])


_REJECT = {"relevant": False, "supported": False}

TOR_REVIEW = Task(
    "tor.review",
    fields=("question", "passages", "thoughts", "asks_query", "kind"),
    output=Review,
    parse=read_review,
    write=write_review,
    default=_REJECT,
    asked_if={"thought": "thoughts", "query": "asks_query"},
)
COR_REVIEW = Task(
    "cor.review",
    fields=("question", "passages", "thoughts", "kind"),
    output=Review,
    parse=read_review,
    write=write_review,
    default=_REJECT,
    demonstrations="tor.review",
    asked_if={"thought": "thoughts"},
)
TOR_COMPLETE = Task(
    "tor.complete",
    fields=("question", "passages", "kind"),
    output=Supplement,
    parse=read_supplement,
    write=write_supplement,
    default={"information": ""},
)
TOR_MERGED = Task(
    "tor.merged",
    fields=("question", "passages", "thoughts", "kind"),
    output=MergedReview,
    parse=read_merged,
    write=write_merged,
    default=_REJECT,
    asked_if={"thought": "thoughts", "query": ""},
)
TOR_ENOUGH = Task(
    "tor.enough",
    fields=("question", "evidence", "kind"),
    output=Sufficiency,
    lines=(
        Judgement(
            "sufficient",
            "SUFFICIENT",
            "INSUFFICIENT",
            yes_or_no=True,
            complaint="the judgment is missing: [SUFFICIENT] or [INSUFFICIENT]",
        ),
    ),
    default={"sufficient": False},
    show={"evidence": show_evidence},
)
TOR_FUSE = reasoned_answer("tor.fuse", fields=("question", "evidence", "mode"), show={"evidence": show_evidence})
