"""The share of small changes to the source that the fast tests notice: mutation testing of a sample.

    python -m benchmarks.mutants [--sample 200] [--seed 0] [--area methods] [--log FILE] [--show]

Each mutant has one change in one module: another comparison, ``or`` for ``and``, another number, a loop that does not
run. The mutations are those of Cosmic Ray. A mutant is killed if a test fails or the tests do not end. The doctests of
the module and the tests whose file has its name run first, then the other fast tests of the area. Another seed draws
another sample.
``--log`` keeps the results in a file of JSON lines, from which the same command goes on; ``--show`` prints survivors as
diffs.

Mutants of annotations, decorators and base classes are left out, because they change nothing, and those that Python
cannot parse, because any test kills them. Some of the others are equivalent to the original, so that no test can kill
them: they count as survivors. Needs ``pip install .[mutation]``.
"""

from __future__ import annotations

import ast
import difflib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import orjson
from benchmarks.figures import Figure, conclude, parser
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path("src/polyhop")
MIN_KILLED = 0.85
MAX_CPU_SECONDS, MAX_SECONDS = 300, 1800.0
"""A run of tests that takes more CPU time or more time in all hangs: the mutant is killed."""
NO_BEHAVIOUR = ("RemoveDecorator", "VariableReplacer", "VariableInserter", "ExceptionReplacer")
"""Mutations left out: the first three break nearly every function at once, the last one the except clause alone."""


@dataclass(frozen=True)
class Area:
    """Modules and the tests that guard them: globs under ``src/polyhop``, and folders or files of tests."""

    modules: Sequence[str]
    tests: Sequence[str]

    def paths(self) -> list[Path]:
        """Return the modules."""
        return sorted(
            path.relative_to(ROOT)
            for pattern in self.modules
            for path in (ROOT / SOURCE).glob(pattern)
            if path.name != "__init__.py"
        )

    def nearest(self, module: Path) -> list[str]:
        """Return the test files that have the name of a module."""
        names = {f"_{module.stem}_", f"_{module.stem.rstrip('s')}_"}
        return [test for test in self.files if any(name in f"{Path(test).stem}_" for name in names)]

    def farther(self, module: Path) -> list[str]:
        """Return the other test files."""
        return [test for test in self.files if test not in self.nearest(module)]

    @cached_property
    def files(self) -> list[str]:
        """The test files."""
        given = [ROOT / test for test in self.tests]
        if missing := [path for path in given if not path.exists()]:
            raise FileNotFoundError(missing[0])
        found = (test for path in given for test in ([path] if path.is_file() else path.rglob("test_*.py")))
        return sorted({str(test.relative_to(ROOT)) for test in found})


AREAS: Mapping[str, Area] = {
    "methods": Area(["methods/*.py", "methods/baselines/*.py"], ["tests/methods", "tests/engine/test_speculation.py"]),
    "parsers": Area(
        [f"prompts/{name}.py" for name in ("agreement", "answers", "cleaning", "kinds", "last_words", "lines")]
        + [f"prompts/{name}.py" for name in ("non_answers", "parsing", "prompt", "show", "triplets", "turns")],
        ["tests/prompts", "tests/lab/test_tasks.py"],
    ),
    "budget": Area(["engine/budget.py"], ["tests/engine", "tests/methods/test_bounds.py"]),
    "recorder": Area(
        ["trace/recorder.py", "trace/trace.py"], ["tests/trace", "tests/engine", "tests/lm/test_cut_replies.py"]
    ),
    "runs": Area(
        [f"evaluation/{name}.py" for name in ("predictions", "results", "runner", "runs", "store")],
        ["tests/evaluation", "tests/metrics/test_rescoring.py", "tests/cli/test_user_faults.py"],
    ),
}


@dataclass(frozen=True)
class Mutant:
    """A module with one change: that of an operator at the ``occurrence``-th position where it applies."""

    area: str
    path: str
    operator: str
    occurrence: int
    line: int

    def applied(self, source: str) -> str:
        """Return the source of the module with the change."""
        return str(mutate_code(source, get_operator(self.operator)(), self.occurrence))

    def is_program(self) -> bool:
        """Return False if Python cannot parse the changed module, as with ``{|settings}`` for ``{**settings}``."""
        try:
            ast.parse(self.applied((ROOT / self.path).read_text(encoding="utf-8")))
        except SyntaxError:
            return False
        return True

    def diff(self) -> str:
        """Return the change as a unified diff."""
        source = (ROOT / self.path).read_text(encoding="utf-8")
        before, after = source.splitlines(), self.applied(source).splitlines()
        return "\n".join(difflib.unified_diff(before, after, self.path, self.path, "", "", 1, ""))


@dataclass(frozen=True)
class Outcome:
    """A mutant and the test run that killed it: ``near``, ``far``, ``hung``, or "" for a survivor."""

    mutant: Mutant
    killed_by: str


def mutants(area: str, path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    source = (ROOT / path).read_text(encoding="utf-8")
    inert = _inert_lines(ast.parse(source))
    nodes = list(ast_nodes(get_ast(source)))
    for name in operator_names():
        if name.rpartition("/")[2].startswith(NO_BEHAVIOUR):
            continue
        operator = get_operator(name)()
        positions = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(positions):
            if not any(start <= (line, column) < end for start, end in inert):
                yield Mutant(area, str(path), name, occurrence, line)


def sample(area: str, count: int, seed: int) -> list[Mutant]:
    """Draw mutants of an area: lines first, evenly, then one of the mutations of each."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for path in AREAS[area].paths():
        for mutant in mutants(area, path):
            by_line.setdefault((mutant.path, mutant.line), []).append(mutant)
    draw = random.Random(f"{seed}:{area}")
    lines = draw.sample(sorted(by_line), min(count, len(by_line)))
    return [mutant for line in lines if (mutant := draw.choice(by_line[line])).is_program()]


def judge(mutant: Mutant, folder: Path) -> Outcome:
    """Run the tests over a mutant; ``folder`` holds a copy of the source, which is as before afterwards."""
    changed = folder / mutant.path
    before = changed.read_text(encoding="utf-8")
    changed.write_text(mutant.applied(before), encoding="utf-8")
    area, module = AREAS[mutant.area], Path(mutant.path)
    try:
        for name, tests in (("near", [str(changed), *area.nearest(module)]), ("far", area.farther(module))):
            if tests and (ended := _passes(tests, folder)) is not True:
                return Outcome(mutant, name if ended is False else "hung")
        return Outcome(mutant, "")
    finally:
        changed.write_text(before, encoding="utf-8")


def _passes(tests: Sequence[str], folder: Path) -> bool | None:
    """True if the fast tests pass with the source in ``folder``, None if they do not end."""
    config = ["-c", str(ROOT / "pyproject.toml"), "-m", "not slow", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-qx", *config, *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=MAX_SECONDS, check=False, preexec_fn=_limit
        )
    except subprocess.TimeoutExpired:
        return None
    return None if ended.returncode == -signal.SIGXCPU else ended.returncode in (0, 5)  # 5: all of them are slow


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 10))


def _inert_lines(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the (start, end) positions of annotations, decorators and imports."""
    found: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [node.returns, *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            found += [*node.decorator_list, *node.bases]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("TypeVar", "cast", "field"):
            found.append(node)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))  # type: ignore[attr-defined]
        for node in found
        if node is not None
    ]


def main() -> None:
    """Judge a sample of each area, print the shares killed and, if asked to, check the bar."""
    options_parser = parser(__doc__)
    options_parser.add_argument("--sample", type=int, default=200, help="mutants in all, as many from each area")
    options_parser.add_argument("--seed", type=int, default=0)
    options_parser.add_argument("--area", choices=sorted(AREAS), action="append")
    options_parser.add_argument("--log", type=Path, help="a file to keep the results in, and to go on from")
    options_parser.add_argument("--show", action="store_true", help="print the survivors as diffs")
    options = options_parser.parse_args()
    areas = options.area or list(AREAS)
    drawn = [mutant for area in areas for mutant in sample(area, options.sample // len(areas), options.seed)]
    random.Random(options.seed).shuffle(drawn)
    known = _logged(options.log)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="polyhop-mutants-") as folder:
        shutil.copytree(ROOT / SOURCE, Path(folder) / SOURCE, ignore=shutil.ignore_patterns("__pycache__"))
        for area in sorted({mutant.area for mutant in drawn if mutant not in known}):
            if not _passes(AREAS[area].files, Path(folder)):
                sys.exit(f"{area}: the fast tests fail or do not end without any change")
        for number, mutant in enumerate(drawn, 1):
            if mutant not in known:
                known[mutant] = judge(mutant, Path(folder)).killed_by
                if options.log:
                    with options.log.open("ab") as log:
                        log.write(orjson.dumps(asdict(Outcome(mutant, known[mutant]))) + b"\n")
            outcome = Outcome(mutant, known[mutant])
            outcomes.append(outcome)
            print(
                f"{number:>4} {outcome.killed_by or 'SURVIVED':<9} {mutant.path}:{mutant.line} {mutant.operator}",
                flush=True,
            )
    print(f"\n{'area':<10} {'mutants':>8} {'killed':>7} {'share':>6}")
    figures = []
    for area in [*areas, "all"]:
        judged = [outcome for outcome in outcomes if area in (outcome.mutant.area, "all")]
        share = sum(bool(outcome.killed_by) for outcome in judged) / max(1, len(judged))
        print(f"{area:<10} {len(judged):>8} {sum(bool(o.killed_by) for o in judged):>7} {share:>6.0%}")
        figures.append(Figure(f"mutants killed, {area}", share, least=MIN_KILLED if area == "all" else None))
    if options.show:
        for outcome in outcomes:
            if not outcome.killed_by:
                print(f"\n{outcome.mutant.diff()}")
    conclude(figures, options)


def _logged(log: Path | None) -> dict[Mutant, str]:
    """Return the outcomes that a log holds."""
    lines = log.read_bytes().splitlines() if log and log.exists() else []
    rows = map(orjson.loads, lines)
    return {Mutant(**row["mutant"]): row["killed_by"] for row in rows}


if __name__ == "__main__":
    main()
