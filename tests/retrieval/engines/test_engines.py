"""Elasticsearch and OpenSearch over the kit's server of their wire, by their own clients; Qdrant in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from polyhop.errors import UsageError
from polyhop.retrieval import Index
from polyhop.retrieval.bm25 import BM25
from tests.kit.elasticsearch_server import serving
from tests.kit.engine_contract import EngineContract, built, index, load, opened

__all__ = ["built", "index"]

pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


class RanksAsBM25:
    """An engine whose ranking by words is that of our own BM25."""

    def test_words_rank_as_our_bm25(self, address: str, index: Index) -> None:
        load(index, address)
        ours, theirs = BM25(index), opened(address)
        for query in ("film of 1931", "Who directed the films about dark mills?", "Bremen Bremen Bremen film", "kiln"):
            expected, found = ours.search_scored(query, 5), theirs.search_scored(query, 5)
            assert [passage.id for passage, _ in found] == [passage.id for passage, _ in expected]
            ratios = [score / other for (_, score), (_, other) in zip(found, expected, strict=True)]
            assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-5)


class TestElasticsearch(RanksAsBM25, EngineContract):
    @pytest.fixture
    def address(self) -> Iterator[str]:
        pytest.importorskip("elasticsearch")
        with serving("elastic") as server:
            yield f"elastic:{server.url}/wiki"


class TestOpenSearch(RanksAsBM25, EngineContract):
    @pytest.fixture
    def address(self) -> Iterator[str]:
        pytest.importorskip("opensearchpy")
        with serving("opensearch") as server:
            yield f"opensearch:{server.url}/wiki"


class TestQdrant(RanksAsBM25, EngineContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        pytest.importorskip("qdrant_client")
        return f"qdrant:{tmp_path / 'qdrant'}"

    def test_a_search_makes_no_folder(self, address: str) -> None:
        with pytest.raises(UsageError, match="nothing is loaded at"):
            opened(address)
        assert not Path(address.removeprefix("qdrant:")).exists()
