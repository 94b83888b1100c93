"""The page of licences is in step with pyproject.toml and with what is installed."""

from __future__ import annotations

import os

from tests.kit import licences


def test_every_dependency_stands_there_with_its_licence() -> None:
    text = licences.PAGE.read_text() if licences.PAGE.exists() else ""
    if os.environ.get("POLYHOP_GOLDEN") == "write":
        licences.PAGE.write_text(text := licences.page(licences.read(text)))
    stated = licences.read(text)
    ours = text.partition("## What these bring")[0]
    assert set(licences.read(ours)) == set(licences.named())
    for name, groups in licences.named().items():
        assert f"| {', '.join(groups)} |" in next(line for line in ours.splitlines() if line.startswith(f"| `{name}` "))
    core = {name for name, groups in licences.named().items() if "core" in groups}
    assert licences.brought(core) <= stated.keys()


def test_no_licence_keeps_the_core_from_being_given_on() -> None:
    """No package of the core is under a licence that would reach over to what uses it."""
    stated = licences.read(licences.PAGE.read_text())
    core = {name for name, groups in licences.named().items() if "core" in groups}
    for name in core | licences.brought(core):
        assert "GPL" not in stated[name], (name, stated[name])
        assert stated[name] != "not stated", name
