"""The number of tries a test makes: all of them in ``make test-all``, a part in ``make test``.

``POLYHOP_TRIES=20`` makes twenty times as many, as ``make soak`` does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

Item = TypeVar("Item")


def tries(count: int) -> int:
    """Return ``count``, or the part of it that the Hypothesis profile in force makes of Hypothesis' usual 100 examples.

    The seeds 0, 1, … of the part are the first ones of the whole.
    """
    return max(1, count * settings().max_examples * _more() // 100)


def in_turn(items: Sequence[Item], turn: int, of: int) -> Sequence[Item]:
    """Return every ``of``-th item, from another one with each turn; with ``POLYHOP_TRIES``, all of them.

    >>> in_turn("abcdefgh", 4, of=3)
    'beh'
    """
    return items if _more() > 1 else items[turn % of :: of]


def _more() -> int:
    return int(os.environ.get("POLYHOP_TRIES", "1"))
