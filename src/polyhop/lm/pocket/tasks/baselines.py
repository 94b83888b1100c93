"""The tasks of the baselines.

A question is decomposed by the rules for nested descriptions, and answered from the passages. Without passages the
model knows nothing and says so: sub-questions stay unanswered. Summaries are ReSP's notes, which can be read as
passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from polyhop.common.text import bare_title, find_folded, fold, normalise
from polyhop.lm.pocket.reading.answer import UNKNOWN, PathReading, read_path
from polyhop.lm.pocket.reading.chain import decompose
from polyhop.lm.pocket.reading.judge import answer_probabilities, sufficiency
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.lm.pocket.reading.weighing import best_answer
from polyhop.lm.pocket.tasks import ge, resp
from polyhop.lm.pocket.tasks.reading import (
    ANSWER_CONFIDENCE,
    CALLS,
    MIN_CONFIDENCE,
    Fields,
    Value,
    answer_without_passages,
)
from polyhop.lm.pocket.tasks.searchain import is_settled, open_queries, queries_left
from polyhop.types import Passage

_VARIABLE = re.compile(r"^(\w+): #(\d+)$")
OPEN = "…"
"""Stands in place of a value that the passages do not give."""
_CLOSED = "Still to find: "  # before a step that is tried without any passage
_SURE, _UNSURE = 0.9, 0.1
_MAX_READ = 10  # passages whose facts are listed
_MAX_INFERRED = 20  # relations

Pair = dict[str, str | None]


def answer_if_any(question: str, passages: Sequence[Passage]) -> Value:
    """Answer from passages; without any, nothing is known."""
    answer = best_answer(question, passages)[0] if passages else None
    return {"rationale": None, "answer": answer or answer_without_passages(question)["answer"]}


def _next_query(question: str, passages: Sequence[Passage], asked: Sequence[str]) -> str | None:
    """The next query; None if the passages are enough or no new query is left."""
    return next(queries_left(read_path(question, passages), dict.fromkeys(map(normalise, asked))), None)


def _passages(steps: Sequence[Fields]) -> list[Passage]:
    return list(dict.fromkeys(passage for step in steps for passage in step["passages"]))


# --- closed book, and questions decomposed ----------------------------------------------------------------------------


def sub_questions(question: str) -> list[str]:
    """The steps of a chain, or a question per thing compared; the question itself if it has one step.

    >>> sub_questions("When was the director of Dark Mill born?")
    ['What is the director of Dark Mill?', 'When was #1 born?']
    """
    comparison = parse_question(question).comparison
    if comparison:
        return [f"What is known of {bare_title(option)}?" for option in comparison.options]
    return [step.question for step in decompose(question)] or [question]


def plan_searches(fields: Fields) -> Value:
    """Plan the searches: the steps that wait for no other, and the question itself."""
    question = fields["question"]
    independent = [part for part in sub_questions(question) if "#" not in part]
    return {"sub_questions": list(dict.fromkeys([*independent, question]))}


# --- self-ask ---------------------------------------------------------------------------------------------------------


def self_ask_turn(fields: Fields) -> Value:
    """Answer the last follow-up from the passages; ask the next, unless the passages are enough or none is left."""
    question, passages, history = fields["question"], fields["passages"], fields["history"]
    intermediate = resp.answer_sub_question(history[-1]["sub_question"], passages) if history and passages else None
    pairs = [*history[:-1], {**history[-1], "answer": intermediate}] if history else []
    if not fields["conclude"]:
        answers = {normalise(pair["sub_question"]): pair["answer"] for pair in pairs}
        for query in queries_left(read_path(question, passages), answers):
            return {"intermediate": intermediate, "follow_up": query, "answer": None}
    return {"intermediate": intermediate, "follow_up": None, "answer": answer_if_any(question, passages)["answer"]}


# --- ReAct, agent and Toolformer --------------------------------------------------------------------------------------


def react_act(fields: Fields) -> Value:
    """Search for what is still open, or finish with the answer."""
    searches = [step["argument"] for step in fields["steps"] if step["action"] in ("Search", "search")]
    query = _next_query(fields["question"], _passages(fields["steps"]), searches)
    if query:
        return {"thought": f"Still open: {query}", "action": "Search", "argument": query}
    return {"thought": None, "action": "Finish", "argument": react_finish(fields)["answer"]}


def react_finish(fields: Fields) -> Value:
    """Answer from all observations."""
    return answer_if_any(fields["question"], _passages(fields["steps"]))


def agent_act(fields: Fields) -> Value:
    """Call the search for what is still open, or answer. Documents are not looked into."""
    move = react_act(fields)
    return {CALLS: [("search", {"query": move["argument"]})]} if move["action"] == "Search" else react_finish(fields)


def toolformer_write(fields: Fields) -> Value:
    """Write a call for what is still open, or the answer."""
    written = fields["written"]
    query = _next_query(fields["question"], _passages(written), [piece["query"] for piece in written])
    answer = None if query else toolformer_finish(fields)["answer"]
    return {"text": f"Still open: {query}" if query else None, "query": query, "answer": answer}


def toolformer_finish(fields: Fields) -> Value:
    """Answer from the results of all calls."""
    return answer_if_any(fields["question"], _passages(fields["written"]))


def search_agent_write(fields: Fields) -> Value:
    """Write a query for what is still open, or the answer, in the tags of the protocol."""
    steps, is_led = fields["steps"], fields["draft"].endswith(fields["tags"]["answer"][0])
    query = None if is_led else _next_query(fields["question"], _passages(steps), [step["query"] for step in steps])
    answer = None if query else answer_if_any(fields["question"], _passages(steps))["answer"]
    opening, closing = fields["tags"]["search" if query else "answer"]
    return {"text": f"{opening}{query or answer}{closing}", "query": query, "answer": answer}


# --- Tree of Thoughts -------------------------------------------------------------------------------------------------


def tot_propose(fields: Fields) -> Value:
    """Propose the next sub-questions, best first, with the answers so far in their slots; the question at the end."""
    answers = {normalise(pair["sub_question"]): pair["answer"] for pair in fields["history"]}
    queries = {normalise(query): query for query in open_queries(read_path(fields["question"], ()), answers)}
    return {"sub_questions": list(queries.values())[: fields["count"]] or [fields["question"]]}


def tot_value(fields: Fields) -> Value:
    """Answer a sub-question if the passages do; it is "sure" if they settle the question itself."""
    passages = fields["passages"]
    answer = resp.answer_sub_question(fields["sub_question"], passages) if passages else None
    if answer is None:
        return {"answer": None, "value": "impossible"}
    return {"answer": answer, "value": "sure" if is_settled(read_path(fields["question"], passages)) else "likely"}


# --- a sentence at a time: IRCoT, FLARE, DSP --------------------------------------------------------------------------


def cot_sentence(fields: Fields) -> Value:
    """Write the next sentence of a chain of thought: the next step with its value, or the answer where the passages
    are enough, the steps end, or none is left.

    A sentence is "What is the director of Alien? Ridley Scott."; its value is "…" if the passages do not give it, and
    "unknown" if there are none. The confidence is low there.
    """
    question, passages = fields["question"], fields["passages"] or ()
    pairs = [_pair(text) for text in fields["reasoning"] or ()]
    reading = read_path(question, passages)
    for query in () if is_settled(reading) else _open_steps(reading, pairs):
        if not passages:
            return _sentence(f"{_CLOSED}{query} {UNKNOWN}", UNKNOWN, _UNSURE)
        value = resp.answer_sub_question(query, passages) if query.endswith("?") else None
        if value is not None:
            pathway = [*pairs, {"sub_question": query, "response": value}]
            answer, _ = resp.follow_memory(question, {"global_evidence": [], "local_pathway": pathway})
            if answer:
                return _sentence(f"So the answer is {answer}", answer, _SURE)
            return _sentence(f"{query} {value}", value, _SURE)
        if not pairs or query != pairs[-1]["sub_question"]:
            return _sentence(f"{query} {OPEN}", OPEN, _UNSURE)
    answer, solution = best_answer(question, passages)
    if answer is None:
        guess = answer_without_passages(question)["answer"]
        return _sentence(f"So the answer is {guess}", guess, _UNSURE)
    confidence = answer_probabilities(solution).get(answer, _UNSURE)
    return _sentence(f"So the answer is {answer}", answer, max(MIN_CONFIDENCE, min(1.0, confidence)))


def _open_steps(reading: PathReading, pairs: Sequence[Pair]) -> Iterator[str]:
    """The last step again if it has no value yet, then the steps not asked about."""
    if pairs and pairs[-1]["response"] is None and pairs[-1]["sub_question"]:
        yield pairs[-1]["sub_question"]
    yield from open_queries(reading, {normalise(pair["sub_question"] or ""): pair["response"] for pair in pairs})


def _sentence(text: str, answer: str, confidence: float) -> Value:
    end = "" if text.endswith((".", OPEN)) else "."
    return {"sentence": f"{text}{end}", ANSWER_CONFIDENCE: (answer, round(confidence, 3))}


def _pair(text: str) -> Pair:
    """Parse a step and its value from a sentence."""
    query, mark, value = text.removeprefix(_CLOSED).partition("? ")
    query = f"{query}?" if mark else query.rstrip(f" {OPEN}")
    known = value.rstrip(f".{OPEN}")
    return {"sub_question": query, "response": known if known not in ("", UNKNOWN) else None}


def flare_question(fields: Fields) -> Value:
    """Ask the question that a phrase answers: the step of its sentence, else the whole question."""
    query, mark, _ = fields["sentence"].removeprefix(_CLOSED).partition("? ")
    return {"sub_question": f"{query}?" if mark else fields["question"]}


def dsp_hop(fields: Fields) -> Value:
    """Note the passages; query the step that the notes wait for, or none if the notes are enough."""
    question, passages, notes = fields["question"], fields["passages"] or (), list(fields["summaries"] or ())
    if not passages and not notes:
        return {"summary": None, "query": question}
    if summary := resp.note(question, passages):
        notes.append(summary)
    memory = resp.memory_of(notes)
    query = None if resp.is_enough(question, memory) else resp.next_sub_question(question, memory, [question])
    return {"summary": summary or None, "query": query or None}


# --- summaries: SuRe, RECOMP, Verify-and-Edit -------------------------------------------------------------------------


def sure_candidates(fields: Fields) -> Value:
    """List the answer, then the next most probable ones."""
    best, solution = best_answer(fields["question"], fields["passages"])
    probabilities = answer_probabilities(solution)
    ranked = [best or UNKNOWN, *sorted(probabilities, key=lambda answer: -probabilities[answer])]
    distinct = {normalise(answer): answer for answer in reversed(ranked)}
    return {"candidates": list(distinct.values())[::-1][: fields["count"]]}


def sure_summarize(fields: Fields) -> Value:
    """Summarize what supports a candidate: a note from the passages that name it, else from all."""
    question, candidate, passages = fields["question"], fields["candidate"], fields["passages"]
    naming = [p for p in passages if find_folded(candidate, f"{p.title}\n{p.text}")]
    return {"summary": resp.note(question, naming) or resp.note(question, passages)}


def sure_validate(fields: Fields) -> Value:
    """Call a summary valid if reading it gives the candidate."""
    answer = resp.answer_from_memory(fields["question"], resp.memory_of([fields["summary"]]))
    return {"valid": normalise(answer or "") == normalise(fields["candidate"])}


def sure_rank(fields: Fields) -> Value:
    """Prefer the summary that is more likely to be enough."""
    first, second = (
        sufficiency(read_path(fields["question"], resp.memory_passages(resp.memory_of([summary]))))
        for summary in fields["summaries"][:2]
    )
    return {"better": None if first == second else 1 if first > second else 2}


def answer_from_summary(question: str, summary: str) -> Value:
    """Answer from a summary; without one, nothing is known."""
    answer = resp.answer_from_memory(question, resp.memory_of([summary]))
    return {"rationale": None, "answer": answer or answer_without_passages(question)["answer"]}


# --- ERA-CoT ----------------------------------------------------------------------------------------------------------


def era_entities(fields: Fields) -> Value:
    """List the subjects of the passages, and what the rules find stated of them."""
    parts = [part for triplet in stated_triplets(fields["passages"]) for part in (triplet["head"], triplet["tail"])]
    titles = [passage.title for passage in fields["passages"]]
    return {"entities": [entity for entity in dict.fromkeys([*titles, *parts]) if entity.strip()]}


def stated_triplets(passages: Sequence[Passage]) -> list[dict[str, str]]:
    """The triplets of passages without those that contain a whole sentence."""
    triplets = (triplet for passage in passages[:_MAX_READ] for triplet in ge.passage_triplets(passage))
    return [triplet for triplet in triplets if triplet["relation"] != ge.STATES]


def era_infer(fields: Fields) -> Value:
    """Infer a relation from each two that meet in an entity.

    >>> stated = [{"head": "Mill", "relation": "director", "tail": "Ann Lee"}]
    >>> stated += [{"head": "Ann Lee", "relation": "birth place", "tail": "Rome"}]
    >>> era_infer({"triplets": stated})["triplets"]
    [{'head': 'Mill', 'relation': 'birth place of its director', 'tail': 'Rome'}]
    """
    by_head: dict[str, list[Mapping[str, str]]] = {}
    for triplet in fields["triplets"]:
        by_head.setdefault(fold(triplet["head"]), []).append(triplet)
    inferred = [
        {"head": first["head"], "relation": f"{then['relation']} of its {first['relation']}", "tail": then["tail"]}
        for first in fields["triplets"]
        for then in by_head.get(fold(first["tail"]), ())[:_MAX_INFERRED]
        if then is not first
    ]
    return {"triplets": inferred[:_MAX_INFERRED]}


# --- Adaptive-RAG and Corrective RAG ----------------------------------------------------------------------------------


def route_choose(fields: Fields) -> Value:
    """Search several times for a chain of steps or a comparison; without a search nothing is known."""
    parsed = parse_question(fields["question"])
    return {"strategy": "multi" if parsed.comparison or len(decompose(parsed.text)) > 1 else "single"}


def crag_rewrite(fields: Fields) -> Value:
    """Search for the first step of the question."""
    return {"query": next(open_queries(read_path(fields["question"], ()), {}))}


# --- KnowTrace --------------------------------------------------------------------------------------------------------


def knowtrace_explore(fields: Fields) -> Value:
    """Ask for what the facts leave open, a pair per thing compared; answer if they are enough or nothing is left."""
    question, passages = fields["question"], ge.passages_of(fields["triplets"])
    if queries := list(queries_left(read_path(question, passages), {})):
        count = 2 if parse_question(question).comparison else 1
        return {"rationale": None, "pairs": [_entity_and_relation(query) for query in queries[:count]], "answer": None}
    return {**answer_if_any(question, passages), "pairs": []}


def _entity_and_relation(query: str) -> str:
    """The subject and the relation that a query asks for; the whole query as both if it is not understood."""
    steps = decompose(query)
    return f"{steps[0].subject}; {steps[0].relation or query}" if len(steps) == 1 else f"{query}; facts"


def answer_from_triplets(fields: Fields) -> Value:
    """Answer from facts; without any, nothing is known."""
    return answer_if_any(fields["question"], ge.passages_of(fields["triplets"]))


# --- T²RAG ------------------------------------------------------------------------------------------------------------


def with_placeholders(triplets: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Write the variables of a question's triplets as placeholders.

    >>> with_placeholders([{"head": "name: #1", "relation": "birth date", "tail": "date: #2"}])
    [{'head': '?name1', 'relation': 'birth date', 'tail': '?date2'}]
    """
    return [{name: _VARIABLE.sub(r"?\1\2", part) for name, part in triplet.items()} for triplet in triplets]


def resolve_triplets(fields: Fields) -> Value:
    """Ask what each open triplet leaves open, and put the answer into it and into the others; a triplet at a time."""
    passages = [*fields["passages"], *ge.passages_of(fields["facts"])]
    values: dict[str, str] = {}
    resolved = []
    for triplet in fields["triplets"]:
        filled = {name: values.get(part, part) for name, part in triplet.items()}
        holes = [name for name in ("head", "tail") if filled[name].startswith("?")]
        if len(holes) == 1 and passages:
            asked = ge.question_about({**filled, holes[0]: "name: #1"})
            answer, _ = best_answer(asked, passages)
            if answer:
                values[filled[holes[0]]] = answer
                filled = {name: values.get(part, part) for name, part in filled.items()}
        if filled != triplet:
            resolved.append({name: part.replace(";", ",") for name, part in filled.items()})
    return {"triplets": resolved}
