"""The kinds of questions: the words in which a prompt asks for the answer of a kind, and how such an answer is read.

The words are the phrases of ``kinds.toml``. The answer to a boolean question is "yes" or "no", that to a claim
(``fact``) one of FEVER's labels, that to a ``long`` question a paragraph; any other is a few words.

Every function is linear in the length of the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, get_args

from polyhop.common.text import normalise
from polyhop.errors import nearest
from polyhop.prompts.answers import NamedAnswer, clean_value, find_answer
from polyhop.types import Kind

_PHRASE = re.compile(r"\{ *> *(\w+) *\}")


@cache
def phrases() -> Mapping[str, Mapping[str, str]]:
    """Return the phrases that depend on the kind: by name, then by kind."""
    return tomllib.loads((resources.files("polyhop.prompts") / "files" / "kinds.toml").read_text(encoding="utf-8"))


def in_words_of(kind: str, text: str) -> str:
    """Replace the phrases in a text, ``{>name}``, by their words for a kind; a kind without any has those of ``qa``.

    >>> in_words_of("fact", "a {>question}"), in_words_of("long", "a {>question}")
    ('a claim', 'a question')
    """

    def words(tag: re.Match[str]) -> str:
        if tag[1] not in phrases():
            hint = nearest(tag[1], phrases())
            raise ValueError(f"unknown phrase {tag[0]}{f'; did you mean {hint}?' if hint else ''}")
        return phrases()[tag[1]].get(kind) or phrases()[tag[1]]["qa"]

    return _PHRASE.sub(words, text)


def as_parts(template: str) -> str:
    """Write each phrase in a template as a part per kind."""

    def parts(tag: re.Match[str]) -> str:
        return "".join(f"{{?kind={kind}}}{in_words_of(kind, tag[0])}{{/}}" for kind in get_args(Kind))

    return _PHRASE.sub(parts, template)


# --- answers ---------------------------------------------------------------------------------------------------------

MAX_LABELLED_WORDS = 30
"""Words: a longer text states no label, whatever words it has."""
_SAYS = re.compile(
    r"^[^\w\n]*+(?:(?:so|thus|hence|therefore),? )?(?:(?:the|my) )?(?:final |correct )?answer"
    r"(?: is)?[ \t*_\]]*+[:：][ \t*_]*+",
    re.IGNORECASE | re.M,
)
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.IGNORECASE | re.DOTALL)
_UNKNOWN = re.compile(
    r"\b(?:(?:not enough|insufficient) (?:info(?:rmation)?|evidence)|nei|unverifiable|neither"
    r"|cannot be (?:determined|verified))\b|^unknown$"
)
_DENIED = re.compile(r"\b(?:not|cannot|never|nor|(?:is|was|are|were|do|does|did|ca|could)nt)\b")
_VERDICTS = re.compile(
    r"\b(?:(?P<SUPPORTS>support(?:s|ed)?)|(?P<REFUTES>refute[sd]?|contradict(?:s|ed)?))\b"
    r"|^(?:(?:the |this )?claim is |it is |its )?(?:(?P<yes>true|yes|correct)|(?P<no>false|no|incorrect|untrue))\b"
)


def find_named(text: str, fields: Mapping[str, Any]) -> NamedAnswer | None:
    """Find the answer that a reply to a call names: a paragraph if the question is ``long``, else a few words."""
    return find_paragraph(text) if fields.get("kind") == "long" else find_answer(text)


def find_paragraph(text: str) -> NamedAnswer | None:
    """Find a long answer: all after the last "Answer:" or "The answer is:" that opens a line, else what is tagged.

    >>> find_paragraph("It is salt.\\nAnswer: Salt lowers the freezing point.\\n\\nSo ice melts.")[:2]
    ('It is salt.', 'Salt lowers the freezing point. So ice melts.')
    """
    for found in reversed((*_TAGGED.finditer(text), *_SAYS.finditer(text))):
        rest = found[1] if found.re is _TAGGED else text[found.end() :]
        if answer := clean_value(rest):
            return NamedAnswer(text[: found.start()].strip(), answer, True)
    return None


def in_form_of(kind: str, answer: str) -> str:
    """Return an answer in the form of its kind: the label or the yes or no that it states; else as it is.

    >>> in_form_of("fact", "The claim is supported."), in_form_of("fact", "False"), in_form_of("boolean", "Yes, it is.")
    ('SUPPORTS', 'REFUTES', 'yes')
    >>> in_form_of("fact", "It does not support it."), in_form_of("qa", "True")
    ('It does not support it.', 'True')
    """
    if kind not in ("fact", "boolean") or len((words := normalise(answer)).split()) > MAX_LABELLED_WORDS:
        return answer
    if kind == "fact" and _UNKNOWN.search(words):
        return "NOT ENOUGH INFO"
    names = {name for found in _VERDICTS.finditer(words) for name, word in found.groupdict().items() if word}
    if kind == "boolean":
        return names.pop() if len(names) == 1 and names <= {"yes", "no"} else answer
    labels = {{"yes": "SUPPORTS", "no": "REFUTES"}.get(name, name) for name in names}
    return labels.pop() if len(labels) == 1 and not _DENIED.search(words) else answer
