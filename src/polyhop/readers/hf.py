"""Readers over ``transformers`` checkpoints: a DPR reader, and question answering of SQuAD 2's kind."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from polyhop.common.extras import is_installed, require
from polyhop.common.text import counted
from polyhop.errors import DataError, MissingExtra, SettingError, UsageError
from polyhop.readers.checkpoint import Batch, NoAnswerReader, PassageReader, Scores, inside, with_text
from polyhop.readers.spans import Window, Windows, characters, independent, joint
from polyhop.types import Passage, Span, SpanChoice

Dtype: TypeAlias = Literal["float32", "float16", "bfloat16"]

_HUB_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")


class DprReader(PassageReader):
    """A DPR reader (Karpukhin et al., 2020), as in SearChain's verification (Xu et al., 2024, §3.3).

    Confidence is the relevance logit, ``threshold`` SearChain's θ of 1.5 on it. ``span``: ``joint`` takes the best sum
    of start and end logit within ``max_answer_tokens`` tokens (DPR's own length); ``independent`` the likeliest start
    and the likeliest end each by itself, which may answer nothing. A passage longer than a window of ``max_tokens`` is
    read in windows that overlap by ``stride`` tokens; the most relevant counts.

    ``path_or_name``: a folder, read without the network, else a name on the Hugging Face hub. ``device``: as torch
    names it; None is CUDA where there is one, else the CPU. Raises ``MissingExtra`` without torch and transformers.
    """

    def __init__(
        self,
        path_or_name: str,
        *,
        max_answer_tokens: int = 10,
        span: SpanChoice = "joint",
        max_tokens: int = 510,
        stride: int = 128,
        batch_size: int = 16,
        device: str | None = None,
        dtype: Dtype = "float32",
        threshold: float = 1.5,
    ) -> None:
        super().__init__(
            f"dpr:{path_or_name}",
            max_answer_tokens=max_answer_tokens,
            max_tokens=max_tokens,
            stride=stride,
            batch_size=batch_size,
            threshold=threshold,
        )
        if span not in ("joint", "independent"):
            raise SettingError(f"span={span!r}: must be 'joint' or 'independent'")
        self.span: SpanChoice = span
        self._network = _Network(self.name, path_or_name, "DPRReader", device, dtype)

    def _open(self) -> Any:
        return self._network.open(self.max_tokens)

    def _show(self, windows: Windows, question: str, item: Passage) -> list[Window]:
        return windows.titled(question, item.title, item.text)

    def _score(self, batch: Batch) -> tuple[Any, Any, Any]:
        out = self._network(batch)
        return _array(out.start_logits), _array(out.end_logits), _array(out.relevance_logits)

    async def read(self, question: str, passages: Sequence[Passage], *, span: SpanChoice | None = None) -> list[Span]:
        """Read as the base class does; ``span`` replaces the reader's own choice for this read."""
        return await self._picked(question, with_text(passages), partial(self._span, span=span))

    def _span(
        self,
        passage: Passage,
        windows: Sequence[Window],
        scores: Sequence[Scores],
        span: SpanChoice | None = None,
    ) -> Span:
        window, of = max(zip(windows, scores, strict=True), key=lambda pair: pair[1].relevance)
        if (span or self.span) == "joint":
            found = joint(inside(of.start, window), inside(of.end, window), self.max_answer_tokens)
        else:
            found = independent(of.start, of.end, window.inside)
        start, end = characters(found, window.offsets, passage.text) if found else (0, 0)
        return Span(passage.id, passage.text[start:end], start, end, of.relevance, answerable=end > start)


class SquadReader(NoAnswerReader):
    """Extractive question answering with any checkpoint of ``AutoModelForQuestionAnswering`` trained on SQuAD 2.

    Confidence, 0 to 1: the best span against no answer; at or below 0.5 the passage does not answer. Of a checkpoint
    trained without unanswerable questions it says little. Long passages, ``path_or_name``, ``device`` and errors: as
    ``DprReader``, the best span of all windows counting.
    """

    def __init__(
        self,
        path_or_name: str,
        *,
        max_answer_tokens: int = 30,
        max_tokens: int = 384,
        stride: int = 128,
        batch_size: int = 16,
        device: str | None = None,
        dtype: Dtype = "float32",
        threshold: float = 0.5,
    ) -> None:
        super().__init__(
            f"squad:{path_or_name}",
            max_answer_tokens=max_answer_tokens,
            max_tokens=max_tokens,
            stride=stride,
            batch_size=batch_size,
            threshold=threshold,
        )
        self._network = _Network(self.name, path_or_name, "AutoModelForQuestionAnswering", device, dtype)

    def _open(self) -> Any:
        return self._network.open(self.max_tokens)

    def _score(self, batch: Batch) -> tuple[Any, Any, Any]:
        out = self._network(batch)
        return _array(out.start_logits), _array(out.end_logits), None


class _Network:
    """A checkpoint of transformers: checked when created, opened at the first read, called with a batch."""

    def __init__(self, name: str, path_or_name: str, model_class: str, device: str | None, dtype: Dtype) -> None:
        if not is_installed("hf"):
            raise MissingExtra(f"the reader {name}", "hf")
        if dtype not in ("float32", "float16", "bfloat16"):
            raise SettingError(f"dtype={dtype!r}: must be 'float32', 'float16' or 'bfloat16'")
        folder = Path(path_or_name).expanduser()
        self.is_local = bool(path_or_name) and folder.is_dir()
        if not self.is_local and not _HUB_NAME.fullmatch(path_or_name):
            raise DataError(f"the reader {name} needs a checkpoint's folder or its name on the Hugging Face hub")
        self.name, self.source = name, str(folder) if self.is_local else path_or_name
        self.model_class, self.device, self.dtype = model_class, device, dtype
        self._call: Callable[[Batch], Any]

    def open(self, max_tokens: int) -> Any:
        """Open model and tokenizer; the ``tokenizers.Tokenizer`` inside the latter."""
        torch, transformers = (require(module, "hf", f"the reader {self.name}") for module in ("torch", "transformers"))
        config = self._pretrained(transformers.AutoConfig)
        self._check(config, max_tokens)
        tokenizer = self._pretrained(transformers.AutoTokenizer)
        model, info = self._pretrained(getattr(transformers, self.model_class), output_loading_info=True)
        if lacking := [key for key in info["missing_keys"] if "pooler" not in key and "position_ids" not in key]:
            raise UsageError(
                f"{self.name} is not a {self.model_class}: its checkpoint lacks "
                f"{counted(len(lacking), 'weights')}, such as {min(lacking)}"
            )
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError(f"{self.name} has no fast tokenizer, which gives the positions of its answers")
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        model.to(device=device, dtype=getattr(torch, self.dtype)).eval()
        takes_types = "token_type_ids" in inspect.signature(model.forward).parameters
        with_types = takes_types and getattr(config, "type_vocab_size", 0) > 1

        def call(batch: Batch) -> Any:
            named = {"input_ids": batch.ids, "attention_mask": batch.mask}
            if with_types:
                named["token_type_ids"] = batch.types
            with torch.inference_mode():
                return model(**{key: torch.from_numpy(value).to(device) for key, value in named.items()})

        self._call = call
        return tokenizer.backend_tokenizer

    def __call__(self, batch: Batch) -> Any:
        return self._call(batch)

    def _pretrained(self, kind: Any, **options: Any) -> Any:
        try:
            return kind.from_pretrained(self.source, local_files_only=self.is_local, **options)
        except Exception as error:  # OSError, ValueError, those of safetensors and of the hub: no common family
            raise DataError(f"the reader {self.name} cannot be opened: {error}") from error

    def _check(self, config: Any, max_tokens: int) -> None:
        kind = config.model_type
        if self.model_class == "DPRReader" and kind != "dpr":
            raise UsageError(f"{self.name} is no DPR reader but a {kind} checkpoint: try squad:{self.source}")
        max_positions = getattr(config, "max_position_embeddings", None)
        if max_positions is not None and 0 < max_positions < max_tokens:
            limit = counted(max_positions, "tokens")
            raise SettingError(f"max_tokens={max_tokens}: {self.name} takes at most {limit}")


def _array(tensor: Any) -> Any:
    return tensor.float().cpu().numpy()
