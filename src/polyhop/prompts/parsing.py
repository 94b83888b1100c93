"""Readers of the text form of outputs, as models really write it: marker tokens, labels, questions, confidences.

Readers are tolerant of case, bold, missing step headings and chatter around the markers; what cannot be read raises
``Malformed`` with a complaint the model is shown once. Nothing is ever evaluated, and every reader is linear in the
length of the reply.

A reply may quote what it was shown, marks included, before it comes to its own verdict. So the last mark counts, and
one at the start of a line before one within it. Where the first counts instead, because models go on after it, the
last counts again if the call's own fields hold such a mark (``quotable``).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from polyhop.prompts.answers import clean_value, find_answer
from polyhop.types import Passage

Fields = Mapping[str, Any]


class Malformed(ValueError):
    """A reply that is not in its task's form; the message says what is missing. ``incomplete``: the output that was
    read, if its task can use it without the rest."""

    def __init__(self, message: str, incomplete: Any = None) -> None:
        super().__init__(message)
        self.incomplete = incomplete


MARKERS = frozenset(
    "RELEVANT IRRELEVANT SUPPORTED UNSUPPORTED ANSWER QUERY INFO INFORMATION SUFFICIENT INSUFFICIENT".split()
)
"""The marker tokens of all tasks: the text after one ends where the next begins."""
MAX_REPLY_CHARS = 20_000
"""Characters of a reply that are read: half from its head, half from its end."""

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
_REASONING = re.compile(rf"{_THOUGHT.pattern}|^[^\w\n]*+analysis[ \t*]*+:.*$", re.IGNORECASE | re.M)
SUB_QUESTION = r"(?:(?:next |sub[ -]?)question|follow[ -]?up(?: question)?)"
"""The names of a sub-question: in our prompts and in self-ask's."""
_LABELS = re.compile(r"[^\w\n]*+(?!thought|analysis)(?:\w[\w \t-]{0,23}:[^\w\n]*+){0,2}", re.IGNORECASE)
"""The labels that may precede a mark that opens its line: "Step 1: Judgment:"; no thought, no analysis."""
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
_FORMED = re.compile(r"\banswers? (?:is|are)\b|^[^\w\n]*+answer[^\w\n]*:|[\[}]", re.IGNORECASE | re.M)


def reply_parts(text: str, fields: Fields) -> Iterator[str]:
    """Yield a reply up to the point at which the model goes on to its own question, as base models do; then all of it.

    A line "Question:" is no such point if the call's fields contain one, which the reply may quote. Control tokens are
    defused in everything that is shown.
    """
    if len(text) > MAX_REPLY_CHARS:
        text = f"{text[: MAX_REPLY_CHARS // 2]}\n{text[-MAX_REPLY_CHARS // 2 :]}"
    asks = "Question:" in text
    turns = _NEXT_TURN.finditer(text) if asks or "<" in text else iter(())
    if asks and quotable(_QUESTION, fields):
        turns = (turn for turn in turns if turn["question"] is None)
    for turn in itertools.islice(turns, 2):  # the first may be the question said again
        head = text[: turn.start()].strip()
        if head and (turn["question"] is None or _FORMED.search(head)):
            yield head
            break
    yield text


def quotable(mark: re.Pattern[str], fields: Fields) -> bool:
    """Return True if a call's fields hold such a mark: a reply may then quote it."""
    return any(mark.search(text) for text in _texts(fields))


def own_mark(mark: re.Pattern[str], text: str, fields: Fields) -> re.Match[str] | None:
    """Find the first such mark of a reply, whose model goes on after it; the last if one may be quoted."""
    found = mark.search(text)
    return list(mark.finditer(text))[-1] if found and quotable(mark, fields) else found


def labelled_parts(labels: Sequence[re.Match[str]], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each label with the text up to the next."""
    for label, following in itertools.zip_longest(labels, labels[1:]):
        yield label, text[label.end() : following.start() if following else None]


def _texts(value: Any) -> Iterator[str]:
    """Yield every text that a field shows, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Passage):
        yield value.title
        yield value.text
    elif isinstance(value, (list, tuple, Mapping)):
        for item in value if isinstance(value, (list, tuple)) else value.values():
            yield from _texts(item)


def without_echo(text: str) -> str:
    """Return a reply without the form's alternatives, which models repeat before the choice or instead of it.

    >>> without_echo("Judgment: [RELEVANT] or [IRRELEVANT]: [RELEVANT]")
    'Judgment: : [RELEVANT]'
    """
    return _ECHO.sub("", text)


# --- markers -----------------------------------------------------------------------------------------------------


class Judgement(NamedTuple):
    """A judgement in a reply: its value, and the position at which the rest of the reply begins."""

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
    """Compile a line that is a judgement without brackets, "Step 1: Judgment: the path is not relevant"; no thought."""
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
    """Return a reply without its "Thought:" and "Analysis:" lines, whose marks are only considered."""
    return _REASONING.sub("", text)


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
    """Return the first line that ends in a question mark, without its number; None if there is none.

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
    """Return the text of all "Thought:" lines of a reply, one per line; None if there are none."""
    return "\n".join(line.strip() for line in _THOUGHT.findall(text) if line.strip()) or None


# --- stated confidence -------------------------------------------------------------------------------------------

_CONFIDENCE_LINE = re.compile(r"^[^\w\n]*+confidence\b[^\w\n]*+(.*)$", re.I | re.M)
_ANSWER_LINE = re.compile(r"^[^\w\n]*+answer\b", re.I | re.M)
_CONFIDENCE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?|\.\d{1,9})[ \t]*(%|/[ \t]*(?:100|10)\b)?")


def read_confidence(value: Any) -> float | None:
    """Read a confidence from 0 to 1 as models write it; None if it is not one.

    >>> read_confidence("85%"), read_confidence(0.5), read_confidence("8/10"), read_confidence("high")
    (0.85, 0.5, 0.8, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        found = _CONFIDENCE.search(value[:100])
        if found is None:
            return None
        value = float(found[1]) / {"%": 100, "/100": 100, "/10": 10}.get("".join((found[2] or "").split()), 1)
    if not math.isfinite(value) or not 0 <= value <= 100:
        return None
    return float(value if value <= 1 else value / 100)


def split_confidence(text: str) -> tuple[str, float | None]:
    """Split off the last line "Confidence: …" and read it; a line that an answer follows is quoted.

    >>> split_confidence("Answer: Rome\\nConfidence: 0.9"), split_confidence("Confidence: 0.9\\nAnswer: Rome")
    (('Answer: Rome\\n', 0.9), ('Confidence: 0.9\\nAnswer: Rome', None))
    """
    lines = list(_CONFIDENCE_LINE.finditer(text))
    after = text[lines[-1].end() :] if lines else ""
    if not lines or _ANSWER_LINE.search(after) or find_answer(after):
        return text, None
    return text[: lines[-1].start()], read_confidence(lines[-1][1])


def require_confidence(confidence: float | None, *, verbal: bool) -> float | None:
    """Return the confidence if it was asked for; ``Malformed`` if it was and none is stated."""
    if verbal and confidence is None:
        raise Malformed('the last line must say how sure you are, "Confidence:" and a number from 0 to 1')
    return confidence if verbal else None
