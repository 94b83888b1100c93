"""The format of a sweep's file: a run, and the points that change something in it.

    [run]                    # what 'polyhop run' takes, by the same names, and settings of the method
    dataset = "demo"
    method = "tor"

    [[grid]]                 # every combination of these values; several grids are possible
    fusion = ["analysis", "paragraph", "evidence"]

    [[point]]                # a single point; an empty one is the run itself
    expansion = "direct"

A setting in ``[run]`` goes to every method of the sweep that has it. Paths are relative to the
current directory, as on the command line. Equal points are run once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, TypeAdapter, ValidationError

from polyhop.common.toml import parse_toml
from polyhop.data import DEMO
from polyhop.data.contexts import corpus_of_contexts, is_contexts, questions_with_contexts
from polyhop.data.questions import open_questions, read_questions, with_answerability
from polyhop.engine.options import OPTIONS, Option, PriceSource
from polyhop.errors import DataError, PolyhopError, SettingError, UnknownName
from polyhop.evaluation.runner import CONCURRENCY
from polyhop.evaluation.runs import combinations, folder_name
from polyhop.methods.registry import Method, method_named, methods, read_settings
from polyhop.redaction import redacted
from polyhop.types import Positive, Question


def _name(value: Any) -> Any:
    """Accept a name or a path, or from Python an object instead."""
    named = isinstance(value, (str, Path))
    if isinstance(value, (bool, int, float, date, time, Mapping)) or (not named and _holds_text(value)):
        raise ValueError("must be a name")
    return value


def _models(value: Any) -> Any:
    """Accept a model, or one per role or task."""
    return {role: _name(model) for role, model in value.items()} if isinstance(value, Mapping) else _name(value)


def _holds_text(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(item, str) for item in value)


Name: TypeAlias = Annotated[Any, AfterValidator(_name)]

SHARED: Mapping[str, Any] = {
    "dataset": Name,
    "corpus": Name,
    "language": str,
    "format": str,
    "fields": dict[str, str],
    "limit": Positive,
    "concurrency": Positive,
    "skip_bad": bool,
    "metrics": str | list[str],
    "cache": bool | str,
    "price": str | dict[str, Any],
}
"""Keys allowed only in ``[run]``: all points share them."""


def _type(option: Option) -> Any:
    """Return the type of an option's value in the file."""
    if option.kind == list[str]:
        return dict[str, Any]
    if option.choices:
        return Literal[option.choices]
    if option.is_count:
        return Positive
    return Name if option.is_part else str if option.kind is Path else option.kind


OWN: Mapping[str, Any] = {
    **{name: _type(option) for name, option in OPTIONS.items() if name not in {*SHARED, "lm_for", "settings"}},
    "lm": Annotated[Any, AfterValidator(_models)],
    "setup": str,
}
"""Keys that a point may set, besides its method's settings: the options of ``Pipeline``."""

_DEFAULTS = {name: OPTIONS[name].default for name in OWN.keys() & OPTIONS if OPTIONS[name].default is not None}


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """A run of the sweep.

    ``name``: its folder, made of its ``changes``, the differences from ``[run]``. ``options``: its keys of ``OWN``.
    ``settings``: the given settings of the method. ``location``: its position in the file, for messages.
    """

    name: str
    location: str
    changes: Mapping[str, Any]
    options: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.options["method"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sweep's distinct points in order, and the keys of ``SHARED`` that hold for all of them."""

    points: Sequence[SweepPoint]
    dataset: Any
    corpus: Any = None
    language: str | None = None
    format: str | None = None
    fields: Mapping[str, str] | None = None
    limit: int | None = None
    concurrency: int = CONCURRENCY
    skip_bad: bool = False
    metrics: str | Sequence[str] | None = None
    cache: bool | str | None = None
    price: PriceSource | None = None

    @property
    def title(self) -> str:
        """Return the dataset's name."""
        return Path(self.dataset).name if isinstance(self.dataset, (str, Path)) else "questions"

    def questions(self, given: Sequence[Question] | None) -> list[Question]:
        """Return all questions, read unless ``given``; unanswerable ones are marked if a point allows them."""
        found = self.read_questions() if given is None else list(given)
        allowed = any(point.options.get("allow_unanswerable") for point in self.points)
        return with_answerability(found) if allowed else found

    def read_questions(self) -> list[Question]:
        """Read all questions of the dataset."""
        if isinstance(self.dataset, (str, Path)):
            if is_contexts(self.corpus):
                dataset = open_questions(self.dataset, skip_bad=self.skip_bad, format=self.format, fields=self.fields)
                return questions_with_contexts(dataset)
            return read_questions(self.dataset, skip_bad=self.skip_bad, format=self.format, fields=self.fields)
        return list(self.dataset)

    def with_contexts(self, questions: Sequence[Question]) -> Plan:
        """Return the plan with the contexts of all questions as its corpus, if it names these."""
        return replace(self, corpus=corpus_of_contexts(questions)) if is_contexts(self.corpus) else self


def read_plan(source: str | Path | Mapping[str, Any]) -> Plan:
    """Read the plan in a sweep's file, or in a mapping of the same form whose values may also be objects.

    Raises:
        DataError: the file cannot be read, or is no TOML.
        UsageError: a key is unknown or has a value it cannot take; the message names file, table and key.
    """
    file, content = ("sweep", source) if isinstance(source, Mapping) else (str(source), _read(Path(source)))
    for name in content:
        if name not in ("run", "grid", "point"):
            raise UnknownName(f"table in {file}:", name, ("run", "grid", "point"))
    location = f"{file}, [run]:"
    base = _Base(_table(content.get("run", {}), location), location)
    changes = list(_changes(content, file))
    known = {name for where, change in changes for name in base.method(change, where).settings}
    for name in base.held:
        if name not in {*SHARED, *OWN, *known}:
            raise UnknownName(f"key in {base.location}", name, {*SHARED, *OWN, *known})
    shared = {
        name: _parsed(SHARED[name], name, value, base.location) for name, value in base.held.items() if name in SHARED
    }
    if "dataset" not in shared:
        raise DataError("[run] names no dataset", file)
    if shared["dataset"] == DEMO:
        shared.setdefault("corpus", DEMO)
    return Plan(points=_points(base, changes), **shared)


def _read(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"the sweep cannot be read: {error.strerror}", path) from None
    except ValueError as error:
        raise DataError(f"not a sweep: {error}", path) from None


def _table(content: Any, location: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise SettingError(f"{location} must be a table of keys and values, not {content!r}")
    return content


def _changes(content: Mapping[str, Any], file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each point's location and changes: the grids' combinations, then the single points."""
    for kind in ("grid", "point"):
        held = content.get(kind, [])
        tables = held if isinstance(held, list) else [held]
        for number, table in enumerate(tables, 1):
            location = f"{file}, [[{kind}]] {number}:" if len(tables) > 1 else f"{file}, [{kind}]:"
            try:
                found = combinations(_table(table, location)) if kind == "grid" else [_table(table, location)]
            except SettingError as error:
                raise error if str(error).startswith(location) else SettingError(f"{location} {error}") from None
            yield from ((location, change) for change in found)
    if not content.get("grid") and not content.get("point"):
        raise DataError("a sweep needs points: a [grid] of values to combine, or a [[point]]", file)


@dataclass(frozen=True, slots=True)
class _Base:
    """The table ``[run]``: the defaults of every point."""

    held: Mapping[str, Any]
    location: str

    def method(self, change: Mapping[str, Any], location: str) -> Method:
        """Return the method of a point with these changes."""
        if "method" in change:
            return _method(change["method"], location)
        return _method(self.held.get("method", _DEFAULTS["method"]), self.location)

    def options(self) -> dict[str, Any]:
        """Return its keys of ``OWN``."""
        return {
            name: _parsed(OWN[name], name, value, self.location) for name, value in self.held.items() if name in OWN
        }

    def settings(self, method: Method) -> dict[str, Any]:
        """Return the settings it gives to a method, typed."""
        return _settings(method, {name: v for name, v in self.held.items() if name in method.settings}, self.location)


def _points(base: _Base, changes: Sequence[tuple[str, Mapping[str, Any]]]) -> list[SweepPoint]:
    points: list[SweepPoint] = []
    seen: list[Any] = []
    for location, change in changes:
        point = _point(base, location, change)
        same = (point.options, _method(point.method, location).resolve(point.settings))
        if same in seen:
            continue
        if any(other.name == point.name for other in points):
            raise SettingError(f"{location} two points that differ would both be named {point.name}")
        seen.append(same)
        points.append(point)
    return points


def _point(base: _Base, location: str, change: Mapping[str, Any]) -> SweepPoint:
    method = base.method(change, location)
    for name in change:
        if name in SHARED:
            raise SettingError(f"{location} {name} is common to all points: set it in [run]")
        if name not in {*OWN, *method.settings}:
            raise UnknownName(f"key in {location}", name, {*OWN, *method.settings}, f"The method is {method.name}.")
    usual = {**_DEFAULTS, **base.options()}
    own = {name: _parsed(OWN[name], name, value, location) for name, value in change.items() if name in OWN}
    options = {**usual, **own}
    given = {name: value for name, value in change.items() if name not in OWN}
    settings = {**_from_file(options, method, location), **base.settings(method), **_settings(method, given, location)}
    file = {} if "set_from" in own else _from_file(usual, method, location)
    before = {**usual, **method.resolve({**file, **base.settings(method)})}
    differ = {name: {**options, **settings}[name] for name in change}
    changed = {name: value for name, value in differ.items() if name not in before or before[name] != value}
    changes = {name: redacted(value) if isinstance(value, str) else value for name, value in changed.items()}
    return SweepPoint(folder_name(changes), location, changes, options, settings)


def _from_file(options: Mapping[str, Any], method: Method, location: str) -> dict[str, Any]:
    if (path := options.get("set_from")) is None:
        return {}
    try:
        return _settings(method, read_settings(path, method.name), location)
    except PolyhopError as error:
        raise SettingError(f"{location} set_from: {error}") from None


def _settings(method: Method, given: Mapping[str, Any], location: str) -> dict[str, Any]:
    return {name: method.settings[name].parse(value, f"{location} {method.name}") for name, value in given.items()}


def _method(name: Any, location: str) -> Method:
    if not isinstance(name, str) or name not in methods():
        raise UnknownName(f"method in {location}", str(name), methods())
    return method_named(name)


def _parsed(kind: Any, name: str, value: Any, location: str) -> Any:
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        raise SettingError(f"{location} {name}={value!r}: {error.errors()[0]['msg']}") from None
