"""Join the page's ES modules into one script, so that a page can be one file.

Each module becomes a function that returns what it exports; its imports are its first line. Modules come after those
that they import. Only what our modules use is understood: ``import { a, b } from "./path.js"`` and ``export`` before
``function``, ``async function``, ``class`` and ``const``.
"""

from __future__ import annotations

import re
from importlib.resources.abc import Traversable

from polyhop.errors import UsageError

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w/]+)\.js";$', re.M)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.M)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.M)


def bundle(script: str, modules: Traversable) -> str:
    """Return ``script`` with the modules that it imports from the folder ``modules``, and those that they import.

    Raises:
        UsageError: modules import each other in a circle, or an import or export has another form.
    """
    done: dict[str, str] = {}
    main = _module(script, modules, done, ())
    return '"use strict";\n' + "\n".join([*done.values(), main]) + "\n"


def _module(text: str, modules: Traversable, done: dict[str, str], path: tuple[str, ...]) -> str:
    """Return a module's own code; put the modules that it imports into ``done``, by name."""
    for name in (match[2] for match in _IMPORT.finditer(text)):
        if name in path:
            raise UsageError(f"modules import each other: {' → '.join((*path, name))}")
        if name not in done:
            code = (modules / f"{name}.js").read_text("utf-8")
            exports = ", ".join(match[2] for match in _EXPORT.finditer(code))
            code = _module(code, modules, done, (*path, name))
            done[name] = f"const ${name} = (() => {{\n{code}\nreturn {{ {exports} }};\n}})();"
    text = _IMPORT.sub(r"const \1 = $\2;", text)
    text = _EXPORT.sub(r"\1 \2", text)
    if left := _LEFT.search(text):
        raise UsageError(f"cannot bundle: {left[0]}")
    return text.strip()
