"""Iter-RetGen (Shao et al., §3), IRCoT (Trivedi et al., §3) and DSP's two hops (Khattab et al., §3) a second time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyhop.common.text import normalise
from polyhop.types import Passage
from tests.restated.tor import ObservedRun, Recorder, World, distinct

WH = {"who", "what", "when", "where", "why", "which", "how", "does", "is"}


def _observed(
    recorder: Recorder, text: str, read: list[Passage], ranked: list[Passage], **statistics: float
) -> ObservedRun:
    """The observed run; its one piece of evidence is the passages read, if there are any and an answer."""
    recorder.observed.text = text
    recorder.observed.passages = [passage.id for passage in ranked]
    recorder.observed.evidence = [([passage.id for passage in read], text)] if read and text else []
    recorder.observed.statistics = statistics
    return recorder.observed


def answered(ask: Callable[..., Any], question: str, passages: list[Passage]) -> dict[str, str]:
    """The reader's output, closed-book where there is nothing to read."""
    if passages:
        reply = ask("answer.read_cot", question=question, passages=passages)
    else:
        reply = ask("answer.cot", question=question)
    return {name: text for name, text in (reply or {"answer": ""}).items() if text}


def iter_retgen(question: str, world: World, *, k: int = 5, max_turns: int = 3, rank_limit: int = 15) -> ObservedRun:
    """T rounds; round t searches the question and what round t-1 wrote, and reads what it finds."""
    recorder = Recorder(world)
    rounds: list[tuple[list[Passage], dict[str, str]]] = []
    for turn in range(1, max_turns + 1):
        ask = recorder.ask_finally if turn == max_turns else recorder.ask_once
        wrote = rounds[-1][1] if rounds else {}
        query = " ".join([question, *(wrote[part] for part in ("rationale", "answer") if part in wrote)])
        hits = distinct(recorder.search(query, k))
        rounds.append((hits, answered(ask, question, hits)))
    ranked = distinct([passage for hits, _ in rounds for passage in hits])[:rank_limit]
    hits, wrote = rounds[-1]
    return _observed(recorder, wrote.get("answer", ""), hits, ranked, rounds=max_turns)


def ircot(
    question: str, world: World, *, k: int = 5, max_turns: int = 3, max_sentences: int = 10, rank_limit: int = 15
) -> ObservedRun:
    """Sentences until one names the answer, none is new, or they are enough; a new query of each is searched."""
    recorder = Recorder(world)
    sentences: list[str] = []
    queries = [question]
    passages = distinct(recorder.search(question, k))[:rank_limit]
    while len(queries) < max_turns and len(sentences) < max_sentences:
        reply = recorder.ask("cot.sentence", question=question, reasoning=list(sentences), passages=passages)
        if reply is None or reply["sentence"] in sentences:
            break
        sentences.append(reply["sentence"])
        if "answer is" in sentences[-1]:
            break
        facts = [sentence for sentence in sentences if not sentence.startswith("So ")]
        if facts:
            query = " ".join(word for word in facts[-1].split() if word.lower() not in WH)
            if normalise(query) not in map(normalise, queries):
                queries.append(query)
                passages = distinct([*passages, *recorder.search(query, k)])[:rank_limit]
    text = answered(recorder.ask, question, passages).get("answer", "")
    return _observed(recorder, text, passages, passages, sentences=len(sentences), searches=len(queries))


def dsp(
    question: str,
    world: World,
    *,
    k: int = 5,
    max_turns: int = 2,
    queries: int = 5,
    samples: int = 5,
    rank_limit: int = 15,
) -> ObservedRun:
    """Hops, then as many readings; in a world that always says the same one query is everybody's; so is the vote."""
    recorder = Recorder(world)
    summaries: list[str] = []
    asked: list[str] = []
    hits: list[Passage] = []
    ranked: list[Passage] = []
    hops = 0
    while hops < max_turns:
        ask = recorder.ask if queries > 1 else recorder.ask_once  # one query is not sampled
        replies = [
            ask("dsp.hop", question=question, summaries=list(summaries), passages=hits) or {} for _ in range(queries)
        ]
        if hits and replies[0].get("summary"):
            summaries.append(replies[0]["summary"])
        query = replies[0].get("query") or ("" if hops else question)
        if not query or query in asked:
            break
        asked.append(query)
        hops += 1
        hits = distinct(recorder.search(query, k))
        ranked = distinct([*hits, *ranked])
    read = [Passage("summary", "Found so far", " ".join(summaries))] * bool(summaries) + hits
    texts = [answered(recorder.ask, question, read).get("answer", "") for _ in range(samples)]
    share = float(bool(texts[0]))
    ranked = ranked[:rank_limit]
    return _observed(recorder, texts[0], ranked, ranked, hops=hops, samples=samples, agreement=share)
