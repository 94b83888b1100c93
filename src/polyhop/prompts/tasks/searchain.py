"""The tasks of SearChain (Xu et al., 2024, §3.2 and §3.3): a whole Chain-of-Query, and the traced final content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, field_validator

from polyhop.common.text import citation_marks, without_citation_marks
from polyhop.prompts.answers import clean_value, find_answer
from polyhop.prompts.non_answers import says_nothing
from polyhop.prompts.parsing import SUB_QUESTION, Malformed, labelled_parts, quotable
from polyhop.prompts.show import one_line, show_passage, show_passages
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.types import Passage


class QueryNode(Output):
    """A node of a Chain-of-Query; without an answer it is an unsolved query."""

    query: str = Field(description="a query that is clear on its own")
    answer: str | None = Field(default=None, description="null if you do not know it")


class ChainOfQuery(Output):
    """SearChain §3.2: a global reasoning chain, and the final answer if the chain got there."""

    ANSWER = "final"

    nodes: list[QueryNode] = Field(
        description='in order, each {"query": "<query>", "answer": "<answer>"}; answer null if unknown'
    )
    final: str | None = Field(default=None, description="the final answer, if every query is answered")

    @field_validator("final")
    @classmethod
    def _if_there_is_one(cls, value: str | None) -> str | None:
        return None if value and says_nothing(value) else value

    def missing(self) -> str | None:
        return None if any(node.query for node in self.nodes) else "the chain needs at least one query"


class TracedContent(Output):
    """SearChain §3.3, tracing: the reasoning with marks [1], [2] … of the nodes it rests on, and the short answer."""

    ANSWER = "answer"

    content: str = Field(description="the reasoning, with marks such as [1] of the queries that it rests on")
    answer: str = Field(description="the final answer")


_LABEL = re.compile(
    r"(?:\[[ \t*]{0,3}|^[^\w\n\[]{0,4})"
    r"(?:(?P<unsolved>unsolved[ _]query)|(?P<final>final[ _]content)"
    rf"|(?P<query>query|{SUB_QUESTION})|(?P<answer>(?:intermediate )?answer))"
    r"[ \t_]{0,2}(?P<number>\d{1,4})?[ \t*]{0,3}(?:\][ \t*]{0,3}:?|:)[ \t*]{0,3}",
    re.IGNORECASE | re.M,
)
_LINE = re.compile(r"^[^\w\n\[]*+", re.M)
_CONCLUSION = re.compile(
    r"\n(?:\n|(?=[^\w\n]{0,4}(?:(?:so|thus|hence|therefore),? )?(?:the )?final answer\b))", re.IGNORECASE
)
_MAX_NODES = 50
"""Nodes of a chain that are read."""


def read_chain(text: str, fields: Fields) -> dict[str, Any]:
    """Read [Query i]: …, [Answer i]: …, [Unsolved Query]: … and [Final Content]: …, or self-ask's names for them.

    If labels may be quoted, a chain counts from its last query 1 on, and from the last line without a label on.

    >>> read_chain("[Query 1]: Who made it? [Answer 1]: Ann Lee [Unsolved Query]: Where was she born?", {})["nodes"]
    [{'query': 'Who made it?', 'answer': 'Ann Lee'}, {'query': 'Where was she born?', 'answer': None}]
    """
    nodes: list[dict[str, Any]] = []
    numbers: list[str | None] = []
    final: str | None = None
    quoted = quotable(_LABEL, fields)
    interrupted = False
    for label, part in labelled_parts(_labels(text), text):
        content = part.strip()
        if quoted and (interrupted or (label["query"] and label["number"] == "1")):
            nodes, numbers, final = [], [], None  # what came before was quoted
        interrupted = "\n" in content
        if label["final"]:
            final = _final(content, fields) or final
        elif label["answer"]:
            content, *after = _CONCLUSION.split(content, maxsplit=1)
            if (i := _unanswered(nodes, numbers, label["number"])) is not None:
                nodes[i]["answer"] = clean_value(content)
            if after and fields.get("kind") != "long":  # the final answer may come without its label
                final = _final(after[0], fields) or final
        elif (query := clean_value(content.partition("\n")[0])) and len(nodes) < _MAX_NODES:
            node = {"query": query, "answer": None}
            if nodes[-1:] != [node]:  # else it is said again, as unsolved
                nodes.append(node)
                numbers.append(label["number"])
    if not nodes:
        unsolved = ", or [Unsolved Query]: and the query" if fields.get("open_book", True) else ""
        raise Malformed(f"the chain needs its queries: [Query 1]: and the query{unsolved}")
    return {"nodes": nodes, "final": final}


def _labels(text: str) -> list[re.Match[str]]:
    """Find the labels that open a line; also those within lines if at most one line opens with a label.

    >>> [label[0] for label in _labels("[Query 1]: Who?\\n[Answer 1]: not [Final Content]: Rome")]
    ['[Query 1]: ', '[Answer 1]: ']
    """
    labels = list(_LABEL.finditer(text))
    edges = {edge for line in _LINE.finditer(text) for edge in line.span()}
    opening = [label for label in labels if label.start() in edges]
    if len(opening) != 1:
        return opening or labels
    end = text.find("\n", opening[0].end())
    return [label for label in labels if opening[0].start() <= label.start() and (end < 0 or label.start() < end)]


def _unanswered(nodes: Sequence[Mapping[str, Any]], numbers: Sequence[str | None], number: str | None) -> int | None:
    """Return the index of the node that an answer line belongs to: the unanswered one of its number, else the last."""
    waiting = [i for i, node in enumerate(nodes) if node["answer"] is None]
    named = [i for i in waiting if number is not None and numbers[i] == number]
    return named[-1] if named else waiting[-1] if waiting and waiting[-1] == len(nodes) - 1 else None


def _final(content: str, fields: Fields) -> str | None:
    """Read the final answer of a content: after "the final answer is", all of it if a long one is asked for."""
    if fields.get("kind") == "long":
        return clean_value(without_citation_marks(content))
    found = find_answer(without_citation_marks(content))
    return found.answer if found else None


def write_chain(output: ChainOfQuery, fields: Fields) -> str:
    """Write the form that ``read_chain`` reads."""
    final = "" if output.final is None else f"\n[Final Content]: {_concluded(output.final, fields)}"
    return show_nodes([node.model_dump() for node in output.nodes]) + final


def _concluded(answer: str, fields: Fields) -> str:
    return answer if fields.get("kind") == "long" else f"So the final answer is {answer}."


def read_content(text: str, fields: Fields) -> dict[str, Any]:
    """Read [Final Content]: reasoning with marks that ends in "So the final answer is …"; a long answer is all of it.

    If the reply opens with the label, all after it is content, even quoted labels; else the last label counts.

    >>> read_content("[Final Content]: It is by Ann Lee [1]. So the final answer is Ann Lee.", {})
    {'content': 'It is by Ann Lee [1].', 'answer': 'Ann Lee'}
    """
    finals = [label for label in _labels(text) if label["final"] and text[label.end() :].strip()]
    first = finals[:1] if finals and not text[: finals[0].start()].strip() else finals[-1:]
    content = text[first[0].end() :].strip() if first else text.strip()
    if fields.get("kind") == "long":
        if not clean_value(content):
            raise Malformed("the reply must be [Final Content]: and the answer, with its marks")
        return {"content": content, "answer": " ".join(without_citation_marks(content).split())}
    named = find_answer(without_citation_marks(content))
    if named is None:
        raise Malformed('the last sentence must be "So the final answer is <answer>.", with the answer in it')
    return {"content": _before_answer(content), "answer": named.answer}


def _before_answer(content: str) -> str:
    """Return the reasoning without its last sentence, but with the marks in that sentence."""
    named = find_answer(content)
    if named is None or not content.startswith(named.before):
        return content
    late = "".join(content[start:end] for start, end, _ in citation_marks(content) if start >= len(named.before))
    return f"{named.before} {late}".strip()


def write_content(output: TracedContent, fields: Fields) -> str:
    """Write the form that ``read_content`` reads."""
    if fields.get("kind") == "long":
        return f"[Final Content]: {output.content or output.answer}"
    return f"[Final Content]: {output.content} So the final answer is {output.answer}."


def show_nodes(nodes: Sequence[Mapping[str, Any]] | None) -> str:
    """Show nodes as numbered query and answer lines.

    >>> print(show_nodes([{"query": "Who?", "answer": "Ann"}, {"query": "Where?"}]))
    [Query 1]: Who?
    [Answer 1]: Ann
    [Unsolved Query]: Where?
    """
    return "\n".join(_show_node(node, number) for number, node in enumerate(nodes or (), 1)) or "(none)"


def _show_node(node: Mapping[str, Any], number: int) -> str:
    if (answer := node.get("answer")) is None:
        return f"[Unsolved Query]: {one_line(node['query'])}"
    return f"[Query {number}]: {one_line(node['query'])}\n[Answer {number}]: {one_line(answer)}"


def show_path(nodes: Sequence[Mapping[str, Any]] | None, fields: Fields) -> str:
    """Show the nodes of the correct path; if ``with_passages``, each with its passage under the node's number."""
    if not fields.get("with_passages"):
        return show_nodes(nodes)
    shown: dict[Passage, int] = {}
    lines = []
    for number, node in enumerate(nodes or (), 1):
        lines.append(_show_node(node, number))
        if (passage := node.get("passage")) is not None:
            first = shown.setdefault(passage, number)
            lines.append(show_passage(passage, number) if first == number else f"(passage {first} again)")
    return "\n".join(lines) or "(none)"


def show_chains(chains: Sequence[Sequence[Mapping[str, Any]]] | None, fields: Fields) -> str:
    """Show the chat up to its last feedback: each chain, then the feedback to it, whose passage is a title by now."""
    answered = [_show_feedback(feedback, whole=False) for feedback in (fields.get("feedback") or ())]
    turns: list[str] = []
    for number, chain in enumerate(chains or (), 1):
        turns.append(f"Chain {number}:\n{show_nodes(chain)}")
        if number < len(chains or ()):
            turns += answered[number - 1 : number]
    return "\n\n".join(turns)


def show_feedback(feedback: Sequence[Mapping[str, Any]] | None, fields: Fields) -> str:
    """Show the feedback to the last chain."""
    return _show_feedback(feedback[-1]) if feedback else ""


def _show_feedback(feedback: Mapping[str, Any], *, whole: bool = True) -> str:
    """Show a feedback: IR's answer to a query, and the passage it is from as a reference (§3.3), or its title."""
    query, answer, passage = (feedback.get(name) for name in ("query", "answer", "passage"))
    lead = f'Feedback on the query "{one_line(query or "")}". '
    if passage is None:
        return f"{lead}Nothing was found. Begin the new chain with a different query."
    change = "change" if feedback.get("reason") == "verify" else "give"
    correction = f"According to the reference, its answer should be {one_line(answer)}. " if answer else ""
    reference = show_passages([passage]) if whole else f"Reference: {one_line(passage.title)}"
    return f"{lead}{correction}You can {change} your answer and go on from this query.\n{reference}"


SEARCHAIN_CHAIN = Task(
    "searchain.chain",
    fields=("question", "kind", "open_book", "chains", "feedback"),
    output=ChainOfQuery,
    parse=read_chain,
    write=write_chain,
    default={"nodes": []},
    show={"chains": show_chains, "feedback": show_feedback},
)
SEARCHAIN_TRACE = Task(
    "searchain.trace",
    fields=("question", "kind", "with_passages", "nodes"),
    output=TracedContent,
    parse=read_content,
    write=write_content,
    default={"content": "", "answer": ""},
    show={"nodes": show_path},
)
