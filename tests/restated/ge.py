"""GE-Reasoning a second time: written from Algorithm 1 and §3, apart from its method.

Plain and synchronous. The graph is held as the bare texts of its ends, rewritten at every binding; a variable is found
again by the numbers it was noted under before. Confidence is the number the model names (``verbal``), or the agreement
of several answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.restated.tor import ObservedRun, Recorder, World, distinct

LONE = re.compile(r"(?:[^#]+:)?\s*#(\d+)")


def ge_reasoning(
    question: str,
    world: World,
    *,
    k: int = 2,
    max_steps: int = 10,
    retrieve_below: float = 0.8,
    keep_above: float = 0.4,
    typed_variables: bool = True,
    guidance: bool = True,
    query: str = "subquestion",
    refine: bool = True,
    triplet_filter: bool = True,
    filter: bool = True,
    open_book: bool = True,
    confidence: str = "verbal",
    samples: int = 5,
) -> ObservedRun:
    """Run the whole method."""
    recorder = Recorder(world)
    observed = recorder.observed
    rows = elicited(question, recorder, typed_variables) if guidance else []
    given = len(rows)
    history: list[dict[str, str]] = []
    found: list[Passage] = []
    count = {"draws": 0, "bindings": 0, "dropped": 0, "retrievals": 0, "retrievals_saved": 0}

    def subanswer(asked: str, triplets: Any = None, passages: Any = None) -> tuple[str, str, float]:
        times = samples if confidence == "agreement" else 1
        replies = [
            recorder.ask(
                "ge.subanswer",
                question=question,
                history=[dict(pair) for pair in history],
                sub_question=asked,
                triplets=triplets,
                passages=passages,
                verbal=confidence == "verbal",
            )
            for _ in range(times)
        ]
        said = replies[0]  # the world says the same however often it is asked
        if said is None or not said["answer"]:
            return "", "", 0.0
        return said["sentence"], said["answer"], said["confidence"] if confidence == "verbal" else 1.0

    def reach(asked: str) -> tuple[str, str, float, list[Passage]]:
        count["draws"] += 1
        sentence, answer, sure = subanswer(asked)
        if open_book and sure >= retrieve_below:
            count["retrievals_saved"] += 1
        if not open_book or sure >= retrieve_below:
            return sentence, answer, sure, []
        count["retrievals"] += 1
        hits = distinct(recorder.search(asked if query == "subquestion" else question, k))
        found.extend(hits)
        if not hits:
            return sentence, answer, sure, []
        known = refined(asked, hits, recorder, triplet_filter) if refine else None
        return (*(subanswer(asked, triplets=known) if known else subanswer(asked, passages=hits)), hits)

    def settle(asked: str, outcome: tuple[str, str, float, list[Passage]]) -> bool:
        sentence, answer, sure, hits = outcome
        if not answer or (filter and sure < keep_above):
            count["dropped"] += 1
            return False
        history.append({"sub_question": asked, "sentence": sentence, "answer": answer})
        if hits:
            observed.evidence.append(([hit.id for hit in hits], answer))
        return True

    waiting: dict[str, list[Any]] = {}  # a row by its first wording, and how often it was drawn in vain
    for row in rows:
        waiting.setdefault(" ".join("; ".join(row[n] for n in ("head", "relation", "tail")).lower().split()), [row, 0])
    while rows and count["draws"] < max_steps:
        open_rows = [name for name, (row, _) in waiting.items() if len(row["open"]) == 1]
        if not open_rows:
            break
        name = open_rows[0]
        row, vain = waiting[name]
        shown = {name: row[name] for name in ("head", "relation", "tail")}
        reply = recorder.ask("ge.subquestion", triplet=shown, question=None, history=None)
        asked = (reply or {}).get("sub_question") or f"({shown['head']}; {shown['relation']}; {shown['tail']})"
        outcome = reach(asked)
        if settle(asked, outcome):
            count["bindings"] += 1
            bind(rows, next(iter(row["open"])), outcome[1])
            continue
        del waiting[name]  # to the end, or for good
        if vain < 2:
            waiting[name] = [row, vain + 1]
    record: list[tuple[str, dict[str, str] | None]] = []  # every free draw, and its pair where it was kept
    while not given and count["draws"] < max_steps:
        shown_pairs = [
            dict(pair) if pair else {"sub_question": asked, "sentence": "", "answer": ""}
            for n, (asked, pair) in enumerate(record)
            if normalise(asked) not in [normalise(later) for later, _ in record[n + 1 :]]
        ]
        reply = recorder.ask("ge.subquestion", triplet=None, question=question, history=shown_pairs)
        asked = (reply or {}).get("sub_question")
        before = [pair for a, pair in record if asked is not None and normalise(a) == normalise(asked)]
        if asked is None or any(before) or len(before) == 3:
            break
        kept = settle(asked, reach(asked))
        record.append((asked, history[-1] if kept else None))

    final = recorder.ask("ge.answer", question=question, history=history)
    observed.text = final["answer"] if final else ""
    observed.supported = bool(observed.evidence and observed.text)
    observed.passages = [passage.id for passage in distinct(found)]
    observed.statistics = {"triplets": given, **count}
    return observed


def elicited(question: str, recorder: Recorder, typed: bool) -> list[dict[str, Any]]:
    """The rows of the graph: ends, relation, and ``open``, the numbers of the variables still in it."""
    reply = recorder.ask("ge.graph", question=question, typed=typed)
    triplets = reply["triplets"] if reply else []
    variables = {
        int(match[1]) for triplet in triplets for end in ("head", "tail") if (match := LONE.fullmatch(triplet[end]))
    }
    rows = []
    for triplet in triplets:
        row: dict[str, Any] = dict(triplet)
        numbers = {int(n) for end in ("head", "tail") for n in re.findall(r"#(\d+)", triplet[end])}
        row["open"] = numbers & variables
        if not typed:
            for end in ("head", "tail"):
                if match := LONE.fullmatch(row[end]):
                    row[end] = f"#{match[1]}"
        if row["open"]:
            rows.append(row)
    return rows if any(len(row["open"]) == 1 for row in rows) else []


def bind(rows: list[dict[str, Any]], number: int, answer: str) -> None:
    """Write the answer for a variable into every row that has it."""
    for row in rows:
        if number not in row["open"]:
            continue
        row["open"].discard(number)
        for end in ("head", "tail"):
            if (match := LONE.fullmatch(row[end])) and int(match[1]) == number:
                row[end] = answer


def refined(asked: str, hits: list[Passage], recorder: Recorder, chosen: bool) -> list[Mapping[str, str]]:
    """The passages' triplets, each once, and of those the ones kept."""
    extracted: list[Mapping[str, str]] = []
    for hit in hits:
        reply = recorder.ask("ge.triplets", passage=hit)
        for triplet in reply["triplets"] if reply else []:
            if triplet not in extracted:
                extracted.append(triplet)
    if not extracted or not chosen:
        return extracted
    reply = recorder.ask("ge.filter", triplets=extracted, sub_question=asked)
    kept = reply["triplets"] if reply else []
    return [triplet for triplet in extracted if triplet in kept] or extracted
