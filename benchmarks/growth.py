"""From a laptop to many machines: the machines, cost and first bottleneck of N questions per day over M passages.

    python -m benchmarks.scale growth [--methods one-r,resp,tor] [--engine bm25] [--set gpu_hour=2] [--check]

Nothing is run: the machines are computed by formula from unit costs, each with its source in ``ASSUMED`` (what polyhop
measures, and what you fill in: prices, machines, the LM server's speed). Machines are counted for the busiest hour and
paid for all day. There are three kinds: *workers* run polyhop, *servers* (GPUs) run the language model, *nodes* hold
the index and search it. ``--check`` exits with 1 if a larger load ever needs less, or the smallest load does not fit
one machine of each kind.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

DAY = 86_400.0
QUESTIONS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
PASSAGES = (10_000, 1_000_000, 21_000_000, 1_000_000_000)
METHODS = ("one-r", "resp", "tor")


@dataclass(frozen=True)
class Asked:
    """The work of a method per question: calls, tokens read and written, searches, sequential calls."""

    calls: float
    prompt: float
    completion: float
    searches: float
    layers: float


MEASURED: Mapping[str, Asked] = {
    "direct": Asked(1.0, 153, 10, 0.0, 1.0),
    "one-r": Asked(1.0, 1330, 34, 1.0, 1.0),
    "cot-sc": Asked(5.0, 1266, 49, 0.0, 1.0),
    "ircot": Asked(2.35, 3630, 50, 1.55, 2.35),
    "searchain": Asked(4.55, 2961, 246, 2.55, 4.55),
    "resp": Asked(7.15, 4891, 427, 2.15, 6.0),
    "ge": Asked(9.5, 6984, 994, 1.1, 8.4),
    "tor": Asked(29.75, 28354, 834, 9.0, 29.75),
}
"""Means over the first 20 questions of a sample of HotpotQA's dev set, with ``pocket``, as ``report`` gives them: the
prompts are the real ones, with 4 characters per token. A model that writes more than ``pocket`` writes more tokens."""


@dataclass(frozen=True)
class Assumed:
    """A unit cost: its value, unit and source."""

    value: float
    unit: str
    source: str


_OWN = "assumed: put your own"
ASSUMED: Mapping[str, Assumed] = {
    "peak": Assumed(3, "busiest hour over the mean", _OWN),
    "busy": Assumed(0.6, "of a machine in use at the peak", _OWN),
    "call_cpu": Assumed(500e-6, "s of CPU a call", "the bar of `benchmarks/methods.py`; most methods need less"),
    "call_seconds": Assumed(1, "s a call waits", _OWN),
    "question_bytes": Assumed(1e6, "bytes a question under way", "`benchmarks/methods.py`: 1,000 within 1 GB"),
    "worker_cores": Assumed(4, "cores, a process each", _OWN),
    "worker_memory": Assumed(16e9, "bytes", _OWN),
    "worker_hour": Assumed(0.2, "$ an hour", _OWN + " (November 2026)"),
    "reads": Assumed(25_000, "prompt tokens/s a GPU", "arithmetic: 8B in bf16 at 40 % of an H100's 990 TFLOPS"),
    "writes": Assumed(5_000, "tokens/s a GPU", "assumed: 8B on an H100; a public run of vLLM had 12,500 (April 2026)"),
    "shared": Assumed(0.3, "of a prompt kept by prefix caching", "assumed: instruction and demonstrations"),
    "gpu_hour": Assumed(2.5, "$ an hour", _OWN + " (H100, November 2026)"),
    "api_prompt": Assumed(0.15, "$ a million tokens", "gpt-4o-mini as listed in June 2026"),
    "api_completion": Assumed(0.6, "$ a million tokens", "gpt-4o-mini as listed in June 2026"),
    "api_batch": Assumed(0.5, "of that price", "OpenAI's Batch API, June 2026"),
    "node_cores": Assumed(16, "cores", _OWN),
    "node_memory": Assumed(64e9, "bytes", _OWN),
    "node_held": Assumed(0.75, "of it for the index", _OWN),
    "node_hour": Assumed(0.8, "$ an hour", _OWN + " (November 2026)"),
    "bm25_bytes": Assumed(140, "bytes of memory a passage", "`benchmarks/bm25.py`: 139 MB, mapped too, at a million"),
    "bm25_disk": Assumed(
        844, "bytes of disk a passage", "9.8 MB for 11,606 passages, texts and links (the documentation)"
    ),
    "bm25_cpu": Assumed(
        1.2e-9, "s of CPU a search and passage", "`benchmarks/bm25.py`: 1.2 ms at a million; taken as linear"
    ),
    "dense_bytes": Assumed(114, "bytes of memory a passage", "`ivf-rabitq`, 768 numbers: `benchmarks/scale.py`"),
    "dense_disk": Assumed(844 + 114 + 2 * 768, "bytes of disk a passage", "texts, index, and 2 bytes a number"),
    "dense_cpu": Assumed(
        7.3e-9, "s of CPU a search and passage", "1.1 ms at 300,000 x 384 (the documentation); taken as linear"
    ),
    "encoded": Assumed(3_000, "passages/s a GPU", "arithmetic: 110M parameters, 128 tokens, 10 % of an H100"),
}

Units = Mapping[str, float]
DEFAULTS: Units = {name: one.value for name, one in ASSUMED.items()}


# --- formulas --------------------------------------------------------------------------------------------------------


def rate(questions: float, peak: float) -> float:
    """Return the questions per second in the busiest hour, from the questions per day.

    >>> rate(86_400, 3)
    3.0
    """
    return questions * peak / DAY


def under_way(rate: float, layers: float, seconds: float) -> float:
    """Return the number of concurrent questions (Little's law): each waits for its sequential calls."""
    return rate * layers * seconds


def cores(rate: float, times: float, cpu: float, busy: float) -> float:
    """Return the cores for a number of operations per question, of ``cpu`` seconds each.

    >>> cores(rate=3, times=10, cpu=0.01, busy=0.5)
    0.6
    """
    return rate * times * cpu / busy


def servers(rate: float, prompt: float, completion: float, units: Units) -> float:
    """Return the GPUs that read and write the tokens of the questions; shared prefixes of prompts are read once."""
    seconds = prompt * (1 - units["shared"]) / units["reads"] + completion / units["writes"]
    return rate * seconds / units["busy"]


def by_memory(passages: float, a_passage: float, units: Units) -> float:
    """Return the nodes that hold an index in memory, each a part of it."""
    return passages * a_passage / (units["node_memory"] * units["node_held"])


def by_api(asked: Asked, units: Units, *, batch: bool = False) -> float:
    """Return the dollars per question if the model is paid per token.

    >>> by_api(Asked(1, 1_000_000, 500_000, 0, 1), DEFAULTS), by_api(Asked(1, 1_000_000, 0, 0, 1), DEFAULTS, batch=True)
    (0.45, 0.075)
    """
    paid = (asked.prompt * units["api_prompt"] + asked.completion * units["api_completion"]) / 1e6
    return paid * units["api_batch"] if batch else paid


def encoding_hours(passages: float, gpus: float, units: Units) -> float:
    """Return the hours to encode the passages.

    >>> encoding_hours(1_080_000, 0.1, DEFAULTS)
    1.0
    """
    return passages / (units["encoded"] * gpus * 3600)


# --- a point ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """The machines that a load needs, in fractions, by kind; ``questions`` per day, ``at_once`` at the peak."""

    questions: float
    at_once: float
    by_kind: Mapping[str, float]

    @property
    def machines(self) -> dict[str, int]:
        """Return whole machines; at least one if there is work for it."""
        return {kind: math.ceil(load) for kind, load in self.by_kind.items()}

    @property
    def first(self) -> str:
        """Return the first bottleneck as the load grows: the kind of which one machine is the fullest."""
        return max(self.by_kind, key=lambda kind: self.by_kind[kind])

    def money(self, units: Units, without: Sequence[str] = ()) -> float:
        """Return the dollars per question for the machines, which are paid for all day."""
        hours = {"workers": units["worker_hour"], "servers": units["gpu_hour"], "nodes": units["node_hour"]}
        paid = sum(count * hours[kind] for kind, count in self.machines.items() if kind not in without)
        return 24 * paid / self.questions


def load(asked: Asked, questions: float, passages: float, engine: str = "bm25", units: Units = DEFAULTS) -> Load:
    """Return the machines that a method's questions need."""
    peak, busy = rate(questions, units["peak"]), units["busy"]
    waiting = under_way(peak, asked.layers, units["call_seconds"])
    working = cores(peak, asked.calls, units["call_cpu"], busy) / units["worker_cores"]
    searching = cores(peak, asked.searches, units[f"{engine}_cpu"] * passages, busy) / units["node_cores"]
    holding = by_memory(passages, units[f"{engine}_bytes"], units) if asked.searches else 0.0
    return Load(
        questions,
        waiting,
        {
            "workers": max(working, waiting * units["question_bytes"] / units["worker_memory"]),
            "servers": servers(peak, asked.prompt, asked.completion, units),
            "nodes": max(searching, holding),  # every part of an index is asked: parts and copies share the work
        },
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def table(method: str, engine: str = "bm25", units: Units = DEFAULTS) -> Iterator[str]:
    """Return a method's table, in Markdown."""
    asked = MEASURED[method]
    heads = ("passages", "at once", "workers", "servers", "nodes", "$ each", "by API", "in batches", "first")
    yield f"| `{method}` per day | " + " | ".join(heads) + " |"
    yield "|" + "---|" * (1 + len(heads))
    for questions, passages in itertools.product(QUESTIONS, PASSAGES):
        one = load(asked, questions, passages, engine, units)
        apart = one.money(units, without=["servers"])
        paid = (one.money(units), apart + by_api(asked, units), apart + by_api(asked, units, batch=True))
        cells = (
            f"{questions:,}",
            f"{passages:,}",
            f"{math.ceil(one.at_once):,}",
            *(f"{one.machines[kind]:,}" for kind in ("workers", "servers", "nodes")),
            *(f"{each:.2g}" for each in paid),
            one.first,
        )
        yield "| " + " | ".join(cells) + " |"


def holding(units: Units = DEFAULTS) -> Iterator[str]:
    """Return the cost of the passages, independent of the questions, in Markdown."""
    yield "| passages | BM25: memory | disk | nodes | dense: memory | disk | nodes | encoded by one GPU |"
    yield "|" + "---|" * 8
    for passages in PASSAGES:
        cells = [f"{passages:,}"]
        for engine in ("bm25", "dense"):
            nodes = math.ceil(by_memory(passages, units[f"{engine}_bytes"], units))
            sizes = (size(passages * units[f"{engine}_{what}"]) for what in ("bytes", "disk"))
            cells += [*sizes, f"{nodes:,}"]
        yield "| " + " | ".join([*cells, f"{encoding_hours(passages, 1, units):.2g} h"]) + " |"


def size(count: float) -> str:
    """Return a number of bytes in readable form.

    >>> size(140e6), size(2.4e9), size(2.494e12)
    ('140 MB', '2.4 GB', '2.49 TB')
    """
    unit = next(power for power in (12, 9, 6) if count >= 10**power or power == 6)
    return f"{count / 10**unit:.3g} { {12: 'TB', 9: 'GB', 6: 'MB'}[unit] }"


def assumptions(units: Units) -> Iterator[str]:
    """Return every unit cost with its source, in Markdown."""
    yield "| unit cost | value | unit | source |"
    yield "|---|---|---|---|"
    for name, one in ASSUMED.items():
        yield f"| {name} | {units[name]:g} | {one.unit} | {one.source} |"


def wrong(units: Units = DEFAULTS) -> list[str]:
    """Describe the contradictions in the results."""
    found = []
    for (name, asked), engine in itertools.product(MEASURED.items(), ("bm25", "dense")):
        if max(load(asked, QUESTIONS[0], PASSAGES[0], engine, units).machines.values()) > 1:
            found.append(f"{name}: the smallest load takes more than one machine of a kind")
        for axis in (0, 1):
            for less, more in itertools.pairwise((QUESTIONS, PASSAGES)[axis]):
                a, b = (
                    load(asked, *((n, PASSAGES[1]) if axis == 0 else (QUESTIONS[1], n)), engine, units)
                    for n in (less, more)
                )
                if any(a.by_kind[kind] > b.by_kind[kind] for kind in a.by_kind):
                    found.append(f"{name}: {more:,} take less than {less:,}")
    return found


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of the command."""
    to.add_argument("--methods", type=lambda text: text.split(","), default=METHODS, help=", ".join(MEASURED))
    to.add_argument("--engine", choices=("bm25", "dense"), default="bm25")
    to.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other unit costs")
    to.add_argument("--check", action="store_true", help="exit 1 where the figures cannot be right")


def show(options: argparse.Namespace) -> list[str]:
    """Print the tables; return the contradictions in them."""
    given = dict(pair.split("=", 1) for pair in options.set)
    if strange := given.keys() - ASSUMED.keys():
        raise SystemExit(f"no unit cost {', '.join(strange)}: there are {', '.join(ASSUMED)}")
    units = {**DEFAULTS, **{name: float(value) for name, value in given.items()}}
    tables = [assumptions(units), holding(units), *(table(name, options.engine, units) for name in options.methods)]
    print("\n\n".join("\n".join(lines) for lines in tables))
    return wrong(units)
