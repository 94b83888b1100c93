"""Search-in-the-Chain: the model plans a whole chain of queries, search verifies and completes its nodes.

Xu, Pang, Shen, Cheng, Chua: "Search-in-the-Chain: Interactively Enhancing Large Language Models with Search for
Knowledge-intensive Tasks", WWW 2024, arXiv 2304.14732. The authors' code carries no licence; none of it is used.

Followed: Algorithm 1 and §3.3, with Table 1's ablations (``open_book``, ``verification``, ``completion``) as settings.
Settled here where the paper is silent or its code differs: at most ``max_rounds`` chains (Algorithm 1's ``r > r_max``
would allow one more); a duplicate is a query equal after normalisation (the code: a similarity model), an unsolved one
too; a span that is empty, or normalises to nothing, is no answer and neither verifies nor corrects (in the code it
stands in every answer); a node answered by a non-answer ("unknown") is an unsolved query; an unsolved query without a
span is fed back with its passage alone, one without a passage with nothing, and its node is recorded with the answer
the next chain gives; ROUGE is ROUGE-L, its F by default. A passed-over unsolved query (``completion=false``) is not
processed: a later chain may answer it. Where the final content cannot be read, the last chain's final answer stands.
Table 8's demonstrations are counted by a question's kind, the same for both prompts. ``verify`` judges the references,
which the paper left to people.

Example: "Where was the director of Dark Mill born?" The model writes: who directed it (Ann Lee), where was Ann Lee born
(unsolved). The film's passage says Rolf Anders, and the reader is sure: the first node is corrected and the round ends.
The new chain starts from Rolf Anders; his birthplace is unsolved, read off his passage and fed back: completed. The
third chain passes, and the final content cites both passages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.references import Found, Recorded, Source, Verify, holds, resolve
from polyhop.methods.registry import method
from polyhop.metrics import rouge_l
from polyhop.prompts.tasks import ChainOfQuery, QueryNode, TracedContent
from polyhop.types import Evidence, Kind, NonNegative, Passage, Positive, Span, SpanChoice

if TYPE_CHECKING:
    from polyhop.engine.run import Run

Feedback: TypeAlias = Mapping[str, Any]


def _needs(settings: Mapping[str, Any]) -> tuple[str, ...]:
    if not settings["open_book"]:
        return ()
    return ("retriever", "reader", "span_choice") if settings["span"] else ("retriever", "reader")


@method(
    "searchain",
    family="system",
    calls=5,
    paper="Search-in-the-Chain (Xu et al., 2024)",
    layers=lambda settings: (int(settings["max_rounds"]) if settings["open_book"] else 1) + 1,
    needs=_needs,
)
async def search_in_the_chain(
    question: str,
    run: Run,
    *,
    max_rounds: Positive = 5,  # §4.1.3: at most so many chains
    k: Positive = 1,  # Algorithm 1: the top-1 document
    confidence: float | None = None,  # §3.3 θ: correct when surer; None: the reader's own (1.5 on the paper's)
    rouge: Annotated[float, Ge(0), Le(1)] = 0.35,  # §3.3 α, Table 7: long answers agree with a passage above it
    rouge_kind: Literal["f", "precision", "recall"] = "f",  # which ROUGE-L
    form: Literal["short", "long"] | None = None,  # how agreement is judged; None: by the question's kind
    verification: bool = True,  # Table 1: nodes are corrected
    completion: bool = True,  # Table 1: unsolved nodes are filled in
    open_book: bool = True,  # Table 1: false is the Chain-of-Query alone
    span: SpanChoice | None = None,  # how a DPR reader picks its span; None: its own way
    shots: NonNegative | None = None,  # None: Table 8's, by kind
    # Beyond the paper.
    verify: Verify = "containment",  # what supports a reference: its passage holds the answer, or the reader reads it
    speculate: NonNegative = 0,  # so many nodes are looked up ahead of the walk; the result is the same
) -> Answer:
    """Generate a chain of queries, verify and complete its nodes, regenerate from the node fed back (Algorithm 1)."""
    theta = run.reader_threshold if confidence is None else confidence
    is_long = (form or ("long" if run.kind == "long" else "short")) == "long"
    processed: set[str] = set()  # M
    path: list[Recorded] = []  # R
    chains: list[list[dict[str, Any]]] = []
    feedback: list[Feedback] = []
    retrieved: list[Passage] = []
    final: str | None = None
    shown = _paper_shots(run.kind, open_book) if shots is None else shots

    async def generate() -> list[QueryNode]:
        nonlocal final
        chain: ChainOfQuery = await run.ask(
            "searchain.chain",
            options={"shots": shown},
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
        for i, node in enumerate(nodes):
            if not is_due(node):
                continue
            for later in islice(filter(is_due, nodes[i + 1 :]), speculate):
                ahead.explore((later.query, reads(later)), scout, sure=False)
            with ExitStack() as leaf:
                branch = leaf.enter_context(run.branch("node", node.query))
                returned = await interact(node)
                processed.add(_key(node.query))
                branch.verdict = returned["reason"] if returned else "pass"
                if returned:
                    tree.enter_context(leaf.pop_all())  # §3.3: the new chain is a branch from this very node
                    return returned
        return None

    def is_due(node: QueryNode) -> bool:
        return _key(node.query) not in processed and bool(node.answer or completion)

    def reads(node: QueryNode) -> bool:
        return verification or not node.answer

    async def interact(node: QueryNode) -> Feedback | None:
        """Return the feedback of Algorithm 1's IR on a node, or None for "Pass"."""
        hits, read = await look_up(node.query, reads(node), run)
        retrieved.extend(hits)
        if not node.answer:
            if read.answer:
                path.append(Recorded(node.query, read.answer, read, "completed"))
            return _feedback(node, read, "complete")
        if is_sure(read) and not consistent(node.answer, read):
            path.append(Recorded(node.query, read.answer or "", read, "corrected"))
            return _feedback(node, read, "verify")
        path.append(Recorded(node.query, node.answer, read, "lm"))
        return None

    async def look_up(query: str, is_read: bool, run: Run) -> tuple[list[Passage], Found]:
        hits = await run.search(query, k)
        if not (hits and is_read):
            return hits, Found(hits[0] if hits else None)
        return hits, _found(hits, await run.read(query, hits, span=span))

    async def scout(lookup: tuple[str, bool]) -> None:
        """Look up a node that the walk will probably reach; the walk uses the results it needs."""
        await look_up(*lookup, ahead.run)

    def is_sure(read: Found) -> bool:
        return read.answer is not None and read.confidence is not None and read.confidence > theta

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
                path.append(Recorded(waiting["query"], node.answer, Found(waiting["passage"], None, 0.0), source))
                return

    async def is_supported(node: Recorded) -> bool:
        if verify != "reader":
            return verify == "none" or holds(node)
        read = node.found
        if read.confidence is None and read.passage:  # the walk only searched for it
            read = _found([read.passage], await run.read(node.query, [read.passage], span=span))
        return is_sure(read) and (node.answer == read.answer or consistent(node.answer, read))

    async with run.speculating(speculate) as ahead:
        with run.gathering(), ExitStack() as tree:
            while len(chains) < (max_rounds if open_book else 1):
                nodes = await generate()
                if not open_book:
                    path.extend(_unsearched(nodes))
                    break
                if feedback and not feedback[-1]["answer"]:
                    take_over(nodes, feedback[-1])
                returned = await traverse(nodes, tree)
                if returned is None:  # "Finish"
                    break
                feedback.append(returned)

    if not open_book and final:
        traced = TracedContent(content="", answer=final)
    else:
        traced = await run.ask(  # §3.3, tracing
            "searchain.trace",
            options={"shots": shown},
            final=True,
            question=question,
            kind=run.kind,
            nodes=[{"query": node.query, "answer": node.answer, "passage": node.passage} for node in path],
        )
    content = resolve(traced.content, path)
    supported: dict[int, bool] = dict.fromkeys(content.cited, False)
    with run.gathering():
        for number in supported:
            supported[number] = await is_supported(path[number - 1])
    references = [reference.as_json(verify, supported[reference.marker]) for reference in content.references]
    recorded = [{"query": node.query, "answer": node.answer, "source": node.source} for node in path]
    run.note("final content", text=content.text, nodes=recorded, references=references)
    passages = tuple(dict.fromkeys(node.passage for node in path if node.passage))
    return Answer(
        traced.answer or final or "",
        passages=tuple(dict.fromkeys(retrieved)),
        evidence=(Evidence(passages),) if passages else (),
        supported=bool(supported) and all(supported.values()),
        citations=content.citations(),
        content=content.text,
        statistics={
            "rounds": len(chains),
            "steps": len({_key(node["query"]) for chain in chains for node in chain}),  # Table 4
            **_source_counts(path),
            **content.counts(verify, supported),
        },
    )


def _paper_shots(kind: Kind, open_book: bool) -> int:
    """Table 8: 4 for FEVER, 6 for StrategyQA without retrieval, 2 for all else."""
    if kind == "fact":
        return 4
    return 6 if kind == "boolean" and not open_book else 2


def _found(hits: Sequence[Passage], spans: Sequence[Span]) -> Found:
    """Take the reader's first span and its passage; an empty, end-before-start or unanswerable span is no answer."""
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
    """Return the key by which duplicate queries are found; a query of punctuation alone is its own key."""
    return normalise(query) or query


def _unsearched(nodes: Sequence[QueryNode]) -> list[Recorded]:
    """Return the answered nodes of a chain without searches, one per query."""
    recorded: dict[str, Recorded] = {}
    for node in nodes:
        if node.answer:
            recorded.setdefault(_key(node.query), Recorded(node.query, node.answer, Found(), "lm"))
    return list(recorded.values())


def _source_counts(path: Sequence[Recorded]) -> dict[str, float]:
    """Count Table 2's sources of knowledge; also mark the questions of Table 3's S_IR."""
    sources = [node.source for node in path]
    counts = {f"from {source}": sources.count(source) for source in ("lm", "corrected", "completed")}
    shares = {f"share {name}": count / len(path) for name, count in counts.items()} if path else {}
    return {"nodes": len(path), **counts, **shares, "changed by search": int(len(path) > counts["from lm"])}
