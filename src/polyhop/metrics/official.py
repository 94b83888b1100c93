"""The benchmarks' own scripts that score more than an answer: HotpotQA, 2WikiMultiHopQA, MuSiQue.

Gold facts, triples and answerability are the question's ``supporting`` and, of its ``metadata``, ``evidences`` (with
``entity_aliases``) and ``answerable``; a question of MuSiQue's full set and its unanswerable twin share
``metadata["pair"]``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from polyhop.metrics.answers import answerable, best_overlap, exact_match, squad_f1
from polyhop.metrics.facts import Parts, Triple, fact_scores, joint, set_scores, triple_scores
from polyhop.metrics.predictions import Prediction
from polyhop.types import Question

Scores = dict[str, float]

GROUPED = ("group_answer_sufficiency_f1", "group_support_sufficiency_f1")


def hotpot(predictions: Sequence[Prediction]) -> list[Scores]:
    """Answer, supporting facts, and both jointly; facts where any prediction of the run tells them, and then a
    prediction without has an empty set of them, as in the script."""
    told = any(each.facts is not None for each in predictions)
    return [_hotpot(each, facts=told) for each in predictions]


def _hotpot(each: Prediction, *, facts: bool) -> Scores:
    if not each.is_scored:
        return {}
    answer = _answer(each)
    scores = answer.named()
    if facts and each.question.supporting:
        support = fact_scores(each.facts or (), each.question.supporting)
        scores |= support.named("sp_") | joint(answer, support).named("joint_")
    return scores


def two_wiki(predictions: Sequence[Prediction]) -> list[Scores]:
    """Answer, supporting facts, evidence triples, and all three jointly; facts and triples as in ``hotpot``."""
    facts = any(each.facts is not None for each in predictions)
    triples = any(each.triples is not None for each in predictions)
    return [_two_wiki(each, facts=facts, triples=triples) for each in predictions]


def _two_wiki(each: Prediction, *, facts: bool, triples: bool) -> Scores:
    if not each.is_scored:
        return {}
    question, parts = each.question, {"": _answer(each)}
    if facts and question.supporting:
        parts["sp_"] = fact_scores(each.facts or (), question.supporting, any_case=True)
    if triples and (gold := gold_triples(question)):
        parts["evi_"] = triple_scores(each.triples or (), gold, question.metadata.get("entity_aliases"))
    if len(parts) == 3:
        parts["joint_"] = joint(*parts.values())
    return {name: value for prefix, part in parts.items() for name, value in part.named(prefix).items()}


def _answer(each: Prediction) -> Parts:
    golds = each.question.answers
    overlap = best_overlap(each.text, golds)
    return Parts(exact_match(each.text, golds), *overlap)


def gold_triples(question: Question) -> list[Triple]:
    """The question's evidence triples (2WikiMultiHopQA's); [] where it has none."""
    return [(str(one), str(relation), str(other)) for one, relation, other in question.metadata.get("evidences") or ()]


def musique(predictions: Sequence[Prediction]) -> list[Scores]:
    """Answer and support of the answerable questions. Where some are unanswerable (the full set), also whether that was
    seen, and the group scores: an answerable question's, 0 unless it and its twin were both seen as what they are. A
    pair's score stands with its answerable question."""
    full = not all(map(_has_answer, predictions))
    rows = [_musique(each, full=full) for each in predictions]
    for pair in _pairs(predictions):
        right = all(rows[at].get("answerability") == 1.0 for at in pair)
        at = next(at for at in pair if _has_answer(predictions[at]))
        for name, part in zip(GROUPED, ("answer_f1", "support_f1"), strict=True):
            if part in rows[at]:
                rows[at][name] = rows[at][part] if right else 0.0
    return rows


def _musique(each: Prediction, *, full: bool) -> Scores:
    if not each.answers:
        return {}
    scores: Scores = {}
    question, golds = each.question, each.question.answers
    if _has_answer(each):
        if golds:
            scores |= {"answer_em": exact_match(each.text, golds), "answer_f1": squad_f1(each.text, golds)}
        if question.gold_ids or question.gold_titles:
            scores["support_f1"] = _support(each).f1
    if full:
        scores["answerability"] = float(answerable(each.text) == _has_answer(each))
    return scores


def _support(each: Prediction) -> Parts:
    ids = each.question.gold_ids
    cited = [passage.id if ids else passage.title for passage in each.cited]
    return set_scores(cited, ids or each.question.gold_titles)


def _has_answer(each: Prediction) -> bool:
    return each.question.metadata.get("answerable") is not False


def _pairs(predictions: Sequence[Prediction]) -> list[list[int]]:
    """The places of each answerable question with its unanswerable twin."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for at, each in enumerate(predictions):
        if (pair := each.question.metadata.get("pair")) is not None:
            groups[str(pair)].append(at)
    return [group for group in groups.values() if sorted(_has_answer(predictions[at]) for at in group) == [False, True]]
