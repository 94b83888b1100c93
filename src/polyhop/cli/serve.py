"""``polyhop serve`` and ``polyhop mcp``."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polyhop.cli import options as opt
from polyhop.cli.printing import say_pocket
from polyhop.common.extras import require
from polyhop.common.progress import show_progress
from polyhop.engine.options import PipelineOptions
from polyhop.errors import UsageError

if TYPE_CHECKING:
    from polyhop.data.corpus import Corpus
    from polyhop.serve.http.app import Options
    from polyhop.serve.limits import Keys
    from polyhop.serve.service import Service

KEYS = "POLYHOP_API_KEYS"
"""The environment variable that may hold keys: NAME:KEY or KEY, separated by commas."""

Corpora = Annotated[
    list[str] | None,
    opt.option(
        "--corpus",
        metavar="[NAME=]PATH",
        help="A corpus, as for ask; repeatable, the first is the default. Default: the included demo corpus.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """The address on which a server listens, and its access rules."""

    host: str
    port: int
    keys: Path | None
    without_keys: bool
    allow_host: Sequence[str]

    def checked(self) -> tuple[Keys | None, frozenset[str] | None]:
        """Return the keys, and the host names that requests may use, None for any.

        Raises:
            UsageError: other machines can reach the address, and there are no keys.
        """
        keys = keys_of(self.keys)
        here = is_loopback(self.host)
        if keys is None and not here and not self.without_keys:
            raise UsageError(
                f"--host {self.host}: other machines could ask without a key; give --keys FILE or {KEYS}, "
                "or --without-keys if anyone may"
            )
        if not here:
            return keys, frozenset(self.allow_host) or None
        return keys, frozenset({"localhost", "127.0.0.1", "[::1]", self.host.lower(), *self.allow_host})


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The options that both servers have."""

    host: Annotated[str, opt.option(help="The address to listen on; other than loopback, keys are required.")] = (
        "127.0.0.1"
    )
    keys: Annotated[
        Path | None,
        opt.option(
            "--keys",
            metavar="FILE",
            help="API keys, NAME:KEY or KEY per line; or $POLYHOP_API_KEYS, separated by commas.",
        ),
    ] = None
    without_keys: Annotated[bool, opt.option("--without-keys", help="Answer anyone who can reach the address.")] = False
    allow_host: Annotated[
        list[str] | None,
        opt.option("--allow-host", metavar="NAME", help="A host name of the server, such as a proxy's; repeatable."),
    ] = None
    rate: Annotated[
        int | None,
        opt.option(min=1, help="Maximum number of requests per minute, per key or, without keys, per address."),
    ] = None
    at_once: Annotated[
        int | None, opt.option(min=1, help="Maximum number of concurrent requests per key or address.")
    ] = None
    concurrency: Annotated[
        int,
        opt.option("--concurrency", min=1, help="Maximum number of questions answered at the same time; others wait."),
    ] = 64
    waiting: Annotated[int, opt.option(min=0, help="Maximum number of waiting questions; more are refused.")] = 1024
    time_limit: Annotated[float, opt.option(help="Maximum seconds per question, waiting included.")] = 300
    longest: Annotated[int, opt.option(min=1, help="Maximum number of characters in a question.")] = 4000
    most_bytes: Annotated[int, opt.option(min=1, help="Maximum size of a request's body in bytes.")] = 1_000_000
    traces: Annotated[int, opt.option(min=0, help="Maximum number of recent answers whose traces are kept.")] = 200
    telemetry: opt.Telemetry = False

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server: it listens on the loopback, and no proxy has its own name."""
        return is_loopback(self.host) and not self.allow_host

    def of_app(self, port: int, origins: Sequence[str] = ()) -> Options:
        """Return the access rules and limits of the HTTP app."""
        from polyhop.serve.http.app import Options

        keys, hosts = ListenAddress(
            host=self.host,
            port=port,
            keys=self.keys,
            without_keys=self.without_keys,
            allow_host=self.allow_host or (),
        ).checked()
        return Options(
            keys=keys,
            hosts=hosts,
            per_minute=self.rate,
            at_once=self.at_once,
            max_body_bytes=self.most_bytes,
            origins=tuple(origins),
        )

    def service(self, corpora: dict[str, Corpus | None], options: PipelineOptions, **others: Any) -> Service:
        """Open the service, and say what ``pocket`` is if it is the model."""
        from polyhop.serve.service import Service

        if self.telemetry:
            from polyhop.telemetry import start

            start()
        service = Service(
            corpora,
            method=options.method,
            settings=options.settings,
            concurrency=self.concurrency,
            waiting=self.waiting,
            timeout=self.time_limit,
            max_question_chars=self.longest,
            traces_kept=self.traces,
            telemetry=self.telemetry,
            **others,
            **replace(options, settings={}).arguments(),
        )
        say_pocket(options)
        return service


app = opt.new_app()


@app.command()
@opt.takes("server", ServerOptions)
@opt.takes_options(
    without=("set_from",), method={"help": "The method of requests that name none; 'polyhop methods' lists them."}
)
def serve(
    corpus: Corpora = None,
    language: opt.Language = None,
    skip_bad: opt.SkipBad = False,
    *,
    options: PipelineOptions,
    server: ServerOptions,
    runs: Annotated[Path, opt.option(help="The folder of runs to show, written by 'polyhop run --out'.")] = (
        Path("runs")
    ),
    port: Annotated[int, opt.option(help="The port; 0 takes a free one.")] = 8000,
    allow_origin: Annotated[
        list[str] | None,
        opt.option(
            metavar="ORIGIN",
            help="Origin of another web page that may send requests (CORS), such as https://wiki.example.",
        ),
    ] = None,
    allow_uploads: Annotated[
        bool | None,
        opt.option(
            "--allow-uploads/--no-uploads",
            help="Take documents to ask from clients; by default if only this machine can reach the server.",
        ),
    ] = None,
    max_uploads: Annotated[
        int, opt.option(min=1, help="Maximum number of uploaded corpora that are kept; the oldest is deleted.")
    ] = 8,
    max_upload_files: Annotated[int, opt.option(min=1, help="Maximum number of files of an upload.")] = 2000,
    max_upload_bytes: Annotated[int, opt.option(min=1, help="Maximum size of an upload in bytes.")] = 200_000_000,
    max_file_bytes: Annotated[
        int, opt.option(min=1, help="Maximum size of an uploaded file in bytes; larger ones are left out.")
    ] = 50_000_000,
    grace: Annotated[float, opt.option(min=0, help="Seconds to finish running questions at shutdown.")] = 2,
    log_questions: Annotated[bool, opt.option("--log-questions", help="Also log questions and answers.")] = False,
) -> None:
    """Serve a web page, an HTTP API and OpenAI's chat API. Runs until Ctrl-C or SIGTERM; the limits bind all requests.

    The page is at http://127.0.0.1:8000. The API: POST /v1/ask, /v1/search and /v1/corpora (uploads), GET /v1/traces,
    /v1/methods, /v1/corpora and /v1/runs; for any chat client POST /v1/chat/completions. /openapi.json describes all;
    /health, /ready, /metrics.
    """
    for module in ("fastapi", "uvicorn", "python_multipart"):
        require(module, "serve", "polyhop serve")
    import asyncio

    from polyhop.serve.drafts import UploadLimits
    from polyhop.serve.http.app import serve
    from polyhop.serve.logs import log_answers, log_progress, log_to_stderr

    rules = server.of_app(port, allow_origin or ())
    corpora = corpora_of(corpus or [], language, skip_bad, options.retriever)
    listeners = [log_answers(with_text=log_questions)]
    limits = UploadLimits(
        files=max_upload_files, file_bytes=max_file_bytes, total_bytes=max_upload_bytes, corpora=max_uploads
    )
    takes_uploads = allow_uploads if allow_uploads is not None else server.is_local
    uploads = limits if takes_uploads else None
    service = server.service(corpora, options, on_answer=listeners, grace=grace, runs=runs, uploads=uploads)
    log_to_stderr()
    with nullcontext() if sys.stderr.isatty() else show_progress(log_progress):
        asyncio.run(serve(service, rules, server.host, port))


@app.command()
@opt.takes("server", ServerOptions)
@opt.takes_options(without=("set_from",))
def mcp(
    corpus: Corpora = None,
    language: opt.Language = None,
    skip_bad: opt.SkipBad = False,
    *,
    options: PipelineOptions,
    server: ServerOptions,
    transport: Annotated[str, opt.option(help="stdio, or http: streamable HTTP at /mcp of --host and --port.")] = (
        "stdio"
    ),
    port: Annotated[int, opt.option(help="The port, for http.")] = 8010,
) -> None:
    """Serve tools to agents over MCP.

    The tools of this server of the Model Context Protocol: answer_question, search_passages and get_trace.
    """
    require("mcp", "mcp", "polyhop mcp")
    from polyhop.serve.logs import log_to_stderr
    from polyhop.serve.mcp import run

    rules = server.of_app(port)
    log_to_stderr()
    service = server.service(corpora_of(corpus or [], language, skip_bad, options.retriever), options)
    run(service, transport, server.host, port, rules)  # type: ignore[arg-type]  # it checks it


def corpora_of(
    given: Sequence[str], language: str | None, skip_bad: bool, retriever: object
) -> dict[str, Corpus | None]:
    """Open corpora by name, from ``NAME=PATH`` or ``PATH``; by default the demo's, or the retriever's.

    >>> corpora_of(["films=demo", "demo"], None, False, None)
    {'films': Corpus('passages'), 'demo': Corpus('passages')}
    """
    from polyhop.data import DEMO
    from polyhop.data.corpora import open_corpus
    from polyhop.retrieval import brings_corpus

    if not given and isinstance(retriever, str) and brings_corpus(retriever):
        return {"default": None}
    found: dict[str, Corpus | None] = {}
    for item in given or [DEMO]:
        name, equals, path = item.partition("=")
        named = bool(equals and name and not any(mark in name for mark in "/\\"))
        corpus = open_corpus(path if named else item, language=language, skip_bad=skip_bad)
        name = name if named else DEMO if item == DEMO else corpus.name
        if name in found:
            raise UsageError(f"--corpus {item}: a corpus {name!r} exists already; write NAME=PATH")
        found[name] = corpus
    return found


def keys_of(path: Path | None) -> Keys | None:
    """Read the keys of a file or, without one, of the environment."""
    from polyhop.serve.limits import Keys

    if path is not None:
        return Keys.read(path)
    keys = os.environ.get(KEYS)
    return Keys.of(keys.split(","), f"${KEYS}") if keys else None


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("wiki.example")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
