"""The meaning of a method's settings: the comment beside each in its signature; and the values that it takes."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, get_args, get_origin

from polyhop.methods.registry import Method, Setting

SHARED = {
    "k": "passages per search",
    "max_turns": "maximum number of searches",
    "shots": "demonstrations per prompt",
    "context_tokens": "maximum number of tokens per prompt",
    "rank_limit": "maximum number of ranked passages",
    "style": "cot reasons before it answers",
    "samples": "number of samples",
    "temperature": "sampling temperature",
    "answer_by": "the component that answers from the ranking",
}
"""The meanings of settings that many methods have under the same name."""
_PAPER_PARTS = ("§", "ToR §", "Table", "Appendix", "Algorithm", "Eq")


def meaning(method: Method, name: str) -> str:
    """Return the meaning of a setting in words, the part of the paper behind them."""
    source, _, words = meanings(method).get(name, "").partition(": ")
    if not source.startswith(_PAPER_PARTS):
        source, words = "", f"{source}: {words}" if words else source
    words = "; ".join(part for part in (SHARED.get(name, ""), words) if part)
    return f"{words} ({source})" if source else words


@cache
def meanings(method: Method) -> Mapping[str, str]:
    """Return the comment beside each setting in the method's source, by name; empty if there is no source."""
    try:
        text = inspect.getsource(inspect.getmodule(method.function) or method.function)
    except (OSError, TypeError):
        return {}
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.AsyncFunctionDef))
    node = next((node for node in nodes if node.name == method.function.__name__), None)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    arguments = node.args.kwonlyargs if node else []
    return MappingProxyType(
        {each.arg: comments.get(each.end_lineno or 0) or comments.get(each.lineno, "") for each in arguments}
    )


def literals(hint: Any) -> list[Any]:
    """Return the words that a type allows.

    >>> from typing import Literal
    >>> literals(Literal["a", "b"] | int)
    ['a', 'b']
    """
    own = [each for each in get_args(hint) if isinstance(each, str | bool)]
    return own + [word for each in get_args(hint) if get_origin(each) is not None for word in literals(each)]


def takes_number(setting: Setting) -> bool:
    """Return True if a value of the setting may be a number, or a list of numbers."""
    return re.search(r"\b(?:int|float)\b", str(setting.type)) is not None


def takes_many(setting: Setting) -> bool:
    """Return True if a value of the setting is a list."""
    return re.search(r"tuple|list|Sequence", str(setting.type)) is not None
