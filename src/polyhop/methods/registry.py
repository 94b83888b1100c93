"""The registry of methods: the paper, settings, needs and layers of each; and settings files."""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import orjson
from pydantic import TypeAdapter, ValidationError

from polyhop.answer import Answer
from polyhop.common.files import atomic_write
from polyhop.errors import DataError, SettingError, UnknownName, UsageError, brief
from polyhop.types import FileName

T = TypeVar("T")

BUILT_IN = (
    "polyhop.methods.tor",
    "polyhop.methods.cor",
    "polyhop.methods.ge",
    "polyhop.methods.resp",
    "polyhop.methods.searchain",
    "polyhop.methods.promptrank",
    "polyhop.methods.hops",
    "polyhop.methods.baselines.one_shot",
    "polyhop.methods.baselines.auto_cot",
    "polyhop.methods.baselines.recite",
    "polyhop.methods.baselines.least_to_most",
    "polyhop.methods.baselines.plan_solve",
    "polyhop.methods.baselines.self_ask",
    "polyhop.methods.baselines.react",
    "polyhop.methods.baselines.agent",
    "polyhop.methods.baselines.plan_solve_ir",
    "polyhop.methods.baselines.tot_ir",
    "polyhop.methods.baselines.toolformer",
    "polyhop.methods.baselines.search_agent",
    "polyhop.methods.baselines.iter_retgen",
    "polyhop.methods.baselines.ircot",
    "polyhop.methods.baselines.flare",
    "polyhop.methods.baselines.dsp",
    "polyhop.methods.baselines.knowtrace",
    "polyhop.methods.baselines.t2rag",
    "polyhop.methods.baselines.crag",
    "polyhop.methods.baselines.route",
    "polyhop.methods.baselines.sure",
    "polyhop.methods.baselines.recomp",
    "polyhop.methods.baselines.replug",
    "polyhop.methods.baselines.verify_edit",
    "polyhop.methods.baselines.era_cot",
    "polyhop.methods.baselines.controls",
)
"""The modules whose import registers the methods polyhop ships."""

Layers: TypeAlias = Callable[[Mapping[str, Any]], int]

Needs: TypeAlias = Callable[[Mapping[str, Any]], Iterable[str]]
"""The needs of a method under its resolved settings, a subset of ``NEEDS``."""

NEEDS = frozenset(
    {"retriever", "links", "reader", "span_choice", "gold", "corpus", "token_logprobs", "score", "score_temperature"}
)
"""The possible needs of a method beyond completion. ``gold`` and ``corpus`` are data of the question: ``run.given`` has
them for a method that needs them. The last three may name a prompt task after a colon, ``score:TASK``: then only the
model that does this task must be able to."""

USUAL_RETRIEVER = "auto"
"""BM25, over small folders of files fused with vectors (``polyhop.retrieval``)."""

Family: TypeAlias = Literal["system", "iterative", "one retrieval", "closed book", "retrieval only", "control", "other"]
"""The family of a method: one of the five systems polyhop is for, a baseline by how it obtains its passages, or a
control, which is given passages that a user's question does not have."""

FAMILIES: tuple[Family, ...] = get_args(Family)


@dataclass(frozen=True, slots=True)
class Setting:
    """One keyword argument of a method: its type and the paper's default."""

    name: str
    type: Any
    default: Any

    @property
    def names_file(self) -> bool:
        """True if its value is the name of a file (``types.FileName``)."""
        return bool(self.type == FileName)

    def parse(self, value: Any, method: str) -> Any:
        """Convert ``value``, typed or text from a command line (``"5,3,3"``), to the type of this setting."""
        given = value
        if isinstance(value, str) and typing.get_origin(self.type) is not typing.Literal and self.type is not str:
            value = value.split(",") if _is_sequence(self.type) else value
        try:
            return _adapter(self.type).validate_python(value)
        except ValidationError as error:
            wrong = error.errors()[0]["msg"]
            raise SettingError(f"{method}: {self.name}={brief(given)}: {wrong} (default: {self.default!r})") from None


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    """Return the validator of a type. Building one takes a millisecond, which a server would spend on every request."""
    return TypeAdapter(hint)


@dataclass(frozen=True, slots=True)
class Method:
    """A registered method. ``layers(settings)``: the maximum length of its chain of calls that wait for each other,
    without corrective retries. ``retriever``: the default one. ``answers(settings)``: False if it only ranks passages.
    ``calls``: typical number of calls per question at the defaults, that of ``pocket`` on the demo set."""

    name: str
    function: Callable[..., Awaitable[Answer]]
    paper: str
    layers: Layers
    needs: Needs
    retriever: str = USUAL_RETRIEVER
    answers: Callable[[Mapping[str, Any]], bool] = lambda settings: True
    family: Family = "other"
    calls: int | None = None

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The settings by name, in the order of the function's signature."""
        return _settings_of(self.function)

    @property
    def is_retriever(self) -> bool:
        """True if the method is its retriever: it ranks what the retriever of its name finds."""
        return self.name == self.retriever

    @property
    def reads_gold(self) -> bool:
        """True if it only answers the questions of a dataset, whose gold it is given."""
        return "gold" in self.needs(self.resolve({}))

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings: the given ones checked and typed, the others at their defaults."""
        known = self.settings
        for name in given:
            if name not in known:
                raise UnknownName(f"setting of {self.name}", name, known)
        return {
            name: setting.parse(given[name], self.name) if name in given else setting.default
            for name, setting in known.items()
        }


@cache
def _settings_of(function: Callable[..., Awaitable[Answer]]) -> Mapping[str, Setting]:
    hints = typing.get_type_hints(function, localns={"Run": Any}, include_extras=True)
    return MappingProxyType(
        {
            parameter.name: Setting(parameter.name, hints[parameter.name], parameter.default)
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
    )


_registered: dict[str, Method] = {}
_loaded = False


def method(
    name: str,
    *,
    paper: str,
    layers: Layers,
    needs: tuple[str, ...] | Needs = (),
    retriever: str = USUAL_RETRIEVER,
    answers: Callable[[Mapping[str, Any]], bool] = lambda settings: True,
    family: Family = "other",
    calls: int | None = None,
) -> Callable[[Callable[..., Awaitable[Answer]]], Callable[..., Awaitable[Answer]]]:
    """Register an async function ``(question, run, *, settings…) -> Answer`` as the method ``name``."""
    if not callable(needs) and (strange := {need.partition(":")[0] for need in needs} - NEEDS):
        raise UnknownName("need", min(strange), NEEDS)
    needed = needs if callable(needs) else lambda settings: needs

    def register(function: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
        if (there := _registered.get(name)) and there.function.__module__ != function.__module__:
            raise UsageError(f"a method named {name!r} is already registered by {there.function.__module__}")
        _registered[name] = Method(name, function, paper, layers, needed, retriever, answers, family, calls)
        return function

    return register


def methods() -> dict[str, Method]:
    """Return every method by name: those polyhop ships, then those of the entry-point group ``polyhop.methods`` and of
    ``@method`` in code already imported."""
    global _loaded, _registered
    if not _loaded:
        _loaded = True
        for module in BUILT_IN:
            importlib.import_module(module)
        for point in entry_points(group="polyhop.methods"):
            point.load()
        _registered = dict(sorted(_registered.items(), key=lambda each: _place(each[1])))  # whatever came first
    return dict(_registered)


def _place(known: Method) -> int:
    """Return the position of a method among those that ship, by its module; others come after them."""
    module = known.function.__module__
    return BUILT_IN.index(module) if module in BUILT_IN else len(BUILT_IN)


def method_named(name: str) -> Method:
    """Return the method of that name; raise ``UnknownName`` if there is none."""
    known = methods()
    if name not in known:
        raise UnknownName("method", name, known)
    return known[name]


def select(cls: type[T], values: Mapping[str, Any]) -> T:
    """Build the dataclass ``cls`` from those of ``values`` that have the names of its fields, such as a method's
    ``locals()``."""
    return cls(**{item.name: values[item.name] for item in fields(cls)})  # type: ignore[arg-type]


def _is_sequence(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_sequence(typing.get_args(hint)[0])
    return (inspect.isclass(origin) and issubclass(origin, (tuple, list))) or "Sequence" in str(origin)


def write_settings(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a settings file: indented JSON of ``method``, ``settings`` and their source."""
    with atomic_write(Path(path)) as stream:
        stream.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def read_settings(path: str | Path, method: str) -> dict[str, Any]:
    """Read the settings for ``method`` from a settings file.

    Raises:
        DataError: the file is missing or not a settings file.
        UsageError: it is for another method, or has a setting that the method does not have.
    """
    held = _held(path)
    if held["method"] != method:
        raise UsageError(f"{path} holds settings of {held['method']}, not of {method}: give --method {held['method']}")
    known = method_named(method).settings
    for name, value in held["settings"].items():
        if name not in known:
            raise UnknownName(f"setting of {method} in {path}", name, known)
        known[name].parse(value, f"{path}: {method}")
    return dict(held["settings"])


def read_retriever(path: str | Path) -> str | None:
    """Read the name of the retriever that the settings of a file were fitted with, if the file has it."""
    retriever = _held(path).get("retriever")
    return retriever if isinstance(retriever, str) else None


def _held(path: str | Path) -> dict[str, Any]:
    try:
        held = orjson.loads(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"the settings cannot be read: {error.strerror}", path) from None
    except ValueError:
        raise DataError("not a settings file: not JSON", path) from None
    if not (isinstance(held, dict) and isinstance(held.get("method"), str) and isinstance(held.get("settings"), dict)):
        raise DataError('not a settings file: it must be {"method": name, "settings": {name: value}}', path)
    return held
