"""The licences of what the package depends on, as each one's own metadata states them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "licences.md"

_HEAD = """# Licences of what polyhop depends on

The package is under the Apache License 2.0 (`LICENSE`). It ships no code of the packages below; they are installed
beside it. What each states in its metadata; `POLYHOP_GOLDEN=write python -m pytest tests/repository/test_licences.py`,
where all extras are installed, writes this page again.

The weights inside `pocket` have a card of their own: `src/polyhop/lm/pocket/model`. The pages' fonts, Inter and Source
Serif 4 (Latin only), are under the SIL Open Font License 1.1: `src/polyhop/trace/view/fonts/LICENSE`.

"""


def named() -> dict[str, list[str]]:
    """The packages that ``pyproject.toml`` names, with the extras that need them; "core" if always needed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, list[str]] = {}
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    for group, requirements in groups.items():
        for name in map(_name, requirements):
            if name != "polyhop":
                found.setdefault(name, []).append(group)
    return found


def brought(names: Iterable[str]) -> set[str]:
    """The installed packages that those packages need in turn, without themselves."""
    seen, waiting = set(names), list(names)
    while waiting:
        for requirement in held.requires or [] if (held := installed(waiting.pop())) else []:
            name = _name(requirement)
            if "extra ==" not in requirement and name not in seen and installed(name):
                seen.add(name)
                waiting.append(name)
    return seen - set(names)


def installed(name: str) -> Distribution | None:
    """The package as it is installed."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licence(name: str) -> str | None:
    """The licence that an installed package states; None if it is not installed."""
    if (held := installed(name)) is None:
        return None
    metadata: Any = held.metadata  # a message, whose type knows no ``get``
    if stated := metadata.get("License-Expression"):
        return " ".join(stated.split())
    classified = [
        line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or [] if line.startswith("License")
    ]
    short = (metadata.get("License") or "").strip().partition("\n")[0]
    if short not in {"", "UNKNOWN"} and len(short) <= 60:
        return short
    return "; ".join(classified) or "not stated"


def read(text: str) -> dict[str, str]:
    """The licences that a page tells, by package."""
    return {row[1]: row[2] for row in re.finditer(r"^\| `([^`]+)` \| (.+?) \|(?: .* \|)?$", text, re.M)}


def page(known: Mapping[str, str]) -> str:
    """The whole page; what is not installed here keeps the licence that was ``known``."""
    asked = named()
    rows = [
        f"| `{name}` | {licence(name) or known.get(name, 'not stated')} | {', '.join(asked[name])} |" for name in asked
    ]
    more = sorted(brought(asked) | known.keys() - asked.keys(), key=str.lower)
    others = [f"| `{name}` | {licence(name) or known.get(name, 'not stated')} |" for name in more]
    named_by_us = "\n".join(["| package | licence | needed by |", "|---|---|---|", *rows])
    named_by_them = "\n".join(["| package | licence |", "|---|---|", *others])
    return f"{_HEAD}{named_by_us}\n\n## What these bring with them\n\n{named_by_them}\n"


def _name(requirement: str) -> str:
    """The name of a package that is required, as all its spellings come to.

    >>> _name("Typing_Extensions>=4; python_version < '3.13'")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0]).lower()
