"""The extras: the table in code agrees with the package's, and a missing one names its install line."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from polyhop.common.extras import EXTRA_MODULES, is_installed, require
from polyhop.errors import MissingExtra

ROOT = Path(__file__).parents[2]
PYPROJECT = ROOT / "pyproject.toml"

MODULES = {
    "elasticsearch": "elasticsearch",
    "faiss-cpu": "faiss",
    "haystack-ai": "haystack",
    "llama-index-core": "llama_index.core",
    "opensearch-py": "opensearchpy",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry-sdk": "opentelemetry.sdk",
}
"""The module of a distribution, if it is not the distribution's own name with underscores."""

ENTRY_POINTS = {"opentelemetry.exporter.otlp.proto.http": "otlp_proto_http"}
"""The entry point that a module is loaded by, if it is not imported by its own name."""


def test_table_agrees_with_the_package() -> None:
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert set(EXTRA_MODULES) == set(declared) - {
        "all",
        "test",
        "agreement",
        "browser",
        "training",
        "mutation",
        "site",
        "dev",
    }
    assert declared["all"] == [f"polyhop[{','.join(EXTRA_MODULES)}]"]


@pytest.mark.slow
def test_every_distribution_of_an_extra_is_imported() -> None:
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    named = {module for path in (ROOT / "src").rglob("*.py") if path.name != "extras.py" for module in modules_in(path)}
    for extra, modules in EXTRA_MODULES.items():
        distributions = [re.split(r"[\[<>=~!; ]", requirement)[0] for requirement in declared[extra]]
        brought = {MODULES.get(name, name.replace("-", "_")) for name in distributions}
        assert brought <= set(modules), extra
        for module in modules:
            loaded = ENTRY_POINTS.get(module, module)
            assert any(f"{name}.".startswith(f"{loaded}.") for name in named), f"nothing imports {module} of [{extra}]"


def modules_in(path: Path) -> set[str]:
    """The modules that a source file imports, those named by a string (``require("faiss", ...)``) included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_a_missing_extra_names_its_install_line() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'polyhop\[hf\]'"):
        require("polyhop_has_no_such_module", "hf", "the hf: backend")


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("extra", EXTRA_MODULES)
def test_an_installed_extra_imports(extra: str) -> None:
    if not is_installed(extra):
        pytest.skip(f"extra not installed: {extra}")
    for module in EXTRA_MODULES[extra]:
        assert importlib.import_module(module) is require(module, extra, extra)
