"""Small pure functions on text that several rooms need: normalising, splitting, counting."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WORD = re.compile(r"\w+(?:['’]\w+)?", re.UNICODE)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9À-Þ])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Mt|Jr|Sr|Gen|Col|Lt|Capt|Sgt|Rev|Hon|Gov|Sen|Rep|vs|etc|No|Vol|Inc|Ltd|Co|cf|ca|c|e\.g|i\.e|a\.k\.a|U\.S|U\.K))\.$"
)
_PARENTHESIS = re.compile(r"\s*\([^()]*\)\s*$")

STOP_WORDS: frozenset[str] = frozenset(
    """a about above after again against all also am an and any are as at be because been before being below between
    both but by can did do does doing down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off on
    once only or other our ours ourselves out over own same she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up very was we were what when where which
    while who whom whose why will with would you your yours yourself yourselves""".split()
)
"""English words that carry no topic: dropped from an index and from its queries alike."""


def normalise(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces: SQuAD's normalisation, shared by all answer metrics.

    >>> normalise("The  Golden-Calf!")
    'goldencalf'
    >>> normalise("An apple, a day")
    'apple day'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def distinct(questions: Iterable[str], but: Iterable[str] = ()) -> list[str]:
    """The questions without those that say nothing; of those alike after normalisation the first, and none like
    those in ``but``.

    >>> distinct(["Who made Jaws?", "?", "who made the Jaws", "Who wrote it?"], but=["who wrote it"])
    ['Who made Jaws?']
    """
    known = {"", *map(normalise, but)}
    found: dict[str, str] = {}
    for question in questions:
        found.setdefault(normalise(question), question)
    return [question for same, question in found.items() if same not in known]


def words(text: str) -> list[str]:
    """The words of a text in lower case, accents kept, possessives joined.

    >>> words("Who's the King's son?")
    ["who's", 'the', "king's", 'son']
    """
    return _WORD.findall(text.lower())


def content_words(text: str) -> list[str]:
    """The words that carry topic: ``words`` without stop words and without a possessive ending.

    >>> content_words("Who is the director of Jaws' sequel?")
    ['director', 'jaws', 'sequel']
    """
    bare = (re.sub(r"['’]s$", "", word) for word in words(text))
    return [word for word in bare if word not in STOP_WORDS]


def fold(text: str) -> str:
    """Lower case without accents, for matching names across spellings.

    >>> fold("Antonín Dvořák")
    'antonin dvorak'
    """
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


def bare_title(title: str) -> str:
    """A title without the parenthesis that tells it from its namesakes.

    >>> bare_title("Metropolis (1927 film)")
    'Metropolis'
    """
    return _PARENTHESIS.sub("", title) or title


def sentences(text: str) -> list[str]:
    """Split at sentence ends; initials and common abbreviations do not end a sentence.

    >>> sentences("J. S. Bach was born in Eisenach. He died in 1750.")
    ['J. S. Bach was born in Eisenach.', 'He died in 1750.']
    """
    pieces: list[str] = []
    start = 0
    for gap in _SENTENCE_END.finditer(text):
        if _ABBREVIATION.search(text, max(start, gap.start() - 8), gap.start()):  # a window: text may be all initials
            continue
        pieces.append(text[start : gap.end()].strip())
        start = gap.end()
    pieces.append(text[start:].strip())
    return [piece for piece in pieces if piece]


def split_passages(text: str, target_words: int = 100) -> Iterator[str]:
    """Cut a document into passages of about ``target_words`` words, at sentence ends.

    A sentence longer than twice the target is cut between words, so no passage grows without bound.
    """
    held: list[str] = []
    count = 0
    for sentence in _bounded(sentences(text), 2 * target_words):
        size = len(sentence.split())
        if held and count + size > 1.25 * target_words:
            yield " ".join(held)
            held, count = [], 0
        held.append(sentence)
        count += size
        if count >= target_words:
            yield " ".join(held)
            held, count = [], 0
    if held:
        yield " ".join(held)


def _bounded(pieces: Iterable[str], most_words: int) -> Iterator[str]:
    for piece in pieces:
        tokens = piece.split()
        for start in range(0, len(tokens), most_words):
            yield " ".join(tokens[start : start + most_words])


def estimate_tokens(text: str) -> int:
    """Four characters a token, rounded up: the count for models that bring no tokenizer.

    >>> estimate_tokens("12345")
    2
    """
    return -(-len(text) // 4)


def find_folded(needle: str, text: str) -> tuple[int, int] | None:
    """Where ``needle`` stands in ``text`` as whole words, ignoring case; None where it does not.

    >>> find_folded("paris", "Born in Paris, France")
    (8, 13)
    >>> find_folded("art", "Party") is None
    True
    """
    if not needle.strip():
        return None
    found = re.search(rf"(?<!\w){re.escape(needle.strip())}(?!\w)", text, re.IGNORECASE)
    return found.span() if found else None
