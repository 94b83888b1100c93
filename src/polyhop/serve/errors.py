"""Errors of the service itself, not of a method or model."""

from __future__ import annotations

from polyhop.errors import PolyhopError, UnknownName, UsageError


class UnknownTrace(UsageError):
    """No answer with this id is kept."""


class UnknownRun(UnknownName):
    """No run, or no question of a run, has this name."""


class UnknownCorpus(UnknownName):
    """No corpus has this name."""


class NotAllowed(PolyhopError):
    """A key is missing or wrong."""


class TooManyRequests(PolyhopError):
    """A client sends too many requests, or too many at once; ``retry_after``: seconds to wait before the next."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Busy(TooManyRequests):
    """The service has reached its maximum number of questions, or of uploads."""


class Stopping(PolyhopError):
    """The service is stopping: it accepts no questions and abandons unfinished ones."""


class OutOfTime(PolyhopError):
    """A question took longer than the service allows."""


class TooLarge(UsageError):
    """An upload that exceeds the limits of the service."""


class NoUploads(PolyhopError):
    """The service takes no uploads."""


class NotStored(PolyhopError):
    """The service has no space for an upload, or cannot write it."""


class ClientGone(PolyhopError):
    """The client disconnected; the work was cancelled."""
