"""Files are opened only if they are regular files of their folder; the cache folder follows the platform."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from polyhop.common.files import cache_folder, check_inside, file_inside, locked, open_inside, read_inside, user_cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    return folder


def test_a_regular_file_is_read(folder: Path) -> None:
    assert read_inside(folder, "deep/file") == read_inside(folder, Path("deep", "file")) == b"inside"
    assert file_inside(folder, "deep/file") == folder / "deep" / "file"
    check_inside(folder)


def test_a_folder_may_itself_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert read_inside(tmp_path / "link", "deep/file") == b"inside"
    check_inside(tmp_path / "link")


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder / "link").symlink_to("deep/file")
    assert read_inside(folder, "link") == b"inside"
    check_inside(folder)


@pytest.mark.parametrize("name", ["../secret", "{outside}", "deep/../../secret", "..", "a\0b"])
def test_no_name_leads_out(folder: Path, name: str) -> None:
    with pytest.raises(PermissionError, match=r"leads out of the folder|not a file name"):
        open_inside(folder, name.format(outside=folder.parent / "secret"))


@pytest.mark.parametrize("target", ["../secret", "/etc", "../nothing"])
def test_a_link_that_leads_out_is_refused(folder: Path, target: str) -> None:
    (folder / "link").symlink_to(target)
    for work in (lambda: read_inside(folder, "link"), lambda: check_inside(folder)):
        with pytest.raises(PermissionError, match="leads out of the folder"):
            work()


def test_a_part_that_is_a_link_out_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (folder / "part").symlink_to(tmp_path / "other")
    with pytest.raises(PermissionError, match="leads out of the folder"):
        check_inside(folder, "part")


def test_a_pipe_and_a_socket_are_refused_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(OSError, match="not a regular file"):
            read_inside(folder, "pipe")
        with pytest.raises(OSError, match=r"not a regular file|No such device"):
            read_inside(folder, "socket")
        with pytest.raises(OSError, match="not a regular file"):
            check_inside(folder)


def test_a_loop_of_links_and_a_name_too_long_are_errors(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    for name in ("loop", "x" * 5000, "missing", "deep"):
        with pytest.raises(OSError, match=r"."):
            read_inside(folder, name)


def test_a_lock_follows_no_link_and_waits_for_no_pipe(folder: Path, tmp_path: Path) -> None:
    (folder / "link.lock").symlink_to(tmp_path / "new")
    with locked(folder / "link.lock") as held:
        assert not held
    assert not (tmp_path / "new").exists()
    os.mkfifo(folder / "pipe.lock")
    with locked(folder / "pipe.lock", shared=True):
        pass


def test_the_environment_sets_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("POLYHOP_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "polyhop"


def test_the_home_folder_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
def test_each_platform_has_its_own_cache_folder(platform: str, environment: dict[str, str], folder: str) -> None:
    assert user_cache(platform, environment, Path("home")) == Path(folder)
