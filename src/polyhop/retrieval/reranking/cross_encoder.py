"""Cross-encoders: a network reads a query and a passage together and scores the pair.

Source: Nogueira and Cho, "Passage Re-ranking with BERT", 2019: a classifier over the pair. A single logit is the score,
as in sentence-transformers' checkpoints (their sigmoid changes no order); of two logits, the second minus the first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyhop.common.batching import index_batches
from polyhop.common.registry import check_at_least, check_options, path_and_options, with_options
from polyhop.common.text import counted
from polyhop.errors import SettingError, UsageError
from polyhop.retrieval.checkpoints import Dtype, Exported, Pretrained, check_finite
from polyhop.retrieval.encoders.base import shown
from polyhop.retrieval.reranking import ScoringReranker
from polyhop.types import Passage

FIRST = 100
"""Default number of hits to rerank."""
MAX_TOKENS = 512

_OPTIONS = ("first", "max_tokens", "batch_size")


class Pairs(NamedTuple):
    """Queries with passages, padded on the right; each field is (pairs, tokens)."""

    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.int64]
    token_type_ids: NDArray[np.int64]


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
            rows = self._tokenizer.encode_batch([(query.strip(), shown(passage)) for passage in passages])
            found = np.zeros(len(rows))
            for numbers in index_batches([len(row.ids) for row in rows], self._batch_size):
                found[numbers] = self._one_each(self._logits(self._padded([rows[number] for number in numbers])))
        scores: list[float] = found.tolist()
        return scores

    def _ready(self, tokenizer: Any, max_tokens: object) -> None:
        check_at_least(8, max_tokens=max_tokens)
        self._tokenizer, self._pad = tokenizer, (tokenizer.padding or {}).get("pad_id", 0)
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens, strategy="longest_first")

    def _padded(self, rows: Sequence[Any]) -> Pairs:
        shape = len(rows), max(len(row.ids) for row in rows)
        ids, mask, types = np.full(shape, self._pad, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for i, row in enumerate(rows):
            length = len(row.ids)
            ids[i, :length], mask[i, :length], types[i, :length] = row.ids, 1, row.type_ids
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
    """A checkpoint of ``AutoModelForSequenceClassification``; ``path_or_name``, ``device`` and ``dtype`` are as for
    ``Pretrained``."""

    def __init__(
        self,
        path_or_name: str,
        *,
        max_tokens: int = MAX_TOKENS,
        device: str | None = None,
        dtype: Dtype = "float32",
        **options: Any,
    ) -> None:
        super().__init__(f"cross-encoder:{path_or_name}", **options)
        self._from = Pretrained(self.name, path_or_name, device=device, dtype=dtype)
        if not getattr(self._from.tokenizer, "is_fast", False):
            raise UsageError(f"{self.name} has no fast tokenizer, which pairs are cut by")
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


def open_cross_encoder(spec: str) -> CrossEncoder:
    """Open ``PATH_OR_NAME[?OPTIONS]`` (transformers) or ``onnx:FOLDER[?OPTIONS]``: ``first``, ``max_tokens``,
    ``batch_size`` and, for transformers, ``device`` and ``dtype``.

    Raises:
        UsageError: it cannot be opened; the message says why.
    """
    kind, _, rest = spec.partition(":")
    is_onnx = kind == "onnx"
    prefix = "cross-encoder:onnx" if is_onnx else "cross-encoder"
    path, given = path_and_options(prefix, rest if is_onnx else spec, "first=50&max_tokens=256")
    if not path:
        raise SettingError(f"{prefix}: needs a checkpoint, as in {prefix}:models/ms-marco-MiniLM-L6-v2")
    known = _OPTIONS if is_onnx else (*_OPTIONS, "device", "dtype")
    check_options(prefix, given, known)
    opened: CrossEncoder = OnnxCrossEncoder(path, **given) if is_onnx else TransformersCrossEncoder(path, **given)
    opened.name = with_options(
        opened.name, {key: value for key, value in given.items() if key not in ("batch_size", "device")}
    )
    return opened
