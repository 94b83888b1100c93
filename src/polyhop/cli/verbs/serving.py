"""Serving: a web server with a page, and tools for agents."""

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
        help="A corpus, as of ask; repeatable, the first is the default. By default the demo's, which ships inside.",
    ),
]
Host = Annotated[str, opt.option(help="The address to listen at; another than the loopback needs keys.")]
KeysFile = Annotated[
    Path | None,
    opt.option("--keys", metavar="FILE", help="API keys, NAME:KEY or KEY a line; or $POLYHOP_API_KEYS, with commas."),
]
WithoutKeys = Annotated[bool, opt.option("--without-keys", help="Let anyone who reaches the address ask.")]
AllowHost = Annotated[
    list[str] | None,
    opt.option("--allow-host", metavar="NAME", help="A name the server is asked under, as a proxy's; repeatable."),
]
Rate = Annotated[
    int | None, opt.option(min=1, help="Most requests a minute of one key, or of one address without keys.")
]
AtOnce = Annotated[int | None, opt.option(min=1, help="Most requests at once of one key, or of one address.")]
MostBytes = Annotated[int, opt.option(min=1, help="Most bytes of a request's body.")]
Questions = Annotated[int, opt.option("--concurrency", min=1, help="Questions being answered at once; others wait.")]
Waiting = Annotated[int, opt.option(min=0, help="Questions that may wait; more are refused.")]
TimeLimit = Annotated[float, opt.option(help="Give a question up after so many seconds, waiting included.")]
Longest = Annotated[int, opt.option(min=1, help="Most characters of a question.")]
Traces = Annotated[int, opt.option(min=0, help="How many of the latest answers stay to be looked at, at most.")]


@app.command()
def serve(
    corpus: Corpora = None,
    language: opt.Language = None,
    skip_bad: opt.SkipBad = False,
    method: Annotated[str, opt.option(help="The method where a request names none; 'polyhop methods' lists them.")] = (
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
    runs: Annotated[Path, opt.option(help="The folder of runs to show, as 'polyhop run --out' writes them.")] = (
        Path("runs")
    ),
    host: Host = "127.0.0.1",
    port: Annotated[int, opt.option(help="0 takes a free one.")] = 8000,
    keys: KeysFile = None,
    without_keys: WithoutKeys = False,
    allow_host: AllowHost = None,
    allow_origin: Annotated[
        list[str] | None,
        opt.option(metavar="ORIGIN", help="A web page of others that may ask (CORS), as https://wiki.example."),
    ] = None,
    rate: Rate = None,
    at_once: AtOnce = None,
    concurrency: Questions = 64,
    waiting: Waiting = 1024,
    time_limit: TimeLimit = 300,
    longest: Longest = 4000,
    most_bytes: MostBytes = 1_000_000,
    grace: Annotated[float, opt.option(help="Seconds to finish what runs in, when told to stop.")] = 30,
    traces: Traces = 1000,
    log_questions: Annotated[bool, opt.option("--log-questions", help="Log questions and answers too.")] = False,
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
    """Serve a web page and an HTTP API, OpenAI's too. Until Ctrl-C or SIGTERM; a request's limits never exceed these.

    The page is at http://127.0.0.1:8000. The API: POST /v1/ask and /v1/search, GET /v1/traces, /v1/methods, /v1/corpora
    and /v1/runs; for any chat client POST /v1/chat/completions. /openapi.json tells all; /health, /ready, /metrics.
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
    """Serve tools to agents, over MCP. The Model Context Protocol; answer_question, search_passages, get_trace."""
    from polyhop.cli.serve import ListenAddress, run_mcp

    given = locals()
    address = ListenAddress(host=host, port=port, keys=keys, without_keys=without_keys, allow_host=allow_host or ())
    run_mcp(_service(given), transport, address, _limits(given))


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    """A verb's options as arguments of ``serve.http.app.Options``."""
    return {"per_minute": given["rate"], "at_once": given["at_once"], "max_body_bytes": given["most_bytes"]}


def _service(given: dict[str, Any]) -> dict[str, Any]:
    """A verb's options as arguments of ``cli.serve.service_of``."""
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
