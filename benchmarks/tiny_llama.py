"""Make a tiny Llama with random weights in two equivalent forms: a ``transformers`` folder and a gguf file.

    python -m benchmarks.tiny_llama FOLDER

Needs ``polyhop[hf]`` and the ``gguf`` package. ``FOLDER/hf`` is for ``hf:FOLDER/hf``, ``FOLDER/tiny.gguf`` for a
server: ``python -m llama_cpp.server --model FOLDER/tiny.gguf --logits_all true``. The vocabulary is byte-level, so
characters beyond ASCII arrive in pieces. It tests protocols and arithmetic; its replies are noise.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, HEADS, WIDTH, CONTEXT = 2, 4, 64, 2048
TEXT = (
    "Oslo is the capital of Norway. Rome lies in Italy, on the Tiber. Who directed the film whose composer was born "
    "in the town where the river meets the sea? Read the passages and ask the question that they answer. "
)


def main(folder: Path) -> None:
    """Write both forms, the same in every run."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([TEXT], trainer)
    # llama-cpp-python pairs tokens with the right log-probabilities only where a start token goes before them.
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=CONTEXT,
        initializer_range=0.1,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder / "hf")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(
        folder / "hf"
    )
    weights = {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}
    _write_gguf(folder / "tiny.gguf", weights, json.loads(tokenizer.to_str())["model"])


def _write_gguf(path: Path, weights: dict[str, np.ndarray[Any, Any]], words: dict[str, Any]) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    vocabulary = sorted(words["vocab"], key=words["vocab"].__getitem__)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(vocabulary))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(vocabulary) - 2))
    writer.add_token_merges([" ".join(pair) for pair in words["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(True)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    for name, tensor in weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            tensor = _interleaved(tensor)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Reorder queries and keys for llama.cpp, which rotates pairs of neighbours, while transformers rotates halves."""
    rows, columns = weight.shape
    return weight.reshape(HEADS, 2, rows // HEADS // 2, columns).swapaxes(1, 2).reshape(rows, columns)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
