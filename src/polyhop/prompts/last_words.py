"""Keep the answer of a final reply that could not be read in its form: the text after its last mark, else its last
sentence.

Nothing is kept of a reply that states nothing: a copy of the form or of the input, an introduction, a kind word, a
question, a line of another form ("Action: Search[…]"), a JSON object without an answer, a sentence that was cut off,
noise. A refusal is kept as it is: the engine takes it for an abstention.

Every function is linear in the length of the reply.
"""

from __future__ import annotations

import re
from contextlib import suppress

import orjson

from polyhop.common.sentences import sentences
from polyhop.common.text import without_citation_marks
from polyhop.prompts.answers import clean_value
from polyhop.prompts.cleaning import clean_replies, is_chatter, without_copies
from polyhop.prompts.json_objects import holds_object
from polyhop.prompts.kinds import find_named
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import Fields, Malformed, after_label, after_marker, has_marker, quotable, reply_parts
from polyhop.prompts.prompt import Prompt
from polyhop.prompts.tasks import Output

MAX_CHARS = 1_000
"""Characters: a longer sentence is no answer, but text without end."""

MIN_VARIED_WORDS = 8
"""Words: of a longer sentence more than half are different."""

_ANSWER_MARK = re.compile(
    r"\[[\s*]{0,3}(?:final )?answer\b|^[^\w\n]*+(?:final )?(?:answer|output)[ \t*]*:", re.I | re.M
)
_ANSWER_KEY = re.compile(r'"(?:\w{1,10}[_ ])?answer"\s{0,20}:\s{0,20}("(?:[^"\\]|\\.){0,1000}")')
_OTHER_FORM = re.compile(
    r"[^\w\n]*+(?:step[ \t]*\d+|(?:thought|action|observation|search|(?:next |search )?query|(?:sub-?|follow[ -]?up )?"
    r"question|follow[ -]?up|judge?ment|confidence|passage|evidence|instructions?|input|form)[ \t]?\d{0,3}[ \t*]*:)"
    r"|[^\n]*\b(?:search|lookup|finish)\[",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"[^\w\n]*+(?:final[ _]content|(?:final )?(?:response|reply|conclusion)|rationale|reasoning|solution)"
    r"[ \t*]*(?:\][ \t*]*:?|:)[ \t*]*",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"\d{1,2}[.)]")
_ENDED = re.compile(r"[.!?…。！？।؟]\W*\Z")


def kept_answer(prompt: Prompt, text: str, fields: Fields, *, is_cut: bool) -> Output | None:
    """Return the output of a task with the answer that an unreadable reply ends in; None if it has none, or if the task
    asks for no answer."""
    if not (name := prompt.task.output.ANSWER):
        return None
    instruction, form = prompt.instruction.render(fields, {}), prompt.form.render(fields, {})
    own = next(clean_replies(next(reply_parts(text, fields)), instruction, form, fields))
    words = last_words(without_copies(own, prompt.shown_input(fields)), fields, is_cut=is_cut)
    with suppress(Malformed):
        return prompt.check({**prompt.task.default, name: words}).marked_unread() if words else None
    return None


def last_words(text: str, fields: Fields, *, is_cut: bool = False) -> str | None:
    """Return the answer that a reply ends in; None if it states nothing. ``is_cut``: the token limit ended the reply.

    >>> last_words("He led the expedition. He was born in the small town of Larvik, by the sea.", {})
    'He was born in the small town of Larvik, by the sea.'
    >>> last_words("[RELEVANT] It names him." + chr(10) + "[ANSWER] Larvik", {})
    'Larvik'
    >>> last_words("Sure! Let me look that up:", {}) is None
    True
    """
    text = _without_fragment(text) if is_cut else text
    if holds_object(text):
        found = [] if quotable(_ANSWER_KEY, fields) else _ANSWER_KEY.findall(text)
        return clean_value(_unquoted(found[-1])) if found else None
    if is_non_answer(text, str(fields.get("question") or "")):
        return text.strip() or None
    if named := find_named(text, fields):
        return named.answer
    if not quotable(_ANSWER_MARK, fields) and (
        marked := after_marker(text, "ANSWER", "FINAL ANSWER") or after_label(text, "(?:final )?answer", "output")
    ):
        return marked
    return _last_sentence(text)


def _last_sentence(text: str) -> str | None:
    """Return the last sentence that states something, without citation marks."""
    for line in reversed(text.splitlines()):
        if _OTHER_FORM.match(line) or has_marker(line):
            continue
        lead = _LEAD.match(line)
        for sentence in reversed(sentences(line[lead.end() :] if lead else line)):
            stated = clean_value(without_citation_marks(sentence))
            if stated and stated[-1] not in ":：?？؟" and not is_chatter(stated) and _is_prose(stated):
                return stated
    return None


def _is_prose(sentence: str) -> bool:
    """Return True unless the words are noise: not printable, longer than a sentence, one word repeated, or the number
    of a missing item."""
    words = sentence.casefold().split()
    is_varied = len(words) <= MIN_VARIED_WORDS or 2 * len(set(words)) > len(words)
    if not is_varied or _LIST_NUMBER.fullmatch(sentence):
        return False
    return len(sentence) <= MAX_CHARS and sentence.isprintable() and any(map(str.isalnum, sentence))


def _without_fragment(text: str) -> str:
    """Return a reply that was cut off without its last sentence, unless that has its end."""
    *lines, last = text.rstrip().split("\n")
    whole = sentences(last)
    if whole and not _ENDED.search(whole[-1]):
        del whole[-1]
    return "\n".join((*lines, " ".join(whole)))


def _unquoted(string: str) -> str:
    """Decode a JSON string; "" if it is malformed."""
    try:
        return str(orjson.loads(string))
    except ValueError:
        return ""
