"""The network: a small trained encoder that reads a question over passages, and embeds texts.

One prediction says how relevant the passages are, whether they suffice to answer the question, the kind of the answer,
and the spans that may be it. The network (22 million weights of 8 bits, in ``model`` with its card) was trained by
``training/``. Its outputs are rounded to four decimal places and do not depend on the batch: an input gets the same
output every time.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polyhop.common.batching import batches
from polyhop.errors import DataError
from polyhop.lm.pocket.encoder.inputs import (
    KINDS,
    MAX_PIECES,
    PLACES,
    EncoderInput,
    EncoderOutput,
    InputBuilder,
    SpanPrediction,
    TitledText,
)
from polyhop.lm.pocket.encoder.wordpiece import WordPiece

FOLDER = Path(__file__).parents[1] / "model"
NETWORK, VOCABULARY = "encoder.onnx", "vocab.txt"
WIDTH = 384
_BATCH_PIECES = 1024  # of a batch, padding included; more are no faster, and soon slower
_SPREAD = 1.125  # maximum length of a batch as a multiple of its shortest input
_STEP = 8  # pieces; lengths are padded to a multiple, so that no sum is split differently in a batch than alone
_MAX_SPANS = 8
_MAX_ENDS = 12  # first and last pieces of spans that are combined
_MAX_ANSWER_PIECES = 30
_MAX_EMBEDDED_PIECES = 256

Array = npt.NDArray[np.float32]


class Encoder:
    """The network in memory. Thread-safe: one batch at a time.

    Raises ``DataError`` if ``folder`` does not contain a whole network and its vocabulary.
    """

    def __init__(self, folder: Path = FOLDER, threads: int = 2) -> None:
        import onnxruntime as runtime  # late: most commands never need it

        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = runtime.InferenceSession(str(folder / NETWORK), options, ["CPUExecutionProvider"])
            self.inputs = InputBuilder(WordPiece.read(folder / VOCABULARY))
        except Exception as error:
            raise _broken(folder, error) from error
        self._lock = threading.Lock()

    def build_input(self, question: str, path: Sequence[TitledText], max_pieces: int = MAX_PIECES) -> EncoderInput:
        """Build the input for a question over a path."""
        return self.inputs.build(question, path, max_pieces)

    def predict(self, inputs: Sequence[EncoderInput]) -> list[EncoderOutput]:
        """The outputs of inputs, in their order; inputs of similar length share a batch."""
        outputs: dict[int, EncoderOutput] = {}
        for batch in _batches([input_.ids for input_ in inputs]):
            ids, firsts = [inputs[i].ids for i in batch], [inputs[i].first for i in batch]
            starts, ends, kinds, relevance, sufficiency, _ = self._run(ids, firsts)
            for row, i in enumerate(batch):
                length = len(inputs[i].ids)
                passages = slice(inputs[i].first, length)
                outputs[i] = EncoderOutput(
                    round(float(relevance[row]), PLACES),
                    round(float(sufficiency[row]), PLACES),
                    dict(zip(KINDS, _softmax(kinds[row]), strict=True)),
                    _spans(inputs[i], starts[row, passages], ends[row, passages]),
                )
        return [outputs[i] for i in range(len(inputs))]

    def embed(self, texts: Sequence[str]) -> Array:
        """The vectors of texts, (texts, 384), each of length 1: the mean of a text's pieces."""
        vectors = np.zeros((len(texts), WIDTH), np.float32)
        rows = [self.inputs.text_ids(text, _MAX_EMBEDDED_PIECES) for text in texts]
        for batch in _batches(rows):
            vectors[batch] = self._run([rows[i] for i in batch], [len(rows[i]) for i in batch])[-1]
        return np.round(vectors, PLACES)

    def _run(self, rows: Sequence[list[int]], firsts: Sequence[int]) -> list[Any]:
        length = _padded(max(map(len, rows)))
        ids = np.full((len(rows), length), self.inputs.pieces.padding, np.int64)
        segments, mask = np.zeros_like(ids), np.zeros_like(ids)
        for i, (row, first) in enumerate(zip(rows, firsts, strict=True)):
            ids[i, : len(row)] = row
            segments[i, first : len(row)] = 1
            mask[i, : len(row)] = 1
        with self._lock:
            outputs: list[Any] = self._session.run(None, {"ids": ids, "segments": segments, "mask": mask})
        return outputs


def _batches(rows: Sequence[list[int]]) -> Iterator[list[int]]:
    """The indices of the rows of each batch."""
    return batches(range(len(rows)), lambda i: _padded(len(rows[i])), _BATCH_PIECES, spread=_SPREAD)


def _padded(length: int) -> int:
    return -(-length // _STEP) * _STEP


@lru_cache(maxsize=1)
def encoder() -> Encoder:
    """The encoder that ships with polyhop, opened once."""
    return Encoder()


def fingerprint(folder: Path = FOLDER) -> str:
    """An identifier of the network: the first 16 hex digits of its file's hash. ``DataError`` if the file is
    missing."""
    try:
        with (folder / NETWORK).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise _broken(folder, error) from error


def _broken(folder: Path, error: Exception) -> DataError:
    why = f"{type(error).__name__}: {error}"
    return DataError(f"the network of pocket cannot be opened: install polyhop again ({why})", folder)


def _softmax(logits: Array) -> list[float]:
    odds = np.exp(logits.astype(np.float64) - float(logits.max()))
    return [round(float(probability), PLACES) for probability in odds / odds.sum()]


def _spans(input_: EncoderInput, starts: Array, ends: Array) -> tuple[SpanPrediction, ...]:
    """The most probable spans: each in one title or one text, not too long, and none twice."""
    in_passage = np.array([origin is not None for origin in input_.origins])
    if not in_passage.any():
        return ()
    start_logs, end_logs = (_log_softmax(np.where(in_passage, x.astype(np.float64), -1e9)) for x in (starts, ends))
    firsts, lasts = (np.argsort(-logs, kind="stable")[:_MAX_ENDS] for logs in (start_logs, end_logs))
    scores: dict[tuple[int, bool, int, int], float] = {}
    for first in firsts.tolist():
        for last in lasts.tolist():
            begin, end = input_.origins[first], input_.origins[last]
            if begin is None or end is None or begin[:2] != end[:2] or not first <= last < first + _MAX_ANSWER_PIECES:
                continue
            span = begin.passage, begin.in_title, begin.start, end.end
            scores[span] = max(float(start_logs[first] + end_logs[last]), scores.get(span, -np.inf))
    best = sorted((-round(score, PLACES), span) for span, score in scores.items())
    return tuple(SpanPrediction(*span, -score) for score, span in best[:_MAX_SPANS])


def _log_softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
