"""A run's predictions in the forms that the benchmarks' own scorers read, and in TREC's.

HotpotQA: ``{"answer": {id: text}, "sp": {id: [[title, sentence]]}}``; 2WikiMultiHopQA adds ``"evidence": {id:
[[subject, relation, object]]}``. MuSiQue and KILT: JSON lines. Ragas: the lines that ``EvaluationDataset.from_jsonl``
reads (the fields of its ``SingleTurnSample``, checked against its public code). TREC: a run (``qid Q0 docid rank score
tag``) and qrels (``qid 0 docid relevance``), as trec_eval and ir-measures read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from polyhop.data.contexts import Context
from polyhop.data.musique import UNANSWERABLE
from polyhop.types import Passage, Question

Row: TypeAlias = Mapping[str, Any]
"""A line of a run's ``predictions.jsonl``."""


def hotpotqa_submission(rows: Sequence[Row]) -> dict[str, Any]:
    """Return HotpotQA's form. A line without facts gets none: its corpus does not mark where sentences begin."""
    return {
        "answer": {row["id"]: row["prediction"] for row in rows},
        "sp": {row["id"]: row.get("facts") or [] for row in rows},
    }


def two_wiki_submission(rows: Sequence[Row]) -> dict[str, Any]:
    """Return 2WikiMultiHopQA's form; evidence is the triples of a method that reports such."""
    return {**hotpotqa_submission(rows), "evidence": {row["id"]: row.get("triples") or [] for row in rows}}


def musique_submission(rows: Iterable[Row], contexts: Mapping[str, Sequence[Context]]) -> Iterator[dict[str, Any]]:
    """Yield MuSiQue's lines: cited passages by their number among the question's paragraphs, matched by id or by a
    title that only one of them has. A question without an answer counts as unanswerable."""
    for row in rows:
        own = contexts.get(row["id"], ())
        titles = Counter(context.title for context in own)
        numbers = {context.title: context.number for context in own if titles[context.title] == 1}
        numbers |= {context.id: context.number for context in own}
        cited = [numbers.get(id, numbers.get(title)) for id, title in row.get("cited") or ()]
        yield {
            "id": row["id"].removesuffix(UNANSWERABLE),
            "predicted_answer": row["prediction"],
            "predicted_support_idxs": list(dict.fromkeys(number for number in cited if number is not None)),
            "predicted_answerable": bool(row["prediction"]) and not row["abstained"],
        }


def kilt_submission(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield KILT's lines: the pages of the ranked passages, each once. A page's id is its passage's up to "#"."""
    for row in rows:
        pages: dict[str, str] = {}
        for id, title in zip(row["passages"], row.get("titles") or [""] * len(row["passages"]), strict=True):
            pages.setdefault(id.partition("#")[0], title)
        provenance = [{"wikipedia_id": id, "title": title} for id, title in pages.items()]
        yield {"id": row["id"], "output": [{"answer": row["prediction"], "provenance": provenance}]}


def ragas_samples(rows: Iterable[Row], ranked: Callable[[Row], Sequence[Passage]]) -> Iterator[dict[str, Any]]:
    """Yield the samples of Ragas: question, answer, ranked passages with their titles, the first gold answer if any.

    ``ranked`` returns the passages of a line.
    """
    for row in rows:
        passages = ranked(row)
        gold = {"reference": row["answers"][0]} if row["answers"] else {}
        if ids := row.get("gold", {}).get("ids"):
            gold["reference_context_ids"] = ids
        yield {
            "user_input": row["question"],
            "response": row["prediction"],
            "retrieved_contexts": ["\n".join(filter(None, (passage.title, passage.text))) for passage in passages],
            "retrieved_context_ids": [passage.id for passage in passages],
            **gold,
        }


def trec_run(rows: Iterable[Row], tag: str) -> Iterator[str]:
    """Yield the ranked passages as lines of a TREC run; the score decreases by one per rank."""
    for row in rows:
        ranked = row["passages"]
        for rank, id in enumerate(ranked, 1):
            yield f"{_word(row['id'])} Q0 {_word(id)} {rank} {len(ranked) - rank + 1} {_word(tag)}"


def trec_qrels(questions: Iterable[Question], ids_of_title: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the gold passages as lines of TREC qrels; ``ids_of_title`` resolves gold that has only titles."""
    for question in questions:
        by_title = [id for title in question.gold_titles for id in ids_of_title.get(title, ())]
        for id in dict.fromkeys(question.gold_ids or by_title):
            yield f"{_word(question.id)} 0 {_word(id)} 1"


_PRINTED = "".join(chr(code) for code in range(33, 127) if chr(code) != "%")


def _word(name: str) -> str:
    """Return a name as one word of a TREC line: with blanks or control characters, it is percent-encoded, in runs and
    qrels alike.

    >>> _word("notes/my day.md#1"), _word("12#1")
    ('notes/my%20day.md#1', '12#1')
    """
    return name if name.split() == [name] and name.isprintable() else quote(name, safe=_PRINTED)
