"""The little the model knows by heart: classes of words, countries and their peoples. Plain tables, written by hand."""

from __future__ import annotations

from typing import Literal, TypeAlias

AnswerType: TypeAlias = Literal[
    "person", "place", "country", "group", "work", "date", "year", "number", "boolean", "reason", "name", "thing"
]


def _words(block: str) -> frozenset[str]:
    return frozenset(block.split())


def _groups(block: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in block.strip().splitlines())


# What a question's head noun ("which *band* ...") asks for. Nouns in none of the lists ask for a "thing".
HEAD_NOUNS: dict[AnswerType, frozenset[str]] = {
    "person": _words(
        """actor actress architect artist astronaut athlete author ballerina baseballer basketballer bassist boxer
        brother captain character chairman chancellor chef child choreographer coach comedian comedienne commander
        companion composer conductor councillor cricketer criminal dancer daughter designer dictator director driver
        drummer economist editor emperor engineer entrepreneur explorer father filmmaker footballer founder general
        god goddess golfer governor grandfather grandmother guitarist historian host husband individual inventor
        journalist judge king lawyer leader lyricist man manager mathematician mayor member men minister model monarch
        mother musician novelist officer owner painter person philosopher photographer physicist pianist player
        playwright poet politician pope president prince princess principal producer professor programmer queen rapper
        ruler scientist screenwriter sculptor senator sibling singer sister skater soldier son songwriter spouse star
        swimmer uncle aunt violinist vocalist wife winner woman women wrestler writer person people speaker secretary
        youtuber comic cartoonist publisher critic activist businessman businesswoman heir"""
    ),
    "place": _words(
        """airport area base beach birthplace borough bridge building capital castle cathedral cemetery church city
        community continent county desert district forest gulf hall headquarters hill hometown hotel hospital island
        lake landmark location mall monument mountain museum neighborhood neighbourhood ocean palace parish park peak
        peninsula place port province region river road sea stadium state station street suburb temple territory
        theater theatre tower town township valley venue village volcano municipality prefecture square locale"""
    ),
    "country": _words("country nationality nation citizenship origin"),
    "group": _words(
        """agency airline army association band bank brand brewery broadcaster channel choir chain club college company
        conference conglomerate corporation council denomination division duo ensemble federation firm foundation
        franchise government group institution label league manufacturer ministry network newspaper ngo orchestra
        organisation organization party publication regiment religion school society station store studio team tribe
        troupe union university academy institute studios"""
    ),
    "work": _words(
        """album anime autobiography ballad biography book cartoon comic documentary drama episode essay film game
        journal magazine manga memoir miniseries movie novel novella opera painting periodical play poem
        program programme record series show sitcom single soap song soundtrack story symphony title track treaty
        video"""
    ),
    "date": _words("date day birthday birthdate month months time dates"),
    "year": _words("year century decade"),
    "number": _words(
        """age amount altitude area capacity circulation count depth distance elevation height length number
        percentage population price rank rate score size speed temperature total width weight zip"""
    ),
    "name": _words("name nickname pseudonym alias surname title"),
    "reason": _words("reason cause"),
}

# After a number, the unit that belongs to an answer.
UNITS = _words(
    """acre acres hectares metres meters metre meter feet foot ft m km kilometres kilometers mi mile miles inches inch
    cm mm kg lb pounds tons tonnes percent % mph km/h minutes hours days weeks months years degrees square"""
)

# Groups of stems that stand for one thing, so that "Who wrote" meets "the author": the first names the group.
FAMILIES: dict[str, str] = {
    member: group[0]
    for group in _groups(
        """
        birth born birthplace birthday
        die dead death dy died
        write wrote written author writer novelist
        direct director filmmaker
        produc producer production
        compos composer composed music
        perform performer singer sing sung sang artist
        found founder establish form start creat creator launch begin began inception
        marri marry wife husband spouse married
        star actor actress act cast play player
        locat situat base headquarter
        own owner
        publish publisher
        win won winner
        film movie
        kill murder assassinat
        nationality country citizen citizenship
        record album
        """
    )
    for member in group
}

# Words too general to tell one page from another: they weigh little in every comparison.
COMMON = _words(
    """name named known called also first second last one two three four five year years time people person man woman
    film films movie song songs album band book series show game team player born died world american british english
    former member members part group based number new old became become made make later early served work works used
    use following state states city country town county united national international located place large many well
    release released star starring role played play best long high including included include"""
)

# Words that end a phrase: verbs and adverbs of telling, which no stop list holds.
TELLING = _words(
    """became become becomes include includes including included made makes make known named called used gave given took
    taken went won lost held began led left located based featuring featured featured stars starring starred released
    written directed produced founded published several many well often later currently originally best per via among
    within upon although though since however received receives works worked works serves served plays played
    alongside opposite"""
)

MONTHS: dict[str, int] = {
    name: number
    for number, names in enumerate(
        """january jan;february feb;march mar;april apr;may;june jun;july jul;august aug;september sep sept;october oct;
        november nov;december dec""".split(";"),
        start=1,
    )
    for name in names.split()
}

NUMBER_WORDS: dict[str, float] = {
    word: float(value)
    for value, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "dozen": 12}
MULTIPLIERS: dict[str, float] = {"hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
