"""IRCoT: each sentence of a chain of thought is the next query; then a reader answers from all passages.

Trivedi, Balasubramanian, Khot, Sabharwal: "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-
Intensive Multi-Step Questions", 2023; details that the paper leaves out are those of its repository.

Followed: the question is searched first. Then one more sentence is written from all passages so far and searched, until
a sentence says "answer is" or 10 are written. The first 15 passages are collected; those of more than 600 words are
dropped, and 350 words of the others are shown. The query is the last sentence that is not a mere conclusion (thus, so,
therefore, arithmetic), without its wh-words, "does" and "is". The chain's own answer is not used: a separate reader
answers from the passages, by chain of thought or directly (§3).
Settled here: 5 passages per query and 3 searches, the common set-up (the paper tunes 2 to 8 passages and limits only
the sentences). A sentence after the last search would change nothing and is not written. A repeated query is not
searched again, but its sentence counts. A repeated or unreadable sentence ends the chain. Passages are compared by id,
not by their words. Needs nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" The question finds the expedition; "It was led
by Thor Heyerdahl." finds his page; "Thor Heyerdahl was born in Larvik." is searched too, and the reader says Larvik.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import Style, answer_from_passages, first_retrieved, next_sentence, reading
from polyhop.methods.registry import method
from polyhop.types import NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

_CONCLUSION = re.compile(r"\W*(?:(?:thus|so)\b|that is,|therefore|hence)|.*\d\s*=\s*\d", re.IGNORECASE | re.DOTALL)
_LEFT_OUT = frozenset("who what when where why which how does is".split())


@method(
    "ircot",
    family="iterative",
    calls=2,
    paper="Trivedi et al., 2023",
    layers=lambda settings: int(settings["max_sentences"]) * (settings["max_turns"] > 1) + 1,
    needs=("retriever",),
)
async def interleaving_retrieval(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3; the paper: 2, 4, 6 or 8
    max_turns: Positive = 3,  # ToR §4.3: maximum number of searches, with the question's
    max_sentences: Positive = 10,  # maximum number of sentences of the chain
    style: Style = "cot",  # of the reader
    most_words: Positive = 600,  # longer passages are dropped
    shown_words: Positive = 350,  # maximum number of words shown of a passage
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,
) -> Answer:
    """Write a sentence, search for it, write the next; then read the answer from all passages (§3)."""
    options: Options = {"shots": shots}
    reasoning: list[str] = []
    asked: list[str] = []
    passages: tuple[Passage, ...] = ()

    with run.gathering():
        query = question
        while True:
            if normalise(query) not in map(normalise, asked):
                with run.branch("turn", query):
                    hits = await run.search(query, k)
                asked.append(query)
                kept = [passage for passage in hits if len(passage.text.split()) <= most_words]
                passages = first_retrieved([passages, kept], rank_limit)
            if len(asked) == max_turns or len(reasoning) == max_sentences:
                break
            shown = shortened(passages, shown_words)
            step = await next_sentence(question, reasoning, shown, run, options=options, context_tokens=context_tokens)
            if step is None:
                break
            reasoning.append(step.sentence)
            if step.answer:
                break
            query = next_query(reasoning) or question

    shown = shortened(passages, shown_words)
    task, fields = reading(question, shown, run, style=style, options=options, context_tokens=context_tokens)
    response = await run.ask(task, options=options, final=True, **fields)
    return answer_from_passages(
        passages,
        response.answer,
        statistics={"sentences": len(reasoning), "searches": len(asked)},
    )


def shortened(passages: Sequence[Passage], max_words: int) -> list[Passage]:
    """Cut the passages to their first ``max_words`` words."""
    counted = [(passage, passage.text.split()) for passage in passages]
    return [
        replace(passage, text=" ".join(words[:max_words])) if len(words) > max_words else passage
        for passage, words in counted
    ]


def next_query(reasoning: Sequence[str]) -> str | None:
    """Return the last sentence that is not a mere conclusion, without its wh-words; None if there is none.

    >>> next_query(["Alien, which came out in 1979, is by Ridley Scott.", "So it is by an Englishman."])
    'Alien, came out in 1979, by Ridley Scott.'
    """
    for sentence in reversed(reasoning):
        query = " ".join(word for word in sentence.split() if word.lower() not in _LEFT_OUT)
        if not _CONCLUSION.match(sentence) and normalise(query):
            return query
    return None
