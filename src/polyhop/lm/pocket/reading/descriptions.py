"""Questions about things that they only describe, split in two.

"Where does the nurse who found the key live?" is "Which nurse found the key?", and "Where does # live?" of the answer.
The encoder reads the description off the question; rules know those that are in two parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from polyhop.lm.pocket.encoder.cache import predict
from polyhop.lm.pocket.encoder.inputs import SpanPrediction
from polyhop.lm.pocket.reading.tables import words
from polyhop.types import Passage

DESCRIBES = "What is described?"
"""The question that the encoder reads a question for."""
_DESCRIBED_FROM = 0.5
"""The minimum log-odds that a question describes something for it to be split."""
_TIE = 0.5
"""The difference of log-probability up to which the inner one of two descriptions is taken."""
_HEAD = (
    r"(?P<head>(?:(?!(?:who|that|which|whose|whom|where|with|of|for|in|on|at|from|by|to|and|or)\b)[\w'’&.-]+ ){1,4})"
)
_CLAUSE = re.compile(
    rf"(?:the|our|that|this|an?) {_HEAD}(?P<word>who|that|which|whose|whom|where|to whom)\b (?P<body>.+)", re.IGNORECASE
)
_WHOEVER = re.compile(
    r"(?:whoever|whichever(?: of us)?|(?:the )?(?:one|person|man|woman|someone|anyone) who) (?P<body>.+)", re.IGNORECASE
)
_BEING = re.compile(r"(?:who|what|which)(?:['’]s| (?:is|are|was|were)) ", re.IGNORECASE)
_ASKS = re.compile(r"\b(?:what|which|who|whom|whose|where|when|why|how)\b", re.IGNORECASE)
_GOES_ON = re.compile(r" (?:(?:in|on|at|of|for|from|by|with|to) )?(?:which|that|who|whom|whose|where)\b", re.IGNORECASE)
_AUXILIARY = r"(?:do|does|did|is|are|was|were|has|have|had|can|could|will|would|may|must|should)"
_VERBS = (
    "live|work|stay|arrive|come|leave|sit|teach|sing|study|play|pay|sell|sold|cost|take|start|begin|end|join|joined"
    "|retire|have|use|need|want|wear|look|write|make|made|built|build|run|get|earn|own|drive|keep|speak|sail|ship|last"
    "|weigh|hold|carry|grow|train|learn|cook|eat|drink|bring|lie|stand|hang|belong|open|close|meet|move|moved|based"
    "|located|kept|held|born|found|stored|paid|called|named|caught|go|do|sign|report|lead|own|say|see|buy|land|live|charge"
)
_ADVERBS = (
    r"(?: (?:in|at|on|to|from|for|with|by|up|off|out|after|of|now|today|before|first|himself|herself|itself|over|back"
    r"|away|under|as|down|work|a living|per \w+|(?:next|last|this) \w+))*"
)
_TAIL = re.compile(rf" (?:{_VERBS}){_ADVERBS}$", re.IGNORECASE)
_WAITS_FOR_VERB = re.compile(rf"(?:^|.* )(?!(?:is|are|was|were) ){_AUXILIARY} ", re.IGNORECASE)
_EXTRAPOSED = re.compile(
    rf"^(?P<front>.*\b{_AUXILIARY} )(?:the|our) (?P<head>[\w-]+(?: [\w-]+)??) (?P<tail>(?:{_VERBS}|\w+ed){_ADVERBS}) "
    r"(?P<word>who|that|which|whose) (?P<body>[^?,;]+)$",
    re.IGNORECASE,
)
_OPENING = re.compile(r"^(?:someone|somebody) (?P<someone>.+)|^one of (?P<one>.+)", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:he|she|they|him|it|his|her|their|its|them)\b", re.IGNORECASE)
_POSSESSIVES = frozenset("his her their its".split())
_OBJECT = re.compile(r"(?:the|an?|our|his|her|their|I|we|you|they|he|she|it|[A-Z][\w'’.-]*) ")
_AGENTS = ("er", "or", "ist", "ian", "man", "chair", "cook", "head", "host", "captain", "nurse", "person", "lead")
_ANYONE = frozenset("person one woman man people somebody lady guy".split())
_PERSONS = _ANYONE | frozenset(
    """apprentice assistant aunt boss boy brother-in-law chief colleague contact daughter dentist deputy friend girl
    guest guide husband intern neighbour nephew niece pilot secretary son spouse student substitute tenant trainee uncle
    vet wife witness""".split()
)


class Split(NamedTuple):
    """A question about something described: the question of what is described, and the parts of the outer question
    before and after the answer to it."""

    inner: str
    front: str
    tail: str

    def about(self, name: str) -> str:
        """The outer question about a name."""
        return f"{self.front}{name}{self.tail}"


@lru_cache(maxsize=512)
def split(question: str) -> Split | None:
    """Split a question at its innermost description; None if it describes nothing.

    >>> split("Where does the nurse who found the key live?")
    Split(inner='Which nurse found the key?', front='Where does ', tail=' live?')
    >>> split("One of the cooks has won a prize. Where was she born?")
    Split(inner='Which of the cooks has won a prize?', front='Where was ', tail=' born?')
    >>> split("Who keeps the charts?") is None
    True
    """
    return split_by_rules(question) or _read(plain(question))


def split_by_rules(question: str) -> Split | None:
    """Split a question whose description is in two parts, or in a sentence of its own; None for any other."""
    text = plain(question)
    return _two_sentences(text) or _extraposed(text)


def plain(question: str) -> str:
    """A question without its question mark."""
    return " ".join(question.split()).rstrip(" ?.")


def _two_sentences(text: str) -> Split | None:
    first, stop, second = text.partition(". ")
    opening, pronoun = _OPENING.match(first), _PRONOUN.search(second)
    if not stop or not opening or not pronoun:
        return None
    inner = f"Who {opening['someone']}?" if opening["someone"] else f"Which of {opening['one']}?"
    ending = "'s" if pronoun[0].lower() in _POSSESSIVES else ""
    return Split(inner, second[: pronoun.start()], f"{ending}{second[pronoun.end() :]}?")


def _extraposed(text: str) -> Split | None:
    """The split of a question whose verb stands inside the description: "Where does the nurse live who found it?"."""
    if (match := _EXTRAPOSED.match(text)) is None:
        return None
    inner = _clause_question(match["head"], match["word"].lower(), match["body"])
    return Split(f"{inner}?", match["front"], f" {match['tail']}?")


def _read(text: str) -> Split | None:
    """The split at the words that the encoder reads as a description, unless the question asks for just what they
    describe (as in "Who sings in which show, the one that opened in May?"), or asks inside them."""
    (output,) = predict(DESCRIBES, [[Passage("", "", text)]]) if text else (None,)
    if output is None or output.answerable < _DESCRIBED_FROM or not output.spans:
        return None
    start, end = _innermost(output.spans)
    if end == len(text) and _WAITS_FOR_VERB.fullmatch(text[:start]) and (verb := _TAIL.search(text, start)):
        end = verb.start()  # "When does the firm that repairs boilers open?"
    clause = _CLAUSE.fullmatch(text[start:end])
    if clause and clause["body"][0].isupper() and " " not in clause["body"]:
        end = len(text)  # "that Ida" is no whole clause
    front, description, tail = text[:start], text[start:end], text[end:]
    is_yes_or_no = re.match(_AUXILIARY, front, re.IGNORECASE)
    asks_inside = _ASKS.search(description) and not _ASKS.search(front + tail) and not is_yes_or_no
    ends = not tail.strip() or _GOES_ON.match(tail)
    is_whole = ends and (not front.strip() or front.endswith(", ") or _BEING.fullmatch(front))
    return None if is_whole or asks_inside else Split(inner_question(description), front, f"{tail}?")


def _innermost(spans: Sequence[SpanPrediction]) -> tuple[int, int]:
    """The best span, or one inside it that ends where it does and is nearly as probable."""
    best = spans[0]
    inside = [span for span in spans if span.end == best.end and best.log_probability - span.log_probability <= _TIE]
    innermost = max(inside, key=lambda span: span.start)
    return innermost.start, innermost.end


def inner_question(description: str) -> str:
    """The question that asks for what a description describes.

    >>> inner_question("the nurse who found the key"), inner_question("whoever found the key")
    ('Which nurse found the key?', 'Who found the key?')
    >>> inner_question("the cook of the stand"), inner_question("our oldest boat")
    ('Who is the cook of the stand?', 'What is our oldest boat?')
    """
    if whoever := _WHOEVER.fullmatch(description):
        return f"Who {whoever['body']}?"
    if clause := _CLAUSE.fullmatch(description):
        return f"{_clause_question(clause['head'].strip(), clause['word'].lower(), clause['body'])}?"
    noun = re.split(r" (?:of|for|in|on|at|from|by|with|to|behind|near)\b", description)[0].rsplit(" ", 1)[-1].lower()
    is_person = noun in _PERSONS or words().type_of_noun.get(noun) == "person" or noun.endswith(_AGENTS)
    return f"{'Who' if is_person else 'What'} is {description}?"


def _clause_question(head: str, word: str, body: str) -> str:
    """The question of a noun and its relative clause, which begins with ``word``."""
    is_person = head.split()[-1].lower() in _ANYONE
    subject = "Who" if is_person else f"Which {head}"
    if word == "whose":
        return f"Whose {body}"
    if word == "where":
        return f"Which {head} is it where {body}"
    if word in ("whom", "to whom"):
        return f"{subject} is it {word} {body}"
    return f"{subject} is it that {body}" if _OBJECT.match(body) else f"{subject} {body}"
