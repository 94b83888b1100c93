"""The tasks of the baselines that search in turns, ReAct, Toolformer and Tree of Thoughts, and of the plan searched at
once: the question is taken apart by the rules for nested descriptions, and read from what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyhop.common.text import normalise
from polyhop.lm.pocket.reading.judge import sufficient
from polyhop.lm.pocket.reading.narrowing import best_answer
from polyhop.lm.pocket.reading.study import study
from polyhop.lm.pocket.tasks.baselines import closed, parts
from polyhop.lm.pocket.tasks.resp import respond
from polyhop.lm.pocket.tasks.searchain import ENOUGH_ABOVE, open_queries
from polyhop.types import Passage

Fields = Mapping[str, Any]
Value = dict[str, Any]


def act(fields: Fields) -> Value:
    """A search for what is still open, or the answer."""
    searched = [step["argument"] for step in fields["steps"] if step["action"] == "Search"]
    query = _next(fields["question"], _found(fields["steps"]), searched)
    if query:
        return {"thought": f"Still open: {query}", "action": "Search", "argument": query}
    return {"thought": None, "action": "Finish", "argument": finish(fields)["answer"]}


def finish(fields: Fields) -> Value:
    """The answer read from all that was observed."""
    return _answered(fields["question"], _found(fields["steps"]))


def write(fields: Fields) -> Value:
    """A call for what is still open, or the answer."""
    written = fields["written"]
    query = _next(fields["question"], _found(written), [piece["query"] for piece in written])
    answer = None if query else end(fields)["answer"]
    return {"text": f"Still open: {query}" if query else None, "query": query, "answer": answer}


def end(fields: Fields) -> Value:
    """The answer read from the results of all calls."""
    return _answered(fields["question"], _found(fields["written"]))


def propose(fields: Fields) -> Value:
    """What could be asked next, with the answers so far in its place, the best first; the question at the end."""
    answers = {normalise(pair["sub_question"]): pair["answer"] for pair in fields["history"]}
    open_ones = {normalise(query): query for query in open_queries(study(fields["question"], ()), answers)}
    new = [query for name, query in open_ones.items() if name not in answers]
    return {"sub_questions": new[: fields["count"]] or [fields["question"]]}


def value(fields: Fields) -> Value:
    """The sub-question's answer, where the passages have one; sure where they settle the question itself."""
    passages = fields["passages"]
    answer = respond(fields["sub_question"], passages) if passages else None
    if answer is None:
        return {"answer": None, "value": "impossible"}
    settled = sufficient(study(fields["question"], passages)) >= ENOUGH_ABOVE
    return {"answer": answer, "value": "sure" if settled else "likely"}


def plan(fields: Fields) -> Value:
    """The steps that wait for no other, and the question itself."""
    question = fields["question"]
    return {"sub_questions": list(dict.fromkeys([*(part for part in parts(question) if "#" not in part), question]))}


def solve(fields: Fields) -> Value:
    """The answer read from the passages of all steps."""
    return _answered(fields["question"], fields["passages"])


def _found(steps: Sequence[Fields]) -> list[Passage]:
    return list(dict.fromkeys(passage for step in steps for passage in step["passages"]))


def _next(question: str, passages: Sequence[Passage], asked: Sequence[str]) -> str | None:
    """What to search next, unless the passages are enough or nothing new is left."""
    path = study(question, passages)
    if passages and sufficient(path) >= ENOUGH_ABOVE:
        return None
    done = set(map(normalise, asked))
    return next((query for query in open_queries(path, {}) if normalise(query) not in done), None)


def _answered(question: str, passages: Sequence[Passage]) -> Value:
    answer = best_answer(question, passages)[0] if passages else None
    return {"rationale": None, "answer": answer or closed(question)["answer"]}
