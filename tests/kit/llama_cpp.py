"""llama.cpp's own server in this process, with a tiny random model: what it writes is nonsense, its wire is real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

CHAT = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"
WIDTH, HEADS, LAYERS, HIDDEN = 32, 2, 1, 32
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = ["\u2581", *'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,:[]{}"']
UNKNOWN, CONTROL, NORMAL, BYTE = 2, 3, 1, 6


def write_tiny_model(path: Path) -> None:
    """Write a Llama of one layer with random weights and a tokenizer of bytes and letters, as a GGUF file."""
    import gguf

    tokens = ["<unk>", "<s>", "</s>", *BYTES, *PIECES]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(32_768)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_types([UNKNOWN, CONTROL, CONTROL, *[BYTE] * len(BYTES), *[NORMAL] * len(PIECES)])
    writer.add_token_scores([0.0] * (3 + len(BYTES)) + [-float(rank) for rank in range(len(PIECES))])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT)
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return (random.standard_normal(shape) * 0.3).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    writer.add_tensor("token_embd.weight", weights(len(tokens), WIDTH))
    writer.add_tensor("output.weight", weights(len(tokens), WIDTH))
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", ones)
        for square in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{square}.weight", weights(WIDTH, WIDTH))
        for up in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"blk.{layer}.{up}.weight", weights(HIDDEN, WIDTH))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(WIDTH, HIDDEN))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextmanager
def llama_server(folder: Path) -> Iterator[str]:
    """Run the server; yields its base URL, ``/v1`` included."""
    import xllamacpp

    path = folder / "tiny.gguf"
    write_tiny_model(path)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = 32_768
    parameters.n_parallel = 2
    parameters.cpuparams.n_threads = 1
    parameters.warmup = False
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server
