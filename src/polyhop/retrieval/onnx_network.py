"""A network exported for onnxruntime, with its tokenizer: a checkpoint without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from polyhop.common.extras import is_installed, require
from polyhop.errors import DataError, MissingExtra, UsageError

_GRAPHS = ("model.onnx", "onnx/model.onnx")
_FIELDS = {"input_ids", "attention_mask", "token_type_ids"}


class Exported:
    """``folder``: with ``tokenizer.json`` and ``model.onnx`` (or ``onnx/model.onnx``, as sentence-transformers' lie).

    The graph takes ``input_ids`` and, where it wants them, ``attention_mask`` and ``token_type_ids``, each (texts,
    tokens); what it gives must be one of ``outputs``, the first that it has counts. ``name``: for messages.

    Raises:
        MissingExtra: onnxruntime or tokenizers are not installed.
        DataError: the folder lacks a file, or it cannot be opened.
        UsageError: the graph takes or gives other things.
    """

    def __init__(self, name: str, folder: str, outputs: Sequence[str]) -> None:
        self.name, self.folder = name, Path(folder).expanduser()
        if not is_installed("onnx"):
            raise MissingExtra(name, "onnx")
        graphs = [path for path in _GRAPHS if (self.folder / path).is_file()]
        if not folder or not graphs or not (self.folder / "tokenizer.json").is_file():
            raise DataError(f"{name} needs a folder with model.onnx and tokenizer.json", self.folder)
        self.files = (self.folder / graphs[0], self.folder / "tokenizer.json")
        runtime, tokenizers = (require(module, "onnx", name) for module in ("onnxruntime", "tokenizers"))
        graph, words = map(str, self.files)
        try:
            self._session = runtime.InferenceSession(graph, providers=runtime.get_available_providers())
            self.tokenizer = tokenizers.Tokenizer.from_file(words)
        except Exception as error:  # neither library has a family of errors of its own
            raise DataError(f"{name} cannot be opened: {error}", self.folder) from error
        self._wants = {given.name for given in self._session.get_inputs()}
        if strange := self._wants - _FIELDS:
            raise UsageError(f"{name} wants {', '.join(sorted(strange))}, which no tokenizer gives")
        gives = [output.name for output in self._session.get_outputs()]
        if not (named := [output for output in outputs if output in gives]):
            raise UsageError(f"{name} gives {', '.join(gives)}: must give {' or '.join(outputs)}")
        self._gives = named[0]

    def __call__(self, given: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Run it on a batch."""
        try:
            (made,) = self._session.run([self._gives], {key: given[key] for key in self._wants})
        except Exception as error:  # onnxruntime has no family of errors
            raise UsageError(f"{self.name} cannot be run; was it exported with free axes? {error}") from error
        result: NDArray[Any] = made
        return result
