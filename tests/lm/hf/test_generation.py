"""Filling gaps: what is asked of the network, how its tokens are told apart, and a tiny random T5 from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import UsageError
from polyhop.lm.hf.generation import SpanFiller
from tests.kit import tiny_models

pytestmark = pytest.mark.extra

TEXT = "made <extra_id_0> film and <extra_id_1> river"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny T5 whose vocabulary has three gaps."""
    pytest.importorskip("torch").set_num_threads(1)
    transformers = pytest.importorskip("transformers")
    folder = tiny_models.make(tmp_path_factory.mktemp("gaps"), "t5")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": [f"<extra_id_{n}>" for n in range(3)]})
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


class Network:
    """Generates the rows it is given, and keeps what it was asked."""

    device = "cpu"

    def __init__(self, *rows: list[int]) -> None:
        self.rows, self.asked = list(rows), list[dict[str, Any]]()

    def generate(self, **asked: Any) -> Any:
        import torch

        self.asked.append(asked)
        given, self.rows = self.rows[: asked["num_return_sequences"]], self.rows[asked["num_return_sequences"] :]
        return torch.tensor(given)


def test_spans_stand_between_the_marks(folder: Path) -> None:
    filler = SpanFiller(str(folder))
    tokens = filler._checkpoint.tokens
    gap = [tokens.vocabulary()[f"<extra_id_{n}>"] for n in range(3)]
    who, made, end = tokens.target("who the")[:-1], tokens.target("was made")[:-1], tokens.target("")[-1]
    rows = [
        [0, gap[0], *who, gap[1], *made, gap[2], end],  # as it was trained to
        [0, *made, gap[0], *who, gap[1], *made, end],  # something before, and no mark at the end
        [0, gap[0], *who, gap[2], *made, gap[1], end],  # a gap left out
        [0, gap[1], *who, gap[0], *made, end],
        [0, *who, end],
    ]
    widest = max(map(len, rows))
    network = filler._model = Network(*[row + [0] * (widest - len(row)) for row in rows])
    assert filler(TEXT, 5) == [["who the", "was made"], ["who the", "was made"], ["who the"], [], []]
    (asked,) = network.asked
    assert asked["do_sample"] is True
    assert asked["top_k"] == 10
    ids = asked["input_ids"][0].tolist()
    assert [number for number in ids if number in gap] == gap[:2]  # marks, not their spelling
    assert ids[-1] == end


def test_a_seed_gives_the_same_number_of_equal_draws(folder: Path) -> None:
    import torch

    filler = SpanFiller(str(folder))
    before = torch.random.get_rng_state()
    drawn = filler(TEXT, 60, 1, top_k=200)  # of all tokens: random weights seldom end a span
    assert torch.equal(before, torch.random.get_rng_state())  # nobody else's draws are touched
    assert len(drawn) == 60
    assert {1, 2} >= {len(spans) for spans in drawn if spans} != set()
    assert filler(TEXT, 60, 1, top_k=200) == drawn != filler(TEXT, 60, 2, top_k=200)


@pytest.mark.parametrize("shape", ["t5", "gpt2"])
def test_a_model_without_gaps_is_refused(tmp_path: Path, shape: str) -> None:
    pytest.importorskip("transformers")
    tiny_models.make(tmp_path, shape)
    with pytest.raises(UsageError, match="fills no gaps: a T5 with <extra_id_0>"):
        SpanFiller(str(tmp_path))
