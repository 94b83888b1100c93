"""Tree of Reviews: a tree of passages, each path reviewed: reject, search on, accept.

Li, Liu, Li, Zhou, Li, Chen: "Tree of Reviews: A Tree-based Dynamic Iterative Retrieval Framework for Multi-hop
Question Answering", 2024. No public code.

Followed: all of §3, with every ablation of Tables 3 to 6 as a setting.
Settled here where the paper is silent: an accepted path is never expanded, in any ablation (§3.2 (iii); the last row of
Table 5 reads as if it were). A passage never repeats on one path. A pruned hit is not replaced by the next one. If the
pool is empty, the question is answered from the passages of the relevant paths, which are ranked then; if there are
none, closed-book.

Example: "Who is the spouse of the director of The Golden Calf?" The root's search finds the film's passage; its review
says relevant, not enough, and asks for the director; that search finds the director's passage below it; the two
together are enough: accepted with the spouse's name, one piece of evidence.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Gt, Le, Len

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.errors import SettingError
from polyhop.methods.context import cut_to_fit
from polyhop.methods.registry import method
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.answers import ANSWER_COT, Response
from polyhop.prompts.tasks.tor import TOR_COMPLETE, TOR_ENOUGH, TOR_FUSE, TOR_MERGED, TOR_REVIEW, MergedReview, Review
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run


Path: TypeAlias = tuple[Passage, ...]
Verdict: TypeAlias = Literal["accept", "search", "stop", "reject"]


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
    repetitive_pruning: bool = True,  # §3.4, Table 5: hits that accepted evidence holds are dropped
    prune_when: Literal["retrieval", "review"] = "retrieval",  # "review" checks once more before a node's review
    shots: NonNegative = 3,  # §4.4
    context_tokens: Positive = 4096,  # §4.4: of a whole prompt
    rank_limit: Positive = 15,  # §4.2, recall@15
    # Beyond the paper: its future work (Limitations), off by default; and calls at once, with the same result.
    semantic_pruning: Annotated[float, Gt(0), Le(1)] | None = None,  # also drop hits this similar to accepted passages
    early_stop: Positive | Literal["judge"] | None = None,  # n pieces agree on an answer, or the model judges
    mpc_merged: bool = False,  # review and missing paragraph in one call
    speculate: NonNegative | Literal["siblings"] = "siblings",  # reviews of siblings at once, or n calls ahead
) -> Answer:
    """Review every reasoning path of a tree of passages; accepted paths are the evidence (§3)."""
    if mpc_merged and expansion != "mpc":
        raise SettingError(f"mpc_merged merges the review with its completion: it needs expansion=mpc, not {expansion}")
    pool: list[Evidence] = []
    relevant: list[Path] = []
    reviewed: list[Passage] = []
    enough = False

    async def expand(path: Path, query: str) -> None:
        hits = await run.search(query, widths[len(path)])
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
            review = await review_of(path, run)
            reviewed.append(path[-1])
            if review.relevant:
                relevant.append(path)
            node.verdict = verdict(path, review)
            if node.verdict == "accept":
                pool.append(Evidence(path, review.answer))  # §3.2 (iii): the path and its brief analysis
                enough = await is_enough()
            elif node.verdict == "search":
                await expand(path, await next_query(path, review, run))

    async def review_of(path: Path, run: Run) -> Review:
        fields: dict[str, Any] = {"question": question, "passages": list(path)}  # §3.2: the whole path as one
        if mpc_merged:
            return await run.ask(TOR_MERGED, options={"shots": shots}, **fields)
        thoughts = expansion == "cot"
        return await run.ask(TOR_REVIEW, options={"shots": shots}, **fields, thoughts=thoughts)

    def verdict(path: Path, review: Review) -> Verdict:
        if review.relevant and review.supported:
            return "accept"
        if relevance_pruning and not review.relevant:
            return "reject"
        return "stop" if len(path) == len(widths) else "search"  # "stop": the path ends unaccepted in the last layer

    async def next_query(path: Path, review: Review, run: Run) -> str:
        query = review.query
        if isinstance(review, MergedReview):
            query = review.information or query
        elif expansion == "mpc":  # §3.4, Table 9: the missing paragraph, from the model's own knowledge, is the query
            supplement = await run.ask(TOR_COMPLETE, options={"shots": shots}, question=question, passages=list(path))
            query = supplement.information or query
        return query or question

    def pruned(passage: Passage) -> bool:
        accepted = _passages(pool)  # §3.4: the pool as it is at this moment
        if repetitive_pruning and passage in accepted:
            return True
        if semantic_pruning is None:
            return False
        return max(run.similarity(_text(passage), [_text(known) for known in accepted]), default=0) >= semantic_pruning

    # Beyond the paper: stopping early, and calls ahead of their turn.

    async def is_enough() -> bool:
        if early_stop != "judge":
            votes = Counter(normalise(piece.answer) for piece in pool if piece.answer)
            return early_stop is not None and max(votes.values(), default=0) >= early_stop
        evidence = shown_within(
            TOR_ENOUGH, {"question": question}, pool, run, context_tokens=context_tokens, shots=shots
        )
        judged = await run.ask(TOR_ENOUGH, options={"shots": shots}, question=question, evidence=evidence)
        return judged.sufficient

    def look_ahead(paths: list[Path], *, sure: bool) -> None:
        for path in paths:
            ahead.explore(path, scout, sure=sure)

    async def scout(path: Path) -> None:
        """Make the calls that the depth-first order will probably come to; ``visit`` claims those it needs."""
        review = await review_of(path, ahead.run)
        if speculate != "siblings" and verdict(path, review) == "search":
            hits = await ahead.run.search(await next_query(path, review, ahead.run), widths[len(path)])
            look_ahead([(*path, hit) for hit in hits if hit not in path and not pruned(hit)], sure=False)

    if speculate == "siblings":
        max_ahead = max(widths) if _all_are_visited(early_stop, prune_when) else 0
    else:
        max_ahead = speculate
    async with run.speculating(max_ahead) as ahead:
        with run.gathering():
            await expand((), question)  # §3.1: the root is the question

    read, mode = (pool, fusion) if pool else (_unaccepted(relevant, run), "paragraph")
    if read:
        response = await fuse(question, read, run, mode=mode, context_tokens=context_tokens, shots=shots)  # §3.3
    else:
        response = await run.ask(ANSWER_COT, options={"shots": shots}, final=True, question=question)
    return Answer(
        response.answer,
        passages=_ranked(read, response, run, rank_limit),
        evidence=tuple(pool),
        supported=bool(pool),
        statistics={"reviews": len(reviewed), "documents": len(set(reviewed)), "evidence": len(pool)},
    )


def _layers(settings: Mapping[str, Any]) -> int:
    """Count the calls in turn, by default one round of reviews per expansion: with ``speculate=n`` a review and its
    completion per layer, with 0 those of every node."""
    completed: bool = settings["expansion"] == "mpc" and not settings["mpc_merged"]
    judged: bool = settings["early_stop"] == "judge"
    sizes: list[int] = list(accumulate(settings["widths"], operator.mul))  # nodes per layer
    reviews = sizes
    if settings["speculate"] == "siblings":
        if _all_are_visited(settings["early_stop"], settings["prune_when"]):
            reviews = [1, *sizes[:-1]]  # one round per expansion
    elif settings["speculate"]:
        sizes = reviews = [1] * len(sizes)
    return sum(reviews) + completed * sum(sizes[:-1]) + judged * sizes[-1] + 1


def _all_are_visited(early_stop: Any, prune_when: str) -> bool:
    """Return True if every child of an expansion is certain to be visited."""
    return early_stop is None and prune_when == "retrieval"


def _unaccepted(relevant: list[Path], run: Run) -> list[Evidence]:
    """Replace an empty pool: by one piece of evidence with the passages of the relevant paths, if any exist."""
    passages = tuple(dict.fromkeys(passage for path in relevant for passage in path))
    run.note("empty pool", fallback="relevant passages" if passages else "closed book")
    return [Evidence(passages)] if passages else []


def _ranked(pool: list[Evidence], response: Response, run: Run, limit: int) -> tuple[Passage, ...]:
    """§4.2, footnote 1: pool order; past ``limit`` passages, evidence by similarity to the whole response."""
    passages = _passages(pool)
    if len(passages) > limit:
        reply = " ".join(filter(None, (response.rationale, response.answer)))
        shown = [" ".join([*map(_text, piece.passages), piece.answer or ""]) for piece in pool]
        alike = run.similarity(reply, shown)
        passages = _passages([pool[i] for i in sorted(range(len(pool)), key=lambda i: -alike[i])])
    return passages[:limit]


def _text(passage: Passage) -> str:
    return f"{passage.title} {passage.text}"


def _passages(pool: list[Evidence]) -> Path:
    """The distinct passages of the pool, in its order."""
    return tuple(dict.fromkeys(passage for piece in pool for passage in piece.passages))


Fusion: TypeAlias = Literal["evidence", "analysis", "paragraph"]
"""The evidence in the prompt: passages and analyses, analyses alone, or passages alone (ToR Tables 10 to 12)."""


async def fuse(
    question: str, pool: Sequence[Evidence], run: Run, *, mode: Fusion, context_tokens: int, shots: int
) -> Response:
    """Answer from the pool, in its order, as much of it as ``context_tokens`` of whole prompt can hold (§4.4)."""

    fields = {"question": question, "mode": mode}
    evidence = shown_within(TOR_FUSE, fields, pool, run, context_tokens=context_tokens, shots=shots)
    return await run.ask(
        TOR_FUSE, options={"shots": shots}, final=True, question=question, evidence=evidence, mode=mode
    )


def shown_within(
    task: Task[Any], fields: Mapping[str, Any], pool: Sequence[Evidence], run: Run, *, context_tokens: int, shots: int
) -> list[Mapping[str, Any]]:
    """Return the ``evidence`` field of a task: pieces of the pool, in order, up to the first that the whole prompt
    cannot hold. If none fits, the passages of the first are cut from the end."""

    def fits(pieces: Sequence[Evidence]) -> bool:
        tokens = run.prompt_tokens(task, options={"shots": shots}, **fields, evidence=_shown(pieces))
        return tokens <= context_tokens

    fitted: list[Evidence] = []
    for piece in pool:
        if not fits([*fitted, piece]):
            break
        fitted.append(piece)
    return _shown(fitted or [_cut(pool[0], lambda piece: fits([piece]), run)])


def _shown(pieces: Sequence[Evidence]) -> list[Mapping[str, Any]]:
    return [{"passages": list(piece.passages), "analysis": piece.answer} for piece in pieces]


def _cut(piece: Evidence, fits: Callable[[Evidence], bool], run: Run) -> Evidence:
    """Cut the passages of a piece from the end until it fits; if none fits, drop them all."""

    def with_passages(passages: Sequence[Passage]) -> Evidence:
        return replace(piece, passages=tuple(passages))

    return with_passages(cut_to_fit(piece.passages, lambda cut: fits(with_passages(cut)), run))
