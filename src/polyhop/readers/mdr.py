"""The path reader of Multi-hop Dense Retrieval, which PromptRank answers with (Khalifa et al., 2023, Appendix C.1).

Xiong et al.: "Answering Complex Open-Domain Questions with Multi-Hop Dense Retrieval", 2021. Its network is ELECTRA
with a layer for the start and the end of an answer; facts of the public code are followed, none of its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from polyhop.common.extras import is_installed, require
from polyhop.errors import DataError, MissingExtra, SettingError, UsageError
from polyhop.readers.checkpoint import Batch, CheckpointReader, Scores, with_text
from polyhop.readers.spans import PATH_MARKS, PathWindow, Window, Windows, characters, joint
from polyhop.types import Passage, Span

PassagePath: TypeAlias = tuple[Passage, ...]

_FILES = ("config.json", "tokenizer.json")


class MdrReader(CheckpointReader[PassagePath]):
    """Reads a path as one input: "yes" and "no", then title and text of every passage.

    ``folder`` has ELECTRA's ``config.json`` and ``tokenizer.json``, and one ``.pt`` file with the weights as MDR saves
    them; they are loaded as tensors alone. Confidence is the sum of the start and the end logit; ``threshold`` 0.
    An answer lies in one title or text and has at most ``max_answer_tokens`` + 1 tokens, as MDR's mask admits. Of a
    path longer than ``max_tokens`` the end is cut off, of a question all beyond 64 tokens. ``device``: as torch names
    it; None is CUDA where there is one, else the CPU. Raises ``MissingExtra`` without torch and transformers,
    ``DataError`` for a folder without its files.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        max_answer_tokens: int = 30,
        max_tokens: int = 512,
        batch_size: int = 16,
        device: str | None = None,
        threshold: float = 0.0,
    ) -> None:
        super().__init__(
            f"mdr:{folder}",
            max_answer_tokens=max_answer_tokens,
            max_tokens=max_tokens,
            stride=0,
            batch_size=batch_size,
            threshold=threshold,
        )
        if not is_installed("hf"):
            raise MissingExtra(f"the reader {self.name}", "hf")
        self.folder, self.device = Path(folder).expanduser(), device
        weights = sorted(self.folder.glob("*.pt"))
        if len(weights) != 1 or not all((self.folder / name).is_file() for name in _FILES):
            needed = f"ELECTRA's {' and '.join(_FILES)} and one .pt file of weights"
            raise DataError(f"the reader {self.name} needs a folder with {needed}", self.folder)
        self._weights = weights[0]
        self._encoder: Any = None
        self._head: Any = None

    async def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        """Return one span per passage with text, each read as a path, in order of confidence.

        Raises:
            DataError: the checkpoint cannot be opened.
            UsageError: it is not of this reader's kind, or its scores are not numbers.
        """
        return await self._picked(question, [(passage,) for passage in with_text(passages)], self._span)

    async def read_path(self, question: str, path: Sequence[Passage]) -> list[Span]:
        """One span for a path; "yes", "no" and words of a title start and end at 0. Raises as ``read``."""
        return await self._picked(question, [tuple(path)] if path else [], self._span)

    def _open(self) -> Any:
        feature = f"the reader {self.name}"
        torch, transformers, tokenizers = (
            require(module, "hf", feature) for module in ("torch", "transformers", "tokenizers")
        )
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
            config = transformers.ElectraConfig.from_pretrained(str(self.folder), local_files_only=True)
            saved = torch.load(self._weights, map_location="cpu", weights_only=True)
        except Exception as error:  # the libraries have no family of errors in common
            raise DataError(f"{feature} cannot be opened: {error}", self.folder) from error
        if lacking := [mark for mark in PATH_MARKS if tokenizer.token_to_id(mark) is None]:
            raise UsageError(f"{self.name} is no reader of paths: its tokenizer lacks {', '.join(lacking)}")
        if config.max_position_embeddings < self.max_tokens:
            raise SettingError(
                f"max_tokens={self.max_tokens}: {self.name} takes at most {config.max_position_embeddings} tokens"
            )
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        encoder, head = transformers.ElectraModel(config), torch.nn.Linear(config.hidden_size, 2)
        self._fill({"encoder.": encoder, "qa_outputs.": head}, saved)
        self._encoder, self._head = encoder.to(device).eval(), head.to(device).eval()
        return tokenizer

    def _fill(self, modules: Mapping[str, Any], saved: Any) -> None:
        """Load the weights whose names begin with a module's prefix; those that rank paths or find facts stay out."""
        weights = {}
        if isinstance(saved, Mapping):
            weights = {str(name).removeprefix("module."): value for name, value in saved.items()}
        for prefix, module in modules.items():
            own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
            own.pop("embeddings.position_ids", None)  # saved by older versions, computed by newer ones
            try:
                lacking, strange = module.load_state_dict(own, strict=False)
            except (RuntimeError, AttributeError, TypeError) as error:
                raise UsageError(f"{self.name} does not fit its config.json: {error}") from error
            if lacking := [name for name in lacking if not name.endswith("position_ids")]:
                raise UsageError(f"{self.name} is no reader of MDR: it lacks weights such as {prefix}{min(lacking)}")
            if strange:
                raise UsageError(f"{self.name} does not fit its config.json: it has {prefix}{min(strange)}")

    def _show(self, windows: Windows, question: str, item: PassagePath) -> Sequence[Window]:
        return [windows.path(question, item)]

    def _score(self, batch: Batch) -> tuple[Any, Any, Any]:
        torch = require("torch", "hf", f"the reader {self.name}")
        ids, mask, types = (torch.from_numpy(part).to(self._encoder.device) for part in batch)
        with torch.inference_mode():
            states = self._encoder(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
            start, end = self._head(states).float().cpu().numpy().transpose(2, 0, 1)
        return start, end, None

    def _span(self, path: PassagePath, windows: Sequence[PathWindow], scores: Sequence[Scores]) -> Span:
        ((window,), (of,)) = windows, scores
        found = [
            (span, part)
            for part in window.parts
            if (span := joint(of.start[_slice(part.inside)], of.end[_slice(part.inside)], self.max_answer_tokens + 1))
        ]
        best, part = max(found, key=lambda pair: pair[0].score)
        start, end = characters(best, part.offsets, part.words)
        passage = part.passage or path[-1]
        if part.in_text:
            return Span(passage.id, part.words[start:end], start, end, best.score, answerable=end > start)
        return Span(passage.id, part.words[start:end], 0, 0, best.score)


def _slice(positions: range) -> slice:
    return slice(positions.start, positions.stop)
