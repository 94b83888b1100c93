"""References between parts of files: what a passage may be referred to by, and what it refers to.

A passage of a document has these addresses:

* its file, for hyperlinks and for the names of files in texts, and in it its heading, the anchor of hyperlinks;
* the number that its heading or one of its lines begins with ("7.2 The limit is …"), for "clause 7.2" in the same file,
  and for other files if it has a point;
* the identifiers ("INC-204") in its title, the name of its file, or the first words of one of its lines;
* the person or product that one of its lines is about: several capitalised words before another word ("Priya Raman
  lives …"), or the first cell of a row.

Only the first two kinds may have many passages: an identifier, a name or a number from another file that more than
``MAX_ADDRESSED`` passages have singles none of them out. Passages that are not parts of files have none of all this.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from polyhop.common.text import SECTION, STOP_WORDS
from polyhop.data.documents import target_of
from polyhop.types import Passage, are_of_documents

MAX_ADDRESSED = 3
"""Maximum number of passages with an identifier or a name, or in other files a number, to which it leads."""

MAX_REFERENCES = 10
"""Maximum number of addresses to which a passage links."""

_FILE, _NAMED, _NUMBER, _IDENTIFIER, _SUBJECT = "file:", "named:", "number:", "identifier:", "subject:"
_RARE = (_NUMBER, _IDENTIFIER, _SUBJECT)

_FIRST_WORDS = 4  # of a line, among which an identifier is what the line is about
_MAX_NAME_WORDS = 4
_PATH = re.compile(r"[\w./-]++")
_NUMBERED = re.compile(
    r"(?:\b(?:clause|section|article|paragraph|chapter|appendix|annex|schedule|step|version|release)s? |§ ?)"
    r"(\d++(?:\.\d++)*+)",
    re.IGNORECASE,
)
_HEADING_NUMBER = re.compile(r"(?:[^\W\d_]++ |§ ?)?(\d++(?:\.\d++)*+)(?![\w-])")
_LINE_NUMBER = re.compile(r"(\d++(?:\.\d++)*+)[.)]? +(?=[^\W\d_a-z])")
_CODE = re.compile(r"(?<![\w-])[A-Z]++(?:-[A-Z]++)*+-?\d[\dA-Z]*+(?:-[\dA-Z]++)*+(?!\w)")
_CODE_IN_TWO = re.compile(r"(?<![\w-])([A-Z]{2,6}) (\d{2,}+)(?![\w.,-])")
_ROW = re.compile(r"[^:;]{1,40}: ([^:;]{3,60});")
_WORD = re.compile(r"[\w'’-]++|[^\w\s]")
_POSSESSIVE = re.compile(r"['’]s?$")


def addresses(passage: Passage, *, hyperlinks_only: bool = False) -> list[str]:
    """Return the addresses of a passage; none if it is no part of a file."""
    if not are_of_documents([passage]):
        return []
    source = str(passage.metadata["source"])
    heading = str(passage.metadata.get("heading", ""))
    found = [_file(source), *([_file(f"{source}#{heading}")] if heading else [])]
    if not hyperlinks_only:
        lines = passage.text.split("\n")
        found += [_NAMED + _folded(posixpath.basename(source))]
        for number in _numbers(heading or passage.title, lines):
            found += [f"{_file(source)}§{number}", *([_NUMBER + number] if "." in number else [])]
        about = [*passage.title.split(SECTION), posixpath.basename(source)]
        about += [" ".join(line.split()[:_FIRST_WORDS]) for line in lines]
        found += [_IDENTIFIER + code for text in about for code in _codes(text)]
        found += [_SUBJECT + name for line in lines if (name := _subject(line))]
    return list(dict.fromkeys(found))


def references(passage: Passage, *, hyperlinks_only: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield what a passage refers to, each as addresses of which the first that exists is meant.

    >>> text = "See notes.md and clause 7.2 on INC-204."
    >>> for alternatives in references(Passage("1", "Limits", text, metadata={"source": "ada/limits.md"})):
    ...     print(alternatives)
    ('file:ada/notes.md', 'file:notes.md', 'named:notes.md')
    ('file:ada/limits.md§7.2', 'number:7.2')
    ('identifier:INC-204',)
    """
    if not are_of_documents([passage]):
        return
    source = str(passage.metadata["source"])
    targets = passage.metadata.get("targets")
    for target in map(str, targets if isinstance(targets, list) else ()):
        path = target.partition("#")[0]
        yield (_file(target), _file(path)) if path != source else (_file(target),)
    if hyperlinks_only:
        return
    for path in (found.rstrip("./-") for found in _PATH.findall(passage.text)):
        name = posixpath.basename(path)
        if name.rpartition(".")[2][:1].isalpha() and "." in name and name != posixpath.basename(source):
            yield _file(target_of(path, source)), _file(target_of(path, "")), _NAMED + _folded(name)
    for number in _NUMBERED.findall(passage.text):
        yield f"{_file(source)}§{number}", *([_NUMBER + number] if "." in number else [])
    for code in _codes(passage.text):
        yield (_IDENTIFIER + code,)
    for name in _names(passage.text):
        yield (_SUBJECT + name,)


def is_rare(address: str) -> bool:
    """Return True if an address leads nowhere once more than ``MAX_ADDRESSED`` passages have it."""
    return address.startswith(_RARE)


def is_address(name: str) -> bool:
    """Return True for an address; the names that texts use for a title have no colon."""
    return ":" in name


def _file(target: str) -> str:
    """Return the address of a file, or of a heading in it, of which only the letters and digits count."""
    path, _, anchor = target.partition("#")
    return f"{_FILE}{_folded(path)}" + (f"#{''.join(filter(str.isalnum, anchor.casefold()))}" if anchor else "")


def _folded(path: str) -> str:
    return " ".join(path.casefold().split())


def _numbers(heading: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the numbers that a heading and lines begin with."""
    first = heading.rpartition(SECTION)[2]
    found = [_HEADING_NUMBER.match(first), *(_LINE_NUMBER.match(line) for line in lines)]
    return (match[1] for match in found if match)


def _codes(text: str) -> Iterator[str]:
    """Yield the identifiers in a text: capitals, then at least two digits, maybe after a hyphen or a blank."""
    for match in _CODE.finditer(text):
        if sum(map(str.isdigit, match[0])) > 1:
            yield match[0]
    yield from (f"{match[1]}-{match[2]}" for match in _CODE_IN_TWO.finditer(text))


def _subject(line: str) -> str:
    """Return the name of several words that a line is about; "" if it does not begin with one.

    >>> _subject("Priya Raman's desk"), _subject("Owner: Priya Raman; Desk: 4"), _subject("On Monday she ran")
    ('Priya Raman', 'Priya Raman', '')
    """
    row = _ROW.match(line)
    words = row[1].split() if row else _WORD.findall(line[:100])
    run = _capitalised(words)
    is_whole = len(run) == len(words) if row else len(run) < len(words) and words[len(run)][0].isalpha()
    return " ".join(run) if is_whole and 1 < len(run) <= _MAX_NAME_WORDS else ""


def _names(text: str) -> Iterator[str]:
    """Yield all runs of two or more capitalised words in a text."""
    words = _WORD.findall(text)
    for start in range(len(words)):
        run = _capitalised(words[start : start + _MAX_NAME_WORDS])
        yield from (" ".join(run[:length]) for length in range(len(run), 1, -1))


def _capitalised(words: Sequence[str]) -> list[str]:
    """Return the capitalised words at the beginning of a list, without stop words; a possessive is the last one."""
    run: list[str] = []
    for word in words:
        bare = _POSSESSIVE.sub("", word)
        if not (bare[:1].isupper() and bare[-1:].isalpha()) or bare.lower() in STOP_WORDS:
            break
        run.append(bare)
        if bare != word:
            break
    return run
