"""API keys, and limits per client: request rate and concurrency."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from time import monotonic

from polyhop.common.text import counted
from polyhop.errors import DataError, SettingError
from polyhop.serve.errors import TooManyRequests

CLIENT: ContextVar[str] = ContextVar("polyhop_client", default="")
"""The name of the key that the request under way came with, "" without keys. Answers are shown to their own client."""

MIN_KEY_LENGTH = 16
"""Characters that a key has at least: shorter ones can be guessed."""

_MANY = 10_000
_ENTRY = re.compile(r"(?:(?P<name>[\w.@-]+):)?(?P<key>[!-9;-~]+)")


class Keys:
    """API keys by the names of who they belong to. Only their hashes are held.

    >>> keys = Keys({"ann": "a-long-enough-key"})
    >>> keys.holder("a-long-enough-key"), keys.holder("another")
    ('ann', None)
    """

    def __init__(self, by_name: Mapping[str, str]) -> None:
        for name, key in by_name.items():
            if len(key) < MIN_KEY_LENGTH:
                raise SettingError(
                    f"the key of {name} has {counted(len(key), 'characters')}; it must have at least {MIN_KEY_LENGTH}"
                )
        self._hashes = {name: _hash(key) for name, key in by_name.items()}
        if len(set(self._hashes.values())) < len(self._hashes):
            raise SettingError("two names have the same key")

    def __len__(self) -> int:
        return len(self._hashes)

    @classmethod
    def of(cls, entries: Iterable[str], source: str) -> Keys:
        """Keys from entries, ``NAME:KEY`` or ``KEY``; empty ones and those after a ``#`` are left out. ``source`` names
        them in errors; no error shows a key."""
        found: dict[str, str] = {}
        for number, entry in enumerate(entries, 1):
            if not entry.strip() or entry.lstrip().startswith("#"):
                continue
            match = _ENTRY.fullmatch(entry.strip())
            name = match and (match["name"] or f"key {number}")
            if match is None or name is None or name in found:
                raise DataError("no key, or a name's second one: write NAME:KEY or KEY", source, number)
            found[name] = match["key"]
        if not found:
            raise DataError("no key in it: write NAME:KEY or KEY, one per line", source)
        return cls(found)

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Keys from a file, one a line."""
        try:
            return cls.of(path.read_text("utf-8").splitlines(), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read: {error}", path) from None

    def holder(self, key: str) -> str | None:
        """Whose a key is. It takes the same time whatever the key, and whoever's it is."""
        given, found = _hash(key), None
        for name, known in self._hashes.items():
            if compare_digest(given, known):
                found = name
        return found


def _hash(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclass(slots=True)
class _Usage:
    running: int = 0
    paid_until: float = 0.0


class ClientLimits:
    """Limit each client to at most ``per_minute`` requests a minute (all of them at once, after a minute's rest) and
    ``at_once`` at the same time; None for no limit."""

    def __init__(
        self, *, per_minute: int | None = None, at_once: int | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        for name, value in {"per_minute": per_minute, "at_once": at_once}.items():
            if value is not None and value < 1:
                raise SettingError(f"{name}={value}: must be at least 1")
        self.per_minute, self.at_once = per_minute, at_once
        self._clock = clock
        self._uses: dict[str, _Usage] = {}

    @contextmanager
    def admitted(self, client: str) -> Iterator[None]:
        """A request of a client, as long as the block lasts. Raises ``TooManyRequests`` before it begins."""
        now = self._clock()
        if len(self._uses) > _MANY:
            self._forget(now)
        use = self._uses.setdefault(client, _Usage())
        if self.at_once is not None and use.running >= self.at_once:
            raise TooManyRequests(f"at most {counted(self.at_once, 'requests')} of yours may be under way at once")
        if self.per_minute is not None:
            self._pay(use, now, self.per_minute)
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1

    def _pay(self, use: _Usage, now: float, per_minute: int) -> None:
        """Charge a request its share of a minute; a client may be a minute ahead."""
        paid = max(use.paid_until, now) + 60 / per_minute
        if paid - now > 60 + 1e-6:
            raise TooManyRequests(
                f"more than {counted(per_minute, 'requests')} per minute", retry_after=paid - now - 60
            )
        use.paid_until = paid

    def _forget(self, now: float) -> None:
        self._uses = {name: use for name, use in self._uses.items() if use.running or use.paid_until > now}
