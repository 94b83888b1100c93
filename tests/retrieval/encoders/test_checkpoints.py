"""Encoders over checkpoints of random weights, against sentence-transformers and one text at a time."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.common.extras import require
from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, MissingExtra, SettingError, UnknownName, UsageError
from polyhop.retrieval import build_index, checkpoints, open_retriever
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.encoders.base import Pooled, shown
from polyhop.types import Passage
from tests.kit import encoders as kit
from tests.kit import tiny_models
from tests.kit.tiny_models import one_torch_thread

__all__ = ["one_torch_thread"]

pytestmark = pytest.mark.extra

DRAW = random.Random(4)
TEXTS = ["river", "Who made the Dark Mill?", *(tiny_models.text(DRAW, count) for count in (1, 3, 9, 20, 60, 200))]
PASSAGES = [Passage(f"p{at}", "Dark Mill" if at % 2 else "", f" {text}\n") for at, text in enumerate(TEXTS)]
PROMPTS = {"query": "query: ", "document": "passage: "}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kit.make(tmp_path_factory.mktemp("bert") / "plain")


@pytest.fixture
def copied(bert: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bert, tmp_path / "mine"))


def peer(folder: Path, texts: Sequence[str], prompt: str) -> Any:
    """sentence-transformers' vectors, one text at a time."""
    model = pytest.importorskip("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    return np.concatenate([model.encode([text], prompt=prompt, show_progress_bar=False) for text in texts])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("modules", [["Pooling"], ["Pooling", "Normalize"]], ids=["as it is", "normalised"])
def test_vectors_are_those_of_sentence_transformers(copied: Path, pooling: str, modules: list[str]) -> None:
    kit.describe(copied, *modules, pooling=pooling, prompts=PROMPTS)
    encoder = open_encoder(f"{copied}?batch_size=3")
    assert encoder.size == kit.SIZE
    queries = peer(copied, [text.strip() for text in TEXTS], "query: ")
    assert np.abs(encoder.queries(TEXTS) - queries).max() < 1e-4
    passages = peer(copied, [shown(passage) for passage in PASSAGES], "passage: ")
    assert np.abs(encoder.passages(PASSAGES) - passages).max() < 1e-4


def plainly(folder: Path, text: str, most: int) -> Any:
    """A text's last states, alone."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    kind = transformers.T5EncoderModel if "t5" in folder.name else transformers.AutoModel
    with torch.no_grad():
        ids = tokenizer(text, truncation=True, max_length=most, return_tensors="pt")
        return kind.from_pretrained(folder).eval()(**ids).last_hidden_state[0].numpy()


@pytest.mark.parametrize(
    ("name", "kind", "mean", "unit", "query", "passage"),
    [
        ("contriever", "bert", True, False, "", ""),
        ("e5-base-v2", "bert", True, True, "query: ", "passage: "),
        ("multilingual-e5-small", "roberta", True, True, "query: ", "passage: "),
        ("bge-small-en", "bert", False, True, "Represent this sentence for searching relevant passages: ", ""),
        ("all-MiniLM-L6-v2", "bert", True, True, "", ""),
    ],
)
def test_a_family_is_encoded_by_its_recipe(
    tmp_path: Path, name: str, kind: str, mean: bool, unit: bool, query: str, passage: str
) -> None:
    folder = kit.make(tmp_path / name, kind)
    encoder = open_encoder(str(folder))
    most = 62 if kind == "roberta" else 64
    asked = [query + text.strip() for text in TEXTS]
    texts = [passage + shown(one) for one in PASSAGES]
    made = np.concatenate([encoder.queries(TEXTS), encoder.passages(PASSAGES)])
    for vector, text in zip(made, [*asked, *texts], strict=True):
        states = plainly(folder, text, most)
        expected = states.mean(0) if mean else states[0]
        assert np.abs(vector - (expected / np.linalg.norm(expected) if unit else expected)).max() < 1e-4


@pytest.mark.parametrize("bias", [True, False])
def test_gtr_is_t5s_encoder_with_a_layer(tmp_path: Path, bias: bool) -> None:
    folder = tiny_models.make(tmp_path / "gtr-t5-base", "t5")
    with pytest.raises(DataError, match=r"2_Dense/model\.safetensors is missing"):
        open_encoder(str(folder))
    (folder / "2_Dense").mkdir()
    kit.add_layer(folder / "2_Dense", 12, bias=bias)
    encoder = open_encoder(str(folder))
    tensors = require("safetensors.numpy", "hf", "a test").load_file(folder / "2_Dense" / "model.safetensors")
    for vector, text in zip(encoder.queries(TEXTS), TEXTS, strict=True):
        expected = tensors["linear.weight"] @ plainly(folder, text.strip(), 512).mean(0) + tensors.get("linear.bias", 0)
        assert np.abs(vector - expected / np.linalg.norm(expected)).max() < 1e-4
    assert encoder.size == 12
    kit.write(folder / "2_Dense" / "config.json", {"activation_function": "torch.nn.modules.activation.GELU"})
    with pytest.raises(UsageError, match="the layer in 2_Dense ends in GELU"):
        open_encoder(str(folder))
    kit.write(folder / "2_Dense" / "config.json", {"use_residual": True})
    with pytest.raises(UsageError, match="the layer in 2_Dense ends in a residual"):
        open_encoder(str(folder))
    kit.add_layer(folder / "2_Dense", 12, bias=bias, size=5)
    with pytest.raises(DataError, match="its first layer does not fit the network's 32 numbers"):
        open_encoder(str(folder))


def test_a_corpus_is_searched_by_a_checkpoint(copied: Path, tmp_path: Path) -> None:
    kit.describe(copied, "Pooling", "Normalize")
    index = build_index(open_corpus(PASSAGES), tmp_path / "index")
    retriever: Any = open_retriever(f"hybrid:bm25*0.01+dense:{copied}", index)
    found = [retriever.search(shown(passage), 1)[0] for passage in PASSAGES]
    assert found == PASSAGES
    assert retriever.encoder.name == f"dense:{copied}"


def test_the_key_changes_with_what_changes_a_passages_vector(copied: Path, tmp_path: Path) -> None:
    kit.describe(copied, "Pooling", prompts=PROMPTS)
    key = open_encoder(str(copied)).key
    same = shutil.copytree(copied, tmp_path / "moved")
    assert open_encoder(str(same)).key == open_encoder(f"{copied}?query=other&batch_size=1").key == key
    for option in ("pooling=cls", "normalise=true", "passage=other", "max_tokens=9", "dtype=bfloat16"):
        other = open_encoder(f"{copied}?{option}")
        assert (other.key != key, other.name) == (True, f"dense:{copied}?{option}")
    kit.make(copied, seed=1)
    assert open_encoder(str(copied)).key != key


def test_half_precision_is_near(copied: Path) -> None:
    kit.describe(copied, "Pooling", "Normalize")
    cosines = (open_encoder(f"{copied}?dtype=bfloat16").queries(TEXTS) * open_encoder(str(copied)).queries(TEXTS)).sum(
        1
    )
    assert cosines.min() > 0.99


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("dtype=int8", SettingError),
        ("batch_size=0", SettingError),
        ("pooling=max", SettingError),
        ("pool=cls", UnknownName),
        ("pooling", SettingError),
    ],
)
def test_options_that_cannot_be_are_refused(copied: Path, option: str, error: type[Exception]) -> None:
    kit.describe(copied, "Pooling")
    with pytest.raises(error):
        open_encoder(f"{copied}?{option}")


def test_checkpoints_that_cannot_be_opened_are_errors(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its recipe is unknown"):
        open_encoder(str(copied))
    given = f"{copied}?pooling=mean&normalise=true"
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(DataError, match="cannot be opened"):
        open_encoder(given)
    weights.unlink()
    (copied / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(DataError, match=r"pytorch_model\.bin is a pickle, never read here"):
        open_encoder(given)
    with pytest.raises(DataError, match="no such folder"):
        open_encoder(f"{tmp_path}/no/where?pooling=mean&normalise=true")
    with pytest.raises(DataError, match="no such folder"):
        open_encoder("/nowhere?pooling=mean&normalise=true")
    decoder = tiny_models.make(tmp_path / "t5", "t5")
    (decoder / "model.safetensors").write_bytes((kit.make(tmp_path / "b") / "model.safetensors").read_bytes())
    with pytest.raises(UsageError, match=r"weights, such as .*: it is no encoder"):
        open_encoder(f"{decoder}?pooling=mean&normalise=true")
    unpadded = tiny_models.make(tmp_path / "gpt2", "gpt2")
    with pytest.raises(UsageError, match="its tokenizer has no padding token"):
        open_encoder(f"{unpadded}?pooling=mean&normalise=true")


def test_without_its_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec, extra in (("intfloat/e5-base", "hf"), ("onnx:folder", "onnx")):
        monkeypatch.setattr(checkpoints, "is_installed", lambda extra: False)
        with pytest.raises(MissingExtra, match=rf"pip install 'polyhop\[{extra}\]'"):
            open_encoder(spec)


# --- onnx ---------------------------------------------------------------------------------------------------------


def export(folder: Path, *, free: bool = True) -> Path:
    """Write a checkpoint's graph beside it, of any number of texts and tokens where they are ``free``."""
    import torch
    import transformers

    network = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    class States(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.network(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    given = (torch.ones(2, 5, dtype=torch.long), torch.ones(2, 5, dtype=torch.long))
    names = ["input_ids", "attention_mask"]
    axes = {name: {0: "texts", 1: "tokens"} for name in [*names, "last_hidden_state"]}
    (folder / "onnx").mkdir(exist_ok=True)
    torch.onnx.export(
        States(),
        given,
        str(folder / "onnx" / "model.onnx"),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes=axes if free else None,
        dynamo=False,
    )
    return folder


@pytest.fixture(scope="module")
def exported(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same checkpoint as a graph, and sentence-transformers' files."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    folder = Path(shutil.copytree(bert, tmp_path_factory.mktemp("onnx") / "mine"))
    return export(kit.describe(folder, "Pooling", "Normalize", prompts=PROMPTS))


@pytest.mark.filterwarnings("ignore")
def test_an_exported_checkpoint_makes_the_same_vectors(exported: Path) -> None:
    with_torch, with_onnx = open_encoder(str(exported)), open_encoder(f"onnx:{exported}?batch_size=3")
    assert isinstance(with_onnx, Pooled)
    assert with_onnx.recipe == with_torch.recipe  # type: ignore[attr-defined]
    assert with_onnx.size == with_torch.size
    assert np.abs(with_onnx.queries(TEXTS) - with_torch.queries(TEXTS)).max() < 1e-4
    assert np.abs(with_onnx.passages(PASSAGES) - with_torch.passages(PASSAGES)).max() < 1e-4
    assert open_encoder(f"onnx:{exported}?pooling=cls").key != with_onnx.key


@pytest.mark.filterwarnings("ignore")
def test_graphs_that_cannot_be_opened_are_errors(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs a folder with model\.onnx and tokenizer\.json"):
        open_encoder(f"onnx:{tmp_path}")
    folder = Path(shutil.copytree(exported, tmp_path / "broken"))
    (folder / "onnx" / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(DataError, match="cannot be opened"):
        open_encoder(f"onnx:{folder}")
    with pytest.raises(UsageError, match="cannot be run; was it exported with free axes"):
        open_encoder(f"onnx:{export(folder, free=False)}")
