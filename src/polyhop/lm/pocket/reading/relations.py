"""How encyclopedias state a relation of their subject, as rules.

A rule is a cue, what kind of mention may be the value, how far behind the cue it may stand, and which words must stand
right before it. Rules are tried in order; the first that finds something gives the relation's values (``facts``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DATES = ("date", "year")
_NAMES = ("name",)


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to state a relation; ``lead``: only in the first sentence; ``several``: all names of a list."""

    cue: re.Pattern[str]
    kinds: tuple[str, ...] = _NAMES
    reach: int = 40
    before: re.Pattern[str] | None = None
    several: bool = False
    lead: bool = False


def _rule(
    cue: str,
    kinds: tuple[str, ...] = _NAMES,
    reach: int = 40,
    before: str = "",
    several: bool = False,
    lead: bool = False,
) -> Rule:
    return Rule(re.compile(cue), kinds, reach, re.compile(before) if before else None, several, lead)


# What may stand right before a value.
_BY = r"(?:\b(?:by|and|from)|[,&:])\s(?:the |a |an )?(?:[\w-]+ ){0,5}$"
_IN = r"\b(?:in|at|near|of)\s(?:the |what is now )?(?:[a-z]+ of )?$"
_OF = r"\b(?:of|to|by|and|was|is|named)\s(?:the |a |an )?(?:[\w'’-]+ ){0,4}$|[,(]\s(?:the )?(?:[\w-]+ ){0,3}$"

_NAMED = r"\b(?:was|is|named|father|mother)\s(?:the |a |an )?(?:[\w'’-]+ ){0,5}$|,\s(?:[\w'’-]+ ){0,3}$"

_AND = r"\b(?:and|by)\s(?:his |her |the |a )?(?:[\w'’-]+,? ){0,6}$"
_LISTED = r"\b(?:was|is|are|were|named|and|include)\s(?:[\w-]+ ){0,3}$|[,(:]\s?(?:[\w-]+ ){0,3}$"
_AT = r"\b(?:in|at|on|near|of)\s(?:the )?(?:[\w-]+ ){0,3}$"
_STARTED = "founded|established|formed|started|launched|began|created|opened|organized|incorporated|built|completed"
_LADY = "actress|Queen|Princess|Lady|Empress|Countess"

RULES: dict[str, tuple[Rule, ...]] = {
    "birth date": (_rule(r"\b(?:born|b\.)\s", _DATES, 60),),
    "death date": (
        _rule(r"\b(?:died|killed|executed|assassinated|murdered|drowned|perished)\b", _DATES, 70),
        _rule(r"\b(?:death|d\.)\s", _DATES, 30),
    ),
    "birth place": (
        _rule(r"\b[Bb]orn\b", _NAMES, 90, _IN),
        _rule(r"\b(?:native of|native to|hails from|raised in|grew up in)\s", _NAMES, 6),
        _rule(r"\b(?:from|of)\s", _NAMES, 2, lead=True),
    ),
    "death place": (
        _rule(r"\b(?:[Dd]ied|killed|executed|assassinated|murdered|death)\b", _NAMES, 90, _IN),
        _rule(r"\b(?:buried|interred)\b", _NAMES, 60, _IN),
    ),
    "death cause": (
        _rule(r"\b(?:[Dd]ied|death)\b", ("phrase",), 70, r"\b(?:of|from|by|to)\s(?:a |an |the )?$"),
        _rule(r"\b(?:was)\s(?=shot|stabbed|executed|assassinated|murdered)", ("phrase",), 2),
        _rule(r"\b(?:suicide|heart attack|cancer|pneumonia|tuberculosis)\b", ("phrase",), 0),
    ),
    "director": (
        _rule(r"\b(?:[Dd]irected|co-directed|helmed|[Dd]irection)\b", _NAMES, 90, _BY, several=True),
        _rule(r"\b(?:[Dd]irector)\b", _NAMES, 20),
        _rule(r"\bfilm (?:of|by|from)\b", _NAMES, 40),
    ),
    "writer": (
        _rule(r"\b(?:written|authored|co-written|penned|scripted)\b", _NAMES, 60, _BY, several=True),
        _rule(r"\b(?:novel|book|play|poem|story|work|series|manga|memoir)\b", _NAMES, 60, _BY),
        _rule(r"\b(?:author|writer)\b", _NAMES, 20),
    ),
    "composer": (
        _rule(
            r"\b(?:[Mm]usic|[Ss]core|[Ss]oundtrack|[Ss]ongs?|[Cc]omposed|[Cc]omposer)\b", _NAMES, 90, _BY, several=True
        ),
        _rule(r"\b(?:[Mm]usic [Dd]irector|[Cc]omposer)\b", _NAMES, 30),
        _rule(r"\b(?:written)\b", _NAMES, 60, _BY),
    ),
    "performer": (
        _rule(r"\b(?:song|single|album|ballad|track|EP|hit|entry|mixtape|record)\b", _NAMES, 90, _BY, lead=True),
        _rule(r"\b(?:singer|band|group|artist|rapper|duo|musician|songwriter)\b", _NAMES, 3),
        _rule(r"\b(?:performed|recorded|sung|created|popularized|introduced|made famous)\b", _NAMES, 80, _BY),
        _rule(r"\b(?:song|single|album|hit)\b", _NAMES, 80, _BY),
        _rule(r"\b(?:song|single|album)\b", _NAMES, 80, r"\bof\s(?:[\w-]+ ){0,4}$"),
    ),
    "creator": (
        _rule(
            r"\b(?:painted|designed|built|invented|created|sculpted|drawn|engineered)\b", _NAMES, 70, _BY, several=True
        ),
        _rule(r"\b(?:painting|portrait|sculpture|print|work|design|statue|bridge|building)\b", _NAMES, 60, _BY),
        _rule(r"\b(?:architect|engineer|designer|inventor|painter|creator)\b", _NAMES, 20),
    ),
    "producer": (_rule(r"\b[Pp]roduced\b", _NAMES, 60, _BY, several=True),),
    "publisher": (
        _rule(r"\b(?:[Pp]ublished|released|issued|distributed)\b", _NAMES, 60, _BY),
        _rule(r"\b(?:edition|version) of\b", ("quoted", "name"), 20),
    ),
    "founder": (
        _rule(r"\b(?:founded|established|created|formed|started|founders?)\b", _NAMES, 80, _BY, several=True),
        _rule(r"\bfounder\b", _NAMES, 20),
    ),
    "spouse": (
        _rule(r"\b(?:wife|husband|consort|spouse|widow|widower|mistress)\b", _NAMES, 60, _OF),
        _rule(r"\b(?:[Mm]arried|wed|marriage|marrying|remarried)\b", _NAMES, 70),
    ),
    "father": (
        _rule(r"\b(?:sons?|daughters?|child|heir) (?:of|to)\b", _NAMES, 70),
        _rule(r"\b(?:father|dad)\b", _NAMES, 60, _NAMED),
        _rule(r"\b[Pp]arents (?:were|are|named)\b", _NAMES, 40),
        _rule(r"\bborn\b", _NAMES, 70, r"\b(?:of|to)\s(?:the )?(?:[\w-]+ ){0,3}$"),
    ),
    "mother": (
        _rule(rf"\b(?:sons?|daughters?|child|heir) of (?:the )?(?={_LADY})", _NAMES, 40),
        _rule(r"\b(?:mother|mum)\b", _NAMES, 60, _NAMED),
        _rule(r"\b(?:sons?|daughters?|child|[Pp]arents|born)\b", _NAMES, 160, _AND),
    ),
    "child": (
        _rule(r"\b(?:father|mother|parents?) (?:of|to)\b", _NAMES, 60, several=True),
        _rule(r"\b(?:sons?|daughters?|children|child)\b", _NAMES, 60, _LISTED),
    ),
    "sibling": (_rule(r"\b(?:brothers?|sisters?|siblings?|twin)\b", _NAMES, 60),),
    "employer": (
        _rule(r"\b(?:member|professor|works? for|worked (?:for|at|as)|employed|plays? for|played for)\b", _NAMES, 60),
    ),
    "school": (_rule(r"\b(?:graduated|educated|studied|attended|degree|alumnus|alumna|schooled)\b", _NAMES, 60),),
    "award": (_rule(r"\b(?:won|received|awarded|recipient|inducted|winner|winning)\b", _NAMES, 80),),
    "start": (
        _rule(rf"\b(?:{_STARTED})\b", _DATES, 70),
        _rule(r"\b(?:since|from)\b", _DATES, 8),
        _rule(r"\b(?:formation|debut|first)\b", _DATES, 60),
    ),
    "release": (
        _rule(r"\b(?:is|was|are|were)\s(?:an? |the )?", ("year", "date"), 6, lead=True),
        _rule(r"\b(?:released|premiered|published|aired|broadcast|opened|debuted)\b", _DATES, 60),
        _rule(r"", _DATES, 200, lead=True),
    ),
    "headquarters": (_rule(r"\b(?:headquarter(?:s|ed)|based|located|situated|office)\b", _NAMES, 60, _IN),),
    "location": (
        _rule(r"\b(?:located|situated|based|found|headquartered|held|lies)\b", _NAMES, 60, _AT),
        _rule(r"\b(?:in|of|from)\s(?:the )?", _NAMES, 2, lead=True),
    ),
}


# The words that mark a place's name as one of a kind.
PLACE_KINDS: dict[str, tuple[str, ...]] = {
    "state": ("state",),
    "county": ("county",),
    "district": ("district",),
    "province": ("province",),
    "region": ("region",),
    "municipality": ("municipality",),
    "territory": ("territory",),
    "island": ("island",),
    "city": ("city",),
    "town": ("town",),
    "village": ("village",),
    "continent": ("africa", "europe", "asia", "america", "oceania", "antarctica", "continent"),
}
