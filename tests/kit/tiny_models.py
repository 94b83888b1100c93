"""Checkpoints of a few thousand random weights, in the shapes of T5, GPT-2, Llama and OPT, made by the tests."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from polyhop.common.extras import require

WORDS = "who made the film dark mill was by rolf anders in paris a 1931 city river of and born director what is".split()
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SHAPES = ("t5", "gpt2", "llama", "opt")


@pytest.fixture(scope="module", autouse=True)
def one_torch_thread() -> None:
    """Torch on one thread, in every test of a file that imports this; the file is skipped without torch."""
    pytest.importorskip("torch").set_num_threads(1)
    pytest.importorskip("transformers")


def make(folder: Path, shape: str, *, seed: int = 0, positions: int = 512) -> Path:
    """A checkpoint of ``shape`` in ``folder``; the Llama one has a chat template and a start
    mark, the OPT one a start mark."""
    import torch

    tokenizer = {"t5": _pieces, "gpt2": _bytes, "llama": _pieces, "opt": _bytes}[shape](shape)
    torch.manual_seed(seed)
    model = _network(shape, len(tokenizer), positions, tokenizer.eos_token_id)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def text(draw: random.Random, words: int) -> str:
    """Known words, unknown ones, accents, capitals and marks."""
    some = [*WORDS, "Dvořák", "xyzzy", "Mills,", "river.", "?", "東京"]
    return " ".join(draw.choice(some) for _ in range(words))


def plainly(folder: Path, prompt: list[int], target: list[int], temperature: float) -> list[float]:
    """The log-probabilities of a target's tokens: one text at a time, every logit, no cache."""
    import torch

    model = _opened(folder)
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            logits = model(input_ids=torch.tensor([prompt]), labels=torch.tensor([target])).logits[0]
        else:
            logits = model(input_ids=torch.tensor([prompt + target])).logits[0, len(prompt) - 1 : -1]
        values = torch.log_softmax(logits / temperature, -1)
    return [float(values[i, token]) for i, token in enumerate(target)]


@lru_cache(maxsize=8)
def _opened(folder: Path) -> Any:
    import transformers

    pairs = transformers.AutoConfig.from_pretrained(folder).is_encoder_decoder
    auto = transformers.AutoModelForSeq2SeqLM if pairs else transformers.AutoModelForCausalLM
    return auto.from_pretrained(folder).eval()


def _network(shape: str, words: int, positions: int, end: int) -> Any:
    import transformers as hf

    common = {"vocab_size": words, "eos_token_id": end, "pad_token_id": 0}
    if shape == "t5":
        config = hf.T5Config(**common, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
        return hf.T5ForConditionalGeneration(config)
    if shape == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": positions, "bos_token_id": end}
        return hf.GPT2LMHeadModel(hf.GPT2Config(**common, **sizes, initializer_range=0.3))
    if shape == "opt":
        sizes = {"hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 64, "num_hidden_layers": 2}
        limits = {"num_attention_heads": 4, "max_position_embeddings": positions, "bos_token_id": end}
        return hf.OPTForCausalLM(hf.OPTConfig(**common, **sizes, **limits, init_std=0.3))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    limits = {"intermediate_size": 64, "max_position_embeddings": positions, "bos_token_id": 2}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**common, **sizes, **limits, initializer_range=0.3))


def _pieces(shape: str) -> Any:
    """A tokenizer that shows a word's beginning by a mark, as sentencepiece does."""
    import transformers

    tk = require("tokenizers", "hf", "a tiny checkpoint")

    marks = ["<pad>", "</s>", "<s>", "<unk>", "<|user|>", "<|assistant|>", "<|system|>"]
    own = tk.Tokenizer(tk.models.BPE(unk_token="<unk>", byte_fallback=False))
    own.pre_tokenizer = tk.pre_tokenizers.Metaspace()
    own.decoder = tk.decoders.Metaspace()
    trainer = tk.trainers.BpeTrainer(vocab_size=160, special_tokens=marks, show_progress=False)
    own.train_from_iterator([" ".join(WORDS) + " .,?:-'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"] * 3, trainer)
    end, start = own.token_to_id("</s>"), own.token_to_id("<s>")
    single = "$A </s>" if shape == "t5" else "<s> $A"
    own.post_processor = tk.processors.TemplateProcessing(single=single, special_tokens=[("</s>", end), ("<s>", start)])
    given = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    if shape == "llama":
        given |= {"bos_token": "<s>", "chat_template": TEMPLATE}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=own, **given)
    made.add_special_tokens({"additional_special_tokens": marks[4:]})
    return made


def _bytes(shape: str) -> Any:
    """A tokenizer of bytes, as GPT-2's; OPT's begins with the start mark."""
    import transformers

    tk = require("tokenizers", "hf", "a tiny checkpoint")

    own = tk.Tokenizer(tk.models.BPE())
    own.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    own.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    if shape == "opt":
        start = ("<|endoftext|>", own.token_to_id("<|endoftext|>"))
        own.post_processor = tk.processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[start])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>"
    )
