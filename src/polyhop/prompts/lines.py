"""The lines that a task's text form declares: each is data that says how one field is written and read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from polyhop.prompts.answers import clean_value
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import (
    Fields,
    Malformed,
    find_judgement,
    has_marker,
    judgement,
    labelled_parts,
    labelled_value,
    quotable,
    without_echo,
)

MAX_ITEMS = 50
"""Items of a list that are read."""
_ITEM = re.compile(
    r"^[^\w\n]{0,6}(?:(?:sub-?question|question|recitation|passage|step)[ \t]?)?(\d{1,2})[ \t*]{0,3}[.):][ \t*]{0,3}"
    r"|^[ \t]{0,6}[-–•*][ \t]+",
    re.IGNORECASE | re.M,
)
_YES_OR_NO = re.compile(r"\byes['\"’”*]*\s*(?:\bor\b|/|\|)\s*['\"‘“*]*no\b", re.IGNORECASE)
_VERDICT = re.compile(
    r"\A\W*+(?:(?:answer|judge?ment|output|reply|response)(?=[^\w:]*+:)\W*+)?(yes|no)\b"
    r"[\s\]*'\"’”]*[,.:;!–—-]*[\s*]*",
    re.IGNORECASE,
)
_AFTER_VERDICT = re.compile(r"[\s\]*'\"’”]*+[,.:;!–—-]*+[\s*]*+")


class FieldLine(Protocol):
    """A line, or several, that hold one field of the output."""

    @property
    def field(self) -> str: ...

    def read(self, text: str, fields: Fields) -> Any:
        """Find the field's value in a reply; ``Malformed`` if the reply does not state it."""

    def write(self, value: Any) -> str:
        """Write the field's value so that ``read`` finds it again."""


@dataclass(frozen=True, slots=True)
class Line:
    """A text after a label, "Label: text".

    ``also``: other labels that models write instead. ``nothing``: the word for null. ``bare``: a reply
    without the label is read, too: its first line is the text, which must end in one of the characters ``ends``, if
    there are any.

    >>> doubt = Line("Doubt", "doubt", nothing="NOTHING")
    >>> doubt.read("Doubt: 1979 is a year.", {}), doubt.read("**Doubt:** nothing.", {}), doubt.write(None)
    ('1979 is a year.', None, 'Doubt: NOTHING')
    """

    label: str
    field: str
    also: tuple[str, ...] = ()
    nothing: str = "none"
    bare: bool = False
    ends: str = ""
    complaint: str = ""

    def read(self, text: str, fields: Fields) -> Any:
        value = labelled_value(text, *map(re.escape, (self.label, *self.also)))
        found = clean_value(value)
        first = text.strip().partition("\n")[0].rstrip()
        if self.bare and found is None and first.endswith(tuple(self.ends or [""])):
            value = found = first
        if value is None:
            raise Malformed(self.complaint or f'a line must be "{self.label}: <{self.label.lower()}>"')
        return None if found and found.strip(" .").casefold() == self.nothing.casefold() else found

    def write(self, value: Any) -> str:
        return f"{self.label}: {self.nothing if value is None else value}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words after a label; the last one that is named counts.

    >>> Choice("Value", "value", ("sure", "likely")).read("It is sure? Not sure. Value: likely", {})
    'likely'
    """

    label: str
    field: str
    words: tuple[str, ...]
    also: tuple[str, ...] = ()

    def read(self, text: str, fields: Fields) -> str:
        stated = clean_value(labelled_value(text, *map(re.escape, (self.label, *self.also))))
        words = re.findall(rf"(?<!not )\b({'|'.join(map(re.escape, self.words))})\b", stated or text, re.IGNORECASE)
        if not words:
            *others, last = (f'"{self.label}: {word}"' for word in self.words)
            raise Malformed(f"the last line must be {', '.join(others)} or {last}")
        return next(word for word in self.words if word.casefold() == words[-1].casefold())

    def write(self, value: str) -> str:
        return f"{self.label}: {value}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """True or false as one of two marks, "Judgment: [YES]"; the last mark counts.

    ``yes_or_no``: a reply that opens with yes or no is read, too.

    >>> correct = Judgement("correct", "CORRECT", "INCORRECT")
    >>> correct.read("Judgment: [INCORRECT]", {}), correct.read("**Correct**", {}), correct.write(True)
    (False, True, 'Judgment: [CORRECT]')
    """

    field: str
    yes: str
    no: str
    yes_or_no: bool = False
    complaint: str = ""

    def read(self, text: str, fields: Fields) -> bool:
        found = judgement(without_echo(text), self.yes, self.no)
        if found is None and self.yes_or_no and (word := re.match(r"\W*(yes|no)\b", text, re.IGNORECASE)):
            found = word[1].lower() == "yes"
        if found is None:
            raise Malformed(self.complaint or f"the reply must be [{self.yes}] or [{self.no}]")
        return found

    def write(self, value: bool) -> str:
        return f"Judgment: [{self.yes if value else self.no}]"


@dataclass(frozen=True, slots=True)
class YesNo:
    """True or false as a reply that is Yes or No, with or without more after it.

    >>> YesNo("valid").read("**No**, it names another town.", {}), YesNo("valid").read("Judgment: [Yes]", {})
    (False, True)
    """

    field: str

    def read(self, text: str, fields: Fields) -> bool:
        value, _ = find_yes_or_no(text)
        if value is None:
            raise Malformed("the reply must be Yes or No")
        return value

    def write(self, value: bool) -> str:
        return "Yes" if value else "No"


@dataclass(frozen=True, slots=True)
class Items:
    """A list of texts, one per numbered line. ``otherwise`` reads a reply that has no list.

    >>> Items("steps", "the steps").read("1. Who made it?\\n2. When?", {})
    ['Who made it?', 'When?']
    >>> Items("steps", "the steps").read("None.", {})
    []
    """

    field: str
    what: str
    example: str = "…"
    otherwise: Callable[[str], list[str]] | None = None

    def read(self, text: str, fields: Fields) -> list[str]:
        items = read_items(text, fields) or (self.otherwise(text) if self.otherwise else [])
        if not items and not (text.strip() and is_non_answer(text)):
            raise Malformed(f"the reply must be {self.what}, each with its number: 1. {self.example}")
        return items

    def write(self, value: Sequence[str]) -> str:
        return write_items(value) or "none"


def find_yes_or_no(text: str) -> tuple[bool | None, str]:
    """Find the yes or no that a reply opens with, or that a later line states; and the text after it."""
    text = _YES_OR_NO.sub("", text)
    if head := _VERDICT.match(text):
        return head[1].lower() == "yes", text[head.end() :]
    found = find_judgement(text, "YES", "NO", bare=True)
    return (found.value, _AFTER_VERDICT.sub("", text[found.end :], count=1)) if found else (None, "")


def read_items(text: str, fields: Fields) -> list[str]:
    """Return the items of a numbered or bulleted list, each on one line.

    If the call's fields hold a list that the reply may quote, the items from the last number 1 on count.

    >>> read_items("Sure:\\n1. Who made it?\\n2) Where was\\nshe born?", {})
    ['Who made it?', 'Where was she born?']
    """
    heads = list(_ITEM.finditer(text))
    starts = [index for index, head in enumerate(heads) if head[1] == "1"]
    if starts and starts[-1] and quotable(_ITEM, fields):
        heads = heads[starts[-1] :]
    items = (clean_value(part) for _, part in itertools.islice(labelled_parts(heads, text), MAX_ITEMS))
    return [item for item in items if item]


def write_items(items: Sequence[str]) -> str:
    """Write one numbered line per item.

    >>> write_items(["Who made it?", "When?"])
    '1. Who made it?\\n2. When?'
    """
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


def whole_reply(text: str) -> list[str]:
    """Return the whole reply as one item; none if it is in another form."""
    is_other_form = has_marker(text) or text.lstrip().startswith(("{", "```"))
    value = None if is_other_form else clean_value(text)
    return [value] if value else []


def question_lines(text: str) -> list[str]:
    """Return every line that ends in a question mark."""
    lines = (clean_value(line) for line in text.splitlines() if line.rstrip("* \t").endswith("?"))
    return [line for line in itertools.islice(lines, MAX_ITEMS) if line]
