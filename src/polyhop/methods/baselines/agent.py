"""A tool-calling agent: the model searches, looks into documents, and answers with citations when it wants to.

The natural baseline of 2026, after two published scaffolds:

- A-RAG: Du, Xu, Zhu, Wang, Wang, Wang, Mao, "A-RAG: Scaling Agentic Retrieval-Augmented Generation via Hierarchical
  Retrieval Interfaces", 2026 (arXiv 2602.03442), with its code, Ayanami0730/arag;
- BrowseComp-Plus: Chen et al., "BrowseComp-Plus: A More Fair and Transparent Evaluation Benchmark of Deep-Research
  Agent", 2025 (arXiv 2508.06600), with its code, texttron/BrowseComp-Plus.

Followed: the model decides on every call, by native function calling, and a reply without a call is the answer (both).
``search`` takes a query and returns the run's top 5 (both), each text cut to 512 tokens; the answer cites passages in
brackets (BrowseComp-Plus). ``find`` matches a keyword exactly, ``read`` reads the chunks beside one, and no text is
shown twice (A-RAG). The context is limited, and after the last turn the model is told to answer and cannot call tools
(A-RAG). Prompts show no demonstrations (both).
Settled here: ``find`` looks into the document of one passage, because ``search`` covers the corpus; a document is the
passages of one source or title that are next to each other. ``read`` gives the rest of a cut text and the nearest
passages that were not shown, where BrowseComp-Plus' ``get_document`` gives a whole document of any length. Passages are
cited by the numbers under which they were first shown; an unknown number is dropped and counted. The calls of a reply
are made at once, at most ``parallel`` of them; an equal search is not repeated. If the conversation is longer than
``context_tokens``, its oldest results are cut, where A-RAG ends it. A model without function calling writes its calls
as JSON in its text. A result is a JSON object per passage, so that no text can end its own string, call a tool or start
a turn. There are 5 turns (A-RAG: 15, BrowseComp-Plus: 100). Needs nothing beyond completion.
Checked in the public repositories: the loops and limits of both, the tools of BrowseComp-Plus; those of A-RAG in its
README and paper only.

Example: "In which town was the leader of the Kon-Tiki expedition born?" search(query='leader of the Kon-Tiki
expedition') shows passage 1, which names Thor Heyerdahl; search(query='Thor Heyerdahl birthplace') shows passage 2, cut
before his birth; read(passage=2) shows more of it. "Thor Heyerdahl led it [1]; he was born in Larvik [2]. The answer is
Larvik."
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, Field

from polyhop.answer import Answer
from polyhop.common.sentences import sentences
from polyhop.common.text import counted, normalise, without_citation_marks
from polyhop.engine.tool_call import Calls, Message, Tool, ToolCall
from polyhop.methods.context import cut_oldest
from polyhop.methods.references import Found, Recorded, resolve
from polyhop.methods.registry import method
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.tasks.acting import AGENT_ACT, AGENT_FINISH
from polyhop.prompts.tasks.answers import Response
from polyhop.types import Evidence, Passage, Positive, TypedTask

if TYPE_CHECKING:
    from polyhop.engine.run import Run

Views = list[tuple[Passage, str]]
"""Passages, and the text that is shown of each."""

CUT = " […]"
"""The end of a text that goes on."""
NOTHING = "Nothing was found."
REPEATED = "This search was made before: see its result, and word it in another way or look for another fact."
TOO_MANY = "Not made: a reply may have {} at most."
UNKNOWN = "No passage has this number."
NOTHING_MORE = "Nothing more of this document is known."
_IN_JSON = json.JSONEncoder(ensure_ascii=False).encode
LEFT_OUT = "Left out: the context has no room for this result any more."


class Query(BaseModel):
    """The arguments of ``search``."""

    query: str = Field(description="the fact to look for, with every person, work and place in full")


class Words(BaseModel):
    """The arguments of ``find``."""

    passage: int = Field(description="the number of a passage of the document")
    words: str = Field(description="a word or name that the sentences contain, exactly as they write it")


class PassageLocation(BaseModel):
    """The arguments of ``read``."""

    passage: int = Field(description="the number of a passage of the document")


TOOLS = (
    Tool("search", "Search the corpus for passages. Long texts are cut.", Query),
    Tool("find", "Find the sentences with a word in the whole document that a passage is from.", Words),
    Tool(
        "read",
        "Read on in the document that a passage is from: the rest of its text, and what is next to it.",
        PassageLocation,
    ),
)


@method(
    "agent",
    family="iterative",
    calls=3,
    paper="ours, after A-RAG (Du et al., 2026)",
    layers=lambda settings: int(settings["max_turns"]) + 1,
    needs=("retriever",),
)
async def agent(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # maximum number of passages per call
    max_turns: Positive = 5,
    parallel: Positive = 4,  # maximum number of calls per turn
    passage_tokens: Positive = 512,
    context_tokens: Positive = 8192,
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Let the model search, find and read with tools until it answers, at the latest after the last turn."""
    episode = Episode(question, run, k, parallel, passage_tokens, context_tokens)
    reply: Response | Calls | None = None
    with run.gathering():
        for _ in range(max_turns):
            reply = await episode.ask(AGENT_ACT)
            if not isinstance(reply, Calls):
                break
            await episode.make(reply)
    if not (isinstance(reply, Response) and reply.answer):
        reply = await episode.ask(AGENT_FINISH, final=True)
    return episode.answer(cast("Response", reply), rank_limit)


@dataclass(slots=True)
class Episode:
    """The conversation so far: the replies with calls, a step for each call, and the passages shown, by number."""

    question: str
    run: Run
    k: int
    parallel: int
    passage_tokens: int
    context_tokens: int
    replies: list[Calls] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    shown: dict[Passage, int] = field(default_factory=dict)
    ends: dict[Passage, int] = field(default_factory=dict)
    searched: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    async def ask(self, task: TypedTask[Response], *, final: bool = False) -> Response | Calls:
        """Ask with as much of the conversation as ``context_tokens`` allows; a ``final`` call can call no tool."""

        def fits(turns: Sequence[Message]) -> bool:
            tokens = self.run.turns_tokens(task, TOOLS, turns, question=self.question, steps=[])
            return tokens <= self.context_tokens

        steps: Sequence[Mapping[str, Any]] = list(self.steps)
        turns = self.turns(steps)
        if not fits(turns):
            steps = cut_oldest(steps, lambda cut: fits(self.turns(cut)), self.run)
            turns = self.turns(steps)
            while turns and not fits(turns):  # the replies are long: the oldest go with their results
                turns = turns[next((i for i, turn in enumerate(turns) if i and turn["role"] != "tool"), len(turns)) :]
        return await self.run.ask_with_tools(
            task,
            TOOLS,
            turns,
            choice="none" if final else "auto",
            parallel=self.parallel > 1,
            final=final,
            question=self.question,
            steps=steps,
        )

    async def make(self, reply: Calls) -> None:
        """Make the calls of a reply at once; number what they show in their order."""
        found = await self.run.gather(*(self.carry_out(call, i) for i, call in enumerate(reply.tool_calls)))
        self.replies.append(reply)
        for call, (views, said) in zip(reply.tool_calls, found, strict=True):
            for passage, _ in views:
                self.shown.setdefault(passage, len(self.shown) + 1)
            passages = [replace(passage, text=text) for passage, text in views]
            argument = str((call.arguments or {}).get("query", call))
            self.steps.append(
                {"action": call.name, "argument": argument, "passages": passages, "said": "" if views else said}
            )

    async def carry_out(self, call: ToolCall, i: int) -> tuple[Views, str]:
        """Carry out a call; return what it shows and, if that is nothing, what there is to say."""
        with self.run.branch("call", str(call)) as branch:
            if i >= self.parallel:
                views, said = Views(), TOO_MANY.format(counted(self.parallel, "calls"))
            elif call.arguments is None:
                views, said = [], call.problem
            else:
                self.counts[call.name] += 1
                views, said = await self.called(call.name, **call.arguments)
            if views and call.name != "search":  # a search has a step of its own
                self.run.note("shown", passages=[passage for passage, _ in views])
            self.counts["refused"] += not views and said not in (NOTHING, NOTHING_MORE)
            branch.verdict = counted(len(views), "passages") if views else said
        return views, said

    async def called(self, tool: str, query: str = "", passage: int = 0, words: str = "") -> tuple[Views, str]:
        """Call a tool with its arguments."""
        if tool == "search":
            return await self.search(query)
        if not 1 <= passage <= len(self.shown):
            return [], UNKNOWN
        known = list(self.shown)[passage - 1]
        return self.find(known, words) if tool == "find" else self.read(known)

    async def search(self, query: str) -> tuple[Views, str]:
        """Show the beginnings of the best passages, unless an equal search was made."""
        if is_non_answer(query):  # "unknown" is no query
            return [], NOTHING
        if normalise(query) in self.searched:
            return [], REPEATED
        self.searched.add(normalise(query))
        return [(found, self.opening(found)) for found in await self.run.search(query, self.k)], NOTHING

    def find(self, passage: Passage, words: str) -> tuple[Views, str]:
        """Show the sentences of a passage's document that contain the words."""
        wanted, views = words.strip().casefold(), Views()
        for other in self.run.document(passage) if wanted else ():
            found = [sentence for sentence in sentences(other.text) if wanted in sentence.casefold()]
            if found and len(views) < self.k:
                views.append((other, self.run.truncate(CUT.join(found), self.passage_tokens)))
        return views, NOTHING

    def read(self, passage: Passage) -> tuple[Views, str]:
        """Show the rest of a passage and the nearest passages of its document that were not shown, in their order."""
        document = self.run.document(passage)
        middle = document.index(passage)
        unseen = [i for i, other in enumerate(document) if other not in self.shown]
        nearest = sorted(sorted(unseen, key=lambda i: abs(i - middle))[: self.k])
        views = [(document[i], self.opening(document[i])) for i in nearest]
        end = self.ends.get(passage, 0)
        if rest := passage.text[end:]:
            text = self.run.truncate(rest, self.passage_tokens)
            self.ends[passage] = end + len(text)
            views = [(passage, text + CUT * (len(text) < len(rest))), *views][: self.k]
        return views, NOTHING_MORE

    def opening(self, passage: Passage) -> str:
        """Return the beginning of a passage's text."""
        text = self.run.truncate(passage.text, self.passage_tokens)
        self.ends.setdefault(passage, len(text))
        return text + CUT * (len(text) < len(passage.text))

    def turns(self, steps: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Write the turns after the prompt: each reply, and the results of its calls. No text is shown twice."""
        results, above = iter(steps), set[tuple[str, str]]()
        texts = [[self.result(next(results), above) for _ in reply.tool_calls] for reply in self.replies]
        return [turn for reply, own in zip(self.replies, texts, strict=True) for turn in reply.turns(own)]

    def result(self, step: Mapping[str, Any], above: set[tuple[str, str]]) -> str:
        """Write the result of a call: a JSON object per passage, on one line."""
        rows = []
        for passage in step["passages"]:
            view = (passage.id, passage.text)
            text = {"shown": "above"} if view in above else {"text": passage.text}
            rows.append({"passage": self.shown[passage], "title": passage.title, **text})
            above.add(view)
        return "\n".join(map(_IN_JSON, rows)) or step["said"] or LEFT_OUT

    def answer(self, reply: Response, rank_limit: int) -> Answer:
        """Build the answer, with the passages that its reasoning cites as its evidence."""
        text = without_citation_marks(reply.answer).strip()
        path = [Recorded("", text, Found(passage), "completed") for passage in self.shown]
        resolved = resolve("\n\n".join(filter(None, (reply.rationale, reply.answer))), path)
        shown = list(self.shown)
        cited = [shown[number - 1] for number in resolved.cited]
        reasoning = reply.answer if self.run.kind == "long" else reply.rationale or ""
        return Answer(
            text,
            passages=tuple(dict.fromkeys([*cited, *self.shown]))[:rank_limit],
            evidence=(Evidence(tuple(cited), text),) if cited and text else (),
            citations=resolved.citations(),
            content=resolve(reasoning, path).text if cited else "",
            statistics={
                "turns": len(self.replies),
                "searches": len(self.searched),
                "finds": self.counts["find"],
                "reads": self.counts["read"],
                "refused calls": self.counts["refused"],
                "cited": len(cited),
                "citations dropped": resolved.dropped,
            },
        )
