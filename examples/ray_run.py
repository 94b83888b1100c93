"""Run a method over a dataset on a Ray cluster, with the same run folder as one process.

Needs Ray: `pip install 'polyhop[ray]'`. Without an address the cluster is this machine, started and stopped here;
with `Ray(address="HOST:6379")` it is the one that `ray start --head` started there. Every worker is a process with a
pipeline and its share of the limits; a question goes to a free worker, and to another if a worker is lost. Only this
process writes the run's folder. A run can be started alone and resumed on a cluster, or the reverse: here the first
four questions are answered alone, and all eight belong to one run.

    python examples/ray_run.py

prints

    alone          4 questions, exact match 100.0 %
    two workers    8 questions, exact match 62.5 %
    one process    8 questions, exact match 62.5 %, the same predictions: True
"""

import json
import tempfile
from pathlib import Path

import polyhop
from polyhop.evaluation.ray import Ray


def run(name: str, folder: Path, limit: int, engine: Ray | None = None) -> str:
    """Run the demo set, or go on where the folder's run was; its line of the table."""
    report = polyhop.evaluate("demo", "demo", "one-r", out=folder, limit=limit, engine=engine)
    return f"{name:12} {limit:3} questions, exact match {100 * report.metrics['em'].value:.1f} %"


def predictions(folder: Path) -> list[tuple[str, str, list[str]]]:
    """The content of a run's folder: question, answer and ranked passages."""
    rows = map(json.loads, (folder / "predictions.jsonl").read_text("utf-8").splitlines())
    return [(row["id"], row["prediction"], row["passages"]) for row in rows]


with tempfile.TemporaryDirectory() as made:
    spread, whole = Path(made, "spread"), Path(made, "whole")
    print(run("alone", spread, limit=4))
    print(run("two workers", spread, limit=8, engine=Ray(workers=2)))
    print(run("one process", whole, limit=8), end=", ")
    print(f"the same predictions: {predictions(spread) == predictions(whole)}")
