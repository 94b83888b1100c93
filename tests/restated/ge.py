"""GE-Reasoning a second time: written from Algorithm 1 and §3, apart from its method.

Plain and synchronous. The graph is held as the bare texts of its ends, rewritten at every binding; a variable is found
again by the numbers it was noted under before. Confidence is the number the model names (``verbal``), or the agreement
of several answers. What the second round settled (methods-2) stands here as it is worded there: greedy calls that come
again are not made again, near-misses of the filter match and "none" leaves none, whole prompts are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.kit.random_world import seen
from tests.restated.tor import ObservedRun, Recorder, World, distinct

LONE = re.compile(r"(?:[^#]+:)?\s*#(\d+)")


class Bounded(Recorder):
    """A recorder whose prompts keep to a length, and whose greedy calls are written down the first time alone."""

    def __init__(self, world: World, context_tokens: int) -> None:
        super().__init__(world)
        self.context_tokens = context_tokens
        self.known: dict[str, Mapping[str, Any] | None] = {}

    def greedy(self, task: str, **fields: Any) -> Mapping[str, Any] | None:
        """A call at temperature 0."""
        name = task + repr(seen(fields))
        if name not in self.known:
            self.known[name] = self.ask(task, **fields)
        return self.known[name]

    def bounded(self, task: str, **fields: Any) -> dict[str, Any]:
        """The fields, with passages from the last on as titles, then gone, the first cut short; then fewer triplets,
        the last first; then a shorter history, the oldest first."""

        def fits(**other: Any) -> bool:
            return self.world.prompt_tokens(task, {**fields, **other}) <= self.context_tokens

        if isinstance(one := fields.get("passage"), Passage):
            kept = self._shortened([one], lambda some: fits(passage=some[0]))
            fields["passage"] = kept[0] if kept else None
        if many := fields.get("passages"):
            fields["passages"] = self._shortened(many, lambda some: fits(passages=some))
        while fields.get("triplets") and not fits():
            fields["triplets"] = fields["triplets"][:-1]
        while fields.get("history") and not fits():
            fields["history"] = fields["history"][1:]
        return fields

    def _shortened(self, passages: list[Passage], fits: Callable[[list[Passage]], bool]) -> list[Passage]:
        now = list(passages)
        for i in reversed(range(1, len(now))):
            if not fits(now):
                now[i] = replace(now[i], text="")
        while len(now) > 1 and not fits(now):
            now.pop()
        if len(now) == 1:
            (only,) = now
            text, length = only.text, self.world.count_tokens(only.text)
            while now and not fits(now):
                length -= 1
                now = [] if length < 0 else [replace(only, text=self.world.truncate(text, length))]
        return now


def ge_reasoning(
    question: str,
    world: World,
    *,
    k: int = 2,
    max_steps: int = 10,
    retrieve_below: float = 0.9,
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
    context_tokens: int = 4096,
    extract: str = "passage",
) -> ObservedRun:
    """Run the whole method."""
    recorder = Bounded(world, context_tokens)
    observed = recorder.observed
    rows = elicited(question, recorder, typed_variables) if guidance else []
    given = len(rows)
    history: list[dict[str, str]] = []
    found: list[Passage] = []
    count = {"draws": 0, "bindings": 0, "dropped": 0, "retrievals": 0, "retrievals_saved": 0}

    def subanswer(asked: str, triplets: Any = None, passages: Any = None) -> tuple[str, str, float, list[str]]:
        times = samples if confidence == "agreement" else 1
        fields = recorder.bounded(
            "ge.subanswer",
            question=question,
            history=[dict(pair) for pair in history],
            sub_question=asked,
            triplets=triplets,
            passages=passages,
            verbal=confidence == "verbal",
        )
        replies = [recorder.ask("ge.subanswer", **fields) for _ in range(times)]
        said = replies[0]  # the world says the same however often it is asked
        if said is None or not said["answer"]:
            return "", "", 0.0, []
        read = [passage.id for passage in fields["passages"] or [] if passage.text]
        return said["sentence"], said["answer"], said["confidence"] if confidence == "verbal" else 1.0, read

    def reach(asked: str) -> tuple[str, str, float, list[str]]:
        count["draws"] += 1
        first = subanswer(asked)
        if open_book and first[2] >= retrieve_below:
            count["retrievals_saved"] += 1
        if not open_book or first[2] >= retrieve_below:
            return first
        count["retrievals"] += 1
        hits = distinct(recorder.search(asked if query == "subquestion" else question, k))
        found.extend(hits)
        if not hits:
            return first
        known: list[Mapping[str, str]] | None = None
        if refine and extract == "query":
            known, whence = extracted_at_once(asked, hits, recorder)
        elif refine:
            known, whence = refined(asked, hits, recorder, triplet_filter)
        if known is None:
            return subanswer(asked, passages=hits)
        sentence, answer, sure, _ = subanswer(asked, triplets=known or None)
        return sentence, answer, sure, whence

    def settle(asked: str, outcome: tuple[str, str, float, list[str]]) -> bool:
        sentence, answer, sure, whence = outcome
        if not answer or (filter and sure < keep_above):
            count["dropped"] += 1
            return False
        history.append({"sub_question": asked, "sentence": sentence, "answer": answer})
        if whence:
            observed.evidence.append((whence, answer))
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
        reply = recorder.greedy("ge.subquestion", triplet=shown, question=None, history=None)
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
        fields = recorder.bounded("ge.subquestion", triplet=None, question=question, history=shown_pairs)
        reply = recorder.greedy("ge.subquestion", **fields)
        asked = (reply or {}).get("sub_question")
        before = [pair for a, pair in record if asked is not None and normalise(a) == normalise(asked)]
        if asked is None or any(before) or len(before) == 3:
            break
        kept = settle(asked, reach(asked))
        record.append((asked, history[-1] if kept else None))

    final = recorder.ask("ge.answer", **recorder.bounded("ge.answer", question=question, history=history))
    observed.text = final["answer"] if final else ""
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


def refined(
    asked: str, hits: list[Passage], recorder: Bounded, chosen: bool
) -> tuple[list[Mapping[str, str]] | None, list[str]]:
    """The passages' triplets, each once, of those the ones that a filter names, and the passages they are of. None for
    passages without a triplet."""
    extracted: list[Mapping[str, str]] = []
    whence: list[tuple[str, Mapping[str, str]]] = []
    for hit in hits:
        fields = recorder.bounded("ge.triplets", passage=hit)
        reply = recorder.greedy("ge.triplets", **fields) if fields["passage"] else None
        for triplet in reply["triplets"] if reply else []:
            whence.append((hit.id, triplet))
            if triplet not in extracted:
                extracted.append(triplet)
    if not extracted:
        return None, []
    if chosen:
        fields = recorder.bounded("ge.filter", triplets=extracted, sub_question=asked)
        reply = recorder.greedy("ge.filter", **fields)
        if reply is not None:
            meant = [nearest(named, fields["triplets"]) for named in reply["triplets"]]
            extracted = [triplet for triplet in fields["triplets"] if triplet in meant]
    return extracted, list(dict.fromkeys(name for name, triplet in whence if triplet in extracted))


def nearest(named: Mapping[str, str], given: list[Mapping[str, str]]) -> Mapping[str, str] | None:
    """The triplet that a line of the filter means: the same, or the first that shares most of its words."""
    if named in given:
        return named
    ranked = sorted(given, key=lambda triplet: -alike(named, triplet))
    return ranked[0] if ranked and alike(named, ranked[0]) >= 0.8 else None


def alike(one: Mapping[str, str], other: Mapping[str, str]) -> float:
    """The words that two triplets share, of all their words."""
    left, right = (re.findall(r"\w+", " ".join(triplet.values()).lower()) for triplet in (one, other))
    rest = list(right)
    for word in left:
        if word in rest:
            rest.remove(word)
    return 2 * (len(right) - len(rest)) / (len(left) + len(right))


def extracted_at_once(asked: str, hits: list[Passage], recorder: Bounded) -> tuple[list[Mapping[str, str]], list[str]]:
    """The triplets for the sub-question, from all passages in one call, and the passages that were shown."""
    fields = recorder.bounded("ge.extract", passages=hits, sub_question=asked)
    reply = recorder.greedy("ge.extract", **fields)
    rows: list[Mapping[str, str]] = []
    for triplet in reply["triplets"] if reply else []:
        if triplet not in rows:
            rows.append(triplet)
    return rows, [passage.id for passage in fields["passages"] if passage.text] if rows else []
