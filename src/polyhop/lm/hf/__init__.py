"""``TransformersLM``: a checkpoint of transformers as a language model, on this computer's CPU or GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from polyhop.errors import CapabilityError, LMError, SettingError, ToolsRefused, UsageError
from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores, TokenUsage
from polyhop.lm.batcher import Batcher
from polyhop.lm.hf.causal import CausalScorer
from polyhop.lm.hf.checkpoint import Checkpoint, Dtype
from polyhop.lm.hf.generation import Writer, Writing, Written, stopped
from polyhop.lm.hf.scoring import Ids, Job, StateCache
from polyhop.lm.hf.seq2seq import Seq2SeqScorer
from polyhop.lm.hf.tokens import Tokens
from polyhop.lm.reply import answer_spans, answer_tokens
from polyhop.lm.tool_text import with_calls

Overlong = Literal["error", "cut"]
_AnyRequest = Request | ScoreRequest


class TransformersLM:
    """A model of transformers: an encoder-decoder of T5's family, or a causal model of GPT-2's or Llama's. It needs a
    fast tokenizer and safetensors.

    ``path_or_name``: a folder, read without the network, else a name on the Hugging Face hub. Settings and tokenizer
    are read at once, weights at the first call. One thread does all the work: concurrent calls of ``complete`` and
    ``score``, from any loop, share batches.

    ``device``: torch's name; None is CUDA if available, else the CPU. ``max_batch_tokens`` limits a batch, including
    padding and cached tokens. None is 16384 on a GPU, and on a CPU 4096, or 1024 for an encoder-decoder; on a CPU
    generation uses four times as many, since after the prompts a step has only one token per row. ``cache_mib``: memory
    on the device for the states of prompts (encoder outputs, or keys and values), for prompts that come again or begin
    alike. ``overlong``: a prompt that is too long for the model is an error, or with "cut" it loses its beginning,
    which is farthest from the reply.

    ``score``: a causal model's target follows the prompt after a space and has no end mark; an encoder-decoder's is the
    decoder's output, end mark included (see ``hf.tokens``). A score does not depend on other requests, except in its
    last digits (below 1e-5 in float32).

    Raises ``MissingExtra`` without torch and transformers, ``DataError`` for a checkpoint that cannot be opened,
    ``UsageError`` for one of another kind, ``SettingError`` for invalid settings; ``complete`` and ``score`` raise
    ``LMError`` if the prompt is too long or memory runs out.
    """

    def __init__(
        self,
        path_or_name: str,
        *,
        device: str | None = None,
        dtype: Dtype = "float32",
        max_batch_tokens: int | None = None,
        cache_mib: int = 1024,
        overlong: Overlong = "error",
    ) -> None:
        if max_batch_tokens is not None and max_batch_tokens < 1:
            raise SettingError(f"max_batch_tokens={max_batch_tokens}: must be at least 1")
        if cache_mib < 0:
            raise SettingError(f"cache_mib={cache_mib}: must be 0, for none, or more")
        if overlong not in ("error", "cut"):
            raise SettingError(f"overlong={overlong!r}: must be 'error' or 'cut'")
        self.name = f"hf:{path_or_name}"
        self.checkpoint = Checkpoint(self.name, path_or_name, device, dtype)
        self.tokens: Tokens = self.checkpoint.tokens
        self.overlong = overlong
        gpu = self.checkpoint.device != "cpu"
        usual = 16384 if gpu else 1024 if self.checkpoint.is_encoder_decoder else 4096
        self.max_batch_tokens = max_batch_tokens or usual
        self._max_written_tokens = max_batch_tokens or (usual if gpu else 4 * usual)
        self.state_cache = StateCache(cache_mib * 2**20)
        can = self.checkpoint.scores
        self.capabilities = Capabilities(
            chat=self.tokens.chats,
            token_logprobs=True,
            score=can,
            score_any=can,
            score_temperature=can,
            seed=True,
            tools=self.tokens.takes_tools,
            continues=not self.checkpoint.is_encoder_decoder,
        )
        self.identity = f"{self.name} {self.checkpoint.fingerprint} {dtype} {overlong}"
        """Identifies this model's answers in a cache."""
        self._batcher: Batcher[_AnyRequest, Any] = Batcher(self._do, name=self.name)
        self._running: _Running | None = None

    def __repr__(self) -> str:
        return f"TransformersLM({self.name!r})"

    def count_tokens(self, text: str) -> int:
        """Count the tokens of ``text``, without marks at its ends."""
        return self.tokens.count(text)

    def truncate(self, text: str, tokens: int) -> str:
        """Cut ``text`` at its end to at most ``tokens`` tokens."""
        return self.tokens.truncate(text, tokens)

    async def complete(self, request: Request) -> Completion:
        """Continue a chat by the model's chat template if it has one, else the turns joined by blank lines.

        Log-probabilities are those before the temperature. A seed gives the same draw again. Tools go through the
        template; if it shows none, ``ToolsRefused`` is raised. A ``tool_choice`` other than "none" is the model's own.
        """
        if request.tools and not self.capabilities.tools:
            raise ToolsRefused(f"{self.name} does not take tools: its chat template shows none")
        (reply,) = await self._batcher([request])
        return reply  # type: ignore[no-any-return]

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Return the target's tokens as the vocabulary spells them, and the natural log-probability of each."""
        if not self.capabilities.score:
            raise CapabilityError(
                f"{self.name} cannot score given text: T5's, GPT-2's, OPT's and Llama's families can, and pocket"
            )
        if wrong := [request.temperature for request in requests if not request.temperature > 0]:
            raise UsageError(f"temperature={wrong[0]}: scores need one above 0")
        return await self._batcher(requests)

    async def aclose(self) -> None:
        """Finish the calls in flight, end the thread, release the weights; a later call opens them again."""
        await self._batcher.aclose()
        self._running = None
        self.state_cache.clear()

    def _do(self, requests: Sequence[_AnyRequest]) -> list[TokenScores | Completion]:
        """Answer requests of both kinds, in order, on the worker thread."""
        import torch

        running = self._running = self._running or self._open()
        scorings = {
            n: self._scoring(request) for n, request in enumerate(requests) if isinstance(request, ScoreRequest)
        }
        writings = {n: self._writing(request) for n, request in enumerate(requests) if isinstance(request, Request)}
        jobs = {n: job for n, job in scorings.items() if job.target}
        try:
            scores = dict(zip(jobs, running.score(list(jobs.values())), strict=True))
            written = dict(zip(writings, running.write(list(writings.values())), strict=True))
        except torch.cuda.OutOfMemoryError as error:
            raise LMError(
                f"{self.name} ran out of memory on {self.checkpoint.device}: lower max_batch_tokens (now "
                f"{self.max_batch_tokens}) or cache_mib (now {self.state_cache.max_bytes // 2**20})"
            ) from error
        return [
            self._completion(request, writings[n], written[n])
            if isinstance(request, Request)
            else TokenScores(self.tokens.names(scorings[n].target), tuple(scores.get(n, ())))
            for n, request in enumerate(requests)
        ]

    def _open(self) -> _Running:
        model, is_encoder_decoder = self.checkpoint.model(), self.checkpoint.is_encoder_decoder
        scorer = Seq2SeqScorer if is_encoder_decoder else CausalScorer
        return _Running(
            scorer(model, max_tokens=self.max_batch_tokens, state_cache=self.state_cache),
            Writer(
                model,
                self.tokens,
                is_encoder_decoder=is_encoder_decoder,
                max_tokens=self._max_written_tokens,
                shares=self.checkpoint.scores,
            ),
        )

    def _scoring(self, request: ScoreRequest) -> Job:
        prompt, target = self.tokens.prompt(request.prompt), self.tokens.target(request.target)
        return Job(self._fitting(prompt, len(target)), target, request.temperature)

    def _writing(self, request: Request) -> Writing:
        limit = self.checkpoint.max_tokens
        prompt = (
            self.tokens.begun(request.messages, as_text=request.continues == "text")
            if request.continues
            else self.tokens.chat(request.messages, () if request.tool_choice == "none" else request.tools)
        )
        room = 0 if self.checkpoint.is_encoder_decoder or limit is None else min(request.max_tokens, limit // 2)
        prompt = self._fitting(prompt, room if self.overlong == "cut" else 1)
        left = request.max_tokens if self.checkpoint.is_encoder_decoder or limit is None else limit - len(prompt)
        max_tokens = max(1, min(request.max_tokens, left))
        return Writing(
            prompt,
            max_tokens,
            request.temperature,
            request.stop,
            request.seed,
            request.yes_or_no,
            bool(request.continues),
        )

    def _fitting(self, prompt: Ids, more: int) -> Ids:
        """Cut a prompt to leave room for ``more`` tokens, which count against a causal model's limit alone."""
        limit = self.checkpoint.max_tokens
        room = None if limit is None else limit if self.checkpoint.is_encoder_decoder else limit - more
        if room is None or len(prompt) <= room:
            return prompt
        if self.overlong == "cut" and room > 0:
            return self.tokens.cut(prompt, room)
        raise LMError(
            f"{self.name} takes {limit} tokens at once; a prompt of {len(prompt)} and {more} more are too many. "
            "Give it shorter or fewer passages, or overlong='cut', which drops the prompt's beginning"
        )

    def _completion(self, request: Request, asked: Writing, written: Written) -> Completion:
        plain = self.tokens.text(written.ids)
        raw = self.tokens.text_with_calls(written.ids) if request.tools else plain
        has_marks = raw != plain
        raw = raw[: stopped(raw, request.stop, whole=asked.whole)]
        spans, reasoning = ([(0, len(raw))], None) if asked.whole else answer_spans(raw)
        tokens = logprobs = None
        if request.logprobs and not has_marks:
            spelt = _first([piece.encode() for piece in self.tokens.pieces(written.ids)], len(raw.encode()))
            tokens, logprobs = answer_tokens(spelt, written.logprobs, raw, spans) or (None, None)
        reply = Completion(
            text="".join(raw[start:end] for start, end in spans),
            tokens=tokens,
            logprobs=logprobs,
            usage=TokenUsage(prompt_tokens=len(asked.prompt), completion_tokens=len(written.ids)),
            finish_reason="stop" if written.finished else "length",
            reasoning=reasoning,
        )
        return with_calls(reply, request) if request.tools else reply


class _Running(NamedTuple):
    """A scorer and a writer over loaded weights, used by the worker thread."""

    score: CausalScorer | Seq2SeqScorer
    write: Writer


def _first(pieces: Sequence[bytes], max_bytes: int) -> list[bytes]:
    """Cut the pieces to ``max_bytes`` in all: the text after a stop goes."""
    kept = []
    for piece in pieces:
        kept.append(piece[:max_bytes])
        max_bytes -= len(kept[-1])
    return kept
