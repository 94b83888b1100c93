"""Search-in-the-Chain: the model plans a whole chain of queries, search verifies and completes its nodes.

Xu, Pang, Shen, Cheng, Chua: "Search-in-the-Chain: Interactively Enhancing Large Language Models with Search for
Knowledge-intensive Tasks", WWW 2024, arXiv 2304.14732. The authors' code carries no licence; none of it is used.

Followed: Algorithm 1 and §3.3, with Table 1's ablations (``open_book``, ``verification``, ``completion``) as settings.
Settled here where the paper is silent or its code differs:

- There are at most ``max_rounds`` chains (Algorithm 1's ``r > r_max`` would allow one more).
- A query is a duplicate, unsolved or not, if it equals a processed one or is ``alike`` (the code: a similarity model).
- Answer and span agree if either contains the other (``consistency``; the paper: if the answer contains the span).
- A span that is empty or a non-answer neither verifies nor corrects (in the code, every answer contains an empty one).
- A node whose answer is a non-answer ("unknown") is an unsolved query.
- An unsolved query without a span is fed back with its passage alone, and one without a passage with nothing; its node
  is recorded with the answer that the next chain gives. With ``completion=false`` an unsolved query is passed over but
  not processed: a later chain may answer it.
- ROUGE is ROUGE-L, by default its F.
- A prompt shows the passage of the last feedback alone, and the passages of the path if the answer is long.
- If the final content cannot be read, the answer is the last chain's final answer, else what the reply says.
- Both prompts show as many demonstrations as Table 8 has for the question's kind.
- ``verify`` judges the references, which people did in the paper.

Example: "Where was the director of Dark Mill born?" The model writes: who directed it (Ann Lee), where was Ann Lee born
(unsolved). The film's passage says Rolf Anders, and the reader is sure: the first node is corrected and the round ends.
The new chain starts from Rolf Anders; his birthplace is unsolved, read from his passage and fed back: completed. In the
third chain every node passes, and the final content cites both passages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import cut_to_fit, fit_items, fit_passages, note_left_out
from polyhop.methods.references import Content, Found, Recorded, Source, Verify, holds, resolve, source_counts
from polyhop.methods.registry import method, select
from polyhop.metrics import rouge_l
from polyhop.prompts.agreement import Likeness, agree, find_equal, is_yes_or_no, key_of
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.searchain import SEARCHAIN_CHAIN, SEARCHAIN_TRACE, QueryNode
from polyhop.types import Evidence, Kind, NonNegative, Passage, Positive, Span, SpanChoice

if TYPE_CHECKING:
    from polyhop.engine.run import Run
    from polyhop.engine.speculation import SpeculativeRun

Chain: TypeAlias = list[dict[str, Any]]
Feedback: TypeAlias = Mapping[str, Any]
Turn: TypeAlias = tuple[Chain, Feedback]
"""A chain and the feedback on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that the steps of Algorithm 1 read. θ, the form and the shots are resolved for the question."""

    max_rounds: int
    k: int
    theta: float
    is_long: bool
    rouge: float
    rouge_kind: Literal["f", "precision", "recall"]
    consistency: Literal["two-way", "one-way"]
    alike: Likeness
    verification: bool
    completion: bool
    open_book: bool
    span: SpanChoice | None
    shots: int
    context_tokens: int
    verify: Verify
    speculate: int


@dataclass(slots=True)
class State:
    """The state of one question: the chains so far with the feedback on them, and their results."""

    question: str
    processed: list[str] = field(default_factory=list)  # M
    path: list[Recorded] = field(default_factory=list)  # R
    chains: list[Chain] = field(default_factory=list)
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
    confidence: float | None = None,  # §3.3 θ: minimum confidence to correct; None: the reader's own (paper: 1.5)
    rouge: Annotated[float, Ge(0), Le(1)] = 0.35,  # §3.3 α, Table 7: a long answer agrees with a passage above it
    rouge_kind: Literal["f", "precision", "recall"] = "f",  # which ROUGE-L
    form: Literal["short", "long"] | None = None,  # how agreement is judged; None: by the question's kind
    verification: bool = True,  # Table 1: nodes are corrected
    completion: bool = True,  # Table 1: unsolved nodes are completed
    open_book: bool = True,  # Table 1: false is the Chain-of-Query alone
    span: SpanChoice | None = None,  # how a DPR reader selects its span; None: its own way
    shots: NonNegative | None = None,  # None: Table 8's, by kind
    # Beyond the paper.
    consistency: Literal["two-way", "one-way"] = "two-way",  # §3.3: one-way, the answer contains the span
    alike: Likeness = 0.9,  # Algorithm 1, DuplicateQuery: similarity of equal queries; exact: the same words
    context_tokens: Positive = 4096,  # maximum length of a prompt
    verify: Verify = "containment",  # what supports a reference: the answer in its passage, or the reader
    speculate: NonNegative = 0,  # number of nodes looked up ahead of the walk; the result is the same
) -> Answer:
    """Generate a chain of queries, verify and complete its nodes, and regenerate it after feedback (Algorithm 1)."""
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
                state.path = unsearched(await generate_chain(state, run, settings), run, settings)

    content, answer, path = await trace(state, run, settings)
    supported: dict[int, bool] = dict.fromkeys(content.cited, False)
    with run.gathering():
        for number in supported:
            supported[number] = await is_supported(path[number - 1], run, settings)
    references = [reference.as_json(verify, supported[reference.marker]) for reference in content.references]
    nodes = [{"query": node.query, "answer": node.answer, "source": node.source} for node in path]
    run.note("final content", text=content.text, nodes=nodes, references=references)
    passages = tuple(dict.fromkeys(node.passage for node in state.path if node.passage))
    return Answer(
        answer,
        passages=tuple(dict.fromkeys(state.retrieved)),
        evidence=(Evidence(passages),) if passages else (),
        citations=content.citations(),
        content=content.text,
        statistics={
            "rounds": len(state.chains),
            "steps": len({key_of(node["query"]) for chain in state.chains for node in chain}),  # Table 4
            **source_counts(state.path),
            **content.counts(verify, supported),
        },
    )


async def reason(state: State, run: Run, settings: Settings, ahead: SpeculativeRun) -> None:
    """Generate a chain and walk its nodes up to the first with feedback, from which the next chain branches."""
    nodes = await generate_chain(state, run, settings)
    record_completed(nodes, state, run, settings)
    for i, node in enumerate(nodes):
        if not is_due(node, state, run, settings):
            continue
        look_ahead(nodes[i + 1 :], state, run, settings, ahead)
        with run.branch("node", node.query) as branch:
            feedback = await interact(node, state, run, settings)
            state.processed.append(node.query)
            branch.verdict = feedback["reason"] if feedback else "pass"
            if feedback:
                state.feedback.append(feedback)
                if len(state.chains) < settings.max_rounds:
                    await reason(state, run, settings, ahead)  # §3.3: the new chain is a branch from this very node
                return


async def generate_chain(state: State, run: Run, settings: Settings) -> list[QueryNode]:
    """Ask for a chain of queries, with all earlier chains and the feedback on them (§3.2)."""
    fields = _chain_fields(fit_turns(state, run, settings), state, run, settings)
    chain = await run.ask(SEARCHAIN_CHAIN, options={"shots": settings.shots}, **fields)
    state.final = chain.final
    nodes = [node for node in chain.nodes if node.query] or [QueryNode(query=state.question)]
    state.chains.append([node.model_dump() for node in nodes])
    return nodes


def record_completed(nodes: Sequence[QueryNode], state: State, run: Run, settings: Settings) -> None:
    """Record a node that was fed back with a passage alone, with the answer that the new chain gives it."""
    waiting = state.feedback[-1] if state.feedback else None
    if waiting is None or waiting["answer"]:
        return
    equal = (node for node in nodes if node.answer and is_duplicate(node.query, [waiting["query"]], run, settings))
    if (node := next(equal, None)) and node.answer:
        source: Source = "completed" if waiting["passage"] else "lm"
        state.path.append(Recorded(waiting["query"], node.answer, Found(waiting["passage"], None, 0.0), source))


def is_due(node: QueryNode, state: State, run: Run, settings: Settings) -> bool:
    """True unless the node is unsolved and passed over, or its query is processed already."""
    return bool(node.answer or settings.completion) and not is_duplicate(node.query, state.processed, run, settings)


def is_duplicate(query: str, known: Sequence[str], run: Run, settings: Settings) -> bool:
    """True if a query is equal to a known one, or asks for the same in other words (DuplicateQuery)."""
    return find_equal(query, known, settings.alike, run.similarity) is not None


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
    return hits, _found(node.query, hits, await run.read(node.query, hits, span=settings.span))


def is_sure(read: Found, settings: Settings) -> bool:
    """True if the reader has an answer with a confidence above θ (§3.3)."""
    return read.answer is not None and read.confidence is not None and read.confidence > settings.theta


def is_consistent(answer: str, read: Found, settings: Settings) -> bool:
    """True unless the reader's span, or in long form the passage, contradicts an answer (§3.3); never yes or no."""
    return (settings.consistency == "two-way" and is_yes_or_no(answer)) or is_backed(answer, read, settings)


def is_backed(answer: str, read: Found, settings: Settings) -> bool:
    """True if an answer agrees with the reader's span or, in long form, with the passage."""
    if settings.is_long:
        text = read.passage.text if read.passage else ""
        return rouge_l(answer, text, settings.rouge_kind) > settings.rouge
    span = read.answer or ""
    return agree(answer, span) if settings.consistency == "two-way" else normalise(span) in normalise(answer)


def unsearched(nodes: Sequence[QueryNode], run: Run, settings: Settings) -> list[Recorded]:
    """Return the answered nodes of a chain without searches, one per query (Table 1)."""
    path: list[Recorded] = []
    for node in nodes:
        if node.answer and not is_duplicate(node.query, [known.query for known in path], run, settings):
            path.append(Recorded(node.query, node.answer, Found(), "lm"))
    return path


async def trace(state: State, run: Run, settings: Settings) -> tuple[Content, str, list[Recorded]]:
    """Have the final content and the answer written from the nodes of the correct path (§3.3); return all three."""
    if not settings.open_book and state.final:
        return resolve("", []), state.final, state.path
    shown = fit_path(state, run, settings)
    fields = _trace_fields(shown, state, run)
    traced = await run.ask(SEARCHAIN_TRACE, options={"shots": settings.shots}, final=True, **fields)
    path = state.path[len(state.path) - len(shown) :]
    answer = (traced.answer if traced.parsed else None) or state.final or traced.answer
    return resolve(traced.content, path), answer, path


# --- prompts that are too long ---------------------------------------------------------------------------------------


def fit_turns(state: State, run: Run, settings: Settings) -> list[Turn]:
    """Return the chains and feedback that fit into a prompt: the one passage is cut, then the oldest chains go."""
    turns = list(zip(state.chains, state.feedback, strict=True))

    def fits(turns: Sequence[Turn]) -> bool:
        return _fits(SEARCHAIN_CHAIN, _chain_fields(turns, state, run, settings), run, settings)

    if not turns or fits(turns):
        return turns
    *earlier, (chain, feedback) = turns
    shortened = []
    if passage := feedback["passage"]:

        def last(cut: Passage) -> Turn:
            return chain, {**feedback, "passage": cut}

        cut = cut_to_fit([passage], lambda cut: fits([*earlier, last(cut[0])]), run) or [replace(passage, text="")]
        shortened = [passage.title] if cut[0].text != passage.text else []
        turns = [*earlier, last(cut[0])]
    kept = fit_items(turns[::-1], lambda newest: fits(newest[::-1]))[::-1]
    note_left_out(run, shortened=shortened, chains=[chain[0]["query"] for chain, _ in turns[: len(turns) - len(kept)]])
    return kept


def fit_path(state: State, run: Run, settings: Settings) -> list[Recorded]:
    """Return the nodes that fit into the last prompt: the oldest passages become titles, then go, then the nodes do."""
    path = state.path

    def fits(path: Sequence[Recorded]) -> bool:
        return _fits(SEARCHAIN_TRACE, _trace_fields(path, state, run), run, settings)

    if fits(path):
        return path
    if run.kind == "long":
        passages = list(dict.fromkeys(node.passage for node in reversed(path) if node.passage))

        def showing(kept: Sequence[Passage]) -> list[Recorded]:
            cut: dict[Passage | None, Passage] = dict(zip(passages, kept, strict=False))
            return [replace(node, found=node.found._replace(passage=cut.get(node.passage))) for node in state.path]

        path = showing(fit_passages(passages, lambda kept: fits(showing(kept)), run))
    kept = fit_items(path[::-1], lambda newest: fits(newest[::-1]))[::-1]
    note_left_out(run, queries=[node.query for node in path[: len(path) - len(kept)]])
    return kept


def _fits(task: Task[Any], fields: dict[str, Any], run: Run, settings: Settings) -> bool:
    return run.prompt_tokens(task, options={"shots": settings.shots}, **fields) <= settings.context_tokens


def _chain_fields(turns: Sequence[Turn], state: State, run: Run, settings: Settings) -> dict[str, Any]:
    chains, feedback = [chain for chain, _ in turns], [feedback for _, feedback in turns]
    asked = {"question": state.question, "open_book": settings.open_book}
    return {**asked, "chains": chains, "feedback": feedback}


def _trace_fields(path: Sequence[Recorded], state: State, run: Run) -> dict[str, Any]:
    nodes = [{"query": node.query, "answer": node.answer, "passage": node.passage} for node in path]
    with_passages = run.kind == "long" and any(node.passage for node in path)
    return {"question": state.question, "with_passages": with_passages, "nodes": nodes}


# --- beyond the paper ------------------------------------------------------------------------------------------------


def look_ahead(nodes: Sequence[QueryNode], state: State, run: Run, settings: Settings, ahead: SpeculativeRun) -> None:
    """Look up the next nodes that the walk will probably reach; the walk claims the results it needs."""

    async def scout(key: tuple[str, str | None]) -> None:
        query, answer = key
        await look_up(QueryNode(query=query, answer=answer), ahead.run, settings)

    due = (node for node in nodes if is_due(node, state, run, settings))
    for node in islice(due, settings.speculate):
        ahead.explore((node.query, node.answer), scout, sure=False)


async def is_supported(node: Recorded, run: Run, settings: Settings) -> bool:
    """Judge if the passage of a node supports its answer, by ``verify``."""
    if settings.verify != "reader":
        return settings.verify == "none" or holds(node)
    read = node.found
    if read.confidence is None and read.passage:  # the walk only searched for it
        read = _found(node.query, [read.passage], await run.read(node.query, [read.passage], span=settings.span))
    return is_sure(read, settings) and (node.answer == read.answer or is_backed(node.answer, read, settings))


# --- helpers ---------------------------------------------------------------------------------------------------------


def _paper_shots(kind: Kind, open_book: bool) -> int:
    """Table 8: 4 for FEVER, 6 for StrategyQA without retrieval, 2 for all else."""
    if kind == "fact":
        return 4
    return 6 if kind == "boolean" and not open_book else 2


def _found(query: str, hits: Sequence[Passage], spans: Sequence[Span]) -> Found:
    """Take the reader's first span and its passage; an empty, end-before-start or unanswerable span is no answer, nor
    is a non-answer."""
    top = hits[0] if hits else None
    if not spans:
        return Found(top, None, 0.0)
    best = spans[0]
    there = best.answerable and best.end > best.start and normalise(best.text)
    if not there or is_non_answer(best.text, query):
        return Found(top, None, best.confidence)
    return Found(next((hit for hit in hits if hit.id == best.passage_id), top), best.text.strip(), best.confidence)


def _feedback(node: QueryNode, read: Found, reason: Literal["verify", "complete"]) -> Feedback:
    return {"query": node.query, "answer": read.answer, "passage": read.passage, "reason": reason}
