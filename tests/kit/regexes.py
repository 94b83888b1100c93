"""Every regular expression of the package, and texts that would make a careless one explode."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from itertools import permutations, product
from time import thread_time
from types import ModuleType
from typing import Any

import polyhop
from polyhop.errors import MissingExtra

SHORT = (16, 20, 24, 28, 32, 40, 48, 64, 512)
"""Lengths of the texts that show whether a pattern explodes, in characters; the first that shows it is the last."""
LONG = 4096
"""Length of the text that shows how a pattern's time grows beyond the last of ``SHORT``, in characters."""
MOST = 4000.0
"""Maximum time per character of a short text, as a multiple of a harmless pattern's."""
GROWN = 4.0
"""The maximum time per character of the long text, as a multiple of that in the longest short text: quadratic growth
makes it 8 times as long."""
FAST = 20.0
"""A pattern that takes less than this multiple of a harmless one's time is fast, however its time grew."""

codes: Any = importlib.import_module("re._constants")  # neither has types
parser: Any = importlib.import_module("re._parser")
_AT_ONCE = ("match", "fullmatch")
_FUNCTIONS = ("search", "sub", "subn", "match", "fullmatch", "findall", "finditer", "split")
_CLASSES = {"DIGIT": "1", "SPACE": " ", "WORD": "a", "NOT_DIGIT": "a", "NOT_SPACE": "a", "NOT_WORD": "-"}


@dataclass
class Found:
    """A pattern and where it stands. ``anywhere``: it is searched for, not only matched where a text begins."""

    pattern: re.Pattern[str]
    locations: list[str] = field(default_factory=list)
    anywhere: bool = False

    def work(self) -> Callable[[str], object]:
        """The function that applies the pattern to a text as the package does."""
        if not self.anywhere:
            return self.pattern.match
        return lambda text: sum(1 for _ in self.pattern.finditer(text))


def patterns() -> list[Found]:
    """Every pattern of text that a module holds, in a collection too, or gives to a function of ``re``; not those that
    are put together where they are used."""
    found: dict[tuple[str, int], Found] = {}
    for module in modules():
        tree = ast.parse(inspect.getsource(module))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
        used = {(ast.unparse(call.func.value), call.func.attr) for call in calls}  # type: ignore[attr-defined]
        for name, value in vars(module).items():
            ways = {way for owner, way in used if owner == name and way in _FUNCTIONS}
            for pattern in _held(value):
                _add(found, pattern, f"{module.__name__}.{name}", not ways or not ways <= set(_AT_ONCE))
        for call in calls:
            owner, way = ast.unparse(call.func.value), call.func.attr  # type: ignore[attr-defined]
            if owner == "re" and way in _FUNCTIONS and (compiled := _compiled(call.args[0], module)) is not None:
                _add(found, compiled, f"{module.__name__}:{call.lineno}", way not in _AT_ONCE)
    return list(found.values())


def modules() -> Iterator[ModuleType]:
    """The package's modules, but those of extras that are not installed and those that run when they are imported."""
    for info in pkgutil.walk_packages(polyhop.__path__, "polyhop."):
        if not info.name.endswith(("__main__", ".child")):
            try:
                yield importlib.import_module(info.name)
            except (MissingExtra, ImportError):
                continue


def _held(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _held(item)
    elif isinstance(value, dict):
        yield from _held(list(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _held([getattr(value, part.name) for part in fields(value)])


def _compiled(node: ast.expr, module: ModuleType) -> re.Pattern[Any] | None:
    """The pattern that an expression of constants and of the module's own names gives."""
    if isinstance(node, ast.Name):
        return None  # a parameter, or one of the module's patterns
    try:
        return re.compile(eval(compile(ast.Expression(node), "pattern", "eval"), dict(vars(module))))  # noqa: S307
    except (NameError, TypeError):
        return None


def _add(found: dict[tuple[str, int], Found], pattern: re.Pattern[Any], location: str, anywhere: bool) -> None:
    if isinstance(pattern.pattern, str):
        held = found.setdefault((pattern.pattern, pattern.flags), Found(pattern))
        held.locations.append(location)
        held.anywhere |= anywhere


# --- texts -----------------------------------------------------------------------------------------------------------


def pumped(pattern: re.Pattern[str], thorough: bool = False) -> list[tuple[str, str]]:
    """Beginnings and what is repeated after them: pieces that the pattern itself is made of; ten times as many of them,
    where it is to be ``thorough``."""
    pieces: dict[str, None] = dict.fromkeys([" ", "\n", "a"])
    whole = _sample(parser.parse(pattern.pattern, pattern.flags), pieces)
    short = [piece for piece in sorted(pieces, key=len) if 0 < len(piece) < 20]
    pairs = ["".join(pair) for pair in permutations([piece for piece in short if len(piece) == 1][:6], 2)]
    cuts = range(21) if thorough else (0, 1, 2, 3, 8, 16)
    leads = [whole[:cut] for cut in cuts if cut <= len(whole)]
    return list(dict.fromkeys(product(leads, short[:16] + pairs if thorough else short[:8])))


def _sample(tokens: Any, pieces: dict[str, None]) -> str:
    """A text that the pattern would take, more or less; every part that may be repeated goes into ``pieces``."""
    text = ""
    for code, argument in tokens:
        match code:
            case codes.LITERAL:
                text += chr(argument)
            case codes.NOT_LITERAL | codes.ANY:
                text += "a"
            case codes.IN:
                letters = _letters(argument)
                pieces.update(dict.fromkeys(letters[:3]))
                text += letters[0]
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                body = _sample(argument[2], pieces)
                pieces[body] = None
                text += body * max(1, min(argument[0], 3))
            case codes.SUBPATTERN:
                text += _sample(argument[3], pieces)
            case codes.ATOMIC_GROUP:
                text += _sample(argument, pieces)
            case codes.BRANCH:
                branches = [_sample(branch, pieces) for branch in argument[1][:6]]
                pieces.update(dict.fromkeys(branches[:3]))
                text += branches[0]
    return text


def _letters(items: Any) -> list[str]:
    negated, letters = False, []
    for code, value in items:
        match code:
            case codes.NEGATE:
                negated = True
            case codes.LITERAL:
                letters.append(chr(value))
            case codes.RANGE:
                letters.append(chr(value[0]))
            case codes.CATEGORY:
                letters.append(_CLASSES[str(value).removeprefix("CATEGORY_")])
    return [letter for letter in "a 1-" if letter not in letters] or ["\0"] if negated else letters


# --- time ------------------------------------------------------------------------------------------------------------


def explodes(work: Callable[[str], object], lead: str, piece: str) -> str | None:
    """Describe how the time per character grew with the text if it grew out of proportion in every measurement, else
    return None."""
    suspect = _grown(work, lead, piece, 1)
    return suspect if suspect and all(_grown(work, lead, piece, 2) for _ in range(2)) else None


def _grown(work: Callable[[str], object], lead: str, piece: str, times: int) -> str | None:
    taken = 0.0
    for size in (*SHORT, LONG):
        before, text = taken, (lead + piece * (size // len(piece) + 1))[:size] + "\0"
        taken = _time(partial(work, text), times) / (size * _usual())
        if size in SHORT and taken > MOST:
            return f"{size} characters already"
    if taken > FAST and taken > GROWN * before:
        return f"{LONG} characters: {taken / before:.0f} times as long for each"
    return None


def _time(work: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        began = thread_time()
        work()
        best = min(best, thread_time() - began)
    return best


_known: list[float] = []


def _usual() -> float:
    """Seconds that a character takes a harmless pattern here."""
    if not _known:
        text, harmless = "a" * LONG, re.compile("[ab]c")
        _known.append(_time(lambda: harmless.search(text), 20) / len(text))
    return _known[0]
