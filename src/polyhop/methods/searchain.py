"""Search-in-the-Chain: the model plans a whole chain of queries, search verifies and completes its nodes.

Xu, Pang, Shen, Cheng, Chua: "Search-in-the-Chain: Interactively Enhancing Large Language Models with Search for
Knowledge-intensive Tasks", WWW 2024, arXiv 2304.14732. The authors' code carries no licence; none of it is used.

Followed: Algorithm 1 and §3.3, with Table 1's ablations (``open_book``, ``verification``, ``completion``) as settings.
Settled here where the paper is silent or its code differs: at most ``max_rounds`` chains (Algorithm 1's ``r > r_max``
would allow one more); a duplicate is a query equal after normalisation (the code: a similarity model), an unsolved one
too; a span that is empty, or normalises to nothing, is no answer and neither verifies nor corrects (in the code it
stands in every answer); an unsolved query without a span is fed back with its passage alone, one without a passage
with nothing, and its node is recorded with the answer the next chain gives; ROUGE is ROUGE-L, its F by default. A
passed-over unsolved query (``completion=false``) is not processed: a later chain may answer it. Where the final content
cannot be read, the last chain's final answer stands. FEVER's prompt had 4 shots in the paper: ``shots=4``.

Example: "Where was the director of Dark Mill born?" The model writes: who directed it (Ann Lee), where was Ann Lee born
(unsolved). The film's passage says Rolf Anders, and the reader is sure: the first node is corrected and the round ends.
The new chain starts from Rolf Anders; his birthplace is unsolved, read off his passage and fed back: completed. The
third chain passes, and the final content cites both passages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from annotated_types import Ge, Le

from polyhop.methods.registry import method
from polyhop.metrics import rouge_l
from polyhop.prompts.tasks import ChainOfQuery, QueryNode, TracedContent
from polyhop.prompts.tasks.searchain import marks
from polyhop.text import find_folded, normalise
from polyhop.types import Answer, Citation, Evidence, NonNegative, Passage, Positive, Span

if TYPE_CHECKING:
    from polyhop.engine import Run

Source: TypeAlias = Literal["lm", "corrected", "completed"]
Feedback: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A node of the correct reasoning path R: its passage is its reference."""

    query: str
    answer: str
    passage: Passage | None
    source: Source


class Found(NamedTuple):
    """What search and reader say of a query: d, g and f of Algorithm 1."""

    passage: Passage | None
    answer: str | None
    confidence: float


@method(
    "searchain",
    paper="Search-in-the-Chain (Xu et al., 2024)",
    layers=lambda settings: (int(settings["max_rounds"]) if settings["open_book"] else 1) + 1,
    needs=("retriever", "reader"),
)
async def search_in_the_chain(
    question: str,
    run: Run,
    *,
    max_rounds: Positive = 5,  # §4.1.3: at most so many chains
    k: Positive = 1,  # Algorithm 1: the top-1 document
    confidence: float | None = None,  # §3.3 θ; None: the reader's own (1.5 on the paper's DPR reader)
    rouge: Annotated[float, Ge(0), Le(1)] = 0.35,  # §3.3 α, Table 7
    rouge_kind: Literal["f", "precision", "recall"] = "f",
    form: Literal["short", "long"] | None = None,  # None: by the question's kind
    verification: bool = True,  # Table 1
    completion: bool = True,  # Table 1
    open_book: bool = True,  # Table 1: false is the Chain-of-Query alone
    shots: NonNegative = 2,  # Table 8
) -> Answer:
    """Generate a chain of queries, verify and complete its nodes, regenerate from the node fed back (Algorithm 1)."""
    theta = run.sure_above if confidence is None else confidence
    is_long = (form or ("long" if run.kind == "long" else "short")) == "long"
    processed: set[str] = set()  # M
    path: list[Recorded] = []  # R
    chains: list[list[dict[str, Any]]] = []
    feedback: list[Feedback] = []
    retrieved: list[Passage] = []
    final: str | None = None

    async def generate() -> list[QueryNode]:
        nonlocal final
        chain: ChainOfQuery = await run.ask(
            "searchain.chain",
            options={"shots": shots},
            question=question,
            kind=run.kind,
            chains=list(chains),
            feedback=list(feedback),
        )
        final = chain.final
        nodes = [node for node in chain.nodes if node.query] or [QueryNode(query=question)]
        chains.append([node.model_dump() for node in nodes])
        return nodes

    async def traverse(nodes: Sequence[QueryNode], tree: ExitStack) -> Feedback | None:
        for node in nodes:
            if _key(node.query) in processed or not (node.answer or completion):
                continue
            with ExitStack() as leaf:
                place = leaf.enter_context(run.branch("node", node.query))
                told = await interact(node)
                processed.add(_key(node.query))
                place.verdict = told["reason"] if told else "pass"
                if told:
                    tree.enter_context(leaf.pop_all())  # §3.3: the new chain is a branch from this very node
                    return told
        return None

    async def interact(node: QueryNode) -> Feedback | None:
        """Algorithm 1's IR: the feedback on a node, or None for "Pass"."""
        read = await look_up(node)
        if not node.answer:
            if read.answer:
                path.append(Recorded(node.query, read.answer, read.passage, "completed"))
            return _feedback(node, read, "complete")
        if read.answer and read.confidence > theta and not consistent(node.answer, read):
            path.append(Recorded(node.query, read.answer, read.passage, "corrected"))
            return _feedback(node, read, "verify")
        path.append(Recorded(node.query, node.answer, read.passage, "lm"))
        return None

    async def look_up(node: QueryNode) -> Found:
        hits = await run.search(node.query, k)
        retrieved.extend(hits)
        reads = hits and (verification or not node.answer)
        spans = await run.read(node.query, hits) if reads else []
        return _found(hits, spans)

    def consistent(answer: str, read: Found) -> bool:
        if is_long:
            text = read.passage.text if read.passage else ""
            return rouge_l(answer, text, rouge_kind) > rouge
        return normalise(read.answer or "") in normalise(answer)

    def take_over(nodes: Sequence[QueryNode], waiting: Feedback) -> None:
        """Record a node completed without a span with the answer this chain gives it."""
        for node in nodes:
            if node.answer and _key(node.query) == _key(waiting["query"]):
                source: Source = "completed" if waiting["passage"] else "lm"
                path.append(Recorded(waiting["query"], node.answer, waiting["passage"], source))
                return

    with run.gathering(), ExitStack() as tree:
        while len(chains) < (max_rounds if open_book else 1):
            nodes = await generate()
            if not open_book:
                path.extend(_told(nodes))
                break
            if feedback and not feedback[-1]["answer"]:
                take_over(nodes, feedback[-1])
            told = await traverse(nodes, tree)
            if told is None:  # "Finish"
                break
            feedback.append(told)

    if not open_book and final:
        traced = TracedContent(content="", answer=final)
    else:
        traced = await run.ask(  # §3.3, tracing
            "searchain.trace",
            options={"shots": shots},
            final=True,
            question=question,
            kind=run.kind,
            nodes=[{"query": node.query, "answer": node.answer, "passage": node.passage} for node in path],
        )
    return _answer(traced, final, path, retrieved, run, rounds=len(chains))


def _found(hits: Sequence[Passage], spans: Sequence[Span]) -> Found:
    """The reader's first span and its passage; an empty, end-before-start or unanswerable span is no answer."""
    top = hits[0] if hits else None
    if not spans:
        return Found(top, None, 0.0)
    best = spans[0]
    there = best.answerable and best.end > best.start and normalise(best.text)
    if not there:
        return Found(top, None, best.confidence)
    return Found(next((hit for hit in hits if hit.id == best.passage_id), top), best.text.strip(), best.confidence)


def _feedback(node: QueryNode, read: Found, reason: Literal["verify", "complete"]) -> Feedback:
    return {"query": node.query, "answer": read.answer, "passage": read.passage, "reason": reason}


def _key(query: str) -> str:
    """Two queries are duplicates when these are equal; one of marks alone is known by the marks."""
    return normalise(query) or query


def _told(nodes: Sequence[QueryNode]) -> list[Recorded]:
    """The answered nodes of a chain that nothing was searched for, one a query."""
    told: dict[str, Recorded] = {}
    for node in nodes:
        if node.answer:
            told.setdefault(_key(node.query), Recorded(node.query, node.answer, None, "lm"))
    return list(told.values())


def _answer(
    traced: TracedContent,
    final: str | None,
    path: Sequence[Recorded],
    retrieved: Sequence[Passage],
    run: Run,
    *,
    rounds: int,
) -> Answer:
    """The short answer, with the content's marks resolved to the nodes' passages (§3.3)."""
    content, cited, dropped = _resolved(traced.content, path)
    nodes = [{"query": node.query, "answer": node.answer, "source": node.source} for node in path]
    run.note("final content", text=content, nodes=nodes)
    backed = [_backs(path[number - 1]) for number in cited]
    sources = [node.source for node in path]
    counts = {f"from {source}": sources.count(source) for source in ("lm", "corrected", "completed")}
    passages = tuple(dict.fromkeys(node.passage for node in path if node.passage))
    return Answer(
        traced.answer or final or "",
        passages=tuple(dict.fromkeys(retrieved)),
        evidence=(Evidence(passages),) if passages else (),
        supported=bool(backed) and all(backed),
        citations=tuple(
            _citation(number, node.answer, node.passage)
            for number in dict.fromkeys(cited)
            if (node := path[number - 1]).passage
        ),
        statistics={
            "rounds": rounds,
            "nodes": len(path),
            **counts,
            **({f"share {name}": count / len(path) for name, count in counts.items()} if path else {}),
            "skc": len(set(cited)),
            "references": len(cited),
            "marks dropped": dropped,
            **({"supported references": sum(backed) / len(backed)} if backed else {}),
        },
    )


def _resolved(content: str, path: Sequence[Recorded]) -> tuple[str, list[int], int]:
    """The content with only the marks that have a passage; those, in order; and how many were dropped."""
    pieces: list[str] = []
    cited: list[int] = []
    dropped = end = 0
    for start, after, numbers in marks(content):
        kept = [number for number in numbers if 1 <= number <= len(path) and path[number - 1].passage]
        before = content[end:start]
        pieces.append(f"{before}[{', '.join(map(str, kept))}]" if kept else before.rstrip(" "))
        cited += kept
        dropped += len(numbers) - len(kept)
        end = after
    return "".join(pieces) + content[end:], cited, dropped


def _backs(node: Recorded) -> bool:
    """Whether a node's passage holds its answer (ours: the paper had people judge the marks)."""
    passage = node.passage
    return passage is not None and find_folded(node.answer, f"{passage.title}\n{passage.text}") is not None


def _citation(number: int, answer: str, passage: Passage) -> Citation:
    start, end = find_folded(answer, passage.text) or (None, None)
    return Citation(number, passage.id, start, end)
