"""Reading and writing the text form of outputs: marker tokens and "The answer is …", as models really write them.

Readers are tolerant of case, bold, missing step headings and chatter around the markers; what cannot be read raises
``Malformed`` with a complaint the model is shown once. Nothing is ever evaluated.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from polyhop.text import sentences

Fields = Mapping[str, Any]


class Malformed(ValueError):
    """A reply that is not in its task's form; the message says what is missing."""


_MARKER = re.compile(r"\[\s{0,3}([A-Z][A-Z _]{1,30}?)\s{0,3}\]\*{0,2}", re.IGNORECASE)
_STEP = re.compile(
    r"^[^\w\n]*(?:step[ \t]*\d+\b.*|(?:thought|judge?ment|output|answer|information)s?[ \t*]*:.*)$",
    re.IGNORECASE | re.M,
)
_THOUGHT = re.compile(r"^[^\w\n]*thoughts?[ \t*]*:[ \t*]*(.*)$", re.IGNORECASE | re.M)
_ANSWER_IS = re.compile(r"\b(?:(?:the|my|its) )?(?:(?:final|correct|short) )?answer (?:is|would be)\b[ \t]*:?\s*", re.I)
_ANSWER_LABEL = re.compile(r"^[^\w\n]*(?:final )?answer[ \t*]*:[ \t*]*", re.IGNORECASE | re.M)
_NOTHING = frozenset({"", "none", "null", "n/a", "na", "nothing", "-"})
LONGEST_BARE_ANSWER = 15
"""Words: an unmarked one-line reply up to this length is taken as the answer itself."""


# --- markers -----------------------------------------------------------------------------------------------------


def judgement(text: str, yes: str, no: str) -> bool | None:
    """Which of two marker tokens a reply carries, the last one counting; None if neither.

    >>> judgement("Judgment: **[Irrelevant]**", "RELEVANT", "IRRELEVANT")
    False
    >>> judgement("Judgment: RELEVANT", "RELEVANT", "IRRELEVANT")
    True
    """
    bracketed = [name for found in _MARKER.finditer(text) if (name := found[1].upper()) in (yes, no)]
    if bracketed:
        return bracketed[-1] == yes
    bare = re.findall(rf"^[^\w\n]*(?:[\w ]+:)?[^\w\n]*\b({yes}|{no})\b[^\w\n]*$", text, re.IGNORECASE | re.M)
    return bare[-1].upper() == yes if bare else None


def after_marker(text: str, *names: str) -> str | None:
    """What follows the last ``[NAME]``, up to the next marker or step heading; None if absent or empty.

    >>> after_marker("Output: [QUERY] who directed Alien?", "QUERY")
    'who directed Alien?'
    >>> after_marker("[ANSWER] None", "ANSWER") is None
    True
    """
    found = [marker for marker in _MARKER.finditer(text) if marker[1].upper() in names]
    for marker in reversed(found):
        rest = text[marker.end() :].lstrip(" :\t-–*")
        stop = min((m.start() for m in (_MARKER.search(rest), _STEP.search(rest)) if m), default=len(rest))
        if value := something(rest[:stop]):
            return value
    return None


def something(text: str | None) -> str | None:
    """A value stripped of quotes and bold; None for nothing and for words that mean nothing.

    >>> something(' "Paris" '), something("N/A")
    ('Paris', None)
    """
    value = " ".join((text or "").split()).strip("*").strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'`":
        value = value[1:-1].strip()
    return None if value.lower().rstrip(".") in _NOTHING else value


def thoughts(text: str) -> str | None:
    """All "Thought:" lines of a reply, one a line; None if there are none."""
    return "\n".join(line.strip() for line in _THOUGHT.findall(text) if line.strip()) or None


# --- the tasks' text forms ---------------------------------------------------------------------------------------


def read_review(text: str, fields: Fields) -> dict[str, Any]:
    """Three steps: [RELEVANT] or [IRRELEVANT]; [SUPPORTED] or [UNSUPPORTED]; [ANSWER] … or [QUERY] …

    >>> read_review("[RELEVANT] [UNSUPPORTED] [QUERY] Who wrote it?", {})["query"]
    'Who wrote it?'
    """
    relevant = judgement(text, "RELEVANT", "IRRELEVANT")
    supported = judgement(text, "SUPPORTED", "UNSUPPORTED")
    answer, query = after_marker(text, "ANSWER"), after_marker(text, "QUERY")
    if relevant is None:
        raise Malformed("Step 1 needs its judgment: [RELEVANT] or [IRRELEVANT]")
    if supported is None:
        if relevant and answer is None and query is None:
            raise Malformed("Step 2 needs its judgment: [SUPPORTED] or [UNSUPPORTED]")
        supported = relevant and answer is not None
    if relevant and supported and answer is None:
        raise Malformed("Step 3 needs [ANSWER] and the answer after [SUPPORTED]")
    return {
        "relevant": relevant,
        "supported": supported,
        "thought": thoughts(text),
        "answer": answer if supported else None,
        "query": None if supported else query,
    }


def write_review(output: Any, fields: Fields) -> str:
    """The inverse of ``read_review``; a thought of three lines is spread over the three steps."""
    lines = (output.thought or "").split("\n") if fields.get("thoughts") else []
    ends = (
        f"Judgment: [{'RELEVANT' if output.relevant else 'IRRELEVANT'}]",
        f"Judgment: [{'SUPPORTED' if output.supported else 'UNSUPPORTED'}]",
        f"Output: [ANSWER] {output.answer}" if output.supported else f"Output: [QUERY] {output.query}",
    )
    steps = []
    for number, end in enumerate(ends):
        thought = f"Thought: {lines[number]}\n" if number < len(lines) and lines[number] else ""
        steps.append(f"Step {number + 1}\n{thought}{end}")
    return "\n".join(steps)


def read_supplement(text: str, fields: Fields) -> dict[str, Any]:
    """A thought, [INFO] and the missing information, [ANSWER] and the answer.

    >>> read_supplement("[INFO] Alien was directed by Ridley Scott. [ANSWER] 1937", {})["information"]
    'Alien was directed by Ridley Scott.'
    """
    information = after_marker(text, "INFO", "INFORMATION")
    if information is None:
        raise Malformed("the missing information must follow [INFO]")
    return {"thought": thoughts(text), "information": information, "answer": after_marker(text, "ANSWER")}


def write_supplement(output: Any, fields: Fields) -> str:
    """The inverse of ``read_supplement``."""
    thought = f"Thought: {output.thought}\n" if output.thought else ""
    answer = f"\nAnswer: [ANSWER] {output.answer}" if output.answer else ""
    return f"{thought}Information: [INFO] {output.information}{answer}"


def read_reasoned(text: str, fields: Fields) -> dict[str, Any]:
    """Reasoning that ends in "The answer is …".

    >>> read_reasoned("Alien is by Scott. So the answer is Ridley Scott.", {})
    {'rationale': 'Alien is by Scott.', 'answer': 'Ridley Scott'}
    """
    ends = list(_ANSWER_IS.finditer(text)) or list(_ANSWER_LABEL.finditer(text))
    for end in reversed(ends):
        if answer := short_answer(text[end.end() :]):
            lead = re.sub(r"\b(?:so|thus|hence|therefore|and)\W*$", "", text[: end.start()].rstrip(), flags=re.I)
            return {"rationale": lead.strip() or None, "answer": answer}
    if answer := bare_answer(text):
        return {"rationale": None, "answer": answer}
    raise Malformed('the last sentence must be "The answer is …"')


def write_reasoned(output: Any, fields: Fields) -> str:
    """The inverse of ``read_reasoned``."""
    lead = f"{output.rationale} " if output.rationale else ""
    return f"{lead}The answer is {output.answer}."


def read_direct(text: str, fields: Fields) -> dict[str, Any]:
    """A short answer alone, with or without "Answer:" or "The answer is" before it.

    >>> read_direct("Answer: Ridley Scott", {})["answer"]
    'Ridley Scott'
    """
    try:
        return {"rationale": None, "answer": read_reasoned(text, fields)["answer"]}
    except Malformed:
        raise Malformed("the reply must be the answer alone, in a few words") from None


def write_direct(output: Any, fields: Fields) -> str:
    """The inverse of ``read_direct``."""
    return f"Answer: {output.answer}"


def short_answer(text: str) -> str | None:
    """The answer at the head of a text: its first sentence on its first line, without a closing full stop.

    >>> short_answer(" 'St. Louis'.  It lies in Missouri.")
    'St. Louis'
    """
    line = next((line for line in text.splitlines() if line.strip(" *\"'")), "")
    first = next(iter(sentences(line)), "").strip()
    value = something(first.removesuffix(".") if not re.search(r"\b(?:[A-Z]|Jr|Sr|Inc|Ltd|Co)\.$", first) else first)
    return value.rstrip("*").strip() if value else None


def bare_answer(text: str) -> str | None:
    """A reply of one short line and no marker is the answer itself; None otherwise."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or len(lines[0].split()) > LONGEST_BARE_ANSWER or _MARKER.search(text):
        return None
    return short_answer(text)


# --- the json form -----------------------------------------------------------------------------------------------


def first_object(text: str) -> dict[str, Any]:
    """The first JSON object in a reply, whatever stands around it.

    >>> first_object('Sure:\\n```json\\n{"answer": "Paris"}\\n```')
    {'answer': 'Paris'}
    """
    decoder = json.JSONDecoder()
    for brace in itertools.islice(re.finditer(r"\{", text), 100):
        try:
            value, _ = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise Malformed("the reply must be one JSON object")
