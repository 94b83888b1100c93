"""The contexts in the records of HotpotQA, 2WikiMultiHopQA, MuSiQue and others, which together form a corpus.

A passage's id is made from its title and text, so that the same passage has the same id in every file. The documents of
BrowseComp-Plus have ids of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from polyhop.data.corpora import open_corpus
from polyhop.data.corpus import Corpus
from polyhop.data.formats import objects_of
from polyhop.data.lines import first_of, id_of, json_type, mapping_of, require, text_of
from polyhop.data.passages import passage_id
from polyhop.data.questions import Dataset
from polyhop.errors import DataError
from polyhop.types import Passage, Question

_EXPECTED = "the 'context' of HotpotQA, 2Wiki and SQuAD or the 'paragraphs' of MuSiQue"
PARAGRAPHS = ("paragraphs", "contexts")
DOCUMENTS = ("gold_docs", "evidence_docs", "negative_docs")


@dataclass(frozen=True, slots=True)
class Context:
    """A passage of a record: its number in the record, its sentences (or, without ``in_sentences``, its text as one),
    ``gold`` if it is marked as such (MuSiQue), and its own id, if it has one."""

    number: int
    title: str
    sentences: tuple[str, ...]
    gold: bool = False
    in_sentences: bool = True
    own_id: str = ""

    @property
    def text(self) -> str:
        """The sentences as one text, single spaces between words."""
        return " ".join(" ".join(self.sentences).split())

    @property
    def starts(self) -> list[int]:
        """The position of each sentence in the text, in the order that supporting facts count. An empty sentence has
        the position of the next.

        >>> Context(0, "Emma", ("Emma is a novel.", " ", " It is by Jane Austen.")).starts
        [0, 17, 17]
        """
        starts, position = [], 0
        for sentence in self.sentences:
            starts.append(min(position, len(self.text)))
            position += len(plain) + 1 if (plain := " ".join(sentence.split())) else 0
        return starts

    @property
    def id(self) -> str:
        """The passage's id in a corpus made from contexts."""
        return self.own_id or passage_id(self.title, self.text)

    @property
    def passage(self) -> Passage:
        """The context as a passage of a corpus, with the positions of sentences if the record has them."""
        metadata = {"sentences": self.starts} if self.in_sentences else {}
        return Passage(self.id, self.title, self.text, metadata=metadata)


def contexts_of(row: Mapping[str, Any]) -> list[Context]:
    """Return a record's passages that have text; [] for a format without contexts.

    >>> contexts_of({"context": [["Emma", ["Emma is a novel.", " It is by Jane Austen."]]]})[0].text
    'Emma is a novel. It is by Jane Austen.'

    Raises:
        ValueError: they are malformed.
    """
    if row.keys() & {*DOCUMENTS}:
        return _documents(row)
    row = row if row.keys() & {"context", *PARAGRAPHS} else mapping_of(row, "metadata")  # FlashRAG's place for them
    name = first_of(row, PARAGRAPHS)
    if isinstance(text := row.get("context"), str) and "title" in row:  # SQuAD's paragraph
        return [Context(0, text_of(row, "title"), (text,), in_sentences=False)]
    found = _paragraphs(row, name) if name else _pairs(text)
    return [context for context in found if context.text]


def unique_passages(datasets: Iterable[Dataset]) -> Iterator[Passage]:
    """Yield the passages of all records, each once, in order of appearance.

    Raises:
        DataError: a record is malformed, or no record of a dataset has a context.
    """
    seen: set[str] = set()
    for dataset in datasets:
        has_contexts = False
        for _, contexts in _with_contexts(dataset):
            has_contexts = has_contexts or bool(contexts)
            for context in contexts:
                if (id := context.id) not in seen:
                    seen.add(id)
                    yield context.passage
        if not has_contexts:
            raise DataError(f"its records have no contexts; looked for {_EXPECTED}", dataset.source.path)


def grounded_questions(dataset: Dataset) -> Iterator[Question]:
    """Yield the questions with the ids that a corpus made from contexts gives to their gold passages, steps and
    contexts. A question whose contexts lack a gold passage (as in fullwiki) keeps only titles."""
    for question, contexts in _with_contexts(dataset):
        yield _grounded(question, contexts)


CONTEXTS = "contexts"
"""The corpus of a run whose questions are each answered from the contexts of their own records."""


def is_contexts(corpus: object) -> bool:
    """Return True if a corpus is named ``contexts``, and no file has this name."""
    return isinstance(corpus, (str, Path)) and str(corpus) == CONTEXTS and not Path(corpus).exists()


def has_contexts(dataset: Dataset) -> bool:
    """Return True if the first record of a dataset has contexts."""
    try:
        return any(contexts for _, contexts in islice(_with_contexts(dataset), 1))
    except DataError:
        return False


def questions_with_contexts(dataset: Dataset) -> list[Question]:
    """Read the questions with their contexts, to which their searches are restricted, and ids of gold passages."""
    read = ((_grounded(question, contexts), contexts) for question, contexts in _with_contexts(dataset))
    return [replace(question, contexts=tuple(context.passage for context in contexts)) for question, contexts in read]


def corpus_of_contexts(questions: Iterable[Question]) -> Corpus:
    """Return the contexts of all questions as one corpus, each passage once.

    Raises:
        DataError: no question has any.
    """
    passages = {passage.id: passage for question in questions for passage in question.contexts}
    if not passages:
        raise DataError(f"the questions have no contexts of their own; looked for {_EXPECTED}", CONTEXTS)
    corpus = open_corpus(list(passages.values()))
    corpus.name = CONTEXTS
    return corpus


def _grounded(question: Question, contexts: Sequence[Context]) -> Question:
    marked = [context for context in contexts if context.gold]
    gold = marked or [context for context in contexts if context.title in question.gold_titles]
    by_number = {context.number: context.id for context in contexts}
    numbered = [(step, step.get("paragraph_support_idx")) for step in question.steps]
    steps = tuple(
        {**step, "pid": by_number[number]} if isinstance(number, int) and number in by_number else step
        for step, number in numbered
    )
    complete = set(question.gold_titles) <= {context.title for context in gold} and question.gold_titles
    return replace(
        question,
        gold_ids=tuple(dict.fromkeys(context.id for context in gold)) if complete else question.gold_ids,
        steps=steps,
        metadata={**question.metadata, "context_pids": list(dict.fromkeys(by_number.values()))},
    )


def _with_contexts(dataset: Dataset) -> Iterator[tuple[Question, list[Context]]]:
    for number, row, question in dataset.valid_records():
        try:
            contexts = contexts_of(row or {})
        except ValueError as error:
            if not dataset.skip_bad:
                raise dataset.source.fault(number, str(error)) from None
            dataset.skipped += 1
            continue
        if isinstance(question, Question):
            yield question, contexts


def _pairs(value: Any) -> list[Context]:
    if value is None:
        return []
    if isinstance(value, dict):
        titles = value.get("title")
        texts = value.get("sentences", value.get("content"))
        if not (isinstance(titles, list) and isinstance(texts, list) and len(titles) == len(texts)):
            raise ValueError("'context' is an object without arrays 'title' and 'sentences' of one length")
        value = [list(pair) for pair in zip(titles, texts, strict=True)]
    if not isinstance(value, list):
        raise ValueError(f"'context' is {json_type(value)}, expected an array of [title, sentences] pairs")
    found = []
    for number, pair in enumerate(value):
        match pair:
            case [str() as title, list() as sentences] if all(isinstance(sentence, str) for sentence in sentences):
                found.append(Context(number, title, tuple(sentences)))
            case _:
                raise ValueError(f"'context' holds {str(pair)[:80]}, expected [title, sentences] pairs")
    return found


def _paragraphs(row: Mapping[str, Any], name: str) -> list[Context]:
    found = []
    for i, paragraph in enumerate(objects_of(row, name)):
        number = paragraph["idx"] if isinstance(paragraph.get("idx"), int) else i
        text = text_of(paragraph, require(paragraph, ("paragraph_text", "text")))
        title = text_of(paragraph, require(paragraph, ("title",)))
        found.append(Context(number, title, (text,), paragraph.get("is_supporting") is True, in_sentences=False))
    return found


def _documents(row: Mapping[str, Any]) -> list[Context]:
    """Return the documents of a record of BrowseComp-Plus, each once."""
    found: dict[str, Context] = {}
    for document in (document for name in DOCUMENTS for document in objects_of(row, name)):
        id, text = id_of(document, require(document, ("docid",))), text_of(document, require(document, ("text",)))
        found.setdefault(id, Context(len(found), "", (text,), in_sentences=False, own_id=id))
    return list(found.values())
