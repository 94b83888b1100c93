"""The bundler: modules in order, each once, and nothing that it does not understand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from polyhop.errors import UsageError
from polyhop.evaluation.pages.bundle import bundle
from polyhop.evaluation.pages.page import VIEW

MODULES = {
    "top": 'import { b } from "./middle.js";\nimport { a } from "./low.js";\nexport const c = a + b;',
    "middle": 'import { a } from "./low.js";\nexport function b() {}',
    "low": "const hidden = 1;\nexport class a {}\nexport async function d() {}",
}


def folder(path: Path, modules: Mapping[str, str]) -> Path:
    for name, text in modules.items():
        (path / f"{name}.js").write_text(text)
    return path


def test_a_module_comes_once_after_those_it_imports(tmp_path: Path) -> None:
    script = bundle('import { c } from "./top.js";\nc();', folder(tmp_path, MODULES))
    assert [line.split()[1] for line in script.splitlines() if line.startswith("const $")] == [
        "$low",
        "$middle",
        "$top",
    ]
    assert "return { a, d };" in script
    assert script.endswith("const { c } = $top;\nc();\n")


@pytest.mark.parametrize(
    "script",
    [
        'import x from "./low.js";',
        'import { a } from "https://example.org/a.js";',
        'import { a } from "../low.js";',
        "export default 1;",
        "export { a };",
        'import { round } from "./round.js";',
    ],
)
def test_what_cannot_be_bundled_is_refused(tmp_path: Path, script: str) -> None:
    round_trip = {"round": 'import { trip } from "./trip.js";', "trip": 'import { round } from "./round.js";'}
    with pytest.raises(UsageError):
        bundle(script, folder(tmp_path, MODULES | round_trip))


@pytest.mark.parametrize("word", ["fetch(", "XMLHttpRequest", "import(", "</", "innerHTML"])
def test_no_module_of_the_viewer_asks_the_network_or_writes_markup(word: str) -> None:
    files = [file for file in VIEW.iterdir() if file.is_file()]
    assert [file.name for file in files if word in file.read_text("utf-8")] == []
