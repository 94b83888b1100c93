"""Where a path of passages leads: the linear model of ``paths`` and what the encoder sees.

The encoder tells three things: how well the best paths bear on the question, whether the next passage is one whose name
it reads off those before it, and which names to search for next. Three numbers weigh them, chosen on training questions
that the network had not seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyhop.common.text import bare_title, fold
from polyhop.lm.pocket.encoder.cache import looks
from polyhop.lm.pocket.encoder.outputs import PLACES, Look
from polyhop.lm.pocket.paths import Path, names_in, read, reason_scores
from polyhop.types import Passage

MOST_LOOKED = 12  # paths that the encoder looks at, of those scored together
LOOK_WEIGHT = 0.5  # of the encoder's log-odds beside the linear model's score
LEAD_WEIGHT = 0.6  # of how likely the encoder reads the next passage's name off those before it
LEAST_LEAD = -5.0  # of that, a logarithm; where it does not
UNNAMED = 4.0  # taken from a step to a passage that the one before it does not name
_MOST_READ_OFF = 4  # stretches of a look


def path_scores(question: str, paths: Sequence[Path], found: Sequence[Passage]) -> list[float]:
    """A score for each path, the higher the better. ``found``: what the first search found, best first. Only the best
    paths of one call are looked at; the others count as bearing no better than the worst of those.

    >>> film = Passage("f", "Dark Mill", "Dark Mill is a film directed by Ann Lee.")
    >>> person, town = Passage("p", "Ann Lee", "Ann Lee was born in Elstow."), Passage("t", "Ost", "Ost is a town.")
    >>> scores = path_scores("Where was the director of Dark Mill born?", [[film, person], [town]], [film, town])
    >>> scores[0] > scores[1]
    True
    """
    scores = reason_scores(question, paths, found)
    for at, step in enumerate(_steps(question, paths)):
        scores[at] += step
    best = sorted(range(len(paths)), key=lambda at: -round(scores[at], PLACES))[:MOST_LOOKED]
    seen = {at: look.relevance for at, look in zip(best, looks(question, [paths[at] for at in best]), strict=True)}
    least = min(seen.values(), default=0.0)
    return [score + LOOK_WEIGHT * seen.get(at, least) for at, score in enumerate(scores)]


def leads(question: str, path: Path, most: int) -> list[str]:
    """At most ``most`` names that the encoder reads off a path and that may lead on: none that the question or a title
    of the path holds, the likeliest first."""
    known = [fold(question), *(fold(passage.title) for passage in path)]
    found: dict[str, str] = {}
    for text, _ in _read_off(looks(question, [path])[0], path):
        row = fold(text)
        if len(text) > 2 and not any(row in each for each in known):
            found.setdefault(row, text)
    return list(found.values())[:most]


def _steps(question: str, paths: Sequence[Path]) -> list[float]:
    """What speaks for each path's last step: that the encoder reads the passage's name off those before it, and that
    they name it at all. 0 for a path of one passage."""
    before = list(dict.fromkeys(tuple(path[:-1]) for path in paths if len(path) > 1))
    seen = dict(zip(before, looks(question, before), strict=True))
    return [_step(seen[tuple(path[:-1])], path) if len(path) > 1 else 0.0 for path in paths]


def _step(look: Look, path: Path) -> float:
    name = read(path[-1].title, path[-1].text)
    named = any(names_in(name, sentence) for sentence in read(path[-2].title, path[-2].text).sentences)
    row = fold(bare_title(path[-1].title))
    shares = [share for text, share in _read_off(look, path[:-1]) if _same(fold(text), row)]
    return LEAD_WEIGHT * (max([LEAST_LEAD, *shares]) - LEAST_LEAD) - (0.0 if named else UNNAMED)


def _same(one: str, other: str) -> bool:
    """Whether one name is the other or a part of it."""
    return bool(one and other) and (one in other or other in one)


def _read_off(look: Look, path: Path) -> list[tuple[str, float]]:
    return [(span.text(path).strip(), span.log_share) for span in look.spans[:_MOST_READ_OFF]]
