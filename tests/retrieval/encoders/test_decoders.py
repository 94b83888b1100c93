"""Encoders of today over tiny random checkpoints of their architectures, against a plain forward pass of one text and
against sentence-transformers: the last token, end marks, instructions, layers, shorter vectors."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.common.extras import require
from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, SettingError, UsageError
from polyhop.retrieval import build_index, open_retriever
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.encoders.base import shown
from polyhop.retrieval.encoders.local import TransformersEncoder
from polyhop.retrieval.vectors import encodings
from polyhop.types import Passage
from tests.kit import encoders as kit
from tests.kit import tiny_models
from tests.kit.tiny_models import one_torch_thread

__all__ = ["one_torch_thread"]

pytestmark = pytest.mark.extra

DRAW = random.Random(8)
TEXTS = ["river", "Who made the Dark Mill?", *(tiny_models.text(DRAW, count) for count in (1, 9, 20, 200))]
PASSAGES = [Passage(f"p{at}", "Dark Mill" if at % 2 else "", f" {text}\n") for at, text in enumerate(TEXTS)]
INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
END = {"add_eos_token": True, "eos_token": "</s>"}


def states(folder: Path, text: str, start: str, end: str) -> Any:
    """The last states of a text alone, cut to 64 tokens, between its marks."""
    import torch
    import transformers

    words = transformers.AutoTokenizer.from_pretrained(folder)
    marks = [[words.convert_tokens_to_ids(mark)] if mark else [] for mark in (start, end)]
    ids = words(text, add_special_tokens=False)["input_ids"][: 64 - len(marks[0]) - len(marks[1])]
    with torch.no_grad():
        network = transformers.AutoModel.from_pretrained(folder).eval()
        return network(input_ids=torch.tensor([[*marks[0], *ids, *marks[1]]])).last_hidden_state[0].numpy()


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


FORMS: dict[str, tuple[str, str, str, str, int, str]] = {
    # the name: architecture, what its tokenizer adds, the marks that its texts must have, the token pooled, the prefix
    "Qwen3-Embedding-0.6B": ("Qwen3", "$A <|endoftext|>", "", "<|endoftext|>", -1, INSTRUCT),
    "Qwen3-Embedding-4B": ("Qwen3", "$A", "", "<|endoftext|>", -1, INSTRUCT),  # as it was first released
    "e5-mistral-7b-instruct": ("Mistral", "[CLS] $A", "[CLS]", "</s>", -1, f"{INSTRUCT} "),
    "gte-Qwen2-1.5B-instruct": ("Qwen2", "$A", "", "<|endoftext|>", -1, f"{INSTRUCT} "),
    "gte-modernbert-base": ("ModernBert", "[CLS] $A [SEP]", "[CLS]", "[SEP]", 0, ""),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_family_of_today_is_encoded_by_its_recipe(tmp_path: Path, name: str) -> None:
    kind, template, start, end, position, instruction = FORMS[name]
    folder = kit.make_decoder(tmp_path / name, kind, template)
    expected = [unit(states(folder, instruction + text.strip(), start, end)[position]) for text in TEXTS]
    expected += [unit(states(folder, shown(passage), start, end)[position]) for passage in PASSAGES]
    for size in (1, 8):
        encoder = open_encoder(f"{folder}?batch_size={size}")
        made = np.concatenate([encoder.queries(TEXTS), encoder.passages(PASSAGES)])
        assert np.abs(made - np.stack(expected)).max() < 1e-4


def test_embeddinggemma_reads_both_ways_and_has_two_layers(tmp_path: Path) -> None:
    folder = kit.make_decoder(tmp_path / "embeddinggemma-300m", "Gemma3Text", "[CLS] $A [SEP]")
    for name, size, out in (("2_Dense", kit.SIZE, 48), ("3_Dense", 48, kit.SIZE)):
        (folder / name).mkdir()
        kit.add_layer(folder / name, out, bias=False, size=size)
    load = require("safetensors.numpy", "hf", "a test").load_file
    first, second = (load(folder / name / "model.safetensors")["linear.weight"] for name in ("2_Dense", "3_Dense"))

    def plainly(text: str, size: int) -> Any:
        return unit((second @ first @ states(folder, text, "[CLS]", "[SEP]").mean(0))[:size])

    queries = np.stack([plainly(f"task: search result | query: {text.strip()}", 8) for text in TEXTS])
    titles = [f"title: {one.title or 'none'} | text: {one.text.strip()}" for one in PASSAGES]
    passages = np.stack([plainly(text, kit.SIZE) for text in titles])
    assert np.abs(open_encoder(f"{folder}?dim=8").queries(TEXTS) - queries).max() < 1e-4
    assert np.abs(open_encoder(str(folder)).passages(PASSAGES) - passages).max() < 1e-4
    kit.add_layer(folder / "3_Dense", kit.SIZE, bias=False, size=47)
    with pytest.raises(DataError, match="its layers \\(2_Dense, 3_Dense\\) do not fit each other"):
        open_encoder(str(folder))


def peer(folder: Path, texts: Sequence[str], prompt: str, size: int | None = None) -> Any:
    """sentence-transformers' vectors, all texts in one batch."""
    made: Any = pytest.importorskip("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    return made.encode(list(texts), prompt=prompt, normalize_embeddings=size is not None, truncate_dim=size)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("kind", "pooling", "modules", "pool_prefix", "size"),
    [
        ("Qwen3", "lasttoken", ["Normalize"], True, None),
        ("Qwen3", "lasttoken", [], True, 8),
        ("ModernBert", "mean", ["Dense", "Normalize"], True, None),
        ("Mistral", "mean", [], False, None),
        ("ModernBert", "cls", [], False, None),
    ],
)
def test_a_checkpoint_of_no_family_is_encoded_as_its_own_files_say(
    tmp_path: Path, kind: str, pooling: str, modules: list[str], pool_prefix: bool, size: int | None
) -> None:
    folder = kit.make_decoder(tmp_path / "mine", kind, "$A [SEP]")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    kit.write(folder / "tokenizer_config.json", {**config, "padding_side": "left"})
    prompts = {"query": "Instruct: find\nQuery:", "document": ""}
    kit.describe(folder, "Pooling", *modules, pooling=pooling, prompts=prompts, pool_prefix=pool_prefix, max_tokens=40)
    if "Dense" in modules:
        kit.add_layer(folder / "2_Dense", 12, bias=True, activation="activation.Tanh")
    encoder = open_encoder(f"{folder}?normalise=true&dim={size}" if size else str(folder))
    queries = peer(folder, [text.strip() for text in TEXTS], prompts["query"], size)
    assert np.abs(encoder.queries(TEXTS) - queries).max() < 1e-4
    passages = peer(folder, [shown(passage) for passage in PASSAGES], "", size)
    assert np.abs(encoder.passages(PASSAGES) - passages).max() < 1e-4


def test_a_text_ends_in_the_mark_that_the_tokenizers_config_asks_for(tmp_path: Path) -> None:
    folder = kit.describe(kit.make_decoder(tmp_path / "mine", "Mistral", "[CLS] $A"), "Pooling", pooling="lasttoken")
    config = folder / "tokenizer_config.json"
    without = open_encoder(str(folder)).queries(["the mill"])
    assert without[0] == pytest.approx(states(folder, "the mill", "[CLS]", "")[-1], abs=1e-4)
    kit.write(config, {**json.loads(config.read_text()), **END})
    marked = open_encoder(str(folder)).queries(["the mill"])
    assert marked[0] == pytest.approx(states(folder, "the mill", "[CLS]", "</s>")[-1], abs=1e-4)
    named = open_encoder(f"{folder}?end=<|endoftext|>").queries(["the mill"])
    assert named[0] == pytest.approx(states(folder, "the mill", "[CLS]", "<|endoftext|>")[-1], abs=1e-4)
    with pytest.raises(UsageError, match=r"its tokenizer has no token <end>, in which its texts end; name another"):
        open_encoder(f"{folder}?end=<end>")


def test_shorter_vectors_are_stored_apart_and_known_by_their_size(tmp_path: Path) -> None:
    folder = kit.make_decoder(tmp_path / "Qwen3-Embedding-0.6B", "Qwen3", "$A <|endoftext|>")
    index = build_index(open_corpus(PASSAGES), tmp_path / "index")
    whole = open_encoder(str(folder)).passages(PASSAGES)
    for size in (8, 16):
        retriever: Any = open_retriever(f"dense:{folder}?dim={size}", index)
        assert retriever.encoder.size == size
        cut = whole[:, :size] / np.linalg.norm(whole[:, :size], axis=1, keepdims=True)
        assert np.abs(retriever.encoder.passages(PASSAGES) - cut).max() < 1e-5
        assert retriever.search(shown(PASSAGES[5]), 3)
    stored = sorted((made["encoder"], made["size"]) for made in encodings(index))
    assert stored == [(f"dense:{folder}?dim=16", 16), (f"dense:{folder}?dim=8", 8)]
    with pytest.raises(SettingError, match="dim=33: the encoder gives 32 numbers; dim keeps fewer"):
        open_encoder(f"{folder}?dim=33")


def test_a_decoder_that_must_read_both_ways_and_does_not_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kit.make_decoder(tmp_path / "gte-Qwen2-1.5B-instruct", "Qwen2", "$A")
    real = TransformersEncoder._opened

    def older(encoder: TransformersEncoder) -> Any:
        """A network that ignores ``is_causal``, as transformers' did."""
        network = real(encoder)
        network.config.is_causal = True
        return network

    monkeypatch.setattr(TransformersEncoder, "_opened", older)
    with pytest.raises(UsageError, match=r"reads both ways, which transformers .* cannot do with qwen2: upgrade"):
        open_encoder(str(folder))


def test_a_checkpoint_with_code_of_its_own_says_what_works(tmp_path: Path) -> None:
    folder = kit.make(tmp_path / "NV-Embed-v2")
    own = {"auto_map": {"AutoModel": "modeling_nvembed.NVEmbedModel"}}
    config = json.loads((folder / "config.json").read_text())
    kit.write(folder / "config.json", {**config, **own, "model_type": "nvembed"})
    spec = f"{folder}?pooling=mean&normalise=true"
    with pytest.raises(DataError, match="comes with code of its own, which is never run here"):
        open_encoder(spec)
    kit.write(folder / "config.json", {**config, **own, "num_hidden_layers": 3})
    with pytest.raises(UsageError, match=r"(?s)weights, such as .*: it is no encoder.*code of its own"):
        open_encoder(spec)
