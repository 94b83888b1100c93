"""Encoders without a network: the table of families, what a checkpoint tells of itself, pooling, and a server's
embeddings over a wire of the tests' own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.errors import DataError, LMError, PolyhopError, SettingError, UnknownName, UsageError
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.encoders.base import Layer, finished, pooling_weights, similarities
from polyhop.retrieval.encoders.families import FAMILIES, Recipe, family, recipe_of
from polyhop.retrieval.encoders.openai import ServedEncoder
from polyhop.types import Passage
from tests.kit.encoders import WordEncoder, counted, embeddings, served

# --- families -----------------------------------------------------------------------------------------------------

BGE = "Represent this sentence for searching relevant passages: "
INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
GEMMA = Recipe("mean", True, "task: search result | query: ", "title: {title} | text: ", 2048, ("2_Dense", "3_Dense"))
BGE_ZH = "为这个句子生成表示以用于检索相关文章："

PINNED: Mapping[str, Recipe | None] = {
    "facebook/contriever": Recipe("mean", False),
    "facebook/contriever-msmarco": Recipe("mean", False),
    "facebook/mcontriever-msmarco": Recipe("mean", False),
    "intfloat/e5-base-v2": Recipe("mean", True, "query: ", "passage: "),
    "intfloat/e5-small": Recipe("mean", True, "query: ", "passage: "),
    "intfloat/e5-large-unsupervised": Recipe("mean", True, "query: ", "passage: "),
    "intfloat/multilingual-e5-large": Recipe("mean", True, "query: ", "passage: "),
    "intfloat/multilingual-e5-large-instruct": Recipe("mean", True, f"{INSTRUCT} "),
    "intfloat/e5-mistral-7b-instruct": Recipe("last", True, f"{INSTRUCT} ", "", 4096, end="</s>"),
    "Qwen/Qwen3-Embedding-0.6B": Recipe("last", True, INSTRUCT, "", 8192, end="<|endoftext|>"),
    "Qwen3-Embedding-8B-GGUF": Recipe("last", True, INSTRUCT, "", 8192, end="<|endoftext|>"),
    "Qwen/Qwen3-VL-Embedding-2B": None,
    "Qwen/Qwen3-0.6B": None,
    "Alibaba-NLP/gte-Qwen2-1.5B-instruct": Recipe("last", True, f"{INSTRUCT} ", "", 8192, end="<|endoftext|>"),
    "Alibaba-NLP/gte-modernbert-base": Recipe("cls", True, max_tokens=8192),
    "nomic-ai/modernbert-embed-base": Recipe("mean", True, "search_query: ", "search_document: ", 8192),
    "google/embeddinggemma-300m": GEMMA,
    "embeddinggemma": GEMMA,
    "mixedbread-ai/mxbai-embed-large-v1": Recipe("cls", True, BGE),
    "Snowflake/snowflake-arctic-embed-m-v1.5": Recipe("cls", True, BGE),
    "Snowflake/snowflake-arctic-embed-l-v2.0": Recipe("cls", True, "query: ", "", 8192),
    "snowflake-arctic-embed2": Recipe("cls", True, "query: ", "", 8192),
    "nvidia/NV-Embed-v2": None,
    "BAAI/bge-small-en-v1.5": Recipe("cls", True, BGE, ""),
    "BAAI/bge-large-en": Recipe("cls", True, BGE, ""),
    "BAAI/bge-base-zh-v1.5": Recipe("cls", True, BGE_ZH, ""),
    "BAAI/bge-m3": Recipe("cls", True, "", "", 8192),
    "BAAI/bge-reranker-base": None,
    "sentence-transformers/gtr-t5-base": Recipe("mean", True, layers=("2_Dense",)),
    "gtr-t5-xxl": Recipe("mean", True, layers=("2_Dense",)),
    "sentence-transformers/all-MiniLM-L6-v2": Recipe("mean", True, max_tokens=256),
    "all-MiniLM-L12-v2": Recipe("mean", True, max_tokens=128),
    "multi-qa-MiniLM-L6-cos-v1": Recipe("mean", True),
    "all-mpnet-base-v2": Recipe("mean", True, max_tokens=384),
    "nomic-embed-text": Recipe("mean", True, "search_query: ", "search_document: ", 8192),
    "text-embedding-3-small": None,
    "": None,
}


@pytest.mark.parametrize("name", PINNED)
def test_a_family_is_known_by_its_name(name: str) -> None:
    assert family(name) == PINNED[name]
    if name:
        assert family(f"/models/{name}/") == PINNED[name]
        assert family(f"~/.cache/hub/models--{name.replace('/', '--')}/snapshots/0a1b2c") == PINNED[name]
        assert family(f"{name}:latest".upper()) == PINNED[name]


def test_every_family_is_pinned() -> None:
    pinned = [recipe for recipe in PINNED.values() if recipe is not None]
    assert all(recipe in pinned for recipe in FAMILIES.values())


# --- a checkpoint's own files -------------------------------------------------------------------------------------


LAST = {"pooling_mode_cls_token": False, "pooling_mode_lasttoken": True, "include_prompt": True}
ADDS_END = {"add_eos_token": True, "eos_token": {"content": "</s>", "special": True}}
NO_END = {"add_eos_token": False, "eos_token": "</s>"}


def files(
    *kinds: str, pooling: Any = None, prompts: Any = None, most: Any = 99, version: str = "sentence_transformers.models"
) -> dict[str, Any]:
    listed = [{"type": f"{version}.{kind}", "path": f"{at}_{kind}" if at else ""} for at, kind in enumerate(kinds)]
    pooling_config = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False} if pooling is None else pooling
    return {
        "modules.json": listed,
        "1_Pooling/config.json": pooling_config,
        "config_sentence_transformers.json": {"prompts": prompts},
        "sentence_bert_config.json": {"max_seq_length": most},
    }


def recipe(made: Mapping[str, Any], name: str = "mine", **options: Any) -> Recipe:
    with TemporaryDirectory() as folder:
        for path, data in made.items():
            file = Path(folder, path)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        return recipe_of(f"dense:{name}", name, options, lambda path: Path(folder, path) if path in made else None)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (files("Transformer", "Pooling"), Recipe("mean", False, max_tokens=99)),
        (files("Transformer", "Pooling", "Normalize"), Recipe("mean", True, max_tokens=99)),
        (
            files("Transformer", "Pooling", "Dense", "Dense", "Normalize"),
            Recipe("mean", True, max_tokens=99, layers=("2_Dense", "3_Dense")),
        ),
        (
            {**files("Transformer", "Pooling", "Normalize", pooling=LAST), "tokenizer_config.json": ADDS_END},
            Recipe("last", True, max_tokens=99, end="</s>"),
        ),
        (
            {**files("Transformer", "Pooling", pooling={"pooling_mode": "lasttoken"}), "tokenizer_config.json": NO_END},
            Recipe("last", False, max_tokens=99),
        ),
        (
            files("Transformer", "Pooling", pooling={"pooling_mode_mean_tokens": True, "include_prompt": False}),
            Recipe("mean", False, max_tokens=99, pool_prefix=False),
        ),
        (
            files("Transformer", "Pooling", prompts={"sts_query": "s: ", "web_search_query": "w: ", "corpus": "c: "}),
            Recipe("mean", False, "w: ", "c: ", 99),
        ),
        (files("Transformer", "Pooling", pooling={"pooling_mode": "cls"}), Recipe("cls", False, max_tokens=99)),
        (
            files("Transformer", "Pooling", pooling={"pooling_mode_cls_token": True, "include_prompt": True}),
            Recipe("cls", False, max_tokens=99),
        ),
        (
            files("Transformer", "Pooling", prompts={"query": "q: ", "document": "d: "}, most=None),
            Recipe("mean", False, "q: ", "d: "),
        ),
        (files("Transformer", "Pooling", version="sentence_transformers.x.modules"), Recipe("mean", False, "", "", 99)),
        (
            {
                "modules.json": files("Transformer", "Pooling")["modules.json"],
                "1_Pooling/config.json": {"pooling_mode": "mean"},
            },
            Recipe("mean", False),
        ),
    ],
)
def test_a_model_of_no_family_is_made_as_its_own_files_say(made: Any, expected: Recipe) -> None:
    assert recipe(made) == expected


def test_a_family_counts_before_the_files_and_an_option_before_both() -> None:
    made = files("Transformer", "Pooling", pooling={"pooling_mode": "cls"})
    assert recipe(made, "e5-base-v2") == family("e5-base-v2")
    found = recipe(made, "e5-base-v2", pooling="cls", normalise="False", query="Q ", passage=7, max_tokens=9)
    assert found == Recipe("cls", False, "Q ", "7", 9)
    assert recipe({}, pooling="mean", normalise="true") == Recipe("mean", True)


def test_prefixes_may_hold_a_line_break_and_an_ampersand() -> None:
    found = recipe({}, "qwen3-embedding-4b", query="Instruct: find %26 cite%0AQuery:", dim=256)
    assert found == Recipe("last", True, "Instruct: find & cite\nQuery:", "", 8192, dim=256, end="<|endoftext|>")


@pytest.mark.parametrize("options", [{}, {"pooling": "cls"}, {"normalise": "true"}])
def test_an_unknown_model_is_an_error_that_names_the_options(options: Any) -> None:
    with pytest.raises(
        UsageError, match=r"Give the recipe: dense:mine\?pooling=mean&normalise=true&query=query: &passage="
    ):
        recipe({}, **options)


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (files("Transformer", "Pooling", "LSTM"), "has a LSTM module"),
        (files("Transformer"), "has no Pooling module"),
        (files("Transformer", "Dense", "Pooling"), "has a Dense module"),
        (files("Transformer", "Pooling", pooling={"pooling_mode_max_tokens": True}), "it pools by max_tokens; only"),
        (files("Transformer", "Pooling", pooling={"pooling_mode": ["mean", "cls"]}), "it pools by"),
        (files("Transformer", "Pooling", pooling={}), "it pools by nothing"),
        (files("Transformer", "Pooling", "Normalize", "Dense"), "has a Dense module"),
        (files("Transformer", "Pooling", version="custom_st"), "names custom_st.Transformer, code of its own"),
        (
            files("T", "Pooling", pooling={"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}),
            "has a T module",
        ),
        ({"modules.json": b"{"}, "its modules.json is damaged"),
        ({"modules.json": b""}, "its modules.json is damaged"),
        ({"modules.json": [1]}, "is not a list of modules"),
        ({"modules.json": 5}, "is not a list of modules"),
        ({**files("Transformer", "Pooling"), "sentence_bert_config.json": []}, "is not a JSON object"),
    ],
)
def test_files_that_cannot_be_followed_are_errors(made: Any, match: str) -> None:
    with pytest.raises((UsageError, DataError), match=match):
        recipe(made)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 600) | st.sampled_from(["Pooling", "Transformer", "mean", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "path", "pooling_mode", "prompts", "query"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(made=st.dictionaries(st.sampled_from(list(files("Transformer"))), _json | st.binary(max_size=9), max_size=4))
def test_any_files_are_a_recipe_or_an_error(made: Any) -> None:
    with suppress(UsageError):
        assert isinstance(recipe(made), Recipe)


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "max"},
        {"normalise": "perhaps"},
        {"max_tokens": 0},
        {"max_tokens": "many"},
        {"dim": 0},
        {"dim": "half"},
        {"pool": "cls"},
    ],
)
def test_options_that_cannot_be_are_refused(options: Any) -> None:
    with pytest.raises((SettingError, UnknownName)):
        recipe({}, "e5-base", **options)


# --- from states to vectors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize(("skip", "dim"), [(0, None), (2, 2)])
def test_vectors_are_made_one_text_at_a_time(
    pooling: Any, normalise: bool, layers: int, skip: int, dim: int | None
) -> None:
    draw = np.random.default_rng(3)
    states = draw.normal(size=(4, 6, 5)).astype(np.float32)
    lengths = [6, 3, 4, 5]
    mask = np.array([[int(at < length) for at in range(6)] for length in lengths])
    first = Layer(draw.normal(size=(3, 5)).astype(np.float32), np.ones(3, np.float32), tanh=True)
    second = Layer(draw.normal(size=(4, 3)).astype(np.float32))
    pooled = np.einsum("bt,btd->bd", pooling_weights(mask, pooling, skip), states)
    found = finished(pooled, Recipe(pooling, normalise, dim=dim), [first, second][:layers])
    for row, length, vector in zip(states, lengths, found, strict=True):
        kept = row[skip:length]
        expected = {"cls": kept[0], "last": kept[-1], "mean": sum(kept) / len(kept)}[pooling]
        if layers:
            expected = np.tanh(first.weight @ expected + 1)
        if layers == 2:
            expected = second.weight @ expected
        expected = expected[:dim]
        if normalise:
            expected = expected / np.sqrt((expected**2).sum())
        assert vector == pytest.approx(expected, abs=1e-5)
    assert found.dtype == np.float32


def test_similarities_are_cosines_of_no_less_than_nothing() -> None:
    class Signs(WordEncoder):
        def queries(self, texts: Any) -> Any:
            return super().queries(texts) * np.array([[-1.0 if "not" in text else 2.0] for text in texts], np.float32)

    assert similarities(Signs(), "dark mill", ["dark", "not dark", "", "dark mill"]) == pytest.approx(
        [0.5**0.5, 0, 0, 1]
    )


# --- served -------------------------------------------------------------------------------------------------------


def test_a_served_model_gets_batches_with_its_familys_prefixes() -> None:
    passages = [Passage(f"p{at}", "Dark Mill", "river " * at) for at in range(7)]
    with served(embeddings) as (url, asked):
        encoder = ServedEncoder("intfloat/e5-base-v2", url, "key", batch_size=3)
        assert (encoder.size, encoder.name) == (32, f"dense:openai:intfloat/e5-base-v2@{url}")
        made = encoder.passages(passages)
        queries = encoder.queries(["Who? "])
    assert made.tolist() == [counted(f"passage: Dark Mill {passage.text}", 32) for passage in passages]
    assert queries.tolist() == [counted("query: Who?", 32)]
    assert sorted(len(body["input"]) for body in asked) == [1, 1, 1, 3, 3]
    assert {body["path"] for body in asked} == {"/v1/embeddings"}
    assert {body["key"] for body in asked} == {"Bearer key"}
    assert {body["model"] for body in asked} == {"intfloat/e5-base-v2"}


def test_a_served_model_gets_the_prefixes_and_dimensions_of_its_options() -> None:
    alien, untitled = Passage("1", "Alien", "A film."), Passage("2", "", "A river.")
    with served(lambda body: embeddings(body, body.get("dimensions", 32))) as (url, asked):
        spec = f"openai:e5-base@{url}?api-version=2&query=Instruct: find%0AQuery:&dim=8&query_task=retrieval.query"
        encoder = open_encoder(f"{spec}&passage=title: {{title}} | ")
        assert encoder.size == 8
        assert encoder.name.startswith(f"dense:openai:e5-base@{url}?dim=8&passage=title: {{title}} | &query=")
        encoder.queries(["Who?"])
        assert encoder.passages([alien, untitled]).shape == (2, 8)
    _, queries, passages = asked
    assert (queries["input"], queries["task"], queries["dimensions"]) == (
        ["Instruct: find\nQuery:Who?"],
        "retrieval.query",
        8,
    )
    assert passages["input"] == ["title: Alien | A film.", "title: none | A river."]
    assert "task" not in passages
    assert {body["path"] for body in asked} == {"/v1/embeddings?api-version=2"}


def test_a_server_that_sends_longer_vectors_is_reported_at_once() -> None:
    with (
        served(embeddings) as (url, asked),
        pytest.raises(LMError, match="does not shorten vectors: 32 numbers for dim=8; leave it out"),
    ):
        open_encoder(f"openai:tiny@{url}?dim=8")
    assert len(asked) == 1


async def test_it_answers_inside_a_running_loop_and_to_an_empty_text() -> None:
    with served(embeddings) as (url, asked):
        encoder = open_encoder(f"openai:plain@{url}")
        assert encoder.queries(["river"]).tolist() == [counted("river", 32)]
        assert (await asyncio.to_thread(encoder.queries, [""])).shape == (1, 32)
        assert encoder.queries([]).shape == (0, 32)
        assert asked[-1]["input"] == [" "]


def test_its_key_changes_with_what_changes_a_passages_vector() -> None:
    with served(embeddings) as (url, _):
        keys = {open_encoder(f"openai:{name}@{url}").key for name in ("plain", "e5-base", "other", "plain")}
        same = {open_encoder(f"openai:plain@{url}{options}").key for options in ("", "?query=q", "?query_task=q")}
        assert same < keys
        keys |= {open_encoder(f"openai:plain@{url}{options}").key for options in ("?passage=p", "?passage_task=p")}
    assert len(keys) == 5


def broken(rows: Any) -> Any:
    """A server whose first answer, of the size, is right, and all others ``rows``."""
    first = iter([True])
    return lambda body: embeddings(body) if next(first, False) else (200, rows)


ROW = {"index": 0, "embedding": [1.0] * 32}


@pytest.mark.parametrize(
    "rows",
    [
        {},
        [],
        {"data": []},
        {"data": [ROW, ROW]},
        {"data": [{"index": 1, "embedding": [1.0] * 32}]},
        {"data": [{"index": 0, "embedding": [1.0] * 31}]},
        {"data": [{"index": 0, "embedding": "AAAA"}]},
        {"data": [{"index": 0, "embedding": [None] * 32}]},
        {"data": [{"index": 0, "embedding": [[1.0]] * 32}]},
        {"data": [{"index": 0}]},
        {"data": "rows"},
        {"error": {"message": "no such model", "code": 404}},
    ],
)
def test_an_answer_that_is_none_is_an_error(rows: Any) -> None:
    with served(broken(rows)) as (url, _):
        encoder = ServedEncoder("tiny", url, retries=0)
        with pytest.raises(LMError, match=r"model 'tiny' at http://127.0.0.1"):
            encoder.queries(["river"])


def test_a_passing_failure_is_retried_and_a_final_one_reported() -> None:
    failures = iter([503])
    with served(lambda body: (status, {}) if (status := next(failures, 0)) else embeddings(body)) as (url, asked):
        assert ServedEncoder("tiny", url).size == 32
        assert len(asked) == 2
    with (
        served(lambda body: (401, {"error": {"message": "bad key"}})) as (url, _),
        pytest.raises(LMError, match="401 Unauthorized: bad key"),
    ):
        ServedEncoder("tiny", url)


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("openai:", "needs the name of a model"),
        ("openai:tiny", "needs a key"),
        ("openai:tiny@localhost:80/v1", "begins with http"),
        ("openai:tiny?dimension=8", "unknown option of dense:openai 'dimension'"),
        ("openai:tiny@http://localhost:1/v1?dim=few", "dim=few: must be at least 1"),
        ("", "needs an encoder, as in dense:"),
    ],
)
def test_a_spec_that_names_no_encoder_is_refused(spec: str, match: str) -> None:
    with pytest.raises(PolyhopError, match=match):
        open_encoder(spec)
