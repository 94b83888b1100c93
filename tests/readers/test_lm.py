"""The LM reader: one call over all passages, taken only where its words stand; its calls are calls like any other."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop import Passage, ScriptedLM
from polyhop.data.corpora import open_corpus
from polyhop.errors import UsageError
from polyhop.evaluation.tuning.readers import fit_reader
from polyhop.lm.base import Capabilities, Completion, Request
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks.parts import Extraction, read_extraction, write_extraction
from polyhop.readers import RunReader, open_reader
from polyhop.readers.lm import LmReader
from polyhop.retrieval import build_index
from polyhop.trace import Ask, Readout
from polyhop.types import Question, Span
from tests.kit.custom_method import using
from tests.kit.scene import passage
from tests.kit.virtual_clock import run_virtually

MILL = Passage("mill", "Dark Mill", "Dark Mill is a 1931 German drama film directed by Rolf Anders.")
ANDERS = Passage("anders", "Rolf Anders", "Rolf Anders was a director. He was born in Bremen. No film of his is kept.")
ASKED = "Who directed Dark Mill?"
BOOK = PromptBook()
PROBABLE = Capabilities(json_schema=True, token_logprobs=True)


class Probable:
    """A model that writes the given texts, each token at e^-0.5; log-probabilities only where ``given``."""

    name, capabilities = "probable", PROBABLE

    def __init__(self, *texts: str, given: bool = True) -> None:
        self.texts, self.given = list(texts), given
        self.calls: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        text = self.texts[min(len(self.calls), len(self.texts) - 1)]
        self.calls.append(request)
        if not (self.given and request.logprobs):
            return Completion(text=text)
        tokens = tuple(text)
        return Completion(text=text, tokens=tokens, logprobs=(-0.5,) * len(tokens))


async def read(model: Any, passages: list[Passage], question: str = ASKED) -> tuple[list[Span], Any]:
    return await using(lambda run: run.read(question, passages), model, reader=LmReader())


def scripted(answer: str | None, number: int | None = None, sure: float | None = 0.8) -> ScriptedLM:
    value = {"answer": answer, "passage": number, "confidence": None if answer is None else sure}
    return ScriptedLM({"reader.extract": value})


# --- what it asks and what it makes of the reply -------------------------------------------------------------------


async def test_all_passages_are_read_in_one_call_with_its_tokens_confidence() -> None:
    model = Probable("Answer: Rolf Anders\nPassage: 1")
    spans, answer = await read(model, [MILL, ANDERS])
    start = MILL.text.index("Rolf")
    assert spans == [Span("mill", "Rolf Anders", start, start + 11, spans[0].confidence)]
    assert spans[0].confidence == pytest.approx(math.exp(-0.5))
    (call,) = model.calls
    assert call.fields == {"question": ASKED, "passages": [MILL, ANDERS], "verbal": False}
    assert call.logprobs
    assert "Confidence" not in call.messages[0]["content"]
    readout, asked = answer.trace.steps
    assert isinstance(readout, Readout)
    assert isinstance(asked, Ask)
    assert (asked.task, asked.parent, readout.parent, readout.spans) == ("reader.extract", 0, None, tuple(spans))
    assert answer.usage.calls_by_task == {"reader.extract": 1}


async def test_a_model_without_log_probabilities_is_asked_for_its_confidence() -> None:
    model = scripted("rolf anders", 2)
    spans, _ = await read(model, [MILL, ANDERS])
    assert [(span.passage_id, span.text, span.confidence) for span in spans] == [("anders", "Rolf Anders", 0.8)]
    assert model.calls[0].fields["verbal"] is True
    assert "Confidence" in model.calls[0].messages[0]["content"]


async def test_a_reply_without_promised_log_probabilities_is_requested_again() -> None:
    model = Probable("Answer: Rolf Anders", "Answer: Rolf Anders\nConfidence: 70%", given=False)
    spans, _ = await read(model, [MILL])
    assert [span.confidence for span in spans] == [0.7]
    assert [call.fields["verbal"] for call in model.calls] == [False, True]


@pytest.mark.parametrize(
    ("answer", "number", "read_from"),
    [
        ("Rolf Anders", 1, ["mill"]),
        ("Rolf Anders", 2, ["anders"]),
        ("Rolf Anders", None, ["mill"]),  # the first that holds it
        ("Rolf Anders", 9, ["mill"]),
        ("Rolf Anders", 0, ["mill"]),
        ("Bremen", 1, ["anders"]),  # not in the one it named
        ("Fritz Lang", 1, []),  # it never invents
        ("Dark", None, ["mill"]),
        ("olf", None, []),  # whole words
        (None, None, []),
        ("no", 2, []),  # it stands there, yet answers nothing
        ("Yes", None, []),
    ],
)
async def test_the_words_are_taken_where_they_stand(
    answer: str | None, number: int | None, read_from: list[str]
) -> None:
    spans, _ = await read(scripted(answer, number), [MILL, ANDERS])
    assert [span.passage_id for span in spans] == read_from
    for span in spans:
        held = {"mill": MILL, "anders": ANDERS}[span.passage_id]
        assert held.text[span.start : span.end] == span.text


async def test_no_passage_is_no_call() -> None:
    model = scripted("Rolf Anders")
    assert (await read(model, []))[0] == []
    assert model.calls == []


async def test_what_cannot_be_read_twice_is_no_span() -> None:
    model = ScriptedLM({"reader.extract": "I would rather not say, for many reasons that I cannot tell here at all."})
    spans, answer = await read(model, [MILL])
    assert spans == []
    assert answer.usage.defaulted_by_task == {"reader.extract": 1}
    assert len(model.calls) == 2


# --- its calls are calls like any other ----------------------------------------------------------------------------

CHAIN = {"nodes": [{"query": ASKED, "answer": "Fritz Lang"}], "final": "Fritz Lang"}
CORRECTED = {"nodes": [{"query": ASKED, "answer": "Rolf Anders"}], "final": "Rolf Anders"}
TRACED = {"content": "It is Rolf Anders [1].", "answer": "Rolf Anders"}


def searchain(**given: Any) -> Any:
    model = ScriptedLM(
        {
            "searchain.chain": [CHAIN, CORRECTED] * 9,
            "searchain.trace": [TRACED] * 9,
            "reader.extract": [{"answer": "Rolf Anders", "passage": 1, "confidence": 0.9}] * 9,
        }
    )
    pipeline = Pipeline(
        method="searchain", lm=given.pop("lm", model), retriever=lambda query, k: [MILL], reader="lm", **given
    )
    return pipeline, model


def test_search_in_the_chain_corrects_by_it() -> None:
    pipeline, _ = searchain()
    with pipeline:
        answer = pipeline.ask("Who?")
    assert answer.text == "Rolf Anders"
    assert answer.statistics["from corrected"] == 1
    assert answer.usage.calls_by_task == {"searchain.chain": 2, "reader.extract": 1, "searchain.trace": 1}


def test_its_calls_are_in_the_budget() -> None:
    pipeline, model = searchain(max_calls=2)
    with pipeline:
        answer = pipeline.ask("Who?")
    assert [call.task for call in model.calls] == ["searchain.chain", "searchain.trace"]
    assert answer.trace.budget == "max_calls"


def test_its_calls_are_cached(tmp_path: Path) -> None:
    pipeline, model = searchain(cache=tmp_path / "lm.sqlite")
    with pipeline:
        pipeline.ask("Who?")
        before = len(model.calls)
        again = pipeline.ask("Who?")
    assert len(model.calls) == before
    assert again.usage.cache_hits == again.usage.calls == 4


def test_it_may_have_a_model_of_its_own() -> None:
    own = scripted("Rolf Anders", 1, 0.9)
    pipeline, model = searchain()
    pipeline.close()
    with searchain(lm={"default": model, "reader": own})[0] as pipeline:
        assert pipeline.ask("Who?").text == "Rolf Anders"
    assert [call.task for call in own.calls] == ["reader.extract"]


def test_nodes_may_be_read_ahead_by_it() -> None:
    names = "abcd"
    chain = {"nodes": [{"query": f"{name}1?", "answer": f"{name}1"} for name in names], "final": "a1"}

    async def play(speculate: int) -> Any:
        def extract(task: str, fields: Any) -> Any:
            if task == "reader.extract":
                return {"answer": fields["passages"][0].text.split()[1], "passage": 1, "confidence": 0.9}
            return chain if task == "searchain.chain" else {"content": "a1 [1]", "answer": "a1"}

        model = ScriptedLM(extract, latency=1.0)
        given: dict[str, Any] = {"retriever": lambda query, k: [passage(query[0])], "reader": "lm"}
        async with Pipeline(method="searchain", lm=model, speculate=speculate, **given) as pipeline:
            return await pipeline.aask("Q?")

    plain, ahead = run_virtually(play(0)), run_virtually(play(4))
    assert (plain.text, plain.usage.calls_by_task) == (ahead.text, ahead.usage.calls_by_task)
    assert plain.usage.calls_by_task["reader.extract"] == len(names)
    assert (plain.usage.elapsed, ahead.usage.elapsed) == (6, 3)


def test_pocket_reads_so_too() -> None:
    corpus = [MILL, ANDERS]
    with Pipeline(corpus, "searchain", reader="lm") as pipeline:
        answer = pipeline.ask("Where was the director of Dark Mill born?")
    assert answer.usage.calls_by_task["reader.extract"] >= 1
    reads = [step for step in answer.trace.steps if isinstance(step, Readout)]
    assert any(span.text == "Rolf Anders" for step in reads for span in step.spans)


async def test_without_a_run_to_ask_by_it_says_so(tmp_path: Path) -> None:
    reader = open_reader("lm")
    assert isinstance(reader, RunReader)
    with pytest.raises(UsageError, match="the reader lm asks a language model, and none is at hand here; try pocket"):
        await reader.read("Who?", [MILL], None)
    index = build_index(open_corpus([MILL]), tmp_path / "index")
    with pytest.raises(UsageError, match="the reader lm asks a language model"):
        fit_reader([Question("1", ASKED, ("Rolf Anders",), gold_ids=("mill",))], index, "lm")


# --- a path as one input -----------------------------------------------------------------------------------------


async def read_path(model: Any, path: list[Passage], question: str = "Where was he born?") -> tuple[list[Span], Any]:
    return await using(lambda run: run.read_path(question, path), model, reader=LmReader())


@pytest.mark.parametrize("rendering", ["text", "json"])
def test_titles_and_texts_of_all_hops_stand_in_one_prompt(rendering: Rendering) -> None:
    fields = {"question": "Was he born in Bremen?", "passages": [MILL, ANDERS], "verbal": False}
    turns = BOOK["reader.path"].render(fields, rendering=rendering, shots=6)
    for page in (MILL, ANDERS):
        assert page.title in turns[-1]["content"]
        assert page.text in turns[-1]["content"]
    replies = [turn["content"] for turn in turns if turn["role"] == "assistant"]
    assert len(replies) == 6
    assert any("no" in text.split() or '"no"' in text for text in replies)
    assert any("yes" in text.split() or '"yes"' in text for text in replies)


async def test_a_path_is_read_in_one_call_with_its_tokens_confidence() -> None:
    model = Probable("Answer: Bremen")
    spans, answer = await read_path(model, [MILL, ANDERS])
    start = ANDERS.text.index("Bremen")
    assert spans == [Span("anders", "Bremen", start, start + 6, spans[0].confidence)]
    assert spans[0].confidence == pytest.approx(math.exp(-0.5))
    (call,) = model.calls
    assert (call.task, call.fields["passages"]) == ("reader.path", [MILL, ANDERS])
    assert answer.usage.calls_by_task == {"reader.path": 1}


@pytest.mark.parametrize(
    ("said", "text", "passage", "start"),
    [
        ("Bremen", "Bremen", "anders", 43),
        ("dark mill", "Dark Mill", "mill", 0),
        ("yes", "yes", "anders", 0),
        ("No", "No", "anders", 0),
        ("Hamburg", None, None, None),  # it never invents
        (None, None, None, None),
    ],
)
async def test_a_paths_answer_is_words_of_it_or_yes_or_no(
    said: str | None, text: str | None, passage: str | None, start: int | None
) -> None:
    model = ScriptedLM({"reader.path": {"answer": said, "confidence": said and 0.8}})
    spans, _ = await read_path(model, [MILL, ANDERS])
    assert [(span.text, span.passage_id, span.start) for span in spans] == ([(text, passage, start)] if text else [])


@pytest.mark.parametrize("reply", ["Answer: no", "**Answer:** No.", '{"answer": "no"}'])
def test_a_no_is_an_answer_and_not_the_lack_of_one(reply: str) -> None:
    output = BOOK["reader.path"].read(reply, {"question": "Is it?", "passages": [MILL], "verbal": False})
    assert isinstance(output, Extraction)
    assert (output.answer or "").lower() == "no"


async def test_promptrank_has_its_paths_read_by_a_model() -> None:
    answer = await Pipeline(
        [MILL, ANDERS],
        "promptrank",
        {"default": "pocket", "reader": ScriptedLM({"reader.path": {"answer": "Bremen", "confidence": 0.9}})},
        reader="lm",
        read_paths=3,
    ).aask("Where was the director of Dark Mill born?")
    assert answer.text == "Bremen"
    assert answer.usage.calls_by_task["reader.path"] == 3


# --- its form ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer", "number"),
    [
        ("Answer: Larvik\nPassage: 2", "Larvik", 2),
        ("**Answer:** Larvik\n**Passage:** passage 2 (Thor Heyerdahl)", "Larvik", 2),
        ("Answer: Larvik\nPassage 2", "Larvik", 2),
        ("Passage: 2\nAnswer: Larvik", "Larvik", 2),
        ("Larvik", "Larvik", None),
        ("The answer is Larvik.", "Larvik", None),
        ("Answer: none", None, None),
        ("Answer: none\nPassage: none", None, None),
        ("Answer:\nPassage:", None, None),
        ("None of the passages says so.", None, None),
        ("No passage holds the answer.", None, None),
        ("none", None, None),
        ('{"answer": "Larvik", "passage": "Passage 2"}', "Larvik", 2),
        ('{"answer": null, "passage": null}', None, None),
    ],
)
def test_replies_are_read_as_models_write_them(text: str, answer: str | None, number: int | None) -> None:
    fields = {"question": "Who?", "passages": [MILL], "verbal": False}
    output = BOOK["reader.extract"].read(text, fields)
    assert isinstance(output, Extraction)
    assert (output.answer, output.passage, output.confidence) == (answer, number, None)


@pytest.mark.parametrize("text", ["", "It is hard to tell, since so many things were said about him in those years."])
def test_what_is_no_answer_is_complained_about(text: str) -> None:
    with pytest.raises(Malformed):
        read_extraction(text, {"verbal": False})


def test_confidence_must_be_given_where_it_is_asked_for() -> None:
    with pytest.raises(Malformed, match="how sure"):
        read_extraction("Answer: Larvik\nPassage: 2", {"verbal": True})
    assert read_extraction("Answer: none", {"verbal": True})["answer"] is None


@settings(derandomize=True, database=None, deadline=None)
@given(
    words=st.lists(st.sampled_from("Larvik Rolf 1931 the Café O'Neil St-Malo".split()), min_size=1, max_size=4),
    number=st.none() | st.integers(1, 99),
    sure=st.floats(0, 1).map(lambda share: round(share, 3)),
    verbal=st.booleans(),
)
def test_what_is_written_is_read_back(words: list[str], number: int | None, sure: float, verbal: bool) -> None:
    output = Extraction(answer=" ".join(words), passage=number, confidence=sure if verbal else None)
    fields = {"question": "Who?", "passages": [MILL], "verbal": verbal}
    assert BOOK["reader.extract"].read(write_extraction(output, fields), fields) == output
    dumped = json.dumps(output.model_dump())
    assert BOOK["reader.extract"].read(dumped, fields, "json") == output


@settings(derandomize=True, database=None, deadline=None, max_examples=60)
@given(text=st.text(max_size=200) | st.sampled_from(["Answer: 1", "Passage: Rolf", '{"answer": 3, "passage": true}']))
def test_no_reply_raises_and_every_span_stands_in_its_passage(text: str) -> None:
    spans, answer = run_virtually(read(ScriptedLM({"reader.extract": text}), [MILL, ANDERS]))
    assert answer.usage.calls <= 2
    for span in spans:
        held = {"mill": MILL, "anders": ANDERS}[span.passage_id]
        assert held.text[span.start : span.end] == span.text != ""
        assert 0 <= span.confidence <= 1
