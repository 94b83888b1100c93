"""The extras: the table in code agrees with the package's, and a missing one names its install line."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from polyhop.common.extras import EXTRAS, installed, load
from polyhop.errors import MissingExtra

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_table_agrees_with_the_package() -> None:
    declared = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(declared) - {"all", "test", "agreement", "browser", "training", "site", "dev"}
    assert declared["all"] == [f"polyhop[{','.join(EXTRAS)}]"]


def test_a_missing_extra_names_its_install_line() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'polyhop\[hf\]'"):
        load("polyhop_has_no_such_module", "hf", "the hf: backend")


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_installed_extra_imports(extra: str) -> None:
    if not installed(extra):
        pytest.skip(f"extra not installed: {extra}")
    for module in EXTRAS[extra]:
        assert importlib.import_module(module) is load(module, extra, extra)
