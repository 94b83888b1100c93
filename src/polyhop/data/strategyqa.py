"""StrategyQA's official files (Geva et al., 2021): yes/no questions whose steps are implicit.

    {"qid": "…", "term": "Mount Fuji", "question": "…?", "answer": true, "facts": ["…"],
     "decomposition": ["How tall is Mount Fuji?", "Is #1 greater than …?"],
     "evidence": [[[["Mount Fuji-18"]], ["operation"]]]}

Three annotators each gave evidence, as paragraphs ``Title-number`` per step. The gold titles are those of the first who
gave any; ``metadata["evidence_sets"]`` holds all of them. Steps have no answers of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from polyhop.data.formats import Format, known, question_id, question_text
from polyhop.data.lines import array_of, boolean_of, json_type, strings_of
from polyhop.data.sources import Source
from polyhop.types import Question

_NO_PARAGRAPH = frozenset({"operation", "no_evidence"})


def read_strategyqa(row: Mapping[str, Any], number: int) -> Question:
    """Read one record."""
    answer = boolean_of(row, "answer")
    evidence = array_of(row, "evidence", "an array, one entry per annotator")
    sets = [titles for titles in map(_titles, evidence) if titles]
    facts = row.get("facts")
    return Question(
        id=question_id(row, number),
        text=question_text(row, "question"),
        answers=() if answer is None else ("yes" if answer else "no",),
        kind="boolean",
        gold_titles=tuple(sets[0]) if sets else (),
        steps=tuple({"question": step} for step in strings_of(row, "decomposition")),
        metadata=known(
            term=row.get("term"),
            facts=[facts] if isinstance(facts, str) else list(strings_of(row, "facts")) or None,
            evidence_sets=sets or None,
        ),
    )


def _titles(evidence: Any) -> list[str]:
    """Return the titles of the paragraphs that one annotator named, each once.

    >>> _titles([[["Yeah! (Usher song)-1", "Lil Jon-2"]], ["operation"], [["Lil Jon-7"]]])
    ['Yeah! (Usher song)', 'Lil Jon']
    """
    return list(dict.fromkeys(title for name in _leaves(evidence) if (title := name.rpartition("-")[0])))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str) and value not in _NO_PARAGRAPH:
        yield value
    elif not isinstance(value, str):
        raise ValueError(f"'evidence' holds {json_type(value)}, expected names of paragraphs")


def _recognise(row: Mapping[str, Any], _: Source) -> str | None:
    if "qid" in row and "question" in row and row.keys() & {"facts", "decomposition", "term"}:
        return "its records have 'qid', 'question' and 'facts', 'decomposition' or 'term'"
    return None


STRATEGYQA = Format("strategyqa", "StrategyQA's JSON", _recognise, lambda _: read_strategyqa)
