"""A Chromium of the system's, driven by Playwright, and a polyhop server that it may ask."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from polyhop import ScriptedLM
from polyhop.common.aio import LoopThread
from polyhop.lm.base import Completion, Request
from polyhop.serve.http.app import Options
from polyhop.serve.service import Service
from tests.kit.serving import served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PATIENCE = 120_000
"""Milliseconds that a page may take on a machine that is busy."""

AXE = Path(os.environ.get("POLYHOP_AXE") or Path(__file__).parents[2] / ".cache" / "axe") / "node_modules/axe-core"


@contextmanager
def launched() -> Iterator[Any]:
    """A browser without windows."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs: pip install playwright")
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE)
        yield browser
        browser.close()


@contextmanager
def serving(service: Service, options: Options | None = None) -> Iterator[str]:
    """The address of a server on a thread of its own, with a slash at its end."""
    thread = LoopThread()
    server = served(service, *([options] if options else []))
    try:
        yield thread.run(server.__aenter__()) + "/"
    finally:
        thread.run(server.__aexit__(None, None, None))
        thread.stop()


class GatedLM(ScriptedLM):
    """Answers the first ``free`` calls at once; the others wait until ``gate`` is set."""

    def __init__(self, script: Any, free: int = 0) -> None:
        super().__init__(script)
        self.gate = threading.Event()
        self.cancelled = threading.Event()
        self._free = free

    async def complete(self, request: Request) -> Completion:
        """The scripted reply, in its time."""
        self._free -= 1
        try:
            while self._free < 0 and not self.gate.is_set():  # noqa: ASYNC110 - it is set on another thread
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await super().complete(request)


def axe(tab: Any) -> list[str]:
    """What axe-core finds of serious or critical faults in the page as it is now."""
    tab.evaluate((AXE / "axe.min.js").read_text("utf-8"))
    found = tab.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]
