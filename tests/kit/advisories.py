"""Find installed packages with known vulnerabilities in a copy of osv.dev's advisories for Python packages, a zip of
JSON files in the OSV form (ossf.github.io/osv-schema). Nothing is fetched.

``python -m tests.kit.advisories FILE`` lists the affected packages of its environment and fails if there is one;
without a copy it says loudly that nothing was checked.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import orjson
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

OLD = 30.0
"""Days after which a copy counts as old."""


def here() -> dict[str, str]:
    """Return the installed versions by normalised name."""
    return {canonicalize_name(each.name): each.version for each in distributions()}


def weak(held: Mapping[str, str], database: Path) -> Iterator[str]:
    """Return a line per affected package and advisory. Raises ``ValueError`` if the copy is unusable."""
    found: dict[str, list[str]] = defaultdict(list)
    try:
        with ZipFile(database) as file:
            if not (names := file.namelist()):
                raise KeyError("it is empty")
            for part in names:
                advisory = orjson.loads(file.read(part))
                if "withdrawn" not in advisory:
                    for package in {canonicalize_name(each["package"]["name"]) for each in _met(advisory, held)}:
                        found[package].append(f"{advisory['id']} {advisory.get('summary', '')}".strip())
    except (BadZipFile, orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{database}: not a copy of the advisories: {error!r}") from None
    for name, lines in sorted(found.items()):
        yield from (f"{name} {held[name]}: {line}" for line in sorted(lines))


def _met(advisory: Mapping[str, Any], held: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    for each in advisory.get("affected", ()):
        if each["package"]["ecosystem"] != "PyPI":
            continue
        version = held.get(canonicalize_name(each["package"]["name"]))
        if version is not None and affects(version, each):
            yield each


def affects(version: str, affected: Mapping[str, Any]) -> bool:
    """Return True if a version is affected: named, or within a range.

    >>> events = [{"introduced": "0"}, {"fixed": "1.10"}]
    >>> [affects(version, {"ranges": [{"type": "ECOSYSTEM", "events": events}]}) for version in ("1.9", "1.10")]
    [True, False]
    """
    if version in affected.get("versions", ()):
        return True
    ranges = [each["events"] for each in affected.get("ranges", ()) if each["type"] == "ECOSYSTEM"]
    try:
        return any(_within(Version(version), events) for events in ranges)
    except InvalidVersion:
        return False


def _within(version: Version, events: Iterable[Mapping[str, str]]) -> bool:
    inside = False
    points = [(Version(point), kind) for event in events for kind, point in event.items()]
    for point, kind in sorted(points):
        if kind == "introduced" and version >= point:
            inside = True
        elif (kind == "fixed" and version >= point) or (kind == "last_affected" and version > point):
            inside = False
    return inside


def main(database: Path) -> int:
    """Return the exit code: 1 if a package is affected, or the copy is unusable."""
    if not database.exists():
        print(f"NOT AUDITED: no advisories in {database}; `make advisories` fetches them")  # noqa: T201
        return 0
    held, days = here(), (time.time() - database.stat().st_mtime) / 86400
    try:
        lines = list(weak(held, database))
    except ValueError as error:
        print(error)  # noqa: T201
        return 1
    age = f"{days:.0f} days old" + (", OLD: `make advisories`" if days > OLD else "")
    print(*lines, f"{len(held)} packages, {len(lines)} known weaknesses; advisories {age}", sep="\n")  # noqa: T201
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
