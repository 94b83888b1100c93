"""A PostgreSQL with pgvector for tests, real and over TCP: PGlite, which npm installs (``make pglite``)."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

ROOT = Path(os.environ.get("POLYHOP_PGLITE") or Path(__file__).parents[2] / ".cache" / "pglite")
SERVER = ROOT / "node_modules" / "@electric-sql" / "pglite-socket" / "dist" / "scripts" / "server.js"

SECONDS = 120
"""Maximum seconds to start: a few are usual, more on a busy machine."""


def lacking() -> str | None:
    """Return the reason why it cannot be started, or None."""
    if which("node") is None:
        return "node is not installed"
    return None if SERVER.is_file() else f"PGlite is not installed at {ROOT}: make pglite"


@contextmanager
def serving() -> Iterator[int]:
    """Start a separate server with an empty database in memory; yield its port. It accepts any user and password."""
    command = ["node", str(SERVER), "--port=0", "--max-connections=20", "-e", "@electric-sql/pglite-pgvector:vector"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    late = threading.Timer(SECONDS, process.kill)
    late.start()
    output: list[str] = []
    try:
        for line in process.stdout:
            output.append(line)
            if found := re.search(r'listening on .*"port":(\d+)', line):
                break
        else:
            raise RuntimeError(f"PGlite did not start: {''.join(output)}")
        late.cancel()
        rest = threading.Thread(target=process.stdout.read, daemon=True)  # a full pipe would stop it
        rest.start()
        yield int(found[1])
    finally:
        late.cancel()
        process.terminate()
        process.wait()
        process.stdout.close()
