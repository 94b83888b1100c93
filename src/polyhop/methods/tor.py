"""Tree of Reviews: a tree of passages, each path reviewed: reject, search on, accept.

Li, Liu, Li, Zhou, Li, Chen: "Tree of Reviews: A Tree-based Dynamic Iterative Retrieval Framework for Multi-hop
Question Answering", 2024. No public code.

Followed: all of §3, with every ablation of Tables 3 to 6 as a setting.
Settled here where the paper is silent: a passage never repeats on one path; a pruned hit is not replaced by the next
one. If the pool is empty, the question is answered from the passages of the relevant paths, which are ranked and cited;
if there are none, closed-book. If the last reply cannot be read, the most frequent answer of the pool is taken; a
refusal is an abstention, whatever its form.
Beyond the paper: the last prompt shows each passage once, and the settings after ``rank_limit``.

Example: "Who is the spouse of the director of The Golden Calf?" The root's search finds the film's passage; its review
says relevant, not enough; the missing paragraph, about the director, is the next query; that search finds the
director's passage below it; the two together are enough: accepted with the spouse's name, one piece of evidence.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Gt, Le, Len

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.errors import SettingError
from polyhop.methods.context import ask_about, cut_to_fit, fit_items, fused_by_rank, note_left_out
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.answers import ANSWER_COT, Response
from polyhop.prompts.tasks.tor import TOR_COMPLETE, TOR_ENOUGH, TOR_FUSE, TOR_MERGED, TOR_REVIEW, MergedReview, Review
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


Path: TypeAlias = tuple[Passage, ...]
Verdict: TypeAlias = Literal["accept", "search", "stop", "reject"]
Fusion: TypeAlias = Literal["evidence", "analysis", "paragraph"]
"""The content of the last prompt: passages and analyses, analyses alone, or passages alone (§3.3, Tables 10 to 12)."""


@method(
    "tor",
    family="system",
    calls=19,
    paper="Tree of Reviews (Li et al., 2024)",
    layers=lambda settings: _layers(settings),
    needs=("retriever",),
)
async def tree_of_reviews(
    question: str,
    run: Run,
    *,
    widths: Annotated[tuple[Positive, ...], Len(1)] = (5, 3, 3),  # §4.4: depth 3, nodes per layer
    expansion: Literal["direct", "cot", "mpc"] = "mpc",  # §3.4, Table 4: mpc: the missing paragraph
    fusion: Fusion = "evidence",  # §3.3, Table 3: the evidence in the prompt of the answer
    relevance_pruning: bool = True,  # §3.4, Table 5: irrelevant paths end
    repetitive_pruning: bool = True,  # §3.4, Table 5: hits that are in accepted evidence are dropped
    prune_when: Literal["retrieval", "review"] = "retrieval",  # "review" checks once more before a node's review
    expand_accepted: bool = False,  # Table 5, last row (65 reviews): accepted paths are extended too
    repeat_passages: bool = False,  # Table 12: each piece of evidence shows all its passages, shown before or not
    shots: NonNegative = 3,  # §4.4
    context_tokens: Positive = 4096,  # §4.4: of a whole prompt
    rank_limit: Positive = 15,  # §4.2, recall@15
    # Beyond the paper, off by default; and calls at once, with the same result.
    thoughts: bool = False,  # a review writes its reasoning, whatever the expansion
    query: Literal["review", "mpc", "both"] | None = None,  # a query other than the expansion's; both: fused by rank
    semantic_pruning: Annotated[float, Gt(0), Le(1)] | None = None,  # also drop hits this similar to accepted passages
    early_stop: Positive
    | Literal["judge"]
    | None = None,  # stop when n pieces agree on an answer, or the model judges so
    mpc_merged: bool = False,  # review and missing paragraph in one call
    speculate: NonNegative | Literal["siblings"] = "siblings",  # reviews of siblings at once, or n calls ahead
) -> Answer:
    """Review every reasoning path of a tree of passages; accepted paths are the evidence (§3)."""
    source = query or ("mpc" if expansion == "mpc" else "review")
    if mpc_merged and source != "mpc":
        raise SettingError(
            "mpc_merged puts review and missing paragraph in one call: it needs expansion=mpc, query=mpc"
        )
    options: Options = {"shots": shots}
    shared: dict[str, Any] = {"options": options, "context_tokens": context_tokens, "question": question}
    pool: list[Evidence] = []
    relevant: list[Path] = []
    reviewed: list[Passage] = []
    enough = False

    async def expand(path: Path, queries: Sequence[str]) -> None:
        hits = await search(queries, widths[len(path)])
        children = [(*path, hit) for hit in hits if hit not in path and not pruned(hit)]  # §3.4, right after retrieval
        look_ahead(children, sure=True)
        for child in children:
            if not enough:
                await visit(child)  # §3.2: depth first, a whole subtree before the next sibling

    async def visit(path: Path) -> None:
        nonlocal enough
        if prune_when == "review" and pruned(path[-1]):
            return
        with run.branch("passage", path[-1].title, path[-1:]) as node:
            review = await review_of(path)  # §3.2: the whole path as one
            reviewed.append(path[-1])
            if review.relevant:
                relevant.append(path)
            verdict = node.verdict = decide(path, review)
            if verdict == "accept":
                pool.append(Evidence(path, review.answer, review.analysis))  # §3.2 (iii): with its brief analysis
                enough = await is_enough()
            if goes_on(path, verdict) and not enough:
                await expand(path, await next_queries(path, review))

    def decide(path: Path, review: Review) -> Verdict:
        if review.relevant and review.supported:
            return "accept"
        if relevance_pruning and not review.relevant:
            return "reject"
        return "stop" if len(path) == len(widths) else "search"  # "stop": the path ends unaccepted in the last layer

    def goes_on(path: Path, verdict: Verdict) -> bool:
        return verdict == "search" or (expand_accepted and verdict == "accept" and len(path) < len(widths))

    async def review_of(path: Path, run: Run = run) -> Review:
        thinks = thoughts or expansion == "cot"
        if mpc_merged:
            return await ask_about(TOR_MERGED, path, run, **shared, thoughts=thinks)
        return await ask_about(TOR_REVIEW, path, run, **shared, thoughts=thinks, asks_query=source != "mpc")

    async def next_queries(path: Path, review: Review, run: Run = run) -> list[str]:
        missing = review.information if isinstance(review, MergedReview) else None
        if source != "review" and not mpc_merged:  # §3.4, Table 9: the missing paragraph, of the model's own knowledge
            supplement = await ask_about(TOR_COMPLETE, path, run, **shared)
            missing = supplement.information
        queries = {"review": [review.query], "mpc": [missing or review.query], "both": [review.query, missing]}[source]
        return list(dict.fromkeys(filter(None, queries))) or [question]

    def pruned(passage: Passage) -> bool:
        accepted = _passages(pool)  # §3.4: the pool as it is at this moment
        return (repetitive_pruning and passage in accepted) or is_similar(passage, accepted)

    # Beyond the paper: two queries, similar passages, stopping early, and calls ahead of their turn.

    async def search(queries: Sequence[str], k: int, run: Run = run) -> list[Passage]:
        return fused_by_rank([await run.search(text, k) for text in queries])[:k]

    def is_similar(passage: Passage, accepted: Path) -> bool:
        if semantic_pruning is None:
            return False
        return max(run.similarity(_text(passage), [_text(known) for known in accepted]), default=0) >= semantic_pruning

    async def is_enough() -> bool:
        if early_stop != "judge":
            return early_stop is not None and max(_votes(pool).values(), default=0) >= early_stop
        seen = _fitting(TOR_ENOUGH, {"question": question}, pool, run, options, context_tokens)
        judged = await run.ask(TOR_ENOUGH, options=options, question=question, evidence=_as_shown(seen))
        return judged.sufficient

    def look_ahead(paths: list[Path], *, sure: bool) -> None:
        for path in paths:
            ahead.explore(path, scout, sure=sure)

    async def scout(path: Path) -> None:
        """Make the calls that the depth-first order will probably need; ``visit`` claims those it needs."""
        review = await review_of(path, ahead.run)
        if speculate != "siblings" and goes_on(path, decide(path, review)):
            hits = await search(await next_queries(path, review, ahead.run), widths[len(path)], ahead.run)
            look_ahead([(*path, hit) for hit in hits if hit not in path and not pruned(hit)], sure=False)

    if speculate == "siblings":
        max_ahead = max(widths) if _all_are_visited(early_stop, prune_when) else 0
    else:
        max_ahead = speculate
    async with run.speculating(max_ahead) as ahead:
        with run.gathering():  # a spent budget ends the tree
            await expand((), [question])  # §3.1: the root is the question

    statistics = {"reviews": len(reviewed), "documents": len(set(reviewed)), "evidence": len(pool)}
    sources = pool or _unaccepted(relevant, run)
    if not sources:
        closed_book = await run.ask(ANSWER_COT, options=options, final=True, question=question)
        return Answer(closed_book.answer, statistics=statistics)
    response, shown = await fuse(  # §3.3
        question, sources, run, fusion=fusion, repeat_passages=repeat_passages, context_tokens=context_tokens,
        shots=shots,
    )  # fmt: skip
    evidence = tuple(piece for piece in shown if piece.passages) if pool else ()
    return Answer(
        response.answer,
        passages=_ranked(pool or shown, response, run, rank_limit),
        evidence=evidence,
        statistics=statistics,
    )


async def fuse(
    question: str,
    pool: Sequence[Evidence],
    run: Run,
    *,
    fusion: Fusion,
    context_tokens: int,
    shots: int,
    repeat_passages: bool = False,
) -> tuple[Response, list[Evidence]]:
    """Answer from the pool, in its order, as much of it as ``context_tokens`` of whole prompt can hold (§3.3, §4.4).

    Without any answer or analysis in the pool, the passages alone are read. If the reply cannot be read and is no
    refusal, the response is the most frequent answer of the pool. Return the response and the evidence in the prompt.
    """
    options: Options = {"shots": shots}
    mode = "repeated" if repeat_passages and fusion == "evidence" else fusion
    fields = {"question": question, "mode": mode if any(p.answer or p.analysis for p in pool) else "paragraph"}
    cut = _fitting(TOR_FUSE, fields, pool, run, options, context_tokens)
    shown = [replace(was, passages=was.passages[: len(now.passages)]) for was, now in zip(pool, cut, strict=False)]
    note_left_out(
        run,
        evidence=[" + ".join(passage.title for passage in piece.passages) for piece in pool[len(shown) :]],
        passages=[passage.title for passage in pool[0].passages[len(shown[0].passages) :]],
        shortened=[p.title for p, now in zip(pool[0].passages, cut[0].passages, strict=False) if p.text != now.text],
    )
    response = await run.ask(TOR_FUSE, options=options, final=True, **fields, evidence=_as_shown(cut))
    is_refusal = response.answer and response.declines(response.answer)
    if not response.parsed and not is_refusal and (answer := _majority_answer(pool)):
        response = Response(answer=answer)
        run.note("unread", fallback="the most frequent answer of the evidence", answer=answer)
    return response, shown


def _fitting(
    task: Task[Any], fields: Mapping[str, Any], pool: Sequence[Evidence], run: Run, options: Options, tokens: int
) -> list[Evidence]:
    """Return the first pieces of the pool that a whole prompt of ``tokens`` tokens can hold. If none fits, return the
    first without what its passages have too much at the end."""

    def fits(pieces: Sequence[Evidence]) -> bool:
        return run.prompt_tokens(task, options=options, **fields, evidence=_as_shown(pieces)) <= tokens

    def first(passages: Sequence[Passage]) -> list[Evidence]:
        return [replace(pool[0], passages=tuple(passages))]

    if (fitting := fit_items(pool, fits)) or fields.get("mode") == "analysis":
        return fitting or [pool[0]]
    return first(cut_to_fit(pool[0].passages, lambda cut: fits(first(cut)), run))


def _as_shown(pieces: Iterable[Evidence]) -> list[Mapping[str, Any]]:
    return [{"passages": list(piece.passages), "answer": piece.answer, "analysis": piece.analysis} for piece in pieces]


def _majority_answer(pool: Iterable[Evidence]) -> str:
    """The answer of most pieces of evidence, the first one at a tie; "" if they have none."""
    votes = _votes(pool)
    return max(
        (piece.answer for piece in pool if piece.answer), key=lambda answer: votes[normalise(answer)], default=""
    )


def _votes(pool: Iterable[Evidence]) -> Counter[str]:
    """Count the pieces of evidence with each answer, normalised."""
    return Counter(normalise(piece.answer) for piece in pool if piece.answer)


def _unaccepted(relevant: list[Path], run: Run) -> list[Evidence]:
    """Replace an empty pool: by one piece of evidence with the passages of the relevant paths, if any exist."""
    passages = tuple(dict.fromkeys(passage for path in relevant for passage in path))
    run.note("empty pool", fallback="relevant passages" if passages else "closed book")
    return [Evidence(passages)] if passages else []


def _ranked(pool: Sequence[Evidence], response: Response, run: Run, limit: int) -> tuple[Passage, ...]:
    """§4.2, footnote 1: pool order; past ``limit`` passages, evidence by similarity to the whole response."""
    passages = _passages(pool)
    if len(passages) > limit:
        reply = " ".join(filter(None, (response.rationale, response.answer)))
        texts = [" ".join(filter(None, (*map(_text, piece.passages), piece.answer, piece.analysis))) for piece in pool]
        alike = run.similarity(reply, texts)
        passages = _passages([pool[i] for i in sorted(range(len(pool)), key=lambda i: -alike[i])])
    return passages[:limit]


def _passages(pool: Iterable[Evidence]) -> Path:
    """The distinct passages of the pool, in its order."""
    return tuple(dict.fromkeys(passage for piece in pool for passage in piece.passages))


def _text(passage: Passage) -> str:
    return f"{passage.title} {passage.text}"


def _all_are_visited(early_stop: Any, prune_when: str) -> bool:
    """Return True if every child of an expansion is certain to be visited."""
    return early_stop is None and prune_when == "retrieval"


def _layers(settings: Mapping[str, Any]) -> int:
    """Count the calls in turn, by default one round of reviews per expansion: with ``speculate=n`` a review and its
    completion per layer, with 0 those of every node."""
    source = settings["query"] or settings["expansion"]
    completed: bool = source in ("mpc", "both") and not settings["mpc_merged"]
    judged: bool = settings["early_stop"] == "judge"
    sizes: list[int] = list(accumulate(settings["widths"], operator.mul))  # nodes per layer
    reviews = sizes
    if settings["speculate"] == "siblings":
        if _all_are_visited(settings["early_stop"], settings["prune_when"]):
            reviews = [1, *sizes[:-1]]  # one round per expansion
    elif settings["speculate"]:
        sizes = reviews = [1] * len(sizes)
    return sum(reviews) + completed * sum(sizes[:-1]) + judged * sizes[-1] + 1
