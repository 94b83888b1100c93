"""Parsing a comparison: the two things that a question compares, by which fact, and which value wins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from polyhop.common.text import STOP_WORDS
from polyhop.lm.pocket.reading.tables import measures, words
from polyhop.lm.pocket.reading.text import TOKEN, content_stems, name_before, name_from, stem_of, stem_weight

WORKS = re.compile(r"\b(?:films?|movies?|songs?|books?|novels?|albums?)\b", re.IGNORECASE)
"""Works, whose directors or authors may be compared."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two things that a question compares.

    ``how``: "choice" of the one whose value wins; "truth" of the first one's value being the winning one; "same" value;
    "both" are described; one "fits" a description; something "common". ``what``: a relation, or "value", "name",
    "terms" or "class". ``wins``: the sign of the winning value by dimension, the likeliest first. ``measure``: the
    weights of the stems that may stand beside a value.
    """

    options: tuple[str, str]
    how: str
    what: str
    wins: Mapping[str, int] = field(default_factory=dict)
    measure: Mapping[str, float] = field(default_factory=dict)

    @property
    def distinct_terms(self) -> tuple[dict[str, float], ...]:
        """The weights of the stems of each thing that the other has not."""
        left, right = (set(content_stems(option)) for option in self.options)
        return tuple({stem: stem_weight(stem) for stem in stems} for stems in (left - right, right - left))


# Comparatives that name the fact that is compared. The first match wins, here and below.
_COMPARATIVES = (
    (r"lived longer|longer life|longest life|(?:lived|life) shorter|shorter life", "life"),
    (r"(?:older|earlier|newer) (?:film|movie)", "release"),
    (r"younger|youngest|older|oldest|elder", "birth date"),
)
# The event whose dates are compared.
_EVENTS = (
    (r"born|birth", "birth date"),
    (r"died?|death", "death date"),
    (r"founded|formed|established|started|created|built|opened|launched|begun", "start"),
    (r"released|came out|come out|published|premiered|aired|took place|came|recent|newer", "release"),
)
# The fact that is to be the same for two things joined by "and".
_SAMES = (
    (r"same (?:nationality|country|nation)|shared? (?:\w+ ){0,2}nationality", "country"),
    (r"born in the same (?:place|city|town)|same (?:birthplace|place of birth)", "birth place"),
    (r"born in the same year", "birth date"),
    (r"(?:released|come out) in the same year", "release"),
    (r"same|equal(?:ly)?|as \w+ as", "value"),
)
_NAMED = frozenset({"person", "group", "place"})  # types of what has a name and no value
_COMMON_WORDS = r"in common|common|mutual|shared?|both"
_DESCRIBED = (
    r"(?:the )?(?:directors?|performers?|composers?|authors?|writers?|painters?|designers?) of (?:both )?(?:the )?"
    r"(?:films?|movies?|songs?|books?|novels?|albums?)?:? ?"
)
_ARTICLES = "the|an?|our|its|their|your|my|his|her"
_PREPOSITIONS = "in|at|on|over|under|by|for|with|from|to|among|during"
_POINTING = r"(?:(?:that|those|the ones?|the two|the other) )?(?-i:(?:of|" + _PREPOSITIONS + r") )?"
_BETWEEN = re.compile(rf",? (?P<word>or|and|&|vs\.?|versus|/) (?:is |was )?{_POINTING}(?:{_DESCRIBED})?", re.IGNORECASE)
_AUXILIARY = r"(?:is|was|are|were|do|does|did|has|have|had|can|will|would|should|must|may)"
_LEFT, _RIGHT = (rf"(?P<{side}>[^,:;–—?]{{2,60}}?)" for side in ("left", "right"))
_ASKING = r"(?:which|who|what|whose)\b"
# Two things without capitals, by where they stand.
_PLAIN = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?P<more>more|fewer|less) {_LEFT} (?P<word>or) (?P=more) (?P<right>[\w-]{{2,40}})",
        rf"(?:[,:;–—]|\bbetween) {_LEFT},? (?P<word>or|and) {_RIGHT}\?$",
        rf"^.{{0,300}} (?:{_PREPOSITIONS}) {_LEFT} (?P<word>or) (?:{_PREPOSITIONS}) {_RIGHT}\?$",
        rf"\b(?:of|between) {_LEFT} (?P<word>and|or) {_RIGHT}[,:]? {_ASKING}",
        rf"^{_LEFT} (?P<word>or|vs\.?|versus) {_RIGHT} ?[,:–—-] ?{_ASKING}",
        rf"\bcompar(?:e|ing) {_LEFT},? (?P<word>with|to|against|and) {_RIGHT} ?[,:;–—-]",
    )
)
_AFTER_AUXILIARY = re.compile(
    rf"\b{_AUXILIARY} (?P<left>[^,:?]{{2,60}}?) (?P<word>or|and) (?P<rest>[^,:?]{{2,120}})", re.IGNORECASE
)
_TRUTH = re.compile(
    rf"^{_AUXILIARY} (?P<rest>[^,:?]{{4,150}}) (?P<word>than|before|after) (?P<right>[^,:?]{{2,60}})\?*$", re.IGNORECASE
)
# The other answer at the end of a question of yes or no: "… than Bergen, or fewer?"
_OR_NOT = re.compile(
    rf",? or (?:{_AUXILIARY} (?:it|they|he|she) (?:have )?)?"
    r"(?:not|less|more|vice versa|the other way a?round|(?-i:[a-z]+er))(?=\?*$)",
    re.IGNORECASE,
)
# A comparative that no table has: "is saltier".
_COMPARATIVE = re.compile(r"\b(?:is|was|are|were) ([a-z]{2,}er)\b", re.IGNORECASE)
_NO_COMPARATIVE = frozenset("after better either ever her never other over paper together under water whether".split())
_IN_UNIT = re.compile(r"\bin ([^\W\d_]{2,})", re.IGNORECASE)
_ASKS_AMOUNT = re.compile(
    r"(?:^|[.,:;?] )how (?:long|many|much|often|far|soon|old|high|deep|wide|big|large|heavy)\b", re.IGNORECASE
)
# Before a name: an article or a comma, and words that lead to it: "the founders of".
_HEADED = re.compile(
    rf"(?:\b(?:{_ARTICLES}) |[,:;–—] )"
    rf"(?P<head>(?:[a-z][\w-]* ){{0,3}}(?P<noun>[a-z][\w-]*) (?:of|{_PREPOSITIONS}) (?:the )?)$"
)
_DESCRIPTION = re.compile(rf"[a-z].* (?:of|{_PREPOSITIONS}) (?:the )?[^\W\d_a-z]")
_LEADS = re.compile(rf"\b(?:of|{_PREPOSITIONS})\b", re.IGNORECASE)
_MAX_HEAD = 60  # characters
_NUMBERED = re.compile(r"\d+ [a-z]")  # "2024 audit", of which a name would be "2024" alone
_POSSESSIVE = re.compile(r"(?<=\w)['’]s?$")
_SUFFIX = re.compile(r"(?:Jr|Sr|Inc|Ltd|Co)\.?|[IVX]+")
_HEAD = re.compile(rf"^(?:more |fewer )?{_POINTING}(?:(?:{_ARTICLES}) )?")


def find_comparison(text: str, yes_or_no: bool) -> Comparison | None:
    """The comparison that a question asks for; None if it names no two things to compare.

    >>> found = find_comparison("Which mill was built first, Ost Mill or The Brenner?", yes_or_no=False)
    >>> found.options, found.how, found.what
    (('Ost Mill', 'The Brenner'), 'choice', 'start')
    >>> find_comparison("Do Ann Lee and Ida Kuhn have the same nationality?", yes_or_no=True).what
    'country'
    >>> find_comparison("Is the blue valve heavier than the red valve?", yes_or_no=True).options
    ('blue valve', 'red valve')
    """
    found = _truth(text) or _options(text)
    if found is None:
        return None
    left, right, word = found
    if _ASKS_AMOUNT.search(text) and word not in ("than", "before", "after"):
        return None  # "How long is it between A and B?"
    rest = text.replace(left, " ").replace(right, " ")
    wins = dict(wins_of(rest))
    if not wins and word == "or" and (other := _COMPARATIVE.search(rest)):
        wins = {} if other[1].lower() in _NO_COMPARATIVE else {"*": 1, "number": 1}
    if "*" in wins:
        named = [dimension for dimension, pattern in measures().dimensions.items() if _says(pattern, rest)]
        named += [measures().units[word][0] for word in _units_named(rest)]
        wins = {**dict.fromkeys(named, wins["*"]), **wins}
        if named:  # what "costs more" is not decided by weights
            del wins["*"]
    if "length" in wins and "date" in wins and not _says("|".join(measures().ending), rest):
        wins["date"] = -wins["date"]  # what is there longer began first
    how, what = "choice", _fact(rest, wins) if wins else "terms"
    if word in ("than", "before", "after"):
        how = "truth"
    elif word == "or" or (not yes_or_no and wins and _says("which|who|whose|what|between|of", rest)):
        how = "choice" if wins else "fits"
    elif yes_or_no:
        same = next((fact for pattern, fact in _SAMES if _says(pattern, rest)), None)
        same = "name" if same == "value" and _same_named(rest) else same
        how, what = ("same", same) if same else ("both", "terms")
    elif _says(_COMMON_WORDS, rest) or text.startswith(left):
        how, what = "common", "class"
    else:
        return None
    left, right = (_POSSESSIVE.sub("", option) for option in (left, right))
    return Comparison((left, right), how, what, wins, measure_words(rest, left, right))


@lru_cache(maxsize=512)
def canonical(question: str) -> str:
    """The question with the two things it compares in alphabetical order, names first, and without articles, where
    their order means nothing.

    >>> canonical("Who is older, Tom Reed or Ann Lee?")
    'Who is older, Ann Lee or Tom Reed?'
    """
    text = " ".join(question.split())
    if _truth(text) or (found := _options(text)) is None:
        return question
    left, right, _ = found
    if left in right or right in left:
        return question
    text = re.sub(rf"\b(?:{_ARTICLES}) (?={re.escape(left)}|{re.escape(right)})", "", text)
    first, second = sorted((left, right), key=lambda option: (option[0].islower(), option))
    if _DESCRIPTION.match(second):
        second = f"the {second}"  # else its words would not be found again
    written = {left: first, right: second}
    return re.sub(f"{re.escape(left)}|{re.escape(right)}", lambda found: written[found[0]], text)


def wins_of(rest: str) -> Iterator[tuple[str, int]]:
    """The sign of the winning value by dimension, by the first comparative of a question."""
    words, table = [word.lower() for word in TOKEN.findall(rest)], measures().wins
    for i, word in enumerate(words):
        if word in table:
            following = words[i + 1] if i + 1 < len(words) else ""
            sign = -1 if word in ("less", "least") else 1
            following = "longer" if following == "time" else following.removesuffix("ly")
            if word in ("more", "most", "less", "least") and following in table:
                yield from ((dimension, sign * win) for dimension, win in table[following].items())
            elif following in table and word in ("first", "last"):
                continue
            else:
                yield from table[word].items()
            return


def _units_named(rest: str) -> list[str]:
    """The units that a question asks for: "in pounds"."""
    return [word for word in map(str.lower, _IN_UNIT.findall(rest)) if word in measures().units]


def _fact(rest: str, wins: Mapping[str, int]) -> str:
    """The relation that a choice is decided by, "value" if it is none that encyclopedias state."""
    for pattern, what in _COMPARATIVES:
        if _says(pattern, rest):
            return what
    if "date" not in wins or "length" in wins:
        return "value"
    return next((what for pattern, what in _EVENTS if _says(pattern, rest)), "value")


def measure_words(rest: str, *options: str) -> dict[str, float]:
    """The stems that may stand beside a value, with their weights: the question's, and others of the same measure."""
    table = measures()
    own = {stem_of(token) for option in options for token in TOKEN.findall(option)}
    weights: dict[str, float] = {}
    for token in TOKEN.findall(rest):
        word, stem = token.lower(), stem_of(token)
        if stem in own or word in table.empty:
            continue
        if (weight := stem_weight(stem)) and word not in table.wins:
            weights[stem] = max(weight, weights.get(stem, 0.0), 0.5)
        for other in table.groups.get(word, ()):
            weights.setdefault(stem_of(other), 0.5)
    return weights


def _truth(text: str) -> tuple[str, str, str] | None:
    """The two things of "Is A older than B?", and the word between them."""
    text = _OR_NOT.sub("", text)
    found = _TRUTH.match(text)
    if found is None or " or " in text:
        return None
    words = found["rest"].split()
    start = len(text) - len(text[found.start("rest") :])
    name = name_from(text, start)
    if name and name[0] - start <= 4 and name[1] < found.end("rest"):
        left = text[slice(*name)]
    else:
        end = next((i for i, word in enumerate(words) if i and ends_name(word)), None)
        if end is None:
            return None
        left = " ".join(words[:end])
    right = _HEAD.sub("", re.sub(rf" {_AUXILIARY}$", "", found["right"]))
    rest = text.replace(left, " ").replace(right, " ")
    if found["word"].lower() == "than" and not any(wins_of(rest)):
        return None
    return _HEAD.sub("", left), right, found["word"].lower()


def _options(text: str) -> tuple[str, str, str] | None:
    """The two things around an "or", or around an "and" if the question is about both, and that word."""
    found = []
    for match in _BETWEEN.finditer(text):
        left = name_before(text, match.start())
        right = name_from(text, match.end())
        if left and right and right[0] - match.end() <= 4 and match.start() - left[1] <= 1:
            if _NUMBERED.match(text, right[0]):
                continue
            word = "and" if match["word"].lower() in ("and", "&") else "or"
            between = text[match.start("word") : right[0]]
            first = _after_same(between, text[slice(*left)])
            if not _LEADS.search(between):
                first = _headed(text, left[0], word) + first
            found.append((_unlisted(_HEAD.sub("", first), text[slice(*right)]), text[slice(*right)], word))
    if not found:
        found = list(_plain_options(text))
    choices = [option for option in found if option[2] == "or"]
    if choices:
        return choices[-1]
    asks_both = re.search(r"\b(?:both|same|common|mutual|share|between|among|of the two)\b", text, re.IGNORECASE)
    plural = re.match(r"(?:of|are|were|do|did|have|has|can)\b", text, re.IGNORECASE)
    starts = found and text.startswith(found[0][0])
    the_more = found and re.search(rf"\bthe (?P<word>\w+) of (?:the )?{re.escape(found[0][0])}\b", text, re.IGNORECASE)
    compares = the_more and the_more["word"].lower() in measures().wins
    return found[0] if found and (asks_both or plural or starts or compares) else None


def _after_same(between: str, left: str) -> str:
    """The first thing without what comes before the preposition that leads to the second: "a day of A or of B"."""
    lead = re.search(rf" (?P<word>of|{_PREPOSITIONS}) (?:the |an? |our )?$", between, re.IGNORECASE)
    found = lead and re.search(rf"^.*\b{lead['word']} (?P<name>.+)$", left, re.IGNORECASE)
    return found["name"] if found else left


def _headed(text: str, start: int, word: str) -> str:
    """The words that head a name before "or" or "and": "founders of " in "the founders of Lantern or Mrs Dekkers".
    Empty if they are of both things: a measure ("the population of Larn or Ost Hill"), several things joined by "and"
    ("the mayors of Larn and Ost Hill"), or people of works."""
    found = _HEADED.search(text, max(0, start - _MAX_HEAD), start)
    if found is None or WORKS.search(text):
        return ""
    if word == "and" and (found["noun"].endswith("s") or not found[0][0].isalpha()):
        return ""
    noun, table = found["noun"], measures()
    is_value = words().type_of_noun.get(noun) in ("number", "date", "year")
    return "" if is_value or noun in table.groups or noun in table.units else text[found.start("head") : start]


def _unlisted(left: str, right: str) -> str:
    """A name without what a comma parts from it ("in 2023, Ann Lee"), unless the comma belongs to names of the kind."""
    before, comma, last = left.rpartition(", ")
    return last if comma and "," not in right and not _SUFFIX.fullmatch(last) and len(before.split()) < 4 else left


def _plain_options(text: str) -> Iterator[tuple[str, str, str]]:
    """Two things of which one at least has no capital, by where they stand."""
    for pattern in _PLAIN:
        for match in pattern.finditer(text):
            asks_both = match["word"].lower() == "and" and not match[0].lower().startswith("compar")
            yield _HEAD.sub("", match["left"]), _HEAD.sub("", match["right"]), "and" if asks_both else "or"
            return
    found = _AFTER_AUXILIARY.search(text)
    if found is None or not (found.start() == 0 or found["word"].lower() == "or"):
        return
    left, rest = found["left"].split(), found["rest"].rstrip("?").split()
    has_article = _is_article(rest[0])
    count = max(1, len(left) + has_article - _is_article(left[0]))
    while has_article and count < len(rest) and _goes_on(rest[count : count + 2]):
        count += 1
    right = rest[: next((i for i, word in enumerate(rest[:count]) if i and word in measures().verbs), count)]
    if len(rest) > len(right):
        between = text[found.start("word") : found.start("rest")] + " ".join([*right[:2], ""])
        first = _after_same(between, " ".join(left))
        yield _HEAD.sub("", first), _HEAD.sub("", " ".join(right)), found["word"].lower()


def _is_article(word: str) -> bool:
    return re.fullmatch(_ARTICLES, word, re.IGNORECASE) is not None


def _goes_on(words: Sequence[str]) -> bool:
    """True if a description goes on with the first of these words: "from" in "our cook from Larn"."""
    leads = words[0].lower() in ("of", *_PREPOSITIONS.split("|")) and words[-1][0].isupper()
    return leads or words[0][0].isupper() or not ends_name(words[0])


def ends_name(word: str) -> bool:
    """True for a word that goes on about a thing: a comparative, a verb, a word of a measure."""
    table, lowered = measures(), word.lower()
    known = any(lowered in words for words in (table.wins, table.groups, table.verbs, table.empty, STOP_WORDS))
    return known or lowered.endswith(("ed", "s"))


def _same_named(rest: str) -> bool:
    """True if what is to be the same has a name: "the same chemist"."""
    found = re.search(r"\bsame (?P<phrase>(?:[\w-]+ ?){1,3})", rest, re.IGNORECASE)
    types = words().type_of_noun
    return found is not None and any(types.get(word.lower()) in _NAMED for word in found["phrase"].split())


def _says(pattern: str, text: str) -> bool:
    return re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE) is not None
