"""Pages of the documentation as tests: their blocks of commands and code, and the output that they promise."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import polyhop

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

ELSEWHERE = re.compile(r"openai:|hf:|@http|://localhost|pip install|_API_KEY|make |polyhop mcp|curl -X|psql ")
"""A command that needs a key, a server or a download: it is checked by the parser but not run."""
SERVES = re.compile(r"^polyhop serve\b", re.M)
_SERVING = re.compile(r'"event":"serving","url":"([^"]+)"')
SERVED = "http://127.0.0.1:8000"
"""The address of the server on the pages."""
_FENCE = re.compile(r"^```([\w+-]*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the ``text`` block that directly follows it, if any."""

    language: str
    text: str
    printed: str | None
    line: int

    @property
    def runs_here(self) -> bool:
        return not ELSEWHERE.search(self.text)


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the fenced blocks of a page in these languages, in order."""
    text = page.read_text("utf-8")
    found = list(_FENCE.finditer(text))
    made = []
    for here, behind in zip(found, [*found[1:], None], strict=False):
        at_once = behind is not None and behind[1] in {"", "text"} and not text[here.end() : behind.start()].strip()
        printed = behind[2] if behind and at_once else None
        made.append(Block(here[1], here[2], printed, text.count("\n", 0, here.start()) + 1))
    return [block for block in made if block.language in languages]


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a shell block, without comments and here-documents."""
    ends = ""
    for line in text.replace("\\\n", " ").splitlines():
        if ends:
            ends = "" if line == ends else ends
        elif line.strip() and not line.startswith(("#", "  ")):
            ends = here[1] if (here := re.search(r"<<'(\w+)'", line)) else ""
            yield line


def agrees(printed: str, promised: str) -> bool:
    """Return True if the output of a program agrees with the page; ``…`` matches anything.

    >>> agrees("Answer: Utrecht (0.93)\\n", "Answer: Utrecht …\\n")
    True
    >>> agrees("Answer: Delft\\n", "Answer: Utrecht …\\n")
    False
    """
    pattern = ".*".join(re.escape(part.strip()) for part in promised.split("…"))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


class Reader:
    """A reader who copies a page's commands, one block after another, in an initially empty folder.

    A server that a page starts takes a free port by itself; a port looked for beforehand could be taken by then.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "empty"
        self.folder.mkdir()
        self.url: str | None = None
        self.ran = 0
        self._serving: subprocess.Popen[str] | None = None
        self._log = folder / "served.log"
        programs = folder / "programs"
        programs.mkdir()
        for name, what in {"polyhop": f"{sys.executable} -m polyhop", "python": sys.executable}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {what} "$@"\n')
            (programs / name).chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(Path(polyhop.__file__).parents[1]),
            "POLYHOP_CACHE": str(folder / "cache"),
            "POLYHOP_SERVE_PORT": "0",
            "COLUMNS": "120",
            "PYTHONUTF8": "1",
        }

    def follow(self, page: Path, serves: bool) -> None:
        """Run every block of a page that can be run here; servers and their clients only if possible."""
        for block in blocks(page, "sh"):
            if not block.runs_here:
                continue
            if SERVES.search(block.text):
                if not serves:
                    return
                self.serve(block.text)
                continue
            printed = self.run(block.text.replace(SERVED, self.url) if self.url else block.text)
            location = f"{page.name}:{block.line}"
            assert block.printed is None or agrees(printed, block.printed), f"{location} printed\n{printed}"

    def run(self, text: str) -> str:
        """Return the output of commands, which must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        self.ran += 1
        return done.stdout

    def serve(self, text: str) -> None:
        """Start a server, and wait until it accepts questions."""
        with self._log.open("w") as log:
            self._serving = subprocess.Popen(
                ["bash", "-c", f"exec {text}"],
                cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=log, text=True,
            )  # fmt: skip
        self.ran += 1
        until = time.monotonic() + 120
        while time.monotonic() < until and self._serving.poll() is None:
            if started := _SERVING.search(self._log.read_text("utf-8")):
                self.url = started[1]
                with suppress(OSError), urlopen(f"{self.url}/ready", timeout=5):
                    return
            time.sleep(0.1)
        raise AssertionError(f"{text} does not answer:\n{self._log.read_text('utf-8')}")

    def close(self) -> None:
        """Stop the server that the page started, as Ctrl-C does."""
        if self._serving is not None:
            self._serving.send_signal(signal.SIGINT)
            self._serving.wait(timeout=60)
