"""The number of random tries a test makes: all of them in ``make test-all``, a part in ``make test``.

``POLYHOP_TRIES=20`` makes twenty times as many, as ``make soak`` does.
"""

from __future__ import annotations

import os

from hypothesis import settings


def tries(count: int) -> int:
    """Return ``count``, or the part of it that the Hypothesis profile in force makes of Hypothesis' usual 100 examples.

    The seeds 0, 1, … of the part are the first ones of the whole.
    """
    return max(1, count * settings().max_examples * int(os.environ.get("POLYHOP_TRIES", "1")) // 100)
