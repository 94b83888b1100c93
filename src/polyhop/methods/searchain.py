"""Search-in-the-Chain: the model plans a whole chain of queries, search verifies and completes its nodes.

Xu, Pang, Shen, Cheng, Chua: "Search-in-the-Chain: Interactively Enhancing Large Language Models with Search for
Knowledge-intensive Tasks", WWW 2024, arXiv 2304.14732. The authors' code carries no licence; none of it is used.

Followed: Algorithm 1 and §3.3, with Table 1's ablations (``open_book``, ``verification``, ``completion``) as settings.
Settled here where the paper is silent or its code differs: there are at most ``max_rounds`` chains (Algorithm 1's
``r > r_max`` would allow one more). A query is a duplicate if it is equal after normalisation (the code: a similarity
model), unsolved or not. A span that is empty, or normalises to nothing, is no answer and neither verifies nor corrects
(in the code, every answer contains it). A node whose answer is a non-answer ("unknown") is an unsolved query. An
unsolved query without a span is fed back with its passage alone, and one without a passage with nothing; its node is
recorded with the answer that the next chain gives. ROUGE is ROUGE-L, by default its F. With ``completion=false`` an
unsolved query is passed over but not processed: a later chain may answer it. If the final content cannot be read, the
answer is the last chain's final answer. The question's kind decides how many of Table 8's demonstrations are shown, the
same number for both prompts. ``verify`` judges the references, which people did in the paper.

Example: "Where was the director of Dark Mill born?" The model writes: who directed it (Ann Lee), where was Ann Lee born
(unsolved). The film's passage says Rolf Anders, and the reader is sure: the first node is corrected and the round ends.
The new chain starts from Rolf Anders; his birthplace is unsolved, read from his passage and fed back: completed. In the
third chain every node passes, and the final content cites both passages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.references import Found, Recorded, Source, Verify, holds, resolve
from polyhop.methods.registry import method, select
from polyhop.metrics import rouge_l
from polyhop.prompts.tasks.searchain import SEARCHAIN_CHAIN, SEARCHAIN_TRACE, QueryNode, TracedContent
from polyhop.types import Evidence, Kind, NonNegative, Passage, Positive, Span, SpanChoice

if TYPE_CHECKING:
    from polyhop.engine.run import Run
    from polyhop.engine.speculation import SpeculativeRun

Feedback: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that the steps of Algorithm 1 read. θ, the form and the shots are resolved for the question."""

    max_rounds: int
    k: int
    theta: float
    is_long: bool
    rouge: float
    rouge_kind: Literal["f", "precision", "recall"]
    verification: bool
    completion: bool
    open_book: bool
    span: SpanChoice | None
    shots: int
    verify: Verify
    speculate: int


@dataclass(slots=True)
class State:
    """The state of one question: the chains so far with the feedback on them, and their results."""

    question: str
    processed: set[str] = field(default_factory=set)  # M
    path: list[Recorded] = field(default_factory=list)  # R
    chains: list[list[dict[str, Any]]] = field(default_factory=list)
    feedback: list[Feedback] = field(default_factory=list)
    final: str | None = None  # the final answer of the last chain
    retrieved: list[Passage] = field(default_factory=list)


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
    max_rounds: Positive = 5,  # §4.1.3: maximum number of chains
    k: Positive = 1,  # Algorithm 1: the top-1 document
    confidence: float | None = None,  # §3.3 θ: correct if the reader is surer; None: its own (1.5 in the paper)
    rouge: Annotated[float, Ge(0), Le(1)] = 0.35,  # §3.3 α, Table 7: a long answer agrees with a passage above it
    rouge_kind: Literal["f", "precision", "recall"] = "f",  # which ROUGE-L
    form: Literal["short", "long"] | None = None,  # how agreement is judged; None: by the question's kind
    verification: bool = True,  # Table 1: nodes are corrected
    completion: bool = True,  # Table 1: unsolved nodes are completed
    open_book: bool = True,  # Table 1: false is the Chain-of-Query alone
    span: SpanChoice | None = None,  # how a DPR reader picks its span; None: its own way
    shots: NonNegative | None = None,  # None: Table 8's, by kind
    # Beyond the paper.
    verify: Verify = "containment",  # what supports a reference: the answer in its passage, or the reader
    speculate: NonNegative = 0,  # number of nodes looked up ahead of the walk; the result is the same
) -> Answer:
    """Generate a chain of queries, verify and complete its nodes, regenerate from the node fed back (Algorithm 1)."""
    theta = run.reader_threshold if confidence is None else confidence
    is_long = form == "long" if form else run.kind == "long"
    shots = _paper_shots(run.kind, open_book) if shots is None else shots
    settings = select(Settings, locals())
    state = State(question)
    async with run.speculating(speculate) as ahead:
        with run.gathering():
            if open_book:
                await reason(state, run, settings, ahead)
            else:
                state.path = unsearched(await generate_chain(state, run, settings))

    if not open_book and state.final:
        traced = TracedContent(content="", answer=state.final)
    else:
        traced = await run.ask(  # §3.3, tracing
            SEARCHAIN_TRACE,
            options={"shots": shots},
            final=True,
            question=question,
            kind=run.kind,
            nodes=[{"query": node.query, "answer": node.answer, "passage": node.passage} for node in state.path],
        )
    content = resolve(traced.content, state.path)
    supported: dict[int, bool] = dict.fromkeys(content.cited, False)
    with run.gathering():
        for number in supported:
            supported[number] = await is_supported(state.path[number - 1], run, settings)
    references = [reference.as_json(verify, supported[reference.marker]) for reference in content.references]
    nodes = [{"query": node.query, "answer": node.answer, "source": node.source} for node in state.path]
    run.note("final content", text=content.text, nodes=nodes, references=references)
    passages = tuple(dict.fromkeys(node.passage for node in state.path if node.passage))
    return Answer(
        traced.answer or state.final or "",
        passages=tuple(dict.fromkeys(state.retrieved)),
        evidence=(Evidence(passages),) if passages else (),
        supported=bool(supported) and all(supported.values()),
        citations=content.citations(),
        content=content.text,
        statistics={
            "rounds": len(state.chains),
            "steps": len({_key(node["query"]) for chain in state.chains for node in chain}),  # Table 4
            **_source_counts(state.path),
            **content.counts(verify, supported),
        },
    )


async def reason(state: State, run: Run, settings: Settings, ahead: SpeculativeRun) -> None:
    """Generate a chain and walk its nodes up to the first with feedback, from which the next chain branches."""
    nodes = await generate_chain(state, run, settings)
    record_completed(nodes, state)
    for i, node in enumerate(nodes):
        if not is_due(node, state, settings):
            continue
        look_ahead(nodes[i + 1 :], state, settings, ahead)
        with run.branch("node", node.query) as branch:
            feedback = await interact(node, state, run, settings)
            state.processed.add(_key(node.query))
            branch.verdict = feedback["reason"] if feedback else "pass"
            if feedback:
                state.feedback.append(feedback)
                if len(state.chains) < settings.max_rounds:
                    await reason(state, run, settings, ahead)  # §3.3: the new chain is a branch from this very node
                return


async def generate_chain(state: State, run: Run, settings: Settings) -> list[QueryNode]:
    """Ask for a chain of queries, with all earlier chains and the feedback on them (§3.2)."""
    chain = await run.ask(
        SEARCHAIN_CHAIN,
        options={"shots": settings.shots},
        question=state.question,
        kind=run.kind,
        open_book=settings.open_book,
        chains=list(state.chains),
        feedback=list(state.feedback),
    )
    state.final = chain.final
    nodes = [node for node in chain.nodes if node.query] or [QueryNode(query=state.question)]
    state.chains.append([node.model_dump() for node in nodes])
    return nodes


def record_completed(nodes: Sequence[QueryNode], state: State) -> None:
    """Record a node that was fed back with a passage alone, with the answer that the new chain gives it."""
    waiting = state.feedback[-1] if state.feedback else None
    if waiting is None or waiting["answer"]:
        return
    node = next((node for node in nodes if node.answer and _key(node.query) == _key(waiting["query"])), None)
    if node is not None and node.answer:
        source: Source = "completed" if waiting["passage"] else "lm"
        state.path.append(Recorded(waiting["query"], node.answer, Found(waiting["passage"], None, 0.0), source))


def is_due(node: QueryNode, state: State, settings: Settings) -> bool:
    """True unless the node's query is processed already, or unsolved and passed over."""
    return _key(node.query) not in state.processed and bool(node.answer or settings.completion)


async def interact(node: QueryNode, state: State, run: Run, settings: Settings) -> Feedback | None:
    """Verify an answered node, complete an unsolved one; return the feedback, or None for "Pass" (IR, §3.3)."""
    hits, read = await look_up(node, run, settings)
    state.retrieved.extend(hits)
    if not node.answer:
        if read.answer:
            state.path.append(Recorded(node.query, read.answer, read, "completed"))
        return _feedback(node, read, "complete")
    if is_sure(read, settings) and not is_consistent(node.answer, read, settings):
        state.path.append(Recorded(node.query, read.answer or "", read, "corrected"))
        return _feedback(node, read, "verify")
    state.path.append(Recorded(node.query, node.answer, read, "lm"))
    return None


async def look_up(node: QueryNode, run: Run, settings: Settings) -> tuple[list[Passage], Found]:
    """Search for the query of a node and have the reader answer it; an answered node is read to verify it (§3.3)."""
    hits = await run.search(node.query, settings.k)
    if not hits or (node.answer and not settings.verification):
        return hits, Found(hits[0] if hits else None)
    return hits, _found(hits, await run.read(node.query, hits, span=settings.span))


def is_sure(read: Found, settings: Settings) -> bool:
    """True if the reader has an answer and is surer of it than θ (§3.3)."""
    return read.answer is not None and read.confidence is not None and read.confidence > settings.theta


def is_consistent(answer: str, read: Found, settings: Settings) -> bool:
    """True if an answer agrees with the reader's span or, in long form, with the passage (§3.3)."""
    if settings.is_long:
        text = read.passage.text if read.passage else ""
        return rouge_l(answer, text, settings.rouge_kind) > settings.rouge
    return normalise(read.answer or "") in normalise(answer)


def unsearched(nodes: Sequence[QueryNode]) -> list[Recorded]:
    """Return the answered nodes of a chain without searches, one per query (Table 1)."""
    recorded: dict[str, Recorded] = {}
    for node in nodes:
        if node.answer:
            recorded.setdefault(_key(node.query), Recorded(node.query, node.answer, Found(), "lm"))
    return list(recorded.values())


# --- beyond the paper ------------------------------------------------------------------------------------------------


def look_ahead(nodes: Sequence[QueryNode], state: State, settings: Settings, ahead: SpeculativeRun) -> None:
    """Look up the next nodes that the walk will probably reach; the walk claims the results it needs."""

    async def scout(key: tuple[str, str | None]) -> None:
        query, answer = key
        await look_up(QueryNode(query=query, answer=answer), ahead.run, settings)

    due = (node for node in nodes if is_due(node, state, settings))
    for node in islice(due, settings.speculate):
        ahead.explore((node.query, node.answer), scout, sure=False)


async def is_supported(node: Recorded, run: Run, settings: Settings) -> bool:
    """Judge if the passage of a node supports its answer, by ``verify``."""
    if settings.verify != "reader":
        return settings.verify == "none" or holds(node)
    read = node.found
    if read.confidence is None and read.passage:  # the walk only searched for it
        read = _found([read.passage], await run.read(node.query, [read.passage], span=settings.span))
    return is_sure(read, settings) and (node.answer == read.answer or is_consistent(node.answer, read, settings))


# --- helpers ---------------------------------------------------------------------------------------------------------


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


def _source_counts(path: Sequence[Recorded]) -> dict[str, float]:
    """Count Table 2's sources of knowledge; also mark the questions of Table 3's S_IR."""
    sources = [node.source for node in path]
    counts = {f"from {source}": sources.count(source) for source in ("lm", "corrected", "completed")}
    shares = {f"share {name}": count / len(path) for name, count in counts.items()} if path else {}
    return {"nodes": len(path), **counts, **shares, "changed by search": int(len(path) > counts["from lm"])}
