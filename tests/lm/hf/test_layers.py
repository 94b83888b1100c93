"""T5's attention by other steps, against transformers' own: the same numbers, in every case it is used for."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from polyhop.lm.hf.layers import cross_attention, pack, patch_attention

pytestmark = pytest.mark.extra


def tiny(feed: str = "relu", kept: str = "sdpa") -> Any:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=50,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=3,
        num_heads=2,  # inner size 16 beside 32: no size stands for another
        feed_forward_proj=feed,
        decoder_start_token_id=0,
        attn_implementation=kept,
    )
    return transformers.T5ForConditionalGeneration(config).eval()


def logits(model: Any, prompts: list[int], targets: int) -> Any:
    """Of prompts of these lengths, padded to the longest, and as many target tokens."""
    torch = pytest.importorskip("torch")
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 50, (len(prompts), max(prompts)), generator=draw)
    mask = (torch.arange(max(prompts))[None] < torch.tensor(prompts)[:, None]).long()
    inputs = torch.randint(3, 50, (len(prompts), targets), generator=draw)
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=mask, decoder_input_ids=inputs, use_cache=False).logits


@pytest.mark.parametrize("feed", ["relu", "gated-gelu"])
@pytest.mark.parametrize("kept", ["sdpa", "eager"])
@pytest.mark.parametrize("prompts", [[40], [40, 40], [40, 33, 5]], ids=["one", "alike", "padded"])
@pytest.mark.parametrize("targets", [1, 4, 60])
def test_the_same_logits(feed: str, kept: str, prompts: list[int], targets: int) -> None:
    torch = pytest.importorskip("torch")
    plain = tiny(feed, kept)
    ours = deepcopy(plain)
    pack(ours)
    patch_attention(ours)
    torch.testing.assert_close(logits(ours, prompts, targets), logits(plain, prompts, targets), rtol=1e-4, atol=1e-4)


def test_a_prompt_is_projected_only_if_that_costs_less() -> None:
    model = tiny()
    projected: list[int] = []
    for attention in cross_attention(model):
        attention.k.register_forward_hook(lambda layer, inputs, output: projected.append(output.shape[1]))
    patch_attention(model)
    logits(model, [40], 4)
    assert projected == []
    logits(model, [40], 60)
    assert projected == [40, 40, 40]


def test_padding_changes_nothing() -> None:
    torch = pytest.importorskip("torch")
    model = tiny()
    patch_attention(model)
    ids = torch.randint(3, 50, (1, 9), generator=torch.Generator().manual_seed(2))
    padded = torch.cat([ids, torch.zeros(1, 6, dtype=torch.long)], 1)
    mask = (torch.arange(15) < 9).long()[None]
    inputs = torch.tensor([[0, 5, 6]])
    with torch.inference_mode():
        one = model(input_ids=ids, decoder_input_ids=inputs, use_cache=False).logits
        other = model(input_ids=padded, attention_mask=mask, decoder_input_ids=inputs, use_cache=False).logits
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_generation_does_not_change() -> None:
    torch = pytest.importorskip("torch")
    plain = tiny()
    ours = deepcopy(plain)
    pack(ours)
    patch_attention(ours)
    ids = torch.randint(3, 50, (2, 12), generator=torch.Generator().manual_seed(3))
    for beams in (1, 3):
        outputs = [model.generate(input_ids=ids, max_new_tokens=8, num_beams=beams).tolist() for model in (plain, ours)]
        assert outputs[0] == outputs[1]


def test_other_models_are_left_alone() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    before = {name: module.forward for name, module in model.named_modules()}
    patch_attention(model)
    assert {name: module.forward for name, module in model.named_modules()} == before
    assert cross_attention(model) == []
