"""Take off what models put around the form that was asked for: fences, copies of the form, numbers, chatter.

Real models introduce a reply ("Sure!"), copy the form before they fill it in, keep the angle brackets of its slots,
fence it, number its lines, and explain themselves after it. Nothing here is ever taken for part of the form.

Every function is linear in the length of the reply.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from polyhop.prompts.answers import find_answer
from polyhop.prompts.parsing import Fields, has_marker, quotable

_FENCE = re.compile(r"^[ \t]*```[ \t]*\w{0,12}[ \t]*$\n?", re.M)
_BOLD_LINE = re.compile(r"^[ \t]*\*\*([^*\n]{1,4000})\*\*[ \t]*$", re.M)
_SLOT = re.compile(r"<[^<>\n]{1,200}>")
_CHOICE = re.compile(r"\] or \[")
MAX_BRACKETS = 3
"""Angle brackets around a value that are taken off: some models put brackets around a value that has them."""
MAX_AFTERTHOUGHTS = 8
"""Beginnings of an afterthought that are tried."""
MIN_ECHO_WORDS = 6
"""Words of a line of the instruction that no reply writes by chance."""
_NUMBER = re.compile(r"(\d{1,2})[.)][ \t]+(?=\S)")
_CLUB = re.compile(r"1\.[ \t]+(?:[A-Z]{2,4}\b|[A-Z]\w{0,3}V\b)")
"""A name that begins with a number, as German clubs' do: "1. FC Köln"."""
_TAGS = "answer think(?:ing)? thought passage evidence pathway s b i u em strong br p".replace(" ", "|")
_BRACKETS = re.compile(
    rf"<(?!/|\||!|\d>(?:\?|[^\n]*\w)|(?:search|query)>\s*\w|(?:{_TAGS})\b)(?=[^\s<>])([^<>\n]{{1,1000}}?)(?<=\S)>",
    re.IGNORECASE,
)
_OPENERS = (
    "sure|certainly|of course|okay|ok|absolutely|great question|happy to help|let me|let us|let's|here is|here's|"
    "here are|bien sûr|voici|natürlich|gerne|hier ist|claro|aquí|por supuesto|certo|ecco"
)
_PREAMBLE = re.compile(
    rf"\A\W{{0,4}}(?:(?:{_OPENERS})\b[^\n]{{0,300}}|[^\n]{{0,300}}[:：])[ \t*]*\n[ \t]*\n", re.IGNORECASE
)
_FORMED = re.compile(
    r"\b(?:answers?|output|judge?ment|response|question|query|step|thought|confidence)\b", re.IGNORECASE
)
_AFTER_WORDS = (
    r"(?:(?:(?:brief |short )?(?:explanation|justification|comment|remark|clarification)s?|notes?|p\. ?s\.)[ \t*]*[:：]"
    r"|(?:i hope (?:this|that)|(?:please )?let me know|(?:please )?feel free|please note|note that|is there anything"
    r"|if you (?:have|need|would|want))\b)"
)
_AFTERTHOUGHT = re.compile(rf"\n[ \t]*\n[^\w\n]{{0,6}}{_AFTER_WORDS}", re.IGNORECASE)
_QUOTABLE = re.compile(_AFTER_WORDS, re.IGNORECASE)
"""The words that open an afterthought, wherever they stand in what the call shows."""
_CHATTER = re.compile(rf"\W{{0,6}}(?:{_AFTER_WORDS}|(?:{_OPENERS})\b)", re.IGNORECASE)
_OWN_LINE = re.compile(r"\n[^\w\n]{0,6}(?:\[[A-Za-z]|(?:\w[\w ]{0,24})[ \t*]*:)")


def clean_replies(text: str, instruction: str, form: str, fields: Fields) -> Iterator[str]:
    """Yield a reply without what stands around the form, then with it.

    >>> form = "Reply in exactly this form:\\nAnswer: <answer>"
    >>> list(clean_replies("Sure!\\n\\n```\\n**Answer: <Rome>**\\n```", "", form, {}))
    ['Answer: Rome', 'Sure!\\n\\nAnswer: Rome']
    >>> list(clean_replies("Answer: <answer>", "", form, {}))
    ['']
    """
    text = _FENCE.sub("", text) if "```" in text else text
    text = _BOLD_LINE.sub(r"\1", text) if "**" in text else text
    whole = without_slots(without_copies(text.strip(), f"{instruction}\n{form}"), form)
    whole = without_numbers(whole, form)
    own = _without_afterthought(_without_preamble(whole), fields)
    yield own
    if own != whole:
        yield whole


def is_chatter(sentence: str) -> bool:
    """Return True if a sentence only introduces a reply, or follows it: a kind word, a note.

    >>> is_chatter("I hope this helps!"), is_chatter("Sure, here it is."), is_chatter("He was born in Larvik.")
    (True, True, False)
    """
    return _CHATTER.match(sentence) is not None


def without_copies(text: str, shown: str) -> str:
    """Remove the lines that copy the instruction or the form: a run of lines from the head of the reply, and any line
    with an unfilled slot.

    >>> without_copies("Yes. <response>\\nNo\\n\\nNo", "Reply in exactly one of these forms:\\nYes. <response>\\nNo")
    'No'
    """
    lines = text.splitlines()
    copied, telling = _originals(shown)
    marked = [i for i, line in enumerate(lines) if _bare(line) in telling]
    if not marked:
        return text
    dropped = set(marked)
    for i in marked:
        dropped |= _run(lines, i, copied)
    return "\n".join(line for i, line in enumerate(lines) if i not in dropped).strip()


@lru_cache(maxsize=256)
def _originals(shown: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the lines that a call showed, and those of them that no reply contains by chance; the same for all calls
    of a task."""
    copied = tuple(bare for line in shown.splitlines() if (bare := _bare(line)))
    return copied, frozenset(filter(_tells, copied))


def _run(lines: Sequence[str], i: int, copied: Sequence[str]) -> set[int]:
    """Return the indices of the lines around line ``i`` that copy the lines around its original."""
    j = copied.index(_bare(lines[i]))
    return _along(lines, i, copied[j:], 1) | _along(lines, i, copied[j::-1], -1)


def _along(lines: Sequence[str], i: int, copied: Sequence[str], step: int) -> set[int]:
    run: set[int] = set()
    for original in copied:
        while 0 <= i < len(lines) and not _bare(lines[i]):
            i += step
        if not 0 <= i < len(lines) or _bare(lines[i]) != original:
            break
        run.add(i)
        i += step
    return run


def _bare(line: str) -> str:
    return " ".join(line.replace("**", "").replace("`", "").split())


def _tells(line: str) -> bool:
    """Return True if an equal line in a reply can only be a copy of this one."""
    return bool(_SLOT.search(line) or _CHOICE.search(line)) or len(line.split()) >= MIN_ECHO_WORDS


def without_slots(text: str, form: str) -> str:
    """Empty the slots that were not filled, and take the angle brackets off those that were.

    >>> without_slots("[ANSWER] <Lars Sonck>, [QUERY] <search query>", "Output: [QUERY] <search query>")
    '[ANSWER] Lars Sonck, [QUERY] '
    """
    if "<" not in text:
        return text
    for slot in set(_SLOT.findall(form)):
        if slot in text and f"</{slot[1:]}" not in text:
            text = re.sub(rf"{re.escape(slot)}(?![ \t]?\w)" if slot == "<answer>" else re.escape(slot), "", text)
    for _ in range(MAX_BRACKETS):
        text = _BRACKETS.sub(r"\1", text)
    return text


def without_slot_strings(text: str, form: str) -> str:
    """Empty the strings of a JSON reply that are slots of the form, copied.

    >>> without_slot_strings('{"head": "<head>", "tail": "<b>"}', 'each {"head": "<head>"}')
    '{"head": "", "tail": "<b>"}'
    """
    for slot in set(_SLOT.findall(form)):
        text = text.replace(f'"{slot}"', '""')
    return text


def without_numbers(text: str, form: str) -> str:
    """Remove the numbers of a reply that numbers every line; those of a list that was asked for stay.

    >>> without_numbers("1. Step 1\\n2. Judgment: [RELEVANT]", ""), without_numbers("1. 1. Who?", "1. <question>")
    ('Step 1\\nJudgment: [RELEVANT]', '1. Who?')
    """
    if not text.startswith("1") or _CLUB.match(text):
        return text
    lines = [line for line in text.splitlines() if line.strip()]
    heads = [_NUMBER.match(line) for line in lines]
    bare: list[str] = []
    for number, (line, head) in enumerate(zip(lines, heads, strict=True), 1):
        if head is None:
            break
        if int(head[1]) != number:
            return text
        bare.append(line[head.end() :])
    if not bare or (len(bare) < len(lines) and len(bare) > 1):
        return text
    is_list = re.search(r"^\d[.)] ", form, re.M) is not None
    if is_list and not any(_NUMBER.match(line) and not _CLUB.match(line) for line in bare):
        return text
    return "\n".join((*bare, *lines[len(bare) :]))


def _without_preamble(text: str) -> str:
    """Remove a first line that only introduces the reply, and that a blank line follows."""
    opening = _PREAMBLE.match(text)
    if opening is None or has_marker(opening[0]) or (opening[0].rstrip(" *\n")[-1] in ":：" and _labels(opening[0])):
        return text
    return text[opening.end() :].strip()


def _labels(line: str) -> bool:
    """Return True if a line that ends in a colon may be a label of the form."""
    return len(line.split()) <= 3 or (_FORMED.search(line) is not None and not line[:1].isalpha())


def _without_afterthought(text: str, fields: Fields) -> str:
    """Remove an explanation or a kind word after the form, unless it goes on in the form, or may be quoted."""
    for found in itertools.islice(_AFTERTHOUGHT.finditer(text), MAX_AFTERTHOUGHTS):
        after = text[found.end() :]
        named = find_answer(after)
        if text[: found.start()].strip() and not _OWN_LINE.search(after) and not (named and named.is_explicit):
            return text if quotable(_QUOTABLE, fields) else text[: found.start()]
    return text
