"""Reading and writing the text form of outputs: marker tokens and "The answer is …", as models really write them.

Readers are tolerant of case, bold, missing step headings and chatter around the markers; what cannot be read raises
``Malformed`` with a complaint the model is shown once. Nothing is ever evaluated, and every reader is linear in the
length of the reply.
"""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from polyhop.prompts.answers import something

Fields = Mapping[str, Any]


class Malformed(ValueError):
    """A reply that is not in its task's form; the message says what is missing."""


MARKERS = frozenset(
    "RELEVANT IRRELEVANT SUPPORTED UNSUPPORTED ANSWER QUERY INFO INFORMATION SUFFICIENT INSUFFICIENT".split()
)
"""The marker tokens of all tasks: the text after one ends where the next begins."""
LONGEST_REPLY = 20_000
"""Characters of a reply that are read: half from its head, half from its end."""
MOST_OBJECTS = 100
"""Opening braces of a reply that are tried as the start of a JSON object."""

# A bracket may hold spaces or be filled, "[ANSWER: Paris]": the colon is left to be stripped with what follows it.
_MARKER = re.compile(r"\[[\s*]{0,3}([A-Z][A-Z _-]{1,30}?)[\s*]{0,3}(?:\]|(?=:))\*{0,2}", re.IGNORECASE)
_ALTERNATIVES = (
    "RELEVANT IRRELEVANT",
    "SUPPORTED UNSUPPORTED",
    "SUFFICIENT INSUFFICIENT",
    "ANSWER QUERY",
    "ANSWER INFO",
    "CORRECT INCORRECT",
)
_ECHO = re.compile(
    "|".join(r"\[{}\][^\[\]\n]{{0,40}}?(?:\bor\b|/|\|)[ \t*]*\[{}\]".format(*pair.split()) for pair in _ALTERNATIVES),
    re.IGNORECASE,
)
_STEP = re.compile(
    r"^[^\w\n]*+(?:step[ \t]*+\d+\b.*|(?:thought|judge?ment|output|answer|query|information)s?[ \t*]*+:.*)$",
    re.IGNORECASE | re.M,
)
_THOUGHT = re.compile(r"^[^\w\n]*+thoughts?[ \t]*+\d{0,2}[ \t*]*+:[ \t*]*+(.*)$", re.IGNORECASE | re.M)
SUB_QUESTION = r"(?:(?:next |sub[ -]?)question|follow[ -]?up(?: question)?)"
"""What a sub-question is called: by our prompts, by self-ask's."""
_SUB_QUESTION_LINE = re.compile(
    rf"^[^\w\n]*+(?:next )?{SUB_QUESTION}[^\w\n:]*+\d{{0,2}}[^\w\n:]*+:[ \t*]*+(.*)$", re.IGNORECASE | re.M
)
_MAIN_QUESTION = re.compile(r"(?:main|original|overarching)? ?question[ *]*:", re.IGNORECASE)
_NUMBER = re.compile(r"\A(?:\(?\d{1,2}[.):]\)?|[-–•*>])\s+")
_LEAD = re.compile(r"[\s:*]*(?:[-–•>]\s+)?")
_NEXT_TURN = re.compile(
    r"<\|(?:im_end|eot_id|end|endoftext|end_of_text)\|>|</s>|(?P<question>^[ \t#*]*Question:)", re.M
)
_JSON = json.JSONDecoder(strict=False)  # models leave line breaks inside strings
_FORMED = re.compile(r"\banswers? (?:is|are)\b|^[^\w\n]*+answer[^\w\n]*:|[\[}]", re.IGNORECASE | re.M)


def own_parts(text: str) -> Iterator[str]:
    """A reply up to where the model goes on to a question of its own, as base models do; then the whole of it."""
    if len(text) > LONGEST_REPLY:
        text = f"{text[: LONGEST_REPLY // 2]}\n{text[-LONGEST_REPLY // 2 :]}"
    for turn in itertools.islice(_NEXT_TURN.finditer(text), 2):  # the first may be the question said again
        head = text[: turn.start()].strip()
        if head and (turn["question"] is None or _FORMED.search(head)):
            yield head
            break
    yield text


def unechoed(text: str) -> str:
    """A reply without the form's own alternatives, said again before the choice or instead of it.

    >>> unechoed("Judgment: [RELEVANT] or [IRRELEVANT]: [RELEVANT]")
    'Judgment: : [RELEVANT]'
    """
    return _ECHO.sub("", text)


# --- markers -----------------------------------------------------------------------------------------------------


def judgement(text: str, yes: str, no: str) -> bool | None:
    """Which of two marker tokens a reply carries, the last one counting; None if neither.

    >>> judgement("Judgment: **[Irrelevant]**", "RELEVANT", "IRRELEVANT")
    False
    >>> judgement("Judgment: Relevant, it names him.", "RELEVANT", "IRRELEVANT")
    True
    """
    for marker in reversed(_MARKER.findall(text)):
        if (name := marker.upper()) in (yes, no, f"NOT {yes}"):
            return bool(name == yes)
    bare = _bare_judgement(yes, no).findall(text)
    return (bare[-1][1].upper() == yes) is not bool(bare[-1][0]) if bare else None


@cache
def _bare_judgement(yes: str, no: str) -> re.Pattern[str]:
    """A line that is a judgement without its brackets, "Step 1: Judgment: the path is not relevant"; no thought."""
    return re.compile(
        r"^[^\w\n]*+(?!thought)(?:\w[\w \t-]{0,23}:[^\w\n]*+){0,2}"
        r"(?:(?:the|these|this|it|they)\b[\w \t]{0,30}\b(?:is|are)[ \t]+)?"
        rf"(not[ \t-]++)?({yes}|{no})\b(?=[^\w\n]*$|[ \t*]*[.,;:(–—])",
        re.IGNORECASE | re.M,
    )


def after_marker(text: str, *names: str, whole: bool = False) -> str | None:
    """The line after the last ``[NAME]``, or all up to the next marker or step (``whole``); None if it says nothing.

    >>> after_marker("Output: [QUERY] who directed Alien?", "QUERY")
    'who directed Alien?'
    >>> after_marker("[ANSWER] None", "ANSWER") is None
    True
    """
    known = MARKERS.union(names)
    marks = [(mark.start(), mark.end(), name) for mark in _MARKER.finditer(text) if (name := mark[1].upper()) in known]
    if all(name not in names for _, _, name in marks):
        return None
    ends = sorted([start for start, _, _ in marks] + [step.start() for step in _STEP.finditer(text)])
    for _, end, name in reversed(marks):
        if name in names:
            after = bisect_left(ends, end)
            rest = _LEAD.sub("", text[end : ends[after] if after < len(ends) else None], count=1)
            if value := something(rest if whole else rest.partition("\n")[0]):
                return value
    return None


def after_label(text: str, *names: str) -> str | None:
    """What follows the last line label of those names, for models that drop the brackets; None if there is none.

    >>> after_label("Step 3" + chr(10) + "**Output:** Lars Sonck", "answer", "output")
    'Lars Sonck'
    """
    lead = r"^[^\w\n]*+(?:step[ \t]*+\d+[^\w\n]*+)?(?:output[^\w\n]++)?"
    lines = re.findall(rf"{lead}(?:{'|'.join(names)})[ \t*]*+:[ \t*]*+(.*)$", text, re.IGNORECASE | re.M)
    return something(lines[-1]) if lines and not marked(lines[-1]) else None


def labelled_question(text: str) -> str | None:
    """What follows the first label of a sub-question, numbered or not, also as self-ask calls it; None without one.

    >>> labelled_question("Main question: Who?" + chr(10) + "Follow-up 1: Which film?" + chr(10) + "Follow-up 2: When?")
    'Which film?'
    """
    found = _SUB_QUESTION_LINE.search(text)
    return _NUMBER.sub("", found[1].strip(), count=1) if found else None


def bare_question(text: str) -> str | None:
    """The first line that ends in a question mark, without its number; None if there is none.

    >>> bare_question("We need this:" + chr(10) + "1. Who directed Alien?" + chr(10) + "2. Where was he born?")
    'Who directed Alien?'
    """
    for line in text.splitlines():
        told = something(_NUMBER.sub("", line.strip(), count=1))
        if told and told[-1] in "?？؟" and not _MAIN_QUESTION.match(told):
            return told
    return None


def marked(text: str) -> bool:
    """Whether a text carries any task's marker."""
    return any(name.upper() in MARKERS for name in _MARKER.findall(text))


def thoughts(text: str) -> str | None:
    """All "Thought:" lines of a reply, one a line; None if there are none."""
    return "\n".join(line.strip() for line in _THOUGHT.findall(text) if line.strip()) or None


# --- the json form -----------------------------------------------------------------------------------------------


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a reply, whatever stands around them; those inside another come after it."""
    for brace in itertools.islice(re.finditer(r"\{", text), MOST_OBJECTS):
        try:
            yield _JSON.raw_decode(text, brace.start())[0]
        except (ValueError, RecursionError):
            continue


def first_object(text: str) -> dict[str, Any]:
    """The first JSON object in a reply.

    >>> first_object('Sure:\\n```json\\n{"answer": "Paris"}\\n```')
    {'answer': 'Paris'}
    """
    for found in objects(text):
        return found
    raise Malformed("the reply must be one JSON object")
