"""The options of a pipeline, each defined once.

A field of ``PipelineOptions`` is a keyword argument of ``Pipeline``. Its ``Option`` says how the same thing is written
on the command line and in a sweep's file, and which values it may have. Nothing heavy is imported here, because every
command line parses by these definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from polyhop.errors import SettingError, UsageError, brief
from polyhop.types import MAX_INTEGER, Passage, PathScorer

if TYPE_CHECKING:
    from polyhop.data.corpus import Corpus
    from polyhop.engine.budget import Prices
    from polyhop.lm.base import LanguageModel
    from polyhop.prompts.book import PromptBook
    from polyhop.prompts.prompt import RenderingChoice
    from polyhop.readers.base import AnyReader
    from polyhop.retrieval.base import AnyRetriever, Reranker
    from polyhop.retrieval.index import Index

Source: TypeAlias = "str | Path | Corpus | Index | Iterable[Passage]"
"""A corpus: a file, folder or index folder, or the opened corpus, index or passages."""

LM: TypeAlias = "str | LanguageModel | Mapping[str, str | LanguageModel]"
"""A language model or its name, or a mapping from role or task to either (``default`` for the rest)."""

PriceSource: TypeAlias = "str | Path | Mapping[str, Any] | Prices"
"""Prices of tokens: PROMPT:COMPLETION, a file or table by model, or the prices themselves."""

Searcher: TypeAlias = "AnyRetriever"
"""A retriever that a user hands in."""


class Group(Enum):
    """Options that a verb of the command line takes together."""

    METHOD = "the method and its settings"
    MODEL = "the language models"
    RETRIEVAL = "retriever, reranker, reader"
    PROMPTS = "prompts and cached replies"
    LIMITS = "limits per question"
    RATES = "limits of a model's server"


@dataclass(frozen=True, slots=True)
class Option:
    """One way to write an option as text.

    ``name``: the key in a sweep's file; the flag is ``--name`` unless ``flags`` say otherwise. ``kind``: the type of
    the value on the command line, ``list[str]`` if it can be repeated. ``argument``: the argument of ``Pipeline`` that
    it sets, and ``key`` the entry if that is a mapping. ``is_part``: from Python an object may stand for the name.
    ``tighten``: the stricter of two values, if a request to a server may set it.
    """

    help: str
    group: Group
    kind: Any = str
    name: str = field(default="", kw_only=True)
    default: Any = field(default=None, kw_only=True)
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    above: int | None = None
    maximum: int | None = None
    is_part: bool = False
    tighten: Callable[[Any, Any], Any] | None = None
    argument: str = ""
    key: str = ""

    @property
    def is_count(self) -> bool:
        """True for an integer of at least 1."""
        return self.kind is int and (self.minimum == 1 or self.above == 0)

    def check(self, value: Any) -> None:
        """Raise ``SettingError`` if a number is out of bounds, ``UsageError`` if a text is none of the choices."""
        if self.choices and value not in self.choices:
            raise UsageError(f"{self.name}={value!r}: must be {' or '.join(map(repr, self.choices))}")
        if self.above is not None and not self.above < value <= (self.maximum or MAX_INTEGER):
            bounds = f"above {self.above} and at most {self.maximum or MAX_INTEGER}"
        elif self.minimum is not None and not self.minimum <= value <= (self.maximum or value):
            bounds = f"at least {self.minimum}" if self.maximum is None else f"from {self.minimum} to {self.maximum}"
        else:
            return
        raise SettingError(f"{self.name}={brief(value)}: must be {bounds}")


def _field(default: Any, *options: Option) -> Any:
    """Make a field of ``PipelineOptions``; an option without a name has the field's name and default."""
    made = {"default_factory": dict} if default == {} else {"default": default}
    return field(metadata={"options": options}, **made)


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """The options of a pipeline, besides its corpus.

    ``lm_options`` are those of models behind a server or from a checkpoint (``lm.openai.OpenAICompatible``); of these,
    ``extra_body`` is sent with every request. ``settings`` are the method's.

    Raises:
        UsageError: a value is not allowed.
    """

    method: str = _field("tor", Option("The method; 'polyhop methods' lists them.", Group.METHOD))
    lm: LM = _field(
        "pocket",
        Option(
            "The model: pocket, openai:MODEL, openai:MODEL@URL, hf:PATH, scripted:FILE or replay:DIR.",
            Group.MODEL,
            is_part=True,
        ),
        Option(
            "Another model for a role or task; repeatable.", Group.MODEL, list[str], name="lm_for", metavar="ROLE=LM"
        ),
    )
    lm_options: Mapping[str, Any] | None = _field(
        None,
        Option(
            "Parameter sent with every request to a model server, such as reasoning_effort=low; repeatable. "
            "The value is JSON, else text.",
            Group.MODEL,
            list[str],
            name="lm_option",
            metavar="KEY=VALUE",
            key="extra_body",
        ),
        Option("Maximum number of concurrent model calls.", Group.RATES, int, name="max_concurrency", above=0),
        Option("Maximum number of model calls per minute.", Group.RATES, int, name="requests_per_minute", above=0),
        Option("Maximum number of tokens per minute.", Group.RATES, int, name="tokens_per_minute", above=0),
        Option("Seconds to wait for one reply.", Group.RATES, float, name="timeout"),
    )
    max_tokens_per_call: int | None = _field(
        None,
        Option(
            "Maximum tokens per reply, reasoning included; replaces the prompts' own limits.",
            Group.MODEL,
            int,
            minimum=1,
        ),
    )
    reasoning_tokens: int | None = _field(
        None,
        Option(
            "Tokens added to the limit of every reply for a model's thoughts, 0 for none; default: 4096 for models "
            "that are found to think.",
            Group.MODEL,
            int,
            minimum=0,
        ),
    )
    role_options: Mapping[str, Mapping[str, Any]] | None = _field(
        None,
        Option(
            "temperature, max_tokens_per_call, reasoning_tokens or a parameter sent to the server with the calls of a "
            "role or task, such as reviewer.temperature=0.3; repeatable.",
            Group.MODEL,
            list[str],
            flags=("--role-option",),
            metavar="ROLE.KEY=VALUE",
        ),
    )
    retriever: str | Searcher | None = _field(
        None,
        Option(
            "auto, bm25, tfidf, tfidf-bm25, dense:NAME, hybrid:A+B, colbert:FOLDER, mdr:FOLDER, ppr, hipporag:FILE, "
            "hops, elastic:URL/INDEX, http://URL, web:API or promptrank; default: the method's own, mostly auto: bm25, "
            "over small folders fused with dense:pocket.",
            Group.RETRIEVAL,
            is_part=True,
        ),
    )
    rerank: str | Reranker | None = _field(
        None,
        Option(
            "Reranker of the retriever's hits, for any method: lm, cross-encoder:PATH, vllm:MODEL@URL, promptrank, …",
            Group.RETRIEVAL,
            is_part=True,
        ),
    )
    reader: str | AnyReader | None = _field(
        "pocket",
        Option(
            "Model that reads answers from passages, for methods that use one: pocket, lm, dpr:PATH, squad:PATH "
            "or onnx:FOLDER.",
            Group.RETRIEVAL,
            is_part=True,
        ),
    )
    path_scorer: PathScorer | None = _field(None)
    settings: Mapping[str, Any] = _field(
        {},
        Option(
            "A setting of the method, such as widths=5,3; repeatable.",
            Group.METHOD,
            list[str],
            flags=("-o", "--option"),
            metavar="KEY=VALUE",
        ),
        Option("A settings file written by 'polyhop tune'; -o takes precedence.", Group.METHOD, Path, name="set_from"),
    )
    prompts: str | Path | PromptBook | None = _field(
        None,
        Option(
            "A folder of your own prompt files, which replace the shipped ones file by file.",
            Group.PROMPTS,
            Path,
            is_part=True,
        ),
    )
    rendering: RenderingChoice = _field(
        "auto",
        Option(
            "Form of the replies: text (markers), json, or auto: json for a server that takes JSON schemas, else text.",
            Group.PROMPTS,
            choices=("auto", "text", "json"),
        ),
    )
    cache: bool | str | Path | None = _field(
        None,
        Option(
            "Cache model replies; default: for every model except pocket.",
            Group.PROMPTS,
            bool,
            flags=("--cache/--no-cache",),
        ),
    )
    max_calls: int | None = _field(
        None, Option("Maximum number of model calls per question.", Group.LIMITS, int, above=0, tighten=min)
    )
    max_tokens: int | None = _field(
        None, Option("Stop gathering evidence after N tokens per question.", Group.LIMITS, int, above=0, tighten=min)
    )
    max_seconds: float | None = _field(
        None, Option("Stop gathering evidence after N seconds per question.", Group.LIMITS, float, above=0, tighten=min)
    )
    max_cost: float | None = _field(
        None,
        Option("Stop gathering evidence at this cost per question; requires --price.", Group.LIMITS, float, above=0),
    )
    prices: PriceSource | None = _field(
        None,
        Option(
            "PROMPT:COMPLETION per million tokens, such as 0.15:0.6, or a JSON or TOML table by model.",
            Group.LIMITS,
            name="price",
        ),
    )
    abstain_below: float | None = _field(
        None,
        Option(
            "Withhold answers with lower confidence than this, 0 to 1; 0 withholds none. Default: what the calibration "
            "says; for a run, 0.",
            Group.LIMITS,
            float,
            minimum=0,
            maximum=1,
            tighten=max,
        ),
    )
    allow_unanswerable: bool = _field(
        False,
        Option(
            "Let methods say that a question has no answer, and score questions without gold answers by it.",
            Group.LIMITS,
            bool,
        ),
    )
    calibration: str | Path | None = _field(
        None,
        Option("A file written by 'polyhop tune confidence'; default: the shipped one for pocket.", Group.METHOD, Path),
    )
    verify_support: bool | None = _field(
        None,
        Option(
            "Check the answer against its cited passages by one more model call; default: by pocket's reader if pocket "
            "answers, else by the words alone.",
            Group.METHOD,
            bool,
            flags=("--verify-support/--no-verify-support",),
        ),
    )
    seed: int | None = _field(
        None,
        Option(
            "Random seed, for models that accept one.", Group.LIMITS, int, minimum=-MAX_INTEGER, maximum=MAX_INTEGER
        ),
    )

    def __post_init__(self) -> None:
        for option in OPTIONS.values():
            value = getattr(self, option.argument)
            if option.name == option.argument and value is not None:
                option.check(value)

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of ``Pipeline`` for these options, except ``method``. Defaults are left out."""
        values = {name: getattr(self, name) for name in DEFAULTS if name != "method"}
        changed = {name: value for name, value in values.items() if value != DEFAULTS[name]}
        return {"lm": self.lm, **changed, **self.settings}


def _options() -> Iterator[Option]:
    for item in fields(PipelineOptions):
        for option in item.metadata["options"]:
            if option.name:
                yield replace(option, argument=item.name, key=option.key or option.name)
            else:
                default = None if item.default is MISSING else item.default
                yield replace(option, name=item.name, argument=item.name, default=default)


DEFAULTS: Mapping[str, Any] = {item.name: item.default for item in fields(PipelineOptions) if item.name != "settings"}
"""The options that are arguments of ``Pipeline``, and their defaults."""

OPTIONS: Mapping[str, Option] = {option.name: option for option in _options()}
"""The options by the names that they have in text."""

LM_KEYS: Mapping[str, str] = {option.name: option.key for option in OPTIONS.values() if option.argument == "lm_options"}
"""The options of a served model, and their names in ``lm_options``."""

REQUEST_LIMITS: Mapping[str, Option] = {option.name: option for option in OPTIONS.values() if option.tighten}
"""The options that a request to a server may make stricter."""
