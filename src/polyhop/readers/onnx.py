"""A SQuAD 2 reader over onnxruntime: small, fast on a CPU, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyhop.common.extras import is_installed, require
from polyhop.errors import DataError, MissingExtra, UsageError
from polyhop.readers.checkpoint import Batch, NoAnswerReader

_FILES = ("model.onnx", "tokenizer.json")


class OnnxReader(NoAnswerReader):
    """Extractive question answering with an exported checkpoint: a folder with ``model.onnx`` and ``tokenizer.json``.

    The graph takes ``input_ids`` and, if it has them as inputs, ``attention_mask`` and ``token_type_ids``; it returns
    ``start_logits`` and ``end_logits``, each ``(windows, tokens)``. Everything else is as in ``SquadReader``.
    ``device``: "cuda" or "cpu"; None is CUDA if this onnxruntime has it. Raises ``MissingExtra`` without onnxruntime
    and tokenizers, ``DataError`` for a folder without its files.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        max_answer_tokens: int = 30,
        max_tokens: int = 384,
        stride: int = 128,
        batch_size: int = 16,
        device: str | None = None,
        threshold: float = 0.5,
    ) -> None:
        super().__init__(
            f"onnx:{folder}",
            max_answer_tokens=max_answer_tokens,
            max_tokens=max_tokens,
            stride=stride,
            batch_size=batch_size,
            threshold=threshold,
        )
        if not is_installed("onnx"):
            raise MissingExtra(f"the reader {self.name}", "onnx")
        self.folder, self.device = Path(folder).expanduser(), device
        if lacking := [name for name in _FILES if not (self.folder / name).is_file()]:
            raise DataError(f"the reader {self.name} needs a folder with {' and '.join(lacking)}", self.folder)
        self._session: Any = None

    def _open(self) -> Any:
        feature = f"the reader {self.name}"
        runtime, tokenizers = require("onnxruntime", "onnx", feature), require("tokenizers", "onnx", feature)
        model, words = (str(self.folder / name) for name in _FILES)
        providers = self._providers(runtime)
        try:
            session = runtime.InferenceSession(model, providers=providers)
            tokenizer = tokenizers.Tokenizer.from_file(words)
        except Exception as error:  # neither library has a family of errors of its own
            raise DataError(f"{feature} cannot be opened: {error}", self.folder) from error
        gives = {output.name for output in session.get_outputs()}
        if not {"start_logits", "end_logits"} <= gives:
            raise UsageError(f"{self.name} gives {', '.join(sorted(gives))}: must give start_logits and end_logits")
        wants = {given.name for given in session.get_inputs()}
        if strange := wants - {"input_ids", "attention_mask", "token_type_ids"}:
            raise UsageError(f"{self.name} wants {', '.join(sorted(strange))}, which no tokenizer gives")
        self._session, self._wants = session, wants
        return tokenizer

    def _providers(self, runtime: Any) -> list[str]:
        has_cuda = "CUDAExecutionProvider" in runtime.get_available_providers()
        if self.device not in (None, "cpu", "cuda") or (self.device == "cuda" and not has_cuda):
            raise UsageError(f"device={self.device!r}: this onnxruntime has cpu{' and cuda' if has_cuda else ' alone'}")
        on_cuda = has_cuda and self.device != "cpu"
        return [*(["CUDAExecutionProvider"] if on_cuda else []), "CPUExecutionProvider"]

    def _score(self, batch: Batch) -> tuple[Any, Any, Any]:
        named = {"input_ids": batch.ids, "attention_mask": batch.mask, "token_type_ids": batch.types}
        start, end = self._session.run(
            ["start_logits", "end_logits"], {name: value for name, value in named.items() if name in self._wants}
        )
        return start, end, None
