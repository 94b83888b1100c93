"""An encoder of words for tests without a network, tiny checkpoints of encoders, and a server of embeddings."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from polyhop.common.extras import require
from polyhop.retrieval.encoders.base import Vectors, shown
from polyhop.types import Passage
from tests.kit import loopback
from tests.kit.tiny_models import WORDS

SIZE = 32

ENDS = ("</s>", "<|endoftext|>")
"""Tokens in which the texts of some encoders end."""

DECODERS: dict[str, dict[str, Any]] = {
    "Qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "Qwen2": {"num_key_value_heads": 2, "is_causal": False},
    "Mistral": {"num_key_value_heads": 2, "head_dim": 8},
    "Gemma3Text": {
        "num_key_value_heads": 2,
        "head_dim": 8,
        "use_bidirectional_attention": True,
        "sliding_window": 8,
    },
    "ModernBert": {"local_attention": 8, "initializer_cutoff_factor": 2.0},
}
"""The architectures of today's encoders, and what their configs hold besides the sizes."""


class WordEncoder:
    """An encoder whose vectors count words, each in a dimension given by its hash; it records the texts."""

    def __init__(self, size: int = SIZE, stop_at: str | None = None) -> None:
        self.name, self.key, self.size, self.stop_at = "dense:words", f"words-{size}", size, stop_at
        self.encoded: list[str] = []

    def queries(self, texts: Sequence[str]) -> Vectors:
        return np.array([counted(text, self.size) for text in texts], np.float32)

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        if self.stop_at in {passage.id for passage in passages}:
            raise KeyboardInterrupt
        self.encoded += [passage.id for passage in passages]
        return self.queries([shown(passage) for passage in passages])


def counted(text: str, size: int) -> list[float]:
    """Return the number of words of the text on each dimension."""
    counts = [0.0] * size
    for word in text.lower().split():
        counts[zlib.crc32(word.strip(".,?").encode()) % size] += 1
    return counts


def make(folder: Path, kind: str = "bert", *, seed: int = 0) -> Path:
    """A checkpoint of few random weights: ``bert``, or ``roberta``, whose positions begin at 2."""
    import torch
    import transformers

    words = tokenizer()
    words.save_pretrained(folder)
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "vocab_size": len(words),
        "hidden_size": SIZE,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.5,  # vectors well apart, as a trained checkpoint's are
    }
    if kind == "roberta":
        config: Any = transformers.RobertaConfig(**sizes, pad_token_id=1, type_vocab_size=1)
        transformers.RobertaModel(config).save_pretrained(folder)
    else:
        transformers.BertModel(transformers.BertConfig(**sizes, pad_token_id=1)).save_pretrained(folder)
    return folder


def make_decoder(folder: Path, kind: str, template: str, *, causal_lm: bool = False, positions: int = 64) -> Path:
    """A checkpoint of few random weights of one of ``DECODERS``; the tokenizer puts marks around a text as the
    ``template`` says, such as ``[CLS] $A``."""
    import torch
    import transformers

    words = tokenizer(template)
    words.model_max_length = positions
    if kind == "Qwen3":
        words.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    words.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": SIZE, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    marks = dict.fromkeys(("bos_token_id", "cls_token_id"), 0) | dict.fromkeys(("eos_token_id", "sep_token_id"), 2)
    limits = {"max_position_embeddings": positions, "initializer_range": 0.5, "pad_token_id": 1}
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(words), **sizes, **limits, **marks, **DECODERS[kind])
    auto = transformers.AutoModelForCausalLM if causal_lm else transformers.AutoModel
    auto.from_config(config).save_pretrained(folder)
    return folder


def describe(
    folder: Path,
    *modules: str,
    pooling: str = "mean",
    prompts: dict[str, str] | None = None,
    pool_prefix: bool = True,
    max_tokens: int = 24,
) -> Path:
    """Add sentence-transformers' files to a checkpoint; ``modules`` follow the transformer."""
    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, kind in enumerate(modules, 1):
        path = f"{number}_{kind}"
        (folder / path).mkdir(exist_ok=True)
        listed.append(
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        )
        if kind == "Pooling":
            known = ("cls_token", "mean_tokens", "lasttoken")
            modes = {f"pooling_mode_{mode}": mode.startswith(pooling) for mode in known}
            config = {"word_embedding_dimension": SIZE, **modes, "include_prompt": pool_prefix}
            write(folder / path / "config.json", config)
    write(folder / "modules.json", listed)
    write(folder / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
    write(folder / "config_sentence_transformers.json", {"prompts": prompts or {}, "default_prompt_name": None})
    return folder


def add_layer(folder: Path, out: int, *, bias: bool, size: int = SIZE, activation: str = "linear.Identity") -> None:
    """Put a linear layer of random weights into a checkpoint's folder of a layer."""
    import torch

    torch.manual_seed(7)
    made = {"linear.weight": torch.randn(out, size)} | ({"linear.bias": torch.randn(out)} if bias else {})
    require("safetensors.torch", "hf", "a tiny checkpoint").save_file(made, folder / "model.safetensors")
    sizes = {"in_features": size, "out_features": out, "bias": bias}
    write(folder / "config.json", {**sizes, "activation_function": f"torch.nn.modules.{activation}"})


def write(path: Path, data: Any) -> None:
    """Write JSON."""
    path.write_text(json.dumps(data))


def tokenizer(template: str = "[CLS] $A [SEP]", *, pairs: bool = False) -> Any:
    """A WordPiece of the known words, and of letters for all others; ``pairs``: it joins two texts as BERT's does."""
    import transformers

    tk = require("tokenizers", "hf", "a tiny checkpoint")
    marks = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *ENDS]
    own = tk.Tokenizer(
        tk.models.WordPiece(vocab={word: at for at, word in enumerate([*marks, *_pieces()])}, unk_token="[UNK]")
    )
    own.normalizer = tk.normalizers.BertNormalizer(lowercase=True)
    own.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    own.post_processor = tk.processors.TemplateProcessing(
        single=template,
        pair="[CLS] $A [SEP] $B:1 [SEP]:1" if pairs else "$A $B",
        special_tokens=[(mark, number) for number, mark in enumerate(marks)],
    )
    given = {"cls_token": "[CLS]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=own, mask_token="[MASK]", **given)
    made.model_max_length = 64
    return made


def _pieces() -> list[str]:
    letters = [chr(code) for code in range(33, 127)]
    return list(
        dict.fromkeys([*WORDS, "query", "passage", "yes", "no", *letters, *(f"##{letter}" for letter in letters)])
    )


@contextmanager
def served(answer: Callable[[dict[str, Any]], tuple[int, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server of ``/v1/embeddings``: its base URL, and what it was asked. ``answer`` gives status and JSON."""
    asked: list[dict[str, Any]] = []

    class Handler(loopback.Handler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({**body, "path": self.path, "key": self.headers.get("Authorization")})
            status, data = answer(body)
            raw = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    with loopback.answering(Handler) as address:
        yield f"{address}/v1", asked


def embeddings(body: dict[str, Any], size: int = SIZE) -> tuple[int, Any]:
    """A right answer: the counted words of each text, the last text first."""
    rows = [{"index": at, "embedding": counted(text, size)} for at, text in enumerate(body["input"])]
    return 200, {"object": "list", "data": rows[::-1], "usage": {"total_tokens": 1}}
