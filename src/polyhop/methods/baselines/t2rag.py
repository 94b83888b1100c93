"""T²RAG: the question as triplets with placeholders, which triplets of the corpus fill in, until the answer follows.

Gong, Tang, He, Yang, Jin: "Beyond Chunks and Graphs: Retrieval-Augmented Generation through Triplet-Driven Thinking",
2025 (arXiv 2508.02435). Code: github.com/rockcor/T2RAG.

Followed: the question becomes triplets. One without a placeholder is resolved, one with a single placeholder can be
searched for, one with more is fuzzy. A round searches for each triplet that is not fuzzy, without its placeholder, and
for the question, by the nearest triplets of the corpus until ``k`` passages are found; from these triplets and their
passages one call fills in placeholders. What is resolved is kept, what is left of the others is the next round's. When
all are resolved, or after three rounds, the question is answered from the resolved triplets alone.
Followed if the retriever has the triplets of the corpus (``triplets:FILE``, which ``polyhop index triplets`` or
HippoRAG wrote); over any other retriever, passages are searched, and the call sees them without triplets.
Settled here: placeholders have names; an entity that is found is put into every open triplet that has its placeholder,
also where the reply did not. An open triplet that the reply does not mention stays open (the code drops it). The
searches of a round are made at once, and their hits fused by rank; a query is searched once, and a round without a new
one ends the loop. If nothing is resolved, the question is answered by ``cot``. Needs nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" becomes (Kon-Tiki expedition; leader; ?person)
and (?person; birth place; ?town). "Kon-Tiki expedition leader" is searched: (Kon-Tiki expedition; leader; Thor
Heyerdahl) is resolved, and (Thor Heyerdahl; birth place; ?town) can be searched for. It becomes Larvik.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyhop.answer import Answer
from polyhop.common.text import distinct
from polyhop.methods.baselines.one_shot import chain_of_thought
from polyhop.methods.context import first_retrieved, fit_fields, fused_by_rank
from polyhop.methods.graph import ENDS, Triplet, triplet_text
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.knowledge import T2RAG_DECOMPOSE, T2RAG_RESOLVE, TRIPLETS_ANSWER
from polyhop.prompts.triplets import as_triplets, key
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


@method(
    "t2rag",
    family="iterative",
    calls=4,
    paper="T²RAG (Gong et al., 2025)",
    layers=lambda settings: int(settings["max_turns"]) + 2,
    needs=("retriever",),
)
async def triplet_driven_thinking(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # passages of a round; the code: 5
    max_turns: Positive = 3,  # N, rounds; the code: 3
    max_searches: Positive = 5,  # of a round, with that for the question
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Decompose the question into triplets, and resolve them from those of the corpus, until none is open."""
    options: Options = {"shots": shots}
    resolved: dict[tuple[str, ...], Triplet] = {}
    unresolved: list[Triplet] = []
    found: dict[str, list[Passage]] = {}  # by query
    evidence: list[Evidence] = []
    rounds = 0

    async def ask(task: Task[Any], *, final: bool = False, **fields: Any) -> Any:
        fields = fit_fields(task, run, options=options, context_tokens=context_tokens, **fields)
        return await run.ask(task, options=options, final=final, **fields)

    async def retrieve() -> tuple[list[Passage], list[Triplet]]:
        """Search for what a round can search for; return its passages, and the triplets by which they were found. There
        are none if all was searched before."""
        searchable = [triplet for triplet in (*unresolved, *resolved.values()) if len(placeholders(triplet)) < 2]
        queries = distinct([*map(query_of, searchable), question], but=found)[:max_searches]
        hits = await run.gather(*(run.search(query, k) for query in queries))
        found.update(zip(queries, hits, strict=True))
        passages = fused_by_rank(hits)[:k]
        return passages, distinct_triplets(triplets_of(hit for each in hits for hit in each if hit in passages))

    async def resolve(passages: Sequence[Passage], facts: Sequence[Triplet]) -> list[Triplet]:
        """Fill in open triplets from passages and their triplets; return what is resolved now."""
        given: dict[str, Any] = {"question": question, "known": [*resolved.values()], "triplets": [*unresolved]}
        reply = await ask(T2RAG_RESOLVE, **given, facts=facts, passages=passages)
        filled = [triplet.model_dump() for triplet in reply.triplets]
        done, unresolved[:] = filled_in(unresolved, filled)
        return done

    with run.gathering():
        stated = [triplet.model_dump() for triplet in (await ask(T2RAG_DECOMPOSE, question=question)).triplets]
        unresolved = [triplet for triplet in stated if placeholders(triplet)]
        resolved = {key(triplet): triplet for triplet in stated if not placeholders(triplet)}
        while rounds < max_turns and (unresolved or not rounds):
            rounds += 1
            with run.branch("round", ", ".join(map(triplet_text, unresolved)) or question) as branch:
                branch.verdict = "nothing new"
                passages, facts = await retrieve()
                if not passages:
                    break
                done = await resolve(passages, facts)
                branch.verdict = "resolved" if not unresolved else "open" if done else "nothing resolved"
                resolved |= {key(triplet): triplet for triplet in done}
                if done:
                    evidence.append(Evidence(tuple(passages), analysis=", ".join(map(triplet_text, done))))

    statistics = {"rounds": rounds, "resolved": len(resolved), "open": len(unresolved)}
    if not evidence:
        return replace(await chain_of_thought(question, run, shots=shots), statistics=statistics)
    answer = await ask(TRIPLETS_ANSWER, final=True, question=question, triplets=[*resolved.values()])
    return Answer(
        answer.answer,
        passages=first_retrieved([piece.passages for piece in evidence] + [*found.values()], rank_limit),
        evidence=tuple(evidence),
        statistics=statistics,
    )


def placeholders(triplet: Triplet) -> list[str]:
    """Return the ends of a triplet that are placeholders."""
    return [triplet[end] for end in ENDS if triplet[end].startswith("?")]


def query_of(triplet: Triplet) -> str:
    """Write a triplet as a query, without its placeholder.

    >>> query_of({"head": "Kon-Tiki expedition", "relation": "leader", "tail": "?person"})
    'Kon-Tiki expedition leader'
    """
    return " ".join(part for part in triplet.values() if not part.startswith("?"))


def triplets_of(passages: Iterable[Passage]) -> list[Triplet]:
    """Return the triplets by which passages were found, if the retriever has them, those of the first passage first."""
    return [triplet for passage in passages for triplet in as_triplets(list(passage.metadata.get("triplets") or ()))]


def distinct_triplets(triplets: Iterable[Triplet]) -> list[Triplet]:
    """Return the distinct triplets, the first wording of each."""
    found: dict[tuple[str, ...], Triplet] = {}
    for triplet in triplets:
        found.setdefault(key(triplet), triplet)
    return [*found.values()]


def filled_in(unresolved: Sequence[Triplet], filled: Sequence[Triplet]) -> tuple[list[Triplet], list[Triplet]]:
    """Put what a reply filled in into the open triplets; return those that are resolved now, and those still open.

    >>> leader = {"head": "Raft", "relation": "leader", "tail": "?person"}
    >>> born = {"head": "?person", "relation": "birth place", "tail": "?town"}
    >>> done, left = filled_in([leader, born], [{**leader, "tail": "Ann"}])
    >>> list(map(triplet_text, done)), list(map(triplet_text, left))
    (['(Raft; leader; Ann)'], ['(Ann; birth place; ?town)'])
    """
    rest, values = list(filled), dict[str, str]()
    now: list[Triplet] = []
    for triplet in unresolved:
        triplet = with_values(triplet, values)
        match = next((other for other in rest if fills(triplet, other)), None)
        if match is not None:
            rest.remove(match)
            values |= {triplet[end]: match[end] for end in ENDS if triplet[end] != match[end]}
            triplet = match
        now.append(triplet)
    now = [with_values(triplet, values) for triplet in now]
    now += [triplet for triplet in rest if not placeholders(triplet)]  # resolved in other words
    return [t for t in now if not placeholders(t)], [t for t in now if placeholders(t)]


def with_values(triplet: Triplet, values: dict[str, str]) -> Triplet:
    """Replace the placeholders of a triplet that have a value."""
    return {name: values.get(part, part) if part.startswith("?") else part for name, part in triplet.items()}


def fills(triplet: Triplet, other: Triplet) -> bool:
    """Return True if ``other`` is an open triplet with a placeholder filled in, and the rest as it was."""
    same = [key(triplet)[i] == key(other)[i] or triplet[end].startswith("?") for i, end in ((0, "head"), (2, "tail"))]
    return all(same) and key(triplet)[1] == key(other)[1] and len(placeholders(other)) < len(placeholders(triplet))
