"""Paths of passages: begun by a search, extended by what follows their last passage, ranked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.engine.run import Run

Path: TypeAlias = tuple[Passage, ...]
Following: TypeAlias = Callable[[Path], Awaitable[Iterable[Passage]]]
"""The passages by which a path may be extended; those on it already do no harm."""


class Scores(Protocol):
    """The scores of one question's paths. ``known`` holds them, the better the higher."""

    known: dict[Path, float]

    async def score(self, paths: Sequence[Path]) -> None:
        """Make the scores of these paths known."""
        ...


async def follow(found: Sequence[Passage], scores: Scores, following: Following, *, keep: int, hops: int) -> None:
    """Score the paths of one passage, extend the ``keep`` best, score those, and so on to ``hops`` passages."""
    paths: list[Path] = [(passage,) for passage in found]
    await scores.score(paths)
    for _ in range(1, hops):
        best = ranked(paths, scores.known)[:keep]
        paths = [
            (*path, passage) for path in best for passage in dict.fromkeys(await following(path)) if passage not in path
        ]
        await scores.score(paths)


def follows_links(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The need for links, if paths are extended by any under the settings ``hops`` and ``links``."""
    return ("links",) if settings["hops"] > 1 and settings["links"] else ()


def linked(path: Path, run: Run) -> list[Passage]:
    """What the path's last passage links to, without what is on the path already."""
    return [passage for passage in dict.fromkeys(run.links(path[-1])) if passage not in path]


def ranked(paths: Iterable[Path], scores: Mapping[Path, float]) -> list[Path]:
    """The paths, best first; equal ones in the order given."""
    return sorted(paths, key=lambda path: -scores[path])


def paths_of(paths: Iterable[Path]) -> dict[Passage, list[Path]]:
    """Each passage's paths, in the order given."""
    held: dict[Passage, list[Path]] = {}
    for path in paths:
        for passage in path:
            held.setdefault(passage, []).append(path)
    return held
