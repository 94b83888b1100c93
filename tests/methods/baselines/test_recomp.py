"""RECOMP worked by hand: what is compressed and how, what the answer is read from, closed-book where it is empty."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Passage
from tests.kit import tiny_models
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import play

HITS = {"Q": " ".join("abcdefghijklmnopqrs")}
TEXTS = {
    "Kon-Tiki": "The raft crossed the Pacific. Its expedition was led by Thor Heyerdahl.",
    "Larvik": "Larvik is a town. Heyerdahl, the leader of the expedition, was born in the town.",
    "Balaton": "Balaton is a lake.",
}
CORPUS = [Passage(title, title, text) for title, text in TEXTS.items()]
QUESTION = "In which town was the leader of the expedition born?"


def script(summary: str = "It is so.") -> Any:
    def reply(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"recomp.compress": {"summary": summary}, "recomp.answer": {"answer": "Larvik"}}.get(
            task, {"answer": "known"}
        )

    return reply


async def extracted(corpus: list[Passage] = CORPUS, **settings: Any) -> tuple[Any, ScriptedLM]:
    model = ScriptedLM(script())
    async with Pipeline(
        method="recomp", lm=model, retriever=lambda query, k: corpus[:k], compress="extractive", **settings
    ) as qa:
        return await qa.aask(QUESTION), model


# --- abstractive -------------------------------------------------------------------------------------------------


async def test_the_passages_are_condensed_then_the_summary_alone_is_read() -> None:
    answer, model = await play("recomp", script(), hits=HITS)
    compress, read = model.calls
    assert (compress.task, names(compress.fields["passages"])) == ("recomp.compress", "a b c d e")
    assert read.task == "recomp.answer"
    assert read.fields == {"question": "Q", "kind": "qa", "summary": "It is so."}
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Larvik", True, 2)
    assert evidence(answer) == [("a b c d e", "Larvik")]
    assert names(answer.passages) == " ".join("abcdefghijklmno")
    assert answer.statistics == {"summary words": 3}
    assert [call.final for call in answer.trace.calls] == [False, True]


@pytest.mark.parametrize("said", ["[DONE]", "", "none [DONE]", {"summary": ""}])
async def test_an_empty_summary_means_answering_closed_book(said: Any) -> None:
    replies = {"recomp.compress": said, "answer.direct": "Answer: known"}
    answer, model = await play("recomp", replies, hits=HITS)
    assert model.calls[-1].task == "answer.direct"
    assert (answer.text, answer.supported, answer.evidence) == ("known", False, ())
    assert names(answer.passages) == " ".join("abcdefghijklmno")  # they were retrieved all the same
    assert answer.statistics == {"summary words": 0}


async def test_plain_text_is_a_summary_as_a_checkpoint_writes_it() -> None:
    replies = {"recomp.compress": "Thor Heyerdahl was born in Larvik.", "recomp.answer": "Larvik"}
    answer, model = await play("recomp", replies, hits=HITS)
    assert model.calls[-1].fields["summary"] == "Thor Heyerdahl was born in Larvik."
    assert (answer.text, len(model.calls)) == ("Larvik", 2)


async def test_the_compressor_is_a_role_of_its_own() -> None:
    compressor, reader = ScriptedLM({"recomp.compress": "So. [DONE]"}), ScriptedLM({"recomp.answer": "Larvik"})
    lm = {"default": reader, "compressor": compressor}
    async with Pipeline(method="recomp", lm=lm, retriever=lambda query, k: CORPUS[:k]) as qa:
        assert (await qa.aask(QUESTION)).text == "Larvik"
    assert (len(compressor.calls), len(reader.calls)) == (1, 1)


# --- extractive --------------------------------------------------------------------------------------------------


async def test_the_sentences_most_like_the_question_are_kept_in_the_passages_order() -> None:
    answer, model = await extracted()
    (read,) = model.calls
    assert read.fields["summary"] == (
        "[Larvik] Larvik is a town. [Larvik] Heyerdahl, the leader of the expedition, was born in the town."
    )
    assert evidence(answer) == [("Larvik", "Larvik")]  # only the passages that a sentence comes from
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Larvik", True, 1)


@pytest.mark.parametrize(("kept", "sentences"), [(1, 1), (3, 3), (9, 3)])
async def test_a_sentence_without_a_word_of_the_question_is_not_kept(kept: int, sentences: int) -> None:
    answer, model = await extracted(kept=kept)
    assert model.calls[-1].fields["summary"].count("[") == sentences
    assert "lake" not in model.calls[-1].fields["summary"]
    assert "Balaton" not in evidence(answer)[0][0]


async def test_only_the_first_k_passages_are_compressed() -> None:
    _, model = await extracted(k=1)
    assert model.calls[-1].fields["summary"] == "[Kon-Tiki] Its expedition was led by Thor Heyerdahl."


@pytest.mark.parametrize("corpus", [[], CORPUS[2:], [Passage("1", "A", "")]])
async def test_nothing_like_the_question_is_an_empty_summary(corpus: list[Passage]) -> None:
    answer, model = await extracted(corpus)
    assert [call.task for call in model.calls] == ["answer.direct"]
    assert (answer.text, answer.supported) == ("known", False)


# --- budgets and settings ----------------------------------------------------------------------------------------


async def test_without_hits_nothing_is_compressed() -> None:
    answer, model = await play("recomp", script(), hits={})
    assert [call.task for call in model.calls] == ["answer.direct"]
    assert (answer.text, answer.passages) == ("known", ())


async def test_one_call_is_the_closed_book_answer() -> None:
    answer, model = await play("recomp", script(), hits=HITS, max_calls=1)
    assert ([call.task for call in model.calls], answer.text) == (["answer.direct"], "known")
    assert answer.trace.budget == "max_calls"


@pytest.mark.parametrize("count", [0, 3])
async def test_k_rank_limit_and_shots(count: int) -> None:
    answer, model = await play("recomp", script(), hits=HITS, k=2, rank_limit=3, shots=count)
    assert names(model.calls[0].fields["passages"]) == "a b"
    assert names(answer.passages) == "a b c"
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls} == {count}


@pytest.mark.parametrize("compress", ["abstractive", "extractive"])
async def test_pocket_reads_its_own_summary(compress: str) -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film. It was directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
    ]
    async with Pipeline(corpus, "recomp", lm="pocket", compress=compress) as qa:
        answer = await qa.aask("Who directed Alien?")
    assert (answer.text, bool(answer.evidence)) == ("Ridley Scott", True)


OWN = """+++
role = "compressor"
max_tokens = 12
shots = 0
+++

# Output

# Input
Question: {question} Document: {passages} Summary:
"""
"""A prompt of the form that a sequence-to-sequence compressor was trained on."""


@pytest.mark.extra
async def test_a_sequence_to_sequence_checkpoint_compresses(tmp_path: Path) -> None:
    pytest.importorskip("torch").set_num_threads(1)
    pytest.importorskip("transformers")
    checkpoint, prompts = (
        tiny_models.make(tmp_path / "t5", "t5", seed=4),
        tmp_path / "prompts",
    )  # one that writes something
    prompts.mkdir()
    (prompts / "recomp.compress.md").write_text(OWN)
    reader = ScriptedLM(script())
    lm: dict[str, Any] = {"default": reader, "compressor": f"hf:{checkpoint}"}
    given: dict[str, Any] = {"retriever": lambda query, k: CORPUS[:k], "cache": False}
    async with Pipeline(method="recomp", lm=lm, prompts=prompts, **given) as qa:
        answer = await qa.aask(QUESTION)
    *wrote, read = answer.trace.calls
    assert {(call.task, call.model) for call in wrote} == {("recomp.compress", f"hf:{checkpoint}")}
    assert (read.task, len(wrote), answer.text) == ("recomp.answer", 1, "Larvik")
    assert read.fields["summary"] in wrote[0].text.strip()  # without quotes and marks around it
