"""Predictions in the forms that the benchmarks' own scorers take.

HotpotQA: ``{"answer": {id: text}, "sp": {id: [[title, sentence]]}}``; 2WikiMultiHopQA adds ``"evidence": {id: [[subject,
relation, object]]}``. MuSiQue and KILT: JSON lines. TREC: a run (``qid Q0 docid rank score tag``) and qrels
(``qid 0 docid relevance``), as trec_eval and ir-measures read them.

Methods cite passages, while HotpotQA scores sentences: a cited passage stands for the sentence of it that holds the
answer, else for its first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from polyhop.data.contexts import Context, passage_id
from polyhop.data.musique import UNANSWERABLE
from polyhop.text import sentences
from polyhop.types import Passage, Question


@dataclass(frozen=True, slots=True)
class Cited:
    """A passage that an answer rests on, and where in its text the answer stands, if it does."""

    passage: Passage
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a run found for one question: ``ranked`` passages best first, the ``cited`` ones, and ``triples`` of
    (subject, relation, object) where the method keeps such."""

    id: str
    answer: str
    abstained: bool = False
    ranked: tuple[Passage, ...] = ()
    cited: tuple[Cited, ...] = ()
    triples: tuple[tuple[str, str, str], ...] = ()


def hotpotqa_predictions(found: Iterable[Predicted], contexts: Mapping[str, Sequence[Context]]) -> dict[str, Any]:
    """HotpotQA's form. ``contexts``, by question id, tell where a passage's sentences end; without them we tell."""
    rows: dict[str, Any] = {"answer": {}, "sp": {}}
    for each in found:
        rows["answer"][each.id] = each.answer
        known = {context.title: context for context in contexts.get(each.id, ())}
        facts = [[cited.passage.title, sentence_of(cited, known.get(cited.passage.title))] for cited in each.cited]
        rows["sp"][each.id] = [list(fact) for fact in dict.fromkeys(map(tuple, facts))]
    return rows


def two_wiki_predictions(found: Iterable[Predicted], contexts: Mapping[str, Sequence[Context]]) -> dict[str, Any]:
    """2WikiMultiHopQA's form: HotpotQA's and the evidence triples."""
    found = list(found)
    evidence = {each.id: [list(triple) for triple in dict.fromkeys(each.triples)] for each in found}
    return {**hotpotqa_predictions(found, contexts), "evidence": evidence}


def musique_predictions(
    found: Iterable[Predicted], contexts: Mapping[str, Sequence[Context]]
) -> Iterator[dict[str, Any]]:
    """MuSiQue's lines: the cited passages by their number among the question's paragraphs. A question the method
    abstained from counts as unanswerable."""
    for each in found:
        numbers = {context.id: context.number for context in contexts.get(each.id, ())}
        cited = [numbers.get(passage_id(one.passage.title, one.passage.text)) for one in each.cited]
        yield {
            "id": each.id.removesuffix(UNANSWERABLE),
            "predicted_answer": each.answer,
            "predicted_support_idxs": list(dict.fromkeys(number for number in cited if number is not None)),
            "predicted_answerable": not each.abstained,
        }


def kilt_predictions(found: Iterable[Predicted]) -> Iterator[dict[str, Any]]:
    """KILT's lines: the ranked passages' pages as provenance, each page once. A passage's page is its
    ``metadata["wikipedia_id"]``, else its id up to "#"."""
    for each in found:
        pages: dict[str, str] = {}
        for passage in each.ranked:
            page = passage.metadata.get("wikipedia_id") or passage.id.partition("#")[0]
            pages.setdefault(str(page), passage.title)
        provenance = [{"wikipedia_id": id, "title": title} for id, title in pages.items()]
        yield {"id": each.id, "output": [{"answer": each.answer, "provenance": provenance}]}


def trec_run(found: Iterable[Predicted], tag: str) -> Iterator[str]:
    """The ranked passages as lines of a TREC run; the score falls by one from rank to rank."""
    for each in found:
        for rank, passage in enumerate(each.ranked, 1):
            score = len(each.ranked) - rank + 1
            yield f"{_word(each.id)} Q0 {_word(passage.id)} {rank} {score} {_word(tag)}"


def trec_qrels(questions: Iterable[Question], ids_of_title: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The gold passages as lines of TREC qrels; ``ids_of_title`` gives those of questions that name titles alone."""
    for question in questions:
        by_title = [id for title in question.gold_titles for id in ids_of_title.get(title, ())]
        for id in dict.fromkeys(question.gold_ids or by_title):
            yield f"{_word(question.id)} 0 {_word(id)} 1"


def sentence_of(cited: Cited, context: Context | None = None) -> int:
    """The number of the sentence that holds the answer; 0 where none does.

    >>> sentence_of(Cited(Passage("1", "Emma", "Emma is a novel. It is by Jane Austen."), start=26))
    1
    """
    if cited.start is None:
        return 0
    text = cited.passage.text
    pieces = context.sentences if context else sentences(text)
    number = place = 0
    for at, piece in enumerate(pieces):
        here = text.find(piece.strip(), place) if piece.strip() else -1
        if 0 <= here <= cited.start:
            number, place = at, here + len(piece.strip())
    return number


def _word(text: str) -> str:
    """A name as one word of a TREC line: blanks are written as in a URL, which the run and the qrels share."""
    return (
        quote(text, safe="".join(chr(code) for code in range(33, 127) if chr(code) != "%"))
        if text.split() != [text]
        else text
    )
