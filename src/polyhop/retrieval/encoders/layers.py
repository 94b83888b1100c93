"""The linear layer that some checkpoints of sentence-transformers, GTR's among them, have behind the pooling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson

from polyhop.errors import DataError, UsageError
from polyhop.retrieval.encoders.base import Layer
from polyhop.retrieval.encoders.stored import read_tensors

CONVERT = """\
import torch; from safetensors.torch import save_file
save_file(torch.load("pytorch_model.bin", "cpu", weights_only=True), "model.safetensors")"""


def read_layer(name: str, file: Callable[[str], Path | None], folder: str) -> Layer:
    """The layer in a checkpoint's ``folder``; ``file`` gives its files by their path, None for one it lacks.

    Raises:
        DataError: its weights are not there or damaged.
        UsageError: it is more than a linear layer.
    """
    weights, config = file(f"{folder}/model.safetensors"), file(f"{folder}/config.json")
    if weights is None:
        raise DataError(
            f"{name}: {folder}/model.safetensors is missing. A pytorch_model.bin there is a pickle, which can run code "
            f"and is never read; if you trust it, convert it in Python:\n{CONVERT}"
        )
    try:
        settings = orjson.loads(config.read_bytes()) if config else {}
        activation = str(settings.get("activation_function", "Identity")).rpartition(".")[2]
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise DataError(f"{name}: {folder}/config.json is damaged: {error}") from error
    if activation != "Identity":
        raise UsageError(f"{name}: the layer in {folder} ends in {activation}; known here is a linear one alone")
    tensors = {key: np.asarray(value, np.float32) for key, value in read_tensors(weights).items()}
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias")
    if weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise DataError("holds no linear.weight with its linear.bias", weights)
    return Layer(weight, bias)
