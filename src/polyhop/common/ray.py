"""A connection to a Ray cluster, which is left as it was.

Source: Moritz, Nishihara, Wang, Tumanov, Liaw, Liang, Elibol, Yang, Paul, Jordan and Stoica, "Ray: A Distributed
Framework for Emerging AI Applications", 2018. Of it we use actors: processes anywhere in the cluster, each with its own
state, whose methods are called from here.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polyhop.common.extras import require
from polyhop.common.text import counted
from polyhop.errors import ServiceError, UsageError

CPUS = 0.5
"""CPUs of each worker, as Ray counts them: two workers share a core, because they mostly wait."""

_CONNECT_SECONDS = 5.0
"""Timeout for a connection to a cluster's address; Ray itself would try for minutes."""

_OURS = ("OPENAI_", "RETRIEVER_", "ELASTIC_", "OPENSEARCH_", "QDRANT_", "SERPER_", "TAVILY_", "BRAVE_", "OTEL_")


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Yield the module ``ray``, connected to the cluster at ``address`` (``HOST:PORT`` or ``auto``) within the block.

    Without an address it is the cluster of ``$RAY_ADDRESS``, else the one of which this machine is part, else a new
    cluster of this machine alone, which ends with the block. A program that is already connected stays connected.

    Raises:
        MissingExtra: Ray is not installed.
        ServiceError: there is no cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = require("ray", "ray", "--engine ray")
    if ray.is_initialized():
        yield ray
        return
    if address is not None:
        _check_reachable(address)
    before, terminated = signal.getsignal(signal.SIGTERM), False

    def leave(*_: object) -> None:
        nonlocal terminated
        terminated = True
        sys.exit()

    try:
        try:
            with warnings.catch_warnings(action="ignore", category=FutureWarning):
                ray.init(address=address, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, RuntimeError, ValueError, SystemExit) as error:  # Ray exits if a cluster is silent
            if isinstance(error, SystemExit) and error.code == signal.SIGTERM:
                leave()
            raise ServiceError(f"no Ray cluster could be joined{at(address)}: {error}. {_HOW}") from None
        _at_sigterm(leave if before == signal.SIG_DFL else before)  # Ray's own handler would print a stack and abort
        yield ray
    finally:
        ray.shutdown()
        _at_sigterm(before)
        if terminated:
            signal.raise_signal(signal.SIGTERM)  # the program ends as it would have without the cluster


_HOW = "'ray start --head' starts one; without --address, this machine alone is the cluster"


def at(address: str | None) -> str:
    """Return an address for a message."""
    return f" at {address}" if address else ""


def max_workers(ray: Any) -> int:
    """Return the number of workers that the cluster has room for if nothing else runs on it."""
    return int(ray.cluster_resources().get("CPU", 0) / CPUS)


def worker_count(ray: Any, workers: int | None) -> int:
    """Return the number of workers, by default one per core. Raises ``UsageError`` if the cluster has less room."""
    limit = max_workers(ray)
    if workers is None:
        return max(1, round(limit * CPUS))
    if workers > limit:
        raise UsageError(f"{counted(workers, 'workers')}: the cluster has room for {limit}, {1 / CPUS:.0f} per core")
    return workers


def split_evenly(total: int, parts: int) -> list[int]:
    """Split ``total`` into parts that differ by at most one.

    >>> split_evenly(16, 3)
    [6, 5, 5]
    """
    return [total // parts + (part < total % parts) for part in range(parts)]


def environment() -> dict[str, str]:
    """Return the variables that models, retrievers and telemetry read, such as keys, for workers on other machines."""
    return {name: value for name, value in os.environ.items() if name.startswith(_OURS)}


def prepare_worker(folder: str, variables: dict[str, str]) -> str:
    """Give a worker the folder and the variables of the program that started it; return the name of its machine."""
    if os.path.isdir(folder):
        os.chdir(folder)
    os.environ.update(variables)
    return socket.gethostname()


def _check_reachable(address: str) -> None:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if address == "auto" or not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ServiceError(f"no Ray cluster answers at {address} ({error}). {_HOW}") from None


def _at_sigterm(handler: Any) -> None:
    """Set the handler of SIGTERM, on the main thread. A handler from outside Python cannot be restored."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
