"""A Ray cluster: joined for a while, and left as it was.

Source: Moritz, Nishihara, Wang, Tumanov, Liaw, Liang, Elibol, Yang, Paul, Jordan and Stoica, "Ray: A Distributed
Framework for Emerging AI Applications", 2018. Of it we use actors: processes anywhere in the cluster, each with a state
of its own, whose methods are called from here.
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
"""Of each worker, as Ray counts them: two fit on one core, for a worker mostly waits."""

_ANSWERS_WITHIN = 5.0
"""Seconds in which a cluster's address must take a connection; Ray itself would try for minutes."""

_OURS = ("OPENAI_", "RETRIEVER_", "ELASTIC_", "OPENSEARCH_", "QDRANT_", "SERPER_", "TAVILY_", "BRAVE_", "OTEL_")


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """The module ``ray``, connected to the cluster at ``address`` (``HOST:PORT`` or ``auto``) until the block is left.

    Without an address it is the one that ``$RAY_ADDRESS`` names, else the one that this machine is part of, else one of
    this machine alone that ends with the block. A program that is connected already stays so.

    Raises:
        MissingExtra: Ray is not installed.
        ServiceError: no cluster is there.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = require("ray", "ray", "--engine ray")
    if ray.is_initialized():
        yield ray
        return
    if address is not None:
        _check_there(address)
    before, terminated = signal.getsignal(signal.SIGTERM), False

    def leave(*_: object) -> None:
        nonlocal terminated
        terminated = True
        sys.exit()

    try:
        try:
            with warnings.catch_warnings(action="ignore", category=FutureWarning):
                ray.init(address=address, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, RuntimeError, ValueError, SystemExit) as error:  # Ray leaves where a cluster is silent
            if isinstance(error, SystemExit) and error.code == signal.SIGTERM:
                leave()
            raise ServiceError(f"no Ray cluster could be joined{at(address)}: {error}. {_HOW}") from None
        _at_sigterm(leave if before == signal.SIG_DFL else before)  # at Ray's own it would print a stack, and abort
        yield ray
    finally:
        ray.shutdown()
        _at_sigterm(before)
        if terminated:
            signal.raise_signal(signal.SIGTERM)  # the program ends as it would have, now that the cluster is left


_HOW = "'ray start --head' begins one, and without --address there is one of this machine alone"


def at(address: str | None) -> str:
    """An address, for a message."""
    return f" at {address}" if address else ""


def max_workers(ray: Any) -> int:
    """How many workers the cluster's machines have room for, when nothing else runs there."""
    return int(ray.cluster_resources().get("CPU", 0) / CPUS)


def worker_count(ray: Any, workers: int | None) -> int:
    """So many workers, by default one for each core. Raises ``UsageError`` where there are fewer places."""
    places = max_workers(ray)
    if workers is None:
        return max(1, round(places * CPUS))
    if workers > places:
        raise UsageError(
            f"{counted(workers, 'workers')}: the cluster has room for {places}, {1 / CPUS:.0f} on each core"
        )
    return workers


def split_evenly(total: int, parts: int) -> list[int]:
    """``total`` in so many parts that differ by one at most.

    >>> split_evenly(16, 3)
    [6, 5, 5]
    """
    return [total // parts + (part < total % parts) for part in range(parts)]


def environment() -> dict[str, str]:
    """The variables that models, retrievers and telemetry read, keys among them: a worker elsewhere has them not."""
    return {name: value for name, value in os.environ.items() if name.startswith(_OURS)}


def prepare_worker(folder: str, variables: dict[str, str]) -> str:
    """Have names of files and variables mean in a worker what they mean where it was begun; the machine's name."""
    if os.path.isdir(folder):
        os.chdir(folder)
    os.environ.update(variables)
    return socket.gethostname()


def _check_there(address: str) -> None:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if address == "auto" or not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise ServiceError(f"no Ray cluster answers at {address} ({error}). {_HOW}") from None


def _at_sigterm(handler: Any) -> None:
    """Signals are the main thread's; one that was set from outside Python cannot be set again."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
