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

from polyhop.prompts.answers import bare_answer, leading_answer, something, told_answer

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
_LEAD = re.compile(r"[\s:*]*(?:[-–•>]\s+)?")
_NEXT_TURN = re.compile(
    r"<\|(?:im_end|eot_id|end|endoftext|end_of_text)\|>|</s>|(?P<question>^[ \t#*]*Question:)", re.M
)
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


def marked(text: str) -> bool:
    """Whether a text carries any task's marker."""
    return any(name.upper() in MARKERS for name in _MARKER.findall(text))


def thoughts(text: str) -> str | None:
    """All "Thought:" lines of a reply, one a line; None if there are none."""
    return "\n".join(line.strip() for line in _THOUGHT.findall(text) if line.strip()) or None


# --- the tasks' text forms ---------------------------------------------------------------------------------------


def read_review(text: str, fields: Fields) -> dict[str, Any]:
    """Three steps: [RELEVANT] or [IRRELEVANT]; [SUPPORTED] or [UNSUPPORTED]; [ANSWER] … or [QUERY] …

    >>> read_review("[RELEVANT] [UNSUPPORTED] [QUERY] Who wrote it?", {})["query"]
    'Who wrote it?'
    """
    text = unechoed(text)
    relevant = judgement(text, "RELEVANT", "IRRELEVANT")
    supported = judgement(text, "SUPPORTED", "UNSUPPORTED")
    answer, query = after_marker(text, "ANSWER"), after_marker(text, "QUERY")
    if relevant is None:
        raise Malformed("Step 1 needs its judgment: [RELEVANT] or [IRRELEVANT]")
    if supported is None:
        if relevant and answer is None and query is None:
            raise Malformed("Step 2 needs its judgment: [SUPPORTED] or [UNSUPPORTED]")
        supported = relevant and answer is not None
    if supported:
        answer = answer or after_label(text, "answer", "output")
        if relevant and answer is None:
            raise Malformed("Step 3 needs [ANSWER] and the answer after [SUPPORTED]")
    return {
        "thought": thoughts(text),
        "relevant": relevant,
        "supported": supported,
        "answer": answer if supported else None,
        "query": None if supported else query or after_label(text, "query", "output"),
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
    information = after_marker(text, "INFO", "INFORMATION", whole=True) or after_label(text, "information")
    if information is None:
        raise Malformed("the missing information must follow [INFO]")
    answer = after_marker(text, "ANSWER") or after_label(text, "answer")
    return {"thought": thoughts(text), "information": information, "answer": answer}


def write_supplement(output: Any, fields: Fields) -> str:
    """The inverse of ``read_supplement``."""
    thought = f"Thought: {output.thought}\n" if output.thought else ""
    answer = f"\nAnswer: [ANSWER] {output.answer}" if output.answer else ""
    return f"{thought}Information: [INFO] {output.information}{answer}"


def read_merged(text: str, fields: Fields) -> dict[str, Any]:
    """A review whose third step is [ANSWER] … or [INFO] and the missing information.

    >>> read_merged("[RELEVANT] [UNSUPPORTED] [INFO] Alien is by Ridley Scott.", {})["information"]
    'Alien is by Ridley Scott.'
    """
    review = read_review(text, fields)
    information = None if review["supported"] else after_marker(unechoed(text), "INFO", "INFORMATION", whole=True)
    return {**review, "information": information}


def write_merged(output: Any, fields: Fields) -> str:
    """The inverse of ``read_merged``."""
    if output.supported:
        return write_review(output, fields)
    lead, _, _ = write_review(output, fields).rpartition("Output: ")
    return f"{lead}Output: [INFO] {output.information}"


def read_sufficiency(text: str, fields: Fields) -> dict[str, Any]:
    """[SUFFICIENT] or [INSUFFICIENT], or yes or no at the head of the reply.

    >>> read_sufficiency("[INSUFFICIENT]", {}), read_sufficiency("Yes.", {})
    ({'sufficient': False}, {'sufficient': True})
    """
    found = judgement(unechoed(text), "SUFFICIENT", "INSUFFICIENT")
    if found is None and (word := re.match(r"\W*(yes|no)\b", text, re.IGNORECASE)):
        found = word[1].lower() == "yes"
    if found is None:
        raise Malformed("the judgment is missing: [SUFFICIENT] or [INSUFFICIENT]")
    return {"sufficient": found}


def write_sufficiency(output: Any, fields: Fields) -> str:
    """The inverse of ``read_sufficiency``."""
    return f"Judgment: [{'SUFFICIENT' if output.sufficient else 'INSUFFICIENT'}]"


def read_reasoned(text: str, fields: Fields) -> dict[str, Any]:
    """Reasoning that ends in "The answer is …".

    >>> read_reasoned("Alien is by Scott. So the answer is Ridley Scott.", {})
    {'rationale': 'Alien is by Scott.', 'answer': 'Ridley Scott'}
    """
    if told := told_answer(text):
        return {"rationale": told.before or None, "answer": told.answer}
    if not marked(text) and (answer := bare_answer(text)):
        return {"rationale": None, "answer": answer}
    raise Malformed('the last sentence must be "The answer is …", with an answer')


def write_reasoned(output: Any, fields: Fields) -> str:
    """The inverse of ``read_reasoned``."""
    lead = f"{output.rationale} " if output.rationale else ""
    return f"{lead}The answer is {output.answer}."


def read_direct(text: str, fields: Fields) -> dict[str, Any]:
    """A short answer alone, with or without "Answer:" or "The answer is" before it.

    >>> read_direct("Answer: Ridley Scott", {})["answer"]
    'Ridley Scott'
    """
    told = told_answer(text)
    if told and told.plainly:
        return {"rationale": None, "answer": told.answer}
    if not marked(text) and (answer := leading_answer(text)):
        return {"rationale": None, "answer": answer}
    if told:
        return {"rationale": None, "answer": told.answer}
    raise Malformed("the reply must be the answer alone, in a few words")


def write_direct(output: Any, fields: Fields) -> str:
    """The inverse of ``read_direct``."""
    return f"Answer: {output.answer}"


# --- the json form -----------------------------------------------------------------------------------------------


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a reply, whatever stands around them; those inside another come after it."""
    decoder = json.JSONDecoder(strict=False)  # models leave line breaks inside strings
    for brace in itertools.islice(re.finditer(r"\{", text), MOST_OBJECTS):
        try:
            yield decoder.raw_decode(text, brace.start())[0]
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
