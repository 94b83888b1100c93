"""Texts that a checkpoint continues: after its chat template, or as one text."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyhop.lm.base import Message, Request
from polyhop.lm.hf import TransformersLM, _Running
from polyhop.lm.hf.generation import Written
from tests.kit import tiny_models

pytestmark = pytest.mark.extra

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"
)
ASKED: Message = {"role": "user", "content": "who made the film?"}
CONTINUED = Request(task="t", fields={}, messages=[ASKED], continues="turn", stop=("mill",), max_tokens=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2 whose template opens the thoughts of a reply."""
    pytest.importorskip("torch").set_num_threads(1)
    transformers = pytest.importorskip("transformers")
    folder = tiny_models.make(tmp_path_factory.mktemp("continued"), "gpt2")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["</s>"]})
    tokenizer.chat_template = TEMPLATE
    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def begun(lm: TransformersLM, text: str, *, as_text: bool = False) -> str:
    turn: Message = {"role": "assistant", "content": text}
    ids = lm.tokens.begun([ASKED, turn] if text else [ASKED], as_text=as_text)
    return str(lm.tokens._marked.decode(list(ids), skip_special_tokens=False))


def test_the_text_follows_what_the_template_opens(folder: Path) -> None:
    lm = TransformersLM(str(folder))
    assert lm.capabilities.continues
    head = "<|user|>who made the film?</s><|assistant|>"
    assert begun(lm, "") == f"{head}<think>\n"
    assert begun(lm, "the mill ") == f"{head}<think>\nthe mill "
    assert begun(lm, "<think>the mill") == f"{head}<think>the mill"
    assert begun(lm, "the</s>mill") == f"{head}<think>\nthe< /s>mill"
    assert begun(lm, " the mill", as_text=True) == "who made the film? the mill"


def test_a_reply_is_kept_whole_and_stops_within_thoughts(folder: Path) -> None:
    lm = TransformersLM(str(folder))
    ids = [*lm.tokens.marked("<think>the film of the mill")]

    def write(asked: Any) -> list[Written]:
        assert all(one.whole for one in asked)
        return [Written(ids, [-1.0] * len(ids), True)]

    lm._running = _Running(lambda jobs: [], write)  # type: ignore[arg-type]
    reply = asyncio.run(lm.complete(replace(CONTINUED, logprobs=True)))
    assert (reply.text, reply.reasoning) == ("<think>the film of the ", None)
    assert "".join(reply.tokens or ()) == reply.text


def test_it_really_writes(folder: Path) -> None:
    with_text = replace(CONTINUED, messages=[ASKED, {"role": "assistant", "content": "the"}], stop=())
    lm = TransformersLM(str(folder))
    assert asyncio.run(lm.complete(with_text)).usage
