"""Every prompt task the model does, as a function of the task's fields to a value in its output shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyhop.common.text import counted, normalise
from polyhop.errors import CapabilityError
from polyhop.lm.pocket.reading.answer import NOTHING_KNOWN, Solution
from polyhop.lm.pocket.reading.extracting import extract
from polyhop.lm.pocket.reading.judge import relevant, sufficient
from polyhop.lm.pocket.reading.narrowing import promises, shares, sureness, weighed
from polyhop.lm.pocket.reading.queries import bridge, next_query
from polyhop.lm.pocket.reading.study import Study, study
from polyhop.lm.pocket.tasks import acting, condensing, stepping
from polyhop.lm.pocket.tasks import baselines as asking
from polyhop.lm.pocket.tasks import ge as graphing
from polyhop.lm.pocket.tasks import resp as memory
from polyhop.lm.pocket.tasks.searchain import plan, trace
from polyhop.lm.pocket.tasks.stepping import ASIDE
from polyhop.metrics import cover_em_token
from polyhop.types import Passage

RELEVANT_ABOVE = 0.1
SUFFICIENT_ABOVE = 0.4
ANALYSIS_WEIGHT = 0.1  # of a piece of evidence, beside what reading it again says
HIGHEST_GRADE = 4  # of a passage that answers by itself
ENOUGH_WEIGHT = 1.0  # of one answer: a sure piece of evidence with its analysis, or two that agree

Fields = Mapping[str, Any]
Value = dict[str, Any]


def do(task: str, fields: Fields) -> Value:
    """The value of a task's output shape; ``CapabilityError`` for a task the model does not know."""
    if task not in _SKILLS:
        raise CapabilityError(
            f"pocket cannot do the prompt task {task!r}, only {', '.join(sorted(_SKILLS))};"
            f' give it a model of its own: lm={{"default": "pocket", "{task}": "openai:MODEL"}}'
        )
    return _SKILLS[task](fields)


def _review(fields: Fields) -> Value:
    path = study(fields["question"], fields["passages"])
    is_relevant = relevant(path) >= RELEVANT_ABOVE
    supported = is_relevant and sufficient(path) >= SUFFICIENT_ABOVE
    return {
        "relevant": is_relevant,
        "supported": supported,
        "thought": _thought(path, is_relevant, supported) if fields.get("thoughts") else None,
        "answer": path.solution.answer if supported else None,
        "query": None if supported else next_query(path),
    }


def _thought(path: Study, is_relevant: bool, supported: bool) -> str:
    titles = ", ".join(page.title for page in path.pages) or "no passage"
    if supported:
        return f"{titles}: together they hold what the question asks for."
    if is_relevant:
        return f"{titles}: part of what is asked; still missing: {next_query(path) or 'the rest'}."
    return f"{titles}: not what the question is about."


def _complete(fields: Fields) -> Value:
    """A query in the shape of a supplement: what is missing is named, no fact is invented."""
    path = study(fields["question"], fields["passages"])
    name = bridge(path)
    return {
        "thought": f"The passages lead to {name}." if name else None,
        "information": next_query(path) or path.question,
        "answer": None,
    }


def _merged(fields: Fields) -> Value:
    """A review that names the missing piece itself."""
    review = _review(fields)
    wanted = review["relevant"] and not review["supported"]
    return {**review, "query": None, "information": _complete(fields)["information"] if wanted else None}


def _enough(fields: Fields) -> Value:
    votes = _votes(fields["question"], fields["evidence"])
    return {"sufficient": max((weight for weight, _ in votes.values()), default=0.0) >= ENOUGH_WEIGHT}


def _fuse(fields: Fields) -> Value:
    question, evidence = fields["question"], fields["evidence"]
    if fields.get("mode") == "paragraph":
        passages = list(dict.fromkeys(passage for piece in evidence for passage in piece["passages"]))
        return _answered(question, passages)
    votes = _votes(question, evidence)
    if not votes:
        return {"rationale": None, "answer": NOTHING_KNOWN}
    answer = max(votes.values(), key=lambda vote: vote[0])[1]
    return {
        "rationale": f"{counted(len(evidence), 'pieces of evidence')}; most weight is on {answer}.",
        "answer": answer,
    }


def _votes(question: str, evidence: Sequence[Fields]) -> dict[str, tuple[float, str]]:
    """Weight and wording of each answer: a piece read again counts by its sufficiency, its analysis a little."""
    votes: dict[str, tuple[float, str]] = defaultdict(lambda: (0.0, ""))
    for piece in evidence:
        path = study(question, piece["passages"])
        trust = sufficient(path)
        said = {answer: trust * share for answer, share in shares(path.solution).items()}
        if piece.get("analysis"):
            said[piece["analysis"]] = said.get(piece["analysis"], 0.0) + ANALYSIS_WEIGHT
        for answer, weight in said.items():
            held, wording = votes[normalise(answer)]
            votes[normalise(answer)] = (held + weight, wording or answer)
    return dict(votes)


def _read(fields: Fields) -> Value:
    return _answered(fields["question"], fields["passages"])


def _answered(question: str, passages: Sequence[Passage]) -> Value:
    told = weighed(question, passages)
    answer = told.answer or NOTHING_KNOWN
    reason = None if told.answer is None else _reason(told.solution)
    return {"rationale": reason, "answer": answer, ASIDE: (answer, _certainty(sureness(question, passages, told)))}


def _certainty(sure: float) -> float:
    """As a probability that is never none, since its logarithm is taken."""
    return max(0.001, round(sure, 3))


def _reason(solution: Solution) -> str | None:
    """What was read: the steps of a chain, the two values of a comparison, or the sentence of the answer."""
    if solution.verdict:
        return "; ".join(f"{s.name}: {s.value}" for s in solution.verdict.sides if s.value) or None
    found = [f"{hop.subject} – {hop.step.relation}: {hop.value.text}" for hop in solution.hops if hop.value]
    if found:
        return "; ".join(found)
    return solution.ranked[0].page.sentence(solution.ranked[0].mention.sentence) if solution.ranked else None


def _closed(fields: Fields) -> Value:
    return asking.closed(fields["question"])


def _summarize(fields: Fields) -> Value:
    return {"summary": memory.note(fields["question"], fields["passages"])}


def _respond(fields: Fields) -> Value:
    """From the passages, or from the memories where those are given instead."""
    given = fields["passages"] if fields["memory"] is None else memory.opened(fields["memory"])
    response = memory.respond(fields["sub_question"], given)
    return {"answered": response is not None, "response": response}


def _judge(fields: Fields) -> Value:
    return {"sufficient": memory.enough(fields["question"], fields["memory"])}


def _plan(fields: Fields) -> Value:
    return {"sub_question": memory.plan(fields["question"], fields["memory"], fields["asked"])}


def _generate(fields: Fields) -> Value:
    return {"rationale": None, "answer": memory.answer(fields["question"], fields["memory"]) or NOTHING_KNOWN}


def _subanswer(fields: Fields) -> Value:
    """Its confidence is told in any case: ``Pocket`` makes the answer's log-probability of it."""
    value, sure = graphing.sub_answer(fields)
    return {**value, "confidence": round(sure, 3)}


def _extract(fields: Fields) -> Value:
    """The surest span of all passages; its confidence is told in any case, as a sub-answer's."""
    found = [
        (span, number)
        for number, passage in enumerate(fields["passages"], 1)
        if (span := extract(fields["question"], passage))
    ]
    if not found:
        return {"answer": None, "passage": None, "confidence": None}
    span, number = max(found, key=lambda each: each[0].confidence)
    return {"answer": span.text, "passage": number, "confidence": max(0.001, round(span.confidence, 3))}


def _order(fields: Fields) -> Value:
    """By how promising each passage is among the others; equally promising ones as they come."""
    promise = promises(fields["question"], fields["passages"])
    return {"order": [place + 1 for place in sorted(range(len(promise)), key=lambda place: -promise[place])]}


def _help(fields: Fields) -> Value:
    return {"grade": round(HIGHEST_GRADE * relevant(study(fields["question"], [fields["passage"]])))}


def _grade(fields: Fields) -> Value:
    """No understanding: whether a gold answer's words stand in the prediction, in a row."""
    return {"correct": cover_em_token(fields["prediction"], fields["answers"]) == 1.0}


_SKILLS: dict[str, Callable[[Fields], Value]] = {
    "tor.review": _review,
    "cor.review": _review,
    "tor.complete": _complete,
    "tor.enough": _enough,
    "tor.merged": _merged,
    "tor.fuse": _fuse,
    "searchain.chain": plan,
    "searchain.trace": trace,
    "resp.summarize": _summarize,
    "resp.respond": _respond,
    "resp.judge": _judge,
    "resp.plan": _plan,
    "resp.generate": _generate,
    "ge.graph": lambda fields: {"triplets": graphing.graph(fields["question"])},
    "ge.subquestion": lambda fields: {
        "sub_question": graphing.sub_question(fields["triplet"], fields["question"], fields["history"])
    },
    "ge.subanswer": _subanswer,
    "ge.triplets": lambda fields: {"triplets": graphing.triplets(fields["passage"])},
    "ge.filter": lambda fields: {"triplets": graphing.relevant_triplets(fields["triplets"], fields["sub_question"])},
    "ge.answer": lambda fields: graphing.answer(fields["question"], fields["history"]),
    "answer.direct": _closed,
    "answer.cot": _closed,
    "zero_shot.cot": asking.thought,
    "auto_cot.answer": _closed,
    "recite.recall": lambda fields: {"recitations": [NOTHING_KNOWN]},
    "recite.answer": _closed,
    "least_to_most.decompose": lambda fields: {"sub_questions": asking.parts(fields["question"])},
    "least_to_most.solve": lambda fields: asking.closed(fields["sub_question"]),
    "plan_solve.solve": asking.planned,
    "self_ask.chain": asking.follow_ups,
    "self_ask.turn": asking.turn,
    "react.act": acting.act,
    "react.finish": acting.finish,
    "toolformer.write": acting.write,
    "toolformer.finish": acting.end,
    "tot_ir.propose": acting.propose,
    "tot_ir.value": acting.value,
    "tot_ir.answer": acting.solve,
    "plan_solve_ir.plan": acting.plan,
    "plan_solve_ir.solve": acting.solve,
    "cot.sentence": stepping.sentence,
    "flare.question": stepping.question,
    "dsp.hop": stepping.hop,
    **condensing.SKILLS,
    "era_cot.answer": _read,
    "reader.extract": _extract,
    "judge.answer": _grade,
    "rerank.order": _order,
    "rerank.grade": _help,
    "answer.read": _read,
    "answer.read_cot": _read,
}
TASKS: tuple[str, ...] = tuple(sorted(_SKILLS))
"""The prompt tasks the model can do."""
