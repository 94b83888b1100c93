"""The snippets of docs/adapters.md print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import tests.kit.adapters  # noqa: F401 - no report is sent

pytestmark = pytest.mark.extra

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
BEGINNING, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)
SECTIONS = {"LangChain": "langchain_core", "LlamaIndex": "llama_index.core", "Haystack": "haystack"}


@pytest.mark.parametrize("title", SECTIONS)
def test_snippets_print_what_the_page_says(title: str) -> None:
    pytest.importorskip(SECTIONS[title])
    section = re.search(rf"^## {title}\n(.*?)(?=^## )", PAGE, re.S | re.M)
    assert section is not None
    snippets = re.findall(r"^```python\n(.*?)^```\n\n^```\n(.*?)^```$", section[1], re.S | re.M)
    assert len(snippets) == section[1].count("```python") == 2
    names: dict[str, Any] = {}
    exec(BEGINNING, names)  # noqa: S102 - our own documentation
    for code, shown in snippets:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)  # noqa: S102
        assert printed.getvalue() == shown
