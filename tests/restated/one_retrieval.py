"""SuRe, Verify-and-Edit and ERA-CoT a second time, plainly: each as its paper's steps, one call after another."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from polyhop.common.sentences import sentences
from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.restated.tor import ObservedRun, Recorder, World, distinct


def _answered(recorder: Recorder, answer: str, hits: list[Passage], read: list[Passage]) -> ObservedRun:
    observed = recorder.observed
    observed.text = answer
    observed.passages = [passage.id for passage in hits]
    observed.evidence = [([passage.id for passage in read], answer)] if read else []
    return observed


def _closed_book(recorder: Recorder, question: str) -> ObservedRun:
    reply = recorder.ask("answer.cot", question=question)
    observed = _answered(recorder, _said(reply, "answer", ""), [], [])
    observed.statistics = {"sentences": len(sentences((reply or {}).get("rationale") or ""))}
    return observed


def _said(reply: Any, name: str, default: Any) -> Any:
    return reply[name] if reply else default


def sure(
    question: str, world: World, *, k: int, candidates: int, validity: bool, ranking: bool, rank_limit: int = 15
) -> ObservedRun:
    """The candidate with the most points: one for a valid summary, a half for each comparison won, a quarter for each
    that nobody wins."""
    recorder = Recorder(world)
    hits = distinct(recorder.search(question, max(k, rank_limit)))[: max(k, rank_limit)]
    if not hits:
        return _closed_book(recorder, question)
    read = hits[:k]
    reply = recorder.ask("sure.candidates", question=question, passages=read, count=candidates)
    names: dict[str, str] = {}
    for candidate in _said(reply, "candidates", []):
        names.setdefault(normalise(candidate), candidate)
    found = list(names.values())[:candidates]
    if not found:
        answer = _said(recorder.ask("answer.read", question=question, passages=read), "answer", "")
        return _answered(recorder, answer, hits[:rank_limit], read)
    points = dict.fromkeys(range(len(found)), 0.0)
    if len(found) > 1:
        summaries = [
            _said(
                recorder.ask("sure.summarize", question=question, passages=read, candidates=found, candidate=each),
                "summary",
                "",
            )
            for each in found
        ]
        for i, summary in enumerate(summaries):
            if validity and summary:
                judged = recorder.ask("sure.validate", question=question, candidate=found[i], summary=summary)
                points[i] += _said(judged, "valid", False)
        for pair in combinations(range(len(found)), 2) if ranking else ():
            for shown in (pair, pair[::-1]):
                reply = recorder.ask_once("sure.rank", question=question, summaries=[summaries[i] for i in shown])
                better = _said(reply, "better", None)
                for i in shown:
                    won = 0.25 if better is None else 0.5 * (shown[better - 1] == i)
                    points[i] += won
    best = max(range(len(found)), key=lambda i: (points[i], -i))
    observed = _answered(recorder, found[best], hits[:rank_limit], read)
    observed.statistics = {"candidates": len(found)}
    return observed


def verify_and_edit(
    question: str, world: World, *, k: int, max_turns: int, samples: int, edit_below: float, rank_limit: int = 15
) -> ObservedRun:
    """In such a world all samples are alike: the chain is edited, or not."""
    recorder = Recorder(world)
    replies = [recorder.ask("answer.cot", question=question) for _ in range(samples)]
    answer, share = _said(replies[0], "answer", ""), 1.0 if replies[0] else 0.0
    observed = recorder.observed
    observed.statistics = {"samples": samples, "agreement": share, "edited": 0}
    if answer and share >= edit_below:
        observed.text = answer
        return observed
    chain = sentences((replies[0] or {}).get("rationale") or answer)
    retrieved: list[Passage] = []
    for i, sentence in list(enumerate(chain))[:max_turns]:
        reply = recorder.ask("verify_edit.question", question=question, sentence=sentence)
        query = _said(reply, "sub_question", None) or sentence
        hits = distinct(recorder.search(query, k))[:k]
        retrieved += hits
        if not hits:
            continue
        reply = recorder.ask("verify_edit.edit", sub_question=query, passages=hits)
        if edited := _said(reply, "sentence", ""):
            chain[i] = edited
            observed.evidence.append(([passage.id for passage in hits], edited))
    observed.text = _said(
        recorder.ask("verify_edit.answer", question=question, rationale=" ".join(chain)), "answer", ""
    )
    observed.passages = [passage.id for passage in distinct(retrieved)][:rank_limit]
    observed.statistics["edited"] = len(observed.evidence)
    return observed


def era_cot(
    question: str, world: World, *, k: int, implicit: bool, discriminate: bool, keep_from: float, rank_limit: int = 15
) -> ObservedRun:
    """Entities, stated relations, implied ones that are not stated, those of them that score enough, the answer."""
    recorder = Recorder(world)
    hits = distinct(recorder.search(question, max(k, rank_limit)))[: max(k, rank_limit)]
    if not hits:
        return _closed_book(recorder, question)
    given: dict[str, Any] = {"question": question, "passages": hits[:k]}
    entities = _said(recorder.ask("era_cot.entities", **given), "entities", [])
    stated = _once(_said(recorder.ask("era_cot.relations", **given, entities=entities), "triplets", []))
    inferred: list[Any] = []
    kept: list[Any] = []
    if stated and implicit:
        reply = recorder.ask("era_cot.infer", **given, entities=entities, triplets=stated, count=5)
        inferred = [each for each in _once(_said(reply, "triplets", [])) if each not in stated]
        kept = inferred
    if inferred and discriminate:
        scores = _said(recorder.ask("era_cot.score", **given, triplets=inferred), "scores", [])
        kept = [inferred[i] for i, score in enumerate(scores) if score >= keep_from]
    reply = recorder.ask("era_cot.answer", **given, entities=entities, triplets=[*stated, *kept])
    observed = _answered(recorder, _said(reply, "answer", ""), hits[:rank_limit], hits[:k])
    counted = {"entities": entities, "stated": stated, "inferred": inferred, "kept": kept}
    observed.statistics = {name: len(each) for name, each in counted.items()}
    return observed


def _once(triplets: list[Any]) -> list[Any]:
    return [each for i, each in enumerate(triplets) if each not in triplets[:i]]
