"""Run the benchmarks one after another, compare their ratios with the last committed ones, and write ``RESULTS.md``.

    python -m benchmarks.suite
    python -m benchmarks.suite --only startup,prefixes

Each runs in its own process, in a size that keeps the suite under ten minutes. ``RESULTS.md`` begins with the ratios,
which similar machines should reach; the tables follow. ``results.json`` has the ratios with a bar: one that is more
than a quarter worse than in the last commit is a regression. The exit code is 1 after a regression, a missed bar or a
failed benchmark; each is named. With ``--only`` nothing is written.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from benchmarks.figures import Figure, read, regressions

HERE = Path(__file__).resolve().parent
RESULTS, VALUES = HERE / "RESULTS.md", HERE / "results.json"
SUITE: Mapping[str, Sequence[str]] = {
    "methods": ["--seconds", "1.5", "--memory", "resp"],  # a thousand of ge take two minutes
    "prefixes": [],
    "startup": ["--rounds", "6"],
    "local": ["--questions", "16"],
    "lm_client": ["--rounds", "2"],
    "speculation": [],
    "own_time": [],
    "evaluation": [],
    "bm25": ["--passages", "100000"],
    "updates": [],
    "leaks": ["--questions", "2000"],
}
"""The benchmarks in order, with the options that make them short enough."""
MAX_SECONDS = 600.0


@dataclass(frozen=True)
class Done:
    """The result of a benchmark: its output, figures and seconds."""

    name: str
    printed: str
    figures: Sequence[Figure]
    seconds: float
    failed: bool = False

    @property
    def about(self) -> str:
        """Return the first sentence of the benchmark's description."""
        source = (HERE / f"{self.name}.py").read_text(encoding="utf-8")
        return " ".join(source.removeprefix('"""').partition("\n\n")[0].split()).rstrip('"')


def run(name: str, options: Sequence[str]) -> Done:
    """Run a benchmark, showing its output as it appears."""
    begun, lines = time.perf_counter(), []
    print(f"\n== {name}", flush=True)
    with tempfile.TemporaryDirectory(prefix="polyhop-bench-") as folder:
        path = Path(folder) / "figures.json"
        command = [sys.executable, "-u", "-m", f"benchmarks.{name}", *options, "--figures", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
        figures = read(path) if path.exists() else []
    done = Done(name, "".join(lines), figures, time.perf_counter() - begun, process.returncode != 0)
    print(f"\n{name} took {done.seconds:.0f} s", flush=True)
    return done


def committed() -> dict[str, dict[str, float]]:
    """Return the ratios of the last commit, by benchmark and name; none outside a checkout or before the first."""
    shown = subprocess.run(["git", "show", "HEAD:./results.json"], cwd=HERE, capture_output=True, check=False)
    before: dict[str, dict[str, float]] = orjson.loads(shown.stdout) if shown.returncode == 0 else {}
    return before


def wrong(done: Sequence[Done], before: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Describe missed bars, failures and regressions."""
    failed = [f"{one.name}: failed" for one in done if one.failed]
    missed = [f"{one.name}: {words}" for one in done for figure in one.figures if (words := figure.missed())]
    return [*failed, *missed, *regressions({one.name: one.figures for one in done}, before)]


def values(done: Sequence[Done]) -> dict[str, dict[str, float]]:
    """Return the ratios that later runs are compared with."""
    return {one.name: {each.name: round(each.value, 3) for each in one.figures if each.compared} for one in done}


def machine() -> str:
    """Describe the machine in general terms."""
    return (
        f"{os.cpu_count()} cores, {_processor()}, {_memory_gb():.0f} GB of memory, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def _processor() -> str:
    """Return the processor's family without its model: ``x86_64 with avx512f, amx``."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
    except OSError:
        flags = set()
    known = [name for name in ("avx2", "avx512f", "amx_tile", "asimd") if name in flags]
    return f"{platform.machine()} with {', '.join(known)}" if known else platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def page(done: Sequence[Done], faults: Sequence[str]) -> str:
    """Return the text of ``RESULTS.md``: the ratios first, then every benchmark's table."""
    lines = [
        "# What the benchmarks find",
        "",
        f"By `make bench` on {machine()}. Compare ratios, never seconds across machines.",
        "",
        "| benchmark | ratio | value | bar |",
        "|---|---|---|---|",
        *(_row(one.name, figure) for one in done for figure in one.figures if not figure.unit),
        "",
        *(f"- Not as it should be: {fault}" for fault in faults),
    ]
    for one in done:
        lines += ["", f"## {one.name}", "", one.about, "", "```text", one.printed.strip("\n"), "```"]
    return "\n".join(lines) + "\n"


def _row(name: str, figure: Figure) -> str:
    bar = f"≤ {figure.most:.3g}" if figure.most is not None else f"≥ {figure.least:.3g}" if figure.least else ""
    return f"| {name} | {figure.name} | {figure.value:.2f} | {bar} |"


def main() -> None:
    """Run the benchmarks, write the results and compare them."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", help="some of the benchmarks, with commas between; nothing is written")
    options = made.parse_args()
    names = options.only.split(",") if options.only else list(SUITE)
    begun = time.perf_counter()
    done = [run(name, SUITE[name]) for name in names]
    took = Figure("the suite", time.perf_counter() - begun, " s", most=MAX_SECONDS)
    faults = [*wrong(done, committed()), *filter(None, [took.missed()])]
    if not options.only:
        RESULTS.write_text(page(done, faults), encoding="utf-8")
        VALUES.write_bytes(orjson.dumps(values(done), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    print(f"\n{len(done)} benchmarks in {took.value:.0f} s")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
