"""Restore: a checkpoint from the exported ONNX file, to train on where its own checkpoint is not at hand.

    python -m training.restore ONNX OUT

Weights of 8 bits become the numbers that they stand for; heads, norms and position embeddings do not change. OUT: a
folder for ``network.pt``, as ``training.train --begin`` reads it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from training.network import Network, Shape, trained

PARTS = {"attended": "out", "raised": "up", "lowered": "down"}
"""Our linear maps by their name in the graph; ``attend`` holds three."""


def tensors_of(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """The tensors of a graph of ``training.export``, by name."""
    return {each.name: numpy_helper.to_array(each) for each in graph.initializer}


def shape_of(graph: onnx.GraphProto) -> Shape:
    """The size of the network in a graph."""
    held = {name: each.shape for name, each in tensors_of(graph).items()}
    attention = [node for node in graph.node if node.op_type == "MultiHeadAttention"]
    (heads,) = (each.i for each in attention[0].attribute if each.name == "num_heads")
    (pieces, width), (positions, _) = held["words.numbers"], held["positions.weight"]
    return Shape(pieces, positions, width, len(attention), heads, held["layers.0.raised.weight"][1])


def weights_of(graph: onnx.GraphProto, shape: Shape) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights in a graph of ``training.export``, by our names."""
    held = tensors_of(graph)
    own = Network(shape).state_dict()
    yield from ((name, torch.from_numpy(value.copy())) for name, value in held.items() if name in own)
    yield "words.weight", torch.from_numpy(held["words.numbers"].astype(np.float32) * held["words.scales"])
    for name in ("span", "judge", "verdict"):
        yield f"{name}.weight", torch.from_numpy(held[f"{name}.map"].T.copy())
    for layer in (f"layers.{number}" for number in range(shape.layers)):
        biases = torch.from_numpy(held[f"{layer}.attend.bias"].copy()).split(shape.width)
        weights = _linear(held, f"{layer}.attend").split(shape.width)
        for part, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            yield f"{layer}.{part}.weight", weight
            yield f"{layer}.{part}.bias", bias
        for theirs, ours in PARTS.items():
            yield f"{layer}.{ours}.weight", _linear(held, f"{layer}.{theirs}")


def _linear(held: dict[str, np.ndarray], name: str) -> Tensor:
    """The weight (out, in) of a linear map: its integers times their steps, without the channels' shares."""
    weight = held[f"{name}.weight"].T.astype(np.float32) * held[f"{name}.steps"][:, None]
    return torch.from_numpy(weight * held[f"{name}.shares"])


def restore(file: Path, out: Path) -> Network:
    """Write the checkpoint of an ONNX file into the folder ``out``; return its network."""
    graph = onnx.load(str(file)).graph
    network = Network(shape_of(graph))
    network.load_state_dict(dict(weights_of(graph, network.shape)))
    out.mkdir(parents=True, exist_ok=True)
    names, masters = zip(*((name, each.detach().clone()) for name, each in trained(network)), strict=True)
    state = {"names": list(names), "masters": list(masters), "network": network.state_dict()}
    torch.save({**state, "shape": asdict(network.shape)}, out / "network.pt")
    return network


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    restore(given.file, given.out)
