"""The example notebook, run without Jupyter.

python -m tests.kit.notebook       # runs examples/notebook.ipynb and stores what its cells show
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"

Output = dict[str, Any]


def shown(cells: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[Output]]]:
    """Run the cells of code in turn; yield each with its outputs: the text it prints, the HTML of its last value."""
    names: dict[str, Any] = {}
    count = 0
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        count += 1
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(tree, NOTEBOOK.name, "exec"), names)  # noqa: S102 - our own example
            value = eval(compile(ast.unparse(last), NOTEBOOK.name, "eval"), names) if last else None  # noqa: S307
        outputs: list[Output] = []
        if text := printed.getvalue():
            outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
        if value is not None:
            data = {"text/html": value._repr_html_().splitlines(keepends=True)}
            outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
        yield cell, outputs


def text_of(outputs: list[Output]) -> str:
    """Return the text and the HTML of outputs."""
    return "".join("".join(each.get("text") or each["data"]["text/html"]) for each in outputs)


def main() -> None:
    """Store what the cells show."""
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    for cell, outputs in shown(notebook["cells"]):
        cell["outputs"] = outputs
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
