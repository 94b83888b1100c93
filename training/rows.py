"""Examples as rows of pieces, laid out as ``pocket`` lays them out, and rows as batches.

Unlike ``polyhop.lm.pocket.encoder.inputs``, a long text gives the stretch that holds the answer, wherever it is.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyhop.lm.pocket.encoder.inputs import KINDS, MAX_PIECES, MAX_QUESTION_PIECES, MAX_TITLE_PIECES, MIN_TEXT_PIECES
from polyhop.lm.pocket.encoder.wordpiece import WordPiece
from training.data import CLAIMS, Example

BATCH = 4096  # pieces, padding included
CLAIMS_BATCH = 2048  # of questions of yes or no over a few sentences
TOGETHER = 3000  # rows whose neighbours in length go together
MAX_SPANS = 8
MAX_TEXT_PIECES = 96  # of a text that is embedded


@dataclass
class Row:
    """An example as numbers. ``spans``: first and last piece of every right answer, the first piece of all (``[CLS]``)
    if the passages give none (Devlin et al., 2019, §4.3); -1 in ``kind`` and the judgements means not known;
    ``claim``: learnt for its kind alone, in batches of such rows; ``group``: as of the example."""

    ids: list[int]
    segments: list[int]
    spans: list[tuple[int, int]]
    kind: int
    relevant: int
    enough: int
    claim: bool = False
    group: str = ""


def row_of(example: Example, pieces: WordPiece, chance: random.Random) -> Row | None:
    """Encode an example; None if no occurrence of its answer fits in the row."""
    ids = [pieces.begin, *pieces.encode(example.question).ids[:MAX_QUESTION_PIECES], pieces.end]
    first = len(ids)
    share = (MAX_PIECES - first) // len(example.passages)
    spans: list[tuple[int, int]] = []
    for number, (title, text) in enumerate(example.passages):
        title_pieces, text_pieces = pieces.encode(title), pieces.encode(text)
        title_ids = [*title_pieces.ids[:MAX_TITLE_PIECES], *pieces.encode(":").ids] if title else []
        room = max(MIN_TEXT_PIECES, share - len(title_ids) - 1)
        wanted = [(start, end) for at, start, end in example.spans if at == number]
        inside = [_pieces_at(text_pieces.starts, text_pieces.ends, start, end) for start, end in wanted]
        begin = 0
        if len(text_pieces.ids) > room:
            firsts = [low for low, high in inside if high < len(text_pieces.ids)]
            if firsts and min(firsts) >= room - 12:
                begin = max(0, min(chance.choice(firsts) - chance.randrange(room // 2), len(text_pieces.ids) - room))
        base = len(ids) + len(title_ids) - begin
        held = [(low, high) for low, high in inside if begin <= low <= high < min(begin + room, len(text_pieces.ids))]
        spans += [(low + base, high + base) for low, high in held]
        named = [(start, end) for at, start, end in example.spans if at == -1 - number]
        in_title = [_pieces_at(title_pieces.starts, title_pieces.ends, start, end) for start, end in named]
        spans += [
            (low + len(ids), high + len(ids))
            for low, high in in_title
            if low <= high < min(MAX_TITLE_PIECES, len(title_pieces.ids))
        ]
        ids += [*title_ids, *text_pieces.ids[begin : begin + room], pieces.end]
    if example.kind == "span" and not spans:
        return None
    if example.kind == "none":
        spans = [(0, 0)]
    segments = [0] * first + [1] * (len(ids) - first)
    kind = KINDS.index(example.kind) if example.kind else -1
    if example.source in CLAIMS:
        return Row(ids, segments, [], kind, -1, -1, claim=True)
    relevant, enough = (-1 if each is None else each for each in (example.relevant, example.enough))
    return Row(ids, segments, spans[:MAX_SPANS], kind, relevant, enough, group=example.group)


def row_of_text(text: str, pieces: WordPiece) -> Row:
    """Encode a text alone, to be embedded."""
    ids = [pieces.begin, *pieces.encode(text).ids[: MAX_TEXT_PIECES - 2], pieces.end]
    return Row(ids, [0] * len(ids), [], -1, -1, -1)


def _pieces_at(starts: Sequence[int], ends: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """Return the first and last piece of the words between two characters; an impossible pair without any."""
    low = next((at for at, each in enumerate(ends) if each > start), len(ends))
    high = next((at for at in range(len(starts) - 1, -1, -1) if starts[at] < end), -1)
    return (low, high) if low <= high else (len(ends), len(ends))


def batches(rows: Sequence[Row], seed: int) -> list[list[int]]:
    """Group rows into batches of similar length, within random parts of a few thousand, in a random order. Rows of a
    group stay together. Claims have batches of their own: beside spans, whose gradients are larger, they are hardly
    learnt."""
    chance = random.Random(seed)
    made: list[list[int]] = []
    for claims, size in ((False, BATCH), (True, CLAIMS_BATCH)):
        order = _groups(rows, claims)
        chance.shuffle(order)
        for start in range(0, len(order), TOGETHER):
            made += _cut(order[start : start + TOGETHER], rows, size)
    return chance.sample(made, len(made))


def _groups(rows: Sequence[Row], claims: bool) -> list[list[int]]:
    """The numbers of rows, those of a group together."""
    found: dict[str | int, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        if row.claim == claims:
            found[row.group or at].append(at)
    return list(found.values())


def _cut(groups: Sequence[list[int]], rows: Sequence[Row], size: int) -> list[list[int]]:
    """Cut groups, in the order of their longest rows, into batches of at most so many pieces."""
    cut: list[list[int]] = [[]]
    longest = {group[0]: max(len(rows[at].ids) for at in group) for group in groups}
    for group in sorted(groups, key=lambda group: longest[group[0]]):
        if cut[-1] and longest[group[0]] * (len(cut[-1]) + len(group)) > size:
            cut.append([])
        cut[-1] += group
    return cut


def tensors(rows: Sequence[Row], padding: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pieces, segments and mask of a batch."""
    length = max(len(row.ids) for row in rows)
    ids = torch.full((len(rows), length), padding)
    segments, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, : len(row.ids)] = torch.tensor(row.ids)
        segments[at, : len(row.segments)] = torch.tensor(row.segments, dtype=torch.long)
        mask[at, : len(row.ids)] = 1
    return ids, segments, mask
