"""Encoders by name: the part of a retriever's name after ``dense:``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyhop.common.registry import path_and_options
from polyhop.errors import SettingError

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder


def open_encoder(spec: str) -> Encoder:
    """Open ``pocket``, ``PATH_OR_NAME[?OPTIONS]`` (transformers), ``onnx:FOLDER[?OPTIONS]`` or
    ``openai:MODEL[@URL][?OPTIONS]``.

    Options: ``query``, ``passage``, ``dim``, ``batch_size``; for a checkpoint ``pooling``, ``normalise``,
    ``max_tokens`` and ``end``; for transformers ``dtype`` and ``device``; for a server ``query_task`` and
    ``passage_task``.

    Raises:
        UsageError: it cannot be opened; the message says why.
    """
    kind, _, rest = spec.partition(":")
    if spec == "pocket":
        from polyhop.retrieval.encoders.local import PocketEncoder

        return PocketEncoder()
    if kind == "openai":
        from polyhop.retrieval.encoders.openai import open_served_encoder

        return open_served_encoder(rest)
    if kind == "onnx":
        from polyhop.retrieval.encoders.local import OnnxEncoder

        path, options = path_and_options("dense:onnx", rest)
        return OnnxEncoder(path, **options)
    from polyhop.retrieval.encoders.local import TransformersEncoder

    path, options = path_and_options("dense", spec)
    if not path:
        raise SettingError("dense: needs an encoder, as in dense:intfloat/e5-base-v2")
    return TransformersEncoder(path, **options)
