"""The recipes of families of encoders: the prefix of a text, the pooling of token states, and scaling to length 1.

Sources: the papers and model cards of Contriever (Izacard et al., 2021), E5 (Wang et al., 2022 and 2024), BGE (Xiao et
al., 2023), GTR (Ni et al., 2021), Nomic Embed (Nussbaum et al., 2024), Arctic Embed (Merrick et al., 2024), GTE (Li et
al., 2023), Qwen3-Embedding (Zhang et al., 2025), EmbeddingGemma (2025), mxbai-embed, and of sentence-transformers'
MiniLM and MPNet. A model of another family follows its own sentence-transformers files: ``modules.json`` and the files
that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args
from urllib.parse import unquote

import orjson

from polyhop.common.registry import check_at_least, check_options
from polyhop.errors import DataError, SettingError, UsageError

Pooling: TypeAlias = Literal["mean", "cls", "last"]
FindFile: TypeAlias = Callable[[str], Path | None]
"""Finds a file of a checkpoint by its path inside it; None if it has none."""


class Recipe(NamedTuple):
    """The steps from a text to its vector.

    ``pooling`` takes the mean of all token states, the first one or the last one; ``normalise`` scales the vector to
    length 1. ``query`` and ``passage`` are prefixes; ``{title}`` in the latter stands for the passage's title. A text
    is cut to ``max_tokens``. ``layers`` are the folders of linear layers after the pooling. ``dim`` is how many of a
    vector's first numbers are kept (Matryoshka); None keeps all. ``end`` is the token in which a text ends; "" leaves
    that to the tokenizer. ``pool_prefix=False`` pools the tokens after the prefix.
    """

    pooling: Pooling
    normalise: bool
    query: str = ""
    passage: str = ""
    max_tokens: int = 512
    layers: tuple[str, ...] = ()
    dim: int | None = None
    end: str = ""
    pool_prefix: bool = True


_BGE = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

FAMILIES: Mapping[str, Recipe] = {
    r"m?contriever(-msmarco)?": Recipe("mean", normalise=False),
    r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?": Recipe("mean", True, "query: ", "passage: "),
    r"multilingual-e5-large-instruct": Recipe("mean", True, f"{_INSTRUCT} "),
    r"e5-mistral-7b-instruct": Recipe("last", True, f"{_INSTRUCT} ", max_tokens=4096, end="</s>"),
    r"qwen3-embedding\b.*": Recipe("last", True, _INSTRUCT, max_tokens=8192, end="<|endoftext|>"),
    r"gte-qwen2-.*instruct": Recipe("last", True, f"{_INSTRUCT} ", max_tokens=8192, end="<|endoftext|>"),
    r"gte-modernbert-base": Recipe("cls", True, max_tokens=8192),
    r"embeddinggemma\b.*": Recipe(
        "mean", True, "task: search result | query: ", "title: {title} | text: ", 2048, ("2_Dense", "3_Dense")
    ),
    r"bge-(small|base|large)-en(-v1\.5)?|mxbai-embed-large(-v1)?": Recipe("cls", True, query=_BGE),
    r"bge-(small|base|large)-zh(-v1\.5)?": Recipe("cls", True, query=_BGE_ZH),
    r"bge-m3": Recipe("cls", True, max_tokens=8192),
    r"snowflake-arctic-embed(-(xs|s|m|l))?(-v1\.5)?": Recipe("cls", True, query=_BGE),
    r"snowflake-arctic-embed(2|-[ml]-v2\.0)": Recipe("cls", True, "query: ", max_tokens=8192),
    r"gtr-t5-(base|large|xl|xxl)": Recipe("mean", True, layers=("2_Dense",)),
    r"all-minilm-l6-v[12]": Recipe("mean", True, max_tokens=256),
    r"all-minilm-l12-v[12]": Recipe("mean", True, max_tokens=128),
    r"multi-qa-minilm-l6-cos-v1": Recipe("mean", True),
    r"all-mpnet-base-v2": Recipe("mean", True, max_tokens=384),
    r"nomic-embed-text(-v1(\.5)?)?|modernbert-embed-(base|large)": Recipe(
        "mean", True, "search_query: ", "search_document: ", max_tokens=8192
    ),
}
"""The recipes by the model's name in lower case."""

OPTIONS = ("query", "passage", "dim")
"""The options of any encoder, a served one too."""

_LOCAL_OPTIONS = ("pooling", "normalise", *OPTIONS, "max_tokens", "end")
_EXAMPLES = "Contriever, E5, BGE, GTE, Qwen3-Embedding, EmbeddingGemma, Arctic, GTR, MiniLM, MPNet, Nomic"
_GIVEN = "?pooling=mean&normalise=true&query=query: &passage=passage: "
_POOLINGS: Mapping[str, Pooling] = {"mean_tokens": "mean", "cls_token": "cls", "lasttoken": "last"}
"""Those of sentence-transformers, under both names that it has used."""


def family(path_or_name: str) -> Recipe | None:
    """Find the recipe of a model's family by the parts of its name or path, the last part first.

    >>> family("intfloat/e5-base-v2").passage
    'passage: '
    >>> family("/models/models--facebook--contriever/snapshots/2bd46a2").normalise
    False
    >>> family("nomic-embed-text:latest").query
    'search_query: '
    >>> family("Qwen/Qwen3-Embedding-0.6B").pooling
    'last'
    >>> family("intfloat/e5-large-of-mine") is None
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
    given = checked_options(name, options, _LOCAL_OPTIONS)
    found = family(path_or_name) or _own(name, file)
    if found is None and not {"pooling", "normalise"} <= given.keys():
        raise UsageError(
            f"{name}: its recipe is unknown: its name belongs to no family ({_EXAMPLES}), and it has no modules.json. "
            f"Give the recipe: {name}{_GIVEN}"
        )
    found = found or Recipe("mean", True)
    return found._replace(end=found.end or _end_mark(name, file))._replace(**given)


def checked_options(name: str, options: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Check options, which are fields of ``Recipe``. In a prefix, ``%26`` is ``&`` and ``%0A`` a line break.

    >>> checked_options("dense:mine", {"query": "Instruct: find%0AQuery:", "dim": 256}, OPTIONS)
    {'query': 'Instruct: find\\nQuery:', 'dim': 256}
    """
    given = dict(options)
    check_options(name, given, known)
    if given.get("pooling", "mean") not in get_args(Pooling):
        raise SettingError(f"pooling={given['pooling']}: must be mean, cls or last")
    if "normalise" in given:
        if str(given["normalise"]).lower() not in ("true", "false"):
            raise SettingError(f"normalise={given['normalise']}: must be true or false")
        given["normalise"] = str(given["normalise"]).lower() == "true"
    check_at_least(1, **{key: given[key] for key in ("max_tokens", "dim") if key in given})
    return {key: unquote(str(value)) if key in ("query", "passage", "end") else value for key, value in given.items()}


def _own(name: str, file: FindFile) -> Recipe | None:
    """Read the recipe of a checkpoint of sentence-transformers; None if it has no ``modules.json``."""
    if file("modules.json") is None:
        return None
    pooling: tuple[Pooling, bool] | None = None
    normalise, layers = False, []
    for kind, path in _modules(name, file):
        if kind == "Pooling":
            pooling = _pooling(name, _json(name, file, f"{path}/config.json"))
        elif kind == "Normalize":
            normalise = True
        elif kind == "Dense" and pooling and not normalise:
            layers.append(path)
        elif kind != "Transformer":
            raise UsageError(f"{name}: its modules.json has a {kind} module, which is not known here")
    if pooling is None:
        raise UsageError(f"{name}: its modules.json has no Pooling module; give the recipe: {name}{_GIVEN}")
    prompts = _json(name, file, "config_sentence_transformers.json").get("prompts")
    max_tokens = _json(name, file, "sentence_bert_config.json").get("max_seq_length")
    return Recipe(
        pooling[0],
        normalise,
        query=_prompt(prompts, "query", "web_search_query"),
        passage=_prompt(prompts, "document", "passage", "corpus"),
        max_tokens=max_tokens if isinstance(max_tokens, int) and max_tokens > 0 else 512,
        layers=tuple(layers),
        pool_prefix=pooling[1],
    )


def _prompt(prompts: Any, *names: str) -> str:
    """Return the first prompt with one of the names; "" if there is none."""
    given = prompts if isinstance(prompts, dict) else {}
    return next((str(given[name]) for name in names if given.get(name)), "")


def _end_mark(name: str, file: FindFile) -> str:
    """Return the token that ends each text if ``tokenizer_config.json`` asks for it. From version 5 on, transformers
    itself follows ``tokenizer.json`` alone, which for e5-mistral lacks it."""
    config = _json(name, file, "tokenizer_config.json")
    mark = config.get("eos_token") if config.get("add_eos_token") is True else ""
    return str(mark.get("content") or "") if isinstance(mark, dict) else str(mark or "")


def _modules(name: str, file: FindFile) -> list[tuple[str, str]]:
    """Read the kind and folder of each module, in order."""
    listed = _loaded(name, "modules.json", file("modules.json"))
    try:
        modules = [(str(module["type"]), str(module["path"])) for module in listed]
    except (TypeError, KeyError) as error:
        raise DataError(f"{name}: its modules.json is not a list of modules") from error
    if foreign := next((kind for kind, _ in modules if not kind.startswith("sentence_transformers.")), None):
        raise UsageError(
            f"{name}: its modules.json names {foreign}, code of its own, which is never run here. A server can run it: "
            "dense:openai:MODEL@URL"
        )
    return [(kind.rpartition(".")[2], path) for kind, path in modules]


def _pooling(name: str, config: Mapping[str, Any]) -> tuple[Pooling, bool]:
    """Read the pooling, and True if it includes the prefix."""
    mode = config.get("pooling_mode")
    modes = [mode] if mode else [key for key, on in config.items() if on is True and key.startswith("pooling_mode_")]
    names = [str(mode).removeprefix("pooling_mode_") for mode in modes]
    found = [_POOLINGS.get(name, name) for name in names]
    if len(found) != 1 or found[0] not in get_args(Pooling):
        raise UsageError(
            f"{name}: it pools by {', '.join(names) or 'nothing'}; only mean, cls and the last token are supported"
        )
    return cast("Pooling", found[0]), config.get("include_prompt") is not False


def _json(name: str, file: FindFile, path: str) -> dict[str, Any]:
    """Read a JSON object of the checkpoint; {} if the file is absent."""
    found = file(path)
    loaded = {} if found is None else _loaded(name, path, found)
    if not isinstance(loaded, dict):
        raise DataError(f"{name}: its {path} is not a JSON object")
    return loaded


def _loaded(name: str, path: str, file: Path | None) -> Any:
    try:
        return orjson.loads(file.read_bytes() if file else b"")
    except orjson.JSONDecodeError as error:
        raise DataError(f"{name}: its {path} is damaged: {error}") from error
