"""ERA-CoT: a chain of thought after an analysis of the entities in the passages and of the relations between them.

Liu, Peng, Du, Yin, Liu, Zhang: "ERA-CoT: Improving Chain-of-Thought through Entity Relationship Analysis", 2024. Code:
github.com/OceannTwT/era-cot.

Followed (§3): entities are extracted, then the relations stated between them; from these, implied relations are
inferred. Each inferred relation is scored from 0 to 10, and low scores are dropped. The question is answered by a chain
of thought over entities and relations. ``per_pair`` and ``keep_from`` have the values of the code, 5 and 6.
As in GE-Reasoning §4.3, the context comes from one retrieval, not from gold passages. Settled here: 5 passages; one
call per step, as in the code without its option for self-consistency; one call scores all inferred relations. A step
without a result is skipped, and a relation that is already stated is not inferred again. Needs nothing beyond
completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" Stated: (Kon-Tiki expedition; led by; Thor
Heyerdahl), (Thor Heyerdahl; birth place; Larvik). Inferred: (Kon-Tiki expedition; birth place of its leader; Larvik),
scored 10, and (Thor Heyerdahl; died in; Larvik), scored 1 and dropped. The answer is Larvik.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.methods.baselines.one_shot import chain_of_thought
from polyhop.methods.context import fit_fields
from polyhop.methods.graph import triplet_text
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.era_cot import (
    ERA_COT_ANSWER,
    ERA_COT_ENTITIES,
    ERA_COT_INFER,
    ERA_COT_RELATIONS,
    ERA_COT_SCORE,
)
from polyhop.prompts.tasks.ge import Triplets
from polyhop.prompts.triplets import key
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

Relation: TypeAlias = dict[str, str]
"""``head``, ``relation`` and ``tail``."""


@method(
    "era-cot",
    family="one retrieval",
    calls=5,
    paper="Liu et al., 2024",
    layers=lambda settings: 3 + settings["implicit"] + (settings["implicit"] and settings["discriminate"]),
    needs=("retriever",),
)
async def entity_relationship_analysis(
    question: str,
    run: Run,
    *,
    k: Positive = 5,
    implicit: bool = True,  # §3.3: relations are inferred
    per_pair: Positive = 5,  # maximum number of inferred relations per pair of entities
    discriminate: bool = True,  # §3.4: inferred relations are scored
    keep_from: Annotated[float, Ge(0), Le(10)] = 6,  # minimum score, 0 to 10, of a relation that is kept
    shots: NonNegative = 3,  # the paper: 0
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,
) -> Answer:
    """Extract entities and relations from the passages, infer and score more of them, then answer (§3)."""
    hits: list[Passage] = []
    entities: list[str] = []
    stated: list[Relation] = []
    inferred: list[Relation] = []
    kept: list[Relation] = []

    async def ask(task: Task[Any], *, final: bool = False, **fields: Any) -> Any:
        options: Options = {"shots": shots}
        given = {"question": question, "passages": hits[:k], **fields}
        given = fit_fields(task, run, options=options, context_tokens=context_tokens, **given)
        return await run.ask(task, options=options, final=final, **given)

    with run.gathering():
        hits = await run.search(question, max(k, rank_limit))
        if hits:
            extracted = await ask(ERA_COT_ENTITIES)  # §3.1
            entities = [entity for entity in extracted.entities if entity]
            stated = distinct(await ask(ERA_COT_RELATIONS, entities=entities))  # §3.2
        if stated and implicit:
            implied = await ask(ERA_COT_INFER, entities=entities, triplets=stated, count=per_pair)  # §3.3
            inferred = distinct(implied, but=stated)
            kept = [] if discriminate else inferred
        if inferred and discriminate:
            scored = await ask(ERA_COT_SCORE, triplets=inferred)  # §3.4
            kept = [triplet for triplet, score in zip(inferred, scored.scores, strict=False) if score >= keep_from]

    if not hits:
        return await chain_of_thought(question, run, shots=shots)
    run.note(
        "relations",
        stated=[triplet_text(triplet) for triplet in stated],
        kept=[triplet_text(triplet) for triplet in kept],
    )
    response = await ask(ERA_COT_ANSWER, final=True, entities=entities, triplets=[*stated, *kept])  # §3.5
    return Answer(
        response.answer,
        passages=tuple(hits[:rank_limit]),
        evidence=(Evidence(tuple(hits[:k]), response.answer),),
        statistics={"entities": len(entities), "stated": len(stated), "inferred": len(inferred), "kept": len(kept)},
    )


def distinct(found: Triplets, *, but: Sequence[Relation] = ()) -> list[Relation]:
    """Return the distinct relations of a reply, without those in ``but``."""
    known = set(map(key, but))
    by_key = {key(relation): relation for relation in (triplet.model_dump() for triplet in found.triplets)}
    return [relation for name, relation in by_key.items() if name not in known]
