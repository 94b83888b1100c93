"""The site of the documentation, built, served and checked in a browser.

python -m tests.kit.site           # checks every page, wide and light, narrow and dark: some minutes
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kit import loopback
from tests.kit.browser import AXE, Tabs, axe, launched, settle

ROOT = Path(__file__).parents[2]
VIEWS = (("light", 1440), ("dark", 390))
"""Colour scheme and width in pixels."""


class _Quiet(loopback.Handler, SimpleHTTPRequestHandler):
    """Serves files."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Build the site into a folder and serve it; yield its address, with a slash at the end."""
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(
        build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    with loopback.answering(functools.partial(_Quiet, directory=folder)) as address:
        yield f"{address}/"


def faults(tabs: Tabs, address: str, pages: Sequence[str], scheme: str, width: int) -> Iterator[str]:
    """Yield the faults of pages: requests to other servers, content wider than the window, axe's violations."""
    tab = tabs.new(color_scheme=scheme, reduced_motion="reduce", viewport={"width": width, "height": 900})
    requested: list[str] = []
    tab.on("request", lambda request: requested.append(request.url))
    for page in pages:
        requested.clear()
        tab.goto(address + page)
        settle(tab)
        yield from (f"{page} loads {url}" for url in requested if not url.startswith((address, "data:")))
        if (found := tab.evaluate("document.documentElement.scrollWidth")) > width:
            yield f"{page} is {found} pixels wide in a window of {width}"
        if AXE.is_dir():
            yield from (f"{page}, {scheme}: {fault}" for fault in axe(tab))
    tabs.close()


def main() -> None:
    """Print the faults of every page; exit code 1 if there are any."""
    with TemporaryDirectory() as folder, served(Path(folder)) as address, launched() as browser:
        pages = sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.html"))
        found = [fault for view in VIEWS for fault in faults(Tabs(browser), address, pages, *view)]
    sys.stdout.write("".join(f"{fault}\n" for fault in found) + f"{len(pages)} pages, {len(found)} faults\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
