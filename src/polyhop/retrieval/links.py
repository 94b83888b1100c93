"""Which passages a passage links to: its corpus' hyperlinks or, where there are none, the titles its text mentions.

A title is mentioned where its words stand in the text, case kept and accents dropped; the longest title wins. It is
looked for as it is, without a parenthesis at its end ("Chatterbox (1936 film)" as "Chatterbox"), and up to its first
comma where that leaves two words or more ("Oakdale Park, New York"). A one-word title counts unless it is a stop word,
a number, in lower case, or mentioned by more than 3 % of the passages ("United"): such a word names no page. A
hyperlink leads to the passages of exactly its title.

Stored as two tables of rows, memory-mapped: passage -> names it mentions, name -> passages that bear it.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from polyhop.retrieval.store import PassageStore, map_numbers
from polyhop.text import STOP_WORDS, bare_title
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LinkMode: TypeAlias = Literal["titles", "own", False]
"""Where links come from: ``titles``, the corpus' own or, where it has none, mentions; ``own`` alone; or nowhere."""

PASSAGE_STARTS, PASSAGE_NAMES = "links.starts", "links.names"
NAME_STARTS, NAME_PASSAGES = "names.starts", "names.passages"

MOST_NAMESAKES = 10
"""A mention links to at most so many passages of that name: those of exactly that title, then in the corpus' order."""

_COMMON_SHARE, _COMMON_FLOOR = 0.03, 50
_TOKEN = re.compile(r"\w+|[()]")  # a parenthesis counts, so that "2001 (film)" is not found in "the 2001 film"


def tokens(text: str) -> list[str]:
    """A text's words and parentheses, accents dropped.

    >>> tokens("Émile Chautard's (silent) film")
    ['Emile', 'Chautard', 's', '(', 'silent', ')', 'film']
    """
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return _TOKEN.findall(text)


def names_of(title: str) -> list[str]:
    """What a page of this title may be called in a text, the title itself first; [] where nothing would single it out.

    >>> names_of("Chatterbox (1936 film)")
    ['Chatterbox ( 1936 film )', 'Chatterbox']
    >>> names_of("Matilda of Brabant, Countess of Holland")
    ['Matilda of Brabant Countess of Holland', 'Matilda of Brabant']
    >>> names_of("1984"), names_of("It"), names_of("of")
    ([], [], [])
    """
    bare = bare_title(title)
    first = tokens(bare.partition(",")[0])
    forms = [tokens(title), tokens(bare), first if len(first) > 1 else []]
    return list(dict.fromkeys(" ".join(form) for form in forms if _singles_out(form)))


def _singles_out(form: list[str]) -> bool:
    words = [token for token in form if token not in "()"]
    if len(words) != 1:
        return bool(words)
    word = words[0]
    return len(word) > 1 and not word[0].islower() and not word.isdigit() and word.lower() not in STOP_WORDS


def title_alone(title: str) -> list[str]:
    """The one name a hyperlink uses, whatever the title; [] for one without a word.

    >>> title_alone("1984"), title_alone("Chatterbox (1936 film)"), title_alone("?!")
    (['1984'], ['Chatterbox ( 1936 film )'], [])
    """
    name = " ".join(tokens(title))
    return [name] if name else []


class _Names:
    """Every name in the corpus, numbered in order of appearance, and the passages that bear it."""

    def __init__(self, passages: Iterable[Passage], names_of: Callable[[str], list[str]]) -> None:
        self.number: dict[str, int] = {}
        self._lengths: dict[str, tuple[int, ...]] = {}
        self._bearers, self._bearer_keys = array("I"), array("Q")
        for ordinal, passage in enumerate(passages):
            for form, name in enumerate(names_of(passage.title)):
                number = self.number.setdefault(name, len(self.number))
                if number == len(self.number) - 1:
                    self._note_length(name)
                self._bearers.append(ordinal)
                self._bearer_keys.append(number << 1 | (form > 0))

    def _note_length(self, name: str) -> None:
        words = name.split(" ")
        known = self._lengths.get(words[0], ())
        if len(words) not in known:
            self._lengths[words[0]] = tuple(sorted((*known, len(words)), reverse=True))

    def mentioned(self, text: str) -> Iterator[int]:
        """The names a text mentions, in its order, the longest at each place."""
        words = tokens(text)
        lengths, number = self._lengths, self.number
        place = 0
        while place < len(words):
            for length in lengths.get(words[place], ()):
                found = number.get(" ".join(words[place : place + length]))
                if found is not None:
                    yield found
                    place += length - 1
                    break
            place += 1

    def linked(self, links: Iterable[str]) -> Iterator[int]:
        """The names a passage's own links bear, those the corpus has."""
        names = (name for title in links for name in title_alone(title))
        return (self.number[name] for name in names if name in self.number)

    def rows(self, left_out: NDArray[np.bool_]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Name -> the passages that bear it, as starts and targets; none for the names left out."""
        import numpy as np

        keys = np.frombuffer(self._bearer_keys, dtype=np.uint64)
        order = np.argsort(keys, kind="stable")
        numbers = keys[order] >> np.uint64(1)
        starts = np.searchsorted(numbers, np.arange(len(self.number) + 1, dtype=np.uint64))
        rank = np.arange(len(numbers)) - starts[numbers]
        kept = (rank < MOST_NAMESAKES) & ~left_out[numbers]
        starts = np.searchsorted(numbers[kept], np.arange(len(self.number) + 1, dtype=np.uint64))
        return starts.astype(np.uint64), np.frombuffer(self._bearers, dtype=np.uint32)[order][kept]


def build_links(passages: PassageStore, folder: Path, *, own: bool) -> int:
    """Write the links of all passages into ``folder``, from their own ``links`` or from the titles their texts mention.

    Two passes over the passages; what is held grows with the number of titles, not with the text. Returns the number
    of mentions, a name counted once a passage.
    """
    import numpy as np

    names = _Names(passages, title_alone if own else names_of)
    starts, mentions = array("Q", [0]), array("I", bytes(4 * len(names.number)))
    with (folder / PASSAGE_NAMES).open("wb", buffering=1 << 20) as rows:
        for passage in passages:
            found = dict.fromkeys(names.linked(passage.links) if own else names.mentioned(passage.text))
            for number in found:
                mentions[number] += 1
            rows.write(array("I", found).tobytes())
            starts.append(starts[-1] + len(found))
    common = np.zeros(len(names.number), dtype=np.bool_)
    if not own:
        one_word = np.fromiter((" " not in name for name in names.number), dtype=np.bool_, count=len(names.number))
        most = max(_COMMON_FLOOR, _COMMON_SHARE * len(passages))
        common = one_word & (np.frombuffer(mentions, dtype=np.uint32) > most)
    name_starts, bearers = names.rows(common)
    np.frombuffer(starts, dtype=np.uint64).tofile(folder / PASSAGE_STARTS)
    name_starts.tofile(folder / NAME_STARTS)
    bearers.tofile(folder / NAME_PASSAGES)
    return starts[-1]


class Links:
    """The links of an index folder, memory-mapped. Safe across threads."""

    def __init__(self, folder: Path) -> None:
        self._starts = map_numbers(folder / PASSAGE_STARTS, "Q")
        self._names = map_numbers(folder / PASSAGE_NAMES, "I")
        self._name_starts = map_numbers(folder / NAME_STARTS, "Q")
        self._bearers = map_numbers(folder / NAME_PASSAGES, "I")

    def of(self, ordinal: int) -> list[int]:
        """The ordinals of the passages linked from ``ordinal``: distinct, in the order of mention, never itself."""
        found: dict[int, None] = {}
        for name in self._names[self._starts[ordinal] : self._starts[ordinal + 1]]:
            found.update(dict.fromkeys(self._bearers[self._name_starts[name] : self._name_starts[name + 1]]))
        found.pop(ordinal, None)
        return list(found)
