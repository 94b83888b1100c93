"""Looks at questions over paths of passages: kept, and made together for all who wait.

A skill is ordinary code that asks ``looks`` for what it needs. Inside ``ahead()`` a look that is not known yet is not
made but raised as ``Wanted``: ``Pocket`` gathers those of all concurrent calls, has them made in one batch off the
event loop, and lets the skill begin again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from polyhop.lm.pocket.encoder.outputs import Look, Sight, Told
from polyhop.types import Passage

MOST_LOOKED_AT = 4
"""Passages that one look takes in."""
KEPT = 20_000
"""Looks that are kept, the latest used."""

_ahead: ContextVar[bool] = ContextVar("ahead", default=False)
_known: OrderedDict[Sight, Look] = OrderedDict()
_at_it = threading.Lock()


class Wanted(Exception):
    """Looks that are to be made before a skill can go on."""

    def __init__(self, sights: Sequence[Sight]) -> None:
        super().__init__(len(sights))
        self.sights = tuple(sights)


def looks(question: str, paths: Sequence[Sequence[Told]]) -> list[Look]:
    """A look at the question over each path; whatever a path's order, its passages are read in that of their titles.
    Raises ``Wanted`` inside ``ahead()``."""
    orders = [sorted(range(len(path)), key=lambda at: (path[at].title, path[at].text)) for path in paths]
    sights = [
        Sight(question, tuple((path[at].title, path[at].text) for at in order))
        for path, order in zip(paths, orders, strict=True)
    ]
    if _ahead.get():
        with _at_it:
            unknown = [sight for sight in sights if sight not in _known]
        if unknown:
            raise Wanted(unknown)
    return [_in_order(each, order) for each, order in zip(look(sights), orders, strict=True)]


def _in_order(look: Look, order: Sequence[int]) -> Look:
    """A look whose stretches name the passages by their places on the path."""
    return look._replace(spans=tuple(span._replace(passage=order[span.passage]) for span in look.spans))


def look(sights: Sequence[Sight]) -> list[Look]:
    """Looks at sights, the unknown ones made now."""
    with _at_it:
        found = {sight: _known[sight] for sight in sights if sight in _known}
    new = [sight for sight in dict.fromkeys(sights) if sight not in found]
    if new:
        from polyhop.lm.pocket.encoder.network import encoder  # which most verbs never need

        network = encoder()
        made = network.looks([network.row(sight.question, _passages(sight)) for sight in new])
        found |= dict(zip(new, made, strict=True))
    with _at_it:
        for sight in sights:
            _known[sight] = found[sight]
            _known.move_to_end(sight)
        while len(_known) > KEPT:
            _known.popitem(last=False)
    return [found[sight] for sight in sights]


@contextmanager
def ahead() -> Iterator[None]:
    """Inside, looks that are not known are raised as ``Wanted``."""
    token = _ahead.set(True)
    try:
        yield
    finally:
        _ahead.reset(token)


def _passages(sight: Sight) -> list[Passage]:
    return [Passage("", title, text) for title, text in sight.path]
