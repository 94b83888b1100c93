"""The tasks of ReSP: notes from passages, and answers and plans from the memories of notes and responses.

A note is ``[Title] sentences`` per passage that helps, so that a memory can be read as passages again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from polyhop.common.sentences import sentences
from polyhop.common.text import find_folded, normalise
from polyhop.lm.pocket.reading.answer import (
    PathReading,
    bridge_candidates,
    bridge_score,
    next_query,
    read_path,
    unmet_words,
)
from polyhop.lm.pocket.reading.chain import Step, decompose, follow_chain
from polyhop.lm.pocket.reading.judge import sufficiency
from polyhop.lm.pocket.reading.passage import ParsedPassage
from polyhop.lm.pocket.reading.weighing import best_answer, promises
from polyhop.lm.pocket.tasks.reading import Fields, Value
from polyhop.types import Passage

_HELPS_ABOVE = 0.1  # the promise of a passage that is noted
_ANSWERED_ABOVE = 0.5  # the sufficiency of passages that answer a sub-question
_ENOUGH_ABOVE = 0.6  # the sufficiency of a memory
_MAX_WORDS = 150  # of a note
_MAX_NOTED = 2  # passages per note
_NOTE = re.compile(r"\[([^\[\]]*)\]")

Memory = Mapping[str, Any]


def respond(fields: Fields) -> Value:
    """Answer a sub-question from the passages, or from the memories if those are given instead."""
    passages = fields["passages"] if fields["memory"] is None else memory_passages(fields["memory"])
    response = answer_sub_question(fields["sub_question"], passages)
    return {"answered": response is not None, "response": response}


# --- notes ------------------------------------------------------------------------------------------------------------


def note(question: str, passages: Sequence[Passage]) -> str:
    """Note the sentences of the passages that match the question best; "" if no passage helps.

    >>> note("Who directed Dark Mill?", [Passage("1", "Dark Mill", "Dark Mill is a film directed by Rolf Anders.")])
    '[Dark Mill] Dark Mill is a film directed by Rolf Anders.'
    """
    chosen = _helpful(question, passages)
    words = _MAX_WORDS // max(1, len(chosen))
    return " ".join(f"[{re.sub(r'[][]', ' ', p.title)}] {_excerpt(question, p, words)}" for p in chosen)


def _helpful(question: str, passages: Sequence[Passage]) -> list[Passage]:
    """The most promising passages, in their given order."""
    promise = promises(question, passages)
    best = sorted(range(len(passages)), key=lambda i: -promise[i])[:_MAX_NOTED]
    return [passages[i] for i in sorted(best) if promise[i] >= _HELPS_ABOVE]


def _excerpt(question: str, passage: Passage, max_words: int) -> str:
    """The first sentence and those that match the question best, about ``max_words`` words, in their given order."""
    all_sentences = sentences(passage.text)
    if len(passage.text.split()) <= max_words:
        return " ".join(all_sentences)
    match = read_path(question, [passage]).matches.by_page[0]
    chosen: set[int] = set()
    words = 0
    for i in sorted(range(len(all_sentences)), key=lambda i: (i > 0, -match.by_sentence.get(i, 0.0))):
        length = len(all_sentences[i].split())
        if words and words + length > max_words:
            break
        chosen.add(i)
        words += length
    return " ".join(all_sentences[i] for i in sorted(chosen))


# --- memories ---------------------------------------------------------------------------------------------------------


def memory_of(notes: Sequence[str]) -> Memory:
    """A memory of notes alone."""
    return {"global_evidence": notes, "local_pathway": []}


def memory_passages(memory: Memory) -> list[Passage]:
    """A memory as passages: per title its notes, then the responses about the thing of that name."""
    texts: dict[str, list[str]] = {}
    for evidence in memory["global_evidence"]:
        lead, *notes = _NOTE.split(evidence)
        for title, text in [("", lead), *zip(notes[::2], notes[1::2], strict=True)]:
            if text.strip() and text.strip() not in texts.setdefault(title.strip(), []):
                texts[title.strip()].append(text.strip())
    for pair in memory["local_pathway"]:
        if pair["response"] and (name := _bare_name(pair["sub_question"])):
            texts.setdefault(name, []).append(pair["response"])
    return [Passage(f"memory {i}", title, " ".join(parts)) for i, (title, parts) in enumerate(texts.items()) if parts]


def _bare_name(sub_question: str) -> str | None:
    """The name that a sub-question consists of, if it is no question."""
    return None if sub_question.endswith("?") else sub_question


def answer_sub_question(sub_question: str, passages: Sequence[Passage]) -> str | None:
    """Answer a sub-question if the passages are enough for it; describe the thing if it is a bare name."""
    if name := _bare_name(sub_question):
        own = next((p for p in passages if normalise(p.title) == normalise(name)), None)
        return next(iter(sentences(own.text)), None) if own else None
    answer, solution = best_answer(sub_question, passages)
    if answer is None or solution.complete:
        return answer
    sources = [passage for passage in passages if find_folded(answer, passage.text)]
    best = max((sufficiency(read_path(sub_question, [passage])) for passage in sources), default=0.0)
    return answer if best >= _ANSWERED_ABOVE else None


def follow_memory(question: str, memory: Memory) -> tuple[str | None, str | None]:
    """Follow the chain of a question through responses and notes: its answer if it ends, else the step it waits for."""
    pages = read_path(question, memory_passages(memory)).pages
    responses = {normalise(pair["sub_question"]): pair["response"] for pair in memory["local_pathway"]}
    values: list[str] = []
    for open_step in decompose(question):
        step = _filled(open_step, values)
        value = responses.get(normalise(step.question)) or _step_value(step, pages)
        if value is None:
            return None, step.question
        values.append(value)
    return (values[-1] if values else None), None


def _step_value(step: Step, pages: Sequence[ParsedPassage]) -> str | None:
    value = follow_chain([step], pages)[0].value
    return value.text if value else None


def _filled(step: Step, values: Sequence[str]) -> Step:
    """Replace each "#k" of a step by the value found for it."""

    def fill(text: str) -> str:
        return re.sub(r"#(\d+)", lambda slot: values[int(slot[1]) - 1] if 0 < int(slot[1]) <= len(values) else "", text)

    return Step(fill(step.subject), step.relation, fill(step.question))


def answer_from_memory(question: str, memory: Memory) -> str | None:
    """Answer from a memory: the end of the chain, else an answer read from the notes."""
    answer, solution = best_answer(question, memory_passages(memory))
    if solution.complete:
        return answer
    return follow_memory(question, memory)[0] or answer


def is_enough(question: str, memory: Memory) -> bool:
    """True if a memory settles the question."""
    if follow_memory(question, memory)[0] is not None:
        return True
    return sufficiency(read_path(question, memory_passages(memory))) >= _ENOUGH_ABOVE


def next_sub_question(question: str, memory: Memory, asked: Sequence[str]) -> str:
    """The next sub-question that was not asked yet; "" if none suggests itself."""
    known = set(map(normalise, asked))
    for suggestion in _suggestions(question, memory):
        if normalise(suggestion) and normalise(suggestion) not in known:
            return suggestion
    return ""


def _suggestions(question: str, memory: Memory) -> Iterator[str]:
    """The step that the chain waits for, the name of a missing page, then other names that the notes lead to."""
    reading = read_path(question, memory_passages(memory))
    if not reading.solution.verdict and (waiting := follow_memory(question, memory)[1]):
        yield waiting
    if query := next_query(reading):
        yield query
    yield from _bridge_queries(reading)


def _bridge_queries(reading: PathReading) -> Iterator[str]:
    """Names that may lead on, best first, each with the words of the question that no note has."""
    scored = [(bridge_score(reading, *candidate), candidate[0].text) for candidate in bridge_candidates(reading)]
    for _, name in sorted(scored, key=lambda pair: -pair[0]):
        yield " ".join([name, *unmet_words(reading)])
