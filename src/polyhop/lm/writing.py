"""Find where a reply commits itself to an answer: the first position that writes it, not a later copy."""

from __future__ import annotations

import re

from polyhop.common.text import find_folded, occurrences

_NUMBERING = re.compile(
    r"\[\d[\d,; ]{0,40}\]"
    r"|^[^\w\n]{0,6}(?:(?:step|query|answer|passage|question|thought|action)[ \t])?\d{1,3}(?:[):\]]|\.[ \t])",
    re.IGNORECASE | re.M,
)
"""Reference marks and the numbers of lines: no number in them is an answer."""
_GOES_ON_TO_ASK = re.compile(r"[^.!?。！？\n]{0,300}[?？]")
_DETERMINES = re.compile(r"[ \t]+\w")


def first_writing(answer: str, reply: str, question: str = "") -> tuple[int, int] | None:
    """Find where ``reply`` first writes ``answer`` of its own accord; None if it never does.

    What the model was given does not count: the question said again, the number of a line, a reference mark. An answer
    that stands in ``question`` itself, such as one of two names compared, is chosen only where the reply concludes:
    its last writing counts. Neither counts a "no" that determines a noun ("no film").

    >>> first_writing("Rome", "(2) Was it Rome? It was Rome.\\nAnswer: Rome")
    (24, 28)
    >>> first_writing("Jaws", "Jaws is of 1975, Alien of 1979. So it is Jaws.", "Which is older, Alien or Jaws?")
    (41, 45)
    """
    written = list(occurrences(answer, reply))
    if not written:
        start = reply.find(answer) if answer else -1
        return (start, start + len(answer)) if start >= 0 else None
    if find_folded(answer, question):
        return written[-1]
    numbering = [found.span() for found in _NUMBERING.finditer(reply)] if answer.strip().isdigit() else []
    determiner = answer.strip().lower() == "no"
    for start, end in written:
        in_number = any(first <= start and end <= last for first, last in numbering)
        if not (in_number or _GOES_ON_TO_ASK.match(reply, end) or (determiner and _DETERMINES.match(reply, end))):
            return start, end
    return written[-1]
