"""Servers: a web server with a page, and tools for agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from polyhop.cli import options as opt

app = typer.Typer()

Corpora = Annotated[
    list[str] | None,
    opt.option(
        "--corpus",
        metavar="[NAME=]PATH",
        help="A corpus, as for ask; repeatable, the first is the default. Default: the included demo corpus.",
    ),
]
Host = Annotated[str, opt.option(help="The address to listen on; other than loopback, keys are required.")]
KeysFile = Annotated[
    Path | None,
    opt.option(
        "--keys", metavar="FILE", help="API keys, NAME:KEY or KEY per line; or $POLYHOP_API_KEYS, separated by commas."
    ),
]
WithoutKeys = Annotated[bool, opt.option("--without-keys", help="Answer anyone who can reach the address.")]
AllowHost = Annotated[
    list[str] | None,
    opt.option("--allow-host", metavar="NAME", help="A host name of the server, such as a proxy's; repeatable."),
]
Rate = Annotated[
    int | None, opt.option(min=1, help="Maximum number of requests per minute, per key or, without keys, per address.")
]
AtOnce = Annotated[int | None, opt.option(min=1, help="Maximum number of concurrent requests per key or address.")]
MostBytes = Annotated[int, opt.option(min=1, help="Maximum size of a request's body in bytes.")]
Questions = Annotated[
    int, opt.option("--concurrency", min=1, help="Maximum number of questions answered at the same time; others wait.")
]
Waiting = Annotated[int, opt.option(min=0, help="Maximum number of waiting questions; more are refused.")]
TimeLimit = Annotated[float, opt.option(help="Maximum seconds per question, waiting included.")]
Longest = Annotated[int, opt.option(min=1, help="Maximum number of characters in a question.")]
Traces = Annotated[int, opt.option(min=0, help="Maximum number of recent answers whose traces are kept.")]


@app.command()
def serve(
    corpus: Corpora = None,
    language: opt.Language = None,
    skip_bad: opt.SkipBad = False,
    method: Annotated[str, opt.option(help="The method of requests that name none; 'polyhop methods' lists them.")] = (
        "tor"
    ),
    settings: opt.Settings = None,
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    reader: opt.Reader = "pocket",
    runs: Annotated[Path, opt.option(help="The folder of runs to show, written by 'polyhop run --out'.")] = (
        Path("runs")
    ),
    host: Host = "127.0.0.1",
    port: Annotated[int, opt.option(help="The port; 0 takes a free one.")] = 8000,
    keys: KeysFile = None,
    without_keys: WithoutKeys = False,
    allow_host: AllowHost = None,
    allow_origin: Annotated[
        list[str] | None,
        opt.option(
            metavar="ORIGIN",
            help="Origin of another web page that may send requests (CORS), such as https://wiki.example.",
        ),
    ] = None,
    rate: Rate = None,
    at_once: AtOnce = None,
    concurrency: Questions = 64,
    waiting: Waiting = 1024,
    time_limit: TimeLimit = 300,
    longest: Longest = 4000,
    most_bytes: MostBytes = 1_000_000,
    grace: Annotated[float, opt.option(help="Seconds to finish running questions at shutdown.")] = 30,
    traces: Traces = 1000,
    log_questions: Annotated[bool, opt.option("--log-questions", help="Also log questions and answers.")] = False,
    telemetry: opt.Telemetry = False,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    max_cost: opt.MaxCost = None,
    price: opt.Price = None,
    abstain_below: opt.Abstain = None,
    seed: opt.Seed = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
) -> None:
    """Serve a web page and an HTTP API, also OpenAI's. Runs until Ctrl-C or SIGTERM; requests cannot exceed the limits.

    The page is at http://127.0.0.1:8000. The API: POST /v1/ask and /v1/search, GET /v1/traces, /v1/methods, /v1/corpora
    and /v1/runs; for any chat client POST /v1/chat/completions. /openapi.json describes all; /health, /ready, /metrics.
    """
    from polyhop.cli.serve import ListenAddress, run_serve

    given = locals()
    address = ListenAddress(host=host, port=port, keys=keys, without_keys=without_keys, allow_host=allow_host or ())
    limits = {**_limits(given), "origins": tuple(allow_origin or ())}
    run_serve({**_service(given), "grace": grace, "runs": runs}, address, limits, log_questions)


@app.command()
def mcp(
    corpus: Corpora = None,
    language: opt.Language = None,
    skip_bad: opt.SkipBad = False,
    method: opt.Method = "tor",
    settings: opt.Settings = None,
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    reader: opt.Reader = "pocket",
    transport: Annotated[str, opt.option(help="stdio, or http: streamable HTTP at /mcp of --host and --port.")] = (
        "stdio"
    ),
    host: Host = "127.0.0.1",
    port: Annotated[int, opt.option(help="The port, for http.")] = 8010,
    keys: KeysFile = None,
    without_keys: WithoutKeys = False,
    allow_host: AllowHost = None,
    rate: Rate = None,
    at_once: AtOnce = None,
    concurrency: Questions = 64,
    waiting: Waiting = 1024,
    time_limit: TimeLimit = 300,
    longest: Longest = 4000,
    most_bytes: MostBytes = 1_000_000,
    traces: Traces = 1000,
    telemetry: opt.Telemetry = False,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    max_cost: opt.MaxCost = None,
    price: opt.Price = None,
    abstain_below: opt.Abstain = None,
    seed: opt.Seed = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
) -> None:
    """Serve tools to agents over MCP. The Model Context Protocol: answer_question, search_passages, get_trace."""
    from polyhop.cli.serve import ListenAddress, run_mcp

    given = locals()
    address = ListenAddress(host=host, port=port, keys=keys, without_keys=without_keys, allow_host=allow_host or ())
    run_mcp(_service(given), transport, address, _limits(given))


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    """Convert a verb's options to arguments of ``serve.http.app.Options``."""
    return {"per_minute": given["rate"], "at_once": given["at_once"], "max_body_bytes": given["most_bytes"]}


def _service(given: dict[str, Any]) -> dict[str, Any]:
    """Convert a verb's options to arguments of ``cli.serve.service_of``."""
    same = ("language", "skip_bad", "method", "concurrency", "waiting", "telemetry")
    return {
        **opt.pipeline_arguments({**given, "settings": None}),
        **{name: given[name] for name in same},
        "corpora": given["corpus"] or [],
        "settings": opt.pairs(given["settings"], "-o", "KEY=VALUE"),
        "max_question_chars": given["longest"],
        "timeout": given["time_limit"],
        "traces_kept": given["traces"],
    }
