"""The closed-book baselines' tasks and self-ask's: the question is taken apart by the rules for nested descriptions.

Without passages the model knows nothing, and says so: what is taken apart stays unanswered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop.common.text import bare_title, normalise
from polyhop.lm.pocket.reading.answer import NOTHING_KNOWN, undecided
from polyhop.lm.pocket.reading.descriptions import chain
from polyhop.lm.pocket.reading.judge import sufficient
from polyhop.lm.pocket.reading.narrowing import best_answer
from polyhop.lm.pocket.reading.question import ask
from polyhop.lm.pocket.reading.study import study
from polyhop.lm.pocket.tasks.resp import respond
from polyhop.lm.pocket.tasks.searchain import ENOUGH_ABOVE, open_queries

Fields = Mapping[str, Any]
Value = dict[str, Any]


def closed(question: str) -> Value:
    """Without passages: "no" to a yes/no question, the first of two options, else "unknown"."""
    asked = ask(question)
    answer = undecided(asked.comparison) if asked.comparison else None
    return {"rationale": None, "answer": answer or ("no" if asked.type == "boolean" else NOTHING_KNOWN)}


def thought(fields: Fields) -> Value:
    """The same, with its reason."""
    return {**closed(fields["question"]), "rationale": "Without a passage nothing is known of it."}


def parts(question: str) -> list[str]:
    """The questions on the way: a chain's steps, or one for each thing compared; the question itself where it is one.

    >>> parts("When was the director of Dark Mill born?")
    ['What is the director of Dark Mill?', 'When was #1 born?']
    """
    comparison = ask(question).comparison
    if comparison:
        return [f"What is known of {bare_title(option)}?" for option in comparison.options]
    return [step.question for step in chain(question)] or [question]


def planned(fields: Fields) -> Value:
    """A plan, and no knowledge to carry it out with."""
    return {"plan": parts(fields["question"]), **closed(fields["question"])}


def follow_ups(fields: Fields) -> Value:
    """The follow-ups a question needs, none of them answered."""
    steps = [{"sub_question": part, "answer": None} for part in parts(fields["question"])]
    return {"steps": steps, "answer": closed(fields["question"])["answer"]}


def turn(fields: Fields) -> Value:
    """The last follow-up answered from the passages; the next, unless the passages are enough or nothing is left."""
    question, passages, history = fields["question"], fields["passages"], fields["history"]
    intermediate = respond(history[-1]["sub_question"], passages) if history and passages else None
    told = [*history[:-1], {**history[-1], "answer": intermediate}] if history else []
    path = study(question, passages)
    if not (fields["conclude"] or (passages and sufficient(path) >= ENOUGH_ABOVE)):
        asked = {normalise(pair["sub_question"]) for pair in told}
        for query in open_queries(path, {normalise(pair["sub_question"]): pair["answer"] for pair in told}):
            if normalise(query) not in asked:
                return {"intermediate": intermediate, "follow_up": query, "answer": None}
    answer = best_answer(question, passages)[0] if passages else None
    return {"intermediate": intermediate, "follow_up": None, "answer": answer or closed(question)["answer"]}
