"""Where the cache folder is."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyhop.common.files import cache_folder, user_cache


def test_the_users_own_choice_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("POLYHOP_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "polyhop"


def test_home_is_spelt_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("POLYHOP_CACHE", "~/kept")
    assert cache_folder() == tmp_path / "kept"


@pytest.mark.parametrize(
    ("platform", "environment", "folder"),
    [
        ("linux", {}, "home/.cache"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache"),
        ("darwin", {}, "home/Library/Caches"),
        ("win32", {}, "home/AppData/Local"),
        ("win32", {"LOCALAPPDATA": "local"}, "local"),
    ],
)
def test_each_platform_has_its_custom(platform: str, environment: dict[str, str], folder: str) -> None:
    assert user_cache(platform, environment, Path("home")) == Path(folder)
