"""Words that only say that there is no answer: "unknown", "not mentioned in the passages", a refusal.

They are English. A title is an answer, whatever its words: "Unknown Pleasures", "None but the Brave", "Not Given
Lightly". So the short forms must be the whole text, or be followed by the source that was searched; the forms that take
any words after them ("the passages do not say …") must be written as a sentence is, their verb in lower case.

Every function is linear in the length of the text.
"""

from __future__ import annotations

import re

from polyhop.common.sentences import sentences
from polyhop.common.text import find_folded, normalise

_NOTHING = frozenset({"", "none", "null", "n/a", "nothing", "-", "–", "—", "…"})


def says_nothing(text: str) -> bool:
    """Return True if a text is empty or a word for nothing, as models fill in what they should leave out.

    >>> says_nothing("None."), says_nothing("Nonesuch")
    (True, False)
    """
    return text.strip().rstrip(".").lower() in _NOTHING


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
_BEARS = (
    r"(?:(?:do|does|did|is|are|was|were) )?(?:\w{1,20}ly )?(?:helps?|mentions?|contains?|provides?|answers?|gives?"
    r"|says?|states?|names?|tells?|includes?|describes?|discuss(?:es)?|address(?:es)?|helpful|relevant|related)\b"
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
    rf"(?:I|i|We|we|One|one)(?: (?:really )?(?:do|did|could|can){_NOT_AFTER}| cannot| can['’]t) "
    rf"(?:know|say|tell|determine|answer|find|identify|infer|recall|remember|provide|confirm|assist|comply|fulfil+"
    rf"|complete|discuss|engage|respond|process|support|browse|do (?:that|this)|help(?= (?:with|you|answer)\b|\.?$))\b"
    rf"|(?:I|We) (?:will not|won['’]t|must decline|decline|refuse)\b"
    rf"|(?:I|We) (?:am|are|['’]m|['’]re) (?:just )?an? AI\b"
    rf"|(?:I|We)(?: am| are|['’]m|['’]re) (?:unable to|not able to|not sure|not certain|unsure)\b"
    rf"|(?:I|We) (?:do not|don['’]t) have (?:enough|any|sufficient|the|access)\b|(?:I|We) have no {_LACKED}\b"
    rf"|(?i:{_SOURCE})(?: (?:above|provided|given|at hand))?(?: about [^.;]{{1,80}})?"
    rf"(?: (?:do|does|did|could|can|is|are|was|were){_NOT_AFTER}| cannot)"
    rf" (?:\w{{1,20}}ly )?(?:mention|say|specify|state|provide|contain|tell|give|include|indicate|reveal|answer|name"
    rf"|disclose|identify|list|describe|discuss|help|hold|appear|have|enough|sufficient|provided|related)\b"
    rf"|(?i:{_SOURCE}) (?:contains?|gives?|provides?|holds?|has|have) no\b"
    rf"|(?:[Nn]one|[Nn]ot one|[Nn]either) of {_SOURCE}(?: (?:above|provided|given|at hand))? {_BEARS}"
    rf"|(?:[Nn]o|[Nn]ot a single) (?:(?:given|provided|retrieved|relevant) )?(?:passages?|texts?|documents?) {_BEARS}"
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
_APOLOGY = re.compile(
    r"(?:(?:I['’]m|I am)(?: (?:very|really|so|truly))? (?:sorry|afraid)|[Ss]orry|(?:My )?[Aa]pologies|I apologi[sz]e"
    r"|[Uu]nfortunately|[Aa]s an? (?:AI|artificial intelligence|(?:large )?language model)\b[^.,;]{0,60})"
    r"(?: for (?:the|any|this) [^.,;]{1,60})?(?:(?:[,.!]|\s[–—-])?\s(?:but|that)?\s?|[,.!]\s?)(?=\S)"
)
"""Words that open a refusal; what follows them decides."""
_COURTESY = re.compile(
    r"(?:Please|Let me know|Is there|If you|Feel free|How can I|Can I|Could you|Would you|I hope)\b.*"
)
"""A sentence that may follow a refusal."""
_CONTRAST = re.compile(r"\b(?:but|however|though|although|nevertheless|except|whereas)\b", re.IGNORECASE)
_ASKS_FOR_NONE = re.compile(
    r"\bhow (?:many|much|often)\b|\bnumber of\b|\b(?:any|which|who|what|none) of\b", re.IGNORECASE
)
_CUE = re.compile(
    r"n['’]t\b|\b(?:no|none|not|nothing|null|never|n/a|can(?:not)?|un\w+|in\w+|impossible|idk|dunno|decline|refuse|AI)\b",
    re.IGNORECASE,
)
"""Words of which every non-answer has one: a quick test, because nearly all texts are answers."""
_QUOTES = " \t\"'`*_“”‘’«»()[]<>"


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
    if not _CUE.search(words) or normalise(words) == "not enough info" or find_folded(words.rstrip("."), question):
        return False
    while opening := _APOLOGY.match(words):
        words = words[opening.end() :]
    first, *others = sentences(words)
    if _BARE.fullmatch(first.strip(_QUOTES).rstrip(".!?")):
        return True
    return (
        not _CONTRAST.search(words[1:])
        and _says_so(first)
        and all(_says_so(sentence) or _COURTESY.fullmatch(sentence) for sentence in others)
    )


def _says_so(sentence: str) -> bool:
    return bool(_SENTENCE.fullmatch(sentence) or _BARE.fullmatch(sentence.strip(_QUOTES).rstrip(".!?")))
