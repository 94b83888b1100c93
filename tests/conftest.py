"""What all tests share: a cache folder of their own, and the rule that a test which should run must not be skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"
"""Samples of the benchmarks, where a checkout has them beside it."""

_skipped: list[str] = []
_kinds: dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--must-run",
        default="",
        help="Kinds of tests that may not be skipped, comma-separated: core, shared, extra, browser.",
    )


@pytest.fixture(autouse=True)
def _own_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path / "cache"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        _kinds[item.nodeid] = next((kind for kind in ("shared", "extra", "browser") if kind in marks), "core")
        if "shared" in marks and not SHARED.is_dir():
            item.add_marker(pytest.mark.skip(reason="the benchmark samples are not there: ../shared/data"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    must_run = set(session.config.getoption("--must-run").split(","))
    if wrong := [name for name in _skipped if _kinds.get(name) in must_run]:
        print("\nskipped, but must run:", *wrong, sep="\n  ")  # noqa: T201
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
