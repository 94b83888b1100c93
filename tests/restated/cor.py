"""Chain of Reviews a second time: written from the paper (§4.4, Table 13) before its method was looked at."""

from __future__ import annotations

from polyhop.types import Passage
from tests.restated.tor import ObservedRun, Recorder, World, distinct, read_evidence, whole_response


def chain_of_reviews(
    question: str, world: World, *, k: int = 5, max_searches: int = 3, context_tokens: int = 4096, rank_limit: int = 15
) -> ObservedRun:
    """One path: every review sees all that was found so far."""
    recorder = Recorder(world)
    found: list[Passage] = []
    analysis: str | None = None
    accepted = False
    query = question
    while len(recorder.observed.searches) < max_searches and not accepted:
        found = distinct([*found, *recorder.search(query, k)])
        review = recorder.ask("cor.review", question=question, passages=found, thoughts=True)
        if review is None:
            review = {"relevant": False, "supported": False}
        accepted = bool(found) and review["supported"]
        analysis = review.get("answer") if accepted else None
        query = review.get("query") or question
    observed = recorder.observed
    if found:
        _, observed.text = read_evidence(question, [(tuple(found), analysis)], recorder, "evidence", context_tokens)
    else:
        _, observed.text = whole_response(recorder.ask("answer.cot", question=question))
    observed.supported = accepted and observed.text != ""
    observed.passages = [passage.id for passage in found[:rank_limit]]
    observed.evidence = [([passage.id for passage in found], analysis)] if accepted else []
    observed.statistics = {"rounds": len(observed.searches)}
    return observed
