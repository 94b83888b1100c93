"""The input and output of a reading checkpoint: token windows of a question and a passage, and spans of their tokens.

Windows work on a ``tokenizers.Tokenizer``, which every fast tokenizer of ``transformers`` contains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.common.sentences import sentence_spans
from polyhop.errors import SettingError
from polyhop.types import Passage

Logits: TypeAlias = NDArray[np.float64]
"""One score per token, shape ``(tokens,)``."""


class TokenSpan(NamedTuple):
    """A range of tokens, both ends included; ``score`` is its start logit plus its end logit."""

    first: int
    last: int
    score: float


def joint(start: Logits, end: Logits, max_tokens: int) -> TokenSpan | None:
    """Return the span of at most ``max_tokens`` tokens with the maximum sum of its start and end logits.

    Of equal spans the earliest wins, then the shortest. None without tokens, or if every sum is minus infinity.

    >>> joint(np.array([0.0, 3.0, 1.0]), np.array([9.0, 0.0, 2.0]), max_tokens=2)
    TokenSpan(first=0, last=0, score=9.0)
    >>> joint(np.array([0.0, 3.0, 1.0]), np.array([1.0, 0.0, 2.0]), max_tokens=2)
    TokenSpan(first=1, last=2, score=5.0)
    """
    if not len(start):
        return None
    width = min(max_tokens, len(start))
    ends = np.lib.stride_tricks.sliding_window_view(np.append(end, np.full(width - 1, -np.inf)), width)
    sums = start[:, None] + ends
    first, further = divmod(int(np.argmax(sums)), width)
    best = float(sums[first, further])
    return TokenSpan(first, first + further, best) if best > -math.inf else None


def independent(start: Logits, end: Logits, inside: range) -> TokenSpan | None:
    """Return the span from the most likely start to the most likely end of the whole sequence, each by itself.

    None if it ends before it starts or leaves the passage's tokens ``inside``: then it is no answer. Positions count
    from the first token inside.

    >>> independent(np.array([0.0, 3.0, 1.0]), np.array([1.0, 0.0, 2.0]), range(1, 3))
    TokenSpan(first=0, last=1, score=5.0)
    >>> independent(np.array([0.0, 3.0, 1.0]), np.array([9.0, 0.0, 2.0]), range(0, 3)) is None
    True
    """
    if not len(start):
        return None
    first, last = int(np.argmax(start)), int(np.argmax(end))
    if last < first or first not in inside or last not in inside:
        return None
    return TokenSpan(first - inside.start, last - inside.start, float(start[first] + end[last]))


def characters(span: TokenSpan, offsets: Sequence[tuple[int, int]], text: str) -> tuple[int, int]:
    """Return the start and end characters of a span, without white space at its ends; equal if nothing is left.

    >>> characters(TokenSpan(1, 2, 0.0), [(0, 3), (3, 7), (7, 8)], "the old mill")
    (4, 7)
    """
    start, end = offsets[span.first][0], offsets[span.last][1]
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, max(start, start + len(piece.strip()))


def answered(score: float, no_answer: float) -> float:
    """Return the probability of a span against no answer, from 0 to 1: the softmax over their two scores.

    >>> answered(2.0, 2.0)
    0.5
    >>> answered(-2000.0, 2000.0)
    0.0
    """
    return 0.5 * (1.0 + math.tanh((score - no_answer) / 2.0))


HEAD_TOKENS = 64
"""Maximum number of tokens of a question, and of a title: SQuAD's limit for questions."""
MIN_TOKENS = 3 * HEAD_TOKENS
"""Minimum size of a window, which must hold question, title and as much text."""
PATH_MARKS = ("[CLS]", "[SEP]", "[unused1]")
"""Marks of a path's window: its beginning, the end of a part, the beginning of a sentence."""
_Token: TypeAlias = tuple[int, tuple[int, int]]
"""A token's number, and the start and end of its characters."""


@dataclass(frozen=True)
class Window:
    """One input of a checkpoint: ``inside`` are the positions of the passage's tokens, ``offsets`` their characters."""

    ids: list[int]
    types: list[int]
    inside: range
    offsets: list[tuple[int, int]]


class Part(NamedTuple):
    """A piece of a path's window that an answer can lie in: "yes", "no", the title or the text of a passage.

    ``inside`` are the positions of its tokens, ``offsets`` their characters in ``words``."""

    words: str
    inside: range
    offsets: list[tuple[int, int]]
    passage: Passage | None = None
    """The passage whose title or text it is; None for "yes" and "no"."""
    in_text: bool = False


@dataclass(frozen=True)
class PathWindow(Window):
    """One input of a checkpoint that reads a whole path."""

    parts: tuple[Part, ...]


class Windows:
    """Cuts inputs longer than ``max_tokens`` into windows that overlap by ``stride`` tokens. Thread-safe."""

    def __init__(self, tokenizer: Any, max_tokens: int, stride: int) -> None:
        self._tokenizer, self._pairing = (type(tokenizer).from_str(tokenizer.to_str()) for _ in range(2))
        for own in (self._tokenizer, self._pairing):  # copies, because these limits are state of a tokenizer
            own.no_truncation()
            own.no_padding()
        self._pairing.enable_truncation(max_tokens, stride=stride, strategy="only_second")
        self.max_tokens, self.stride = max_tokens, stride
        known = (self._tokenizer.token_to_id(name) for name in ("[PAD]", "<pad>"))
        self.pad = next((number for number in known if number is not None), 0)

    def pair(self, question: str, text: str) -> list[Window]:
        """Pair question and text as the tokenizer does."""
        whole = self._pairing.encode(self._cut(question), text)
        return [_pair_window(part) for part in (whole, *whole.overflowing)]

    def titled(self, question: str, title: str, text: str) -> list[Window]:
        """Join question [SEP] title [SEP] text, as DPR readers were trained (Karpukhin et al., 2020)."""
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

    def path(self, question: str, path: Sequence[Passage]) -> PathWindow:
        """Join question [SEP] yes no [SEP] title, text [SEP] title, text …, with a mark before each sentence of a text.

        It is the input of MDR's reader (Xiong et al., 2021); what exceeds ``max_tokens`` is cut off at its end.
        """
        begin, separate, sentence = (self._tokenizer.token_to_id(mark) for mark in PATH_MARKS)
        ids = [begin, *self._bare(self._cut(question.strip().removesuffix("?"))).ids, separate]
        first, limit = len(ids), self.max_tokens - 1
        parts: list[Part] = []

        def add(words: str, tokens: Sequence[_Token], passage: Passage | None = None, *, in_text: bool = False) -> None:
            kept = tokens[: max(0, limit - len(ids))]
            inside = range(len(ids), len(ids) + len(kept))
            parts.append(Part(words, inside, [offset for _, offset in kept], passage, in_text))
            ids.extend(number for number, _ in kept)

        for verdict in ("yes", "no"):
            add(verdict, self._tokens(verdict))
        for passage in path:
            ids.extend([separate] if len(ids) < limit else [])
            add(passage.title.strip(), self._tokens(passage.title.strip()), passage)
            marks = [(sentence, (start, start)) for start, end in sentence_spans(passage.text) if end > start]
            add(passage.text, _merged(marks, self._tokens(passage.text)), passage, in_text=True)
        ids.append(separate)
        types = [0] * first + [1] * (len(ids) - first)
        return PathWindow(ids, types, range(first, len(ids) - 1), [], tuple(parts))

    def _tokens(self, text: str) -> list[_Token]:
        """The tokens of a text, each with its characters."""
        found = self._bare(text)
        return list(zip(found.ids, found.offsets, strict=True))

    def _bare(self, text: str) -> Any:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _cut(self, text: str) -> str:
        offsets = self._bare(text).offsets
        return text if len(offsets) <= HEAD_TOKENS else text[: offsets[HEAD_TOKENS - 1][1]]


def _merged(marks: list[_Token], tokens: list[_Token]) -> list[_Token]:
    """Set each mark before the first token that begins at its character or after it."""
    return sorted([*marks, *tokens], key=lambda token: token[1][0])  # stable: a mark stays before its sentence


def _pair_window(encoded: Any) -> Window:
    of_text = [position for position, part in enumerate(encoded.sequence_ids) if part == 1]
    inside = range(of_text[0], of_text[-1] + 1) if of_text else range(0)
    return Window(encoded.ids, encoded.type_ids, inside, encoded.offsets[inside.start : inside.stop])


def check_lengths(max_tokens: int, stride: int) -> None:
    """Raise ``SettingError`` for a window too short for question, title and text, or with too much overlap."""
    if max_tokens < MIN_TOKENS:
        raise SettingError(f"max_tokens={max_tokens}: a reader's window must hold at least {MIN_TOKENS} tokens")
    if not 0 <= stride <= max_tokens // 3:
        raise SettingError(f"stride={stride}: windows of {max_tokens} tokens overlap by 0 to {max_tokens // 3}")
