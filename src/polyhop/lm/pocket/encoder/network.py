"""The networks: an encoder that reads a question over passages, and one that embeds texts.

One prediction of the first says how relevant the passages are, whether they suffice to answer the question, the kind of
the answer, and the spans that may be it. The second gives a question and the sentence that answers it vectors that are
near each other. Both began as all-MiniLM-L6-v2 and were trained by ``training/``. They (11 million weights of 8 bits
each, and a table of word pieces that they share, in ``model`` with its card) round their outputs to four decimal
places. Every input runs by itself, without padding, and gets the same output every time: batches are no faster on a
CPU.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
ENCODER, EMBEDDER, PIECES, VOCABULARY = "encoder.onnx", "embedder.onnx", "pieces.bin", "vocab.txt"
WIDTH = 384
_MAX_THREADS = 4
_MAX_SPANS = 8
_MAX_ENDS = 12  # first and last pieces of spans that are combined
_MAX_ANSWER_PIECES = 30
_MAX_EMBEDDED_PIECES = 256

Array = npt.NDArray[np.float32]


class _Network:
    """A network in memory. Thread-safe: ``threads`` inputs run side by side, each by itself on one thread.

    Raises ``DataError`` if ``folder`` does not contain a whole network and its vocabulary.
    """

    file: str

    def __init__(self, folder: Path = FOLDER, threads: int = os.cpu_count() or 1) -> None:
        import onnxruntime as runtime  # late: most commands never need it

        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = runtime.InferenceSession(str(folder / self.file), options, ["CPUExecutionProvider"])
            self.inputs = _inputs(folder / VOCABULARY)
        except Exception as error:
            raise _broken(folder, error) from error
        self._threads = ThreadPoolExecutor(min(threads, _MAX_THREADS), thread_name_prefix=self.file)

    def _run(self, **inputs: Sequence[int] | npt.NDArray[np.int64]) -> list[Any]:
        """The outputs of the graph for one input."""
        given = {name: np.array([value], np.int64) for name, value in inputs.items()}
        return [output[0] for output in self._session.run(None, given)]


class Encoder(_Network):
    """The network that reads a question over a path of passages."""

    file = ENCODER

    def build_input(self, question: str, path: Sequence[TitledText], max_pieces: int = MAX_PIECES) -> EncoderInput:
        """Build the input for a question over a path."""
        return self.inputs.build(question, path, max_pieces)

    def predict(self, inputs: Sequence[EncoderInput]) -> list[EncoderOutput]:
        """The outputs of inputs, in their order."""
        return list(self._threads.map(self._predict, inputs))

    def _predict(self, input_: EncoderInput) -> EncoderOutput:
        starts, ends, kinds, relevance, sufficiency = self._outputs(input_)
        first = input_.first
        return EncoderOutput(
            round(float(relevance), PLACES),
            round(float(sufficiency), PLACES),
            round(_answerable(starts, ends, first), PLACES),
            dict(zip(KINDS, _softmax(kinds), strict=True)),
            _spans(input_, starts[first:], ends[first:]),
        )

    def _outputs(self, input_: EncoderInput) -> list[Any]:
        segments = np.arange(len(input_.ids)) >= input_.first
        return self._run(ids=input_.ids, segments=segments.astype(np.int64))


class Embedder(_Network):
    """The network that embeds texts."""

    file = EMBEDDER

    def embed(self, texts: Sequence[str]) -> Array:
        """The vectors of texts, (texts, 384), each of length 1: the mean of a text's pieces."""
        vectors = self._threads.map(self._embed, texts)
        return np.round(np.array(list(vectors), np.float32).reshape(-1, WIDTH), PLACES)

    def _embed(self, text: str) -> Array:
        (vector,) = self._run(ids=self.inputs.text_ids(text, _MAX_EMBEDDED_PIECES))
        return np.asarray(vector, np.float32)


@lru_cache(maxsize=1)
def encoder() -> Encoder:
    """The encoder that ships with polyhop, opened once."""
    return Encoder()


@lru_cache(maxsize=1)
def embedder() -> Embedder:
    """The embedder that ships with polyhop, opened once."""
    return Embedder()


@lru_cache(maxsize=1)
def _inputs(vocabulary: Path) -> InputBuilder:
    """The word pieces of a vocabulary, which both networks read."""
    return InputBuilder(WordPiece.read(vocabulary))


def fingerprint(file: Path = FOLDER / ENCODER) -> str:
    """An identifier of a network: the first 16 hex digits of its file's hash. ``DataError`` if the file is missing."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()[:16]
    except OSError as error:
        raise _broken(file.parent, error) from error


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


def _answerable(starts: Array, ends: Array, first: int) -> float:
    """The log-odds of the best span against no span; 0 without a passage."""
    if first >= len(starts):
        return 0.0
    return float(starts[first:].max() + ends[first:].max() - starts[0] - ends[0])


def _log_softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
