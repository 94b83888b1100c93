"""The tasks of SuRe, RECOMP, Verify-and-Edit and ERA-CoT: candidates, summaries that speak for them, relations.

Summaries are ReSP's notes, ``[Title] sentences`` for every passage that helps, so that they can be opened as pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyhop.common.text import find_folded, fold, normalise
from polyhop.lm.pocket.reading.answer import NOTHING_KNOWN
from polyhop.lm.pocket.reading.judge import sufficient
from polyhop.lm.pocket.reading.narrowing import best_answer, shares
from polyhop.lm.pocket.reading.study import study
from polyhop.lm.pocket.tasks import resp as memory
from polyhop.lm.pocket.tasks.baselines import closed
from polyhop.lm.pocket.tasks.ge import STATES, triplets
from polyhop.types import Passage

Fields = Mapping[str, Any]
Value = dict[str, Any]

FOLLOWS = 8.0  # the score of a relation that two stated ones lead to
_MOST_READ = 10  # passages whose facts are listed
_MOST_INFERRED = 20


def candidates(fields: Fields) -> Value:
    """The answer, then the next likeliest of those that were weighed."""
    best, solution = best_answer(fields["question"], fields["passages"])
    weighed = shares(solution)
    ranked = [best or NOTHING_KNOWN, *sorted(weighed, key=lambda answer: -weighed[answer])]
    distinct = {normalise(answer): answer for answer in reversed(ranked)}
    return {"candidates": list(distinct.values())[::-1][: fields["count"]]}


def argued(fields: Fields) -> Value:
    """What speaks for a candidate: a note from the passages that name it, else from all."""
    candidate, passages = fields["candidate"], fields["passages"]
    naming = [p for p in passages if find_folded(candidate, f"{p.title}\n{p.text}")]
    return {"summary": memory.note(fields["question"], naming) or memory.note(fields["question"], passages)}


def compressed(fields: Fields) -> Value:
    """What the passages hold for the question."""
    return {"summary": memory.note(fields["question"], fields["passages"])}


def valid(fields: Fields) -> Value:
    """Whether a summary read again gives the candidate."""
    told = memory.answer(fields["question"], _remembered(fields["summary"]))
    return {"valid": normalise(told or "") == normalise(fields["candidate"])}


def preferred(fields: Fields) -> Value:
    """The summary that is more likely to be enough."""
    first, second = (
        sufficient(study(fields["question"], memory.opened(_remembered(summary))))
        for summary in fields["summaries"][:2]
    )
    return {"better": None if first == second else 1 if first > second else 2}


def from_summary(fields: Fields) -> Value:
    """The answer that a summary gives; without one, nothing is known."""
    told = memory.answer(fields["question"], _remembered(fields["summary"]))
    return {"rationale": None, "answer": told or closed(fields["question"])["answer"]}


def _remembered(summary: str) -> memory.Memory:
    return {"global_evidence": [summary], "local_pathway": []}


def verifying(fields: Fields) -> Value:
    """The question itself: a chain of this model's is a bare answer."""
    return {"sub_question": fields["question"]}


def edited(fields: Fields) -> Value:
    """The note that the passages give for what was asked."""
    return {"sentence": memory.note(fields["sub_question"], fields["passages"])}


def from_rationale(fields: Fields) -> Value:
    """The answer that a rationale gives."""
    return from_summary({"question": fields["question"], "summary": fields["rationale"] or ""})


def entities(fields: Fields) -> Value:
    """What the passages are about, and what the rules find said of it."""
    named = [part for triplet in _known(fields["passages"]) for part in (triplet["head"], triplet["tail"])]
    titles = [passage.title for passage in fields["passages"]]
    return {"entities": [entity for entity in dict.fromkeys([*titles, *named]) if entity.strip()]}


def stated(fields: Fields) -> Value:
    """The relations that the rules find in the passages."""
    return {"triplets": _known(fields["passages"])}


def _known(passages: Sequence[Passage]) -> list[dict[str, str]]:
    """The facts of passages that rules know, without the sentences as they stand."""
    found = (triplet for passage in passages[:_MOST_READ] for triplet in triplets(passage))
    return [triplet for triplet in found if triplet["relation"] != STATES]


def implied(fields: Fields) -> Value:
    """What two relations that meet in an entity come to together.

    >>> told = [{"head": "Mill", "relation": "director", "tail": "Ann Lee"}]
    >>> told += [{"head": "Ann Lee", "relation": "birth place", "tail": "Rome"}]
    >>> implied({"triplets": told})["triplets"]
    [{'head': 'Mill', 'relation': 'birth place of its director', 'tail': 'Rome'}]
    """
    by_head: dict[str, list[Mapping[str, str]]] = {}
    for triplet in fields["triplets"]:
        by_head.setdefault(fold(triplet["head"]), []).append(triplet)
    joined = [
        {"head": first["head"], "relation": f"{then['relation']} of its {first['relation']}", "tail": then["tail"]}
        for first in fields["triplets"]
        for then in by_head.get(fold(first["tail"]), ())[:_MOST_INFERRED]
        if then is not first
    ]
    return {"triplets": joined[:_MOST_INFERRED]}


def scored(fields: Fields) -> Value:
    """All that is inferred here follows."""
    return {"scores": [FOLLOWS] * len(fields["triplets"])}


SKILLS: dict[str, Callable[[Fields], Value]] = {
    "sure.candidates": candidates,
    "sure.summarize": argued,
    "sure.validate": valid,
    "sure.rank": preferred,
    "recomp.compress": compressed,
    "recomp.answer": from_summary,
    "verify_edit.question": verifying,
    "verify_edit.edit": edited,
    "verify_edit.answer": from_rationale,
    "era_cot.entities": entities,
    "era_cot.relations": stated,
    "era_cot.infer": implied,
    "era_cot.score": scored,
}
"""By prompt task. ``era_cot.answer`` reads the passages, as ``answer.read`` does."""
