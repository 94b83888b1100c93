"""Cross-encoders: a network reads a query and a passage together and scores the pair.

Source: Nogueira and Cho, "Passage Re-ranking with BERT", 2019: a classifier over the pair. A single logit is the score,
as in sentence-transformers' checkpoints (their sigmoid changes no order); of two logits, the second minus the first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.common.batching import index_batches
from polyhop.common.registry import check_at_least
from polyhop.common.text import counted
from polyhop.errors import UsageError
from polyhop.retrieval.checkpoints import Exported, Pretrained, check_finite
from polyhop.retrieval.encoders.base import shown
from polyhop.retrieval.reranking import ScoringReranker
from polyhop.types import Passage

FIRST = 100
"""Default number of hits to rerank."""
MAX_TOKENS = 512


class Pairs(NamedTuple):
    """Queries with passages, padded on the right; each field is (pairs, tokens)."""

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    token_type_ids: NDArray[np.int64]


Row: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""The tokens of a pair, and their types: which of the two texts each belongs to."""


class CrossEncoder(ScoringReranker):
    """A reranker whose network reads the query with each hit, up to ``max_tokens`` together; the longer one is cut.
    Safe across threads: one batch runs at a time, of pairs of similar length.

    A subclass opens a network: it hands a ``tokenizers.Tokenizer`` to ``_ready`` and returns logits from ``_logits``.
    """

    def __init__(self, name: str, *, first: int = FIRST, batch_size: int = 32) -> None:
        check_at_least(1, batch_size=batch_size, first=first)
        self.name, self.first = name, first
        self._batch_size, self._lock = batch_size, Lock()

    @abstractmethod
    def _logits(self, pairs: Pairs) -> NDArray[Any]:
        """Run the network: (pairs, labels)."""

    def scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Score each passage; higher is better.

        Raises:
            UsageError: the network returns values that are not numbers, or more than two per pair.
        """
        with self._lock:
            rows = self._tokenized(query.strip(), [shown(passage) for passage in passages])
            found = np.zeros(len(rows))
            for numbers in index_batches([len(ids) for ids, _ in rows], self._batch_size):
                found[numbers] = self._one_each(self._logits(self._padded([rows[number] for number in numbers])))
        scores: list[float] = found.tolist()
        return scores

    def _tokenized(self, query: str, texts: Sequence[str]) -> list[Row]:
        rows = self._tokenizer.encode_batch([(query, text) for text in texts])
        return [(row.ids, row.type_ids) for row in rows]

    def _ready(self, tokenizer: Any, max_tokens: object) -> None:
        check_at_least(8, max_tokens=max_tokens)
        self._tokenizer, self._pad = tokenizer, (tokenizer.padding or {}).get("pad_id", 0)
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens, strategy="longest_first")

    def _padded(self, rows: Sequence[Row]) -> Pairs:
        shape = len(rows), max(len(ids) for ids, _ in rows)
        ids, mask, types = np.full(shape, self._pad, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for i, (row_ids, row_types) in enumerate(rows):
            length = len(row_ids)
            ids[i, :length], mask[i, :length], types[i, :length] = row_ids, 1, row_types
        return Pairs(ids, mask, types)

    def _one_each(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        logits = np.asarray(logits, np.float64).reshape(len(logits), -1)
        if logits.shape[1] > 2:
            raise UsageError(
                f"{self.name} gives {counted(logits.shape[1], 'logits')} per pair; a reranker gives one or two"
            )
        check_finite(self.name, "scores", logits)
        scores: NDArray[np.float64] = logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)
        return scores


class TransformersCrossEncoder(CrossEncoder):
    """A checkpoint of ``AutoModelForSequenceClassification``."""

    def __init__(self, checkpoint: Pretrained, *, max_tokens: int = MAX_TOKENS, **options: Any) -> None:
        super().__init__(checkpoint.name, **options)
        self._from = checkpoint
        if self._from.config.num_labels > 2:
            raise UsageError(
                f"{self.name} has {counted(self._from.config.num_labels, 'classes')}; a reranker has one or two"
            )
        self._network = self._from.network("AutoModelForSequenceClassification", what="cross-encoder")
        self._fields = [field for field in Pairs._fields if field in self._from.tokenizer.model_input_names]
        self._ready(self._from.tokenizer.backend_tokenizer, max_tokens)
        self._pad = self._from.tokenizer.pad_token_id
        if isinstance(max_tokens, int) and max_tokens > (max_positions := self._from.positions()):
            self._tokenizer.enable_truncation(max_positions, strategy="longest_first")

    def _logits(self, pairs: Pairs) -> NDArray[Any]:
        torch = self._from.torch
        given = {field: torch.from_numpy(getattr(pairs, field)).to(self._from.device) for field in self._fields}
        with torch.inference_mode():
            logits: NDArray[Any] = self._network(**given).logits.float().cpu().numpy()
        return logits


class OnnxCrossEncoder(CrossEncoder):
    """A cross-encoder exported for onnxruntime; ``folder`` is as for ``Exported``, its graph returns ``logits``."""

    def __init__(self, folder: str, *, max_tokens: int = MAX_TOKENS, **options: Any) -> None:
        super().__init__(f"cross-encoder:onnx:{folder}", **options)
        self._network = Exported(self.name, folder, ["logits"])
        self._ready(self._network.tokenizer, max_tokens)

    def _logits(self, pairs: Pairs) -> NDArray[Any]:
        return self._network(pairs._asdict())
