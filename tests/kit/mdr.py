"""A tiny MDR checkpoint of random weights, and a second, plain MDR: one text and one product at a time."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

from polyhop.common.extras import require
from polyhop.types import Passage
from tests.kit.tiny_models import WORDS

SIZE = 32


def make(folder: Path, *, seed: int = 0, shared: bool = False) -> Path:
    """A checkpoint's folder: one encoder for questions and another for passages, or one for both."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=SIZE,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=514,
        type_vocab_size=1,
        initializer_range=0.5,  # vectors well apart, as a trained checkpoint's are
    )
    config.save_pretrained(folder)
    for number, stem in enumerate(["encoder"] if shared else ["q_encoder", "doc_encoder"]):
        save(folder / f"{stem}.safetensors", weights(config, 10 * seed + number))
    return folder


def weights(config: Any, seed: int) -> dict[str, Any]:
    """A state dict by the names of the released ones, with what is in them beside the weights that are used."""
    import torch
    import transformers

    torch.manual_seed(seed)
    encoder = transformers.RobertaModel(config)
    project = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE), torch.nn.LayerNorm(SIZE))
    parts = {"encoder": encoder, "project": project}
    made = {f"{part}.{key}": value for part, network in parts.items() for key, value in network.state_dict().items()}
    return {**made, "encoder.embeddings.position_ids": torch.arange(514)[None]}


def save(path: Path, made: dict[str, Any]) -> None:
    """Write a state dict as safetensors."""
    require("safetensors.torch", "hf", "a tiny checkpoint").save_file({k: v.clone() for k, v in made.items()}, path)


class Plain:
    """MDR as in its paper and released code, without batches, blocks or stored vectors."""

    def __init__(self, folder: Path, passages: list[Passage]) -> None:
        import transformers

        self.passages = passages
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        config = transformers.AutoConfig.from_pretrained(folder)
        shared = (folder / "encoder.safetensors").exists()
        names = ("encoder", "encoder") if shared else ("q_encoder", "doc_encoder")
        self._of_questions, self._of_passages = (_network(config, folder / f"{name}.safetensors") for name in names)

    def passage(self, passage: Passage) -> Any:
        """A passage's vector in 32 bits."""
        title = unicodedata.normalize("NFD", passage.title.strip())
        return self._vector(self._of_passages, 300, title, passage.text.strip())

    def paths(self, question: str, beam: int, matrix: Any) -> list[tuple[list[str], float]]:
        """Ids and score of every path, best first; ``matrix``: the passages' vectors, as kept."""
        question = question.strip().removesuffix("?")
        found = []
        for score, first in self._best(self._vector(self._of_questions, 70, question), matrix, beam):
            again = self._vector(self._of_questions, 350, question, first.text.strip())
            for added, second in self._best(again, matrix, beam):
                found.append(([first.id, second.id], score + added))
        return sorted(found, key=lambda path: (-path[1], path[0]))

    def search(self, question: str, k: int, beam: int, matrix: Any) -> list[str]:
        """Ids of the passages of the paths, then of the first step."""
        found = [id for ids, _ in self.paths(question, beam, matrix) for id in ids]
        vector = self._vector(self._of_questions, 70, question.strip().removesuffix("?"))
        return list(dict.fromkeys([*found, *(passage.id for _, passage in self._best(vector, matrix, k))]))[:k]

    def _best(self, vector: Any, matrix: Any, k: int) -> list[tuple[float, Passage]]:
        scores = [float(np.dot(np.float64(row), np.float64(vector))) for row in matrix]
        order = sorted(range(len(scores)), key=lambda at: (-scores[at], self.passages[at].id))
        return [(scores[at], self.passages[at]) for at in order[:k]]

    def _vector(self, network: Any, most: int, *texts: str) -> Any:
        import torch

        with torch.no_grad():
            ids = self.tokenizer(*([text] for text in texts), truncation=True, max_length=most, return_tensors="pt")
            encoder, project = network
            return project(encoder(**ids).last_hidden_state[0, 0]).numpy()


def _network(config: Any, path: Path) -> Any:
    import torch
    import transformers

    given = require("safetensors.torch", "hf", "a tiny checkpoint").load_file(path)
    encoder = transformers.RobertaModel(config)
    project = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE), torch.nn.LayerNorm(SIZE, eps=config.layer_norm_eps))
    for part, network in (("encoder", encoder), ("project", project)):
        own = {key.removeprefix(f"{part}."): value for key, value in given.items() if key.startswith(f"{part}.")}
        network.load_state_dict(own, strict=False)
    return encoder.eval(), project.eval()


def _tokenizer() -> Any:
    """A tokenizer of bytes with the marks and pairs of RoBERTa's."""
    import transformers

    tk = require("tokenizers", "hf", "a tiny checkpoint")
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    own = tk.Tokenizer(tk.models.BPE())
    own.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=marks,
        initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    own.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    own.post_processor = tk.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    named = {"bos": 0, "cls": 0, "pad": 1, "eos": 2, "sep": 2, "unk": 3, "mask": 4}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=own,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{name}_token": marks[at] for name, at in named.items()},
    )
