"""The structure of the package: every module has a layer, and no two files import each other."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

import polyhop
from tests.kit import layer_drawing

ROOT = Path(polyhop.__file__).parent
FREE = {"__init__", "__main__", "_version"}
"""Modules of the package itself, which stand in no layer."""
IMPORTED = re.compile(r"import_module\(\s*f?\"polyhop\.(\w+)")
AT_ROOT = 8
"""The maximum number of modules beside the rooms."""


def test_every_module_stands_in_a_layer() -> None:
    rooms = {room for layer in layer_drawing.layers() for room in layer}
    found = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found - FREE == rooms


def test_few_modules_stand_at_the_root() -> None:
    assert len(list(ROOT.glob("*.py"))) <= AT_ROOT


def test_no_two_files_import_each_other() -> None:
    graph = grimp.build_graph("polyhop", cache_dir=None, exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None


def test_nothing_is_imported_by_a_name_that_leads_upwards() -> None:
    order = {room: number for number, layer in enumerate(layer_drawing.layers()) for room in layer}
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for target in IMPORTED.findall(path.read_text(encoding="utf-8")):
            assert room in FREE or order[target] >= order[room], (
                f"{path.relative_to(ROOT)} imports polyhop.{target} by name"
            )
