"""Ranking paths by likelihood: seconds per question compared with a plain implementation, on the same random model.

    .venv-all/bin/python -m benchmarks.promptrank --check

A question of PromptRank (Khalifa et al., 2023): 100 passages are scored with 5 instructions each, the 5 best are
extended by 3 links each, and the 15 paths of two passages are scored in the same way. Ours calls ``hf:`` as the method
does, a whole hop at once. The plain implementation scores one prompt at a time, computes every logit and caches
nothing; it scores 145 paths, because the published code's loop scores the second hop three times. Passages have 230
tokens, the question 25.

The plain implementation is timed on a sample and scaled up. For ours, 40 passages and 6 paths of two are timed and
scaled: with all instructions for a causal model, which shares passages between them, and with one for an
encoder-decoder, which shares nothing (``--whole`` times all, ``--quick`` half as much). Ratios are of CPU time on one
thread, which other work on the machine disturbs least. ``again`` is another question over the same paths, as if many
questions rerank one set. Bars for bfloat16 apply to CPUs with AMX.

``--gpu`` times a model of T5-XL's shape instead. The paper reports 1.38 s per question with one instruction and 5.22 s
with its ensemble, on a Quadro RTX 8000.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from polyhop.common.extras import require
from polyhop.common.text import counted
from polyhop.lm import ScoreRequest, TokenScores
from polyhop.lm.hf import TransformersLM

FIRST, KEEP, LINKS, INSTRUCTIONS = 100, 5, 3, 5
PLAIN_SECOND_HOP = 45  # KEEP x LINKS, three times over
PASSAGE, QUESTION, INSTRUCTION = 230, 25, 10  # tokens
TEMPERATURE = 1.4
SHAPES: dict[str, dict[str, Any]] = {
    "t5-base": {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12, "vocab_size": 32128},
    "t5-xl": {
        "d_model": 2048,
        "d_kv": 64,
        "d_ff": 5120,
        "num_layers": 24,
        "num_heads": 32,
        "vocab_size": 32128,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
    },
    "gpt2": {"vocab_size": 50257, "n_positions": 1024},
}
Dtype = Literal["float32", "bfloat16"]
Path_ = tuple[int, ...]
"""The indices of a path's passages."""


@dataclass(frozen=True)
class Spent:
    """The seconds of wall time and of CPU time."""

    wall: float
    cpu: float

    def times(self, factor: float) -> Spent:
        """Return the time of ``factor`` times the work."""
        return Spent(self.wall * factor, self.cpu * factor)

    def plus(self, other: Spent) -> Spent:
        """Return the sum of both times."""
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


@dataclass(frozen=True)
class Row:
    """A row of the table: the time of an implementation per question, and the ratio it must reach, if any."""

    name: str
    paths: int
    spent: Spent
    plain: Spent
    bar: float | None = None

    @property
    def ratio(self) -> float:
        """The ratio of the plain implementation's CPU time to this one's."""
        return self.plain.cpu / self.spent.cpu

    def __str__(self) -> str:
        bar = "" if self.bar is None else f"{self.bar:>7.0f}"
        a_second = self.paths * INSTRUCTIONS / self.spent.wall
        return (
            f"{self.name:<34}{self.paths:>6}{self.spent.wall:>9.1f}{self.spent.cpu:>9.1f}{a_second:>11.1f}"
            f"{self.ratio:>9.1f}{bar}"
        )


class Texts:
    """Random passages, instructions and questions, one token per word."""

    def __init__(self, words: int, seed: int = 0) -> None:
        draw = random.Random(seed)
        self._words = [f"w{number}" for number in range(words)]

        def text(count: int) -> str:
            return " ".join(draw.choices(self._words, k=count))

        self.passages = [text(PASSAGE) for _ in range(FIRST + KEEP * LINKS)]
        self.instructions = [text(INSTRUCTION) for _ in range(INSTRUCTIONS)]
        self.questions = [text(QUESTION) for _ in range(3)]

    def prompt(self, path: Path_, instruction: str) -> str:
        """Return the parts of a prompt: documents, instruction, slot of the question."""
        documents = " ".join(f"Document: {self.passages[number]}" for number in path)
        return f"{documents} {instruction} Question:"


def checkpoint(folder: Path, shape: str, dtype: str) -> Path:
    """Write a checkpoint with random weights, and a tokenizer whose words are ``w0``, ``w1`` …"""
    import torch
    import transformers

    tokenizers: Any = require("tokenizers", "hf", "this benchmark")
    size: dict[str, Any] = SHAPES[shape]
    encodes = shape.startswith("t5")
    marks = ["<pad>", "</s>", "<unk>", "Document:", "Question:", ":"]
    vocabulary = {word: number for number, word in enumerate([*marks, *(f"w{n}" for n in range(20_000))])}
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    if encodes:
        own.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        if encodes:
            config = transformers.T5Config(**size, decoder_start_token_id=0)
            model: Any = transformers.T5ForConditionalGeneration(config)
        else:
            config = transformers.GPT2Config(**size, bos_token_id=1, eos_token_id=1)
            model = transformers.GPT2LMHeadModel(config)
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    return folder


@contextmanager
def spending() -> Iterator[list[Spent]]:
    """Append the time of the block to the list."""
    spent: list[Spent] = []
    wall, cpu = time.perf_counter(), time.process_time()
    yield spent
    spent.append(Spent(time.perf_counter() - wall, time.process_time() - cpu))


def mean(scores: TokenScores) -> float:
    """Return PromptRank's score of a prompt: the mean log-probability of the question's tokens."""
    return statistics.fmean(scores.logprobs)


async def score_hop(
    lm: TransformersLM, texts: Texts, paths: Sequence[Path_], instructions: int, question: int
) -> dict[Path_, float]:
    """Return the score of each path, all at once as in the method: the mean over the instructions."""

    async def one(path: Path_) -> float:
        asked = [
            ScoreRequest(
                task="promptrank.path",
                prompt=texts.prompt(path, instruction),
                target=texts.questions[question],
                temperature=TEMPERATURE,
            )
            for instruction in texts.instructions[:instructions]
        ]
        found = await asyncio.gather(*(lm.score([request]) for request in asked))
        return statistics.fmean(mean(scores) for (scores,) in found)

    return dict(zip(paths, await asyncio.gather(*map(one, paths)), strict=True))


async def ours(
    lm: TransformersLM, texts: Texts, first: int, instructions: int, question: int = 0
) -> dict[Path_, float]:
    """Return the score of every path, for both hops of a question."""
    passages: list[Path_] = [(number,) for number in range(first)]
    scores = await score_hop(lm, texts, passages, instructions, question)
    best = sorted(passages, key=lambda path: -scores[path])[: max(1, KEEP * first // FIRST)]
    linked = [(*path, FIRST + i * LINKS + link) for i, path in enumerate(best) for link in range(LINKS)]
    return {**scores, **await score_hop(lm, texts, linked, instructions, question)}


def plain_model(folder: str, pairs: bool) -> Any:
    """Open the same weights with plain transformers."""
    import transformers

    kind = transformers.AutoModelForSeq2SeqLM if pairs else transformers.AutoModelForCausalLM
    return kind.from_pretrained(folder).eval()


def plainly(model: Any, lm: TransformersLM, texts: Texts, path: Path_, instruction: int) -> float:
    """Score one prompt with the plain implementation."""
    import torch

    prompt = list(lm.tokens.prompt(texts.prompt(path, texts.instructions[instruction])))
    target = list(lm.tokens.target(texts.questions[0]))
    with torch.inference_mode():
        if lm.checkpoint.is_encoder_decoder:
            logits = model(input_ids=torch.tensor([prompt]), labels=torch.tensor([target])).logits[0]
            values = (logits / TEMPERATURE).log_softmax(-1)
        else:
            logits = model(input_ids=torch.tensor([prompt + target])).logits[0]
            values = (logits / TEMPERATURE).log_softmax(-1)[len(prompt) - 1 : -1]
        return float(values.gather(1, torch.tensor(target)[:, None]).mean())


def plain_question(
    model: Any, lm: TransformersLM, texts: Texts, sample: Sequence[tuple[Path_, int]]
) -> tuple[Spent, dict[tuple[Path_, int], float]]:
    """Return the plain implementation's time per question, scaled from the sample's prompts; and their scores."""
    plainly(model, lm, texts, *sample[0])  # warm
    found, spent = {}, {1: Spent(0.0, 0.0), 2: Spent(0.0, 0.0)}
    for path, instruction in sample:
        with spending() as seconds:
            found[path, instruction] = plainly(model, lm, texts, path, instruction)
        spent[len(path)] = spent[len(path)].plus(seconds[0])
    counts = {hops: sum(len(path) == hops for path, _ in sample) for hops in (1, 2)}
    whole = {1: FIRST * INSTRUCTIONS, 2: PLAIN_SECOND_HOP * INSTRUCTIONS}
    return spent[1].times(whole[1] / counts[1]).plus(spent[2].times(whole[2] / counts[2])), found


async def singly(
    lm: TransformersLM, texts: Texts, sample: Sequence[tuple[Path_, int]]
) -> dict[tuple[Path_, int], float]:
    """Return our scores of single prompts."""
    requests = [
        ScoreRequest(
            task="promptrank.path",
            prompt=texts.prompt(path, texts.instructions[instruction]),
            target=texts.questions[0],
            temperature=TEMPERATURE,
        )
        for path, instruction in sample
    ]
    return dict(zip(sample, map(mean, await lm.score(requests)), strict=True))


async def timed(lm: TransformersLM, texts: Texts, first: int) -> tuple[dict[Path_, float], Spent, Spent]:
    """Return the scores of a question, its time, and the time of another question over the same paths."""
    other = Texts(20_000, seed=1)
    await ours(lm, other, 4, 1)  # opens and warms
    instructions = 1 if lm.checkpoint.is_encoder_decoder else INSTRUCTIONS
    factor = FIRST / first * INSTRUCTIONS / instructions
    with spending() as once:
        scores = await ours(lm, texts, first, instructions)
    with spending() as again:
        await score_hop(lm, texts, list(scores), instructions, question=1)
    return scores, once[0].times(factor), again[0].times(factor)


def measure(shape: str, texts: Texts, first: int) -> tuple[list[Row], list[str]]:
    """Return the rows of one shape, and failures other than missed bars."""
    encodes, paths = shape.startswith("t5"), FIRST + KEEP * LINKS
    with tempfile.TemporaryDirectory() as folder:
        checkpoint(Path(folder), shape, "float32")
        lm = opened(folder, "float32")
        exact, once, again = asyncio.run(timed(lm, texts, first))
        twos = [path for path in exact if len(path) == 2]
        sample = [*(((n,), n % INSTRUCTIONS) for n in range(6)), *((path, 0) for path in twos[:3])]
        network = plain_model(folder, lm.checkpoint.is_encoder_decoder)
        plain, plain_scores = plain_question(network, lm, texts, sample)
        mine = asyncio.run(singly(lm, texts, sample))
        asyncio.run(lm.aclose())
        lm = opened(folder, "bfloat16")
        close, half, half_again = asyncio.run(timed(lm, texts, first))
        asyncio.run(lm.aclose())
    fast = has_amx()
    rows = [
        Row(f"{shape}, plain, float32", FIRST + PLAIN_SECOND_HOP, plain, plain),
        Row(f"{shape}, float32", paths, once, plain, 2 if encodes else 6),
        Row(f"{shape}, float32, again", paths, again, plain, None if encodes else 10),
        Row(f"{shape}, bfloat16", paths, half, plain, 6 if encodes and fast else None),
        Row(f"{shape}, bfloat16, again", paths, half_again, plain, 10 if encodes and fast else None),
    ]
    same = sorted(sample, key=mine.__getitem__) == sorted(sample, key=plain_scores.__getitem__)
    off = max(abs(mine[one] - plain_scores[one]) for one in sample)
    shared = len(set(best(exact)) & set(best(close)))
    print(
        f"{shape}: {counted(len(sample), 'prompts')} scored both ways rank {'alike' if same else 'DIFFERENTLY'}, "
        f"at most {off:.1e}"
    )
    print(f"nats apart in float32; {len(exact)} paths scored; top 10 of bfloat16 and float32 share {shared}\n")
    problems = [] if same and off < 1e-4 else [f"{shape}: not the plain way's scores"]
    if len(exact) != paths * first // FIRST:
        problems.append(f"{shape}: {len(exact)} paths scored, {paths * first // FIRST} are needed")
    return rows, problems


def best(scores: dict[Path_, float]) -> list[Path_]:
    """Return the ten best paths."""
    return sorted(scores, key=lambda path: -scores[path])[:10]


def opened(folder: str, dtype: Dtype, device: str = "cpu") -> TransformersLM:
    """Open the model, with a cache large enough for all prompts of a question."""
    return TransformersLM(folder, dtype=dtype, device=device, cache_mib=4096)


def has_amx() -> bool:
    """Return True if this CPU multiplies bfloat16 matrices in tiles (AMX)."""
    import torch

    return bool(getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)())


def on_gpu() -> None:
    """Measure T5-XL's shape on the GPU: seconds per question and peak memory."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("--gpu: torch sees no GPU here")
    texts = Texts(20_000)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint(Path(folder), "t5-xl", "bfloat16")
        lm = opened(folder, "bfloat16", "cuda")

        async def seconds(instructions: int, question: int) -> float:
            with spending() as spent:
                await ours(lm, texts, FIRST, instructions, question)
            return spent[0].wall

        async def both() -> list[float]:
            await ours(lm, Texts(20_000, seed=1), FIRST, 1)  # opens and warms
            found = []
            for instructions in (1, INSTRUCTIONS):
                lm.state_cache.clear()
                torch.cuda.reset_peak_memory_stats()
                found.append(await seconds(instructions, 0))
            found.append(await seconds(INSTRUCTIONS, 1))
            await lm.aclose()
            return found

        one, ensemble, again = asyncio.run(both())
    print(f"t5-xl shape, bfloat16, {torch.cuda.get_device_name()}: seconds per question")
    print(f"one instruction {one:.2f} (published 1.38), {INSTRUCTIONS} {ensemble:.2f} (published 5.22), ", end="")
    print(f"again {again:.2f}; peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


def main() -> None:
    """Measure, print the table and, with ``--check``, check the bars."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--quick", action="store_true", help="20 passages of 100, scaled up")
    parser.add_argument("--whole", action="store_true", help="all 100 passages, nothing scaled but the plain way")
    parser.add_argument("--threads", type=int, default=1, help="of torch, on the CPU")
    parser.add_argument("--gpu", action="store_true", help="T5-XL's shape on the GPU, nothing else")
    parser.add_argument("--shape", choices=("t5-base", "gpt2"), action="append", help="only this one")
    options = parser.parse_args()
    if options.gpu:
        on_gpu()
        return
    torch.set_num_threads(options.threads)
    first = FIRST if options.whole else 20 if options.quick else 40
    rows: list[Row] = []
    failures: list[str] = []
    for shape in options.shape or ("t5-base", "gpt2"):
        measured, problems = measure(shape, Texts(20_000), first)
        rows += measured
        failures += problems
    print(f"{'per question':<34}{'paths':>6}{'wall s':>9}{'CPU s':>9}{'prompts/s':>11}{'ratio':>9}{'bar':>7}")
    print(*rows, sep="\n")
    failures += [
        f"{row.name}: {row.ratio:.1f} x, the bar is {row.bar:g}" for row in rows if row.bar and row.ratio < row.bar
    ]
    if options.check and failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
