"""The tasks of GE-Reasoning: a question as triplets, a passage as triplets, and answers read from them.

What a passage says goes into triplets twice: the facts the rules know, ``(Dark Mill; director; Rolf Anders)``, and
every sentence as it stands, ``(Dark Mill; states; …)``, so that what no rule knows can still be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyhop.common.text import bare_title, fold, sentences
from polyhop.lm.pocket.comparing import via_of
from polyhop.lm.pocket.descriptions import Step, chain
from polyhop.lm.pocket.facts import facts
from polyhop.lm.pocket.judging import sufficient
from polyhop.lm.pocket.narrowing import best_answer, shares
from polyhop.lm.pocket.pages import open_page
from polyhop.lm.pocket.questions import ask
from polyhop.lm.pocket.relations import RULES
from polyhop.lm.pocket.solving import NOTHING_KNOWN, undecided
from polyhop.lm.pocket.study import study
from polyhop.lm.pocket.wording import content_roots
from polyhop.types import Passage

Triplet = Mapping[str, str]

STATES = "states"
FOUND = 0.9  # confidence in a value a rule found
KNOWN_NOTHING = 0.05  # confidence of an answer out of nothing
READ = 0.4  # the least confidence in a value that was read, not found: asked again it would be read the same
_MOST_KEPT = 8  # triplets that a filter keeps
_PERSONS = frozenset(
    "director writer composer performer producer founder creator spouse father mother child sibling".split()
)
# A relation's question, and the sentence that answers it in words the rules read back.
_WORDED = {
    "birth date": ("When was {0} born?", "{0} was born on {1}."),
    "birth place": ("Where was {0} born?", "{0} was born in {1}."),
    "death date": ("When did {0} die?", "{0} died on {1}."),
    "death place": ("Where did {0} die?", "{0} died in {1}."),
    "release": ("When was {0} released?", "{0} was released in {1}."),
    "start": ("When was {0} founded?", "{0} was founded in {1}."),
    "school": ("Where did {0} study?", "{0} studied at {1}."),
    "employer": ("Where did {0} work?", "{0} worked for {1}."),
    "director": ("Who directed {0}?", "{0} was directed by {1}."),
    "writer": ("Who wrote {0}?", "{0} was written by {1}."),
    "country": ("Which country is {0} from?", "{0} is from {1}."),
}
_TYPES = {"birth date": "date", "death date": "date", "release": "date", "start": "date", "country": "country",
          "birth place": "place", "death place": "place"}  # fmt: skip


def graph(question: str) -> list[dict[str, str]]:
    """The triplets of a question: a chain's steps, or both sides of a comparison.

    >>> [(t["head"], t["relation"], t["tail"]) for t in graph("When was the director of film Dark Mill born?")]
    [('Dark Mill', 'director', 'name: #1'), ('name: #1', 'birth date', 'date: #2')]
    """
    asked = ask(question)
    if asked.comparison is None:
        return _chained(chain(asked.text), 0)
    via, what = via_of(asked, asked.comparison), asked.comparison.what
    if what not in RULES and what != "country":
        what = ""  # what decides is no relation: sizes, classes, the words of the question
    triplets: list[dict[str, str]] = []
    for option in asked.comparison.options:
        relations = [name for name in (via, what) if name]
        steps = [
            Step(option if not at else f"#{at}", name, f"What is the {name} of {option}?")
            for at, name in enumerate(relations)
        ]
        triplets += _chained(steps, len(triplets))
    return triplets


def _chained(steps: Sequence[Step], before: int) -> list[dict[str, str]]:
    """Steps as triplets, their values numbered from ``before``; an unknown relation is the question with a bare "#"."""
    triplets = []
    types = [_TYPES.get(step.relation or "", "name" if step.relation in _PERSONS else "thing") for step in steps]
    for number, step in enumerate(steps, 1):
        source = step.source(number - 1)
        head = f"{types[source - 1]}: #{source + before}" if source else step.subject
        relation = step.relation or step.question.replace(step.subject, "#")
        triplets.append({"head": head, "relation": relation, "tail": f"{types[number - 1]}: #{number + before}"})
    return triplets


def sub_question(
    triplet: Triplet | None, question: str | None, history: Sequence[Mapping[str, str]] | None
) -> str | None:
    """The question that asks for a triplet's variable; without a triplet, the first of the question's own graph that
    the history has not asked (the question itself where that has none), or None."""
    if triplet is not None:
        return _worded(triplet)
    steps, bound = graph(question or ""), dict[str, str]()
    asked = {fold(pair["sub_question"]): pair["answer"] for pair in history or ()}
    if not steps:
        return question if question and not history else None
    for step in steps:
        now = _worded({**step, "head": bound.get(step["head"], step["head"])})
        if fold(now) not in asked and "#" not in now:
            return now
        if answer := asked.get(fold(now)):
            bound[step["tail"]] = answer
    return None


def _worded(triplet: Triplet) -> str:
    relation, head = triplet["relation"], triplet["head"]
    if "#" in head and "#" not in triplet["tail"]:
        head = triplet["tail"]  # the head is asked for: what is said of the tail
    if "#" in relation:
        return relation.replace("#", head)
    plain = f"{'Who' if relation in _PERSONS else 'What'} is the {relation} of {{0}}?"
    return _WORDED.get(relation, (plain,))[0].replace("{0}", head)


def triplets(passage: Passage) -> list[dict[str, str]]:
    """The facts of a passage that rules know, and each of its sentences."""
    page = open_page(passage)
    known = [
        {"head": passage.title, "relation": relation, "tail": value.text}
        for relation in (*RULES, "country")
        for value in facts(page, relation)[:3]
    ]
    told = [{"head": passage.title, "relation": STATES, "tail": sentence} for sentence in sentences(page.text)]
    return [
        {name: part.replace(";", ",") for name, part in triplet.items()}
        for triplet in known + told
        if all(part.strip() for part in triplet.values())
    ]


def relevant_triplets(given: Sequence[Triplet], question: str) -> list[dict[str, str]]:
    """The triplets that share most with the question, and the first sentence said of each of their heads."""
    asked = ask(question)
    steps = chain(asked.text)
    wanted = {step.relation for step in steps}

    def bearing(triplet: Triplet) -> float:
        roots = {root for part in triplet.values() for root in content_roots(part)}
        shared = sum(value for root, value in asked.terms.items() if root in roots) / asked.total
        return shared + (triplet["relation"] in wanted)

    worth = [bearing(triplet) for triplet in given]
    best = sorted((place for place, value in enumerate(worth) if value > 0), key=lambda place: -worth[place])
    kept = set(best[:_MOST_KEPT])
    heads = {given[place]["head"] for place in kept}
    leads = {t["head"]: at for at, t in reversed(list(enumerate(given))) if t["relation"] == STATES}
    kept.update(at for head, at in leads.items() if head in heads)
    return [dict(given[place]) for place in sorted(kept)]


def sub_answer(fields: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """A sub-question's answer from the triplets or passages, and the confidence in it."""
    question = fields["sub_question"]
    passages = fields.get("passages") or _passages(fields.get("triplets") or ())
    if not passages:
        asked = ask(question)
        guess = (undecided(asked.comparison) if asked.comparison else None) or NOTHING_KNOWN
        return {"sentence": f"It is {guess}.", "answer": guess}, KNOWN_NOTHING
    answer, solution = best_answer(question, passages)
    if answer is None:
        return {"sentence": f"It is {NOTHING_KNOWN}.", "answer": NOTHING_KNOWN}, KNOWN_NOTHING
    share = 1.0 if solution.complete else shares(solution).get(answer, 0.0) * sufficient(study(question, passages[:2]))
    sure = READ + (FOUND - READ) * share
    return {"sentence": _sentence(question, answer), "answer": answer}, sure


def _sentence(question: str, answer: str) -> str:
    steps = chain(question)
    if len(steps) == 1 and (worded := _WORDED.get(steps[0].relation or "")):
        return worded[1].replace("{0}", steps[0].subject).replace("{1}", answer)
    if len(steps) == 1 and steps[0].relation:
        return f"The {steps[0].relation} of {steps[0].subject} is {answer}."
    return f"{question.strip(' ?')}: {answer}."


def _passages(given: Sequence[Triplet]) -> list[Passage]:
    """What triplets say, as passages again: the sentences of each head, and the facts that are in none of them."""
    texts: dict[str, list[str]] = {triplet["head"]: [] for triplet in given}
    for triplet in given:
        if triplet["relation"] == STATES:
            texts[triplet["head"]].append(triplet["tail"])
    for triplet in given:
        told = texts[triplet["head"]]
        if triplet["relation"] != STATES and triplet["tail"] not in " ".join(told):
            told.append(_told(triplet))
    return [Passage(f"triplets of {head}", head, " ".join(told)) for head, told in texts.items()]


def _told(triplet: Triplet) -> str:
    head, relation, tail = bare_title(triplet["head"]), triplet["relation"], triplet["tail"]
    worded = _WORDED.get(relation)
    return worded[1].replace("{0}", head).replace("{1}", tail) if worded else f"The {relation} of {head} is {tail}."


def answer(question: str, history: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The question's answer from the sub-questions answered: a comparison decided, or the chain's last value."""
    asked = ask(question)
    pages: dict[str, list[str]] = {}
    for pair in history:
        for step in chain(pair["sub_question"])[:1]:
            pages.setdefault(step.subject, []).append(pair["sentence"])
    passages = [Passage(f"answers about {name}", name, " ".join(told)) for name, told in pages.items()]
    reason = " ".join(pair["sentence"] for pair in history) or None
    if asked.comparison is None:
        last = history[-1]["answer"] if history else None
        return {"rationale": reason, "answer": last or ("no" if asked.type == "boolean" else NOTHING_KNOWN)}
    found, _ = best_answer(question, passages)
    return {"rationale": reason, "answer": found or undecided(asked.comparison) or NOTHING_KNOWN}
