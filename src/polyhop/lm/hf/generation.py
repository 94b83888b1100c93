"""Writing text: continuations of prompts, and the gaps of a text."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple

from polyhop.common.batching import batches
from polyhop.errors import UsageError
from polyhop.lm.hf.causal import MIN_SHARED
from polyhop.lm.hf.checkpoint import Checkpoint, Dtype
from polyhop.lm.hf.layers import cache_argument
from polyhop.lm.hf.scoring import Ids, padded
from polyhop.lm.hf.tokens import Tokens
from polyhop.lm.reply import answer_spans
from polyhop.lm.verdicts import verdict

COLUMNS = 512
"""Columns of several prompts that are read at once, because attention is computed for masked tokens too."""


class Writing(NamedTuple):
    """A prompt to continue, and its settings. ``seed``: None for a draw that is not repeatable. ``yes_or_no``: a token
    that states yes or no has its probability among all that do. ``whole``: thoughts are text as the rest is."""

    prompt: Ids
    max_tokens: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    yes_or_no: bool = False
    whole: bool = False


class Written(NamedTuple):
    """The tokens written, an end mark left out, and the natural log-probability of each at temperature 1."""

    ids: list[int]
    logprobs: list[float]
    finished: bool


class Writer:
    """Generates text, greedily at temperature 0, else by sampling. The draw of a seed does not depend on the other
    texts of a batch, up to the last digits of the logits. ``max_tokens`` limits a batch.

    With ``shares``, for a causal model whose states can be set at any position, the prompts' common prefix is read
    once, and the rest ``COLUMNS`` at a time.
    """

    def __init__(self, model: Any, tokens: Tokens, *, is_encoder_decoder: bool, max_tokens: int, shares: bool) -> None:
        self.model, self.tokens, self.max_tokens = model, tokens, max_tokens
        self._is_encoder_decoder, self._shares = is_encoder_decoder, shares
        ends = model.generation_config.eos_token_id
        self._ends = set(ends if isinstance(ends, list) else [ends])
        self._takes = inspect.signature(model.forward).parameters
        self._cache = str(cache_argument(model.forward))

    def __call__(self, asked: Sequence[Writing]) -> list[Written]:
        """Return the texts, in order."""
        import torch

        found: dict[int, Written] = {}
        with torch.inference_mode():
            for numbers in batches(
                range(len(asked)), lambda n: len(asked[n].prompt) + asked[n].max_tokens, self.max_tokens
            ):
                found.update(zip(numbers, self._write([asked[number] for number in numbers]), strict=True))
        return [found[number] for number in range(len(asked))]

    def _write(self, asked: Sequence[Writing]) -> list[Written]:
        rows = [_Row(writing) for writing in asked]
        inputs = self._begin([writing.prompt for writing in asked])
        while True:
            out = self._run(inputs)
            logits = out.logits[:, -1].float()
            drawn = logits.argmax(-1, keepdim=True)
            for i, row in enumerate(rows):
                if row.asked.temperature > 0 and not row.done:
                    drawn[i] = row.draw(logits[i])
            values = logits.gather(1, drawn) - logits.logsumexp(-1, keepdim=True)
            for i, row in enumerate(rows):
                if row.asked.yes_or_no and not row.done and (own := self._verdicts.get(int(drawn[i]))) is not None:
                    values[i] = self._against_other(logits[i], own)
            for row, token, value in zip(rows, drawn[:, 0].tolist(), values[:, 0].tolist(), strict=True):
                if not row.done:
                    row.take(token, value, self._ends, self.tokens)
            if all(row.done for row in rows):
                return [Written(row.ids, row.logprobs, row.finished) for row in rows]
            inputs = self._next(inputs, out[self._cache], drawn)

    @cached_property
    def _verdicts(self) -> dict[int, bool]:
        """The tokens that state yes or no."""
        stated = ((number, verdict(token)) for token, number in self.tokens.vocabulary().items())
        return {number: value for number, value in stated if value is not None}

    def _against_other(self, logits: Any, own: bool) -> float:
        """Return the log-probability of a verdict among yes and no."""
        same = [number for number, value in self._verdicts.items() if value is own]
        return float(logits[same].logsumexp(0) - logits[list(self._verdicts)].logsumexp(0))

    def _run(self, inputs: dict[str, Any]) -> Any:
        return self.model(**{name: value for name, value in inputs.items() if name in self._takes}, use_cache=True)

    def _begin(self, prompts: Sequence[Ids]) -> dict[str, Any]:
        """Return the inputs of the first step: prompts padded on the left, or encoded."""
        import torch

        device = self.model.device
        ids, mask = (
            torch.from_numpy(part).to(device) for part in padded(prompts, 0, left=not self._is_encoder_decoder)
        )
        if self._is_encoder_decoder:
            start = torch.full((len(prompts), 1), self.model.config.decoder_start_token_id, device=device)
            encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
            return {"encoder_outputs": encoded, "attention_mask": mask, "decoder_input_ids": start}
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "logits_to_keep": 1}
        return self._ahead(prompts, inputs) if self._shares and len(prompts) > 1 else inputs

    def _ahead(self, prompts: Sequence[Ids], inputs: dict[str, Any]) -> dict[str, Any]:
        """Read all but the last columns: the common prefix, then ``COLUMNS`` at a time; return the remaining inputs."""
        done, width = _shared(prompts), inputs["input_ids"].shape[1]
        past = self._read(prompts[0][:done], inputs["position_ids"][:, :done]) if done else None
        while width - done > COLUMNS:
            past = self._run(self._columns(inputs, past, done, done + COLUMNS))[self._cache]
            done += COLUMNS
        return self._columns(inputs, past, done, width)

    def _columns(self, inputs: dict[str, Any], past: Any, start: int, stop: int) -> dict[str, Any]:
        """Return the columns ``start`` to ``stop`` of ``inputs``, after the ``past``."""
        return {
            **inputs,
            self._cache: past,
            "input_ids": inputs["input_ids"][:, start:stop],
            "attention_mask": inputs["attention_mask"][:, :stop],
            "position_ids": inputs["position_ids"][:, start:stop],
        }

    def _read(self, shared: Ids, positions: Any) -> Any:
        """Return the states of the common prefix, with its tokens at ``positions``: (rows, columns)."""
        import torch

        ids = torch.tensor([shared], device=self.model.device)
        past = self._run({"input_ids": ids, "logits_to_keep": 1})[self._cache]
        for layer in past.layers:
            layer.keys, layer.values = (part[0][:, positions].transpose(0, 1) for part in (layer.keys, layer.values))
        return past

    def _next(self, inputs: dict[str, Any], past: Any, drawn: Any) -> dict[str, Any]:
        """Return the inputs of the next step: the drawn tokens, (rows, 1)."""
        import torch

        if self._is_encoder_decoder:
            return {**inputs, self._cache: past, "decoder_input_ids": drawn}
        mask = torch.cat([inputs["attention_mask"], torch.ones_like(drawn)], 1)
        positions = inputs["position_ids"][:, -1:] + 1
        return {
            **inputs,
            self._cache: past,
            "input_ids": drawn,
            "attention_mask": mask,
            "position_ids": positions,
        }


class _Row:
    """A text in progress."""

    def __init__(self, asked: Writing) -> None:
        import torch

        self.asked, self.done, self.finished = asked, False, False
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self._random = torch.Generator()
        if asked.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(asked.seed)

    def draw(self, logits: Any) -> int:
        import torch

        chances = (logits / self.asked.temperature).softmax(-1).cpu()
        return int(torch.multinomial(chances, 1, generator=self._random))

    def take(self, token: int, logprob: float, ends: set[int], tokens: Tokens) -> None:
        if token in ends:
            self.done = self.finished = True
            return
        self.ids.append(token)
        self.logprobs.append(logprob)
        if self.asked.stop and stopped(tokens.text(self.ids), self.asked.stop, whole=self.asked.whole) is not None:
            self.done = self.finished = True
        elif len(self.ids) >= self.asked.max_tokens:
            self.done = True


def _shared(prompts: Sequence[Ids]) -> int:
    """Count the tokens that all prompts begin with, except their last, whose logits are needed; 0 if few."""
    first, last = min(prompts)[:-1], max(prompts)  # what these two share, all share
    count = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return count if count >= MIN_SHARED else 0


def stopped(text: str, stop: Sequence[str], *, whole: bool = False) -> int | None:
    """Find the first stop in a reply outside its reasoning, or anywhere if it counts ``whole``; None without one.

    >>> stopped("<think>One.\\nTwo.</think>Paris\\nRome", ["\\n"])
    29
    """
    spans = [(0, len(text))] if whole else answer_spans(text)[0]
    starts = (text.find(word, start, end) for start, end in spans for word in stop)
    return min((i for i in starts if i >= 0), default=None)


# --- gaps -------------------------------------------------------------------------------------------------------------

GAP = "<extra_id_{}>"
"""The vocabulary's mark of gap number n, from 0."""

AT_ONCE = 50
"""Maximum number of texts per batch."""


class SpanFiller:
    """Fills the gaps of a text. T5 and T5 v1.1 were trained to; the LM-adapted checkpoints have unlearnt it.

    Raises ``UsageError`` for a checkpoint that knows no gaps, and what ``Checkpoint`` raises.
    """

    def __init__(self, path_or_name: str, *, device: str | None = None, dtype: Dtype = "float32") -> None:
        self.name = f"hf:{path_or_name}"
        self._checkpoint = Checkpoint(self.name, path_or_name, device, dtype)
        vocabulary: dict[str, int] = self._checkpoint.tokens.vocabulary() if self._checkpoint.is_encoder_decoder else {}
        self._gaps = [vocabulary[GAP.format(n)] for n in takewhile(lambda n: GAP.format(n) in vocabulary, range(100))]
        if not self._gaps:
            raise UsageError(f"{self.name} fills no gaps: a T5 with {GAP.format(0)} in its vocabulary does, as t5-base")
        self._model: Any = None

    def __call__(
        self, text: str, count: int, seed: int = 0, *, top_k: int = 10, max_tokens: int = 40
    ) -> list[list[str]]:
        """Draw ``count`` fillings of a text, whose gaps are written as in the vocabulary. A filling is a list of texts,
        one per gap in order, up to the first gap that the model left out. Tokens are drawn from the ``top_k`` most
        probable; the same seed gives the same draws."""
        import torch

        self._model = self._model or self._checkpoint.model()
        prompt = self._checkpoint.tokens.marked(text)
        ids = torch.tensor([prompt], device=self._model.device)
        gaps = [gap for gap in self._gaps if gap in prompt]
        found: list[list[str]] = []
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            while len(found) < count:
                drawn = self._model.generate(
                    input_ids=ids,
                    do_sample=True,
                    top_k=top_k,
                    num_return_sequences=min(AT_ONCE, count - len(found)),
                    max_new_tokens=max_tokens,
                )
                found += [self._spans(row, gaps) for row in drawn.tolist()]
        return found

    def _spans(self, ids: Sequence[int], gaps: Sequence[int]) -> list[str]:
        """Return the text after each gap's mark in order, up to the next mark of any."""
        spans: list[list[int]] = []
        for number in ids:
            if number in gaps[len(spans) : len(spans) + 1]:
                spans.append([])
            elif number in self._gaps:
                break
            elif spans:
                spans[-1].append(number)
        return [self._checkpoint.tokens.text(span).strip() for span in spans]
