"""API keys; limits per client: request rate and concurrency; and the memory that the requests of all share."""

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
from polyhop.serve.errors import Busy, TooManyRequests

CLIENT: ContextVar[str] = ContextVar("polyhop_client", default="")
"""The name of the key of the current request; "" without keys. A client sees only its own answers."""

MIN_KEY_LENGTH = 16
"""Minimum characters of a key. Shorter keys can be guessed."""

_MAX_CLIENTS = 10_000  # remembered; above it, idle ones are forgotten
_ENTRY = re.compile(r"(?:(?P<name>[\w.@-]+):)?(?P<key>[!-9;-~]+)")


class Keys:
    """API keys by the names of their holders. Only their hashes are kept.

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
        """Parse keys from entries, ``NAME:KEY`` or ``KEY``. Empty entries and comments (``#``) are ignored. ``source``
        names the entries in errors; no error shows a key."""
        found: dict[str, str] = {}
        for number, entry in enumerate(entries, 1):
            if not entry.strip() or entry.lstrip().startswith("#"):
                continue
            match = _ENTRY.fullmatch(entry.strip())
            name = match and (match["name"] or f"key {number}")
            if match is None or name is None or name in found:
                raise DataError("not a key, or the second key of a name: write NAME:KEY or KEY", source, number)
            found[name] = match["key"]
        if not found:
            raise DataError("contains no key: write NAME:KEY or KEY, one per line", source)
        return cls(found)

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Read keys from a file, one per line."""
        try:
            return cls.of(path.read_text("utf-8").splitlines(), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read: {error}", path) from None

    def holder(self, key: str) -> str | None:
        """Return the name of a key's holder, in constant time; None for an unknown key."""
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
    """Limit each client to ``per_minute`` requests per minute (in one burst, after a minute without requests) and to
    ``at_once`` concurrent requests. None means no limit."""

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
        """Count a request of a client while the block runs.

        Raises:
            TooManyRequests: the client has reached a limit; the block does not run.
        """
        now = self._clock()
        if len(self._uses) > _MAX_CLIENTS:
            self._forget(now)
        use = self._uses.setdefault(client, _Usage())
        if self.at_once is not None and use.running >= self.at_once:
            raise TooManyRequests(f"at most {counted(self.at_once, 'requests')} of yours may run at once")
        if self.per_minute is not None:
            self._charge(use, now, self.per_minute)
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1

    def _charge(self, use: _Usage, now: float, per_minute: int) -> None:
        """Charge a request its share of a minute. A client may run up to a minute ahead."""
        paid = max(use.paid_until, now) + 60 / per_minute
        if paid - now > 60 + 1e-6:
            raise TooManyRequests(
                f"more than {counted(per_minute, 'requests')} per minute", retry_after=paid - now - 60
            )
        use.paid_until = paid

    def _forget(self, now: float) -> None:
        self._uses = {name: use for name, use in self._uses.items() if use.running or use.paid_until > now}


class SharedMemory:
    """Bytes that all requests share: at most ``max_bytes`` are taken at a time."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.taken = max_bytes, 0

    @contextmanager
    def taking(self) -> Iterator[Callable[[int], None]]:
        """Give a function that takes bytes until the block ends.

        Raises:
            Busy: there are not as many left.
        """
        own = 0

        def take(size: int) -> None:
            nonlocal own
            if self.taken + size > self.max_bytes:
                raise Busy("the requests under way are too large together; try again later")
            own, self.taken = own + size, self.taken + size

        try:
            yield take
        finally:
            self.taken -= own
