"""Restore: a checkpoint from the exported ONNX file, to train on where its own checkpoint is not at hand.

    python -m training.restore ONNX OUT

Weights of 8 bits become the numbers that they stand for; heads, norms and places are what they were. OUT: a folder for
``network.pt``, as ``training.train --begin`` reads it.
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

from training.network import Network, trained

PARTS = {"told": "out", "raised": "up", "lowered": "down"}
"""Our linear maps by their name in the graph; ``attend`` holds three."""


def weights_of(file: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights in an ONNX file of ``training.export``, by our names."""
    held = {each.name: numpy_helper.to_array(each) for each in onnx.load(str(file)).graph.initializer}
    own = Network().state_dict()
    for name, value in held.items():
        if name in own:
            yield name, torch.from_numpy(value.copy())
    yield "words.weight", torch.from_numpy(held["words.numbers"].astype(np.float32) * held["words.scales"])
    for name in ("span", "judge", "verdict"):
        yield f"{name}.weight", torch.from_numpy(held[f"{name}.map"].T.copy())
    for number in range(len(Network().layers)):
        layer = f"layers.{number}"
        for start, part in enumerate(("query", "key", "value")):
            width = held[f"{layer}.attend.weight"].shape[0]
            rows = slice(start * width, (start + 1) * width)
            yield f"{layer}.{part}.weight", _linear(held, f"{layer}.attend")[rows]
            yield f"{layer}.{part}.bias", torch.from_numpy(held[f"{layer}.attend.bias"][rows].copy())
        for theirs, ours in PARTS.items():
            yield f"{layer}.{ours}.weight", _linear(held, f"{layer}.{theirs}")


def _linear(held: dict[str, np.ndarray], name: str) -> Tensor:
    """The weight (out, in) of a linear map: its integers times their steps, without the channels' shares."""
    weight = held[f"{name}.weight"].T.astype(np.float32) * held[f"{name}.steps"][:, None]
    return torch.from_numpy(weight * held[f"{name}.shares"])


def restore(file: Path, out: Path) -> Network:
    """Write the checkpoint of an ONNX file into the folder ``out``; return its network."""
    network = Network()
    network.load_state_dict(dict(weights_of(file)))
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
