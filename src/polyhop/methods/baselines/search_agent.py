"""Search agents: the model writes one text and searches in it by tags, in the protocol that it was trained with.

- Search-R1: Jin, Zeng, Yue, Yoon, Arik, Wang, Zamani, Han, 2025; R1-Searcher: Song, Jiang, Min, Chen, Chen, Zhao, Fang,
  Wen, 2025; ReSearch: Chen et al., 2025; Search-o1: Li, Dong, Jin, Zhang, Zhou, Zhu, Zhang, Dou, 2025; AutoRefine: Shi,
  Li, Wu, Liu, Zhang, Cai, Wang, Wang, 2025. One's own by a file.

Followed: the text stops where a query ends, its results are inserted there between tags, and the same text goes on; an
answer between tags ends it. What differs between the papers is a file (``prompts/protocols``), which also says what was
checked of it: the prompt, the tags, the form of results, k, the turns. Search-o1's results are what a call of its own
finds in the passages (Reason-in-Documents); what AutoRefine refines is a part of the text.
Settled here: greedy by default. That call of Search-o1 is the compressor of ``recomp``, which is shown the query alone,
not the reasoning before it. Passages cannot write a tag of the protocol. A turn without a query or an answer is
followed by the protocol's message of correction; in a protocol without one it ends the text. After the last turn the
text is led to the answer. A text longer than ``context_tokens`` loses its oldest results first, then its oldest turns.
A model that continues no text is shown it in the user's turn. Needs nothing beyond completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" <think> Who led it? </think> <search> leader of
the Kon-Tiki expedition </search>, and the passages are inserted; <think> Thor Heyerdahl. </think> <search> Thor
Heyerdahl place of birth </search>, and his are; <answer> Larvik </answer>.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.methods.context import (
    answer_from_passages,
    cut_oldest,
    first_retrieved,
    fit_items,
    fit_to_context,
    note_left_out,
)
from polyhop.methods.registry import method
from polyhop.prompts.protocol import Protocol, named
from polyhop.prompts.tasks.search_agent import SEARCH_AGENT_WRITE, Piece
from polyhop.prompts.tasks.summaries import RECOMP_COMPRESS
from polyhop.types import FileName, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


def _layers(settings: Mapping[str, Any]) -> int:
    protocol = named(settings["protocol"])
    return int(settings["max_turns"] or protocol.max_turns) * (1 + protocol.reads) + 1


def _needs(settings: Mapping[str, Any]) -> tuple[str, ...]:
    named(settings["protocol"])  # so that a faulty file is an error before the first question
    return ("retriever",)


@method(
    "search-agent",
    family="iterative",
    calls=2,
    paper="Search-R1 (Jin et al., 2025)",
    layers=_layers,
    needs=_needs,
)
async def search_agent(
    question: str,
    run: Run,
    *,
    protocol: FileName = "search-r1",  # autorefine, r1-searcher, research, search-o1, or a file
    k: Positive | None = None,  # None: the protocol's, as the next two
    max_turns: Positive | None = None,  # maximum number of turns before the answer is opened
    turn_tokens: Positive | None = None,  # tokens per turn
    temperature: Annotated[float, Ge(0)] = 0.0,
    shots: NonNegative = 3,  # of the call that reads documents, in a protocol that has one
    context_tokens: Positive = 4096,  # Search-R1, App. B
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Write a text that searches for facts with a protocol's tags, until the answer."""
    known = named(protocol)
    turns = max_turns or known.max_turns
    options: Options = {
        "temperature": temperature,
        "max_tokens": turn_tokens or known.turn_tokens,
        "stop": known.stop,
    }
    prompt = known.turns(question, run.kind, k=k or known.k, max_turns=turns, may_decline=run.allow_unanswerable)
    text = Text(question, run, known, k or known.k, prompt, options, shots, context_tokens)
    answer: str | None = None
    with run.gathering():
        answer = await text.write(turns)
    if answer is None:
        text.lead = text.draft = known.closing(text.written(text.turns))
        piece = await text.go_on(final=True)
        answer = piece.answer or ""
    return text.answer(answer, rank_limit)


@dataclass(slots=True)
class Text:
    """The text so far: the turns that the model wrote, each with its query and the passages or words that follow it.

    ``draft`` is the end of the text without a query or an answer, and ``lead`` what leads to the answer at last.
    """

    question: str
    run: Run
    protocol: Protocol
    k: int
    prompt: Mapping[str, str]
    options: Options
    shots: int
    context_tokens: int
    turns: list[dict[str, Any]] = field(default_factory=list)
    found: list[list[Passage]] = field(default_factory=list)
    draft: str = ""
    lead: str = ""
    valid: int = 0
    truncated: int = 0

    async def write(self, turns: int) -> str | None:
        """Write at most ``turns`` turns; return the answer, or None if the text has none yet."""
        for _ in range(turns):
            piece = await self.go_on()
            if piece.query:
                await self.search(piece.query)
            elif piece.answer:
                return piece.answer
            elif not self.correct(piece):
                return None
        return None

    async def go_on(self, *, final: bool = False) -> Piece:
        """Let the model write a turn."""
        piece = await self.run.ask(SEARCH_AGENT_WRITE, options=self.options, final=final, **self.fitting())
        self.turns.append({"text": piece.text or self.protocol.tagged(piece.query, piece.answer), "passages": []})
        self.valid += bool(piece.query or piece.answer)
        self.truncated += piece.completion.finish_reason == "length"
        return piece

    async def search(self, query: str) -> None:
        """Search; the results follow the turn."""
        turn, protocol = self.turns[-1], self.protocol
        self.draft = ""
        if protocol.repeated and normalise(query) in {normalise(before.get("query", "")) for before in self.turns[:-1]}:
            self.run.note("repeated query", query=query)
            turn |= {"query": query, "words": protocol.repeated}
            return
        with self.run.branch("search", query) as branch:
            hits = await self.run.search(query, self.k)
            branch.verdict = "inserted" if hits else "nothing found"
            self.found.append(hits)
            turn |= {"query": query, "hits": hits, "passages": hits, "shown": protocol.results(hits)}
            if protocol.reads:
                turn |= {"passages": [], "words": await self.read(query, hits)}

    async def read(self, query: str, hits: Sequence[Passage]) -> str:
        """Return what the passages say about the query (Search-o1 §3.3)."""
        options: Options = {"temperature": self.options["temperature"], "shots": self.shots}
        fields = fit_to_context(
            RECOMP_COMPRESS, hits, self.run, options=options, context_tokens=self.context_tokens, question=query
        )
        if not fields["passages"]:
            return self.protocol.nothing
        reply = await self.run.ask(RECOMP_COMPRESS, options=options, **fields)
        return self.protocol.safe(reply.summary) or self.protocol.nothing

    def correct(self, piece: Piece) -> bool:
        """Follow a turn without a query or an answer by the protocol's correction; False if that ends the text."""
        is_cut = piece.completion.finish_reason == "length"
        self.run.note("malformed turn", text=piece.text, truncated=is_cut)
        if correction := self.protocol.correction:
            self.turns[-1]["correction"], self.draft = correction, ""
        else:
            self.draft += piece.text
        return bool(correction) or is_cut

    def fitting(self) -> dict[str, Any]:
        """Return the fields of the next turn: without the oldest results, then the oldest turns, if they do not fit."""

        def fields(turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
            searched = [turn for turn in self.turns if "hits" in turn]
            return {
                "question": self.question,
                **self.prompt,
                "assistant": self.written(turns),
                "form": "text" if self.protocol.raw else "turn",
                "draft": self.draft,
                "tags": self.protocol.marks,
                "steps": [{"query": turn["query"], "passages": turn["hits"]} for turn in searched],
            }

        def fits(fields: Mapping[str, Any]) -> bool:
            longest = {**fields, "form": "shown"}
            length = self.run.prompt_tokens(SEARCH_AGENT_WRITE, options=self.options, **longest)
            return length <= self.context_tokens

        if fits(whole := fields(self.turns)):
            return whole
        turns = cut_oldest(self.turns, lambda cut: fits(fields(cut)), self.run)
        kept = fit_items(turns[::-1], lambda few: fits(fields(few[::-1])))[::-1]
        note_left_out(self.run, turns=[turn["text"] for turn in turns[: len(turns) - len(kept)]])
        return fields(kept)

    def written(self, turns: Sequence[Mapping[str, Any]]) -> str:
        """Return the text of these turns, with all that was inserted."""
        return self.protocol.opening + "".join(turn["text"] + self.inserted(turn) for turn in turns) + self.lead

    def inserted(self, turn: Mapping[str, Any]) -> str:
        """Return what follows a turn: the results of its query, or the correction."""
        if "query" not in turn:
            return str(turn.get("correction", ""))
        if "words" in turn:
            return self.protocol.inserting(turn["words"])
        if turn["passages"] is turn["hits"]:
            return str(turn["shown"])
        return self.protocol.results(turn["passages"]) if turn["passages"] else self.protocol.inserting("…")

    def answer(self, answer: str, rank_limit: int) -> Answer:
        """Build the answer, with all passages as its evidence."""
        statistics = {
            "turns": len(self.turns),
            "searches": len(self.found),
            "valid_formats": self.valid / len(self.turns),
            "truncated": self.truncated,
        }
        return answer_from_passages(first_retrieved(self.found, rank_limit), answer, statistics=statistics)
