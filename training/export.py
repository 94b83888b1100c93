"""Export: the trained networks as ONNX files whose weights are 8 bits each.

    python -m training.export ENCODER EMBEDDER EXAMPLES BASE OUT

Writes ``encoder.onnx``, ``embedder.onnx`` and the table that both read, ``pieces.bin``, into the folder OUT. ENCODER
and EMBEDDER: checkpoints of ``training.train`` and ``training.embedder``, neither of which trains the table. BASE: the
folder of all-MiniLM-L6-v2, of which ``vocab.txt`` is read.
The linear maps of the layers work on 8-bit integers on both sides. What comes in has a fixed scale, measured on
training rows; every channel has its own share of that scale, so that the few loud ones do not drown the rest
(SmoothQuant: Xiao et al., 2023, §4). The piece table has a scale per row; heads, norms and position
embeddings stay fp32. Rows of a batch have one length: there is no mask, and attention without one is faster.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from polyhop.lm.pocket.encoder.inputs import KINDS
from polyhop.lm.pocket.encoder.network import EMBEDDER, ENCODER, PIECES
from polyhop.lm.pocket.encoder.wordpiece import WordPiece
from training.data import read
from training.network import Network, Shape
from training.rows import Row, row_of, row_of_text, tensors
from training.train import load_network

SHARES = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9)  # of a channel's loudness that may go over into its weights
CUTS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)  # of the range that may be kept
ROWS = 384  # that the scales are measured on
_MICROSOFT = "com.microsoft"
TABLE = "words.numbers"  # the tensor in ``PIECES``


class Scale(NamedTuple):
    """The rounding of a linear map's input: the step of an integer, times a channel's own share; and the integer
    (0 to 255) that stands for zero."""

    step: float
    zero: int
    channels: np.ndarray


def rounded_pieces(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The table of pieces in 8 bits, and the scale of each row."""
    scales = np.maximum(np.abs(table).max(1, keepdims=True), 1e-8) / 127.0
    return np.rint(table / scales).astype(np.int8), scales


class Graph:
    """A graph under construction."""

    def __init__(self, weights: Mapping[str, np.ndarray], shape: Shape, scales: Mapping[str, Scale]) -> None:
        self.weights, self.shape, self.scales = weights, shape, scales
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._kept: dict[str, str] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add a tensor to the file; return its name."""
        if name not in self._kept:
            self._kept[name] = name
            self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def own(self, name: str) -> str:
        """Add one of the network's tensors unchanged; return its name."""
        return self.constant(name, self.weights[name])

    def node(self, kind: str, inputs: list[str], out: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation; return its output's name."""
        self.nodes.append(helper.make_node(kind, inputs, [out], name=out, domain=domain, **attributes))
        return out

    def split(self, x: list[str], outs: list[str], **attributes: Any) -> None:
        """``x`` cut along its last axis."""
        self.nodes.append(helper.make_node("Split", x, outs, axis=-1, **attributes))

    def linear(self, x: str, weight: np.ndarray, bias: str, out: str) -> str:
        """``x`` times the transpose of ``weight`` (out, in), in integers, plus a bias."""
        scale = self.scales[out]
        weight = weight * scale.channels
        grain = np.maximum(np.abs(weight).max(1), 1e-8) / 127.0
        numbers = np.rint(weight / grain[:, None]).astype(np.int8).T
        shares = self.constant(f"{out}.shares", (1.0 / scale.channels).astype(np.float32))
        step = self.constant(f"{out}.step", np.array(scale.step, np.float32))
        zero = self.constant(f"{out}.zero", np.array(scale.zero, np.uint8))
        # One scale for all channels, after a product: a scale a channel is rounded twenty times as slowly.
        even = self.node("Mul", [x, shares], f"{out}.even")
        rounded = self.node("QuantizeLinear", [even, step, zero], f"{out}.rounded")
        matrix, steps = self.constant(f"{out}.weight", numbers), self.constant(f"{out}.steps", grain.astype(np.float32))
        return self.node("MatMulIntegerToFloat", [rounded, matrix, step, steps, zero, "", bias], out, _MICROSOFT)

    def embedded(self, segments: str) -> str:
        """Add the embeddings of pieces, positions and ``segments``, normalised."""
        numbers, scales = rounded_pieces(self.weights["words.weight"])
        rows = self.node("Gather", [self.constant(TABLE, numbers), "ids"], "words.rows")
        by = self.node("Gather", [self.constant("words.scales", scales.astype(np.float32)), "ids"], "words.by")
        words = self.node("Mul", [self.node("Cast", [rows], "words.cast", to=TensorProto.FLOAT), by], "words.read")
        zero, one, two = self._ints("zero", 0), self._ints("one", 1), self._ints("two", 2)
        length = self.node("Slice", [self.node("Shape", ["ids"], "ids.shape"), *one, *two], "length")
        positions = self.node("Slice", [self.own("positions.weight"), *zero, length, *zero], "positions")
        own = self.node("Gather", [self.own("segments.weight"), segments], "segments.read")
        both = self.node("Add", [self.node("Add", [words, positions], "words.positioned"), own], "words.whole")
        return self.norm(both, "norm", "embedded")

    def norm(self, x: str, name: str, out: str) -> str:
        """Add a layer normalisation."""
        inputs = [x, self.own(f"{name}.weight"), self.own(f"{name}.bias")]
        return self.node("LayerNormalization", inputs, out, axis=-1, epsilon=1e-12)

    def residual(self, x: str, old: str, norm: str, out: str) -> str:
        """``x`` added to what was before, normed: in two operations, which take half the time of the fused one."""
        return self.norm(self.node("Add", [x, old], f"{out}.sum"), norm, out)

    def layer(self, x: str, number: int) -> str:
        """Add one layer of the encoder."""
        own = f"layers.{number}"
        weight = np.concatenate([self.weights[f"{own}.{part}.weight"] for part in ("query", "key", "value")])
        bias = np.concatenate([self.weights[f"{own}.{part}.bias"] for part in ("query", "key", "value")])
        both = self.linear(x, weight, self.constant(f"{own}.attend.bias", bias), f"{own}.attend")
        parts = [f"{own}.{part}" for part in "qkv"]
        self.split([both], parts, num_outputs=3)
        seen = self.node("MultiHeadAttention", parts, f"{own}.seen", _MICROSOFT, num_heads=self.shape.heads)

        def linear(x: str, name: str, out: str) -> str:
            return self.linear(x, self.weights[f"{own}.{name}.weight"], self.own(f"{own}.{name}.bias"), f"{own}.{out}")

        x = self.residual(linear(seen, "out", "attended"), x, f"{own}.norm", f"{own}.between")
        wide = self.node("Gelu", [linear(x, "up", "raised")], f"{own}.wide", _MICROSOFT)
        return self.residual(linear(wide, "down", "lowered"), x, f"{own}.last_norm", f"{own}.done")

    def head(self, x: str, name: str) -> str:
        """Add a linear map in fp32, with its bias."""
        weight = self.constant(f"{name}.map", self.weights[f"{name}.weight"].T)
        return self.node(
            "Add", [self.node("MatMul", [x, weight], f"{name}.raw"), self.own(f"{name}.bias")], f"{name}.both"
        )

    def heads(self, x: str) -> None:
        """Add the heads: spans, kinds and judgements."""
        one, last = self._ints("one", 1), self._ints("last", 2)
        self.split([self.head(x, "span")], ["starts.one", "ends.one"], num_outputs=2)
        self.node("Squeeze", ["starts.one", *last], "starts")
        self.node("Squeeze", ["ends.one", *last], "ends")
        first = self.node("Gather", [x, self.constant("head position", np.array(0, np.int64))], "first", axis=1)
        verdict = self.head(self.node("Tanh", [self.head(first, "judge")], "judge.tanh"), "verdict")
        sizes = self.constant("verdict.sizes", np.array([len(KINDS), 1, 1], np.int64))
        self.split([verdict, sizes], ["kind", "relevance.one", "sufficiency.one"])
        self.node("Squeeze", ["relevance.one", *one], "relevance")
        self.node("Squeeze", ["sufficiency.one", *one], "sufficiency")

    def _ints(self, name: str, *values: int) -> list[str]:
        return [self.constant(f"int.{name}", np.array(values, np.int64))]

    def encoder(self) -> onnx.ModelProto:
        """Build the network that reads: ``ids`` and ``segments`` to the outputs of the heads."""
        self.heads(self.layers(self.embedded("segments")))
        row: list[str | int] = ["batch", "length"]
        shapes: dict[str, list[str | int]] = {
            "starts": row,
            "ends": row,
            "kind": ["batch", len(KINDS)],
            "relevance": row[:1],
            "sufficiency": row[:1],
        }
        return self._model(("ids", "segments"), shapes)

    def embedder(self) -> onnx.ModelProto:
        """Build the network that embeds: ``ids`` to the mean of the pieces' vectors, of length 1."""
        x = self.layers(self.embedded(self.constant("first segment", np.array(0, np.int64))))
        mean = self.node("ReduceMean", [x, *self._ints("one", 1)], "mean", keepdims=0)
        self.node("LpNormalization", [mean], "embedding", axis=-1, p=2)
        return self._model(("ids",), {"embedding": ["batch", self.shape.width]})

    def layers(self, x: str) -> str:
        """Add all layers of the encoder."""
        for number in range(self.shape.layers):
            x = self.layer(x, number)
        return x

    def _model(self, inputs: Sequence[str], outputs: Mapping[str, Sequence[str | int]]) -> onnx.ModelProto:
        """The model, whose table of pieces is in another file."""
        given = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in inputs]
        found = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        for tensor in self.constants:
            if tensor.name == TABLE:
                set_external_data(tensor, PIECES, offset=0, length=len(tensor.raw_data))
                tensor.ClearField("raw_data")
        graph = helper.make_graph(self.nodes, "pocket", given, found, self.constants)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, producer_name="polyhop", ir_version=9)


def measured(network: Network, rows: Sequence[Row], padding: int) -> dict[str, Scale]:
    """Return the scale of every linear map of the layers, by its output's name in the graph."""
    samples: dict[str, list[torch.Tensor]] = {}
    mask = torch.zeros(0)

    def keep(name: str) -> Callable[[object, tuple[torch.Tensor, ...]], None]:
        return lambda _, inputs: samples.setdefault(name, []).append(inputs[0][mask > 0][::4])

    parts = {"query": "attend", "out": "attended", "up": "raised", "down": "lowered"}
    hooks = [
        getattr(layer, ours).register_forward_pre_hook(keep(f"layers.{number}.{theirs}"))
        for number, layer in enumerate(network.layers)
        for ours, theirs in parts.items()
    ]
    with torch.no_grad():
        for start in range(0, len(rows), 16):
            ids, segments, mask = tensors(rows[start : start + 16], padding)
            network(ids, segments, mask)
    for hook in hooks:
        hook.remove()
    found = {}
    for number, layer in enumerate(network.layers):
        weights = {
            "attend": torch.cat([layer.query.weight, layer.key.weight, layer.value.weight]),
            "attended": layer.out.weight, "raised": layer.up.weight, "lowered": layer.down.weight,
        }  # fmt: skip
        for name, weight in weights.items():
            found[f"layers.{number}.{name}"] = _scale(torch.cat(samples[f"layers.{number}.{name}"]), weight.detach())
    return found


def _scale(x: torch.Tensor, weight: torch.Tensor) -> Scale:
    """Find the channels' shares, the step and the zero with the smallest error of the output."""
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:1500]]
    loud, heavy, whole = x.abs().amax(0).clamp(min=1e-5), weight.abs().amax(0).clamp(min=1e-5), x @ weight.T
    best: tuple[float, Scale] | None = None
    for share in SHARES:
        channels = loud**share / heavy ** (1 - share)
        scaled, wide = x / channels, weight * channels
        steps = wide.abs().amax(1, keepdim=True) / 127.0
        kept = ((wide / steps).round() * steps).T
        for cut in CUTS:
            low, high = min(0.0, float(scaled.min())) * cut, max(0.0, float(scaled.max())) * cut
            step = (high - low) / 255.0
            zero = round(-low / step)
            rounded = (((scaled / step).round() + zero).clamp(0, 255) - zero) * step
            lost = float((rounded @ kept - whole).pow(2).mean())
            if best is None or lost < best[0]:
                best = lost, Scale(step, zero, channels.numpy())
    if best is None:
        raise ValueError("no rows to measure on")
    return best[1]


def export(encoder: Path, embedder: Path, examples: Path, base: Path, out: Path) -> None:
    """Write the ONNX files of two checkpoints into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    pieces, chance = WordPiece.read(base / "vocab.txt"), random.Random(0)
    some = [example for example in islice(read(examples), 4 * ROWS) if example.passages]
    rows = [row for example in some if (row := row_of(example, pieces, chance))][:ROWS]
    reads, embeds = load_network(encoder), load_network(embedder)
    table = reads.words.weight.detach()
    embeds.words.weight.copy_(table)  # the same, but for rounding
    (out / PIECES).write_bytes(rounded_pieces(table.numpy())[0].tobytes())
    onnx.save(graph_of(reads, rows, pieces.padding).encoder(), str(out / ENCODER))
    texts = [text for example in some for text in (example.question, *map(" ".join, example.passages))]
    rows = [row_of_text(text, pieces) for text in chance.sample(texts, min(ROWS, len(texts)))]
    onnx.save(graph_of(embeds, rows, pieces.padding).embedder(), str(out / EMBEDDER))
    print(f"{out}: {sum(file.stat().st_size for file in out.iterdir()) / 1e6:.1f} MB")


def graph_of(network: Network, rows: Sequence[Row], padding: int) -> Graph:
    """The graph of a network, with scales measured on rows."""
    scales = measured(network, sorted(rows, key=lambda row: len(row.ids)), padding)
    return Graph({name: each.detach().numpy() for name, each in network.state_dict().items()}, network.shape, scales)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("encoder", "embedder", "examples", "base", "out"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    export(given.encoder, given.embedder, given.examples, given.base, given.out)
