"""The one family of errors. A message says what was wrong, with which value, and what would work.

The library raises; the command line prints the message and exits with ``exit_code``.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from pathlib import Path

from polyhop.redaction import redacted

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 200


def brief(value: object) -> str:
    """Write a value for a message: its ``repr``, with what is long or deeply nested cut short.

    >>> brief("tro"), len(brief("x" * 5000)), brief([[[[[[[[1]]]]]]]])
    ("'tro'", 200, '[[[[[[...]]]]]]')
    """
    return _BRIEF.repr(value)


class PolyhopError(Exception):
    """Base of every error polyhop raises on purpose. Its message is ``redacted``."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(message))


class UsageError(PolyhopError):
    """What was asked for cannot be: wrong name, setting, file or combination. Nothing was run.

    ``field``: the part of a request that is wrong, if it came in one.
    """

    exit_code = 2
    field: str | None = None


class UnknownName(UsageError):
    """A name that is not among the valid ones; the message lists them and the nearest spelling."""

    def __init__(self, what: str, name: str, valid: Iterable[str], note: str = "") -> None:
        names = sorted(valid)
        message = f"unknown {what} {brief(name)}"
        near = nearest(name, names) or nearest(name.partition(":")[0], names)
        message += f"; did you mean {near!r}?" if near else "."
        message += f" Valid: {', '.join(names)}." if names else f" There is no {what} to choose from."
        super().__init__(f"{message} {note}".rstrip())
        self.name, self.valid = redacted(name), names


class SettingError(UsageError):
    """A setting with a value it cannot take."""


class MissingExtra(UsageError):
    """An optional dependency that is not installed; the message is its install line."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra that is not installed: pip install 'polyhop[{extra}]'")
        self.extra = extra


class DataError(UsageError):
    """A file that is missing, empty, of an unknown format, or has a malformed line (named with its number)."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + message)
        self.path, self.line = path, line


class IndexFolderError(DataError):
    """An index folder that is missing, partial, or written by another version."""


class PromptError(UsageError):
    """A prompt file whose variables do not match its task's fields, or whose head is malformed."""


class CapabilityError(UsageError):
    """A method needs what its language model cannot do; raised before the first call."""


class ServiceError(PolyhopError):
    """What another machine or program serves could not be had; raised after the retries are spent."""

    exit_code = 2


class LMError(ServiceError):
    """A language model could not be reached or refused; raised after the retries are spent."""


class CutReply(LMError):
    """A reply that spent its token cap before any text came, as when a model thinks for too long; the message names
    the cap and what to do. Only the question fails."""


class RetrievalError(ServiceError):
    """A retriever elsewhere could not be reached, or refused, or answered what cannot be read."""


class Waiting(PolyhopError):
    """A call's reply comes with a batch of others, later: the question is taken up again when it is there."""


class BudgetSpent(PolyhopError):
    """``max_calls``, ``max_tokens``, ``max_seconds`` or ``max_cost`` is used up; ``Run.gathering`` catches it."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"budget spent: {limit}")
        self.limit = limit


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name closest in spelling to ``name``, if any is close.

    >>> nearest("tro", ["tor", "cor", "direct"])
    'tor'
    >>> nearest("zzz", ["tor"]) is None
    True
    """
    names = list(valid)
    if matches := difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6):
        return matches[0]
    return None
