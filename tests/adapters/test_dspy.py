"""DSPy's interface, imitated as its public source code has it, with a retriever, a model and a module of ours."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from polyhop.errors import UsageError
from polyhop.types import Passage
from tests.kit.adapters import ANSWER, CORPUS, QUESTION, pipeline

TEXTS = {passage.id: f"{passage.title} | {passage.text}" for passage in CORPUS}


class Prediction:
    """``dspy.Prediction``: fields by name, as attributes and as items."""

    def __init__(self, **fields: Any) -> None:
        self._store = fields

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_store"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        return self._store[name]


class Retrieve:
    """``dspy.Retrieve``: a call is ``forward``, which by default asks ``dspy.settings.rm`` for ``long_text``s."""

    def __init__(self, k: int = 3, callbacks: Any = None) -> None:
        self.k, self.callbacks = k, callbacks or []

    def dump_state(self) -> dict[str, Any]:
        return {"k": self.k}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, query: str, k: int | None = None, **kwargs: Any) -> Prediction:
        passages = sys.modules["dspy"].settings.rm(query, k=self.k if k is None else k, **kwargs)
        return Prediction(passages=[passage.long_text for passage in passages])


class Module:
    """``dspy.Module``: a call is ``forward``, ``acall`` is ``aforward``."""

    def __init__(self, callbacks: Any = None) -> None:
        self.callbacks, self.history = callbacks or [], []  # type: ignore[var-annotated]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)  # type: ignore[attr-defined]

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        return await self.aforward(*args, **kwargs)  # type: ignore[attr-defined]


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter, over the imitation in place of DSPy."""
    dspy = ModuleType("dspy")
    vars(dspy).update(Prediction=Prediction, Retrieve=Retrieve, Module=Module, settings=SimpleNamespace(rm=None))
    monkeypatch.setitem(sys.modules, "dspy", dspy)
    monkeypatch.delitem(sys.modules, "polyhop.adapters.dspy", raising=False)
    yield importlib.import_module("polyhop.adapters.dspy")
    sys.modules.pop("polyhop.adapters.dspy", None)


async def test_a_retriever_predicts_passages_with_ids_and_scores(adapter: Any) -> None:
    with pipeline() as qa:
        retriever = adapter.PolyhopRetriever(qa, k=1)
        found = retriever("film Alien")
        assert (found.passages, found.ids, found.titles) == ([TEXTS["alien"]], ["alien"], ["Alien (film)"])
        assert found.scores[0] > 0
        assert retriever("director", k=2).ids == (await retriever.aforward(query="director", k=2)).ids
        assert retriever("zebra").passages == []
        assert retriever.dump_state() == {"k": 1}
        assert qa.search("film", 1)  # a pipeline that was handed in stays open


def test_a_retriever_opens_a_corpus_and_closes_it(adapter: Any) -> None:
    retriever = adapter.PolyhopRetriever(CORPUS, method="bm25")
    assert retriever("Rome", k=1).ids == ["rome"]
    retriever.close()
    with pytest.raises(UsageError, match="closed"):
        retriever._opened.pipeline.search("Rome")
    plain = adapter.PolyhopRetriever(lambda query, k: [Passage("1", "", "No title.")], method="bm25")
    assert (plain("any").passages, plain("any").scores) == (["No title."], [None])
    plain.close()


def test_programs_retrieve_through_the_configured_model(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline() as qa:
        rm = adapter.PolyhopRM(qa)
        monkeypatch.setattr(sys.modules["dspy"].settings, "rm", rm)
        assert Retrieve(k=1)("film Alien").passages == [TEXTS["alien"]]
        first = rm("film Alien", k=2, by="any")[0]
        assert (first.id, first.title, first.score > 0) == ("alien", "Alien (film)", True)
        rm.close()


async def test_a_module_answers_with_its_passages_and_citations(adapter: Any) -> None:
    with pipeline() as qa:
        module = adapter.PolyhopModule(qa)
        found = module(question=QUESTION)
        assert (found.answer, found["support"]) == (ANSWER, "supported")
        assert TEXTS["scott"] in found.passages
        assert found.citations[0]["passage_id"] == "scott"
        assert not hasattr(found, "trace")
        assert (await module.acall(question=QUESTION)).answer == ANSWER
        assert adapter.PolyhopModule(qa, trace=True)(QUESTION).trace["steps"]


def test_without_dspy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dspy", None)
    monkeypatch.delitem(sys.modules, "polyhop.adapters.dspy", raising=False)
    with pytest.raises(ImportError, match="pip install dspy"):
        importlib.import_module("polyhop.adapters.dspy")
