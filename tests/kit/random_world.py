"""Random worlds: a small corpus, a retriever and a language model, all drawn from one seed.

Whatever is asked is answered by hashing the question asked, so two runs over the same world see the same things however
they order or repeat their calls, and every turn a method can take comes up: unreadable replies, null queries, empty
information, support without relevance, searches that find nothing or the same passage twice.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from polyhop.answer import Answer
from polyhop.common.text import estimate_tokens, without_citation_marks
from polyhop.lm.base import Completion
from polyhop.lm.scripted import ScriptedLM
from polyhop.lm.tools import ToolCall
from polyhop.methods.registry import method_named
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import task_named
from polyhop.retrieval.tfidf import similarities
from polyhop.types import Kind, Passage, Span
from tests.kit.question_data import question_for

T = TypeVar("T")
Speech: TypeAlias = Literal["value", "text", "json"]
BOOK = PromptBook()
CALLS = "calls of tools"


def seen(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A call's fields with every passage as its id and text, so that two runs compare by what was shown; but not the
    kind of the question, which the engine gives to every call, nor the text that writes out the other fields.

    >>> seen({"passages": [Passage("p1", "Title", "Text.")], "thoughts": False})
    {'passages': [('p1', 'Text.')], 'thoughts': False}
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Passage):
            return (value.id, value.text)
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in sorted(value.items())}
        if isinstance(value, (list, tuple)):
            return [plain(inner) for inner in value]
        return value

    return {key: plain(value) for key, value in sorted(fields.items()) if key not in ("kind", "assistant", "draft")}


def still(row: Any) -> Any:
    """A written row without what may differ between two equal runs.

    >>> still({"steps": [{"kind": "ask", "volatile": {"seconds": 0.1}}]})
    {'steps': [{'kind': 'ask'}]}
    """
    if isinstance(row, dict):
        return {key: still(inner) for key, inner in row.items() if key != "volatile"}
    return [still(inner) for inner in row] if isinstance(row, list) else row


@dataclass
class World:
    """One random world.

    ``shares`` is how often each thing happens; ``speaks`` the form of the model's replies: the output itself, or the
    ``text`` or ``json`` rendering of it.
    """

    seed: int
    question: str = "Which of them was it?"
    passages: list[Passage] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)
    speaks: Speech = "value"
    shots: int = 0
    searches: list[tuple[str, int]] = field(default_factory=list)

    @classmethod
    def random(cls, seed: int) -> World:
        """The world of that seed."""
        draw = random.Random(seed)
        passages = [
            Passage(f"p{n}", f"Title {n}", " ".join(f"word{n}" for _ in range(draw.randint(1, 30))))
            for n in range(draw.randint(2, 20))
        ]
        shares = {
            "relevant": draw.choice([0.4, 0.8, 0.95]),
            "supported": draw.choice([0.0, 0.15, 0.3, 0.6]),
            "wordless": draw.choice([0.0, 0.3]),
            "unreadable": draw.choice([0.0, 0.0, 0.1]),
            "barren": draw.choice([0.0, 0.1, 0.3]),
        }
        speaks: Speech = draw.choice(["value", "value", "text", "json"])
        return cls(seed, f"Question {seed}?", passages, shares, speaks, shots=draw.choice([0, 0, 3]))

    # --- what a method meets -----------------------------------------------------------------------------------------

    def search(self, query: str, k: int) -> list[Passage]:
        """Return up to ``k`` hits in an order that depends on the query; sometimes fewer, none, or one of them
        twice."""
        hits = sorted(self.passages, key=lambda passage: self._roll("rank", query, passage.id))[:k]
        if self._happens("barren", "search", query):
            hits = hits[: int(3 * self._roll("few", query))]
        if hits and self._roll("twice", query) < 0.2:
            hits = [hits[0], *hits][:k]
        return hits

    def reply(self, task: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The output for a call, or None where what the model says cannot be read, however often it is asked."""
        key = (task, repr(seen(fields)))
        if self._happens("unreadable", *key):
            return None
        if task in ("tor.review", "cor.review", "tor.merged"):
            return self._review(task, key, fields)
        if task == "tor.enough":
            return {"sufficient": self._roll("enough", *key) < 0.3}
        if task == "tor.complete":
            empty = self.speaks != "json" and self._happens("wordless", "information", *key)
            if empty and self.speaks == "text":
                return None  # a marker with nothing after it cannot be read
            return {"information": "" if empty else self._pick(QUERIES, "information", *key), "answer": "Unused"}
        if task.startswith("resp.") and task != "resp.generate":
            return self._resp(task, key)
        if task == "searchain.chain":
            return self._chain(key, fields["feedback"])
        if task == "searchain.trace":
            content, answer = self._pick(CONTENTS, "content", *key), self._pick(ANSWERS, "answer", *key)
            if fields["kind"] == "long":  # the text form tells a long answer once: it is the content without its marks
                content = content or "So."
                answer = without_citation_marks(content)
            return {"content": content, "answer": answer}
        if task == "judge.answer":
            return {"correct": self._roll("correct", *key) < 0.5}
        if task == "judge.faithful":
            return {
                "claims": [f"{self._pick(CONTENTS, 'claim', *key) or 'It is so.'} [{self._pick([1, 2], 'by', *key)}]"]
            }
        if task == "support.check":
            verdict = self._pick(["supported", "contradicted", "missing"], "verdict", *key)
            return {"quotation": None, "answer": self._pick([None, *ANSWERS], "read", *key), "verdict": verdict}
        if task == "rerank.order":
            numbers = range(len(fields["passages"]) + 2)  # now and then one that is not there
            drawn = sorted(numbers, key=lambda number: self._roll("rank", str(number), *key))
            return {"order": drawn[: 1 + int(len(drawn) * self._roll("how many", *key))]}
        if task == "rerank.grade":
            return {"grade": int(5 * self._roll("grade", *key))}
        if task in ("reader.extract", "reader.path"):
            return self._extraction(key, fields)
        if task.startswith(("ge.", "hipporag.")) and task not in ("ge.answer", "hipporag.entities"):
            return self._elicited(task, key, fields)
        if task == "hipporag.entities":
            return {
                "entities": [self._pick(ANSWERS, str(n), *key) for n in range(int(4 * self._roll("how many", *key)))]
            }
        if task.startswith("t2rag."):
            return self._opened(task, key, fields)
        if task in ("recite.recall", "least_to_most.decompose", "self_ask.chain", "self_ask.turn"):
            return self._asked(task, key, fields)
        if task in (
            "react.act",
            "toolformer.write",
            "search_agent.write",
            "tot_ir.propose",
            "tot_ir.value",
            "plan_solve_ir.plan",
        ):
            return self._acted(task, key, fields)
        if task.startswith(("sure.", "era_cot.", "verify_edit.", "recomp.")) and not task.endswith(".answer"):
            return self._condensed(task, key, fields)
        if task == "route.choose":
            return {"strategy": self._pick(["none", "single", "multi"], "strategy", *key)}
        if task == "crag.rewrite":
            return {"query": self._pick(QUERIES, "query", *key)}
        if task == "knowtrace.explore":
            said = self._pick([*ANSWERS, None, None], "answer", *key)
            count = 0 if said else 1 + int(3 * self._roll("how many", *key))
            pairs = [f"{self._pick(QUERIES, str(n), *key)}; maker" for n in range(count)]
            return {"rationale": None, "pairs": pairs, "answer": said}
        if task == "agent.act" and not self._happens("supported", *key):
            return self._called(key)
        if task in ("cot.sentence", "flare.question", "dsp.hop"):
            return self._stepped(task, key, fields)
        direct = task in ("answer.direct", "recite.answer", "recomp.answer", "verify_edit.answer")
        rationale = None if direct else self._pick(["Because it was so.", None], "rationale", *key)
        return {"rationale": rationale, "answer": self._pick(ANSWERS, "answer", *key)}

    def script(self, task: str, fields: Mapping[str, Any]) -> Any:
        """The model's side of ``reply``: the same output in the form this world's model speaks."""
        output = self.reply(task, fields)
        if output and (calls := output.get(CALLS)):
            rows = (f'<tool_call>{{"name": "{call.name}", "arguments": {call.text}}}</tool_call>' for call in calls)
            native = Completion(text="", tool_calls=calls, finish_reason="tool_calls")
            return native if self.speaks == "value" else "\n".join(rows)
        if output is None:
            return ""
        if self.speaks == "value":
            return output
        shape = task_named(task).output.model_validate(dict(output))
        return task_named(task).write_text(shape, fields) if self.speaks == "text" else json.dumps(shape.model_dump())

    def _review(self, task: str, key: tuple[str, ...], fields: Mapping[str, Any]) -> Mapping[str, Any]:
        supported = self._happens("supported", *key)
        silent = self._happens("wordless", "review", *key)
        said = None if silent else self._pick(ANSWERS if supported else QUERIES, "said", *key)
        names = {"query": task != "tor.merged" and fields.get("asks_query", True), "information": task == "tor.merged"}
        return {
            "relevant": self._happens("relevant", *key),
            "supported": supported,
            "analysis": self._pick([None, None, *SUMMARIES], "analysis", *key) if supported else None,
            "answer": said if supported else None,
            **{name: said if asked and not supported else None for name, asked in names.items()},
        }

    def _resp(self, task: str, key: tuple[str, ...]) -> Mapping[str, Any] | None:
        """A note, now and then empty or one made before; a verdict; a plan, often of what was asked already."""
        silent = self._happens("wordless", "resp", *key)
        supported = self._happens("supported", *key)
        if task == "resp.summarize":
            return {"summary": "" if silent else self._pick(SUMMARIES, "summary", *key)}
        if task == "resp.judge":
            return {"sufficient": supported}
        if task == "resp.respond":
            answered = not silent and (supported or self._roll("responds", *key) < 0.4)
            return {"answered": answered, "response": None if silent else self._pick(ANSWERS, "response", *key)}
        if task == "resp.summarize_respond":
            parts = [self._resp(f"resp.{half}", key) for half in ("summarize", "respond")]
            return {name: value for part in parts for name, value in (part or {}).items()}
        if silent and (self.speaks == "text" or task == "resp.judge_plan"):
            return None  # a plan of no words cannot be read
        plans = [self.question, *QUERIES[:3], *(f"The {query}?" for query in QUERIES[:3])]
        planned = "" if silent else self._pick(plans, "plan", *key)
        if task == "resp.judge_plan":
            return {"sufficient": supported, "sub_question": None if supported else planned}
        return {"sub_question": planned}

    def _asked(self, task: str, key: tuple[str, ...], fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A few recitations or sub-questions, often one twice; follow-ups, answered or not, and an end to them."""
        count = int(5 * self._roll("how many", *key))
        answer = self._pick(ANSWERS, "answer", *key)
        drawn = [self._pick(QUERIES, str(n), *key) for n in range(count)]
        if task == "self_ask.chain":
            answers = [*ANSWERS, None]
            steps = [
                {"sub_question": f"{q}?", "answer": self._pick(answers, str(n), *key)} for n, q in enumerate(drawn)
            ]
            return {"steps": steps, "answer": answer}
        if task == "self_ask.turn":
            ends = fields["conclude"] or self._happens("supported", *key)
            said = self._pick([answer, None], "said", *key) if fields["history"] else None
            query = None if ends else self._pick(QUERIES, "next", *key)
            return {"intermediate": said, "follow_up": query, "answer": answer if ends else None}
        return {"recitations" if task == "recite.recall" else "sub_questions": drawn} if drawn else None

    def _condensed(self, task: str, key: tuple[str, ...], fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Candidates, now and then one twice; summaries and sentences, or none; entities, relations and scores."""
        silent = self._happens("wordless", "condensed", *key)
        count = int(4 * self._roll("how many", *key))
        match task.partition(".")[2]:
            case "candidates":
                drawn = [self._pick([*ANSWERS, "answer 1"], str(n), *key) for n in range(count)]
                return {"candidates": drawn} if drawn else None
            case "summarize" | "compress":
                return {"summary": "" if silent else self._pick(SUMMARIES, "summary", *key)}
            case "validate":
                return {"valid": self._roll("valid", *key) < 0.5}
            case "rank":
                return {"better": self._pick([1, 2, None], "better", *key)}
            case "question":
                return {"sub_question": None if silent else f"Is it {self._pick(QUERIES, 'checked', *key)}?"}
            case "edit":
                return {"sentence": "" if silent else f"It is {self._pick(ANSWERS, 'edited', *key)}."}
            case "entities":
                drawn = [self._pick(QUERIES, str(n), *key) for n in range(count)]
                return {"entities": drawn} if drawn else None
            case "score":
                indices = range(len(fields["triplets"]))
                return {"scores": [int(11 * self._roll("score", str(n), *key)) for n in indices]}
            case _:
                ends = ["Ann", "Rome", "1931"]
                drawn_ends = [(self._pick(ends, f"h{n}", *key), self._pick(ends, f"t{n}", *key)) for n in range(count)]
                return {"triplets": [{"head": head, "relation": "made", "tail": tail} for head, tail in drawn_ends]}

    def _acted(self, task: str, key: tuple[str, ...], fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A search, now and then one made before, a lookup or an end; thoughts of any worth; a plan."""
        answer, query = self._pick(ANSWERS, "answer", *key), self._pick(QUERIES, "next", *key)
        ends = self._happens("supported", *key)
        thought = self._pick(["Because it was so", None], "thought", *key)
        if task == "react.act":
            action = "Finish" if ends else self._pick(["Search", "Search", "Lookup"], "action", *key)
            keyword = self._pick(["word1", "word2", "no such word"], "keyword", *key)
            argument = {"Finish": answer, "Search": query, "Lookup": keyword}[action]
            return {"thought": thought, "action": action, "argument": argument}
        if task == "toolformer.write":
            return {"text": thought, "query": None if ends else query, "answer": answer if ends else None}
        if task == "search_agent.write":
            opening, closing = fields["tags"]["answer" if ends else "search"]
            said = {"query": None, "answer": answer} if ends else {"query": query, "answer": None}
            return {"text": f"{thought or ''}{opening}{answer if ends else query}{closing}", **said}
        if task == "tot_ir.value":
            value = "sure" if ends else self._pick(["likely", "impossible"], "value", *key)
            return {"answer": self._pick([answer, None], "said", *key), "value": value}
        count = int(5 * self._roll("how many", *key))
        drawn = [self._pick(QUERIES, str(n), *key) for n in range(count)]
        return {"sub_questions": drawn} if drawn else None

    def _called(self, key: tuple[str, ...]) -> Mapping[str, Any]:
        """Calls: searches, now and then one made before; a passage that may not have been shown; what fits no tool."""
        query, number = self._pick(QUERIES, "next", *key), int(9 * self._roll("number", *key))
        made = [
            ("search", {"query": query}),
            ("read", {"passage": number}),
            ("find", {"passage": number, "words": "word1"}),
            ("open", {"passage": number}),
        ]
        drawn = [made[0]] + [self._pick(made, str(n), *key) for n in range(int(4 * self._roll("how many", *key)))]
        calls = (ToolCall(id=f"c{i}", name=name, text=json.dumps(given)) for i, (name, given) in enumerate(drawn))
        return {CALLS: tuple(calls)}

    def _stepped(self, task: str, key: tuple[str, ...], fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A sentence that concludes, says what another said, or names something new; a question or none; a query."""
        answer, query = self._pick(ANSWERS, "answer", *key), self._pick(QUERIES, "next", *key)
        ends = self._happens("supported", *key)
        if task == "cot.sentence":
            said = self._pick([f"The {query} it is.", f"So {query} is it.", f"It is {answer}."], "sentence", *key)
            sentence = f"So the answer is {answer}." if ends else said
            again = self.speaks == "text" and sentence in fields["reasoning"]  # such a text cannot be read
            return None if again else {"sentence": sentence}
        if task == "flare.question":
            return {"sub_question": None if self._happens("barren", *key) else f"Is it {query}?"}
        summary = self._pick([*SUMMARIES, None], "summary", *key) if fields["passages"] else None
        return {"summary": summary, "query": None if ends and fields["passages"] else query}

    def _chain(self, key: tuple[str, ...], feedback: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """A chain of up to five nodes, often from the node fed back; queries come back in another spelling too."""
        nodes: list[dict[str, Any]] = []
        if feedback and self._roll("goes on", *key) < 0.7:
            own = self._pick([*ANSWERS, None], "own", *key)
            nodes.append({"query": feedback[-1]["query"], "answer": feedback[-1]["answer"] or own})
        for n in range(1 + int(4 * self._roll("nodes", *key))):
            said = self._pick(QUERIES, "query", str(n), *key)
            form = self._pick(
                ["{}", "The {}?", "When was the {}?", "Where is the {}?", "{} of fame"], "form", str(n), *key
            )
            query = form.format(said)
            words = [passage.text[:13].strip() for passage in self.passages]
            answer = self._pick([*ANSWERS, *DATED, *words[: len(ANSWERS)], *[None] * 4], "node", str(n), *key)
            if not nodes or nodes[-1]["query"] != query:
                nodes.append({"query": query, "answer": answer})
        return {"nodes": nodes, "final": self._pick([*ANSWERS, None, None], "final", *key)}

    def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        """A reader's spans: right words, other words, an empty span, one that ends before its start, none."""
        passage = self._pick(passages, "which", question)
        end = self._pick([5, 5, 13, 13, 0, -1], "end", question)
        own = passage.text[: max(0, end)].strip()
        text = self._pick([own, own, *ANSWERS, *DATED, "not mentioned"], "text", question)
        sure = self._roll("sure", question)
        span = Span(passage.id, text, 0, end, sure, answerable=self._roll("answerable", question) < 0.9)
        return [] if self._roll("blind", question) < 0.1 else [span]

    def _elicited(self, task: str, key: tuple[str, ...], fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Graphs of up to five triplets over four variables, sub-questions that repeat, answers of any confidence."""
        if task == "ge.subquestion":
            none = fields["triplet"] is None and self._happens("barren", "sub-question", *key)
            return {"sub_question": None if none else f"Is it {self._pick(QUERIES, 'sub-question', *key)}?"}
        if task == "ge.subanswer":
            answer = self._pick(ANSWERS, "sub-answer", *key)
            sure = round(self._roll("sure", *key), 2) if fields["verbal"] else None
            return {"sentence": f"It is {answer}.", "answer": answer, "confidence": sure}
        given = fields.get("triplets") or []
        kept = [
            {**triplet, "tail": triplet["tail"] + self._pick(["", "", "."], "mark", str(n), *key)}
            for n, triplet in enumerate(given)
            if self._roll("kept", str(n), *key) < 0.3
        ]
        count = int(6 * self._roll("how many", *key)) if task != "ge.filter" or self._happens("wordless", *key) else 0
        ends = ["name: #1", "#1", "date: #2", "#3", "place: #10", "Alien (film)", "Ann", "Opus #9"]
        drawn = [
            {name: self._pick(ends, name, str(n), *key) if name != "relation" else "made" for name in TRIPLET}
            for n in range(count)
        ]
        if task == "ge.graph" and drawn and not any("#" in row[end] for row in drawn for end in ("head", "tail")):
            return None  # a graph without a variable cannot be read
        return {"triplets": [*kept, *drawn]}

    def _opened(self, task: str, key: tuple[str, ...], fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Triplets over a few placeholders; some open ones filled in, now and then one that nobody asked for."""
        filled = [
            {name: self._pick(ANSWERS, str(n), *key) if part.startswith("?") else part for name, part in row.items()}
            for n, row in enumerate(fields.get("triplets") or [])
            if self._roll("kept", str(n), *key) < 0.5
        ]
        ends = ["?person", "?place", "?2", "Ann", "Alien (film)"]
        count = int(4 * self._roll("how many", *key)) if task == "t2rag.decompose" or not filled else 0
        drawn = [
            {name: self._pick(ends, name, str(n), *key) if name != "relation" else "made" for name in TRIPLET}
            for n in range(count)
        ]
        if (
            task == "t2rag.decompose"
            and drawn
            and not any("?" in row[end] for row in drawn for end in ("head", "tail"))
        ):
            return None  # a question without a placeholder cannot be read
        return {"triplets": [*filled, *drawn]}

    def _extraction(self, key: tuple[str, ...], fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Words of a passage, words of none, or none; the number of a passage, now and then one that is not there."""
        numbers = range(1, len(fields["passages"]) + 2)
        words = [passage.text[:13].strip() for passage in fields["passages"]]
        answer = self._pick([*words, *ANSWERS, None], "extraction", *key)
        if answer is None:
            return {"answer": None, "passage": None, "confidence": None}
        sure = round(self._roll("sure", *key), 2) if fields["verbal"] else None
        return {"answer": answer, "passage": self._pick([*numbers], "number", *key), "confidence": sure}

    # --- lengths and likeness ----------------------------------------------------------------------------------------

    def prompt_tokens(self, task: str, fields: Mapping[str, Any]) -> int:
        """The length of the whole prompt, 4 characters a token."""
        rendering: Rendering = "json" if self.speaks == "json" else "text"
        turns = BOOK[task].render(fields, rendering=rendering, shots=self.shots)
        return sum(estimate_tokens(turn["content"]) for turn in turns)

    def count_tokens(self, text: str) -> int:
        """As the engine counts for a model without a tokenizer."""
        return -(-len(text) // 4)

    def truncate(self, text: str, tokens: int) -> str:
        """As the engine cuts for a model without a tokenizer."""
        return text[: 4 * tokens]

    def similarity(self, text: str, texts: Sequence[str]) -> Sequence[float]:
        """The run's own likeness: its ranking is what is compared, not its arithmetic."""
        return similarities(text, texts)

    # --- running a method --------------------------------------------------------------------------------------------

    async def run(self, method: str, *, kind: Kind = "qa", **settings: Any) -> tuple[Answer, ScriptedLM]:
        """The method's answer to this world's question, and the model with the calls it saw."""
        model = ScriptedLM(self.script)
        rendering: Rendering = "json" if self.speaks == "json" else "text"
        given = {"prompts": BOOK, "reader": self.read, "rendering": rendering, **settings}
        if "shots" in method_named(method).settings:
            given.setdefault("shots", self.shots)
        async with Pipeline(method=method, lm=model, retriever=self._searched, **given) as pipeline:
            return await pipeline.aask(question_for(method, self.question, self.passages[:4], kind=kind)), model

    def _searched(self, query: str, k: int) -> list[Passage]:
        self.searches.append((query, k))
        return self.search(query, k)

    # --- chance ------------------------------------------------------------------------------------------------------

    def _roll(self, *key: str) -> float:
        """Return a number in [0, 1) that depends only on the seed and the key."""
        digest = hashlib.blake2b("\x1f".join((str(self.seed), *key)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def _happens(self, what: str, *key: str) -> bool:
        return self._roll(what, *key) < self.shares[what]

    def _pick(self, options: Sequence[T], *key: str) -> T:
        return options[int(self._roll("pick", *key) * len(options))]


ANSWERS = [f"Answer {number}" for number in range(4)]
DATED = ["1937", "30 November 1937", "November 30, 1937", "1,500 of them", "1500", "yes"]
SUMMARIES = ["It was noted.", "it was noted", "Noted " + "at length " * 30 + "it was.", "So it was.", "It is known."]
QUERIES = [f"query {number}" for number in range(6)]
TRIPLET = ("head", "relation", "tail")
CONTENTS = ["", "It was so.", "So [1] and so [2].", "All of it [1, 2, 9].", "First [3]. Then [1][1]. Not [0] [77]."]
