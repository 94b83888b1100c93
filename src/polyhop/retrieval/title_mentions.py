"""Mentions of titles: the names that a text may use for a page. Whole words match, with their case, without accents.

A title has up to three names: the whole title, the title without a final parenthesis ("Chatterbox" for "Chatterbox
(1936 film)"), and the part before its first comma if that has at least two words ("Oakdale Park, New York"). A one-word
name counts unless it is a stop word, a number, or in lower case. The title of a section, "Ledgerline › Ownership", has
the names of the document and of each heading. In a language written without blanks each character is
a word, but for this last rule an unbroken run of characters is one word.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from polyhop.common.text import CJK, SECTION, bare_title, normalise_unicode
from polyhop.retrieval.analysis import ENGLISH, Analysis
from polyhop.retrieval.references import MAX_ADDRESSED, MAX_REFERENCES, addresses, is_address, is_rare, references
from polyhop.retrieval.store import map_bytes
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME_STARTS, NAME_PASSAGES = "names.starts", "names.passages"
NAMES, BEARERS, BEARER_KEYS = "names.text", "names.bearers", "names.bearer_keys"

MAX_NAMESAKES = 10
"""Maximum number of passages that a mention links to: first those with exactly that title, then in the corpus'
order."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_CAPITALISED = re.compile(r"[A-Z][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\w+|[()]")  # a parenthesis counts, so that "2001 (film)" is not found in "the 2001 film"
_CHARACTER = re.compile(rf"[{CJK}]|[^\W{CJK}]+|[()]")
_CHARACTER_NAME = re.compile(rf"[{CJK}]( [{CJK}])*")


def tokens(text: str, analysis: Analysis = ENGLISH) -> list[str]:
    """Split a text into words and parentheses, without accents; a language without blanks into single characters.

    >>> tokens("Émile Chautard's (silent) film")
    ['Emile', 'Chautard', 's', '(', 'silent', ')', 'film']
    >>> tokens("鲁迅（作家）用UTF-8", Analysis("chinese"))
    ['鲁', '迅', '(', '作', '家', ')', '用', 'UTF', '8']
    """
    if analysis.by_characters:
        return _CHARACTER.findall(normalise_unicode("NFKC", text))
    if not text.isascii():
        text = _NOT_ASCII.sub(_without_marks, normalise_unicode("NFD", text))
    return _TOKEN.findall(text)


def _without_marks(run: re.Match[str]) -> str:
    return "".join(c for c in run[0] if not unicodedata.combining(c))


def names_of(title: str, analysis: Analysis = ENGLISH) -> list[str]:
    """Return the names that a text may use for a page with this title, the title first; [] if none would identify it.

    >>> names_of("Chatterbox (1936 film)")
    ['Chatterbox ( 1936 film )', 'Chatterbox']
    >>> names_of("Matilda of Brabant, Countess of Holland")
    ['Matilda of Brabant Countess of Holland', 'Matilda of Brabant']
    >>> names_of("1984"), names_of("It"), names_of("of")
    ([], [], [])
    >>> names_of("Ledgerline (Go) › Ownership")
    ['Ledgerline ( Go )', 'Ledgerline', 'Ownership']
    """
    return list(dict.fromkeys(name for part in title.split(SECTION) for name in _names_of_part(part, analysis)))


def _names_of_part(title: str, analysis: Analysis) -> list[str]:
    """Return the names for the title of a document, or for one of its headings."""
    bare = bare_title(title.replace("（", "(").replace("）", ")"))
    first = tokens(bare.partition(",")[0], analysis)
    forms = [tokens(title, analysis), tokens(bare, analysis), first if len(first) > 1 else []]
    return [" ".join(form) for form in forms if _singles_out(form, bare, analysis)]


def _singles_out(form: list[str], title: str, analysis: Analysis) -> bool:
    words = [token for token in form if token not in "()"]
    if len(words) != 1:
        return bool(words)
    word = words[0]
    if len(word) < 2 or word[0].islower() or word.isdigit():
        return False
    return not (analysis.is_stop_word(word) or analysis.is_stop_word(title))  # with its accents


def title_alone(title: str, analysis: Analysis = ENGLISH) -> list[str]:
    """Return the only name that a hyperlink uses, the whole title; [] for a title without a word.

    >>> title_alone("1984"), title_alone("Chatterbox (1936 film)"), title_alone("?!")
    (['1984'], ['Chatterbox ( 1936 film )'], [])
    """
    name = " ".join(tokens(title, analysis))
    return [name] if name else []


class Names:
    """The names of a corpus, numbered in the order of their first occurrence, and the passages that have each.

    The number of a name that no passage has any more is not used again.
    """

    def __init__(self, analysis: Analysis, *, own: bool) -> None:
        self.number: dict[str, int] = {}
        self.known = 0
        self.count = 0
        self._analysis, self._own, self._names_of = analysis, own, title_alone if own else names_of
        self._lengths: dict[str, tuple[int, ...]] = {}
        self._bearers, self._keys = (
            array("I"),
            array("I"),
        )  # a key: twice the number, plus 1 if the name is no whole title

    def load(self, folder: Path) -> None:
        """Read the names of an index folder."""
        self._bearers.frombytes(map_bytes(folder / BEARERS))
        self._keys.frombytes(map_bytes(folder / BEARER_KEYS))
        names = bytes(map_bytes(folder / NAMES)).decode().split("\n")[:-1]
        self.count = self.known = len(names)
        self.number = dict(zip(names, range(len(names)), strict=True))  # the last number of a name is in use
        for name in self.number:
            self._note_length(name)

    def add(self, ordinal: int, passage: Passage) -> None:
        """Add the names and the addresses of the passage at ``ordinal``."""
        names = self._names_of(passage.title, self._analysis)
        for form, name in enumerate((*names, *addresses(passage, hyperlinks_only=self._own))):
            number = self.number.get(name)
            if number is None:
                number = self.number[name] = self.count
                self.count += 1
                self._note_length(name)
            self._bearers.append(ordinal)
            self._keys.append(number << 1 | (form > 0))

    def drop_unborne(self, removed: NDArray[np.bool_] | None) -> set[int]:
        """Drop the names that only ``removed`` passages have; return their numbers."""
        import numpy as np

        if removed is None:
            return set()
        borne = np.zeros(self.count, dtype=np.bool_)
        bearers, keys = np.frombuffer(self._bearers, dtype=np.uint32), np.frombuffer(self._keys, dtype=np.uint32)
        borne[keys[~removed[bearers]] >> 1] = True
        unborne = {name: number for name, number in self.number.items() if not borne[number]}
        for name in unborne:
            del self.number[name]
        return set(unborne.values())

    def _note_length(self, name: str) -> None:
        first, words = name.partition(" ")[0], name.count(" ") + 1
        known = self._lengths.get(first, ())
        if words not in known:
            self._lengths[first] = tuple(sorted((*known, words), reverse=True))

    def mentioned(self, text: str) -> Iterator[int]:
        """Yield the numbers of ``matches``."""
        return (self.number[name] for name in self.matches(text))

    def matches(self, text: str) -> Iterator[str]:
        """Yield the names that a text mentions, in its order, the longest one at each position."""
        words = tokens(text, self._analysis)
        lengths, number = self._lengths, self.number
        i = 0
        while i < len(words):
            for length in lengths.get(words[i], ()):
                name = " ".join(words[i : i + length])
                if name in number:
                    yield name
                    i += length - 1
                    break
            i += 1

    def linked(self, links: Iterable[str]) -> Iterator[int]:
        """Yield the names of a passage's own links, if the corpus has them."""
        names = (name for title in links for name in title_alone(title, self._analysis))
        return (self.number[name] for name in names if name in self.number)

    def referred(self, passage: Passage) -> Iterator[int]:
        """Yield the addresses to which a passage refers: the first existing one of each reference, a few at most."""
        found = (
            next((self.number[address] for address in alternatives if address in self.number), None)
            for alternatives in references(passage, hyperlinks_only=self._own)
        )
        return islice(dict.fromkeys(number for number in found if number is not None), MAX_REFERENCES)

    def write(self, folder: Path, left_out: NDArray[np.bool_], removed: NDArray[np.bool_] | None) -> None:
        """Write the passages of each name: all of them, for later updates, and those to link to; none of these for the
        names ``left_out``."""
        import numpy as np

        bearers, keys = np.frombuffer(self._bearers, dtype=np.uint32), np.frombuffer(self._keys, dtype=np.uint32)
        if removed is not None:
            stand = ~removed[bearers]
            bearers, keys = bearers[stand], keys[stand]
        bearers.tofile(folder / BEARERS)
        keys.tofile(folder / BEARER_KEYS)
        with (folder / NAMES).open("ab") as stream:
            added = (name for name, number in self.number.items() if number >= self.known)
            stream.writelines(f"{name}\n".encode() for name in added)
        order = np.argsort(keys, kind="stable")
        numbers = keys[order] >> 1
        starts = np.searchsorted(numbers, np.arange(self.count + 1, dtype=np.uint32))
        rank = np.arange(len(numbers)) - starts[numbers]
        crowded = np.bincount(numbers, minlength=self.count) > MAX_ADDRESSED
        rare = np.fromiter((n for name, n in self.number.items() if is_rare(name)), dtype=np.int64)
        left_out[rare] |= crowded[rare]
        kept = (rank < MAX_NAMESAKES) & ~left_out[numbers]
        starts = np.searchsorted(numbers[kept], np.arange(self.count + 1, dtype=np.uint32))
        starts.astype(np.uint64).tofile(folder / NAME_STARTS)
        bearers[order][kept].tofile(folder / NAME_PASSAGES)


def may_mention(names: Set[str], analysis: Analysis, *, own: bool) -> Callable[[bytes], bool]:
    """Return a quick test for passages, as lines of the store: each passage that mentions one of the names passes.

    It looks for the capitalised words of a name, which are found quickly (no escape in JSON ends in a capital letter),
    or for all its words if none is capitalised.
    """
    if any(map(is_address, names)):
        of_title = may_mention({name for name in names if not is_address(name)}, analysis, own=own)
        return lambda line: (
            of_title(line) or not names.isdisjoint(chain(*references(_parsed(line), hyperlinks_only=own)))
        )
    if own:
        return lambda line: any(
            name in names for title in orjson.loads(line).get("links", ()) for name in title_alone(title, analysis)
        )
    wanted: dict[str, list[frozenset[str]]] = {}  # the words of a name, by its longest word
    small: set[str] = set()  # the longest word of each name without a capitalised one
    for name in names:
        words = name.split(" ")
        capitalised = [word for word in words if _CAPITALISED.fullmatch(word)]
        longest = max(capitalised or words, key=len)
        wanted.setdefault(longest, []).append(frozenset(capitalised or words))
        if not capitalised and name.isascii():
            small.add(longest)

    longest_words = frozenset(wanted)

    def may(line: bytes) -> bool:
        text = line.decode()
        plain = text.isascii()
        words = _CAPITALISED.findall(text) if plain else tokens(orjson.loads(line)["text"], analysis)
        if not longest_words.isdisjoint(words):  # most passages fail here
            held = frozenset(words)
            if any(all_words <= held for word in longest_words & held for all_words in wanted[word]):
                return True
        return plain and bool(small) and any(word in text for word in small)

    return may


def _parsed(line: bytes) -> Passage:
    row = orjson.loads(line)
    return Passage(row["id"], row["title"], row["text"], metadata=row.get("metadata", {}))


def is_one_word(name: str) -> bool:
    """Return True if a name is a single word, or an unbroken run of characters."""
    return " " not in name or _CHARACTER_NAME.fullmatch(name) is not None
