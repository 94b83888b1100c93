"""Names in a question: where one begins and ends, by capitals, quotes and the small words inside names."""

from __future__ import annotations

import re

from polyhop.common.text import STOP_WORDS

# Small words that a title may contain between two capitalised words.
_INSIDE = frozenset(
    """a an and at by d'une da das de del della der des di do dos du e el en for from in is it la las le les lo los no
    of on or my s the to und van vom von with y zu zum & - – vs""".split()
)
# Those that join a name even if no phrase ("the director of ...") announces it.
_JOINERS = _INSIDE - frozenset("and or in by from at is for to it my with on no a an".split())
_MAX_INSIDE = 3  # small words in a row
_MAX_WORDS = 24  # of a name
_OPENERS, _CLOSERS = "\"“'‘(«", "\"”'’)»"
# Capitalised words that open a question or a clause and are no names.
_NOT_NAMES = (STOP_WORDS | frozenset("whose among according although given name film films song songs".split())) - {
    "the",
    "a",
    "an",
}
_WORD = re.compile(r"\S+")
_QUOTED = re.compile(r"[\"“«]([^\"“”«»]{2,80})[\"”»]")


def looks_like_name(word: str) -> bool:
    """True if a word begins as names do: with a capital or a digit, after any opening mark.

    >>> looks_like_name("“Mill"), looks_like_name("film")
    (True, False)
    """
    bare = word.lstrip(_OPENERS + "#-–!¡¿.")
    return bool(bare) and (bare[0].isdigit() or (bare[0].isalpha() and not bare[0].islower()))


def name_from(text: str, start: int, joiners: frozenset[str] = _INSIDE) -> tuple[int, int] | None:
    """The start and end of the name that begins at ``start`` (after spaces and an article).

    >>> text = "the director of The Road to Ost (1931 film) born?"
    >>> first, last = name_from(text, 15)
    >>> text[first:last]
    'The Road to Ost (1931 film)'
    """
    begin: int | None = None
    end = start
    small_words = 0
    for match in _words_from(text, start):
        word = match.group()
        if match.start() < end:  # inside a parenthesis already taken
            continue
        if looks_like_name(word) or (begin is not None and word[0] == "("):
            begin = match.start() if begin is None else begin
            end, small_words = _closed(text, match), 0
            if word[-1] in "?;" or (word[-1] == "," and joiners is not _INSIDE):
                break
        elif begin is None and word in ("the", "a", "an"):
            continue
        elif begin is not None and word.lower() in joiners and small_words < _MAX_INSIDE:
            small_words += 1
        else:
            break
    return None if begin is None else _trimmed(text, begin, end)


def _words_from(text: str, start: int) -> list[re.Match[str]]:
    found = []
    for match in _WORD.finditer(text, start):
        found.append(match)
        if len(found) == _MAX_WORDS:
            break
    return found


def _closed(text: str, match: re.Match[str]) -> int:
    """The end of a word, or of the parenthesis it opens."""
    if match.group()[0] == "(" and ")" not in match.group():
        close = text.find(")", match.end(), match.end() + 40)
        return close + 1 if close >= 0 else match.end()
    return match.end()


def name_before(text: str, end: int) -> tuple[int, int] | None:
    """The start and end of the name that ends at ``end``.

    >>> text = "When did Ole Bruun of Norland's father die?"
    >>> first, last = name_before(text, text.index("'s"))
    >>> text[first:last]
    'Ole Bruun of Norland'
    """
    begin: int | None = None
    small_words = depth = 0
    for match in reversed(list(_WORD.finditer(text, max(0, end - 300), end))[-_MAX_WORDS:]):
        word = match.group()
        depth += word.count(")") - word.count("(")
        if depth > 0 or word[0] == "(" or looks_like_name(word):
            if begin is not None and (
                (word[-1] in ":;" and not word[:-1].isdigit()) or (word[-1] == "," and not match.start())
            ):
                break
            begin, small_words = match.start(), 0
        elif begin is not None and word.lower() in _INSIDE and small_words < _MAX_INSIDE:
            small_words += 1
        else:
            break
    return None if begin is None else _trimmed(text, _past_openers(text, begin, end), end)


def _past_openers(text: str, begin: int, end: int) -> int:
    """The start of a name without the capitalised words that only open the question ("When", "Did")."""
    while (word := _WORD.match(text, begin)) and word.end() < end and _bare(word.group()).lower() in _NOT_NAMES:
        begin = word.end() + 1
    return begin


def _bare(word: str) -> str:
    return word.strip(_OPENERS + _CLOSERS + ",.;:?!")


def _trimmed(text: str, begin: int, end: int) -> tuple[int, int] | None:
    while end > begin and text[end - 1] in " ,.;:?" and not text[begin:end].endswith(("Jr.", "Sr.", "Inc.")):
        end -= 1
    if text[begin:end].endswith(("'s", "’s")):
        end -= 2
    if end - begin > 1 and text[begin] in '"“' and text[end - 1] in '"”':
        begin, end = begin + 1, end - 1
    return (begin, end) if begin < end else None


def find_names(text: str) -> list[str]:
    """All names in a question, in order. "of" and the like join a name, "and" and "or" do not.

    >>> find_names("Which band, Ost Mill or The Brenner, made the song “The Story of Us”?")
    ['Ost Mill', 'The Brenner', 'The Story of Us']
    """
    names: list[str] = []
    end = 0
    for quoted in _QUOTED.finditer(text):
        names += _runs(text[end : quoted.start()])
        names.append(quoted[1].strip(" ,.?"))
        end = quoted.end()
    names += _runs(text[end:])
    return [name for name in dict.fromkeys(names) if name]


def _runs(text: str) -> list[str]:
    names = []
    end = 0
    while word := _WORD.search(text, end):
        end = word.end()
        if not looks_like_name(word.group()) or _bare(word.group()).lower() in _NOT_NAMES:
            continue
        found = name_from(text, word.start(), _JOINERS)
        if found:
            name = text[slice(*found)]
            if _bare(name).lower() not in STOP_WORDS:
                names.append(name)
            end = max(end, found[1])
    return names
