"""Short answers in a model's text: one that is named, wrapped in a tag or alone, and words that only say there is none.

Non-answers ("unknown", "not mentioned in the passages") are English. A title is an answer, whatever its words: "Unknown
Pleasures", "None but the Brave", "Not Given Lightly". So the short forms must be the whole text, or be followed by the
source that was searched; the forms that take any words after them ("the passages do not say …") must be written as a
sentence is, their verb in lower case.

Every function is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from polyhop.common.text import find_folded, normalise, sentences

MAX_BARE_ANSWER_WORDS = 15
"""Words: an unmarked one-line reply up to this length is taken as the answer itself."""
MAX_LEADING_ANSWER_WORDS = 8
"""Words: a first sentence up to this length is taken as the answer if the answer alone was asked for."""
MAX_LINE_CHARS = 1_000
"""Characters of a line that are searched for an answer."""

_WRAPPED = re.compile(
    r"(?P<opened><answer>)((?:(?!<answer>).){0,1000}?)(?:(?P<closed></answer>)|\Z)|\\boxed\{(?:\\text\{)?([^{}]{0,1000})\}",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_FORM = re.compile(r"\{|\bFinish\[", re.IGNORECASE)
_ANSWER = re.compile(
    r"\b(?:(?:the|my|its) )?(?:(?:final|correct|short) )?answers?"
    r"(?: \((?:[^()\n]|\([^()\n]{0,20}\)){1,100}\)| to (?:the|this|your) (?:[\w-]{1,20} )?question)?"
    r" (?:is|are|(?:would|should|must) be)\b[ \t]*:?\s*"
    r"|(?P<label>^[^\w\n]*+(?:(?:the|my|final|correct|short) ){0,2}answer[ \t*_]*+(?:[:：\]][ \t*_:\]]*|$))",
    re.IGNORECASE | re.M,
)
_CONJUNCTION = re.compile(
    r"\b(?:(?P<firm>so|thus|hence|therefore|then|consequently|finally)|and)\b[^\w.]*$", re.IGNORECASE
)
_VERDICT = re.compile(r"((?i:yes|no))\b(?:[.!]\s+(?!\d)|[,;:-]\s+(?=[a-z])|\s*[–—]\s*(?=[a-z])|\s+\()")
_ABBREVIATED = re.compile(r"(?:\b(?:Jr|Sr|Inc|Ltd|Co|Corp|Bros|St|Mt|etc)|\b[A-Za-z]\.[A-Za-z])\.$")
_CHATTER = re.compile(r"\W*(?:sure|certainly|of course|okay|ok|great question)\b|.*:$", re.IGNORECASE)
_BULLET = re.compile(r"[-–•>]\s+")
_MARKUP = " \t\n*_#"
_PAIRS = {'"': '"', "'": "'", "`": "`", "_": "_", "“": "”", "‘": "’", "«": "»", "[": "]"}
_NOTHING = frozenset({"", "none", "null", "n/a", "nothing", "-", "–", "—", "…"})


class NamedAnswer(NamedTuple):
    """An answer that a text names as such; ``is_explicit`` if the name opens a sentence ("So the answer is …") or
    labels a line, and is not in passing ("note that the answer is …")."""

    before: str
    answer: str
    is_explicit: bool


def find_answer(text: str) -> NamedAnswer | None:
    """Find the last answer that a text names, also "none"; one named explicitly comes before all others.

    >>> find_answer("Final answer: Rome. Note that the answer is only as good as the passages.").answer
    'Rome'
    >>> find_answer('It says "The answer is Rome." The answer is none.').answer
    'none'
    """
    passing: NamedAnswer | None = None
    for found in sorted((*_WRAPPED.finditer(text), *_ANSWER.finditer(text)), key=_position, reverse=True):
        if found.re is _WRAPPED:
            start, is_explicit, rest = found.start(), True, found[2] or found[4] or ""
        else:
            start, is_explicit = _opening(text, found)
            rest = text[found.end() : found.end() + MAX_LINE_CHARS]
        if (is_explicit or passing is None) and (answer := short_answer(rest)):
            named = NamedAnswer(text[:start].strip(_MARKUP), answer, is_explicit)
            if is_explicit:
                return named
            passing = named
    return passing


def _position(found: re.Match[str]) -> int:
    """Return the sort position of a named answer; a tag that is never closed holds none of them."""
    return found.start() if found.re is _WRAPPED and found["opened"] and not found["closed"] else found.end()


def _opening(text: str, found: re.Match[str]) -> tuple[int, bool]:
    """Find the start of the words that lead to an answer; True if they open a sentence or a line."""
    start = max(0, found.start() - 40)
    window = text[start : found.start()].rstrip(" \t*_")
    if conjunction := _CONJUNCTION.search(window):
        return start + conjunction.start(), bool(conjunction["firm"])
    opens = bool(found["label"]) or not window or window[-1] in ".!?:,)\n" or found[0][0].isupper()
    return start + len(window), opens


def short_answer(text: str) -> str | None:
    """Return the answer at the head of a text: the first sentence of its first line, without a closing full stop.

    >>> short_answer(" 'St. Louis'.  It lies in Missouri."), short_answer("No, they are not.")
    ('St. Louis', 'No')
    """
    line = next((line for line in text[:MAX_LINE_CHARS].splitlines() if line.strip(" *_\"'`")), "").strip(" *_")
    line = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
    if verdict := _VERDICT.match(line):
        return verdict[1]
    value = _unwrapped(_first_sentence(line))
    while value and value[-1] in ".。" and not _ABBREVIATED.search(value):
        value = _unwrapped(value[:-1])
    return value if any(map(str.isalnum, value)) or not says_nothing(value) else None


def _first_sentence(line: str) -> str:
    """Return the first sentence; a title with "!" or "?" inside ("Arisan! Berondong Tua") is not cut there."""
    first, *others = sentences(line) or [""]
    while others and first.endswith(("!", "?")):
        first = f"{first} {others.pop(0)}"
    return first.partition("。")[0]


def bare_answer(text: str) -> str | None:
    """Return a reply of one short line, which is the answer itself; None for any other."""
    lines = _lines(text)
    return _standing_alone(lines[0], MAX_BARE_ANSWER_WORDS) if len(lines) == 1 else None


def leading_answer(text: str) -> str | None:
    """Return the answer that is the whole reply, or opens it before an explanation; None without one.

    >>> leading_answer("Lars Sonck. He designed Ainola, the house of the composer, in Järvenpää, in 1903 and 1904.")
    'Lars Sonck'
    """
    if _OTHER_FORM.search(text):
        return None
    if answer := bare_answer(text):
        return answer
    lines = _lines(text)
    if lines and _CHATTER.match(lines[0]):
        del lines[0]
    answer = short_answer(lines[0]) if lines else None
    return _standing_alone(answer, MAX_LEADING_ANSWER_WORDS) if answer else None


def _standing_alone(line: str, max_words: int) -> str | None:
    """Return the answer that a line is; None if it has many words, or is a form that was opened and not filled."""
    if len(line.split()) > max_words or any(form.search(line) for form in (_OTHER_FORM, _ANSWER, _WRAPPED)):
        return None
    return short_answer(line)


def _lines(text: str) -> list[str]:
    return [line for line in map(str.strip, text.splitlines()) if line.strip("*`") and not line.startswith("```")]


def clean_value(text: str | None) -> str | None:
    """Strip quotes and bold from a value; None for nothing and for words that mean nothing.

    >>> clean_value(' "Paris" '), clean_value("N/A")
    ('Paris', None)
    """
    value = _unwrapped(text or "")
    return None if says_nothing(value) else value


def _unwrapped(text: str) -> str:
    """Strip what a value is wrapped in: quotes, bold, the end of a filled bracket."""
    value = " ".join(text.replace("**", "").split()).removesuffix("```")
    if value.endswith("]") and "[" not in value:  # of a filled bracket, "[ANSWER: Paris]"
        value = value[:-1]
    before = None
    while value != before:
        before = value
        value = value.strip("* ")
        if len(value) > 1 and _PAIRS.get(value[0]) == value[-1] and not {value[0], value[-1]} & set(value[1:-1]):
            value = value[1:-1]
    return value


def says_nothing(text: str) -> bool:
    """Return True if a text is empty or a word for nothing, as models fill in what they should leave out.

    >>> says_nothing("None."), says_nothing("Nonesuch")
    (True, False)
    """
    return text.strip().rstrip(".").lower() in _NOTHING


# --- non-answers -------------------------------------------------------------------------------------------------

MAX_NON_ANSWER_CHARS = 1_000
"""Characters: a longer text says something."""

_NOT = r"(?:not|never)"
_NOT_AFTER = rf"(?: {_NOT}|n['’]t)"
_STATED = (
    r"(?:known|specified|mentioned|stated|provided|given|found|available|disclosed|indicated|determined|identified"
    r"|named|listed|described|recorded|revealed|reported|defined|established|included|contained|clear|certain|sure)"
)
_SETTLED = (
    r"(?:determined?|answer(?:ed)?|known?|say|said|tell|told|find|found|infer(?:red)?|deduced?|established?|identify"
    r"|identified|ascertain(?:ed)?|confirm(?:ed)?|verif(?:y|ied)|provided?|specif(?:y|ied))"
)
_LACKED = r"(?:answer|answers|information|info|evidence|data|details?|mention|record|indication|idea|clue)"
_SOURCE = (
    r"(?:(?:the|this|that|these|those|any|any of the|what|which|all|my|your) )?"
    r"(?:(?:given|provided|retrieved|available|above|supplied|following|current|known|relevant|search|supporting"
    r"|wikipedia|knowledge|reference) ){0,3}"
    r"(?:passages?|texts?|contexts?|documents?|evidence|information|info|sources?|articles?|references?|paragraphs?"
    r"|excerpts?|snippets?|summar(?:y|ies)|memor(?:y|ies)|knowledge|data|triplets?|facts?|records?|results?|questions?"
    r"|notes?|materials?|titles?|is (?:given|known|provided))"
)
_WHERE = (
    rf"(?:[,;:(–—-]{{0,2}} ?(?:in|from|by|within|on|based on|with|given|according to|anywhere in|using|per) {_SOURCE}"
    r"(?: (?:above|given|provided|alone|at hand|available|about [^.;]{1,80}))?\)?"
    r"| \((?:not|no|it|the|this) [^()]{1,200}\)?|,? (?:as|since|because) [^;]{1,300}"
    r"|,? (?:here|yet|currently|so far|to me|at (?:this|the) (?:time|moment)|for (?:certain|sure)|with certainty))"
)
_BARE = re.compile(
    rf"(?:(?:it|this|that|the answer|answer)(?: is|['’]s| was| remains)? )?(?:(?:currently|still|simply|yet) )?"
    rf"(?:unknown|unspecified|undetermined|undeterminable|unanswerable|unclear|uncertain|indeterminate|inconclusive|idk"
    rf"|n/a|not applicable"
    rf"|{_NOT} (?:(?:yet|currently|explicitly|directly|specifically|clearly|been) )?{_STATED}"
    rf"|(?:can ?not|can['’]t|could not|couldn['’]t|cannot) be (?:\w{{1,20}}ly )?{_SETTLED}"
    rf"|(?:not possible|impossible|unable) to (?:be )?{_SETTLED}"
    rf"|(?:i )?(?:do not|don['’]t|dunno|did not|didn['’]t)(?: really)? (?:know|remember|recall)"
    rf"|(?:i am |i['’]m )?not (?:sure|certain)"
    rf"|(?:there (?:is|are|was) )?(?:no|not enough|not any|insufficient|no relevant|no specific|no further|no such) "
    rf"{_LACKED}(?: (?:was |is |were |are |could be |can be )?(?:found|available|given|provided|known|mentioned))?"
    rf"){_WHERE}?",
    re.IGNORECASE,
)
"""Short forms, which must be all that is said, except for the source that was searched."""
_HEDGE = r"(?:[Ss]orry, |[Uu]nfortunately, |[Bb]ased on [^.;]{1,80}, |[Hh]owever, )?"
_SENTENCE = re.compile(
    rf"{_HEDGE}(?:"
    rf"(?:I|i|We|we|One|one)(?: (?:really )?(?:do|did|could|can){_NOT_AFTER}| cannot| can not) "
    rf"(?:know|say|tell|determine|answer|find|identify|infer|recall|remember|provide|confirm)\b"
    rf"|(?:I|We)(?: am| are|['’]m|['’]re) (?:unable to|not able to|not sure|not certain|unsure)\b"
    rf"|(?:I|We) (?:do not|don['’]t) have (?:enough|any|sufficient|the|access)\b|(?:I|We) have no {_LACKED}\b"
    rf"|(?i:{_SOURCE})(?: (?:above|provided|given|at hand))?(?: about [^.;]{{1,80}})?"
    rf"(?: (?:do|does|did|could|can|is|are|was|were){_NOT_AFTER}| cannot)"
    rf" (?:\w{{1,20}}ly )?(?:mention|say|specify|state|provide|contain|tell|give|include|indicate|reveal|answer|name"
    rf"|disclose|identify|list|describe|discuss|help|hold|appear|have|enough|sufficient|provided|related)\b"
    rf"|(?i:{_SOURCE}) (?:contains?|gives?|provides?|holds?|has|have) no\b"
    rf"|(?:[Tt]here (?:is|are|was|were) )?(?:[Nn]o|[Nn]ot enough|[Ii]nsufficient|[Nn]o relevant|[Nn]o specific"
    rf"|[Nn]o direct) {_LACKED} (?:of|about|on|for|regarding|is|was|are|were|that|to|in|can|could|as)\b"
    rf"|[Tt]here (?:is|are|was|were) (?:no|not any|not enough) (?:\w{{1,20}} )?{_LACKED}\b"
    rf"|(?:[Ii]t|[Tt]his|[Tt]hat)(?: is| was|['’]s) (?:unknown|unclear|uncertain|not (?:\w{{1,20}}ly )?{_STATED}"
    rf"|(?:not possible|impossible) to {_SETTLED})\b"
    rf"|(?:[Ii]t |[Tt]his )?(?:cannot|could not|can not|can['’]t) be {_SETTLED}\b"
    rf"|[^.;?!]{{1,120}} (?:is|are|was|were|has|have)(?: not|n['’]t)(?: been)?(?: \w{{1,20}}ly)?"
    rf" (?:mentioned|specified|stated|provided|disclosed|indicated)\b(?={_WHERE}?[.]?$)"
    rf")[^;]*"
)
"""Whole sentences that say so in any words."""
_CONTRAST = re.compile(r"\b(?:but|however|though|although|nevertheless|except|whereas)\b", re.IGNORECASE)
_ASKS_FOR_NONE = re.compile(
    r"\bhow (?:many|much|often)\b|\bnumber of\b|\b(?:any|which|who|what|none) of\b", re.IGNORECASE
)
_QUOTES = " \t\"'`*_“”‘’«»()[]"


def is_non_answer(text: str, question: str = "") -> bool:
    """Return True if ``text`` only says that there is no answer to ``question``.

    "None" answers a question that asks how many; what the question itself names is an answer too; "not enough info" is
    a label of claims.

    >>> is_non_answer("Unknown. The passages do not mention it."), is_non_answer("I don't know who he was.")
    (True, True)
    >>> is_non_answer("Unknown Pleasures"), is_non_answer("none", "How many sisters had she?")
    (False, False)
    """
    if not text.strip() or len(text) > MAX_NON_ANSWER_CHARS:
        return not text.strip()
    words = " ".join(text.split()).strip(_QUOTES)
    if says_nothing(words or text):
        return not _ASKS_FOR_NONE.search(question)
    if not words or normalise(words) == "not enough info" or find_folded(words.rstrip("."), question):
        return False
    first, *others = sentences(words)
    if _BARE.fullmatch(first.strip(_QUOTES).rstrip(".!?")):
        return True
    return not _CONTRAST.search(words[1:]) and all(_says_so(sentence) for sentence in (first, *others))


def _says_so(sentence: str) -> bool:
    return bool(_SENTENCE.fullmatch(sentence) or _BARE.fullmatch(sentence.strip(_QUOTES).rstrip(".!?")))
