"""SearChain a second time: Algorithm 1 written as one flat loop over a queue of nodes, every decision read off it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

from polyhop.common.text import STOP_WORDS, normalise
from polyhop.prompts.non_answers import is_non_answer
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
    """True if a text contains some words as whole words."""
    return re.search(rf"(?<!\w){re.escape(words.lower())}(?!\w)", text.lower()) is not None


MONTH = "january february march april may june july august september october november december".replace(" ", "|")


def in_one_form(text: str) -> list[str]:
    """A text's words: dates begin with their year, numbers are without commas, nothing else counts but letters."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower())
    text = re.sub(rf"\b(\d\d?) ({MONTH}) (\d{{4}})\b", r"\3 \2 \1", text)
    text = re.sub(rf"\b({MONTH}) (\d\d?), (\d{{4}})\b", r"\3 \1 \2", text)
    return [word for word in re.findall(r"\w+", text) if word not in ("a", "an", "the")]


def within(short: list[str], long: list[str]) -> bool:
    return short != [] and any(long[at : at + len(short)] == short for at in range(len(long)))


def correct(answer: str, g: str, how: str) -> bool:
    """True if the reader's answer leaves a short answer as it is."""
    if how == "one-way":
        return normalise(g) in normalise(answer)
    ours, theirs = in_one_form(answer), in_one_form(g)
    return within(ours, theirs) or within(theirs, ours)


def worded_apart(one: str, other: str) -> bool:
    """True if a word makes two queries different; these worlds ask where, when or not at all."""
    ours, theirs = ({word.strip("?") for word in query.split()} for query in (one, other))
    only = [{w for w in words if w.lower() not in STOP_WORDS} for words in (ours - theirs, theirs - ours)]
    named = any(word[0].isdigit() or word[0].isupper() for word in only[0] | only[1])
    return ours & {"Where", "When"} != theirs & {"Where", "When"} or named or [] not in map(sorted, only)


def alike(query: str, known: Sequence[str], world: World, threshold: float | str) -> bool:
    """True if a query asks for the same as an earlier one."""
    if normalise(query) in map(normalise, known):
        return True
    rest = [other for other in known if not worded_apart(query, other)]
    return threshold != "exact" and rest != [] and max(world.similarity(query, [query, *rest])[1:]) >= float(threshold)


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
    consistency: str = "two-way",
    likeness: float | str = 0.9,
    context_tokens: int = 4096,
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
    done: list[str] = []
    chains: list[list[dict[str, Any]]] = []
    feedback: list[dict[str, Any]] = []
    seen_passages: list[Passage] = []
    final = None
    long_form = form == "long" or (form is None and kind == "long")

    def fields_of(shown: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
        said_before = {"chains": [chain for chain, _ in shown], "feedback": [fed for _, fed in shown]}
        return {"question": question, "kind": kind, "open_book": open_book, **said_before}

    def known(query: str, before: Sequence[str]) -> bool:
        return alike(query, before, world, likeness)

    finished = False
    while not finished and len(chains) < (max_rounds if open_book else 1):
        shown = list(zip(chains, feedback, strict=True))

        def too_long(turns: Sequence[tuple[Any, Any]]) -> bool:
            return world.prompt_tokens("searchain.chain", fields_of(turns)) > context_tokens

        if shown and (passage := shown[-1][1]["passage"]) and too_long(shown):
            for length in range(world.count_tokens(passage.text) - 1, -1, -1):
                cut = replace(passage, text=world.truncate(passage.text, length))
                shown[-1] = (shown[-1][0], {**shown[-1][1], "passage": cut})
                if not too_long(shown):
                    break
        while shown and too_long(shown):
            shown = shown[1:]
        said = recorder.ask("searchain.chain", **fields_of(shown))
        chain: list[dict[str, Any]] = (
            [dict(node) for node in said["nodes"]] if said else [{"query": question, "answer": None}]
        )
        final = said["final"] if said else None
        chains.append(chain)
        finished = True
        if not open_book:
            own = [node for node in chain if node["answer"]]
            for node in own:
                if not known(node["query"], [row[0] for row in rows]):
                    rows.append([node["query"], node["answer"], None, "lm", None])
            break
        if rows and rows[-1][1] is None:
            rows[-1][1] = next((n["answer"] for n in chain if n["answer"] and known(n["query"], [rows[-1][0]])), None)
            if rows[-1][1] is None:
                rows.pop()
        for node in chain:
            query, answer = node["query"], node["answer"]
            if (answer is None and not completion) or known(query, done):
                continue
            done.append(query)
            hits = recorder.search(query, k)
            hits = list(dict.fromkeys(hits))
            seen_passages += hits
            spans = list(world.read(query, hits)) if hits and (answer is None or verification) else []
            passage = hits[0] if hits else None
            g, f = None, 0.0
            if spans:
                f = spans[0].confidence
                if spans[0].answerable and spans[0].start < spans[0].end and says(spans[0].text):
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
                    same = g is not None and correct(answer, g, consistency)
                kept = same or (consistency == "two-way" and in_one_form(answer) in (["yes"], ["no"]))
                if g is None or not f > theta or kept:
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
    told_of = rows
    if open_book or not final:
        told_of = shown_rows = shortened(question, rows, world, kind, context_tokens)
        traced: Mapping[str, Any] | None = recorder.ask("searchain.trace", **asked_of(question, shown_rows, kind))
        content, answer = (traced["content"], traced["answer"]) if traced else ("", final or "")
        told_of = rows[len(rows) - len(shown_rows) :]
    if verify == "reader":

        def read_late(row: list[Any]) -> bool:
            query, answer, passage = row[:3]
            spans = list(world.read(query, [passage]))
            if not spans or not spans[0].answerable or spans[0].end <= spans[0].start or not says(spans[0].text):
                return False
            if long_form:
                same = rouge(bare(answer), bare(passage.text), rouge_kind) > rouge_above
            else:
                same = correct(answer, spans[0].text, consistency)
            return spans[0].confidence > theta and (same or spans[0].text == answer)

        def bears_out(row: list[Any]) -> bool:
            return read_late(row) if row[4] is None else bool(row[4])
    else:

        def bears_out(row: list[Any]) -> bool:
            return verify == "none" or holds(f"{row[2].title} {row[2].text}", row[1])

    observed = _finish(recorder.observed, rows, told_of, seen_passages, content, answer or "", len(chains), bears_out)
    observed.statistics["steps"] = len({normalise(node["query"]) for chain in chains for node in chain})
    if verify == "none":
        observed.statistics.pop("supported references", None)
    return observed


def says(text: str) -> bool:
    """True if a span says anything."""
    return normalise(text) != "" and not is_non_answer(text)


def asked_of(question: str, rows: list[list[Any]], kind: str) -> dict[str, Any]:
    """The last call's fields: a long answer is written from the passages too."""
    nodes = [{"query": query, "answer": answer, "passage": passage} for query, answer, passage, *_ in rows]
    with_passages = kind == "long" and [row for row in rows if row[2]] != []
    return {"question": question, "kind": kind, "with_passages": with_passages, "nodes": nodes}


def shortened(question: str, rows: list[list[Any]], world: World, kind: str, tokens: int) -> list[list[Any]]:
    """The rows as the last prompt shows them: from the oldest on, passages are titles, then none; then rows go."""

    def too_long(rows: list[list[Any]]) -> bool:
        return world.prompt_tokens("searchain.trace", asked_of(question, rows, kind)) > tokens

    def shown_as(texts: Mapping[str, str]) -> list[list[Any]]:
        return [
            [
                query,
                answer,
                replace(passage, text=texts[passage.id]) if passage and passage.id in texts else None,
                *rest,
            ]
            for query, answer, passage, *rest in rows
        ]

    shown = rows
    if kind == "long" and too_long(rows):
        newest_first = list(dict.fromkeys(row[2] for row in reversed(rows) if row[2]))
        texts = {passage.id: passage.text for passage in newest_first}
        oldest_first = list(reversed(texts))
        for passage in oldest_first[:-1]:
            if too_long(shown_as(texts)):
                texts[passage] = ""
        for passage in oldest_first[:-1]:
            if too_long(shown_as(texts)):
                del texts[passage]
        if texts and too_long(shown_as(texts)):
            last, whole = oldest_first[-1], newest_first[0].text
            for length in range(world.count_tokens(whole), -1, -1):
                texts[last] = world.truncate(whole, length)
                if not too_long(shown_as(texts)):
                    break
            else:
                del texts[last]
        shown = shown_as(texts)
    while shown and too_long(shown):
        shown = shown[1:]
    return shown


def _finish(
    observed: ObservedRun,
    rows: list[list[Any]],
    shown: list[list[Any]],
    retrieved: list[Passage],
    content: str,
    answer: str,
    rounds: int,
    bears_out: Callable[[list[Any]], bool],
) -> ObservedRun:
    numbers = [int(number) for mark in re.findall(r"\[([\d, ]+)\]", content) for number in mark.split(",")]
    good = [n for n in numbers if 0 < n <= len(shown) and shown[n - 1][2] is not None]
    backed = [bears_out(shown[n - 1]) for n in good]
    observed.text = answer
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
