"""Logs of a server: JSON lines on stderr. They contain no question, answer or key, unless enabled."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from time import monotonic

import orjson

from polyhop.common.text import printable_json
from polyhop.redaction import redacted
from polyhop.serve.service import AskResponse

LOG = logging.getLogger("polyhop.serve")
REQUEST: ContextVar[str] = ContextVar("polyhop_request", default="")
"""The id of the current HTTP request."""


class JsonLines(logging.Formatter):
    """Format a record as one line: time, level, event, the request's id and the fields of ``extra={"facts": {…}}``.

    ``greets``: the first record says in words where the server is, for a person at a terminal.
    """

    def __init__(self, *, greets: bool = False) -> None:
        super().__init__()
        self.greets = greets

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        if self.greets and record.getMessage() == "serving":
            return f"polyhop is at {record.facts['url']} (Ctrl-C ends it)"  # type: ignore[attr-defined]
        row = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **({"request": request} if (request := REQUEST.get()) else {}),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        shown = {name: redacted(value) if isinstance(value, str) else value for name, value in row.items()}
        return printable_json(orjson.dumps(shown, default=str).decode())


def log_to_stderr() -> None:
    """Send the service's records and uvicorn's warnings to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(greets=sys.stderr.isatty()))
    for name, level in ((LOG.name, logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate, logger.level = [handler], False, level


PROGRESS_SECONDS = 5.0
"""Seconds between two records of progress."""


@contextmanager
def log_progress(noun: str, before: int) -> Iterator[LoggedProgress]:
    """Log the progress of long work, such as an index that is built before the server starts. Given to
    ``show_progress``."""
    yield LoggedProgress(noun)


class LoggedProgress:
    """Logs how many ``noun`` are done, from time to time."""

    def __init__(self, noun: str) -> None:
        self.noun, self._last = noun, monotonic()

    def update(self, done: int, total: int | None = None) -> None:
        """Report that ``done`` of ``total`` are done."""
        if monotonic() - self._last >= PROGRESS_SECONDS:
            self._last = monotonic()
            LOG.info("progress", extra={"facts": {"of": self.noun, "done": done, "total": total}})


def log_answers(*, with_text: bool = False) -> Callable[[AskResponse], None]:
    """Return a listener that logs each answer: method, seconds, cost; ``with_text``: also question and answer."""

    def log(response: AskResponse) -> None:
        request, answer = response.request, response.answer
        facts = {
            "trace_id": response.trace_id,
            "method": request.method,
            "corpus": request.corpus,
            "client": request.client,
            "support": answer.support,
            "supported": answer.supported,
            "abstained": answer.abstained,
            "seconds": round(answer.usage.elapsed, 4),
            "calls": answer.usage.calls,
            "tokens": answer.usage.prompt_tokens + answer.usage.completion_tokens,
        }
        text = {"question": request.question, "answer": answer.text} if with_text else {}
        LOG.info("answered", extra={"facts": facts | text})

    return log
