"""Filling gaps in a text by a span-filling encoder-decoder of T5's family, as it was trained to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from polyhop.errors import UsageError
from polyhop.lm.hf.checkpoint import Checkpoint, Dtype

GAP = "<extra_id_{}>"
"""The vocabulary's mark of the n-th gap, from 0."""

AT_ONCE = 50
"""Texts drawn together."""


class SpanFiller:
    """Draws what may stand in the gaps of a text. T5 and T5 v1.1 were trained on gaps; the LM-adapted were not after.

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
        """``count`` draws for a text with gaps, which are spelt as in the vocabulary: of each what stands in them, in
        order, up to the first that it left out. Every token is one of the ``top_k`` likeliest; the same seed, the same
        draws."""
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
