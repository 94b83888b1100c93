"""The package's words and proportions: private names do not come back, files and signatures stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import polyhop

ROOT = Path(polyhop.__file__).parent
Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

MAX_LINES = 400
MAX_PARAMETERS = 20
MANY_PARAMETERS = {
    "methods/ge.py: ge_reasoning",  # the paper's settings
    "methods/promptrank.py: promptrank",
    "pipeline.py: __init__",  # an option each
    "cli/tune.py: promptrank",  # an option each
}
"""Functions with more parameters: a verb of the command line has one per option."""
PRIVATE_NAME = re.compile(r"_?told(_|$)|heat$|sight$|_?most_", re.IGNORECASE)
"""``told`` says nothing of what it holds; ``heat`` is a temperature; what is at most so many is ``max_…``."""
KNOWN_NAMES = {"most_common", "most_bytes", "most_words", "_most_promising"}
"""A name of the standard library, an option and a setting that users know, and a superlative."""
QUESTION = re.compile(r'^ *r?"""(What|Whether|How|Where|Why)\b.*', re.MULTILINE)
"""A docstring says what a thing is or does; these words only announce that it will."""


def outside() -> dict[str, ast.Module]:
    """The syntax tree of every file of the benchmarks and of the training, by its path."""
    root = ROOT.parents[1]
    return {
        path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for folder in ("benchmarks", "training")
        for path in (root / folder).glob("*.py")
    }


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every file of the package, by its path."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")
    }


def definitions(tree: ast.AST) -> Iterator[Definition]:
    return (node for node in ast.walk(tree) if isinstance(node, Definition))


def names(tree: ast.AST) -> Iterator[str]:
    """Every name that a file binds, takes as a parameter or reads from an object."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name


def test_no_private_name_comes_back() -> None:
    found = [
        f"{path}: {name}"
        for path, tree in [*trees().items(), *outside().items()]
        for name in names(tree)
        if PRIVATE_NAME.match(name) and name not in KNOWN_NAMES
    ]
    assert found == []


def test_a_docstring_opens_with_a_verb_or_a_noun() -> None:
    folders = [ROOT, *(ROOT.parents[1] / name for name in ("tests", "benchmarks", "training", "examples"))]
    found = [
        f"{path}: {opening[0].strip()}"
        for folder in folders
        for path in folder.rglob("*.py")
        if (opening := QUESTION.search(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_no_file_is_long() -> None:
    long = {path for path in trees() if (ROOT / path).read_text(encoding="utf-8").count("\n") > MAX_LINES}
    assert long == set()


def test_no_function_has_many_parameters() -> None:
    found = {
        f"{path}: {function.name}"
        for path, tree in trees().items()
        for function in definitions(tree)
        if not isinstance(function, ast.ClassDef)
        and len([*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]) > MAX_PARAMETERS
    }
    assert found <= MANY_PARAMETERS
