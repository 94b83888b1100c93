"""Tree of Reviews a second time: written from the paper (§3, §4.2, §4.4) before its method was looked at.

Only how the pool is laid into the fusion's fields, and how finely its first piece is cut, were taken from there.

Plain and synchronous: the tree is walked over a work list instead of by recursion, every node is kept with its verdict,
and what the pool, the fallback and the statistics are is read off that record afterwards wherever it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from polyhop.types import Passage
from tests.kit.random_world import seen

Path: TypeAlias = tuple[Passage, ...]
Piece: TypeAlias = tuple[Path, str | None]
Call: TypeAlias = tuple[str, dict[str, Any]]


class World(Protocol):
    """What the algorithm stands on: a corpus, a model (None: its reply could not be read, twice), a ruler, a likeness.

    ``prompt_tokens`` is the length of the whole rendered prompt; ``count_tokens`` and ``truncate`` are the model's.
    """

    def search(self, query: str, k: int) -> Sequence[Passage]: ...
    def reply(self, task: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None: ...
    def prompt_tokens(self, task: str, fields: Mapping[str, Any]) -> int: ...
    def count_tokens(self, text: str) -> int: ...
    def truncate(self, text: str, tokens: int) -> str: ...
    def similarity(self, text: str, texts: Sequence[str]) -> Sequence[float]: ...


@dataclass
class ObservedRun:
    """All that can be seen of a run from outside."""

    text: str = ""
    supported: bool = False
    evidence: list[tuple[list[str], str | None]] = field(default_factory=list)
    passages: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    searches: list[tuple[str, int]] = field(default_factory=list)
    statistics: dict[str, float] = field(default_factory=dict)


@dataclass
class Node:
    """One reviewed path of the tree."""

    path: Path
    relevant: bool
    accepted: bool
    analysis: str | None


def distinct(passages: Sequence[Passage]) -> list[Passage]:
    """Passages without repeats, first come first."""
    return list({passage.id: passage for passage in passages}.values())


class Recorder:
    """A world whose every call is written down."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.observed = ObservedRun()

    def ask(self, task: str, **fields: Any) -> Mapping[str, Any] | None:
        """One call; where its reply cannot be read it is asked once more, and given up (None)."""
        reply = self.world.reply(task, fields)
        self.observed.calls += [(task, seen(fields))] * (1 if reply is not None else 2)
        return reply

    def search(self, query: str, k: int) -> list[Passage]:
        self.observed.searches.append((query, k))
        return list(self.world.search(query, k))


def tree_of_reviews(
    question: str,
    world: World,
    *,
    widths: Sequence[int] = (5, 3, 3),
    expansion: Literal["direct", "cot", "mpc"] = "mpc",
    fusion: Literal["evidence", "analysis", "paragraph"] = "evidence",
    relevance_pruning: bool = True,
    repetitive_pruning: bool = True,
    prune_when: Literal["retrieval", "review"] = "retrieval",
    context_tokens: int = 4096,
    rank_limit: int = 15,
) -> ObservedRun:
    """Run the whole method; ``shots`` reaches the prompts alone, through the world."""
    recorder = Recorder(world)
    nodes: list[Node] = []

    def in_pool(passage: Passage) -> bool:
        return any(node.accepted and passage in node.path for node in nodes)

    # The work list: a path to review (no query) or to extend by a query; the last one put on is the next one done.
    todo: list[tuple[Path, str | None]] = [((), question)]
    while todo:
        path, query = todo.pop()
        if query is not None:
            hits = [hit for hit in distinct(recorder.search(query, widths[len(path)])) if hit not in path]
            if repetitive_pruning:
                hits = [hit for hit in hits if not in_pool(hit)]
            todo += [((*path, hit), None) for hit in reversed(hits)]
            continue
        if repetitive_pruning and prune_when == "review" and in_pool(path[-1]):
            continue
        review = recorder.ask("tor.review", question=question, passages=path, thoughts=expansion == "cot")
        if review is None:
            review = {"relevant": False, "supported": False}
        accepted = review["relevant"] and review["supported"]
        nodes.append(Node(path, review["relevant"], accepted, review.get("answer") if accepted else None))
        pruned = relevance_pruning and not review["relevant"]
        if accepted or pruned or len(path) == len(widths):
            continue
        wanted: str | None = None
        if expansion == "mpc":
            completion = recorder.ask("tor.complete", question=question, passages=path)
            wanted = completion["information"] if completion else None
        todo.append((path, wanted or review.get("query") or question))

    _read(question, nodes, recorder, fusion, context_tokens, rank_limit)
    observed = recorder.observed
    observed.statistics = {
        "reviews": len(nodes),
        "documents": len({passage for node in nodes for passage in node.path}),
        "evidence": sum(node.accepted for node in nodes),
    }
    return observed


def _read(
    question: str, nodes: list[Node], recorder: Recorder, fusion: str, context_tokens: int, rank_limit: int
) -> None:
    pool = [node for node in nodes if node.accepted]
    observed = recorder.observed
    observed.evidence = [([passage.id for passage in node.path], node.analysis) for node in pool]
    last: list[Passage] = []
    if pool:
        pieces = [(node.path, node.analysis) for node in pool]
        response = read_evidence(question, pieces, recorder, fusion, context_tokens)
    elif last := _furthest(nodes):
        response = read_evidence(question, [(tuple(last), None)], recorder, "paragraph", context_tokens)
    else:
        response = whole_response(recorder.ask("answer.cot", question=question))
    observed.text = response[1]
    observed.supported = bool(pool and observed.text)
    ranking = _ranked(pool, response[0], recorder.world, rank_limit) if pool else last[:rank_limit]
    observed.passages = [passage.id for passage in ranking]


def _furthest(nodes: list[Node]) -> list[Passage]:
    """The passages of relevant paths that no longer relevant path goes on from."""
    relevant = [node.path for node in nodes if node.relevant]
    ends = [path for path in relevant if not any(len(p) > len(path) and p[: len(path)] == path for p in relevant)]
    return distinct([passage for path in ends for passage in path])


def _ranked(pool: list[Node], response: str, world: World, rank_limit: int) -> list[Passage]:
    """Pool order; over the limit, the evidence most like the response first (the paper's footnote 1)."""
    if len(distinct([passage for node in pool for passage in node.path])) > rank_limit:
        texts = [" ".join([*(f"{p.title} {p.text}" for p in n.path), n.analysis or ""]) for n in pool]
        likeness = world.similarity(response, texts)
        pool = [node for _, node in sorted(zip(likeness, pool, strict=True), key=lambda pair: -pair[0])]
    return distinct([passage for node in pool for passage in node.path])[:rank_limit]


def read_evidence(
    question: str, pieces: Sequence[Piece], recorder: Recorder, mode: str, context_tokens: int
) -> tuple[str, str]:
    """As much evidence as the context holds, read in one call: (whole response, answer)."""

    def shown(some: Sequence[Piece]) -> dict[str, Any]:
        evidence = [{"passages": list(passages), "analysis": analysis} for passages, analysis in some]
        return {"question": question, "evidence": evidence, "mode": mode}

    def fits(some: Sequence[Piece]) -> bool:
        return recorder.world.prompt_tokens("tor.fuse", shown(some)) <= context_tokens

    counts = range(1, len(pieces) + 1)
    fitting = next((count - 1 for count in counts if not fits(pieces[:count])), len(pieces))
    taken = pieces[:fitting] or [
        next(piece for piece in shorter(pieces[0], recorder.world) if fits([piece]) or not piece[0])
    ]
    return whole_response(recorder.ask("tor.fuse", **shown(taken)))


def shorter(piece: Piece, world: World) -> Iterator[Piece]:
    """The piece, each time one token shorter at the end of its last passage, down to no passage at all."""
    passages, analysis = piece
    while passages:
        *before, last = passages
        for tokens in range(world.count_tokens(last.text), -1, -1):
            yield (*before, replace(last, text=world.truncate(last.text, tokens))), analysis
        passages = tuple(before)
    yield (), analysis


def whole_response(reply: Mapping[str, Any] | None) -> tuple[str, str]:
    """The reader's response (rationale and answer) and its answer; nothing where it could not be read."""
    if reply is None:
        return "", ""
    return f"{reply.get('rationale') or ''} {reply['answer']}".strip(), reply["answer"]
