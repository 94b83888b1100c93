"""Tiny ColBERT checkpoints of random weights, and a second, plain late interaction, token by token."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from math import fsum, sqrt
from pathlib import Path
from typing import Any

from polyhop.common.extras import require
from polyhop.types import Passage
from tests.kit import encoders

SIZE = 16
METADATA = {"query_maxlen": 12, "doc_maxlen": 40, "mask_punctuation": True, "attend_to_mask_tokens": False}


def make(folder: Path, *, seed: int = 0, weights: str = "safetensors", metadata: dict[str, Any] | None = None) -> Path:
    """Write a checkpoint. ``metadata`` is its ``artifact.metadata``: None for ``METADATA``, empty for no such file."""
    import torch
    import transformers

    tokenizer = encoders.tokenizer()
    tokenizer.add_tokens(["[unused0]", "[unused1]"])
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=encoders.SIZE,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.5,  # vectors well apart, as a trained checkpoint's are
        pad_token_id=tokenizer.pad_token_id,
    )
    config.save_pretrained(folder)
    bert = transformers.BertModel(config)
    tensors = {f"bert.{key}": value.clone() for key, value in bert.state_dict().items()}
    tensors["linear.weight"] = torch.randn(SIZE, encoders.SIZE)
    if weights == "safetensors":
        require("safetensors.torch", "hf", "a tiny checkpoint").save_file(tensors, folder / "model.safetensors")
    else:
        torch.save(tensors, folder / "pytorch_model.bin")
    written = METADATA if metadata is None else metadata
    if written:
        (folder / "artifact.metadata").write_text(json.dumps({**written, "root": "experiments", "nbits": 2}))
    return folder


def query(folder: Path, text: str, most: int, *, attend: bool = False) -> list[list[float]]:
    """A query's vectors as the released code makes them: a full stop where the marker goes, padding made [MASK]."""
    import torch

    tokenizer, _ = _opened(folder)
    given = tokenizer(f". {text}", padding="max_length", truncation=True, max_length=most, return_tensors="pt")
    ids, mask = given["input_ids"], given["attention_mask"]
    ids[:, 1] = tokenizer.convert_tokens_to_ids("[unused0]")
    ids[ids == tokenizer.pad_token_id] = tokenizer.mask_token_id
    return _vectors(folder, ids, torch.ones_like(mask) if attend else mask)


def passage(folder: Path, shown: Passage, most: int, *, punctuation: bool = False) -> list[list[float]]:
    """A passage's vectors, without those of marks of ``punctuation`` unless they are kept."""
    tokenizer, _ = _opened(folder)
    text = f"{shown.title} | {shown.text}" if shown.title else shown.text
    given = tokenizer(f". {text}", truncation=True, max_length=most, return_tensors="pt")
    ids = given["input_ids"]
    ids[:, 1] = tokenizer.convert_tokens_to_ids("[unused1]")
    left_out = set() if punctuation else {tokenizer.encode(m, add_special_tokens=False)[0] for m in string.punctuation}
    vectors = _vectors(folder, ids, given["attention_mask"])
    return [vector for vector, token in zip(vectors, ids[0].tolist(), strict=True) if token not in left_out]


def maxsim(asked: Sequence[Sequence[float]], tokens: Sequence[Sequence[float]]) -> float:
    """For each token asked for, its likest tokens one."""
    return fsum(max(_cosine(one, other) for other in tokens) for one in asked)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = fsum(a * b for a, b in zip(one, other, strict=True))
    return product / sqrt(fsum(a * a for a in one)) / sqrt(fsum(b * b for b in other))


def _vectors(folder: Path, ids: Any, mask: Any) -> list[list[float]]:
    import torch

    _, (bert, linear) = _opened(folder)
    with torch.no_grad():
        states = bert(input_ids=ids, attention_mask=mask).last_hidden_state[0] @ linear.T
    made: list[list[float]] = torch.nn.functional.normalize(states, dim=1).tolist()
    return made


def _opened(folder: Path) -> tuple[Any, tuple[Any, Any]]:
    import torch
    import transformers

    if (folder / "model.safetensors").exists():
        tensors = require("safetensors.torch", "hf", "a test").load_file(folder / "model.safetensors")
    else:
        tensors = torch.load(folder / "pytorch_model.bin", weights_only=True)
    bert = transformers.BertModel(transformers.AutoConfig.from_pretrained(folder), add_pooling_layer=False).eval()
    bert.load_state_dict(
        {key.removeprefix("bert."): tensors[key] for key in tensors if key.startswith("bert.")}, strict=False
    )
    return transformers.AutoTokenizer.from_pretrained(folder), (bert, tensors["linear.weight"])
