"""Cross-encoders over checkpoints of random weights, against transformers one pair at a time; exported ones too."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.errors import DataError, MissingExtra, SettingError, UnknownName, UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.retrieval import checkpoints, open_reranker, rerankers
from polyhop.retrieval.reranking.cross_encoder import CrossEncoder
from polyhop.types import Passage
from tests.kit import encoders as kit
from tests.kit import tiny_models
from tests.kit.tiny_models import one_torch_thread

__all__ = ["one_torch_thread"]

pytestmark = pytest.mark.extra

DRAW = random.Random(3)
PASSAGES = [
    Passage(f"p{at:02}", "Dark Mill" if at % 3 else "", f" {tiny_models.text(DRAW, DRAW.choice([1, 5, 12, 90]))}\n")
    for at in range(25)
]
QUERIES = ["river", " Who made the Dark Mill? ", tiny_models.text(DRAW, 100)]


def make(folder: Path, labels: int = 1, kind: str = "Bert") -> Path:
    """A checkpoint of few random weights that gives so many logits."""
    import torch
    import transformers

    words = kit.tokenizer(pairs=kind == "Bert")
    words.save_pretrained(folder)
    if kind == "Bert":
        config_file = folder / "tokenizer_config.json"
        given = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
        kit.write(config_file, {**json.loads(config_file.read_text()), **given})
    torch.manual_seed(0)
    sizes = {"hidden_size": kit.SIZE, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    limits: dict[str, Any] = {
        "max_position_embeddings": 64,
        "initializer_range": 0.5,
        "pad_token_id": 1,
        "num_labels": labels,
    }
    if kind == "Roberta":
        limits |= {"type_vocab_size": 1}
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(words), **sizes, **limits)
    getattr(transformers, f"{kind}ForSequenceClassification")(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("cross") / "tiny")


def plainly(folder: Path, query: str, passages: Sequence[Passage], most: int = 64) -> list[float]:
    """The score of each pair, alone."""
    import torch
    import transformers

    words = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    found = []
    for passage in passages:
        text = " ".join(part for part in (passage.title, passage.text.strip()) if part)
        pair = words(query.strip(), text, truncation="longest_first", max_length=most, return_tensors="pt")
        with torch.no_grad():
            logits = network(**pair).logits[0].tolist()
        found.append(logits[0] if len(logits) == 1 else logits[1] - logits[0])
    return found


def opened(spec: str) -> CrossEncoder:
    reranker = open_reranker(f"cross-encoder:{spec}")
    assert isinstance(reranker, CrossEncoder)
    return reranker


@pytest.mark.parametrize(("labels", "kind"), [(1, "Bert"), (2, "Bert"), (1, "Roberta")])
def test_scores_are_those_of_transformers_pair_by_pair(tmp_path: Path, labels: int, kind: str) -> None:
    folder = make(tmp_path / "mine", labels, kind)
    most = 64 if kind == "Bert" else 62  # roberta's positions begin behind the padding's
    for query in QUERIES:
        for option, cut in (("", most), ("&max_tokens=20", 20)):
            scores = opened(f"{folder}?batch_size=4{option}").scores(query, PASSAGES)
            assert scores == pytest.approx(plainly(folder, query, PASSAGES, cut), abs=1e-4)


async def test_passages_are_ranked_the_same_whatever_the_batch(folder: Path) -> None:
    run: Any = None
    scores = plainly(folder, QUERIES[1], PASSAGES)
    best = sorted(PASSAGES, key=lambda passage: (-round(scores[PASSAGES.index(passage)], 4), passage.id))
    for size in (1, 3, 32):
        for order in (PASSAGES, PASSAGES[::-1]):
            ranked = await opened(f"{folder}?batch_size={size}").rerank_by(run, QUERIES[1], order, 25)
            assert list(ranked) == best
    assert list(await opened(str(folder)).rerank_by(run, QUERIES[1], PASSAGES, 4)) == best[:4]
    alike = [Passage(name, "", "the mill") for name in ("c", "a", "b")]
    assert [passage.id for passage in await opened(str(folder)).rerank_by(run, "mill", alike, 3)] == ["a", "b", "c"]
    assert list(await opened(str(folder)).rerank_by(run, "mill", [], 3)) == []


async def test_any_method_has_its_hits_ranked_anew(folder: Path) -> None:
    seen: list[int] = []

    def search(query: str, k: int) -> list[Passage]:
        seen.append(k)
        return PASSAGES[:k]

    spec = f"cross-encoder:{folder}?first=12"
    async with Pipeline(None, "one-r", ScriptedLM({}), retriever=search, rerank=spec) as pipeline:
        found = await asyncio.gather(*(pipeline.engine.search(QUERIES[1], 3) for _ in range(4)))
        assert pipeline.reranker is not None
        assert (pipeline.reranker.name, pipeline.reranker.first) == (spec, 12)
    assert seen == [12] * 4
    scores = plainly(folder, QUERIES[1], PASSAGES[:12])
    best = sorted(range(12), key=lambda i: -scores[i])[:3]
    assert found == [[PASSAGES[i] for i in best]] * 4


# --- exported -----------------------------------------------------------------------------------------------------


def export(folder: Path, output: str = "logits") -> Path:
    import torch
    import transformers

    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager")

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network.eval()

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            given = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
            return self.network(input_ids=input_ids, **given).logits

    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        Logits().eval(),
        tuple(torch.ones((2, 5), dtype=torch.int64) for _ in names),
        str(folder / "model.onnx"),
        input_names=names,
        output_names=[output],
        dynamic_axes={name: {0: "pairs", 1: "tokens"} for name in names} | {output: {0: "pairs"}},
        dynamo=False,
    )
    return folder


@pytest.mark.filterwarnings("ignore")
def test_an_exported_one_gives_the_same(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    copy = export(Path(shutil.copytree(folder, tmp_path / "exported")))
    spec = f"onnx:{copy}?max_tokens=64&batch_size=4"
    reranker = opened(spec)
    assert reranker.name == f"cross-encoder:onnx:{copy}?max_tokens=64"
    for query in QUERIES:
        scores = reranker.scores(query, PASSAGES)
        assert scores == pytest.approx(opened(str(folder)).scores(query, PASSAGES), abs=1e-4)
    with pytest.raises(UsageError, match="cannot be run; was it exported with free axes"):
        opened(f"onnx:{copy}").scores(QUERIES[2], PASSAGES)  # more than its 64 positions
    with pytest.raises(UsageError, match="gives elsewhere: must give logits"):
        opened(f"onnx:{export(copy, 'elsewhere')}")


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_cannot_be_opened_says_why(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cross-encoder:" in rerankers()
    for spec, error, message in [
        ("", SettingError, "needs a checkpoint"),
        (f"{tmp_path}/none", DataError, "no such folder"),
        (f"onnx:{tmp_path}", DataError, r"needs a folder with model\.onnx and tokenizer\.json"),
        (f"{folder}?first=0", SettingError, "first=0: must be at least 1"),
        (f"{folder}?max_tokens=2", SettingError, "max_tokens=2: must be at least 8"),
        (f"{folder}?max_tokens=all", SettingError, "max_tokens=all: must be at least 8"),
        (f"{folder}?batch_size=0", SettingError, "batch_size=0: must be at least 1"),
        (f"{folder}?frist=2", UnknownName, "unknown option of cross-encoder 'frist'; did you mean 'first'"),
        (f"onnx:{folder}?device=cpu", UnknownName, "unknown option of cross-encoder:onnx 'device'"),
        (f"{folder}?instruct=find", SettingError, "only Qwen3-Reranker takes instruct; this one is a classifier"),
        (str(make(tmp_path / "three", labels=3)), UsageError, "has 3 classes; a reranker has one or two"),
        (
            str(kit.make(tmp_path / "bert")),
            UsageError,
            r"lacks 2 weights, such as classifier\.bias: it is no cross-encoder",
        ),
    ]:
        with pytest.raises(error, match=message):
            opened(spec)
    broken = opened(str(folder))
    monkeypatch.setattr(broken, "_logits", lambda pairs: np.full((len(pairs.input_ids), 1), np.nan))
    with pytest.raises(UsageError, match="gives scores that are not numbers"):
        broken.scores("mill", PASSAGES)
    for spec, extra in ((str(folder), "hf"), (f"onnx:{folder}", "onnx")):
        monkeypatch.setattr(checkpoints, "is_installed", lambda extra: False)
        with pytest.raises(MissingExtra, match=rf"pip install 'polyhop\[{extra}\]'"):
            opened(spec)
