"""The official scores of HotpotQA, 2WikiMultiHopQA and MuSiQue, which cover more than the answer.

Gold facts are the question's ``supporting``; gold triples and answerability are ``evidences`` (with
``entity_aliases``) and ``answerable`` in its ``metadata``. A question of MuSiQue's full set and its unanswerable twin
share ``metadata["pair"]``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from polyhop.metrics.answers import answerable, best_overlap, exact_match, squad_f1
from polyhop.metrics.facts import SetScores, Triple, fact_scores, joint, set_scores, triple_scores
from polyhop.metrics.predictions import Prediction
from polyhop.types import Question

Scores = dict[str, float]

GROUPED = ("group_answer_sufficiency_f1", "group_support_sufficiency_f1")


def hotpot(predictions: Sequence[Prediction]) -> list[Scores]:
    """Score answer, supporting facts, and both jointly.

    Facts are scored if any prediction of the run reports them; a prediction without facts then has an empty set, as in
    the script.
    """
    facts = any(prediction.facts is not None for prediction in predictions)
    return [_hotpot(prediction, facts=facts) for prediction in predictions]


def _hotpot(prediction: Prediction, *, facts: bool) -> Scores:
    if not prediction.is_scored:
        return {}
    answer = _answer(prediction)
    scores = answer.named()
    if facts and prediction.question.supporting:
        support = fact_scores(prediction.facts or (), prediction.question.supporting)
        scores |= support.named("sp_") | joint(answer, support).named("joint_")
    return scores


def two_wiki(predictions: Sequence[Prediction]) -> list[Scores]:
    """Score answer, supporting facts, evidence triples, and all three jointly; facts and triples as in ``hotpot``."""
    facts = any(prediction.facts is not None for prediction in predictions)
    triples = any(prediction.triples is not None for prediction in predictions)
    return [_two_wiki(prediction, facts=facts, triples=triples) for prediction in predictions]


def _two_wiki(prediction: Prediction, *, facts: bool, triples: bool) -> Scores:
    if not prediction.is_scored:
        return {}
    question, parts = prediction.question, {"": _answer(prediction)}
    if facts and question.supporting:
        parts["sp_"] = fact_scores(prediction.facts or (), question.supporting, any_case=True)
    if triples and (gold := gold_triples(question)):
        parts["evi_"] = triple_scores(prediction.triples or (), gold, question.metadata.get("entity_aliases"))
    if len(parts) == 3:
        parts["joint_"] = joint(*parts.values())
    return {name: value for prefix, part in parts.items() for name, value in part.named(prefix).items()}


def _answer(prediction: Prediction) -> SetScores:
    golds = prediction.question.answers
    overlap = best_overlap(prediction.text, golds)
    return SetScores(exact_match(prediction.text, golds), *overlap)


def gold_triples(question: Question) -> list[Triple]:
    """Return the question's evidence triples (2WikiMultiHopQA); [] if it has none."""
    evidences = question.metadata.get("evidences") or ()
    return [(str(subject), str(relation), str(object_)) for subject, relation, object_ in evidences]


def musique(predictions: Sequence[Prediction]) -> list[Scores]:
    """Score answer and support of the answerable questions.

    If some are unanswerable (the full set), also score answerability, and the groups: the score of an answerable
    question, or 0 unless both it and its twin were judged correctly. A pair's score belongs to its answerable question.
    """
    full = any(prediction.question.answerable is False for prediction in predictions)
    rows = [_musique(prediction, full=full) for prediction in predictions]
    for first, twin in _pairs(predictions):
        row = rows[first]
        judged = row.get("answerability") == rows[twin].get("answerability") == 1.0
        for name, part in zip(GROUPED, ("answer_f1", "support_f1"), strict=True):
            if part in row:
                row[name] = row[part] if judged else 0.0
    return rows


def _musique(prediction: Prediction, *, full: bool) -> Scores:
    if not prediction.answers:
        return {}
    scores: Scores = {}
    question, golds = prediction.question, prediction.question.answers
    if question.answerable is not False:
        if golds:
            scores |= {"answer_em": exact_match(prediction.text, golds), "answer_f1": squad_f1(prediction.text, golds)}
        if question.gold_ids or question.gold_titles:
            scores["support_f1"] = _support(prediction).f1
    if full and question.answerable is not None:
        scores["answerability"] = float(answerable(prediction.text) == question.answerable)
    return scores


def _support(prediction: Prediction) -> SetScores:
    ids = prediction.question.gold_ids
    cited = [passage.id if ids else passage.title for passage in prediction.cited]
    return set_scores(cited, ids or prediction.question.gold_titles)


def squad(predictions: Sequence[Prediction]) -> list[Scores]:
    """Score the answer; of an unanswerable question the gold answer is the empty one, as in SQuAD 2.0."""
    return [_squad(prediction) for prediction in predictions]


def _squad(prediction: Prediction) -> Scores:
    golds = ("",) if prediction.question.answerable is False else prediction.question.answers
    if not (prediction.answers and golds):
        return {}
    return {"em": exact_match(prediction.text, golds), "f1": squad_f1(prediction.text, golds)}


def _pairs(predictions: Sequence[Prediction]) -> list[list[int]]:
    """Return the positions of each answerable question and its unanswerable twin, in this order."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    lacks = [prediction.question.answerable is False for prediction in predictions]
    for i, prediction in enumerate(predictions):
        if (pair := prediction.question.metadata.get("pair")) is not None:
            groups[str(pair)].append(i)
    ordered = (sorted(group, key=lacks.__getitem__) for group in groups.values())
    return [group for group in ordered if [lacks[i] for i in group] == [False, True]]
