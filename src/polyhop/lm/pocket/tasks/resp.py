"""ReSP's memories: what is noted from passages, and what the notes and the sub-questions' responses come to.

A note is ``[Title] sentences`` for every passage that helps, so that a memory can be opened as pages again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from polyhop.common.text import find_folded, normalise, sentences
from polyhop.lm.pocket.reading.chains import follow
from polyhop.lm.pocket.reading.descriptions import Step, chain
from polyhop.lm.pocket.reading.judge import sufficient
from polyhop.lm.pocket.reading.narrowing import best_answer, promises
from polyhop.lm.pocket.reading.passage import Page
from polyhop.lm.pocket.reading.queries import bridge_candidates, bridge_score, next_query, unmet_words
from polyhop.lm.pocket.reading.study import Study, study
from polyhop.types import Passage

HELPS_ABOVE = 0.1  # the promise of a passage that is noted
ANSWERED_ABOVE = 0.5  # the sufficiency of passages that answer a sub-question
ENOUGH_ABOVE = 0.6  # the sufficiency of a memory
_MOST_WORDS = 150  # of a note
_MOST_NOTED = 2  # passages of one note
_NOTE = re.compile(r"\[([^\[\]]*)\]")

Memory = Mapping[str, Any]


def note(question: str, passages: Sequence[Passage]) -> str:
    """What the passages hold that bears on the question: the sentences that match it best; "" where nothing does.

    >>> note("Who directed Dark Mill?", [Passage("1", "Dark Mill", "Dark Mill is a film directed by Rolf Anders.")])
    '[Dark Mill] Dark Mill is a film directed by Rolf Anders.'
    """
    chosen = _helping(question, passages)
    words = _MOST_WORDS // max(1, len(chosen))
    return " ".join(f"[{re.sub(r'[][]', ' ', p.title)}] {_excerpt(question, p, words)}" for p in chosen)


def _helping(question: str, passages: Sequence[Passage]) -> list[Passage]:
    """The passages that promise enough; the best few, in their order."""
    promise = promises(question, passages)
    best = sorted(range(len(passages)), key=lambda at: -promise[at])[:_MOST_NOTED]
    return [passages[at] for at in sorted(best) if promise[at] >= HELPS_ABOVE]


def _excerpt(question: str, passage: Passage, most: int) -> str:
    """The first sentence and those that match the question best, about ``most`` words, in their order."""
    told = sentences(passage.text)
    if len(passage.text.split()) <= most:
        return " ".join(told)
    sight = study(question, [passage]).seen.sights[0]
    kept: set[int] = set()
    words = 0
    for number in sorted(range(len(told)), key=lambda number: (number > 0, -sight.by_sentence.get(number, 0.0))):
        if words and words + len(told[number].split()) > most:
            break
        kept.add(number)
        words += len(told[number].split())
    return " ".join(told[number] for number in sorted(kept))


def opened(memory: Memory) -> list[Passage]:
    """A memory as passages: the notes of every title together, then what was answered of a thing itself."""
    texts: dict[str, list[str]] = {}
    for written in memory["global_evidence"]:
        lead, *notes = _NOTE.split(written)
        for title, text in [("", lead), *zip(notes[::2], notes[1::2], strict=True)]:
            if text.strip() and text.strip() not in texts.setdefault(title.strip(), []):
                texts[title.strip()].append(text.strip())
    for pair in memory["local_pathway"]:
        if pair["response"] and (name := _about(pair["sub_question"])):
            texts.setdefault(name, []).append(pair["response"])
    return [Passage(f"memory {at}", title, " ".join(told)) for at, (title, told) in enumerate(texts.items()) if told]


def _about(sub_question: str) -> str | None:
    """The thing that a sub-question of nothing but its name asks about."""
    return None if sub_question.endswith("?") else sub_question


def respond(sub_question: str, passages: Sequence[Passage]) -> str | None:
    """The answer to a sub-question, where the passages are enough for one; of a thing itself, what it is."""
    if name := _about(sub_question):
        own = next((p for p in passages if normalise(p.title) == normalise(name)), None)
        return next(iter(sentences(own.text)), None) if own else None
    answer, solution = best_answer(sub_question, passages)
    if answer is None or solution.complete:
        return answer
    holding = [passage for passage in passages if find_folded(answer, passage.text)]
    sure = max((sufficient(study(sub_question, [passage])) for passage in holding), default=0.0)
    return answer if sure >= ANSWERED_ABOVE else None


def walk(question: str, memory: Memory) -> tuple[str | None, str | None]:
    """Follow the question's chain through responses and notes: its answer if it ends, else the step it waits for."""
    pages = study(question, opened(memory)).pages
    said = {normalise(pair["sub_question"]): pair["response"] for pair in memory["local_pathway"]}
    values: list[str] = []
    for waiting in chain(question):
        step = _filled(waiting, values)
        value = said.get(normalise(step.question)) or _followed(step, pages)
        if value is None:
            return None, step.question
        values.append(value)
    return (values[-1] if values else None), None


def _followed(step: Step, pages: Sequence[Page]) -> str | None:
    value = follow([step], pages)[0].value
    return value.text if value else None


def _filled(step: Step, values: Sequence[str]) -> Step:
    """A step whose "#k" are replaced by the values found."""

    def fill(text: str) -> str:
        return re.sub(r"#(\d+)", lambda slot: values[int(slot[1]) - 1] if 0 < int(slot[1]) <= len(values) else "", text)

    return Step(fill(step.subject), step.relation, fill(step.question))


def answer(question: str, memory: Memory) -> str | None:
    """The answer that a memory gives: the end of the chain, else read from the notes."""
    told, solution = best_answer(question, opened(memory))
    if solution.complete:
        return told
    return walk(question, memory)[0] or told


def enough(question: str, memory: Memory) -> bool:
    """Whether a memory settles the question."""
    return walk(question, memory)[0] is not None or sufficient(study(question, opened(memory))) >= ENOUGH_ABOVE


def plan(question: str, memory: Memory, asked: Sequence[str]) -> str:
    """The next sub-question that was not asked yet; "" where nothing new suggests itself."""
    known = set(map(normalise, asked))
    for suggested in _suggestions(question, memory):
        if normalise(suggested) and normalise(suggested) not in known:
            return suggested
    return ""


def _suggestions(question: str, memory: Memory) -> Iterator[str]:
    """The question the chain waits for, the name or words a page is wanted of, then other names the notes lead to."""
    notes = study(question, opened(memory))
    if not notes.solution.verdict and (waiting := walk(question, memory)[1]):
        yield waiting
    if query := next_query(notes):
        yield query
    yield from _names(notes)


def _names(notes: Study) -> Iterator[str]:
    """Names that may lead on, each with the question's words that no note has."""
    weighed = [(bridge_score(notes, *candidate), candidate[0].text) for candidate in bridge_candidates(notes)]
    for _, name in sorted(weighed, key=lambda candidate: -candidate[0]):
        yield " ".join([name, *unmet_words(notes)])
