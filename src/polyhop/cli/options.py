"""Options shared by several verbs, and their conversion to arguments of ``Pipeline``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from polyhop.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from polyhop.data.corpora import Corpus
    from polyhop.evaluation.ray import Ray

option = partial(typer.Option, show_envvar=False)
"""An option. Its environment variable (``POLYHOP_VERB_NAME``) is hidden: it would fill half of a verb's help."""

CORPUS_HELP = (
    "A corpus: JSON lines (.gz too), a BEIR folder, a folder of documents (.txt, .md, .html, .epub, .pdf, .docx), an "
    "index folder, or 'demo'."
)

CorpusPath = Annotated[Path | None, option("--corpus", help=CORPUS_HELP)]
Language = Annotated[
    str | None,
    option(help="Language of the corpus, such as german or chinese, for stems and stop words; default: english."),
]
Method = Annotated[str, option(help="The method; 'polyhop methods' lists them.")]
Methods = Annotated[str, option("--method", help="A method, several separated by commas, or 'all'.")]
Lm = Annotated[
    str, option(help="The model: pocket, openai:MODEL, openai:MODEL@URL, hf:PATH, scripted:FILE or replay:DIR.")
]
LmFor = Annotated[
    list[str] | None, option("--lm-for", metavar="ROLE=LM", help="Another model for a role or task; repeatable.")
]
Retriever = Annotated[
    str,
    option(
        help="bm25, tfidf, tfidf-bm25, dense:NAME, hybrid:A+B, colbert:FOLDER, mdr:FOLDER, hops, "
        "elastic:URL/INDEX, http://URL, web:API or, with a model, promptrank."
    ),
]
MethodRetriever = Annotated[
    str | None,
    option(
        "--retriever",
        help="bm25, tfidf, tfidf-bm25, dense:NAME, hybrid:A+B, colbert:FOLDER, mdr:FOLDER, hops, "
        "elastic:URL/INDEX, http://URL, web:API or promptrank; default: the method's own (for search: bm25).",
    ),
]
Rerank = Annotated[
    str | None,
    option(
        help="Reranker of the retriever's hits, for any method: lm, cross-encoder:PATH, colbert:FOLDER or promptrank."
    ),
]
Reader = Annotated[
    str,
    option(
        help="Model that reads answers from passages, for methods that use one: pocket, lm, dpr:PATH, squad:PATH or "
        "onnx:FOLDER."
    ),
]
Settings = Annotated[
    list[str] | None,
    option("-o", "--option", metavar="KEY=VALUE", help="A setting of the method, such as widths=5,3; repeatable."),
]
SetFrom = Annotated[
    Path | None, option("--set-from", help="A settings file written by 'polyhop tune'; -o takes precedence.")
]
Setup = Annotated[
    str | None,
    option(
        help="A paper's budgets for every method of the run: tor, resp, ge, promptrank or searchain; "
        "-o takes precedence."
    ),
]
Prompts = Annotated[
    Path | None, option(help="A folder of your own prompt files, which replace the shipped ones file by file.")
]
Rendering = Annotated[str, option(help="Output format that prompts request: text (markers) or json.")]
Cache = Annotated[
    bool | None, option("--cache/--no-cache", help="Cache model replies; default: for every model except pocket.")
]
LmOption = Annotated[
    list[str] | None,
    option(
        "--lm-option",
        metavar="KEY=VALUE",
        help="Parameter sent with every request to a model server, such as reasoning_effort=low; repeatable. "
        "The value is JSON, else text.",
    ),
]
MaxTokensPerCall = Annotated[
    int | None,
    option(min=1, help="Maximum tokens per reply, reasoning included; replaces the prompts' own limits."),
]
MaxCalls = Annotated[int | None, option(help="Maximum number of model calls per question.")]
MaxTokens = Annotated[int | None, option(help="Stop gathering evidence after N tokens per question.")]
MaxSeconds = Annotated[float | None, option(help="Stop gathering evidence after N seconds per question.")]
MaxCost = Annotated[float | None, option(help="Stop gathering evidence at this cost per question; requires --price.")]
Price = Annotated[
    str | None,
    option("--price", help="PROMPT:COMPLETION per million tokens, such as 0.15:0.6, or a JSON or TOML table by model."),
]
Abstain = Annotated[float | None, option(help="Withhold answers with lower confidence than this, 0 to 1.")]
Telemetry = Annotated[
    bool, option("--telemetry", help="Report every question to OpenTelemetry, configured by the OTEL_ variables.")
]
Seed = Annotated[int | None, option(help="Random seed, for models that accept one.")]
MaxConcurrency = Annotated[int | None, option(help="Maximum number of concurrent model calls.")]
Limit = Annotated[int | None, option(min=1, help="Use only the first N questions.")]
Labelled = Annotated[Path, option("--dataset", help="Questions with gold answers, in any known format.")]
TunedCorpus = Annotated[Path, option("--corpus", help=CORPUS_HELP)]
SettingsOut = Annotated[Path | None, option("--out", help="The settings file to write, for --set-from.")]
Rpm = Annotated[int | None, option(help="Maximum number of model calls per minute.")]
Tpm = Annotated[int | None, option(help="Maximum number of tokens per minute.")]
Timeout = Annotated[float | None, option(help="Seconds to wait for one reply.")]
Metrics = Annotated[
    str | None,
    option("--metrics", help="Metric profiles, such as musique,recall; default: polyhop's own and the benchmark's."),
]
Where = Annotated[
    list[str] | None,
    option(
        "--where",
        metavar="CONDITION",
        help="Only questions that meet this condition in the first run, such as 'corrected > 0' or 'gold in reach'; "
        "repeatable.",
    ),
]
Concurrency = Annotated[int, option(min=1, help="Number of questions answered at the same time.")]
Engine = Annotated[
    str | None, option("--engine", help="ray: distribute the questions over a Ray cluster; default: this process.")
]
Address = Annotated[
    str | None,
    option(
        help="Address of the Ray cluster, HOST:PORT or auto; default: $RAY_ADDRESS, else a cluster on this machine."
    ),
]
Workers = Annotated[
    int | None,
    option(min=1, help="Number of worker processes for --engine ray, which share all limits; default: one per core."),
]
DatasetPath = Annotated[
    Path, typer.Argument(metavar="DATASET", help="Questions in any known format, hf:DATASET[:SPLIT], or 'demo'.")
]
DatasetFormat = Annotated[
    str | None,
    option("--format", help="Format of the dataset, such as hotpotqa; default: detected from its first rows."),
]
WrittenTo = Annotated[Path | None, option("--out", help="The file to write; default: stdout.")]
SkipBad = Annotated[
    bool,
    option("--skip-bad", help="Skip malformed lines and documents, and count them, instead of stopping at the first."),
]
Json = Annotated[bool, option("--json", help="Print JSON.")]

_SAME_NAME = (
    "retriever",
    "rerank",
    "reader",
    "prompts",
    "rendering",
    "cache",
    "max_tokens_per_call",
    "max_calls",
    "max_tokens",
    "max_seconds",
    "max_cost",
    "seed",
    "abstain_below",
)
_OF_LM = ("max_concurrency", "requests_per_minute", "tokens_per_minute", "timeout")


def pipeline_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a verb's options to keyword arguments of ``Pipeline``, without corpus and method. Options that the verb
    lacks keep their defaults."""
    others = pairs(given["lm_for"], "--lm-for", "ROLE=LM")
    return {
        "lm": {"default": given["lm"], **others} if others else given["lm"],
        "lm_options": lm_options(given),
        **{name: given[name] for name in _SAME_NAME if name in given},
        **({"prices": given["price"]} if given.get("price") else {}),
        **_from_file(given),
        **pairs(given["settings"], "-o", "KEY=VALUE"),
    }


def lm_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a verb's options for language models to ``lm_options`` of ``Pipeline``: limits and extra parameters."""
    limits = {name: given[name] for name in _OF_LM if given.get(name) is not None}
    body = {name: _value(text) for name, text in pairs(given["lm_option"], "--lm-option", "KEY=VALUE").items()}
    return {**limits, **({"extra_body": body} if body else {})}


def lm_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the model options of a verb with few others to arguments of ``Pipeline``."""
    return {"lm_options": lm_options(given), "max_tokens_per_call": given["max_tokens_per_call"]}


def _value(text: str) -> Any:
    """Parse a value as JSON, else return the text itself.

    >>> [_value(text) for text in ("0.7", "false", '{"enable_thinking": false}', "low")]
    [0.7, False, {'enable_thinking': False}, 'low']
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _from_file(given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("set_from") is None:
        return {}
    from polyhop.methods.registry import read_settings

    return read_settings(given["set_from"], given["method"])


def corpus_of(path: Path, language: str | None, skip_bad: bool) -> Corpus:
    """Open the corpus given to a verb."""
    from polyhop.data.corpora import open_corpus

    return open_corpus(path, language=language, skip_bad=skip_bad)


def engine_of(engine: str | None, address: str | None, workers: int | None) -> Ray | None:
    """Return the Ray cluster that answers a run's questions; None for this process."""
    if engine is None:
        if address is not None or workers is not None:
            raise UsageError(f"{'--workers' if address is None else '--address'} requires --engine ray")
        return None
    if engine != "ray":
        raise UnknownName("engine", engine, ["ray"])
    from polyhop.evaluation.ray import Ray

    return Ray(address=address, workers=workers)


def pairs(given: list[str] | None, flag: str, form: str) -> dict[str, str]:
    """Convert ``["a=1", "b=x"]`` to a mapping.

    >>> pairs(["widths=5,3", "shots=0"], "-o", "KEY=VALUE")
    {'widths': '5,3', 'shots': '0'}
    """
    found = {}
    for pair in given or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {pair}: must be {form}")
        found[name.strip()] = value.strip()
    return found
