"""The tasks of GE-Reasoning: a question as triplets, a passage as triplets, and answers read from them.

A passage goes into triplets twice: the facts that the rules find, ``(Dark Mill; director; Rolf Anders)``, and every
sentence as it stands, ``(Dark Mill; states; …)``, so that what no rule finds can still be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyhop.common.sentences import sentences
from polyhop.common.text import bare_title, fold
from polyhop.lm.pocket.reading.answer import UNKNOWN, read_path
from polyhop.lm.pocket.reading.chain import Step, decompose
from polyhop.lm.pocket.reading.compare import via_of
from polyhop.lm.pocket.reading.facts import facts
from polyhop.lm.pocket.reading.judge import answer_probabilities, sufficiency
from polyhop.lm.pocket.reading.passage import parse_passage
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.tables import relations
from polyhop.lm.pocket.reading.text import content_stems
from polyhop.lm.pocket.reading.weighing import best_answer
from polyhop.lm.pocket.tasks.reading import Fields, Value
from polyhop.types import Passage

Triplet = Mapping[str, str]

STATES = "states"
"""The relation of a triplet that contains a whole sentence."""
_FOUND = 0.9  # confidence in a value that a rule found
_READ = 0.8  # the least confidence in a value that was read, not found: asked again it would be read the same
_NOTHING_KNOWN = 0.05  # confidence in an answer from nothing
_MAX_KEPT = 8  # triplets that a filter keeps


def sub_answer(fields: Fields) -> Value:
    """Answer a sub-question from triplets or passages. ``Pocket`` turns its confidence into a log-probability even if
    none is asked for."""
    question = fields["sub_question"]
    passages = fields.get("passages") or passages_of(fields.get("triplets") or ())
    if not passages:
        return {"sentence": f"It is {UNKNOWN}.", "answer": UNKNOWN, "confidence": _NOTHING_KNOWN}
    answer, solution = best_answer(question, passages)
    if answer is None:
        return {"sentence": f"It is {UNKNOWN}.", "answer": UNKNOWN, "confidence": _NOTHING_KNOWN}
    if solution.complete:
        share = 1.0
    else:
        share = answer_probabilities(solution).get(answer, 0.0) * sufficiency(read_path(question, passages[:2]))
    confidence = _READ + (_FOUND - _READ) * share
    return {"sentence": _sentence(question, answer), "answer": answer, "confidence": round(confidence, 3)}


def answer(fields: Fields) -> Value:
    """Answer the question from the answered sub-questions: decide a comparison, or return the last value of a chain."""
    question, history = fields["question"], fields["history"]
    parsed = parse_question(question)
    texts: dict[str, list[str]] = {}
    for pair in history:
        for step in decompose(pair["sub_question"])[:1]:
            texts.setdefault(step.subject, []).append(pair["sentence"])
    passages = [Passage(f"answers about {name}", name, " ".join(parts)) for name, parts in texts.items()]
    rationale = " ".join(pair["sentence"] for pair in history) or None
    if parsed.comparison is None:
        last = history[-1]["answer"] if history else None
        return {"rationale": rationale, "answer": last or ("no" if parsed.type == "boolean" else UNKNOWN)}
    found, _ = best_answer(question, passages)
    return {"rationale": rationale, "answer": found or _answered_before(question, history)}


def _answered_before(question: str, history: Sequence[Mapping[str, str]]) -> str:
    """The answer to a sub-question that is the question itself: a comparison over documents is asked whole."""
    return next((pair["answer"] for pair in history if fold(pair["sub_question"]) == fold(question)), UNKNOWN)


# --- a question as triplets -------------------------------------------------------------------------------------------


def question_triplets(question: str) -> list[dict[str, str]]:
    """The triplets of a question: the steps of a chain, or both sides of a comparison.

    >>> triplets = question_triplets("When was the director of film Dark Mill born?")
    >>> [(t["head"], t["relation"], t["tail"]) for t in triplets]
    [('Dark Mill', 'director', 'name: #1'), ('name: #1', 'birth date', 'date: #2')]
    """
    parsed = parse_question(question)
    if parsed.comparison is None:
        return _chained(decompose(parsed.text), 0)
    via, what = via_of(parsed, parsed.comparison), parsed.comparison.what
    if what not in relations().rules and what != "country":
        what = ""  # sizes, classes and the words of the question are no relations
    rows: list[dict[str, str]] = []
    for option in parsed.comparison.options:
        names = [name for name in (via, what) if name]
        steps = [
            Step(f"#{i}" if i else option, name, f"What is the {name} of {option}?") for i, name in enumerate(names)
        ]
        rows += _chained(steps, len(rows))
    return rows


def _chained(steps: Sequence[Step], before: int) -> list[dict[str, str]]:
    """Steps as triplets, their values numbered from ``before``; an unknown relation is the question with a bare "#"."""
    types = [_value_type(step.relation or "") for step in steps]
    rows = []
    for number, step in enumerate(steps, 1):
        source = step.source(number - 1)
        head = f"{types[source - 1]}: #{source + before}" if source else step.subject
        relation = step.relation or step.question.replace(step.subject, "#")
        rows.append({"head": head, "relation": relation, "tail": f"{types[number - 1]}: #{number + before}"})
    return rows


def _value_type(relation: str) -> str:
    return relations().value_types.get(relation, "name" if relation in relations().person_relations else "thing")


def next_sub_question(
    triplet: Triplet | None, question: str | None, history: Sequence[Mapping[str, str]] | None
) -> str | None:
    """The question that asks for the variable of a triplet. Without a triplet, the first one of the question's own
    graph that the history has not asked (the question itself if it has no graph), or None."""
    if triplet is not None:
        return question_about(triplet)
    steps, values = question_triplets(question or ""), dict[str, str]()
    answers = {fold(pair["sub_question"]): pair["answer"] for pair in history or ()}
    if not steps:
        return question if question and not history else None
    for step in steps:
        asked = question_about({**step, "head": values.get(step["head"], step["head"])})
        if fold(asked) not in answers and "#" not in asked:
            return asked
        if answer := answers.get(fold(asked)):
            values[step["tail"]] = answer
    return None


def question_about(triplet: Triplet) -> str:
    """Ask for the variable of a triplet."""
    relation, head = triplet["relation"], triplet["head"]
    if "#" in head and "#" not in triplet["tail"]:
        head = triplet["tail"]  # the head is asked for: the tail is the subject
    if "#" in relation:
        return relation.replace("#", head)
    plain = f"{'Who' if relation in relations().person_relations else 'What'} is the {relation} of {{0}}?"
    return relations().wordings.get(relation, (plain,))[0].replace("{0}", head)


# --- passages as triplets, and back -----------------------------------------------------------------------------------


def passage_triplets(passage: Passage) -> list[dict[str, str]]:
    """The facts of a passage that rules find, and each of its sentences."""
    page = parse_passage(passage)
    found = [
        {"head": passage.title, "relation": relation, "tail": value.text}
        for relation in (*relations().rules, "country")
        for value in facts(page, relation)[:3]
    ]
    stated = [{"head": passage.title, "relation": STATES, "tail": sentence} for sentence in sentences(page.text)]
    return [
        {name: part.replace(";", ",") for name, part in triplet.items()}
        for triplet in found + stated
        if all(part.strip() for part in triplet.values())
    ]


def relevant_triplets(given: Sequence[Triplet], question: str) -> list[dict[str, str]]:
    """The triplets that share most with the question, and the first sentence about each of their heads."""
    parsed = parse_question(question)
    asked_relations = {step.relation for step in decompose(parsed.text)}

    def overlap(triplet: Triplet) -> float:
        stems = {stem for part in triplet.values() for stem in content_stems(part)}
        shared = sum(value for stem, value in parsed.terms.items() if stem in stems) / parsed.total
        return shared + (triplet["relation"] in asked_relations)

    scores = [overlap(triplet) for triplet in given]
    best = sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: -scores[i])
    kept = set(best[:_MAX_KEPT])
    heads = {given[i]["head"] for i in kept}
    first_sentences = {t["head"]: i for i, t in reversed(list(enumerate(given))) if t["relation"] == STATES}
    kept.update(i for head, i in first_sentences.items() if head in heads)
    return [dict(given[i]) for i in sorted(kept)]


def triplets_about(passages: Sequence[Passage], question: str) -> list[dict[str, str]]:
    """The triplets of several passages that share most with the question."""
    return relevant_triplets([triplet for passage in passages for triplet in passage_triplets(passage)], question)


def _sentence(question: str, answer: str) -> str:
    steps = decompose(question)
    if len(steps) == 1 and steps[0].relation:
        return statement(steps[0].subject, steps[0].relation, answer)
    return f"{question.strip(' ?')}: {answer}."


def statement(subject: str, relation: str, value: str) -> str:
    """State a fact in a sentence that the rules can read again."""
    wording = relations().wordings.get(relation)
    if wording is None:
        return f"The {relation} of {subject} is {value}."
    return wording[1].replace("{0}", subject).replace("{1}", value)


def passages_of(given: Sequence[Triplet]) -> list[Passage]:
    """Triplets as passages again: per head its sentences, and the facts that none of them contains."""
    texts: dict[str, list[str]] = {triplet["head"]: [] for triplet in given}
    for triplet in given:
        if triplet["relation"] == STATES:
            texts[triplet["head"]].append(triplet["tail"])
    for triplet in given:
        head, relation, tail = triplet["head"], triplet["relation"], triplet["tail"]
        if relation != STATES and tail not in " ".join(texts[head]):
            texts[head].append(statement(bare_title(head), relation, tail))
    return [Passage(f"triplets of {head}", head, " ".join(parts)) for head, parts in texts.items()]
