"""A browser and a server of the demo for each file; the tabs of a test, and what their pages complained of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polyhop.serve.service import Service
from tests.kit.browser import Tabs, launched, serving
from tests.kit.hostile_runs import plain_run
from tests.kit.served_page import READY, Open


@pytest.fixture(scope="module")
def tabs() -> Iterator[Tabs]:
    with launched() as browser:
        yield Tabs(browser)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    plain_run(folder / "one", wrong={2, 5})
    plain_run(folder / "two", wrong={5, 6}, method="cot")
    return folder


@pytest.fixture(scope="module")
def demo(runs: Path) -> Iterator[str]:
    with serving(Service({"demo": "demo"}, runs=runs)) as address:
        yield address


@pytest.fixture
def complaints() -> list[str]:
    """Everything that a page logged, raised or requested from other hosts."""
    return []


@pytest.fixture
def opened(tabs: Tabs, complaints: list[str]) -> Iterator[Open]:
    def open_(address: str, place: str = "", **options: Any) -> Any:
        tab = tabs.new(**{"reduced_motion": "reduce", "color_scheme": "light", **options})
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda asked: complaints.append(asked.url) if foreign(asked.url, address) else None)
        tab.goto(f"{address}{place}")
        tab.wait_for_selector(READY)
        return tab

    yield open_
    tabs.close()


def foreign(url: str, address: str) -> bool:
    return not url.startswith((address, "data:image/svg+xml", "about:"))
