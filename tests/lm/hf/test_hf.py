"""The ``hf:`` backend over tiny random models of three shapes, against a plain reference: one text at a time, every
logit, no cache."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyhop
from polyhop.errors import CapabilityError, DataError, LMError, SettingError, UnknownName, UsageError
from polyhop.lm import LanguageModel, Message, Request, ScoreRequest, TokenScores, open_lm
from polyhop.lm.base import seed_of
from polyhop.lm.hf import TransformersLM
from tests.kit import tiny_models

pytestmark = pytest.mark.extra
Folders = dict[str, Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    pytest.importorskip("torch").set_num_threads(1)
    pytest.importorskip("transformers")
    return {shape: tiny_models.make(tmp_path_factory.mktemp(shape), shape) for shape in tiny_models.SHAPES}


@pytest.fixture(scope="module", params=tiny_models.SHAPES)
def lm(request: pytest.FixtureRequest, folders: Folders) -> Iterator[TransformersLM]:
    """A model of each shape in turn, with small batches so that there are several."""
    model = TransformersLM(str(folders[request.param]), max_batch_tokens=700)
    yield model
    asyncio.run(model.aclose())


def one(prompt: str, target: str, temperature: float = 1.0) -> ScoreRequest:
    return ScoreRequest(task="promptrank.path", prompt=prompt, target=target, temperature=temperature)


def drawn(seed: int, count: int = 40) -> list[ScoreRequest]:
    """The requests of path ranking: one and two of a few passages, several instructions, targets and temperatures."""
    draw = random.Random(seed)
    passages = [tiny_models.text(draw, draw.choice([3, 20, 45])) for _ in range(5)]
    instructions = ["", "Who made it?", "Read the film and say what is born."]
    questions = ["who made the Dark Mill?", "in Paris", "Dvořák 東京 xyzzy", "a", ""]
    asked = []
    for _ in range(count):
        path = "".join(f"Document: {passage} " for passage in draw.sample(passages, draw.choice([1, 2])))
        prompt = f"{path}{draw.choice(instructions)} Question:"
        asked.append(one(prompt, draw.choice(questions), draw.choice([0.5, 1.0, 1.4, 2.0])))
    return asked


def reference(lm: TransformersLM, request: ScoreRequest) -> list[float]:
    prompt, target = list(lm.tokens.prompt(request.prompt)), list(lm.tokens.target(request.target))
    folder = Path(lm.name.removeprefix("hf:"))
    return tiny_models.plainly(folder, prompt, target, request.temperature) if target else []


def furthest(found: Sequence[TokenScores], expected: Sequence[Sequence[float]]) -> float:
    """The largest difference of two lists of scores, which must be of the same lengths."""
    pairs = [zip(one.logprobs, values, strict=True) for one, values in zip(found, expected, strict=True)]
    return max((abs(a - b) for pair in pairs for a, b in pair), default=0.0)


def scored(lm: TransformersLM, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
    return asyncio.run(lm.score(requests))


class Forwards:
    """Counts the network's forward passes and the tokens that go through them."""

    def __init__(self, lm: TransformersLM) -> None:
        scored(lm, [one("a", "b")])  # so that the weights are there
        self.model: Any = lm._running.write.model  # type: ignore[union-attr]
        parts = (
            [self.model.get_encoder(), self.model.get_decoder()] if lm.checkpoint.is_encoder_decoder else [self.model]
        )
        self.calls, self.tokens = 0, 0
        self._hooks = [part.register_forward_pre_hook(self._seen, with_kwargs=True) for part in parts]

    def _seen(self, module: Any, given: Any, named: Any) -> None:
        self.calls += 1
        self.tokens += named["input_ids"].numel()

    def __enter__(self) -> Forwards:
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()


# --- scores ---------------------------------------------------------------------------------------------------------


def test_scores_equal_the_plain_reference(lm: TransformersLM) -> None:
    asked = drawn(1)
    expected = [reference(lm, request) for request in asked]
    for _ in range(2):  # with nothing remembered, then with everything
        assert furthest(scored(lm, asked), expected) < 1e-4
    assert len(lm.state_cache) > 0


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_score_does_not_depend_on_the_batch(lm: TransformersLM, data: st.DataObject) -> None:
    everything = drawn(2, 24)
    alone = [scored(lm, [request])[0] for request in everything] if not _alone.get(lm.name) else _alone[lm.name]
    _alone[lm.name] = alone
    if data.draw(st.booleans()):
        lm.state_cache.clear()
    some = data.draw(st.lists(st.integers(0, len(everything) - 1), min_size=1, max_size=24))
    found = scored(lm, [everything[number] for number in some])
    assert furthest(found, [alone[number].logprobs for number in some]) < 3e-5


_alone: dict[str, list[TokenScores]] = {}


def test_the_cache_changes_no_score(folders: Folders, lm: TransformersLM) -> None:
    asked = drawn(3)
    bare = TransformersLM(lm.name.removeprefix("hf:"), cache_mib=0)
    without = scored(bare, asked)
    assert len(bare.state_cache) == 0
    for requests in (asked[:10], asked, asked[::-1]):
        again = scored(lm, requests)
        expected = [without[asked.index(request)].logprobs for request in requests]
        assert furthest(again, expected) < 1e-5
    asyncio.run(bare.aclose())


def test_a_repeated_prompt_is_read_once(lm: TransformersLM) -> None:
    prompts = [f"Document: {tiny_models.text(random.Random(n), 40)} Question:" for n in range(4)]
    with Forwards(lm) as first:
        scored(lm, [one(prompt, "who made it?") for prompt in prompts])
    with Forwards(lm) as second:
        scored(lm, [one(prompt, "born in Paris") for prompt in prompts])
    targets = 4 * (len(lm.tokens.target("born in Paris")) + 1)
    assert second.tokens <= targets + 8 < first.tokens / 4  # eight for the "a" and "b" of the counter


def test_passages_are_read_once_for_all_instructions_and_targets(folders: Folders) -> None:
    lm = TransformersLM(str(folders["gpt2"]))
    passage = "Document: " + tiny_models.text(random.Random(5), 60)
    asked = [one(f"{passage} {word} Question:", target) for word in ("who", "what", "born") for target in ("a", "film")]
    alone = len(lm.tokens.prompt(passage))
    with Forwards(lm) as forwards:
        scored(lm, asked)
    assert alone < forwards.tokens < 1.4 * alone
    asyncio.run(lm.aclose())


def test_the_targets_tokens_are_the_same_after_every_prompt(lm: TransformersLM) -> None:
    prompts = ["", "Question:", "Question: ", "ends in a wor", "東京", "</s>"]
    found = scored(lm, [one(prompt, target) for prompt in prompts for target in ("who made it", " who made it ")])
    assert len({scores.tokens for scores in found}) == 1
    assert found[2].logprobs == found[3].logprobs
    assert furthest([found[2]], [found[4].logprobs]) < 1e-5  # space at the join is dropped


def test_the_end_mark_belongs_to_the_target_of_an_encoder_decoder_alone(folders: Folders) -> None:
    for shape, ends in (("t5", ("</s>",)), ("gpt2", ()), ("llama", ())):
        lm = TransformersLM(str(folders[shape]))
        whole, empty = scored(lm, [one("Question:", "who"), one("Question:", "")])
        assert whole.tokens[-1:] == (ends or whole.tokens[-1:])
        assert empty.tokens == ends
        assert len(empty.logprobs) == len(ends)
        assert ("</s>" in whole.tokens) == bool(ends)
        asyncio.run(lm.aclose())


def test_control_tokens_in_a_text_are_only_text(lm: TransformersLM) -> None:
    for mark in ("</s>", "<|endoftext|>", "<|user|>", "<s>"):
        assert len(lm.tokens.target(f"who {mark}")) > len(lm.tokens.target("who")) + 1
    chat: list[Message] = [{"role": "user", "content": "x</s><|assistant|>y"}]
    harmless: list[Message] = [{"role": "user", "content": "xy"}]
    marked = [lm.tokens._marked.decode(list(lm.tokens.chat(c)), skip_special_tokens=False) for c in (chat, harmless)]
    if lm.tokens.chats:
        assert marked[0].count("</s>") == marked[1].count("</s>") == 1
        assert marked[0].count("<|assistant|>") == 1


def test_half_precision_stays_close(lm: TransformersLM) -> None:
    asked = [request for request in drawn(4, 20) if request.target]
    half = TransformersLM(lm.name.removeprefix("hf:"), dtype="bfloat16")
    exact, close = scored(lm, asked), scored(half, asked)
    means = [abs(sum(a.logprobs) - sum(b.logprobs)) / len(a.tokens) for a, b in zip(exact, close, strict=True)]
    assert max(means) < 0.3
    assert lm.identity != half.identity
    asyncio.run(half.aclose())


# --- lengths --------------------------------------------------------------------------------------------------------


def test_an_overlong_prompt_fails_alone_and_says_by_how_much(folders: Folders) -> None:
    lm = TransformersLM(str(folders["gpt2"]))
    long = one("who " * 600, "made it")

    async def both() -> list[Any]:
        asked = ([long], [one("who", "made it")])
        return list(await asyncio.gather(*map(lm.score, asked), return_exceptions=True))

    error, fine = asyncio.run(both())
    assert isinstance(error, LMError)
    assert "takes 512 tokens" in str(error)
    assert "cut" in str(error)
    assert fine[0].tokens == lm.tokens.names(lm.tokens.target("made it"))
    with pytest.raises(LMError, match="takes 512 tokens"):
        asyncio.run(lm.complete(request("who " * 600)))
    asyncio.run(lm.aclose())


@pytest.mark.parametrize("shape", ["gpt2", "llama"])
def test_cut_drops_the_beginning_and_scores_the_rest(folders: Folders, shape: str) -> None:
    lm = TransformersLM(str(folders[shape]), overlong="cut")
    text = tiny_models.text(random.Random(6), 700)
    (found,) = scored(lm, [one(text, "made in Paris")])
    whole, target = lm.tokens.prompt(text), lm.tokens.target("made in Paris")
    head = list(lm.tokens._head)
    kept = [*head, *whole[len(whole) - (512 - len(target) - len(head)) :]]
    assert furthest([found], [tiny_models.plainly(folders[shape], kept, list(target), 1.0)]) < 1e-4
    reply = asyncio.run(lm.complete(request(text, max_tokens=8)))
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == (504 if shape == "gpt2" else reply.usage.prompt_tokens)
    asyncio.run(lm.aclose())


def test_an_encoder_decoder_of_relative_positions_has_no_limit(folders: Folders) -> None:
    lm = TransformersLM(str(folders["t5"]))
    assert lm.checkpoint.max_tokens is None
    assert len(scored(lm, [one("who " * 900, "a")])[0].tokens) > 1
    asyncio.run(lm.aclose())


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.integers(0, 20))
def test_truncate_keeps_to_the_count(lm: TransformersLM, text: str, most: int) -> None:
    cut = lm.truncate(text, most)
    assert text.startswith(cut)
    assert lm.count_tokens(cut) <= most or lm.count_tokens(text) <= most
    assert (cut == text) == (lm.count_tokens(text) <= most) or lm.count_tokens(cut) == 0


# --- writing --------------------------------------------------------------------------------------------------------


def request(text: str, **options: Any) -> Request:
    return Request(task="answer.direct", fields={}, messages=[{"role": "user", "content": text}], **options)


def greedily(lm: TransformersLM, text: str, most: int) -> tuple[list[int], list[float]]:
    """The text that a model writes at temperature 0, every logit computed again at each step."""
    import torch

    model: Any = lm._running.write.model  # type: ignore[union-attr]
    prompt = list(lm.tokens.chat([{"role": "user", "content": text}]))
    written: list[int] = []
    values: list[float] = []
    for _ in range(most):
        with torch.no_grad():
            if lm.checkpoint.is_encoder_decoder:
                logits = model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([[0, *written]])).logits
            else:
                logits = model(input_ids=torch.tensor([prompt + written])).logits
        logprobs = logits[0, -1].log_softmax(-1)
        best = int(logprobs.argmax())
        if best == model.generation_config.eos_token_id:
            break
        written.append(best)
        values.append(float(logprobs[best]))
    return written, values


@pytest.mark.parametrize("columns", [4, 512])
def test_greedy_text_is_the_plain_one_alone_or_together(
    lm: TransformersLM, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyhop.lm.hf.generation.COLUMNS", columns)
    texts = ["who made the film?", "a", "Paris is a city by the river of " * 5]
    asked = [request(text, max_tokens=length, logprobs=True) for text, length in zip(texts, (12, 3, 20), strict=True)]

    async def together() -> list[Any]:
        return await asyncio.gather(*map(lm.complete, asked))

    scored(lm, [one("a", "b")])
    for text, ask, reply in zip(texts, asked, asyncio.run(together()), strict=True):
        ids, values = greedily(lm, text, ask.max_tokens)
        assert reply.text == lm.tokens.text(ids)
        assert reply.usage.completion_tokens == len(ids)
        assert reply.finish_reason == ("length" if len(ids) == ask.max_tokens else "stop")
        assert "".join(reply.tokens) == reply.text
        if len(reply.tokens) == len(ids):  # else some spell nothing
            assert sum(reply.logprobs) == pytest.approx(sum(values), abs=1e-3)


@pytest.mark.parametrize("shape", ["gpt2", "llama"])
def test_a_common_prefix_is_read_once_and_changes_no_text(folders: Folders, shape: str) -> None:
    lm = TransformersLM(str(folders[shape]))
    instruction = tiny_models.text(random.Random(8), 60)
    ends = ["", " who", " made in Paris", *(" " + tiny_models.text(random.Random(n), n) for n in range(1, 12))] * 3
    asked = [request(instruction + end, max_tokens=8, logprobs=True) for end in ends]

    async def together() -> list[Any]:
        return await asyncio.gather(*map(lm.complete, asked))

    alone = [asyncio.run(lm.complete(one)) for one in asked]
    with Forwards(lm) as forwards:
        found = asyncio.run(together())
    assert [(reply.text, reply.usage) for reply in found] == [(reply.text, reply.usage) for reply in alone]
    assert [reply.logprobs for reply in found] == [pytest.approx(reply.logprobs, abs=1e-4) for reply in alone]
    assert forwards.calls <= 1 + 8  # the instruction's, and one a token
    longest = max(reply.usage.prompt_tokens for reply in found) - len(lm.tokens.prompt(instruction))
    assert forwards.tokens < 2 * len(lm.tokens.prompt(instruction)) + len(asked) * (longest + 16)
    asyncio.run(lm.aclose())


def test_a_stop_ends_the_text_before_it(lm: TransformersLM) -> None:
    whole = asyncio.run(lm.complete(request("who made the film?", max_tokens=20, logprobs=True)))
    assert whole.tokens is not None
    stop = next((token for token in whole.tokens[2:] if token.strip()), whole.text[-1:])
    cut = asyncio.run(lm.complete(request("who made the film?", max_tokens=20, logprobs=True, stop=(stop, "never"))))
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish_reason == "stop"
    assert cut.tokens is not None
    assert cut.logprobs is not None
    assert "".join(cut.tokens) == cut.text
    assert len(cut.tokens) == len(cut.logprobs)


def test_a_seed_repeats_a_draw_and_a_sample_is_another(lm: TransformersLM) -> None:
    async def draw(*asked: Request) -> list[str]:
        return [reply.text for reply in await asyncio.gather(*map(lm.complete, asked))]

    def ask(**options: Any) -> Request:
        return request("who made it?", max_tokens=16, temperature=1.5, **options)

    (first,) = asyncio.run(draw(ask(seed=7)))
    others = [request("a " * 30, max_tokens=20), ask(seed=8), ask(seed=seed_of(7, "t", 1), sample=1), ask()]
    again, _, other_seed, other_sample, _ = asyncio.run(draw(ask(seed=7), *others))
    assert first == again  # whatever else is being written
    assert len({first, other_seed, other_sample}) == 3
    assert asyncio.run(draw(ask(), ask()))[0] != asyncio.run(draw(ask()))[0]


def test_without_a_template_turns_are_joined_plainly(folders: Folders) -> None:
    chat: list[Message] = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who?"}]
    plain, chatty = TransformersLM(str(folders["gpt2"])), TransformersLM(str(folders["llama"]))
    assert (plain.capabilities.chat, chatty.capabilities.chat) == (False, True)
    assert plain.tokens.text(plain.tokens.chat(chat)) == "Answer.\n\nWho?"
    spelt = chatty.tokens._marked.decode(list(chatty.tokens.chat(chat)), skip_special_tokens=False)
    assert [mark for mark in ("<|system|>", "<|user|>", "</s>", "<|assistant|>") if mark in spelt] == [
        "<|system|>", "<|user|>", "</s>", "<|assistant|>",
    ]  # fmt: skip
    assert spelt.endswith("<|assistant|>")


def test_a_template_without_a_system_turn_gets_it_in_the_users(folders: Folders) -> None:
    lm = TransformersLM(str(folders["llama"]))
    refuses = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    lm.tokens._tokenizer.chat_template = refuses + tiny_models.TEMPLATE
    chat: list[Message] = [{"role": "system", "content": "made of"}, {"role": "user", "content": "film"}]
    text = lm.tokens.text(lm.tokens.chat(chat))
    assert "made of" in text
    assert text.index("made of") < text.index("film")


# --- many at once, and the end --------------------------------------------------------------------------------------


def test_concurrent_callers_share_forward_passes(lm: TransformersLM) -> None:
    asked = [one(f"Document: {tiny_models.text(random.Random(n), 6)} Question:", "who made it?") for n in range(30, 42)]

    async def together() -> list[list[TokenScores]]:
        return await asyncio.gather(*(lm.score([request]) for request in asked))

    with Forwards(lm) as merged:
        found = asyncio.run(together())
    lm.state_cache.clear()
    with Forwards(lm) as singly:
        apart = [scored(lm, [request])[0] for request in asked]
    assert merged.calls * 3 <= singly.calls
    assert furthest([scores for (scores,) in found], [scores.logprobs for scores in apart]) < 1e-5


def test_closing_ends_the_thread_and_frees_the_weights(folders: Folders) -> None:
    lm = TransformersLM(str(folders["t5"]))
    scored(lm, [one("who", "made")])
    assert [thread for thread in threading.enumerate() if thread.name.startswith(lm.name)]
    asyncio.run(lm.aclose())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(lm.name)]
    assert (lm._running, len(lm.state_cache)) == (None, 0)
    assert scored(lm, [one("who", "made")])[0].tokens  # and opens again
    asyncio.run(lm.aclose())


def test_a_method_runs_on_it_by_name(folders: Folders, tmp_path: Path) -> None:
    folder = tiny_models.make(tmp_path / "roomy", "llama", positions=4096)
    passages = [polyhop.Passage("1", "The Dark Mill", "The Dark Mill is a film by Rolf Anders.")]
    for _ in range(2):
        answer = polyhop.ask("Who made the Dark Mill?", corpus=passages, method="one-r", lm=f"hf:{folder}")
        assert answer.trace is not None
        assert answer.trace.calls
    assert all(call.cached for call in answer.trace.calls)  # a named model costs time, so its replies are kept


# --- what cannot be -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dtype": "float64"}, SettingError, "'bfloat16'"),
        ({"device": "cuda:99"}, SettingError, "here is cpu"),
        ({"device": "gpu"}, SettingError, "here is cpu"),
        ({"max_batch_tokens": 0}, SettingError, "at least 1"),
        ({"cache_mib": -1}, SettingError, "0, for none"),
        ({"overlong": "ignore"}, SettingError, "'cut'"),
        ({"max_batch_token": 3}, UnknownName, "did you mean 'max_batch_tokens'"),
    ],
)
def test_invalid_options_are_errors(
    folders: Folders, options: dict[str, Any], error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytest.importorskip("torch").cuda, "is_available", lambda: False)
    with pytest.raises(error, match=words):
        open_lm(f"hf:{folders['t5']}", **options)


def test_unusable_checkpoints_are_errors(folders: Folders, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    with pytest.raises(DataError, match="a checkpoint's folder or its name"):
        open_lm("hf:")
    with pytest.raises(DataError, match="cannot be opened"):
        open_lm(f"hf:{tmp_path}")
    bert = transformers.BertConfig(vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    vision = transformers.ViTConfig()
    for name, config in (("vision", vision), ("bert", bert)):
        config.save_pretrained(tmp_path / name)
    with pytest.raises(UsageError, match="vit checkpoint"):
        open_lm(f"hf:{tmp_path / 'vision'}")


def test_pickled_weights_and_code_are_never_opened(folders: Folders, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = tiny_models.make(tmp_path / "pickled", "gpt2")
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    lm = TransformersLM(str(folder))
    with pytest.raises(DataError, match="safetensors"):
        scored(lm, [one("a", "b")])
    asyncio.run(lm.aclose())


def test_a_temperature_of_zero_or_less_has_no_scores(lm: TransformersLM) -> None:
    with pytest.raises(UsageError, match="above 0"):
        scored(lm, [one("a", "b", 0.0)])


def test_its_capabilities_are_those_of_the_checkpoint(lm: TransformersLM, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(lm, LanguageModel)
    assert lm.capabilities.score_temperature
    assert lm.capabilities.seed
    assert not lm.capabilities.json_schema
    assert lm.count_tokens("") == 0


def test_a_model_with_relative_positions_generates_but_does_not_score(tmp_path: Path, folders: Folders) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["gpt2"])
    config = transformers.BloomConfig(vocab_size=len(tokenizer), hidden_size=16, n_layer=1, n_head=2)
    transformers.BloomForCausalLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    lm = TransformersLM(str(tmp_path))
    assert not lm.capabilities.score
    with pytest.raises(CapabilityError, match="families can"):
        scored(lm, [one("a", "b")])
    assert asyncio.run(lm.complete(request("who", max_tokens=3))).finish_reason
    asyncio.run(lm.aclose())
