"""The network: a MiniLM encoder (6 layers, 384 wide) with one head per skill, in torch.

The encoder is BERT's (Devlin et al., 2019) in the size of MiniLM (Wang et al., 2020). It begins with the weights of
all-MiniLM-L6-v2, which embeds a text as the mean of its pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from polyhop.lm.pocket.encoder.inputs import KINDS


@dataclass(frozen=True)
class Shape:
    """The size of the encoder."""

    pieces: int = 30522
    positions: int = 512
    width: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536


class Layer(nn.Module):
    """Attention, then two linear maps with a GELU between; a residual and a norm after each."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)
        self.last_norm = nn.LayerNorm(shape.width, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor, drop: float) -> Tensor:
        """``x`` (batch, length, width); ``mask`` (batch, 1, 1, length), added to the attention's logits."""
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        query, key, value = (part(x).view(split).transpose(1, 2) for part in (self.query, self.key, self.value))
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = self.norm(x + _drop(self.out(seen.transpose(1, 2).reshape(batch, length, width)), drop))
        return self.last_norm(x + _drop(self.down(F.gelu(self.up(x))), drop))


def _drop(x: Tensor, share: float) -> Tensor:
    return F.dropout(x, share) if share else x


class Network(nn.Module):
    """The encoder and its heads.

    ``forward(ids, kinds, mask)``, each (batch, length): pieces, 0 for the question and 1 for passages, 1 where there is
    a piece. It gives ``starts`` and ``ends`` (batch, length), the logits of an answer's first and last piece;
    ``kind`` (batch, 4), the logits of ``KINDS``; ``relevance`` and ``sufficiency`` (batch,), logits.
    """

    def __init__(self, shape: Shape | None = None) -> None:
        super().__init__()
        shape = shape or Shape()
        self.shape = shape
        self.words = nn.Embedding(shape.pieces, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.words.requires_grad_(requires_grad=False)
        self.positions.requires_grad_(requires_grad=False)
        self.segments = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.span = nn.Linear(shape.width, 2)
        self.judge = nn.Linear(shape.width, shape.width)
        self.verdict = nn.Linear(shape.width, len(KINDS) + 2)

    def hidden(self, ids: Tensor, kinds: Tensor, mask: Tensor, drop: float = 0.0) -> Tensor:
        """The last layer's vectors (batch, length, width)."""
        positions = self.positions.weight[: ids.shape[1]]
        x = _drop(self.norm(self.words(ids) + positions + self.segments(kinds)), drop)
        hide = (1.0 - mask.to(x.dtype))[:, None, None, :] * -10000.0
        for layer in self.layers:
            x = layer(x, hide, drop)
        return x

    def forward(self, ids: Tensor, kinds: Tensor, mask: Tensor, drop: float = 0.0) -> tuple[Tensor, ...]:
        """See the class."""
        x = self.hidden(ids, kinds, mask, drop)
        starts, ends = self.span(x).unbind(-1)
        verdict = self.verdict(torch.tanh(self.judge(x[:, 0])))
        return starts, ends, verdict[:, : len(KINDS)], verdict[:, -2], verdict[:, -1]

    def load_base(self, weights: Mapping[str, Tensor]) -> None:
        """Load the encoder of a BERT checkpoint, by its names; the heads do not change."""
        own = self.state_dict()
        for name, theirs in self._names().items():
            own[name].copy_(weights[theirs])

    def _names(self) -> dict[str, str]:
        """Return our parameters' names with those of a BERT checkpoint."""
        names = {
            "words.weight": "embeddings.word_embeddings.weight",
            "positions.weight": "embeddings.position_embeddings.weight",
            "segments.weight": "embeddings.token_type_embeddings.weight",
            "norm.weight": "embeddings.LayerNorm.weight",
            "norm.bias": "embeddings.LayerNorm.bias",
        }
        parts = {
            "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
            "out": "attention.output.dense", "norm": "attention.output.LayerNorm", "up": "intermediate.dense",
            "down": "output.dense", "last_norm": "output.LayerNorm",
        }  # fmt: skip
        for layer in range(self.shape.layers):
            for ours, theirs in parts.items():
                for what in ("weight", "bias"):
                    names[f"layers.{layer}.{ours}.{what}"] = f"encoder.layer.{layer}.{theirs}.{what}"
        return names


def trained(network: Network) -> list[tuple[str, Tensor]]:
    """Return the trained parameters: all except the embeddings of pieces and positions."""
    return [(name, each) for name, each in network.named_parameters() if each.requires_grad]
