"""One method, one file, one function that reads like its paper's algorithm.

The package is also the public function ``polyhop.methods()``, which returns every registered method by name.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from polyhop.methods.registry import methods


class _CallableRoom(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return methods(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableRoom
