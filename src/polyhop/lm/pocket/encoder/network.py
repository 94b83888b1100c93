"""The encoder inside: a small trained network that looks at a question over passages, and embeds texts.

One look tells whether the passages bear on the question, whether they are enough to answer it, of what kind the answer
is, and which stretches may be it. The network (22 million weights of 8 bits, in ``model`` with its card) was trained by
``training/``. Everything it says is rounded to four places, and what it says of a row depends on nothing else in the
batch: the same in any company, every time.
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
from polyhop.lm.pocket.encoder.inputs import LENGTH, Layout, Row
from polyhop.lm.pocket.encoder.outputs import KINDS, PLACES, Look, Seen, Told
from polyhop.lm.pocket.encoder.wordpiece import WordPiece

FOLDER = Path(__file__).parents[1] / "model"
NETWORK, VOCABULARY = "encoder.onnx", "vocab.txt"
WIDTH = 384
TOGETHER = 1024  # pieces at a time, those that only fill up among them; more are no faster, and soon slower
_SPREAD = 1.125  # how many times as long as its shortest row a batch may be
_STEP = 8  # pieces; a batch's length is a multiple, so that no sum over it is cut in another way than a lone row's
_MOST_SPANS = 8
_ENDS = 12  # first and last pieces that are tried together
_LONGEST = 30  # pieces of an answer
_EMBEDDED = 256  # pieces of a text that is embedded

Array = npt.NDArray[np.float32]


class Encoder:
    """The network, opened. Safe to use from many threads: one looks at a time.

    Raises ``DataError`` where ``folder`` does not hold a whole network and its vocabulary.
    """

    def __init__(self, folder: Path = FOLDER, threads: int = 2) -> None:
        import onnxruntime as runtime  # which most verbs never need

        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = runtime.InferenceSession(str(folder / NETWORK), options, ["CPUExecutionProvider"])
            self.layout = Layout(WordPiece.read(folder / VOCABULARY))
        except Exception as error:
            raise _broken(folder, error) from error
        self._turn = threading.Lock()

    def looks(self, rows: Sequence[Row]) -> list[Look]:
        """A look at every row, in their order; rows of like length go together."""
        told: dict[int, Look] = {}
        for part in _together([row.ids for row in rows]):
            ids, firsts = [rows[at].ids for at in part], [rows[at].first for at in part]
            starts, ends, kinds, relevance, sufficiency, _ = self._run(ids, firsts)
            for place, at in enumerate(part):
                row = rows[at]
                length = len(row.ids)
                told[at] = Look(
                    round(float(relevance[place]), PLACES),
                    round(float(sufficiency[place]), PLACES),
                    dict(zip(KINDS, _shares(kinds[place]), strict=True)),
                    _spans(row, starts[place, row.first : length], ends[place, row.first : length]),
                )
        return [told[at] for at in range(len(rows))]

    def row(self, question: str, path: Sequence[Told], length: int = LENGTH) -> Row:
        """A question over a path, laid out."""
        return self.layout.row(question, path, length)

    def embed(self, texts: Sequence[str]) -> Array:
        """(texts, 384), each of length 1: the mean of a text's pieces."""
        out = np.zeros((len(texts), WIDTH), np.float32)
        rows = [self.layout.text(text, _EMBEDDED) for text in texts]
        for part in _together(rows):
            out[part] = self._run([rows[at] for at in part], [len(rows[at]) for at in part])[-1]
        return np.round(out, PLACES)

    def _run(self, rows: Sequence[list[int]], firsts: Sequence[int]) -> list[Any]:
        length = _filled(max(map(len, rows)))
        ids = np.full((len(rows), length), self.layout.pieces.padding, np.int64)
        segments, mask = np.zeros_like(ids), np.zeros_like(ids)
        for at, (row, first) in enumerate(zip(rows, firsts, strict=True)):
            ids[at, : len(row)] = row
            segments[at, first : len(row)] = 1
            mask[at, : len(row)] = 1
        with self._turn:
            found: list[Any] = self._session.run(None, {"ids": ids, "segments": segments, "mask": mask})
        return found


def _together(rows: Sequence[list[int]]) -> Iterator[list[int]]:
    """The numbers of the rows that go together."""
    return batches(range(len(rows)), lambda at: _filled(len(rows[at])), TOGETHER, spread=_SPREAD)


def _filled(length: int) -> int:
    return -(-length // _STEP) * _STEP


@lru_cache(maxsize=1)
def encoder() -> Encoder:
    """The encoder that polyhop brings, opened once."""
    return Encoder()


def fingerprint(folder: Path = FOLDER) -> str:
    """What tells one network from another: 16 digits of the hash of its file. ``DataError`` where there is none."""
    try:
        with (folder / NETWORK).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise _broken(folder, error) from error


def _broken(folder: Path, error: Exception) -> DataError:
    why = f"{type(error).__name__}: {error}"
    return DataError(f"the network of pocket cannot be opened: install polyhop again ({why})", folder)


def _shares(logits: Array) -> list[float]:
    odds = np.exp(logits.astype(np.float64) - float(logits.max()))
    return [round(float(each), PLACES) for each in odds / odds.sum()]


def _spans(row: Row, starts: Array, ends: Array) -> tuple[Seen, ...]:
    """The likeliest stretches: of one passage, of its title or its text, not too long, each place once."""
    inside = np.array([place is not None for place in row.places])
    if not inside.any():
        return ()
    begun, ended = (_logs(np.where(inside, each.astype(np.float64), -1e9)) for each in (starts, ends))
    firsts, lasts = (np.argsort(-each, kind="stable")[:_ENDS] for each in (begun, ended))
    found: dict[tuple[int, bool, int, int], float] = {}
    for first in firsts.tolist():
        for last in lasts.tolist():
            begin, end = row.places[first], row.places[last]
            if begin is None or end is None or not first <= last < first + _LONGEST or begin[:2] != end[:2]:
                continue
            place, share = (begin.passage, begin.in_title, begin.start, end.end), float(begun[first] + ended[last])
            found[place] = max(share, found.get(place, -np.inf))
    best = sorted((-round(share, PLACES), place) for place, share in found.items())
    return tuple(Seen(*place, -share) for share, place in best[:_MOST_SPANS])


def _logs(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Log-softmax."""
    top = logits - logits.max()
    return np.asarray(top - np.log(np.exp(top).sum()))
