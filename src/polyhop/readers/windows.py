"""A question and a passage as token windows: what a checkpoint is shown, and where each token stands in the text.

Works on a ``tokenizers.Tokenizer``, which every fast tokenizer of ``transformers`` carries inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polyhop.errors import SettingError

HEAD_TOKENS = 64
"""Most tokens of a question, and of a title; SQuAD's own limit for questions."""
MIN_TOKENS = 3 * HEAD_TOKENS
"""A window must hold question, title and as much text."""


@dataclass(frozen=True, slots=True)
class Window:
    """One input of a checkpoint: ``inside`` are the positions of the passage's tokens, ``offsets`` their characters."""

    ids: list[int]
    types: list[int]
    inside: range
    offsets: list[tuple[int, int]]


class Windows:
    """Cuts what is longer than ``max_tokens`` into windows that overlap by ``stride`` tokens. Safe in any thread."""

    def __init__(self, tokenizer: Any, max_tokens: int, stride: int) -> None:
        self._tokenizer, self._pairing = (type(tokenizer).from_str(tokenizer.to_str()) for _ in range(2))
        for own in (self._tokenizer, self._pairing):  # copies, for these limits are state of a tokenizer
            own.no_truncation()
            own.no_padding()
        self._pairing.enable_truncation(max_tokens, stride=stride, strategy="only_second")
        self.max_tokens, self.stride = max_tokens, stride
        known = (self._tokenizer.token_to_id(name) for name in ("[PAD]", "<pad>"))
        self.pad = next((number for number in known if number is not None), 0)

    def pair(self, question: str, text: str) -> list[Window]:
        """Question and text as the tokenizer pairs them."""
        whole = self._pairing.encode(self._cut(question), text)
        return [_pair_window(part) for part in (whole, *whole.overflowing)]

    def titled(self, question: str, title: str, text: str) -> list[Window]:
        """Question [SEP] title [SEP] text, as DPR readers were trained (Karpukhin et al., 2020)."""
        head = self._tokenizer.encode(self._cut(question), self._cut(title)).ids
        room = self.max_tokens - len(head)
        pieces = self._bare(text)
        pieces.truncate(room, stride=min(self.stride, room // 2))
        return [
            Window(
                [*head, *piece.ids],
                [0] * (len(head) + len(piece.ids)),
                range(len(head), len(head) + len(piece.ids)),
                piece.offsets,
            )
            for piece in (pieces, *pieces.overflowing)
        ]

    def _bare(self, text: str) -> Any:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _cut(self, text: str) -> str:
        offsets = self._bare(text).offsets
        return text if len(offsets) <= HEAD_TOKENS else text[: offsets[HEAD_TOKENS - 1][1]]


def _pair_window(encoded: Any) -> Window:
    of_text = [position for position, part in enumerate(encoded.sequence_ids) if part == 1]
    inside = range(of_text[0], of_text[-1] + 1) if of_text else range(0)
    return Window(encoded.ids, encoded.type_ids, inside, encoded.offsets[inside.start : inside.stop])


def check_lengths(max_tokens: int, stride: int) -> None:
    """Raises ``SettingError`` for a window too short to hold question, title and text, or one that hardly moves on."""
    if max_tokens < MIN_TOKENS:
        raise SettingError(f"max_tokens={max_tokens}: a reader's window must hold at least {MIN_TOKENS} tokens")
    if not 0 <= stride <= max_tokens // 3:
        raise SettingError(f"stride={stride}: windows of {max_tokens} tokens overlap by 0 to {max_tokens // 3}")
