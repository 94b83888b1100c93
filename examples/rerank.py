"""Let polyhop rank what another pipeline finds: PromptRank and `hops` behind a search of your own.

The search here looks for rare words. With `links` beside it (which page leads to which) it is a retriever, and path
ranking goes on from its hits: PromptRank asks how likely the question is after each path of passages, by any model that
scores text; `hops` uses a small scorer inside. Both are retrievers again, for any method and for `Pipeline.search`.

    python examples/rerank.py

prints

    rare words  all that is needed among the first five: 25 of 40 questions
    promptrank  all that is needed among the first five: 29 of 40 questions
    hops        all that is needed among the first five: 38 of 40 questions
"""

import re
from collections import Counter
from collections.abc import Sequence

import polyhop
from polyhop import Passage
from polyhop.data.questions import read_questions
from polyhop.methods.as_retriever import HopsRetriever, PathRetriever


class RareWords:
    """The other pipeline's search."""

    name = "rare words"

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.words = {passage: words(f"{passage.title} {passage.text}") for passage in passages}
        self.common = Counter(word for found in self.words.values() for word in found)

    def search(self, query: str, k: int) -> list[Passage]:
        asked = words(query)
        rare = {p: sum(1 / self.common[word] for word in asked & self.words[p]) for p in self.passages}
        return sorted(self.passages, key=lambda p: (-rare[p], p.id))[:k]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [self.search(query, k) for query in queries]

    def links(self, passage: Passage) -> list[Passage]:
        return [p for p in self.passages if p != passage and p.title.partition(" (")[0] in passage.text]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


found = RareWords(list(polyhop.open_corpus("demo")))
questions = read_questions("demo", limit=40)
for retriever in (found, PathRetriever(found), HopsRetriever(found, scorer="reasons")):
    with polyhop.Pipeline(retriever=retriever, lm="pocket") as pipeline:
        top = [{passage.id for passage in pipeline.search(question.text, 5)} for question in questions]
    complete = sum(ids.issuperset(question.gold_ids) for question, ids in zip(questions, top, strict=True))
    print(f"{retriever.name:10}  all that is needed among the first five: {complete} of {len(questions)} questions")
