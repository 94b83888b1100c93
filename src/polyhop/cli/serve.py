"""``polyhop serve`` and ``polyhop mcp``."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.cli.ask import POCKET_IS
from polyhop.cli.printing import say
from polyhop.common.extras import require
from polyhop.data import DEMO
from polyhop.data.corpora import Corpus, open_corpus
from polyhop.errors import UsageError
from polyhop.retrieval import brings_corpus
from polyhop.serve.limits import Keys
from polyhop.serve.logs import log_answers, log_to_stderr
from polyhop.serve.service import Service

KEYS = "POLYHOP_API_KEYS"
"""The variable of the environment that may hold keys: NAME:KEY or KEY, with commas between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """The address on which a server listens, and its access rules."""

    host: str
    port: int
    keys: Path | None
    without_keys: bool
    allow_host: Sequence[str]

    def checked(self) -> tuple[Keys | None, frozenset[str] | None]:
        """The keys, and the names the server may be asked under, None for any. ``UsageError`` for an address that
        others can reach and no keys."""
        keys = keys_of(self.keys)
        here = is_loopback(self.host)
        if keys is None and not here and not self.without_keys:
            raise UsageError(
                f"--host {self.host}: other machines could ask without a key; give --keys FILE or {KEYS}, "
                "or --without-keys where anyone may"
            )
        if not here:
            return keys, frozenset(self.allow_host) or None
        return keys, frozenset({"localhost", "127.0.0.1", "[::1]", self.host.lower(), *self.allow_host})


def run_serve(
    service: Mapping[str, Any], address: ListenAddress, limits: Mapping[str, Any], log_questions: bool
) -> None:
    """Serve over HTTP until a signal comes."""
    for module in ("fastapi", "uvicorn"):
        require(module, "serve", "polyhop serve")
    from polyhop.serve.http.app import Options, serve

    keys, hosts = address.checked()
    options = Options(keys=keys, hosts=hosts, **limits)
    opened = service_of(service, [log_answers(with_text=log_questions)])
    log_to_stderr()
    asyncio.run(serve(opened, options, address.host, address.port))


def run_mcp(service: Mapping[str, Any], transport: str, address: ListenAddress, limits: Mapping[str, Any]) -> None:
    """Serve the tools to an agent."""
    require("mcp", "mcp", "polyhop mcp")
    from polyhop.serve.http.app import Options
    from polyhop.serve.mcp import run

    keys, hosts = address.checked()
    options = Options(keys=keys, hosts=hosts, **limits)
    log_to_stderr()
    run(service_of(service, []), transport, address.host, address.port, options)  # type: ignore[arg-type]  # it checks it


def service_of(given: Mapping[str, Any], listeners: Iterable[Any]) -> Service:
    """The service that a verb's options ask for."""
    options = dict(given)
    paths, language, skip_bad = (options.pop(name) for name in ("corpora", "language", "skip_bad"))
    corpora = corpora_of(paths, language, skip_bad, options["retriever"])
    if options["telemetry"]:
        from polyhop.telemetry import start

        start()
    made = Service(corpora, on_answer=list(listeners), **options)
    if options["lm"] == "pocket":
        say(POCKET_IS)
    return made


def corpora_of(
    given: Sequence[str], language: str | None, skip_bad: bool, retriever: str | None
) -> dict[str, Corpus | None]:
    """Corpora by name, from ``NAME=PATH`` or ``PATH``; without any the demo's, or what the retriever brings.

    >>> corpora_of(["films=demo", "demo"], None, False, None)
    {'films': Corpus('passages'), 'demo': Corpus('passages')}
    """
    if not given and retriever is not None and brings_corpus(retriever):
        return {"default": None}
    found: dict[str, Corpus | None] = {}
    for item in given or [DEMO]:
        name, equals, path = item.partition("=")
        named = bool(equals and name and not any(mark in name for mark in "/\\"))
        corpus = open_corpus(path if named else item, language=language, skip_bad=skip_bad)
        name = name if named else DEMO if item == DEMO else corpus.name
        if name in found:
            raise UsageError(f"--corpus {item}: there is a corpus {name!r} already; write NAME=PATH")
        found[name] = corpus
    return found


def keys_of(path: Path | None) -> Keys | None:
    """The keys of a file or, without one, of the environment."""
    if path is not None:
        return Keys.read(path)
    keys = os.environ.get(KEYS)
    return Keys.of(keys.split(","), f"${KEYS}") if keys else None


def is_loopback(host: str) -> bool:
    """Tell if only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("wiki.example")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
