"""The pages on the server, chat clients and telemetry are run: against a server, with their libraries."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import polyhop
from polyhop.common.extras import is_installed
from tests.kit.doc_pages import DOCS, SERVED, Block, Reader, blocks

CORPUS = [
    {"id": "1", "title": "Alien (film)", "text": "Alien is a 1979 film directed by Ridley Scott."},
    {"id": "2", "title": "Ridley Scott", "text": "Ridley Scott is an English director born in South Shields."},
]

pytestmark = pytest.mark.extra


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    made = tmp_path / "corpus.jsonl"
    made.write_text("".join(json.dumps(passage) + "\n" for passage in CORPUS))
    return made


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    made.close()


def the_block(page: str, language: str, number: int = 0) -> Block:
    return blocks(DOCS / page, language)[number]


def test_the_chat_client_and_curl_get_an_answer(
    corpus: Path, reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai")
    if not is_installed("serve"):
        pytest.skip("needs polyhop[serve]")
    reader.serve(f"polyhop serve --corpus docs={corpus}")
    assert reader.url
    code = the_block("chat.md", "python").text.replace(SERVED, reader.url)
    exec(compile(code, "chat.md", "exec"), {})  # noqa: S102 - our own documentation
    printed = capsys.readouterr().out
    assert "South Shields" in printed
    assert "passage_id" in printed
    asked = the_block("serve.md", "sh", 1).text.replace(SERVED, reader.url)
    assert json.loads(reader.run(asked))["answer"] == "South Shields"


def test_curl_uploads_documents_and_asks_them(corpus: Path, reader: Reader) -> None:
    if not is_installed("serve"):
        pytest.skip("needs polyhop[serve]")
    (reader.folder / "miffy.md").write_text("# Miffy\n\nMiffy was created by Dick Bruna in 1955.\n")
    (reader.folder / "bruna.txt").write_text("Dick Bruna\n\nDick Bruna was a Dutch artist born in Utrecht in 1927.\n")
    reader.serve(f"polyhop serve --corpus docs={corpus}")
    assert reader.url
    corpus_row, answer = reader.run(the_block("serve.md", "sh", 2).text.replace(SERVED, reader.url)).split("}{", 1)
    assert json.loads(corpus_row + "}")["files"] == 2
    assert json.loads("{" + answer)["answer"] == "Utrecht"


def test_the_server_is_made_in_python(corpus: Path, tmp_path: Path) -> None:
    if not is_installed("serve"):
        pytest.skip("needs polyhop[serve]")
    code = the_block("serve.md", "python").text
    given = {"my-documents/": str(corpus), "openai:gpt-4o-mini": "pocket", "Who …?": "Where was Ridley Scott born?"}
    for shown, used in given.items():
        assert shown in code
        code = code.replace(shown, used)
    names: dict[str, Any] = {}
    asyncio.run(eval(compile(code, "serve.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names))  # noqa: S307 - our own
    assert names["answered"].answer.text == "South Shields"
    asyncio.run(names["service"].aclose())


def test_a_pipeline_is_traced(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_installed("otel"):
        pytest.skip("needs polyhop[otel]")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"polyhop": polyhop}
    exec(compile(the_block("telemetry.md", "python").text, "telemetry.md", "exec"), names)  # noqa: S102 - our own
    with names["pipeline"] as pipeline:
        assert pipeline.ask("Where was the director of Alien born?").text == "South Shields"
