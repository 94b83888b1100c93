"""SearChain a second time: Algorithm 1 written as one flat loop over a queue of nodes, every decision read off it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from polyhop.common.text import normalise
from polyhop.types import Passage, Span
from tests.restated.tor import ObservedRun, Recorder
from tests.restated.tor import World as _World


class World(_World, Protocol):
    """A world with a reader."""

    def read(self, question: str, passages: Sequence[Passage]) -> Sequence[Span]: ...


def rouge(one: Sequence[str], other: Sequence[str], kind: str) -> float:
    """ROUGE-L by the definition: the longest common subsequence, found by recursion on the two heads."""
    table: dict[tuple[int, int], int] = {}
    for i in range(len(one), -1, -1):
        for j in range(len(other), -1, -1):
            if i == len(one) or j == len(other):
                table[i, j] = 0
            elif one[i] == other[j]:
                table[i, j] = 1 + table[i + 1, j + 1]
            else:
                table[i, j] = max(table[i + 1, j], table[i, j + 1])
    if not table[0, 0]:
        return 0.0
    over = {
        "precision": Fraction(table[0, 0], len(one)),
        "recall": Fraction(table[0, 0], len(other)),
        "f": Fraction(2 * table[0, 0], len(one) + len(other)),
    }
    return float(over[kind])


def bare(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def holds(text: str, words: str) -> bool:
    """Whether a text holds some words as whole words."""
    return re.search(rf"(?<!\w){re.escape(words.lower())}(?!\w)", text.lower()) is not None


def search_in_the_chain(
    question: str,
    world: World,
    *,
    kind: str,
    theta: float,
    max_rounds: int = 5,
    k: int = 1,
    rouge_above: float = 0.35,
    rouge_kind: str = "f",
    form: str | None = None,
    verification: bool = True,
    completion: bool = True,
    open_book: bool = True,
    verify: str = "containment",
) -> ObservedRun:
    """Rows of R are [query, answer, passage, source, whether a reader bears it out]; a row without an answer waits for
    the next chain's, one whose passage was not read has None at its end."""
    recorder = Recorder(world)
    rows: list[list[Any]] = []
    done: set[str] = set()
    chains: list[list[dict[str, Any]]] = []
    feedback: list[dict[str, Any]] = []
    seen_passages: list[Passage] = []
    final = None
    long_form = form == "long" or (form is None and kind == "long")

    finished = False
    while not finished and len(chains) < (max_rounds if open_book else 1):
        said = recorder.ask(
            "searchain.chain",
            question=question,
            kind=kind,
            open_book=open_book,
            chains=list(chains),
            feedback=list(feedback),
        )
        chain: list[dict[str, Any]] = (
            [dict(node) for node in said["nodes"]] if said else [{"query": question, "answer": None}]
        )
        final = said["final"] if said else None
        chains.append(chain)
        finished = True
        if not open_book:
            own = [node for node in chain if node["answer"]]
            for at, node in enumerate(own):
                if normalise(node["query"]) not in [normalise(before["query"]) for before in own[:at]]:
                    rows.append([node["query"], node["answer"], None, "lm", None])
            break
        if rows and rows[-1][1] is None:
            wanted = normalise(rows[-1][0])
            rows[-1][1] = next((n["answer"] for n in chain if normalise(n["query"]) == wanted and n["answer"]), None)
            if rows[-1][1] is None:
                rows.pop()
        for node in chain:
            query, answer = node["query"], node["answer"]
            if normalise(query) in done or (answer is None and not completion):
                continue
            done.add(normalise(query))
            hits = recorder.search(query, k)
            hits = list(dict.fromkeys(hits))
            seen_passages += hits
            spans = list(world.read(query, hits)) if hits and (answer is None or verification) else []
            passage = hits[0] if hits else None
            g, f = None, 0.0
            if spans:
                f = spans[0].confidence
                if spans[0].answerable and spans[0].start < spans[0].end and normalise(spans[0].text):
                    g = spans[0].text
                    passage = next((hit for hit in hits if hit.id == spans[0].passage_id), passage)
            was_read = hits != [] and (answer is None or verification)
            if answer is None:
                rows.append([query, g, passage, "completed" if passage else "lm", g is not None and f > theta])
                reason = "complete"
            else:
                if long_form:
                    same = rouge(bare(answer), bare(passage.text if passage else ""), rouge_kind) > rouge_above
                else:
                    same = g is not None and normalise(g) in normalise(answer)
                if g is None or not f > theta or same:
                    borne_out = g is not None and f > theta and (g == answer or same)
                    rows.append([query, answer, passage, "lm", borne_out if was_read else None])
                    continue
                rows.append([query, g, passage, "corrected", True])
                reason = "verify"
            feedback.append({"query": query, "answer": g, "passage": passage, "reason": reason})
            finished = False
            break

    rows = [row for row in rows if row[1] is not None]
    content, answer = "", final
    if open_book or not final:
        shown = [
            {"query": query, "answer": answer_so_far, "passage": passage} for query, answer_so_far, passage, *_ in rows
        ]
        traced: Mapping[str, Any] | None = recorder.ask("searchain.trace", question=question, kind=kind, nodes=shown)
        content, answer = (traced["content"], traced["answer"]) if traced else ("", final or "")
    if verify == "reader":

        def read_late(row: list[Any]) -> bool:
            query, answer, passage = row[:3]
            spans = list(world.read(query, [passage]))
            if not spans or not spans[0].answerable or spans[0].end <= spans[0].start or not normalise(spans[0].text):
                return False
            if long_form:
                same = rouge(bare(answer), bare(passage.text), rouge_kind) > rouge_above
            else:
                same = normalise(spans[0].text) in normalise(answer)
            return spans[0].confidence > theta and (same or spans[0].text == answer)

        def bears_out(row: list[Any]) -> bool:
            return read_late(row) if row[4] is None else bool(row[4])
    else:

        def bears_out(row: list[Any]) -> bool:
            return verify == "none" or holds(f"{row[2].title} {row[2].text}", row[1])

    observed = _finish(recorder.observed, rows, seen_passages, content, answer or "", len(chains), bears_out)
    observed.statistics["steps"] = len({normalise(node["query"]) for chain in chains for node in chain})
    if verify == "none":
        observed.statistics.pop("supported references", None)
    return observed


def _finish(
    observed: ObservedRun,
    rows: list[list[Any]],
    retrieved: list[Passage],
    content: str,
    answer: str,
    rounds: int,
    bears_out: Callable[[list[Any]], bool],
) -> ObservedRun:
    numbers = [int(number) for mark in re.findall(r"\[([\d, ]+)\]", content) for number in mark.split(",")]
    good = [n for n in numbers if 0 < n <= len(rows) and rows[n - 1][2] is not None]
    backed = [bears_out(rows[n - 1]) for n in good]
    observed.text = answer
    observed.supported = all(backed) and backed != [] and answer != ""
    observed.passages = list(dict.fromkeys(passage.id for passage in retrieved))
    cited = list(dict.fromkeys(row[2].id for row in rows if row[2]))
    observed.evidence = [(cited, None)] if cited else []
    sources = [row[3] for row in rows]
    searched_for = set(sources) - {"lm"}
    observed.statistics = {"rounds": rounds, "nodes": len(rows), "skc": len({*good}), "references": len(good)}
    observed.statistics["changed by search"] = len(searched_for) > 0
    observed.statistics["marks dropped"] = len(numbers) - len(good)
    for source in ("lm", "corrected", "completed"):
        observed.statistics[f"from {source}"] = sources.count(source)
        if rows:
            observed.statistics[f"share from {source}"] = sources.count(source) / len(rows)
    if backed:
        observed.statistics["supported references"] = sum(backed) / len(backed)
    return observed
