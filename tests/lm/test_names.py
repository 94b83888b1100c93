"""Opening models by name, and importing no more than is used."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.lm import LanguageModel, OpenAICompatible, ScriptedLM, lm_names, names, open_lm, register_lm


def test_the_names_polyhop_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    script = tmp_path / "s.jsonl"
    script.write_text('{"task": "t", "reply": "x"}')
    assert open_lm("pocket").name == "pocket"
    assert open_lm("openai:gpt-4o-mini").name == "openai:gpt-4o-mini"
    assert open_lm("openai:org/m@http://box:8000/v1").name == "openai:org/m@http://box:8000/v1"
    assert open_lm("openai:m@2024@https://box/v1").name == "openai:m@2024@https://box/v1"
    assert open_lm("openai:@cf/meta/llama").name == "openai:@cf/meta/llama"
    assert open_lm(f"scripted:{script}").name == f"scripted:{script}"
    assert {"openai", "pocket", "scripted"} <= set(lm_names())


def test_options_reach_the_model() -> None:
    lm = open_lm("openai:m", url="http://box/v1", chat=False)
    assert isinstance(lm, OpenAICompatible)
    assert (lm.chat, lm.capabilities.score) == (False, True)


def test_an_object_passes_through() -> None:
    lm = ScriptedLM({})
    assert open_lm(lm) is lm
    with pytest.raises(SettingError, match="latency"):
        open_lm(lm, latency=1)
    with pytest.raises(UsageError, match="is no language model"):
        open_lm(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "options", "error", "words"),
    [
        ("opnai:m", {}, UnknownName, "did you mean 'openai'"),
        ("gpt-4o", {}, UnknownName, "openai:MODEL@URL"),
        ("vllm:some/model", {}, UnknownName, "Valid: "),
        ("openai:", {}, SettingError, "name of a model"),
        ("openai:m@localhost:8000/v1", {}, SettingError, "@http://localhost:8000/v1"),
        ("openai:m@http://a/v1", {"url": "http://b/v1"}, SettingError, "give one of them"),
        ("openai:m@http://a/v1", {"retry": 3}, UnknownName, "did you mean 'retries'"),
        ("pocket:large", {}, SettingError, "just 'pocket'"),
        ("pocket", {"chat": True}, UnknownName, "option of pocket"),
        ("scripted:", {}, SettingError, "scripted:replies.jsonl"),
    ],
)
def test_a_name_that_cannot_be_opened_says_what_can(
    spec: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        open_lm(spec, **options)


def test_a_model_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_openers", dict(names._openers))

    @register_lm("mine")
    def mine(rest: str, *, size: int = 1) -> LanguageModel:
        return ScriptedLM({}, name=f"mine:{rest}:{size}")

    assert open_lm("mine:x", size=2).name == "mine:x:2"
    with pytest.raises(UnknownName, match="'size'"):
        open_lm("mine:x", sise=2)
    with pytest.raises(UsageError, match="no name for a language model"):
        register_lm("my model")


def from_elsewhere(rest: str) -> LanguageModel:
    return ScriptedLM({}, name=f"elsewhere:{rest}")


def test_other_packages_models_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints([EntryPoint("elsewhere", f"{__name__}:from_elsewhere", names.GROUP)])
    monkeypatch.setattr(names, "_entry_points", lambda: points)
    assert open_lm("elsewhere:x").name == "elsewhere:x"
    assert "elsewhere" in lm_names()


def test_importing_the_room_brings_no_client() -> None:
    code = (
        "import sys, polyhop.lm, polyhop.lm.names, polyhop.lm.scripted\n"
        "print(sorted({'aiohttp', 'sqlite3', 'numpy', 'importlib.metadata'} & set(sys.modules)))\n"
        "print(polyhop.lm.OpenAICompatible.__name__, 'aiohttp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "OpenAICompatible True"]


@pytest.mark.parametrize("query", ["dtype", "=x", "dtype=", "a=1&&b=2"])
def test_options_after_a_question_mark_are_pairs(query: str) -> None:
    with pytest.raises(SettingError, match=r"hf:.*no options.*dtype=bfloat16"):
        open_lm(f"hf:some/where?{query}")


def test_an_unknown_option_after_a_question_mark_is_named() -> None:
    with pytest.raises(UnknownName, match=r"dtypes.*dtype"):
        open_lm("hf:some/where?dtypes=bfloat16")
