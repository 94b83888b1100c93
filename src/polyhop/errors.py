"""The errors of the package. A message says what was wrong, with which value, and what would work.

The library raises them; the command line prints the message and exits with ``exit_code``.
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
    """Base of all errors that polyhop raises on purpose. Its message is ``redacted``."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(message))


class UsageError(PolyhopError):
    """A request that cannot be met: a wrong name, setting, file or combination. Nothing was run.

    ``field``: the part of a request that is wrong, if it came in one.
    """

    exit_code = 2
    field: str | None = None


class UnknownName(UsageError):
    """A name that is not valid; the message lists the valid ones, or those that it begins, and suggests the nearest."""

    def __init__(self, what: str, name: str, valid: Iterable[str], note: str = "") -> None:
        names = sorted(valid)
        message = f"unknown {what} {brief(name)}"
        near = nearest(name, names) or nearest(name.partition(":")[0], names)
        message += f"; did you mean {near!r}?" if near else "."
        shown = [each for each in names if each.startswith(f"{name}.")] or names  # tor: tor.review, tor.fuse, …
        message += f" Valid: {', '.join(shown)}." if names else f" There is no {what} to choose from."
        super().__init__(f"{message} {note}".rstrip())
        self.name, self.valid = redacted(name), names


class SettingError(UsageError):
    """A setting with an invalid value."""


class MissingExtra(UsageError):
    """An optional dependency that is not installed; the message is its install command."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra that is not installed: pip install 'polyhop[{extra}]'")
        self.extra = extra


class DataError(UsageError):
    """A file that is missing, empty, of unknown format, or has a malformed line, whose number the message gives."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        prefix = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(prefix + message)
        self.path, self.line = path, line


class IndexFolderError(DataError):
    """An index folder that is missing, incomplete, or of another version."""


class PromptError(UsageError):
    """A prompt file whose variables are not its task's fields, or whose head is malformed."""


class CapabilityError(UsageError):
    """A capability that a method needs and its language model lacks; raised before the first call."""


class CorpusTooLarge(UsageError):
    """A method reads the whole corpus, which does not fit into a prompt: it can answer no question."""


class ServiceError(PolyhopError):
    """A service of another machine or program that failed, after all retries."""

    exit_code = 2


class LMError(ServiceError):
    """A language model that could not be reached or refused, after all retries."""


class Refused(LMError):
    """A server that does not take a form of a request; its model may be asked in another form."""


class SchemaRefused(Refused):
    """A server that does not take the JSON schema of a request that requires it (``Request.requires_schema``)."""


class ToolsRefused(Refused):
    """A server that does not take tools (``Request.tools``); its model may be asked for its calls in text."""


class ContinuationRefused(Refused):
    """A server that continues no text (``Request.continues``); its model may be asked to in a user's turn."""


class CutReply(LMError):
    """A reply that spent its token cap before any text came, for example because a model reasons for too long. The
    message names the cap and the remedy. Only the question fails."""


class RetrievalError(ServiceError):
    """A remote retriever that could not be reached, refused, or gave an unreadable reply."""


class Waiting(PolyhopError):
    """A call whose reply comes later, with a batch; the question is answered again when the reply is there."""


class BudgetSpent(PolyhopError):
    """A spent ``max_calls``, ``max_tokens``, ``max_seconds`` or ``max_cost``; ``Run.gathering`` catches it."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"budget spent: {limit}")
        self.limit = limit


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name closest in spelling to ``name``, or None if none is close.

    >>> nearest("tro", ["tor", "cor", "direct"])
    'tor'
    >>> nearest("zzz", ["tor"]) is None
    True
    """
    names = list(valid)
    if matches := difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6):
        return matches[0]
    return None
