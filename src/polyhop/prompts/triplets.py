"""Triplets ``(head; relation; tail)`` in text: found in a reply, and written so that they are found again.

Every function is linear in the length of the text.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from polyhop.common.text import words
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.show import one_line

MAX_TRIPLETS = 100
"""Triplets of one reply that are read."""

TRIPLET = re.compile(r"\([^()\n;]{1,200};[^()\n;]{1,200};[^()\n;]{1,200}\)")
"""A triplet in a text, without parentheses in its parts."""
_PLACEHOLDER = ("head", "relation", "tail")
_ITEM = re.compile(r"^[\s*•>–-]*(?:\d{1,3}[.)]\s+)?")


def find_triplets(text: str) -> list[dict[str, str]]:
    """Find the triplets of a text, in order; parentheses without three parts are skipped.

    >>> find_triplets("1. (Alien (film); director; name: #1), (name: #1; born)")
    [{'head': 'Alien (film)', 'relation': 'director', 'tail': 'name: #1'}]
    """
    found = list(_first(_wrapped(text)))
    return found or list(_first(_bare(line) for line in _lines(text) if line.count(";") == 2 and line[0] != "("))


def own_lines(text: str) -> str:
    """Return the last run of lines that are triplets, or that of a line "none" after it; the whole text without any.

    >>> own_lines('It says "(a; b; c)".\\n(d; e; f)\\n(g; h; i)\\nThat is all.')
    '(d; e; f)\\n(g; h; i)'
    """
    run: list[str] = []
    ended = False
    for line in text.splitlines():
        bare = next(_lines(line), "")
        own = bare.startswith("(") and bare.endswith(")")
        if own or (bare and is_non_answer(bare)):
            run = [*([] if ended or not own else run), line]
            ended = not own
        elif bare:
            ended = True
    return "\n".join(run) or text


_OTHER_BRACKETS = re.compile(r"[<\[{]([^<>\[\]{}]*)[>\]}]")
_VARIABLE = re.compile(r"(?:[^#]{0,60}:)?\s*#[0-9]{1,4}")
_NUMBER = re.compile(r"#[0-9]")
_BRACKETED = re.compile(r"[\[<{(?]([^\[\]<>{}()]*)[\]>})]?")
_NUMBER_FIRST = re.compile(r"(#[0-9]{1,4})\s*[:=(]\s*([^\W\d_][\w ]{0,40}?)\s*\)?")
_NO_COLON = re.compile(r"([a-z]{1,40})\s+(#[0-9]{1,4})")


def with_plain_variables(triplets: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Write the variables of a question's graph as ``type: #n``, also those in brackets or with the number first.

    ``name #1`` may be a name, such as "opus #9": it is a variable only if the graph has no other.

    >>> [row["tail"] for row in with_plain_variables([{"head": "Alien", "relation": "director", "tail": "[#1: name]"}])]
    ['name: #1']
    """
    rows = [{name: _plain(part) if name != "relation" else part for name, part in row.items()} for row in triplets]
    if not any(_VARIABLE.fullmatch(row[end]) for row in rows for end in ("head", "tail")):
        for row in rows:
            row |= {
                end: ": ".join(found.groups()) for end in ("head", "tail") if (found := _NO_COLON.fullmatch(row[end]))
            }
    return rows


def _plain(end: str) -> str:
    found = _BRACKETED.fullmatch(end)
    bare = found[1].strip() if found and _NUMBER.search(found[1]) else end
    return f"{found[2]}: {found[1]}" if (found := _NUMBER_FIRST.fullmatch(bare)) else bare


def write_triplet(triplet: Mapping[str, str]) -> str:
    """Write a triplet on one line, as ``find_triplets`` reads it.

    >>> write_triplet({"head": "Alien", "relation": "director", "tail": "name: #1"})
    '(Alien; director; name: #1)'
    """
    return one_line(f"({'; '.join(triplet[name].replace(';', ',') for name in _PLACEHOLDER)})")


def key(triplet: Mapping[str, str]) -> tuple[str, ...]:
    """Return the key by which triplets are compared: their three parts, without case and spacing.

    >>> key({"head": "Alien", "relation": "director", "tail": "Ridley  Scott"})
    ('alien', 'director', 'ridley scott')
    """
    return tuple(" ".join(triplet[name].lower().split()) for name in _PLACEHOLDER)


ALIKE = 0.8
"""The minimum share of common words at which a triplet of a reply counts as a given one in a slightly different
wording."""


def named_triplets(named: Iterable[Mapping[str, str]], given: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return those of the ``given`` triplets that a reply names, exactly or nearly, in order.

    >>> rows = [{"head": "Alien", "relation": "director", "tail": name} for name in ("Ridley Scott", "Ann Lee")]
    >>> [row["tail"] for row in named_triplets([{**rows[0], "tail": "Ridley Scott."}], rows)]
    ['Ridley Scott']
    """
    exact = {key(triplet): i for i, triplet in reversed(list(enumerate(given)))}
    found = {key(triplet): triplet for triplet in named}
    kept = {exact[each] for each in found.keys() & exact.keys()}
    if others := [triplet for each, triplet in found.items() if each not in exact]:
        bags = [_words(triplet) for triplet in given]
        for bag in map(_words, others):
            shares = [2 * (bag & other).total() / max(1, bag.total() + other.total()) for other in bags]
            if max(shares, default=0.0) >= ALIKE:
                kept.add(shares.index(max(shares)))
    return [given[i] for i in sorted(kept)]


def _words(triplet: Mapping[str, str]) -> Counter[str]:
    return Counter(words(" ".join(triplet[name] for name in _PLACEHOLDER)))


def to_triplet(parts: Iterable[Any]) -> dict[str, str] | None:
    """Make a triplet of three parts; None if one is missing, no text or a non-answer, or all are the placeholders."""
    texts = [" ".join(part.split()).replace(";", ",") for part in parts if isinstance(part, str)]
    if len(texts) != 3 or any(map(is_non_answer, texts)) or tuple(map(str.lower, texts)) == _PLACEHOLDER:
        return None
    return dict(zip(_PLACEHOLDER, texts, strict=True))


def as_triplets(value: Any) -> Any:
    """Read a list of triplets as models write it in JSON: objects, lists of three, or texts; drop malformed ones."""
    if isinstance(value, str):
        return find_triplets(value)
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, (list, tuple)):
        return value
    return [triplet for item in value[:MAX_TRIPLETS] for triplet in _meant(item)]


def _meant(item: Any) -> list[dict[str, str]]:
    if isinstance(item, str):
        return find_triplets(item)
    if isinstance(item, Mapping):
        named = {str(name).strip().lower(): part for name, part in item.items()}
        item = [named.get(name) for name in _PLACEHOLDER]
    found = to_triplet(item) if isinstance(item, (list, tuple)) and len(item) == 3 else None
    return [found] if found else []


def _first(bodies: Iterable[str]) -> Iterator[dict[str, str]]:
    triplets = (to_triplet(body.split(";")) for body in bodies)
    return itertools.islice(filter(None, triplets), MAX_TRIPLETS)


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield _ITEM.sub("", line.replace("**", "").replace("`", "")).strip().rstrip(".,")


def _bare(line: str) -> str:
    """Return a line without other brackets around it: "<Alien; director; name: #1>"."""
    return found[1] if (found := _OTHER_BRACKETS.fullmatch(line)) else line


def _wrapped(text: str) -> Iterator[str]:
    """Yield the content of outermost parentheses, line by line; a line that is one pair of them is taken whole."""
    for line in _lines(text):
        if line.startswith("(") and line.endswith(")") and line.count(";") == 2:
            yield line[1:-1]
            continue
        depth = start = 0
        for i, mark in enumerate(line):
            if mark == "(":
                depth += 1
                start = i + 1 if depth == 1 else start
            elif mark == ")" and depth:
                depth -= 1
                if not depth:
                    yield line[start:i]
        if depth:  # a closing parenthesis was forgotten
            yield line[start:]
