"""Tree of Reviews a second time: written from the paper (§3, §4.2, §4.4) and from what was settled beyond it.

Only how the pool is laid into the fusion's fields, and how finely its first piece is cut, were taken from its method.

Plain and synchronous: the tree is walked over a work list instead of by recursion, every node is kept with its verdict,
and what the pool, the fallback and the statistics are is read off that record afterwards wherever it can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.kit.random_world import seen

Path: TypeAlias = tuple[Passage, ...]
Piece: TypeAlias = tuple[Path, str | None, str | None]
Call: TypeAlias = tuple[str, dict[str, Any]]


class World(Protocol):
    """The parts that the algorithm uses: a corpus, a model (None: its reply could not be read, twice), a tokenizer, a
    similarity.

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
    evidence: list[tuple[list[str], str | None]] = field(default_factory=list)
    analyses: list[str] = field(default_factory=list)
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
    answer: str | None = None
    analysis: str | None = None

    @property
    def piece(self) -> Piece:
        """The evidence that an accepted path is."""
        return self.path, self.answer, self.analysis


def distinct(passages: Sequence[Passage]) -> list[Passage]:
    """Passages without repeats, first come first."""
    return list({passage.id: passage for passage in passages}.values())


class Recorder:
    """A world whose every call is written down."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.observed = ObservedRun()

    def ask(self, task: str, **fields: Any) -> Mapping[str, Any] | None:
        """One call; where its reply cannot be read it is asked once more, and given up (None). An acceptance without an
        answer is asked once more too, and taken as it is."""
        reply = self.world.reply(task, fields)
        incomplete = reply is not None and reply.get("relevant") and reply["supported"] and not reply["answer"]
        self.observed.calls += [(task, seen(fields))] * (2 if reply is None or incomplete else 1)
        return reply

    def ask_once(self, task: str, **fields: Any) -> Mapping[str, Any] | None:
        """The same, but what was asked before is not asked again: in such a world the reply would be the same."""
        asked = (task, seen(fields)) in self.observed.calls
        return self.world.reply(task, fields) if asked else self.ask(task, **fields)

    def ask_finally(self, task: str, **fields: Any) -> Mapping[str, Any] | None:
        """The same for the answer: a reply that could not be read is asked for again."""
        known = self.world.reply(task, fields) is not None
        return self.ask_once(task, **fields) if known else self.ask(task, **fields)

    def ask_of_path(self, task: str, path: Sequence[Passage], room: int, **fields: Any) -> Mapping[str, Any] | None:
        """One call about a whole path: what it is too long for is taken from its oldest passages."""
        shown = next(
            (few for few in shorter_path(path, self.world)
             if self.world.prompt_tokens(task, {**fields, "passages": few}) <= room), [],
        )  # fmt: skip
        return self.ask(task, **fields, passages=shown)

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
    expand_accepted: bool = False,
    repeat_passages: bool = False,
    context_tokens: int = 4096,
    rank_limit: int = 15,
    thoughts: bool = False,
    query: Literal["review", "mpc", "both"] | None = None,
    semantic_pruning: float | None = None,
    early_stop: int | Literal["judge"] | None = None,
    mpc_merged: bool = False,
) -> ObservedRun:
    """Run the whole method; ``shots`` reaches the prompts alone, through the world."""
    recorder = Recorder(world)
    nodes: list[Node] = []
    writes_query = {"review": True, "both": True, "mpc": False, None: expansion != "mpc"}[query]
    completes = {"review": False, "both": True, "mpc": True, None: expansion == "mpc"}[query]

    def is_pruned(passage: Passage) -> bool:
        known = distinct([passage for node in nodes if node.accepted for passage in node.path])
        if repetitive_pruning and passage.id in {other.id for other in known}:
            return True
        if semantic_pruning is None or not known:
            return False
        texts = [f"{other.title} {other.text}" for other in known]
        return max(world.similarity(f"{passage.title} {passage.text}", texts)) >= semantic_pruning

    def is_settled() -> bool:
        pool = [node for node in nodes if node.accepted]
        if early_stop == "judge":
            _, shown = held(
                [node.piece for node in pool], recorder, "tor.enough", {"question": question}, context_tokens
            )
            verdict = recorder.ask("tor.enough", question=question, evidence=shown)
            return bool(verdict and verdict["sufficient"])
        answers = [normalise(node.answer) for node in pool if node.answer]
        return early_stop is not None and any(answers.count(answer) >= early_stop for answer in answers)

    # The work list: a path to review (no query) or to extend by queries; the last one put on is the next one done.
    todo: list[tuple[Path, list[str]]] = [((), [question])]
    while todo:
        path, queries = todo.pop()
        if queries:
            found = by_rank([distinct(recorder.search(text, widths[len(path)])) for text in queries])
            hits = [hit for hit in found[: widths[len(path)]] if hit not in path and not is_pruned(hit)]
            todo += [((*path, hit), []) for hit in reversed(hits)]
            continue
        if prune_when == "review" and is_pruned(path[-1]):
            continue
        thinks = thoughts or expansion == "cot"
        if mpc_merged:
            review = recorder.ask_of_path("tor.merged", path, context_tokens, question=question, thoughts=thinks)
        else:
            asked = {"question": question, "thoughts": thinks, "asks_query": writes_query}
            review = recorder.ask_of_path("tor.review", path, context_tokens, **asked)
        review = review or {"relevant": False, "supported": False}
        accepted = review["relevant"] and review["supported"]
        said = (review.get("answer"), review.get("analysis")) if accepted else (None, None)
        nodes.append(Node(path, review["relevant"], accepted, *said))
        if accepted and early_stop is not None and is_settled():
            break
        ends = not expand_accepted if accepted else relevance_pruning and not review["relevant"]
        if ends or len(path) == len(widths):
            continue
        wanted = [review.get("query")] if writes_query else []
        if completes and not mpc_merged:
            completion = recorder.ask_of_path("tor.complete", path, context_tokens, question=question)
            wanted.append(completion["information"] if completion else None)
        elif mpc_merged:
            wanted.append(review.get("information"))
        todo.append((path, list(dict.fromkeys(text for text in wanted if text)) or [question]))

    mode = "repeated" if repeat_passages and fusion == "evidence" else fusion
    _read(question, nodes, recorder, mode, context_tokens, rank_limit)
    observed = recorder.observed
    observed.statistics = {
        "reviews": len(nodes),
        "documents": len({node.path[-1] for node in nodes}),
        "evidence": sum(node.accepted for node in nodes),
    }
    return observed


def by_rank(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Several rankings as one, by reciprocal ranks; a single one as it is."""
    score: Counter[str] = Counter()
    for ranking in rankings:
        score.update({hit.id: 10**12 // (60 + rank) for rank, hit in enumerate(ranking, 1)})
    hits = distinct([hit for ranking in rankings for hit in ranking])
    return sorted(hits, key=lambda hit: score[hit.id], reverse=True)


def _read(
    question: str, nodes: list[Node], recorder: Recorder, mode: str, context_tokens: int, rank_limit: int
) -> None:
    pool = [node for node in nodes if node.accepted]
    observed = recorder.observed
    if pool:
        response, answer, pieces = read_evidence(
            question, [node.piece for node in pool], recorder, mode, context_tokens
        )
        observed.evidence = [([p.id for p in passages], said) for passages, said, _ in pieces if passages]
        observed.analyses = [why for passages, _, why in pieces if passages and why]
        ranking = _ranked(pool, response, recorder.world, rank_limit)
    elif last := _furthest(nodes):
        _, answer, pieces = read_evidence(question, [(tuple(last), None, None)], recorder, mode, context_tokens)
        ranking = list(pieces[0][0])[:rank_limit]
    else:
        _, answer = whole_response(recorder.ask("answer.cot", question=question))
        ranking = []
    observed.text = answer
    observed.passages = [passage.id for passage in ranking]


def _furthest(nodes: list[Node]) -> list[Passage]:
    """The passages of relevant paths that no longer relevant path goes on from."""
    relevant = [node.path for node in nodes if node.relevant]
    ends = [path for path in relevant if not any(len(p) > len(path) and p[: len(path)] == path for p in relevant)]
    return distinct([passage for path in ends for passage in path])


def _ranked(pool: list[Node], response: str, world: World, rank_limit: int) -> list[Passage]:
    """Pool order; over the limit, the evidence most like the response first (the paper's footnote 1)."""
    if len(distinct([passage for node in pool for passage in node.path])) > rank_limit:
        texts = [[*(f"{p.title} {p.text}" for p in n.path), n.answer or "", n.analysis or ""] for n in pool]
        likeness = world.similarity(response, [" ".join(filter(None, text)) for text in texts])
        pool = [node for _, node in sorted(zip(likeness, pool, strict=True), key=lambda pair: -pair[0])]
    return distinct([passage for node in pool for passage in node.path])[:rank_limit]


def held(
    pieces: Sequence[Piece], recorder: Recorder, task: str, fields: Mapping[str, Any], context_tokens: int
) -> tuple[list[Piece], list[dict[str, Any]]]:
    """As much evidence as the context holds: whole pieces, and how the prompt shows them."""

    def shown(some: Sequence[Piece]) -> list[dict[str, Any]]:
        return [{"passages": list(passages), "answer": said, "analysis": why} for passages, said, why in some]

    def fits(some: Sequence[Piece]) -> bool:
        return recorder.world.prompt_tokens(task, {**fields, "evidence": shown(some)}) <= context_tokens

    counts = range(1, len(pieces) + 1)
    fitting = next((count - 1 for count in counts if not fits(pieces[:count])), len(pieces))
    if fitting or fields.get("mode") == "analysis":
        return list(pieces[: fitting or 1]), shown(pieces[: fitting or 1])
    cut = next(piece for piece in shorter(pieces[0], recorder.world) if fits([piece]) or not piece[0])
    return [(pieces[0][0][: len(cut[0])], *pieces[0][1:])], shown([cut])


def read_evidence(
    question: str, pieces: Sequence[Piece], recorder: Recorder, mode: str, context_tokens: int
) -> tuple[str, str, list[Piece]]:
    """As much evidence as the context holds, read in one call: whole response, answer, and what was read."""
    if not any(said or why for _, said, why in pieces):  # no assertions: the passages alone
        mode = "paragraph"
    fields = {"question": question, "mode": mode}
    read, shown = held(pieces, recorder, "tor.fuse", fields, context_tokens)
    response, answer = whole_response(recorder.ask("tor.fuse", **fields, evidence=shown))
    said = [text for _, text, _ in pieces if text]
    if not answer and said:  # what could not be read is what most of the evidence says
        votes = Counter(map(normalise, said))
        response = answer = next(text for text in said if votes[normalise(text)] == max(votes.values()))
    return response, answer, read


def shorter_path(path: Sequence[Passage], world: World) -> Iterator[list[Passage]]:
    """A path of ever fewer words: from the oldest on, passages become titles; then these go; the newest is cut last."""
    *older, newest = path
    titles = [replace(passage, text="") for passage in older]
    for count in range(len(older) + 1):
        yield [*titles[:count], *older[count:], newest]
    for count in range(1, len(older) + 1):
        yield [*titles[count:], newest]
    for tokens in range(world.count_tokens(newest.text), -1, -1):
        yield [replace(newest, text=world.truncate(newest.text, tokens))]


def shorter(piece: Piece, world: World) -> Iterator[Piece]:
    """The piece, each time one token shorter at the end of its last passage, down to no passage at all."""
    passages, *said = piece
    while passages:
        *before, last = passages
        for tokens in range(world.count_tokens(last.text), -1, -1):
            yield (*before, replace(last, text=world.truncate(last.text, tokens))), said[0], said[1]
        passages = tuple(before)
    yield (), said[0], said[1]


def whole_response(reply: Mapping[str, Any] | None) -> tuple[str, str]:
    """The reader's response (rationale and answer) and its answer; nothing where it could not be read."""
    if reply is None:
        return "", ""
    return f"{reply.get('rationale') or ''} {reply['answer']}".strip(), reply["answer"]
