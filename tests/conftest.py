"""Shared by all tests: a cache folder each, and the rule that a test which should run must not be skipped."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from hypothesis import settings

from polyhop import redaction
from tests.kit import tally

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("quick", settings.get_profile("steady"), max_examples=30)
settings.register_profile("exploring", print_blob=True, deadline=None)

SHARED = Path(__file__).parents[2] / "shared" / "data"
"""Samples of the benchmarks, if they lie beside the checkout."""

KINDS = ("shared", "postgres", "extra", "browser")
"""Marks of tests that need more than the core; any other test is of the kind ``core``."""

LONGEST = (
    "tests/serve/page/test_drawings_browser.py",
    "tests/serve/page/test_attacks_browser.py",
    "tests/docs/test_followed.py",
    "tests/docs/test_examples.py",
    "tests/evaluation/test_ray.py",
    "tests/lm/pocket/test_shared.py",
    "tests/serve/page/test_asking_browser.py",
    "tests/serve/page/test_upload_browser.py",
    "tests/serve/page/test_looks_browser.py",
    "tests/lm/pocket/tasks/test_robust.py",
    "tests/serve/test_uploads.py",
    "tests/faults/test_vicious.py",
    "tests/evaluation/pages/test_browser.py",
    "tests/evaluation/test_resume.py",
    "tests/methods/test_hops_pocket.py",
    "tests/faults/test_http.py",
    "tests/faults/test_vicious_wires.py",
    "tests/docs/test_extending.py",
    "tests/evaluation/test_methods.py",
    "tests/prompts/test_replies.py",
    "tests/prompts/test_transcripts_formats.py",
    "tests/evaluation/test_store.py",
    "tests/docs/test_site_browser.py",
    "tests/evaluation/reproduction/test_reproduce.py",
    "tests/evaluation/sweeps/test_sweep.py",
    "tests/faults/test_methods.py",
    "tests/retrieval/test_killed.py",
    "tests/evaluation/test_runs_stateful.py",
    "tests/retrieval/test_index_stateful.py",
    "tests/lm/test_cache_stateful.py",
    "tests/lm/hf/test_hf.py",
    "tests/methods/test_any_reply.py",
    "tests/methods/test_fidelity.py",
    "tests/methods/test_ge_fidelity.py",
    "tests/methods/test_resp_fidelity.py",
)
"""The longest files of ``make test-all``. They begin first, in this order, so that no core waits for one of
them at the end."""

_skipped: list[tuple[str, str]] = []
_tally: Counter[str] = Counter()
_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--must-run",
        default="",
        help="Kinds of tests that may not be skipped, comma-separated: core, shared, postgres, extra, browser.",
    )
    parser.addoption(
        "--rest",
        action="store_true",
        help="Leave out the tests that 'make test' runs: those that are neither slow nor of an extra.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The same examples in every run, fewer of them without the slow tests; others by POLYHOP_HYPOTHESIS=exploring."""
    usual = "quick" if config.getoption("markexpr") == "not slow" else "steady"
    settings.load_profile(os.environ.get("POLYHOP_HYPOTHESIS", usual))


@pytest.fixture(autouse=True, scope="session")
def _command_line_built_once() -> Iterator[None]:
    """Typer builds the whole command at each call, which takes longer than most calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waits_for_the_disk() -> Iterator[None]:
    """An index waits for the disk at each of its files; no test ends with the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _own_cache_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache folder for each test, which only a test that writes into it makes: most tests need no folder."""
    folder = tmp_path_factory.getbasetemp() / f"test-{next(_numbers)}"
    if "tmp_path" in request.fixturenames:
        folder = request.getfixturevalue("tmp_path")
    monkeypatch.setenv("POLYHOP_CACHE", str(folder / "cache"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets registered by one test are not redacted in the others."""
    monkeypatch.setattr(redaction, "_known", ())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--rest"):
        config.hook.pytest_deselected(items=[item for item in items if not _is_of_the_rest(item)])
        items[:] = filter(_is_of_the_rest, items)
    turns = {name: turn for turn, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turns.get(item.nodeid.partition("::")[0], len(turns)))
    for item in items:
        if item.get_closest_marker("shared") and not SHARED.is_dir():
            item.add_marker(pytest.mark.skip(reason="the benchmark samples are not there: ../shared/data"))


def _is_of_the_rest(item: pytest.Item) -> bool:
    """True if ``make test`` leaves the test out."""
    return any(item.get_closest_marker(name) for name in ("slow", "extra", "postgres", "browser"))


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Send what the test counted with its report: tests may run in other processes."""
    if counts := tally.taken():
        item.user_properties.append(("tally", counts))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _tally:
        counted = ", ".join(f"{times:,} {what}" for what, times in sorted(_tally.items()))
        terminalreporter.write_line(f"counted: {counted}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        for name, counts in report.user_properties:
            if name == "tally" and isinstance(counts, dict):
                _tally.update(counts)
    if report.skipped:  # known by the report itself, since tests may run in other processes
        _skipped.append((report.nodeid, next((kind for kind in KINDS if kind in report.keywords), "core")))


def pytest_sessionfinish(session: pytest.Session) -> None:
    must_run = set(session.config.getoption("--must-run").split(","))
    if wrong := [name for name, kind in _skipped if kind in must_run]:
        print("\nskipped, but must run:", *wrong, sep="\n  ")  # noqa: T201
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
