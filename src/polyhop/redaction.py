"""Redact secrets from everything that is shown, logged, sent or kept: ``redacted`` is the one function that does so.

It knows the secrets of the process, which register themselves when a key, a header or a URL is parsed, in every form in
which a server or a library may repeat them. It also masks the credentials and the parameters of any URL in a text by
their position alone, even if the URL is malformed, lacks its scheme or was never parsed.

Registering only ever adds, for the whole process: a secret of one pipeline is redacted in the messages of all.

Limits. A value shorter than ``SHORTEST`` characters, or one of ``PUBLIC``, would hide ordinary words, so it is
masked only inside its URL. A secret that a server encodes in another way or cuts in half is not recognized.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile
from typing import Any, TextIO

HIDDEN = "***"
SHORTEST = 5
"""Minimum number of characters of a value that is redacted everywhere."""
PUBLIC = frozenset({"admin", "elastic", "openai", "opensearch", "polyhop", "postgres", "postgresql", "qdrant"})
"""User names and passwords that are defaults or names in this package, and therefore no secrets."""
OPTIONS = frozenset({"ca", "concurrency", "dense", "fusion", "per_minute", "protocol", "timeout"})
"""Parameters of URLs that are polyhop's own options: their values are shown."""
MAX_NAME = 200
"""Maximum number of characters of a text whose redacted form is cached."""
MAX_SUMMARY = 300
"""Maximum number of characters of a summary of another program's message."""

_WORD = re.compile(r"[^\s\"'`<>]+")
_SLASHES = re.compile(r"https?://?|//", re.IGNORECASE)  # a path has one slash of them left
_BEFORE_SERVER = re.compile(r"openai:[^:]+$|vectors:.")
"""Texts that may precede an @: the names of a model and of a file of vectors."""
_USER_INFO = re.compile(r".*@(?!https?:/)", re.IGNORECASE)
_HOST = re.compile(r"localhost|[\w-]+(?:\.[\w-]+)+")
_HOST_AND_PORT = re.compile(r"[^:]*(?::\d*)?|\[.*")
_SERVER = re.compile(r"localhost\b|[\w.-]+:\d")
_PASSWORD = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s'&]\S*)", re.IGNORECASE)
_MARKS = ("@", "?", "//", ":/")
"""Every text with an address contains one of these."""
_PUNCTUATION = ".,:;!?…)]}"

_registering = threading.Lock()
_known: tuple[str, ...] = ()
"""Every form of every registered secret, the longest first."""


def register_secret(*values: str | None) -> None:
    """Redact these values from now on, in any of the usual encodings; None and short values are ignored."""
    global _known
    found = {form for value in values if value and _is_secret(value) for form in _forms(value)}
    with _registering:
        if not found.issubset(_known):
            _known = tuple(sorted(found.union(_known), key=len, reverse=True))


def register_credentials(user: str, password: str) -> str:
    """Register a user and password; returns the value of their ``Authorization`` header."""
    from base64 import b64encode

    encoded = b64encode(f"{user}:{password}".encode()).decode()
    register_secret(user, password, f"{user}:{password}", encoded, encoded.rstrip("="))
    return f"Basic {encoded}"


def register_url(url: str) -> None:
    """Register the user, the password and the values of the parameters of a URL, well-formed or not."""
    from urllib.parse import unquote, unquote_plus

    before, slashes, after = url.strip().partition("//")
    rest = after if slashes else before
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, _, password = (authority if "@" in authority else "").rpartition("@")[0].partition(":")
    if user:
        register_credentials(unquote(user), unquote(password))
        register_secret(user, password)
    else:  # perhaps a password that holds a slash
        register_secret(rest.rpartition("@")[0].partition(":")[2])
    query = rest.partition("?")[2].partition("#")[0]
    for pair in query.split("&") if "@" not in query else ():  # else the question mark may be a password's
        name, equals, value = pair.partition("=")
        value = value if equals else name
        register_secret(value, unquote_plus(value))


def redacted(text: str) -> str:
    """The text without secrets: those registered, the credentials and parameters of URLs, and ``password=`` values.

    >>> redacted("elastic:http://ada:secret@localhost:9200/wiki?key=abc&timeout=5")
    'elastic:http://***@localhost:9200/wiki?key=***&timeout=5'
    >>> redacted("openai:tiny@ada:secret@localhost:8000/v1, not openai:qwen2:7b@http://localhost:8000/v1")
    'openai:tiny@***@localhost:8000/v1, not openai:qwen2:7b@http://localhost:8000/v1'
    """
    return _redacted_name(text, _known) if len(text) <= MAX_NAME else _redacted(text)


@lru_cache(maxsize=256)
def _redacted_name(text: str, known: tuple[str, ...]) -> str:
    """Redact a short text, such as the name of a model at each of its calls; ``known``: the secrets registered."""
    return _redacted(text)


def _redacted(text: str) -> str:
    for form in _known:
        text = text.replace(form, HIDDEN)
    if any(mark in text for mark in _MARKS):
        text = _WORD.sub(lambda word: _masked(word[0]), text)
    return _PASSWORD.sub(rf"\1{HIDDEN}", text)


def summary(text: str) -> str:
    """Redact another program's message, put it on one line and cut it to ``MAX_SUMMARY`` characters."""
    line = " ".join(redacted(text).split())  # before the cut, which could leave half a key
    return line if len(line) <= MAX_SUMMARY else line[: MAX_SUMMARY - 1] + "…"


class RedactedStream:
    """A text stream that redacts what it writes to ``stream``; otherwise it behaves as that stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the redacted text; returns the number of characters given."""
        self._stream.write(redacted(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the redacted lines."""
        for line in lines:
            self.write(line)


def _is_secret(value: str) -> bool:
    return len(value) >= SHORTEST and value.lower() not in PUBLIC and value != HIDDEN


def _forms(value: str) -> set[str]:
    """Return the forms of a value: unchanged, quoted for a URL, in JSON, in HTML and as Python shows it."""
    import html
    import json
    from urllib.parse import quote, quote_plus

    quoted = {quote(value), quote(value, safe=""), quote_plus(value)}
    lower = {re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in quoted}
    in_json = {json.dumps(value, ensure_ascii=ascii)[1:-1] for ascii in (True, False)}
    return {value, *quoted, *lower, *in_json, html.escape(value), repr(value)[1:-1]}


def _masked(word: str) -> str:
    """Remove the credentials and parameters of the URLs in a word of a text."""
    if not (slashes := _SLASHES.search(word)):
        return _without_parameters(_without_user(word)) if "@" in word else word
    head, rest = word[: slashes.end()], word[slashes.end() :]
    before, at, name = head.rpartition("@")
    head = _without_user(before) + at + name
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if (found := _USER_INFO.match(rest)) and not _HOST.fullmatch(authority):
        rest = f"{HIDDEN}@{rest[found.end() :]}"
    elif not _HOST_AND_PORT.fullmatch(authority.rstrip(_PUNCTUATION)):  # the beginning of USER:PASSWORD@HOST
        rest = HIDDEN + rest[len(authority) :]
    return head + _without_parameters(rest)


def _without_user(word: str) -> str:
    """Remove user and password from a word without a scheme, such as ``openai:MODEL@USER:PASSWORD@HOST``."""
    *before, host = word.split("@")
    names = list(takewhile(_BEFORE_SERVER.search, before))
    user = before[len(names) :]
    if not user or not (names or ":" in "@".join(user) or _SERVER.match(host)):  # an e-mail address has none
        return word
    return "@".join([*names, HIDDEN, host])


def _without_parameters(url: str) -> str:
    path, mark, query = url.partition("?")
    parameters = query.rstrip(_PUNCTUATION)
    if not parameters:
        return url
    return path + mark + "&".join(map(_without_value, parameters.split("&"))) + query[len(parameters) :]


def _without_value(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    if name in OPTIONS:
        return parameter
    return f"{name}={HIDDEN}" if equals else HIDDEN
