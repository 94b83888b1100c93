"""Reading and writing the text form of outputs: marker tokens and "The answer is …", as models really write them.

Readers are tolerant of case, bold, missing step headings and chatter around the markers; what cannot be read raises
``Malformed`` with a complaint the model is shown once. Nothing is ever evaluated, and every reader is linear in the
length of the reply.

A reply may quote what it was shown, marks included, before it comes to its own verdict. So the last mark counts, and
one at the start of a line before one within it. Where the first counts instead, because models go on after it, the
last counts again if the call's own fields hold such a mark (``quotable``).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from polyhop.prompts.answers import clean_value
from polyhop.types import Passage

Fields = Mapping[str, Any]


class Malformed(ValueError):
    """A reply that is not in its task's form; the message says what is missing."""


MARKERS = frozenset(
    "RELEVANT IRRELEVANT SUPPORTED UNSUPPORTED ANSWER QUERY INFO INFORMATION SUFFICIENT INSUFFICIENT".split()
)
"""The marker tokens of all tasks: the text after one ends where the next begins."""
MAX_REPLY_CHARS = 20_000
"""Characters of a reply that are read: half from its head, half from its end."""
MAX_OBJECTS = 100
"""Opening braces of a reply that are tried as the start of a JSON object; a reply of more has none."""

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
"""The names of a sub-question: in our prompts and in self-ask's."""
_LABELS = re.compile(r"[^\w\n]*+(?!thought)(?:\w[\w \t-]{0,23}:[^\w\n]*+){0,2}", re.IGNORECASE)
"""All that may stand before a mark that opens its line: "Step 1: Judgment:"; no thought."""
_SUB_QUESTION_LINE = re.compile(
    rf"^[^\w\n]*+(?:next )?{SUB_QUESTION}[^\w\n:]*+\d{{0,2}}[^\w\n:]*+:[ \t*]*+(.*)$", re.IGNORECASE | re.M
)
_MAIN_QUESTION = re.compile(r"(?:main|original|overarching)? ?question[ *]*:", re.IGNORECASE)
_NUMBER = re.compile(r"\A(?:\(?\d{1,2}[.):]\)?|[-–•*>])\s+")
_LEAD = re.compile(r"[\s:*]*(?:[-–•>]\s+)?")
_QUESTION = re.compile(r"^[ \t#*]*Question:", re.M)
_NEXT_TURN = re.compile(
    rf"<\|(?:im_end|eot_id|end|endoftext|end_of_text)\|>|</s>|(?P<question>{_QUESTION.pattern})", re.M
)
_JSON = json.JSONDecoder(strict=False)  # models leave line breaks inside strings
_LINE_END = re.compile(r"[ \t`*\]]*+(?:\n|\Z)")
_BRACE = re.compile(r"[{}]")
_FENCE = re.compile(r"\A```\w*\s*")
_OBJECT = re.compile(r"(?<!\\boxed)(?<!\\text)\{")
_FORMED = re.compile(r"\banswers? (?:is|are)\b|^[^\w\n]*+answer[^\w\n]*:|[\[}]", re.IGNORECASE | re.M)


def reply_parts(text: str, fields: Fields) -> Iterator[str]:
    """Yield a reply up to where the model goes on to a question of its own, as base models do; then the whole of it.

    A line "Question:" is no such position if the call's fields hold one, which the reply may quote. Control tokens are
    defused in everything that is shown.
    """
    if len(text) > MAX_REPLY_CHARS:
        text = f"{text[: MAX_REPLY_CHARS // 2]}\n{text[-MAX_REPLY_CHARS // 2 :]}"
    turns = _NEXT_TURN.finditer(text)
    if "Question:" in text and quotable(_QUESTION, fields):
        turns = (turn for turn in turns if turn["question"] is None)
    for turn in itertools.islice(turns, 2):  # the first may be the question said again
        head = text[: turn.start()].strip()
        if head and (turn["question"] is None or _FORMED.search(head)):
            yield head
            break
    yield text


def quotable(mark: re.Pattern[str], fields: Fields) -> bool:
    """Return whether a call's fields hold such a mark: one in the reply may then be quoted from there."""
    return any(mark.search(text) for text in _texts(fields))


def own_mark(mark: re.Pattern[str], text: str, fields: Fields) -> re.Match[str] | None:
    """Find the first such mark of a reply, whose model goes on after it; the last if one may be quoted."""
    found = mark.search(text)
    return list(mark.finditer(text))[-1] if found and quotable(mark, fields) else found


def _texts(value: Any) -> Iterator[str]:
    """Yield every text that a field shows, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Passage):
        yield value.title
        yield value.text
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def without_echo(text: str) -> str:
    """A reply without the form's own alternatives, said again before the choice or instead of it.

    >>> without_echo("Judgment: [RELEVANT] or [IRRELEVANT]: [RELEVANT]")
    'Judgment: : [RELEVANT]'
    """
    return _ECHO.sub("", text)


# --- markers -----------------------------------------------------------------------------------------------------


class Judgement(NamedTuple):
    """A judgement that a reply carries: its value, and the position where the reply goes on after it."""

    value: bool
    end: int


def judgement(text: str, yes: str, no: str) -> bool | None:
    """Return which of two marker tokens a reply carries, as ``find_judgement`` finds it; None if neither.

    >>> judgement("Judgment: **[Irrelevant]**", "RELEVANT", "IRRELEVANT")
    False
    >>> judgement("Judgment: Relevant, it names him.", "RELEVANT", "IRRELEVANT")
    True
    """
    found = find_judgement(text, yes, no)
    return found.value if found else None


def find_judgement(text: str, yes: str, no: str, *, bare: bool = False) -> Judgement | None:
    """Find the last judgement of a reply: a marker that opens a line, else a word that does, else any marker.

    One that is contradicted further on is None: either of the two may be quoted. ``bare``: the form asks for the word
    without brackets, so that it counts as a marker does.

    >>> find_judgement("It claims to be [RELEVANT]." + chr(10) + "Judgment: [IRRELEVANT]", "RELEVANT", "IRRELEVANT")
    Judgement(value=False, end=50)
    >>> find_judgement("Judgment: [IRRELEVANT] It claims to be [RELEVANT].", "RELEVANT", "IRRELEVANT") is None
    True
    """
    opening: list[Judgement] = []
    inside: list[Judgement] = []
    end, chained = 0, True
    for mark in _MARKER.finditer(text):
        line = text.rfind("\n", end, mark.start()) + 1
        chained = (chained or line > 0) and _LABELS.fullmatch(text, line or end, mark.start()) is not None
        end = mark.end()
        if (name := mark[1].upper()) in (yes, no, f"NOT {yes}"):
            (opening if chained else inside).append(Judgement(name == yes, end))
    words = [
        Judgement((word[2].upper() == yes) is not bool(word[1]), word.end())
        for word in _bare_judgement(yes, no).finditer(text)
    ]
    if bare:
        opening, words = sorted((*opening, *words), key=lambda found: found.end), []
    if not (own := (opening or words or inside)[-1:]):
        return None
    later = (found for found in (*words, *inside) if found.end > own[0].end)
    return None if any(found.value is not own[0].value for found in later) else own[0]


@cache
def _bare_judgement(yes: str, no: str) -> re.Pattern[str]:
    """A line that is a judgement without its brackets, "Step 1: Judgment: the path is not relevant"; no thought."""
    return re.compile(
        rf"^{_LABELS.pattern}"
        r"(?:(?:the|these|this|it|they)\b[\w \t]{0,30}\b(?:is|are)[ \t]+)?"
        rf"(not[ \t-]++)?({yes}|{no})\b(?=[^\w\n]*$|[ \t*]*[.,;:(–—])",
        re.IGNORECASE | re.M,
    )


def after_marker(text: str, *names: str, whole: bool = False) -> str | None:
    """Return the line after the last ``[NAME]``, or all up to the next marker or step (``whole``); None if it says
    nothing.

    >>> after_marker("Output: [QUERY] who directed Alien?", "QUERY")
    'who directed Alien?'
    >>> after_marker("[ANSWER] None", "ANSWER") is None
    True
    """
    known = MARKERS.union(names)
    marks = [(mark.start(), mark.end(), name) for mark in _MARKER.finditer(text) if (name := mark[1].upper()) in known]
    end = next((end for _, end, name in reversed(marks) if name in names), None)
    if end is None:
        return None
    ends = [start for start, _, _ in marks] + [step.start() for step in _STEP.finditer(text)]
    rest = _LEAD.sub("", text[end : min((stop for stop in ends if stop >= end), default=None)], count=1)
    return clean_value(rest if whole else rest.partition("\n")[0])


def from_marker(text: str, *names: str) -> str:
    """Return a reply from its last ``[NAME]`` on; the whole of it if there is none.

    >>> from_marker('It says "[ANSWER] no". [INFO] Alien is a film.', "INFO")
    '[INFO] Alien is a film.'
    """
    starts = [mark.start() for mark in _MARKER.finditer(text) if mark[1].upper() in names]
    return text[starts[-1] :] if starts else text


def without_thoughts(text: str) -> str:
    """Return a reply without its "Thought:" lines, whose marks are those it thinks of."""
    return _THOUGHT.sub("", text)


def after_label(text: str, *names: str) -> str | None:
    """Return the text after the last line label of those names, for models that drop the brackets; None without one.

    >>> after_label("Step 3" + chr(10) + "**Output:** Lars Sonck", "answer", "output")
    'Lars Sonck'
    """
    return clean_value(labelled_value(text, *names))


def labelled_value(text: str, *names: str) -> str | None:
    """Return the rest of the last line that one of the labels opens, as it is written; None without one."""
    lead = r"^[^\w\n]*+(?:step[ \t]*+\d+[^\w\n]*+)?(?:output[^\w\n]++)?"
    lines: list[str] = re.findall(rf"{lead}(?:{'|'.join(names)})[ \t*]*+:[ \t*]*+(.*)$", text, re.IGNORECASE | re.M)
    return lines[-1] if lines and not has_marker(lines[-1]) else None


def labelled_question(text: str, fields: Fields) -> str | None:
    """Return what follows the first label of a sub-question, numbered or not, also as self-ask calls it; None without
    one. The last label counts if the fields hold one.

    >>> reply = "Main question: Who?" + chr(10) + "Follow-up 1: Which film?" + chr(10) + "Follow-up 2: When?"
    >>> labelled_question(reply, {}), labelled_question(reply, {"passages": ["Follow-up: Who?"]})
    ('Which film?', 'When?')
    """
    found = own_mark(_SUB_QUESTION_LINE, text, fields)
    return _NUMBER.sub("", found[1].strip(), count=1) if found else None


def bare_question(text: str) -> str | None:
    """The first line that ends in a question mark, without its number; None if there is none.

    >>> bare_question("We need this:" + chr(10) + "1. Who directed Alien?" + chr(10) + "2. Where was he born?")
    'Who directed Alien?'
    """
    for line in text.splitlines():
        question = clean_value(_NUMBER.sub("", line.strip(), count=1))
        if question and question[-1] in "?？؟" and not _MAIN_QUESTION.match(question):
            return question
    return None


def has_marker(text: str) -> bool:
    """Return True if a text carries any task's marker."""
    return any(name.upper() in MARKERS for name in _MARKER.findall(text))


def thoughts(text: str) -> str | None:
    """All "Thought:" lines of a reply, one a line; None if there are none."""
    return "\n".join(line.strip() for line in _THOUGHT.findall(text) if line.strip()) or None


# --- the json form -----------------------------------------------------------------------------------------------


def objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a reply that end their lines, those inside another left out; [] if its braces do not
    match.

    An object that words follow is quoted. A brace that is left open, or stands alone after the last object, may belong
    to an object that was cut off or is broken: then any object before or within it may be quoted.

    >>> objects('Not "{"answer": "Rome"}", but:\\n{"answer": "Paris"}'), objects('{"thought": "not {"answer": "Rome"}')
    ([{'answer': 'Paris'}], [])
    """
    found: list[dict[str, Any]] = []
    position = depth = attempts = 0
    closed = False
    while brace := _BRACE.search(text, position):
        position, closed = brace.end(), False
        if brace[0] == "}":
            depth = max(depth - 1, 0)
            continue
        attempts += 1
        if attempts > MAX_OBJECTS:
            return []
        try:
            value, position = _JSON.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            depth += 1
            continue
        closed = depth == 0
        if closed and _LINE_END.match(text, position):
            found.append(value)
    return found if closed else []


def whole_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that is a whole reply, or its one fenced block; None for any other reply.

    >>> whole_object('```json\\n{"answer": "Paris"}\\n```'), whole_object('It says {"answer": "Paris"}')
    ({'answer': 'Paris'}, None)
    """
    body = _FENCE.sub("", text.strip(), count=1).removesuffix("```").strip()
    if not body.startswith("{"):
        return None
    try:
        value: dict[str, Any] = _JSON.decode(body)
    except (ValueError, RecursionError):
        return None
    return value


def opens_object(text: str) -> bool:
    """Return whether a reply opens with a JSON object, in a fence or not, whole or cut off."""
    return _FENCE.sub("", text.strip(), count=1).startswith("{")


def holds_object(text: str) -> bool:
    """Return whether a JSON object begins anywhere in a reply; LaTeX's braces begin none."""
    return _OBJECT.search(text) is not None
