"""Corrective RAG: passages are graded, refined to the strips that help, and corrected by a second search if they fail.

Yan, Gu, Zhu, Ling: "Corrective Retrieval Augmented Generation", 2024. Code: github.com/HuskyInSalt/CRAG.

Followed: each passage is graded. If one reaches ``upper``, the retrieval is correct: the passages are refined. If none
reaches ``lower``, it is incorrect: they are dropped, and a rewritten query is searched, whose results are refined. In
between it is ambiguous: both are read. To refine is to cut passages into strips of a few sentences, to grade each, and
to put the best ones together again in their order.
Settled here: the grades are those of ``rerank.grade``, 0 to 4, by a prompt; the paper trains a T5 whose scores run from
-1 to 1. Its thresholds for PopQA, 0.59 and -0.99 in its code, become 3 and 1, so that a passage with one of the facts
is correct and only useless passages are incorrect; that of the strips, -0.5 as far as we could find, becomes 1. Of a
question's strips the best 5 are kept, as the code does of web pages (10 of passages). A passage of two sentences is one
strip, others are cut by three, as in the code. The second search is the web's in the paper; here it is the retriever's,
so take a ``web:`` retriever for that. A model rewrites the query as keywords, at most three. If nothing is left to
read, the question is answered by ``cot``. Needs nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" finds a page about rafts, graded 1, and no
better one: ambiguous. The query "Kon-Tiki expedition, leader, birthplace" finds Thor Heyerdahl's page; of its strips
the one that says he was born in Larvik is graded 4, the one on his honours 0, and only the first is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.common.sentences import sentences
from polyhop.methods.baselines.one_shot import answered_from
from polyhop.methods.context import Style, first_retrieved, fit_fields
from polyhop.methods.registry import method
from polyhop.prompts.tasks.judging import CRAG_REWRITE
from polyhop.prompts.tasks.parts import RERANK_GRADE
from polyhop.types import NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

Grade: TypeAlias = Annotated[int, Ge(0), Le(4)]
Action: TypeAlias = Literal["correct", "ambiguous", "incorrect"]


@method(
    "crag",
    family="iterative",
    calls=16,
    paper="Corrective RAG (Yan et al., 2024)",
    layers=lambda _: 4,
    needs=("retriever",),
)
async def corrective_retrieval(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # ToR §4.3; the code: 10
    upper: Grade = 3,  # §4.3: one passage with this grade makes the retrieval correct
    lower: Grade = 1,  # §4.3: if every passage is below, it is incorrect
    strip_sentences: Positive = 3,  # §4.4: length of a strip
    max_strips: Positive = 5,  # §4.4: of a search
    keep_from: Grade = 1,  # §4.4: minimum grade of a strip
    style: Style = "direct",
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Grade the passages; refine them if they help, search with a rewritten query if not, or do both (§4)."""
    options: Options = {"shots": shots}
    hits: list[Passage] = []
    found: list[Passage] = []  # by the corrective search
    strips: list[Passage] = []  # to read
    statistics: dict[str, float] = {}

    async def grade(passage: Passage) -> int:
        given = {"question": question, "passage": passage}
        fields = fit_fields(RERANK_GRADE, run, options=options, context_tokens=context_tokens, **given)
        return (await run.ask_once(RERANK_GRADE, options=options, **fields)).grade if fields["passage"] else 0

    async def refine(passages: Sequence[Passage]) -> list[Passage]:
        """Return the best strips of the passages, in their order (§4.4)."""
        cut = [strip for passage in passages for strip in strips_of(passage, strip_sentences)]
        grades = await run.gather(*map(grade, cut))
        best = sorted((i for i, reached in enumerate(grades) if reached >= keep_from), key=lambda i: -grades[i])
        return [cut[i] for i in sorted(best[:max_strips])]

    async def correct() -> list[Passage]:
        """Search with a rewritten query, and refine what it finds (§4.5)."""
        query = (await run.ask(CRAG_REWRITE, options=options, question=question)).query or question
        with run.branch("corrective search", query) as branch:
            found[:] = await run.search(query, k)
            refined = await refine(found)
            branch.verdict = "kept" if refined else "nothing found"
        return refined

    with run.gathering():
        hits = await run.search(question, max(k, rank_limit))
        strips = hits[:k]  # as they are, if the budget ends here
        grades = await run.gather(*map(grade, hits[:k]))
        action = judge(grades, upper, lower)
        statistics = {name: float(name == action) for name in get_args(Action)}
        run.note("retrieval", action=action, grades=grades)
        work = [refine(hits[:k])] if action != "incorrect" else []
        work += [correct()] if action != "correct" else []
        strips = [strip for refined in await run.gather(*work) for strip in refined]

    answer = await answered_from(
        question, run, recomposed(strips), k=len(strips), style=style, shots=shots, context_tokens=context_tokens,
        rank_limit=rank_limit,
    )  # fmt: skip
    whole = {passage: passage for passage in (*found, *hits)}
    evidence = [replace(piece, passages=tuple(whole[cut] for cut in piece.passages)) for piece in answer.evidence]
    read = [whole[cut] for cut in answer.passages]
    passages = first_retrieved([read, hits, found], rank_limit)
    return replace(answer, passages=passages, evidence=tuple(evidence), statistics=statistics)


def judge(grades: Sequence[int], upper: int, lower: int) -> Action:
    """Return the action that the grades of all passages call for (§4.3)."""
    best = max(grades, default=-1)
    return "correct" if best >= upper else "ambiguous" if best >= lower else "incorrect"


def strips_of(passage: Passage, length: int) -> list[Passage]:
    """Cut a passage into strips of that many sentences; one that is shorter is a strip.

    >>> [strip.text for strip in strips_of(Passage("1", "Raft", "It is a raft. It floats. It is old. It is big."), 3)]
    ['It is a raft. It floats. It is old.', 'It is big.']
    """
    parts = sentences(passage.text)
    if len(parts) <= length:
        return [passage]
    return [replace(passage, text=" ".join(parts[i : i + length])) for i in range(0, len(parts), length)]


def recomposed(strips: Sequence[Passage]) -> list[Passage]:
    """Put the strips of each passage together again.

    >>> raft, oar = Passage("1", "Raft", "It is a raft."), Passage("2", "Oar", "An oar.")
    >>> strips = [raft, oar, replace(raft, text="It is big.")]
    >>> [passage.text for passage in recomposed(strips)]
    ['It is a raft. It is big.', 'An oar.']
    """
    texts: dict[Passage, dict[str, None]] = {}
    for strip in strips:
        texts.setdefault(strip, {})[strip.text] = None
    return [replace(passage, text=" ".join(parts)) for passage, parts in texts.items()]
