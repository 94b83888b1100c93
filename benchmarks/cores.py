"""Separate cores for a server and its client, kept awake, so that neither affects the other's CPU time.

On a small machine two effects inflate the CPU time of a process. A server that wakes on the client's core evicts the
client's data from the caches; and a core that slept while it waited for a reply starts slowly, especially on a virtual
machine. So the server gets one core and the client the others, and each core runs a process of the idle class, which
yields to any other at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_FOR_EVER = "import os\nwhile os.getppid() == {parent}:\n    for _ in range(1000000):\n        pass"


@contextmanager
def apart(server: int) -> Iterator[None]:
    """Pin the server (a process id) to one core and this process to the others, and keep all awake. With a single core,
    or if processes cannot be pinned (as on macOS), do nothing."""
    ours: set[int] = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    if len(ours) < 2:
        yield
        return
    its = {max(ours)}
    with ExitStack() as stack:
        for core in ours:
            stack.enter_context(awake(core))
        os.sched_setaffinity(server, its)
        os.sched_setaffinity(0, ours - its)
        stack.callback(os.sched_setaffinity, 0, ours)
        yield


@contextmanager
def awake(core: int) -> Iterator[int]:
    """Keep a core from sleeping, at no cost to other processes, by a process whose id is returned; it ends with this
    process, even if that is killed."""
    with subprocess.Popen([sys.executable, "-c", _FOR_EVER.format(parent=os.getpid())]) as idler:
        os.sched_setscheduler(idler.pid, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(idler.pid, {core})
        try:
            yield idler.pid
        finally:
            idler.kill()
