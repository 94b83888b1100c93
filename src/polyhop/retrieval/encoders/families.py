"""The recipes of families of encoders: the prefix of a text, the pooling of token states, and whether the vector is
scaled to length 1.

Sources: the papers and model cards of Contriever (Izacard et al., 2021), E5 (Wang et al., 2022), BGE (Xiao et al.,
2023), GTR (Ni et al., 2021), Nomic Embed (Nussbaum et al., 2024), and of sentence-transformers' MiniLM and MPNet. A
model of no family here is made as its own sentence-transformers files say: ``modules.json`` and what it points to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import orjson

from polyhop.errors import DataError, SettingError, UnknownName, UsageError

Pooling: TypeAlias = Literal["mean", "cls"]
ReadFile: TypeAlias = Callable[[str], bytes | None]
"""A file of a checkpoint by its path within it; None where there is none."""


class Recipe(NamedTuple):
    """From token states to a vector. ``pooling``: the mean of all states, or the first one. ``normalise``: to length 1.
    ``query``, ``passage``: what stands before each. ``max_tokens``: what is beyond is cut. ``layer``: the folder of a
    linear layer behind the pooling."""

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
"""By the model's name in lower case."""

_EXAMPLES = "Contriever, E5, BGE, GTR, MiniLM, MPNet and Nomic's"
_GIVEN = "?pooling=mean&normalise=true&query=query: &passage=passage: "


def family(path_or_name: str) -> Recipe | None:
    """The recipe of a model's family, found by its name or by that of its folder, nearest the end first.

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


def recipe_of(name: str, path_or_name: str, options: Mapping[str, Any], read: ReadFile) -> Recipe:
    """The recipe of a checkpoint: its family's, else that of its own files, with what ``options`` say otherwise.

    Raises:
        UsageError: neither tells it; the message says what to give.
        SettingError: an option has a value it cannot take.
    """
    given = _checked(name, options)
    found = family(path_or_name) or _own(name, read)
    if found is None and not {"pooling", "normalise"} <= given.keys():
        raise UsageError(
            f"{name}: how its vectors are made is not known: it is none of {_EXAMPLES} families by name and has no "
            f"modules.json. Say it: {name}{_GIVEN}"
        )
    return (found or Recipe("mean", True))._replace(**given)


def _checked(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    known = ("pooling", "normalise", "query", "passage", "max_tokens")
    given = dict(options)
    if strange := sorted(given.keys() - set(known)):
        raise UnknownName(f"option of {name}", strange[0], known)
    if given.get("pooling", "mean") not in get_args(Pooling):
        raise SettingError(f"pooling={given['pooling']}: must be mean or cls")
    if "normalise" in given:
        if str(given["normalise"]).lower() not in ("true", "false"):
            raise SettingError(f"normalise={given['normalise']}: must be true or false")
        given["normalise"] = str(given["normalise"]).lower() == "true"
    max_tokens = given.get("max_tokens", 1)
    if not isinstance(max_tokens, int) or max_tokens < 1:
        raise SettingError(f"max_tokens={max_tokens}: must be at least 1")
    return {key: str(value) if key in ("query", "passage") else value for key, value in given.items()}


def _own(name: str, read: ReadFile) -> Recipe | None:
    """Read the recipe of a checkpoint of sentence-transformers; None if it has no ``modules.json``."""
    if read("modules.json") is None:
        return None
    pooling: Pooling | None = None
    normalise, layer = False, None
    for kind, path in _modules(name, read):
        if kind == "Pooling":
            pooling = _pooling(name, _json(name, read, f"{path}/config.json"))
        elif kind == "Normalize":
            normalise = True
        elif kind == "Dense" and pooling and layer is None:
            layer = path
        elif kind != "Transformer":
            raise UsageError(f"{name}: its modules.json has a {kind} module, which is not known here")
    if pooling is None:
        raise UsageError(f"{name}: its modules.json has no Pooling module; say it: {name}{_GIVEN}")
    prompts = _json(name, read, "config_sentence_transformers.json").get("prompts")
    prefixes = prompts if isinstance(prompts, dict) else {}
    max_tokens = _json(name, read, "sentence_bert_config.json").get("max_seq_length")
    return Recipe(
        pooling,
        normalise,
        query=str(prefixes.get("query") or ""),
        passage=str(prefixes.get("document") or prefixes.get("passage") or ""),
        max_tokens=max_tokens if isinstance(max_tokens, int) and max_tokens > 0 else 512,
        layer=layer,
    )


def _modules(name: str, read: ReadFile) -> list[tuple[str, str]]:
    """Kind and folder of each module, in order."""
    listed = _loaded(name, "modules.json", read("modules.json"))
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
        raise UsageError(f"{name}: it pools by {', '.join(map(str, modes)) or 'nothing'}; known here are mean and cls")
    return "mean" if modes == ["mean"] else "cls"


def _json(name: str, read: ReadFile, path: str) -> dict[str, Any]:
    """A JSON object of the checkpoint, empty where the file is absent."""
    data = read(path)
    loaded = {} if data is None else _loaded(name, path, data)
    if not isinstance(loaded, dict):
        raise DataError(f"{name}: its {path} is no JSON object")
    return loaded


def _loaded(name: str, path: str, data: bytes | None) -> Any:
    try:
        return orjson.loads(data or b"")
    except orjson.JSONDecodeError as error:
        raise DataError(f"{name}: its {path} is damaged: {error}") from error
