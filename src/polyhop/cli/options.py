"""The options several verbs share, and how they become a Pipeline's arguments."""

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
"""An option, whose environment variable (``POLYHOP_VERB_NAME``) would fill half of a verb's help."""

CORPUS_HELP = (
    "A corpus: JSON lines (.gz too), a BEIR folder, a folder of documents (.txt, .md, .html, .epub, .pdf, .docx), an "
    "index folder, or 'demo'."
)

CorpusPath = Annotated[Path | None, option("--corpus", help=CORPUS_HELP)]
Language = Annotated[
    str | None, option(help="The corpus' language, as german or chinese, for stems and stop words; by default english.")
]
Method = Annotated[str, option(help="The method; 'polyhop methods' lists them.")]
Methods = Annotated[str, option("--method", help="A method, several with commas between, or 'all'.")]
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
        "elastic:URL/INDEX, http://URL, web:API or promptrank; else the method's own (of search: bm25).",
    ),
]
Rerank = Annotated[
    str | None,
    option(
        help="What orders the retriever's hits anew, for any method: lm, cross-encoder:PATH, colbert:FOLDER or "
        "promptrank."
    ),
]
Reader = Annotated[
    str,
    option(
        help="What reads answers off passages, for methods that do: pocket, lm, dpr:PATH, squad:PATH or onnx:FOLDER."
    ),
]
Settings = Annotated[
    list[str] | None,
    option("-o", "--option", metavar="KEY=VALUE", help="A setting of the method, as widths=5,3; repeatable."),
]
SetFrom = Annotated[
    Path | None, option("--set-from", help="A settings file, as 'polyhop tune' writes them; -o wins over it.")
]
Setup = Annotated[
    str | None,
    option(
        help="A paper's budgets for every method of the run, -o wins over them: tor, resp, ge, promptrank, searchain."
    ),
]
Prompts = Annotated[Path | None, option(help="A folder of your own prompt files, used file by file.")]
Rendering = Annotated[str, option(help="How prompts ask for output: text (markers) or json.")]
Cache = Annotated[
    bool | None, option("--cache/--no-cache", help="Keep model replies; by default for every model but pocket.")
]
LmOption = Annotated[
    list[str] | None,
    option(
        "--lm-option",
        metavar="KEY=VALUE",
        help="Sent with every request to a model behind a server, as reasoning_effort=low; repeatable. The value is "
        "JSON, else text.",
    ),
]
MaxTokensPerCall = Annotated[
    int | None,
    option(min=1, help="Maximum tokens of each reply, its thoughts included, in place of the prompts' own limits."),
]
MaxCalls = Annotated[int | None, option(help="Most model calls a question.")]
MaxTokens = Annotated[int | None, option(help="Stop gathering after so many tokens a question.")]
MaxSeconds = Annotated[float | None, option(help="Stop gathering after so many seconds a question.")]
MaxCost = Annotated[float | None, option(help="Stop gathering after so much money a question; needs --price.")]
Price = Annotated[
    str | None,
    option("--price", help="PROMPT:COMPLETION a million tokens, as 0.15:0.6, or a JSON or TOML table by model."),
]
Abstain = Annotated[float | None, option(help="Withhold answers less confident than this, 0 to 1.")]
Telemetry = Annotated[
    bool, option("--telemetry", help="Tell OpenTelemetry of every question, as the OTEL_ variables say.")
]
Seed = Annotated[int | None, option(help="Passed to models that take a seed.")]
MaxConcurrency = Annotated[int | None, option(help="Most model calls at once.")]
Limit = Annotated[int | None, option(min=1, help="Only the first so many questions.")]
Labelled = Annotated[Path, option("--dataset", help="Questions with gold answers, in any known format.")]
TunedCorpus = Annotated[Path, option("--corpus", help=CORPUS_HELP)]
SettingsOut = Annotated[Path | None, option("--out", help="The settings file to write, for --set-from.")]
Rpm = Annotated[int | None, option(help="Most model calls a minute.")]
Tpm = Annotated[int | None, option(help="Most tokens a minute.")]
Timeout = Annotated[float | None, option(help="Seconds to wait for one reply.")]
Metrics = Annotated[
    str | None,
    option("--metrics", help="Metric profiles, as musique,recall; by default ours and the benchmark's."),
]
Where = Annotated[
    list[str] | None,
    option(
        "--where",
        metavar="CONDITION",
        help="Only questions for which it holds in the first run, as 'corrected > 0' or 'gold in reach'; repeatable.",
    ),
]
Concurrency = Annotated[int, option(min=1, help="Questions under way at once.")]
Engine = Annotated[
    str | None, option("--engine", help="ray: questions are answered all over a Ray cluster; by default here.")
]
Address = Annotated[
    str | None, option(help="The Ray cluster, HOST:PORT or auto; by default $RAY_ADDRESS, else one of this machine.")
]
Workers = Annotated[
    int | None, option(min=1, help="Processes of --engine ray, which share all caps; by default one for each core.")
]
DatasetPath = Annotated[
    Path, typer.Argument(metavar="DATASET", help="Questions in any known format, hf:DATASET[:SPLIT], or 'demo'.")
]
DatasetFormat = Annotated[
    str | None,
    option("--format", help="What the dataset is read as, such as hotpotqa; by default told by its first rows."),
]
WrittenTo = Annotated[Path | None, option("--out", help="The file to write; by default stdout.")]
SkipBad = Annotated[
    bool,
    option("--skip-bad", help="Leave malformed lines and documents out, counted, instead of stopping at the first."),
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
    """A verb's options as keyword arguments of ``Pipeline``, without corpus and method; those a verb lacks keep their
    defaults."""
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
    """A verb's options of its language models as ``Pipeline`` takes them: limits, and what requests say besides."""
    limits = {name: given[name] for name in _OF_LM if given.get(name) is not None}
    body = {name: _value(text) for name, text in pairs(given["lm_option"], "--lm-option", "KEY=VALUE").items()}
    return {**limits, **({"extra_body": body} if body else {})}


def lm_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """``lm_options`` and the cap of a verb that has few others, as arguments of ``Pipeline``."""
    return {"lm_options": lm_options(given), "max_tokens_per_call": given["max_tokens_per_call"]}


def _value(text: str) -> Any:
    """JSON where it is, else the text itself.

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
    from polyhop.methods.settings import read_settings

    return read_settings(given["set_from"], given["method"])


def corpus_of(path: Path, language: str | None, skip_bad: bool) -> Corpus:
    """The corpus that a verb is given, opened."""
    from polyhop.data.corpora import open_corpus

    return open_corpus(path, language=language, skip_bad=skip_bad)


def engine_of(engine: str | None, address: str | None, workers: int | None) -> Ray | None:
    """Where a run's questions are answered; None for here."""
    if engine is None:
        if address is not None or workers is not None:
            raise UsageError(f"{'--workers' if address is None else '--address'} is of --engine ray: name that too")
        return None
    if engine != "ray":
        raise UnknownName("engine", engine, ["ray"])
    from polyhop.evaluation.ray import Ray

    return Ray(address=address, workers=workers)


def pairs(given: list[str] | None, flag: str, form: str) -> dict[str, str]:
    """``["a=1", "b=x"]`` as a mapping.

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
