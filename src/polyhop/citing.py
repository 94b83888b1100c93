"""What stands behind an answer: its citations, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop.lm.base import Completion
from polyhop.text import find_folded, normalise
from polyhop.types import Answer, Citation


def cite(answer: Answer) -> tuple[Citation, ...]:
    """Numbered citations: the passages of the evidence that came to this answer (of all evidence where none did)."""
    told = normalise(answer.text)
    agreeing = [piece for piece in answer.evidence if piece.answer and normalise(piece.answer) == told]
    passages = dict.fromkeys(p for piece in agreeing or answer.evidence for p in piece.passages)
    citations = []
    for marker, passage in enumerate(passages, 1):
        start, end = find_folded(answer.text, passage.text) or (None, None)
        citations.append(Citation(marker, passage.id, start, end))
    return tuple(citations)


def place_of(metadata: Mapping[str, Any]) -> str:
    """Where a passage of a document stands, for people; "" for a passage of another corpus.

    >>> place_of({"source": "report.pdf", "page": 3, "last_page": 4, "heading": "Findings"})
    'report.pdf, pp. 3–4, Findings'
    >>> place_of({"source": "notes.md", "heading": "May"}), place_of({"source": 7})
    ('notes.md, May', '')
    """
    source, page, last, heading = (metadata.get(name) for name in ("source", "page", "last_page", "heading"))
    if not isinstance(source, str):
        return ""
    pages = f"pp. {page}–{last}" if last else f"p. {page}" if page else ""
    return ", ".join(part for part in (source, pages, heading) if part)


def confidence(answer: Answer, final: Completion | None) -> float | None:
    """How sure the answer is, 0 to 1: the model's own probability of its words where it gives one, else the share of
    the evidence that came to the same answer, else None."""
    if not answer.text:
        return 0.0
    if final is not None and (sure := final.probability(answer.text)) is not None:
        return sure
    told = [piece.answer for piece in answer.evidence if piece.answer]
    return sum(normalise(each) == normalise(answer.text) for each in told) / len(told) if told else None
