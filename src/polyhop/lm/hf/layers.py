"""Faster layers for scoring: T5's attention, and linear layers on a CPU.

T5 scores a few target tokens after a long prompt, so the same numbers can be computed in fewer steps. The encoder's
layers share one position bias: a batch's mask is added to it once, not again in every layer. In cross-attention the
prompt has far more tokens than the target. With q·(K x) = (Kᵀ q)·x and Σ a (V x) = V (Σ a x), the projections K and V
are applied to the target's tokens instead of the prompt's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

Attended: TypeAlias = "tuple[Any, Any, None]"
"""A layer of attention returns its output, the position bias for the next layer, and no weights."""
CACHE_ARGUMENTS = ("cache", "past_key_values")
"""The argument with the states of earlier tokens: its name since transformers 5.24, and before."""


def cache_argument(forward: Callable[..., Any]) -> str | None:
    """Return the name of the argument with the states of earlier tokens; None if a network takes none."""
    takes = inspect.signature(forward).parameters
    return next((name for name in CACHE_ARGUMENTS if name in takes), None)


def patch_attention(model: Any) -> None:
    """Replace the attention of a T5 model; any other model is left alone."""
    for attention in _self_attention(model):
        attention.forward = partial(_within, attention)
    for attention in cross_attention(model):
        attention.forward = partial(_across, attention, attention.forward)


def cross_attention(model: Any) -> list[Any]:
    """Return the cross-attention of the decoder's layers; none if the model is not a T5."""
    return [block.layer[1].EncDecAttention for block in model.decoder.block] if _is_t5(model) else []


def _self_attention(model: Any) -> list[Any]:
    return [block.layer[0].SelfAttention for block in model.encoder.block] if _is_t5(model) else []


def _is_t5(model: Any) -> bool:
    return bool(model.config.model_type == "t5")


def _within(attention: Any, states: Any, mask: Any = None, position_bias: Any = None, **_: Any) -> Attended:
    """Compute the encoder's attention over ``states``: (batch, tokens, size). ``position_bias`` includes the mask."""
    from torch.nn.functional import scaled_dot_product_attention

    if position_bias is None:
        length = states.shape[1]
        bias = attention.compute_bias(length, length, device=states.device).contiguous()
        position_bias = bias if mask is None else bias + _added(mask, bias.dtype)
    heads = (*states.shape[:2], attention.n_heads, attention.key_value_proj_dim)
    query, key, value = (
        project(states).view(heads).transpose(1, 2) for project in (attention.q, attention.k, attention.v)
    )
    found = scaled_dot_product_attention(query, key, value, attn_mask=position_bias, scale=1.0)
    return attention.o(found.transpose(1, 2).reshape(*states.shape[:2], -1)), position_bias, None


def _across(
    attention: Any,
    plain: Callable[..., Attended],
    states: Any,
    mask: Any = None,
    key_value_states: Any = None,
    position_bias: Any = None,
    **more: Any,
) -> Attended:
    """Compute cross-attention from ``states``, (batch, targets, size), to ``key_value_states``, (batch, tokens, size).

    Generation keeps projected prompts from token to token and uses ``plain``, as do targets too long to gain.
    """
    import torch

    (batch, targets, _), (_, tokens, size) = states.shape, key_value_states.shape
    heads, width = attention.n_heads, attention.key_value_proj_dim
    projected = tokens * heads * width * (size + targets)
    unprojected = targets * heads * size * (width + tokens)
    has_cache = any(more.get(name) is not None for name in CACHE_ARGUMENTS)
    if has_cache or unprojected >= projected:
        return plain(states, mask=mask, key_value_states=key_value_states, position_bias=position_bias, **more)
    keys, values = (layer.weight.view(heads, width, size) for layer in (attention.k, attention.v))
    query = attention.q(states).view(batch * targets, heads, width).transpose(0, 1)
    query = torch.bmm(query, keys).view(heads, batch, targets, size).transpose(0, 1)
    scores = torch.bmm(query.reshape(batch, heads * targets, size), key_value_states.transpose(1, 2))
    if mask is not None:
        scores += _added(mask, scores.dtype)[:, 0, :1]  # alike for every head and target
    found = torch.bmm(scores.softmax(-1), key_value_states).view(batch, heads, targets, size).transpose(0, 1)
    found = torch.bmm(found.reshape(heads, batch * targets, size), values.transpose(1, 2))
    return attention.o(found.transpose(0, 1).reshape(batch, targets, heads * width)), position_bias, None


def _added(mask: Any, dtype: Any) -> Any:
    """Return a mask that is added to scores; a boolean one is True where tokens may be seen."""
    import torch

    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


# --- linear layers on a CPU: weights laid out once for oneDNN's matrix product ----------------------------------------

_KINDS = ("t5", "gpt2", "llama")
"""Model types whose layers use their weights only by calling them: tested."""
_TOKENS = 512
"""A usual batch size, for which the layout is optimal; any size works."""


def pack(model: Any) -> None:
    """Replace the 32-bit linear layers of a model on the CPU by oneDNN's. Results differ only in their last digits.

    Measured for scores by T5-base's shape: 0.6 of the CPU time. The original weights are freed, except those that other
    layers share.
    """
    import torch

    applies = model.config.model_type in _KINDS and model.dtype == torch.float32 and model.device.type == "cpu"
    if not applies or not torch.backends.mkldnn.is_available():
        return
    tied = model.get_input_embeddings().weight
    bare = [
        layer for attention in cross_attention(model) for layer in (attention.k, attention.v)
    ]  # t5.py uses their weights
    feeds = [feed for feed in model.modules() if hasattr(feed, "wi") and isinstance(feed.act, torch.nn.ReLU)]  # T5's
    into_relu = [feed.wi for feed in feeds]
    with torch.no_grad():
        for layer in model.modules():
            if layer in bare:
                continue
            turned = type(layer).__name__ == "Conv1D"  # GPT-2's, a linear layer whose weight lies the other way
            if turned or type(layer) is torch.nn.Linear:
                weight = layer.weight.T.contiguous() if turned else layer.weight
                packed = torch.ops.mkldnn._reorder_linear_weight(weight, _TOKENS)
                then = "relu" if layer in into_relu else "none"
                layer.forward = partial(_product, torch.ops.mkldnn._linear_pointwise, packed, layer.bias, then)
                if layer.weight is not tied:
                    layer.weight.data = layer.weight.new_empty(0)
    for feed in feeds:
        feed.act = torch.nn.Identity()


def _product(linear: Any, weight: Any, bias: Any, then: str, inputs: Any) -> Any:
    return linear(inputs, weight, bias, then, [], "")
