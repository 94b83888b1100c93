"""The recipes of families of encoders: the prefix of a text, the pooling of token states, and scaling to length 1.

Sources: the papers and model cards of Contriever (Izacard et al., 2021), E5 (Wang et al., 2022), BGE (Xiao et al.,
2023), GTR (Ni et al., 2021), Nomic Embed (Nussbaum et al., 2024), and of sentence-transformers' MiniLM and MPNet. A
model of another family follows its own sentence-transformers files: ``modules.json`` and the files that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import orjson

from polyhop.common.registry import check_at_least, check_options
from polyhop.errors import DataError, SettingError, UsageError

Pooling: TypeAlias = Literal["mean", "cls"]
FindFile: TypeAlias = Callable[[str], Path | None]
"""Finds a file of a checkpoint by its path inside it; None if it has none."""


class Recipe(NamedTuple):
    """The steps from a text to its vector.

    ``pooling`` takes the mean of all token states, or the first one; ``normalise`` scales the vector to length 1.
    ``query`` and ``passage`` are prefixes. A text is cut to ``max_tokens``. ``layer`` is the folder of a linear layer
    after the pooling.
    """

    pooling: Pooling
    normalise: bool
    query: str = ""
    passage: str = ""
    max_tokens: int = 512
    layer: str | None = None


_BGE = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："

FAMILIES: Mapping[str, Recipe] = {
    r"m?contriever(-msmarco)?": Recipe("mean", normalise=False),
    r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?": Recipe("mean", True, "query: ", "passage: "),
    r"bge-(small|base|large)-en(-v1\.5)?": Recipe("cls", True, query=_BGE),
    r"bge-(small|base|large)-zh(-v1\.5)?": Recipe("cls", True, query=_BGE_ZH),
    r"bge-m3": Recipe("cls", True, max_tokens=8192),
    r"gtr-t5-(base|large|xl|xxl)": Recipe("mean", True, layer="2_Dense"),
    r"all-minilm-l6-v[12]": Recipe("mean", True, max_tokens=256),
    r"all-minilm-l12-v[12]": Recipe("mean", True, max_tokens=128),
    r"multi-qa-minilm-l6-cos-v1": Recipe("mean", True),
    r"all-mpnet-base-v2": Recipe("mean", True, max_tokens=384),
    r"nomic-embed-text(-v1(\.5)?)?": Recipe("mean", True, "search_query: ", "search_document: ", max_tokens=8192),
}
"""The recipes by the model's name in lower case."""

_EXAMPLES = "Contriever, E5, BGE, GTR, MiniLM, MPNet, Nomic"
_GIVEN = "?pooling=mean&normalise=true&query=query: &passage=passage: "


def family(path_or_name: str) -> Recipe | None:
    """Find the recipe of a model's family by the parts of its name or path, the last part first.

    >>> family("intfloat/e5-base-v2").passage
    'passage: '
    >>> family("/models/models--facebook--contriever/snapshots/2bd46a2").normalise
    False
    >>> family("nomic-embed-text:latest").query
    'search_query: '
    >>> family("intfloat/e5-mistral-7b-instruct") is None
    True
    """
    for part in reversed(re.split(r"[/\\]|--", path_or_name.lower())):
        for pattern, recipe in FAMILIES.items():
            if re.fullmatch(pattern, part.partition(":")[0]):
                return recipe
    return None


def recipe_of(name: str, path_or_name: str, options: Mapping[str, Any], file: FindFile) -> Recipe:
    """Find the recipe of a checkpoint: its family's, else that in its own files, changed by ``options``.

    Raises:
        UsageError: neither has one; the message says which options to give.
        SettingError: an option has an invalid value.
    """
    given = _checked(name, options)
    found = family(path_or_name) or _own(name, file)
    if found is None and not {"pooling", "normalise"} <= given.keys():
        raise UsageError(
            f"{name}: its recipe is unknown: its name belongs to no family ({_EXAMPLES}), and it has no modules.json. "
            f"Give the recipe: {name}{_GIVEN}"
        )
    return (found or Recipe("mean", True))._replace(**given)


def _checked(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    known = ("pooling", "normalise", "query", "passage", "max_tokens")
    given = dict(options)
    check_options(name, given, known)
    if given.get("pooling", "mean") not in get_args(Pooling):
        raise SettingError(f"pooling={given['pooling']}: must be mean or cls")
    if "normalise" in given:
        if str(given["normalise"]).lower() not in ("true", "false"):
            raise SettingError(f"normalise={given['normalise']}: must be true or false")
        given["normalise"] = str(given["normalise"]).lower() == "true"
    check_at_least(1, max_tokens=given.get("max_tokens", 1))
    return {key: str(value) if key in ("query", "passage") else value for key, value in given.items()}


def _own(name: str, file: FindFile) -> Recipe | None:
    """Read the recipe of a checkpoint of sentence-transformers; None if it has no ``modules.json``."""
    if file("modules.json") is None:
        return None
    pooling: Pooling | None = None
    normalise, layer = False, None
    for kind, path in _modules(name, file):
        if kind == "Pooling":
            pooling = _pooling(name, _json(name, file, f"{path}/config.json"))
        elif kind == "Normalize":
            normalise = True
        elif kind == "Dense" and pooling and layer is None:
            layer = path
        elif kind != "Transformer":
            raise UsageError(f"{name}: its modules.json has a {kind} module, which is not known here")
    if pooling is None:
        raise UsageError(f"{name}: its modules.json has no Pooling module; give the recipe: {name}{_GIVEN}")
    prompts = _json(name, file, "config_sentence_transformers.json").get("prompts")
    prefixes = prompts if isinstance(prompts, dict) else {}
    max_tokens = _json(name, file, "sentence_bert_config.json").get("max_seq_length")
    return Recipe(
        pooling,
        normalise,
        query=str(prefixes.get("query") or ""),
        passage=str(prefixes.get("document") or prefixes.get("passage") or ""),
        max_tokens=max_tokens if isinstance(max_tokens, int) and max_tokens > 0 else 512,
        layer=layer,
    )


def _modules(name: str, file: FindFile) -> list[tuple[str, str]]:
    """Read the kind and folder of each module, in order."""
    listed = _loaded(name, "modules.json", file("modules.json"))
    try:
        return [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in listed]
    except (TypeError, KeyError) as error:
        raise DataError(f"{name}: its modules.json is no list of modules") from error


def _pooling(name: str, config: Mapping[str, Any]) -> Pooling:
    mode = config.get("pooling_mode")
    modes = [mode] if mode else [key.removeprefix("pooling_mode_") for key, on in config.items() if on is True]
    modes = ["mean" if mode == "mean_tokens" else "cls" if mode == "cls_token" else mode for mode in modes]
    modes = [mode for mode in modes if mode != "include_prompt"]
    if modes not in (["mean"], ["cls"]) or config.get("include_prompt") is False:
        raise UsageError(
            f"{name}: it pools by {', '.join(map(str, modes)) or 'nothing'}; only mean and cls are supported"
        )
    return "mean" if modes == ["mean"] else "cls"


def _json(name: str, file: FindFile, path: str) -> dict[str, Any]:
    """Read a JSON object of the checkpoint; {} if the file is absent."""
    found = file(path)
    loaded = {} if found is None else _loaded(name, path, found)
    if not isinstance(loaded, dict):
        raise DataError(f"{name}: its {path} is no JSON object")
    return loaded


def _loaded(name: str, path: str, file: Path | None) -> Any:
    try:
        return orjson.loads(file.read_bytes() if file else b"")
    except orjson.JSONDecodeError as error:
        raise DataError(f"{name}: its {path} is damaged: {error}") from error
