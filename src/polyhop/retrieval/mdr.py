"""MDR: two steps of dense retrieval; the second encodes the question again with each passage found.

Source: Xiong, Li, Iyer, Du, Lewis, Wang, Mehdad, Yih, Riedel, Kiela and Oğuz, "Answering Complex Open-Domain Questions
with Multi-Hop Dense Retrieval", 2021. The score of a path of two passages is the inner product of the question and the
first passage, plus that of the question with the first passage and the second passage, which may be the first again.
Followed: the beam, and 5 hits per search as in the released code. Differs: passages are stored in 16 bits; paths become
a ranking of passages, each at the position of its best path, followed by the other hits of the first step. The released
code's case of a passage without text is left out: an index holds none.

Taken from the released code (github.com/facebookresearch/multihop_dense_retrieval): the names of the weights
(``encoder.*``, ``project.0``, ``project.1``), the lengths in tokens, the pairs, the title in Unicode's NFD form, and
the removal of the question mark.

One example: "Where was the maker of Dark Mill born?" finds *Dark Mill*; the question together with the text of that
page finds the page of its maker, whom the question does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path as FilePath
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.common.batching import index_batches
from polyhop.common.extras import is_installed
from polyhop.common.registry import check_at_least
from polyhop.common.text import counted, normalise_unicode
from polyhop.errors import DataError, MissingExtra, UsageError
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.checkpoints import Dtype, Pretrained, check_finite, digest
from polyhop.retrieval.exact import nearest_passages
from polyhop.retrieval.vectors import PassageEncoder, passage_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

Texts: TypeAlias = Sequence[str] | Sequence[tuple[str, str]]

QUESTION_TOKENS, PAIR_TOKENS, PASSAGE_TOKENS = 70, 350, 300

SHARED, QUESTIONS, PASSAGES = "encoder", "q_encoder", "doc_encoder"
_KEY_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt")
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl")

CONVERT = """\
import torch
from safetensors.torch import save_file

weights = torch.load("{0}", "cpu", weights_only=True)
save_file({{name: weight.clone() for name, weight in weights.items()}}, "{1}.safetensors")"""
"""The Python that a user runs to convert a released file to safetensors."""


class Path(NamedTuple):
    """The passages of a path in the order of the hops, and the sum of their inner products."""

    passages: tuple[Passage, ...]
    score: float


class MDR(OverIndex):
    """MDR over an index. Safe across threads; ties are broken by passage id.

    Opening it encodes the passages that are not encoded yet, and resumes after a stop; with roberta-base, a passage of
    100 words takes a third of a second on one core.

    Args:
        path: the folder of an ``MdrCheckpoint``.
        beam: the number of hits that are followed, and of hits found from each.
        device: as torch names it; None is CUDA if available, else the CPU.
    """

    def __init__(
        self,
        index: Index,
        path: str,
        *,
        beam: int = 5,
        device: str | None = None,
        dtype: Dtype = "float32",
        batch_size: int = 32,
    ) -> None:
        check_at_least(1, beam=beam, batch_size=batch_size)
        self.name, self.beam = f"mdr:{path}", beam
        self._index = index
        checkpoint = MdrCheckpoint(self.name, path, device=device, dtype=dtype, batch_size=batch_size)
        encoder = PassageEncoder(self.name, checkpoint.key, checkpoint.size, checkpoint.passage_encoder)
        self._vectors = passage_vectors(index, encoder)
        self._embed = checkpoint.question_embedder()

    def paths(self, question: str) -> list[Path]:
        """Return the paths of the beam, best first: at most ``beam`` squared; [] for an empty question."""
        return self._searched([asked(question)], self.beam)[0][0] if asked(question) else []

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        """Score a passage by its best path, or by the first step alone if it is on no path."""
        questions = [asked(query) for query in queries]
        found = iter(self._searched([question for question in questions if question], k))
        return [_flattened(*next(found))[:k] if question else [] for question in questions]

    def _searched(self, questions: Sequence[str], k: int) -> list[tuple[list[Path], list[tuple[Passage, float]]]]:
        """Find each question's paths, best first, and at least ``k`` hits of its first step."""
        if not questions:
            return []
        firsts = self._nearest(self._embed(questions), max(k, self.beam))
        followed = [hits[: self.beam] for hits in firsts]
        pairs = [
            (question, first.text.strip())
            for question, hits in zip(questions, followed, strict=True)
            for first, _ in hits
        ]
        seconds = iter(self._nearest(self._embed(pairs), self.beam))
        return [(_paths(hits, seconds), first) for hits, first in zip(followed, firsts, strict=True)]

    def _nearest(self, vectors: NDArray[np.float32], k: int) -> list[list[tuple[Passage, float]]]:
        return nearest_passages(self._index, self._vectors, vectors, k)


def _paths(firsts: Sequence[tuple[Passage, float]], seconds: Iterator[list[tuple[Passage, float]]]) -> list[Path]:
    """Extend each first passage by the hits found from it, which are the next of ``seconds``."""
    paths = [Path((first, second), score + added) for first, score in firsts for second, added in next(seconds)]
    return sorted(paths, key=lambda path: (-path.score, [passage.id for passage in path.passages]))


def _flattened(paths: Sequence[Path], hits: Sequence[tuple[Passage, float]]) -> list[tuple[Passage, float]]:
    """List the passages of the paths in their order, then those of the hits, each once."""
    found: dict[Passage, float] = {}
    for path in paths:
        for passage in path.passages:
            found.setdefault(passage, path.score)
    for passage, score in hits:
        found.setdefault(passage, score)
    return list(found.items())


# --- the checkpoint ---------------------------------------------------------------------------------------------------


class MdrCheckpoint:
    """A checkpoint of MDR: RoBERTa's state of the first token, projected and normalised, is the vector of a text.

    ``path`` is a folder with ``config.json``, the tokenizer of its RoBERTa, and the weights: ``q_encoder.safetensors``
    for questions and ``doc_encoder.safetensors`` for passages, or ``encoder.safetensors`` for both. Safe across
    threads: one batch of texts runs at a time.

    Attributes:
        size: numbers per vector.
        key: a hash of everything that changes the vector of a passage.
    """

    def __init__(self, name: str, path: str, *, device: str | None, dtype: Dtype, batch_size: int) -> None:
        self.name, self._folder = name, FilePath(path).expanduser()
        self._batch_size, self._lock = batch_size, Lock()
        if not is_installed("hf"):
            raise MissingExtra(f"the retriever {name}", "hf")
        if not path or not self._folder.is_dir():
            raise DataError(f"{name}: no such folder; as in mdr:FOLDER, with a checkpoint's weights, config, tokenizer")
        self._questions, self._passages = self._weights()
        self._from = Pretrained(name, path, device=device, dtype=dtype)
        self._check_config()
        self.size: int = self._from.config.hidden_size
        self.key = digest((dtype, PASSAGE_TOKENS), [self._passages, *(self._folder / name for name in _KEY_FILES)])

    def question_embedder(self) -> Callable[[Texts], NDArray[np.float32]]:
        """Open the encoder of questions, cut to 70 tokens, and of pairs of a question and a text, cut to 350."""
        network = self._network(self._questions)

        def embed(texts: Texts) -> NDArray[np.float32]:
            paired = bool(texts) and not isinstance(texts[0], str)
            return self._embed(network, texts, PAIR_TOKENS if paired else QUESTION_TOKENS)

        return embed

    def passage_encoder(self) -> Callable[[Sequence[Passage]], NDArray[np.float32]]:
        """Open the encoder of passages: pairs of title and text, cut to 300 tokens. Its network is freed with it."""
        network = self._network(self._passages)
        return lambda passages: self._embed(network, [_shown(passage) for passage in passages], PASSAGE_TOKENS)

    def _embed(self, network: Any, texts: Texts, max_tokens: int) -> NDArray[np.float32]:
        torch, device = self._from.torch, self._from.device
        with self._lock, torch.inference_mode():
            ids = self._from.tokenizer(list(texts), truncation="longest_first", max_length=max_tokens)["input_ids"]
            vectors = np.zeros((len(ids), self.size), np.float32)
            for numbers in index_batches(list(map(len, ids)), self._batch_size):
                rows = [torch.tensor(ids[number]) for number in numbers]
                pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
                batch = pad(rows, padding_value=self._from.config.pad_token_id).to(device)
                mask = pad([torch.ones_like(row) for row in rows]).to(device)
                states = network["encoder"](input_ids=batch, attention_mask=mask).last_hidden_state
                vectors[numbers] = network["project"](states[:, 0]).float().cpu().numpy()
        check_finite(self.name, "vectors", vectors)
        return vectors

    def _network(self, path: FilePath) -> Any:
        nn, config = self._from.torch.nn, self._from.config
        encoder = self._from.transformers.RobertaModel(config, add_pooling_layer=False)
        project = nn.Sequential(nn.Linear(self.size, self.size), nn.LayerNorm(self.size, eps=config.layer_norm_eps))
        network = nn.ModuleDict({"encoder": encoder, "project": project})
        given, wanted = self._from.weights(path), network.state_dict().keys()
        if lacking := sorted(wanted - given.keys()):
            raise DataError(
                f"it is not an MDR encoder: it lacks {counted(len(lacking), 'weights')}, such as {lacking[0]}", path
            )
        return self._from.filled(network, {key: given[key] for key in wanted}, path)

    def _weights(self) -> tuple[FilePath, FilePath]:
        """Find the files of the weights for questions and for passages."""
        stems = (SHARED, SHARED) if self._exists(SHARED) and not self._exists(QUESTIONS) else (QUESTIONS, PASSAGES)
        for stem in stems:
            if not self._exists(stem):
                raise DataError(f"{self.name}: {stem}.safetensors is missing" + self._advice(stem), self._folder)
        first, second = (self._folder / f"{stem}.safetensors" for stem in stems)
        return first, second

    def _exists(self, stem: str) -> bool:
        return (self._folder / f"{stem}.safetensors").is_file()

    def _advice(self, stem: str) -> str:
        pickles = {path.name for path in self._folder.iterdir() if path.suffix in _PICKLES}
        own = sorted(name for name in pickles if name.startswith(f"{stem}.")) or sorted(pickles)
        if not own:
            return f"; questions and passages need {QUESTIONS} and {PASSAGES}, or {SHARED} for both"
        return (
            f", and {own[0]} is a pickle, which can run code and is never read here. "
            f"If you trust it, convert it in Python:\n{CONVERT.format(own[0], stem)}"
        )

    def _check_config(self) -> None:
        config = self._from.config
        if config.model_type != "roberta":
            raise UsageError(f"{self.name}: its config.json is of {config.model_type}; MDR needs roberta")
        max_tokens = config.max_position_embeddings - config.pad_token_id - 1
        if max_tokens < PAIR_TOKENS:
            raise UsageError(f"{self.name} takes at most {counted(max_tokens, 'tokens')}; MDR reads {PAIR_TOKENS}")


def asked(query: str) -> str:
    """Write a question as MDR was trained on it.

    >>> asked(" Who made it? ")
    'Who made it'
    """
    return query.strip().removesuffix("?")


def _shown(passage: Passage) -> tuple[str, str]:
    return normalise_unicode("NFD", passage.title.strip()), passage.text.strip()
