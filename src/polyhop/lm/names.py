"""Models by name: ``pocket``, ``openai:MODEL[@URL]``, ``hf:PATH_OR_NAME``, ``scripted:FILE``, ``replay:RUN_DIR``, and
others registered."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from polyhop.common.registry import path_and_options
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.lm.base import Capabilities, LanguageModel

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

Opener = Callable[..., LanguageModel]
"""``(rest, **options) -> model``: ``rest`` is the text after the prefix and its colon, perhaps empty."""

F = TypeVar("F", bound=Opener)
GROUP = "polyhop.lm"
"""Entry points of other packages: the name is the prefix, the object an ``Opener``."""

_openers: dict[str, Opener] = {}
_AT_URL = re.compile(r"^(?P<model>.+?)@(?P<url>https?://.+)$", re.IGNORECASE)
_AT_HOST = re.compile(r"^.+@(?P<host>localhost(?::\d+)?|[\w.-]+:\d+)(?:/|$)", re.IGNORECASE)


def register_lm(prefix: str) -> Callable[[F], F]:
    """Register a model under a prefix: ``@register_lm("mine")`` before ``(rest, **options) -> LanguageModel``.

    >>> @register_lm("echo")
    ... def echo(rest: str) -> LanguageModel:
    ...     from polyhop.lm.scripted import ScriptedLM
    ...     return ScriptedLM(lambda task, fields: rest)
    >>> open_lm("echo:Paris")
    ScriptedLM('scripted')
    """

    if not re.fullmatch(r"[A-Za-z0-9_.-]+", prefix):
        raise UsageError(f"{prefix!r} is no name for a language model: letters, digits, '.', '_' and '-' are")

    def register(opener: F) -> F:
        _openers[prefix] = opener
        return opener

    return register


def open_lm(spec: str | LanguageModel, **options: Any) -> LanguageModel:
    """Open a model by name with ``options``; a model object is returned as it is.

    ``extra_body`` is added to every request to a server; for a model without it, its entries are ordinary options.

    Raises ``UnknownName`` for an unknown name or option, and the model's own errors.
    """
    if not isinstance(spec, str):
        if not callable(getattr(spec, "complete", None)):
            raise UsageError(f"{spec!r} is no language model: it has no 'complete'")
        if not isinstance(getattr(spec, "capabilities", None), Capabilities):
            raise UsageError(f"{spec!r} is no language model: its 'capabilities' must be polyhop.lm.base.Capabilities")
        if options:
            raise SettingError(f"options ({', '.join(options)}) go with a model's name, not with a model object")
        return spec
    prefix, _, rest = spec.partition(":")
    opener = _opener(spec)
    return opener(rest, **_checked_options(prefix, opener, options))


def lm_names() -> list[str]:
    """Return the known prefixes."""
    return sorted({*_openers, *_entry_points().names})


@register_lm("pocket")
def _pocket(rest: str) -> LanguageModel:
    if rest:
        raise SettingError(f"pocket:{rest}: there is one pocket model, named just 'pocket'")
    from polyhop.lm.pocket import Pocket

    return Pocket()


@register_lm("openai")
def _openai(rest: str, **options: Any) -> LanguageModel:
    from polyhop.lm.openai import OpenAICompatible

    options = _checked_options("openai", OpenAICompatible, options)
    model, url = model_and_url("openai", rest)
    if url and options.get("url"):
        raise SettingError(f"openai:{rest} names a server, and url={options['url']!r} another: give one of them")
    return OpenAICompatible(model, **{**options, **({"url": url} if url else {})})


def model_and_url(prefix: str, rest: str) -> tuple[str, str | None]:
    """Split ``MODEL@URL`` into model and URL; the URL is None without one.

    >>> model_and_url("openai", "tiny@http://localhost:8000/v1")
    ('tiny', 'http://localhost:8000/v1')
    """
    if found := _AT_URL.match(rest):
        return found["model"], found["url"]
    model, _, server = rest.partition("@")
    if "//" in rest or (model and server and (":" in model or re.search("[@:/?]|^localhost", server))):
        host = found["host"] if (found := _AT_HOST.match(rest)) else "localhost:8000"
        raise SettingError(
            f"{prefix}:{rest}: a server's address begins with http:// or https://, as in MODEL@http://{host}/v1"
        )
    return rest, None


@register_lm("hf")
def _hf(rest: str, **options: Any) -> LanguageModel:
    from polyhop.lm.hf import TransformersLM

    path, given = path_and_options("hf", rest)
    return TransformersLM(path, **_checked_options("hf", TransformersLM, {**given, **options}))


@register_lm("scripted")
def _scripted(rest: str, latency: float = 0.0) -> LanguageModel:
    if not rest:
        raise SettingError("scripted: needs the file of a script, as in scripted:replies.jsonl")
    from polyhop.lm.scripted import ScriptedLM

    return ScriptedLM.from_file(rest, latency=latency)


@register_lm("replay")
def _replay(rest: str) -> LanguageModel:
    if not rest:
        raise SettingError("replay: needs the folder of a run, as in replay:runs/tor")
    from polyhop.lm.replay import ReplayLM

    return ReplayLM(rest)


def _opener(spec: str) -> Opener:
    prefix = spec.partition(":")[0]
    if prefix in _openers:
        return _openers[prefix]
    points = _entry_points()
    if prefix in points.names:
        opener: Opener = points[prefix].load()
        return opener
    named = spec if "@" in spec else prefix  # of an address the prefix may be a user's name
    raise UnknownName("language model", named, lm_names(), "A served model is openai:MODEL or openai:MODEL@URL.")


def _checked_options(name: str, maker: Callable[..., object], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as ``maker`` takes them; each must be one of its arguments after the first."""
    _, *parameters = inspect.signature(maker).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(options)  # the maker checks them
    names = [parameter.name for parameter in parameters]
    if "extra_body" not in names:
        options = {**(options.get("extra_body") or {}), **{n: v for n, v in options.items() if n != "extra_body"}}
    for option in options:
        if option not in names:
            raise UnknownName(f"option of {name}", option, names)
    return dict(options)


def _entry_points() -> EntryPoints:
    from importlib.metadata import entry_points  # late: slow, and seldom needed

    return entry_points(group=GROUP)
