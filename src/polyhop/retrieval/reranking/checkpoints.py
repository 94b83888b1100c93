"""Rerankers over checkpoints by name: the part of a reranker's name after ``cross-encoder:``."""

from __future__ import annotations

from typing import Any

from polyhop.common.registry import check_options, path_and_options, with_options
from polyhop.errors import SettingError, UsageError
from polyhop.retrieval.checkpoints import Pretrained
from polyhop.retrieval.reranking.cross_encoder import CrossEncoder, OnnxCrossEncoder, TransformersCrossEncoder
from polyhop.retrieval.reranking.yes_no import YesNoReranker, is_qwen3

_OPTIONS = ("first", "max_tokens", "batch_size")
_MACHINE = ("device", "dtype")


def open_cross_encoder(spec: str) -> CrossEncoder:
    """Open ``PATH_OR_NAME[?OPTIONS]`` (transformers) or ``onnx:FOLDER[?OPTIONS]``: ``first``, ``max_tokens``,
    ``batch_size`` and, for transformers, ``device`` and ``dtype``. A causal language model is read as Qwen3-Reranker
    (``yes_no.py``), with the option ``instruct``.

    Raises:
        UsageError: it cannot be opened; the message says why.
    """
    kind, _, rest = spec.partition(":")
    is_onnx = kind == "onnx"
    prefix = "cross-encoder:onnx" if is_onnx else "cross-encoder"
    path, given = path_and_options(prefix, rest if is_onnx else spec, "first=50&max_tokens=256")
    if not path:
        raise SettingError(f"{prefix}: needs a checkpoint, as in {prefix}:models/ms-marco-MiniLM-L6-v2")
    check_options(prefix, given, _OPTIONS if is_onnx else (*_OPTIONS, "instruct", *_MACHINE))
    shown_options = {key: value for key, value in given.items() if key not in ("batch_size", "device")}
    opened = OnnxCrossEncoder(path, **given) if is_onnx else _open_checkpoint(path, given)
    opened.name = with_options(opened.name, shown_options)
    return opened


def _open_checkpoint(path: str, given: dict[str, Any]) -> CrossEncoder:
    machine = {"device": None, "dtype": "float32"} | {key: given.pop(key) for key in _MACHINE if key in given}
    checkpoint = Pretrained(f"cross-encoder:{path}", path, **machine)
    if not getattr(checkpoint.tokenizer, "is_fast", False):
        raise UsageError(f"{checkpoint.name} has no fast tokenizer, which pairs are cut by")
    if is_qwen3(path) or any(kind.endswith("ForCausalLM") for kind in checkpoint.config.architectures or ()):
        return YesNoReranker(checkpoint, **given)
    if "instruct" in given:
        raise SettingError(f"{checkpoint.name}: only Qwen3-Reranker takes instruct; this one is a classifier")
    return TransformersCrossEncoder(checkpoint, **given)
