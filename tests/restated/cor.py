"""Chain of Reviews a second time: written from the paper (§4.4, Table 13) before its method was looked at."""

from __future__ import annotations

from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.restated.tor import ObservedRun, Recorder, World, distinct, read_evidence, whole_response


def chain_of_reviews(
    question: str,
    world: World,
    *,
    k: int = 5,
    max_turns: int = 3,
    fusion: str = "evidence",
    thoughts: bool = True,
    context_tokens: int = 4096,
    rank_limit: int = 15,
) -> ObservedRun:
    """One path: every review sees all that was found so far."""
    recorder = Recorder(world)
    found: list[Passage] = []
    accepted: tuple[str | None, str | None] | None = None
    queries = [question]
    while accepted is None and len(queries) <= max_turns:
        more = distinct([*found, *recorder.search(queries[-1], k)])
        if len(more) == len(found):  # nothing new: the same review again
            break
        found = more
        review = recorder.ask_of_path("cor.review", found, context_tokens, question=question, thoughts=thoughts)
        review = review or {"relevant": False, "supported": False}
        if review["relevant"] and review["supported"]:
            accepted = review.get("answer"), review.get("analysis")
        query = review.get("query") or question
        if normalise(query) in [normalise(text) for text in queries]:
            break
        queries.append(query)
    observed = recorder.observed
    if found:
        piece = (tuple(found), *(accepted or (None, None)))
        _, observed.text, read = read_evidence(question, [piece], recorder, fusion, context_tokens)
        observed.evidence = [([p.id for p in passages], said) for passages, said, _ in read if accepted and passages]
        observed.analyses = [why for passages, _, why in read if accepted and passages and why]
    else:
        _, observed.text = whole_response(recorder.ask("answer.cot", question=question))
    observed.passages = [passage.id for passage in found[:rank_limit]]
    observed.statistics = {"rounds": len(observed.searches)}
    return observed
