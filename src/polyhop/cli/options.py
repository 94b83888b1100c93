"""Options shared by several verbs; those of a pipeline come from ``engine.options``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import orjson
import typer

from polyhop.engine.options import LM_KEYS, OPTIONS, Group, Option, PipelineOptions
from polyhop.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from polyhop.data.corpus import Corpus
    from polyhop.evaluation.ray import Ray

Verb = TypeVar("Verb", bound=Callable[..., None])

option = partial(typer.Option, show_envvar=False)
"""An option. Its environment variable (``POLYHOP_VERB_NAME``) is hidden: it would fill half of a verb's help."""

new_app = partial(typer.Typer, rich_markup_mode=None)

CORPUS_HELP = (
    "A corpus: JSON lines, a JSON array or a table (.gz too), a BEIR folder, a folder of documents (text, Markdown, "
    "HTML, PDF, Word, spreadsheets, mail, code …), an index folder, hf:DATASET[:CONFIG], or 'demo'."
)

CorpusPath = Annotated[Path | None, option("--corpus", help=CORPUS_HELP)]
RunCorpus = Annotated[
    Path | None, option("--corpus", help=f"{CORPUS_HELP[:-1]}; 'contexts': each question's own contexts.")
]
Language = Annotated[
    str | None,
    option(help="Language of the corpus, such as german or chinese, for stems and stop words; default: english."),
]
Telemetry = Annotated[
    bool, option("--telemetry", help="Report every question to OpenTelemetry, configured by the OTEL_ variables.")
]
Limit = Annotated[int | None, option(min=1, help="Use only the first N questions.")]
Metrics = Annotated[
    str | None,
    option("--metrics", help="Metric profiles, such as musique,recall; default: polyhop's own and the benchmark's."),
]
Concurrency = Annotated[int, option(min=1, help="Number of questions answered at the same time.")]
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
DatasetFormat = Annotated[
    str | None,
    option("--format", help="Format of the dataset, such as hotpotqa; default: detected from its first rows."),
]
Fields = Annotated[
    str | None,
    option(
        metavar="FIELD=COLUMN,…",
        help="Columns of a dataset of your own form, such as question=Prompt,answers=Answer,id=Key.",
    ),
]
CorpusFields = Annotated[
    str | None,
    option(
        "--fields", metavar="FIELD=COLUMN,…", help="Columns of a corpus of your own form, such as text=Body,title=Name."
    ),
]
SkipBad = Annotated[
    bool,
    option("--skip-bad", help="Skip malformed lines, and count them, instead of stopping at the first."),
]
Json = Annotated[bool, option("--json", help="Print JSON.")]

_LATE = (Group.PROMPTS, Group.LIMITS, Group.RATES)
"""Options that ``--help`` shows after a verb's own."""


def takes_options(
    *only: Group | str, without: Sequence[str] = (), **changes: Mapping[str, Any]
) -> Callable[[Verb], Callable[..., None]]:
    """Give a verb the options of a pipeline; its parameter ``options`` receives them as ``PipelineOptions``.

    ``only``: names or groups of options, by default all; ``changes``: fields of ``Option`` that differ for this verb.
    """
    chosen = [
        replace(given, **changes.get(name, {}))
        for name, given in OPTIONS.items()
        if (not only or name in only or given.group in only) and name not in without
    ]
    early = [given for given in chosen if given.group not in _LATE]
    late = [given for group in _LATE for given in chosen if given.group is group]
    return lambda verb: _expanded(verb, "options", [*map(_parameter, early)], [*map(_parameter, late)], read_options)


def takes(name: str, kind: type[Any]) -> Callable[[Verb], Callable[..., None]]:
    """Give a verb the fields of a dataclass as options; its parameter ``name`` receives the object."""
    types = get_type_hints(kind, include_extras=True)
    parameters = [
        Parameter(item.name, Parameter.KEYWORD_ONLY, default=item.default, annotation=types[item.name])
        for item in fields(kind)
    ]
    return lambda verb: _expanded(verb, name, parameters, [], lambda values: kind(**values))


def _parameter(given: Option) -> Parameter:
    kind = given.kind if given.default is not None and given.kind is not list[str] else given.kind | None
    facts: dict[str, Any] = {"help": given.help, "metavar": given.metavar, "min": given.minimum}
    if given.maximum is not None:  # both bounds are checked when the options are read
        del facts["min"]
    flags = given.flags or (f"--{given.name.replace('_', '-')}",)
    return Parameter(
        given.name, Parameter.KEYWORD_ONLY, default=given.default, annotation=Annotated[kind, option(*flags, **facts)]
    )


def _expanded(
    verb: Callable[..., None],
    name: str,
    parameters: Sequence[Parameter],
    late: Sequence[Parameter],
    build: Callable[[dict[str, Any]], Any],
) -> Callable[..., None]:
    """Replace one parameter of a verb by several, from whose values it is built; ``late`` ones stand before --json."""
    shown: list[Parameter] = []
    end: list[Parameter] = []
    for parameter in signature(verb, eval_str=True).parameters.values():
        if parameter.name == name:
            shown += parameters
        else:
            (end if parameter.name == "as_json" else shown).append(parameter)
    every = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in (*shown, *late, *end)]

    @wraps(verb)
    def called(**values: Any) -> None:
        given = {parameter.name: values.pop(parameter.name) for parameter in (*parameters, *late)}
        verb(**values, **{name: build(given)})

    del called.__wrapped__  # typer would read its annotations
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    called.__signature__ = Signature(every)  # type: ignore[attr-defined]
    return called


def read_options(values: Mapping[str, Any]) -> PipelineOptions:
    """Read the options of a command line, by name, as those of a pipeline."""
    given = {name: value for name, value in values.items() if value is not None and OPTIONS[name].argument == name}
    if models := pairs(values.get("lm_for"), "--lm-for", "ROLE=LM"):
        given["lm"] = {"default": given["lm"], **models}
    body = {name: _value(text) for name, text in pairs(values.get("lm_option"), "--lm-option", "KEY=VALUE").items()}
    of_models = {key: values.get(name) for name, key in LM_KEYS.items()} | {"extra_body": body or None}
    given["lm_options"] = {key: value for key, value in of_models.items() if value is not None} or None
    given["role_options"] = _role_options(given.pop("role_options", None))
    settings = pairs(given.pop("settings", None), "-o", "KEY=VALUE")
    if (file := values.get("set_from")) is not None:
        from polyhop.methods.registry import read_settings

        settings = {**read_settings(file, given["method"]), **settings}
    return PipelineOptions(**given, prices=values.get("price") or None, settings=settings)


def _role_options(given: Sequence[str] | None) -> dict[str, dict[str, Any]] | None:
    """Read the options of roles and tasks.

    >>> _role_options(["reviewer.temperature=0.3", "tor.review.max_tokens_per_call=900"])
    {'reviewer': {'temperature': 0.3}, 'tor.review': {'max_tokens_per_call': 900}}
    """
    options: dict[str, dict[str, Any]] = {}
    for name, text in pairs(given, "--role-option", "ROLE.KEY=VALUE").items():
        role, dot, key = name.rpartition(".")
        if not dot:
            raise UsageError(f"--role-option {name}={text}: must be ROLE.KEY=VALUE")
        options.setdefault(role, {})[key] = _value(text)
    return options or None


def _value(text: str) -> Any:
    """Parse a value as JSON, else return the text itself.

    >>> [_value(text) for text in ("0.7", "false", '{"enable_thinking": false}', "low")]
    [0.7, False, {'enable_thinking': False}, 'low']
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def corpus_of(path: Path, language: str | None, skip_bad: bool, fields: str | None = None) -> Corpus:
    """Open the corpus given to a verb."""
    from polyhop.data.corpora import open_corpus

    return open_corpus(path, language=language, skip_bad=skip_bad, fields=fields_of(fields))


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


def fields_of(given: str | None) -> dict[str, str] | None:
    """Return the columns of a dataset by field.

    >>> fields_of("question=Prompt,answers=Answer")
    {'question': 'Prompt', 'answers': 'Answer'}
    """
    return pairs(given.split(","), "--fields", "FIELD=COLUMN,FIELD=COLUMN") if given else None


def pairs(given: Sequence[str] | None, flag: str, form: str) -> dict[str, str]:
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
