"""FEVER's own files (Thorne et al., 2018): claims to be judged. Its KILT form is read by ``kilt``.

    {"id": 54168, "label": "REFUTES", "claim": "…", "verifiable": "VERIFIABLE",
     "evidence": [[[70477, 81355, "Murda_Beatz", 0]]]}

Each entry of ``evidence`` is a sufficient set of sentences. The gold titles and supporting facts are those of the first
set; ``metadata["evidence_sets"]`` holds the titles of all. The answer is the label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from polyhop.common.text import normalise_unicode
from polyhop.data.formats import Format, known, question_id, question_text, titles_of
from polyhop.data.lines import array_of, json_type
from polyhop.data.plain import LABELS
from polyhop.data.sources import Source
from polyhop.types import Question

_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":"}
_ESCAPE = re.compile("|".join(_ESCAPES))


def read_fever(row: Mapping[str, Any], number: int) -> Question:
    """Read one claim."""
    sets = [facts for facts in map(_facts, array_of(row, "evidence", "an array of sets")) if facts]
    return Question(
        id=question_id(row, number),
        text=question_text(row, "claim", "question"),
        answers=_label(row.get("label")),
        kind="fact",
        gold_titles=titles_of(sets[0]) if sets else (),
        supporting=tuple(sets[0]) if sets else (),
        metadata=known(
            verifiable=row.get("verifiable"), evidence_sets=[list(titles_of(facts)) for facts in sets] or None
        ),
    )


def wikipedia_title(page: str) -> str:
    """Return a page's title as Wikipedia writes it.

    >>> wikipedia_title("Annie_-LRB-2014_film-RRB-")
    'Annie (2014 film)'
    """
    return normalise_unicode("NFC", _ESCAPE.sub(lambda found: _ESCAPES[found[0]], page).replace("_", " "))


def _label(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    label = str(value).upper().replace("_", " ")
    if label not in LABELS:
        raise ValueError(f"'label' is {value!r}, expected one of {', '.join(LABELS)}")
    return (label,)


def _facts(evidence: Any) -> list[tuple[str, int]]:
    """Return the (title, sentence) pairs of one set; none for a claim without evidence."""
    if not isinstance(evidence, list):
        raise ValueError(f"'evidence' holds {json_type(evidence)}, expected sets of sentences")
    facts = []
    for sentence in evidence:
        match sentence:
            case [_, _, None, _]:
                continue
            case [_, _, str() as page, int() as number]:
                facts.append((wikipedia_title(page), number))
            case _:
                raise ValueError(f"'evidence' holds {sentence!r}, expected [annotation, id, page, sentence]")
    return facts


def _recognise(row: Mapping[str, Any], _: Source) -> str | None:
    if "claim" in row:
        return "its rows have 'claim'"
    is_label = isinstance(row.get("label"), str) and row["label"].upper().replace("_", " ") in LABELS
    return "its rows have 'question' and a label such as SUPPORTS" if is_label and "question" in row else None


FEVER = Format("fever", "FEVER's own JSON lines", _recognise, lambda _: read_fever)
