"""Readers over tiny checkpoints with random weights, against a plain reference that reads one passage at a time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyhop
from polyhop.errors import DataError, SettingError, UsageError
from polyhop.readers import as_reader, open_reader
from polyhop.readers.checkpoint import Batch, NoAnswerReader
from polyhop.readers.hf import DprReader, SquadReader
from polyhop.readers.onnx import OnnxReader
from polyhop.trace import Readout
from polyhop.types import Passage, Span

pytestmark = pytest.mark.extra

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "who made the film dark mill was by rolf anders in paris dvorak a 1931 city river of and born".split()
VOCAB = [*SPECIAL, *WORDS, "##s", "##man", ".", ",", "?"]
QUESTIONS = ["Who made the Dark Mill?", "Born in Paris?", "who was Dvořák " * 40]


def passages(count: int, seed: int = 0) -> list[Passage]:
    """Passages from a few words to several windows, with capitals, accents, line breaks and unknown words."""
    draw = random.Random(seed)
    text = [*WORDS, "Dvořák", "Mills", "xyzzy", "Andersman,", "film.", "\n"]
    lengths = [1, 2, 9, 40, 150, 300, 700]
    return [
        Passage(
            str(number),
            draw.choice(["Dark Mill", "", "Rolf Anders (born 1931)", "the river of Paris " * 30]),
            " ".join(draw.choice(text) for _ in range(draw.choice(lengths))) + " mill",
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def transformers() -> Any:
    pytest.importorskip("torch").set_num_threads(1)
    return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tokenizer of BERT over a vocabulary of our own."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.BertWordPieceTokenizer({word: number for number, word in enumerate(VOCAB)}, lowercase=True)
    folder = tmp_path_factory.mktemp("words")
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.fixture(scope="module")
def checkpoints(transformers: Any, words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``dpr``, ``squad``, and ``bert`` that has no head."""
    import torch

    folder = tmp_path_factory.mktemp("checkpoints")
    shape = {
        "vocab_size": len(VOCAB),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "initializer_range": 0.5,  # scores well apart, as a trained checkpoint's are
    }
    torch.manual_seed(0)
    made = {
        "dpr": transformers.DPRReader(transformers.DPRConfig(**shape)),
        "squad": transformers.BertForQuestionAnswering(transformers.BertConfig(**shape)),
        "bert": transformers.BertModel(transformers.BertConfig(**shape)),
    }
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(words), pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    for name, model in made.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def plainly(network: Any, ids: Sequence[int], types: Sequence[int] | None) -> Any:
    import torch

    named = {"input_ids": [list(ids)], "attention_mask": [[1] * len(ids)]}
    if types is not None:
        named["token_type_ids"] = [list(types)]
    with torch.no_grad():
        return network(**{name: torch.tensor(value) for name, value in named.items()})


def brute(start: Any, end: Any, positions: range, longest: int) -> tuple[float, int, int]:
    start, end = start.tolist(), end.tolist()
    return max(
        ((start[i] + end[j], i, j) for i in positions for j in range(i, min(i + longest, positions.stop))),
        key=lambda found: found[0],
    )


def dpr_reference(network: Any, tokenizer: Any, question: str, passage: Passage, span: str) -> tuple[str, float]:
    """The text of the answer ("" for none) and the relevance of a passage within one window."""
    (head,) = tokenizer([question], [passage.title])["input_ids"]  # in lists, for a bare "" counts as no title at all
    text = tokenizer(passage.text, add_special_tokens=False, return_offsets_mapping=True)
    out = plainly(network, [*head, *text["input_ids"]], None)
    start, end, relevance = out.start_logits[0], out.end_logits[0], float(out.relevance_logits[0])
    positions = range(len(head), len(head) + len(text["input_ids"]))
    if span == "joint":
        _, first, last = brute(start, end, positions, 10)
    else:
        first, last = int(start.argmax()), int(end.argmax())
        if not (first in positions and last in positions and first <= last):
            return "", relevance
    offsets = text["offset_mapping"]
    return passage.text[offsets[first - len(head)][0] : offsets[last - len(head)][1]], relevance


def squad_reference(network: Any, tokenizer: Any, question: str, passage: Passage) -> tuple[str, float]:
    """The best span's text over all windows, and its score beyond that of no answer."""
    cut = tokenizer(
        question,
        passage.text,
        truncation="only_second",
        max_length=384,
        stride=128,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    none, best, text = float("inf"), -float("inf"), ""
    for row, ids in enumerate(cut["input_ids"]):
        out = plainly(network, ids, cut["token_type_ids"][row])
        start, end = out.start_logits[0], out.end_logits[0]
        none = min(none, float(start[0] + end[0]))
        of_text = [i for i, part in enumerate(cut.sequence_ids(row)) if part == 1]
        score, first, last = brute(start, end, range(of_text[0], of_text[-1] + 1), 30)
        if score > best:
            offsets = cut["offset_mapping"][row]
            best, text = score, passage.text[offsets[first][0] : offsets[last][1]]
    return text, best - none


def is_whole(spans: Sequence[Span], given: Sequence[Passage]) -> bool:
    """Every passage has one span, which stands where it says, and the order is by answerable and confidence."""
    texts = {passage.id: passage.text for passage in given}
    order = sorted(spans, key=lambda span: (not span.answerable, -span.confidence))
    return (
        sorted(span.passage_id for span in spans) == sorted(texts)
        and all(texts[span.passage_id][span.start : span.end] == span.text for span in spans)
        and all(bool(span.text) or not span.answerable for span in spans)
        and order == list(spans)
    )


@pytest.mark.parametrize("span", ["joint", "independent"])
async def test_dpr_reads_as_one_passage_at_a_time_does(transformers: Any, checkpoints: Path, span: Any) -> None:
    given = [passage for passage in passages(40) if len(passage.text.split()) < 200]
    network = transformers.DPRReader.from_pretrained(checkpoints / "dpr").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoints / "dpr")
    reader = DprReader(str(checkpoints / "dpr"), span=span, batch_size=7)
    answered = 0
    for question in QUESTIONS[:2]:
        spans = await reader.read(question, [_short_title(passage) for passage in given])
        assert is_whole(spans, given)
        for passage in map(_short_title, given):
            (found,) = [span for span in spans if span.passage_id == passage.id]
            text, relevance = dpr_reference(network, tokenizer, question, passage, span)
            assert found.text == text
            assert found.answerable == bool(text)
            assert found.confidence == pytest.approx(relevance, abs=1e-4)
            answered += found.answerable
    assert answered == 2 * len(given) if span == "joint" else answered < 2 * len(given)


def _short_title(passage: Passage) -> Passage:
    """The reference leaves titles whole."""
    return Passage(passage.id, passage.title[:40], passage.text)


async def test_squad_reads_as_one_passage_at_a_time_does(transformers: Any, checkpoints: Path) -> None:
    given = passages(30)
    network = transformers.AutoModelForQuestionAnswering.from_pretrained(checkpoints / "squad").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoints / "squad")
    reader = SquadReader(str(checkpoints / "squad"), batch_size=5)
    for question in QUESTIONS[:2]:
        spans = await reader.read(question, given)
        assert is_whole(spans, given)
        for passage in given:
            (found,) = [span for span in spans if span.passage_id == passage.id]
            text, margin = squad_reference(network, tokenizer, question, passage)
            assert found.text == text
            assert found.answerable == (margin > 0)
            assert found.confidence == pytest.approx(1 / (1 + np.exp(-margin)), abs=1e-4)


@pytest.mark.parametrize("name", ["dpr", "squad"])
async def test_company_in_a_batch_changes_no_span(checkpoints: Path, name: str) -> None:
    """Alone, all together, and many questions at once from several threads with loops of their own."""
    given = passages(12, seed=1)
    reader = as_reader(open_reader(f"{name}:{checkpoints / name}"))
    alone = {
        (question, passage.id): (await reader.read(question, [passage], None))[0]
        for question in QUESTIONS
        for passage in given
    }

    def several(seed: int) -> list[tuple[str, list[Span]]]:
        async def together() -> list[list[Span]]:
            return await asyncio.gather(*(reader.read(question, mixed, None) for question in QUESTIONS))

        mixed = random.Random(seed).sample(given, len(given))
        return list(zip(QUESTIONS, asyncio.run(together()), strict=True))

    with ThreadPoolExecutor(3) as pool:
        for question, spans in (found for each in pool.map(several, range(3)) for found in each):
            assert is_whole(spans, given)
            for span in spans:
                expected = alone[question, span.passage_id]
                assert (span.start, span.end, span.answerable) == (expected.start, expected.end, expected.answerable)
                assert span.confidence == pytest.approx(expected.confidence, abs=1e-4)


async def test_a_passage_longer_than_a_window_is_read_to_its_end(checkpoints: Path) -> None:
    """Of a DPR reader's windows the most relevant counts: over many passages it is now and then a later one."""
    reader = DprReader(str(checkpoints / "dpr"), max_tokens=256, stride=32)
    given = [passage for passage in passages(40, seed=2) if len(passage.text.split()) > 600]
    given.append(Passage("no tokens", "Dark Mill", "\u200b"))
    spans = await reader.read(QUESTIONS[0], given)
    assert is_whole(spans, given)
    assert [span.passage_id for span in spans if not span.answerable] == ["no tokens"]
    assert any(span.start > 1000 for span in spans)


def test_a_pipeline_reads_with_a_checkpoint_by_name(checkpoints: Path) -> None:
    """SearChain over it: the trace has its spans, and the threshold is its own."""
    given = [Passage("1", "Dark Mill", "Dark Mill was made by Rolf Anders."), Passage("2", "Paris", "A city.")]
    with polyhop.Pipeline(given, "searchain", "pocket", reader=f"dpr:{checkpoints / 'dpr'}", cache=False) as pipeline:
        assert getattr(pipeline.engine.reader, "threshold", None) == 1.5
        answer = pipeline.ask("Who made Dark Mill?")
    (read, *_) = [step for step in answer.trace.steps if isinstance(step, Readout)]
    (span,) = read.spans
    assert span.text == {passage.id: passage.text for passage in given}[span.passage_id][span.start : span.end] != ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
async def test_half_precision_reads_too(checkpoints: Path, dtype: Any) -> None:
    given = passages(5)
    exact = await DprReader(str(checkpoints / "dpr")).read(QUESTIONS[0], given)
    halves = await DprReader(str(checkpoints / "dpr"), dtype=dtype, device="cpu").read(QUESTIONS[0], given)
    assert is_whole(halves, given)
    confidences = {span.passage_id: span.confidence for span in exact}
    assert all(span.confidence == pytest.approx(confidences[span.passage_id], abs=0.3) for span in halves)
    assert halves != exact


async def test_what_is_no_reader_is_refused(checkpoints: Path, tmp_path: Path) -> None:
    given = passages(1)
    with pytest.raises(UsageError, match="no DPR reader but a bert checkpoint: try squad:"):
        await DprReader(str(checkpoints / "squad")).read("?", given)
    with pytest.raises(UsageError, match=r"lacks 2 weights, such as qa_outputs\.bias"):
        await SquadReader(str(checkpoints / "bert")).read("?", given)
    with pytest.raises(SettingError, match=r"max_tokens=513: .* takes at most 512 tokens"):
        await SquadReader(str(checkpoints / "squad"), max_tokens=513).read("?", given)
    with pytest.raises(DataError, match="cannot be opened"):
        await SquadReader(str(tmp_path)).read("?", given)


@pytest.mark.filterwarnings(
    "ignore:Converting a tensor to a Python boolean", "ignore:Exporting aten..index:UserWarning"
)
@pytest.mark.filterwarnings("ignore:You are using the legacy TorchScript:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The feature will be removed:DeprecationWarning:torch")
async def test_onnx_reads_as_torch_does(transformers: Any, checkpoints: Path, words: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    import torch

    names = ["input_ids", "attention_mask", "token_type_ids"]
    outputs = ["start_logits", "end_logits"]
    torch.onnx.export(
        transformers.AutoModelForQuestionAnswering.from_pretrained(checkpoints / "squad").eval(),
        tuple(torch.ones(2, 7, dtype=torch.long) for _ in names),
        tmp_path / "model.onnx",
        input_names=names,
        output_names=outputs,
        dynamic_axes={name: {0: "windows", 1: "tokens"} for name in [*names, *outputs]},
        dynamo=False,
    )
    (tmp_path / "tokenizer.json").write_text(words.read_text())
    given = passages(30, seed=3)
    by_torch = await SquadReader(str(checkpoints / "squad")).read(QUESTIONS[2], given)
    by_onnx = await as_reader(open_reader(f"onnx:{tmp_path}")).read(QUESTIONS[2], given, None)
    assert is_whole(by_onnx, given)
    expected = {span.passage_id: span for span in by_torch}
    for span in by_onnx:
        other = expected[span.passage_id]
        assert (span.text, span.start, span.answerable) == (other.text, other.start, other.answerable)
        assert span.confidence == pytest.approx(other.confidence, abs=1e-4)


async def test_an_onnx_folder_that_cannot_be_read_is_named(words: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "tokenizer.json").write_text(words.read_text())
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(DataError, match="cannot be opened"):
        await OnnxReader(tmp_path).read("?", passages(1))
    with pytest.raises(UsageError, match="device='tpu'"):
        await OnnxReader(tmp_path, device="tpu").read("?", passages(1))


class TableReader(NoAnswerReader):
    """Scores a token by its word alone: 0 for no answer and for words not in the table."""

    def __init__(self, words: Path, table: dict[str, tuple[float, float]], **settings: int) -> None:
        sizes = {"max_answer_tokens": 3, "max_tokens": 192, "stride": 16, "batch_size": 2, **settings}
        super().__init__("table", threshold=0.5, **sizes)
        self.words = words
        self.scores = np.zeros((len(VOCAB), 2))
        for word, both in table.items():
            self.scores[VOCAB.index(word)] = both
        self.opened = 0

    def _open(self) -> Any:
        self.opened += 1
        return pytest.importorskip("tokenizers").Tokenizer.from_str(json.dumps(json.loads(self.words.read_text())))

    def _score(self, batch: Batch) -> tuple[Any, Any, Any]:
        assert batch.ids.shape[1] <= self.max_tokens
        assert (batch.ids[batch.mask == 0] == 0).all()
        return self.scores[batch.ids, 0], self.scores[batch.ids, 1], None


@pytest.fixture
def table(words: Path) -> TableReader:
    scores = {"rolf": (2.0, -1.0), "anders": (-1.0, 2.0), "dvorak": (1.0, 1.0), "river": (-5.0, -5.0)}
    return TableReader(words, scores)


async def test_spans_by_hand(table: TableReader) -> None:
    given = [
        Passage("a", "", "The film was  made by Rolf Anders, in Paris."),
        Passage("b", "", "Dvořák was born."),
        Passage("c", "", "river " * 3),
        Passage("d", "", " \n "),
        Passage("e", "", "\u200b"),  # not blank, yet no token
    ]
    spans = await table.read("Who made Rolf Anders?", given)  # the question's own words never answer
    assert [(span.passage_id, span.text, span.start, span.answerable) for span in spans] == [
        ("a", "Rolf Anders", 22, True),
        ("b", "Dvořák", 0, True),
        ("c", "river", 0, False),
        ("e", "", 0, False),
    ]
    assert [span.confidence for span in spans] == pytest.approx(
        [1 / (1 + np.exp(-score)) for score in (4, 2, -10, -np.inf)]
    )


async def test_an_answer_is_found_wherever_it_stands_in_a_long_passage(table: TableReader) -> None:
    """Also across the end of a window, for windows overlap by more than an answer is long."""
    for before in range(100, 400, 7):
        text = f"{'river ' * before}Rolf Anders{' river' * 150}"
        (span,) = await table.read("who was " * 60, [Passage("1", "", text)])
        assert (span.text, span.start) == ("Rolf Anders", 6 * before)
    assert table.opened == 1


async def test_scores_that_are_no_numbers_are_an_error(words: Path) -> None:
    reader = TableReader(words, {"rolf": (float("nan"), 0.0)})
    with pytest.raises(UsageError, match="not numbers"):
        await reader.read("?", [Passage("1", "", "Rolf")])
    assert [span.text for span in await reader.read("?", [Passage("1", "", "Anders")])] == ["Anders"]


async def test_a_read_may_choose_how_spans_are_picked(checkpoints: Path) -> None:
    """As a reader made for it would pick them; what is read beside it is picked as before."""
    given, folder = passages(20, seed=3), str(checkpoints / "dpr")
    made = {"joint": DprReader(folder, span="joint"), "independent": DprReader(folder, span="independent")}
    expected = {name: await reader.read(QUESTIONS[0], given) for name, reader in made.items()}
    assert expected["joint"] != expected["independent"]
    chosen = [None, "joint", "independent", None]
    for name, reader in made.items():
        found = await asyncio.gather(*(reader.read(QUESTIONS[0], given, span=span) for span in chosen))  # type: ignore[arg-type]
        for spans, span in zip(found, chosen, strict=True):
            wanted = expected[span or name]
            assert [(s.passage_id, s.text, s.answerable) for s in spans] == [
                (s.passage_id, s.text, s.answerable) for s in wanted
            ]


def test_searchains_span_reaches_the_checkpoint(checkpoints: Path) -> None:
    given = passages(8, seed=3)
    name = f"dpr:{checkpoints / 'dpr'}"
    spans: dict[str, list[Span]] = {}
    for span in ("joint", "independent"):
        with polyhop.Pipeline(given, "searchain", "pocket", reader=name, cache=False, span=span, k=8) as pipeline:
            answer = pipeline.ask("Who made the Dark Mill?")
        spans[span] = [found for step in answer.trace.steps if isinstance(step, Readout) for found in step.spans]
    assert [s.text for s in spans["joint"]] != [s.text for s in spans["independent"]]
    with pytest.raises(SettingError, match=r"squad:.* selects spans in its own way"):
        polyhop.Pipeline(given, "searchain", "pocket", reader=f"squad:{checkpoints / 'squad'}", span="joint")
