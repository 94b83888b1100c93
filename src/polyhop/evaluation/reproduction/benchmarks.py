"""The benchmarks a user has: their questions by split, and their corpora, found in a folder or named one by one.

The folder has a folder per benchmark, ``hotpotqa``, ``2wikimultihopqa`` (or ``2wiki``), ``musique``, ``bamboogle``,
``strategyqa``, ``zsre``, ``trex``, ``fever``, ``eli5``, with ``dev``, ``train`` or ``test`` in any format that
``read_questions`` knows (``dev.jsonl``, ``dev.json``, ``dev.csv``) and a corpus: ``corpus.jsonl``, packed or not, or a
folder ``corpus`` or ``index``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from polyhop.data import DEMO
from polyhop.data.corpus import Corpus
from polyhop.data.questions import read_questions
from polyhop.errors import DataError, UnknownName
from polyhop.evaluation.reproduction.recipe import BENCHMARKS, Sample
from polyhop.evaluation.runs import open_index
from polyhop.retrieval.index import Index
from polyhop.types import Question

SPLITS = ("dev", "train", "test")
_FOLDERS = {"2wiki": ("2wikimultihopqa", "2wiki")}
_QUESTIONS = (".jsonl", ".json", ".csv", ".jsonl.gz", ".jsonl.bz2")
_CORPORA = ("index", "corpus.jsonl", "corpus.jsonl.gz", "corpus.jsonl.bz2", "corpus")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The paths of a benchmark's questions, by split, and its corpus or the path of it, if it has one."""

    splits: Mapping[str, str | Path]
    corpus: str | Path | Corpus | None = None


@dataclass(slots=True)
class Benchmarks:
    """The available benchmarks by name; each corpus is indexed once, each file of questions is read once.

    If none is available, the demonstration set stands in for all (``stands_in``).
    """

    given: Mapping[str, Benchmark] = field(default_factory=dict)
    skip_bad: bool = False
    _indexes: dict[str, Index | None] = field(default_factory=dict)
    _questions: dict[str, list[Question]] = field(default_factory=dict)

    @property
    def stands_in(self) -> bool:
        """True if nothing was given, so that the demonstration set stands in."""
        return not self.given

    def source(self, name: str, split: str) -> str | None:
        """Return the path of the questions; None if they are not available."""
        if self.stands_in:
            return DEMO
        benchmark = self.given.get(name)
        return str(benchmark.splits[split]) if benchmark and split in benchmark.splits else None

    def questions(self, name: str, sample: Sample) -> list[Question]:
        """Return the questions of a sample."""
        return sample.of(self.all(name, sample.split))

    def all(self, name: str, split: str) -> list[Question]:
        """Return a split's answerable questions; none if it is not available."""
        source = self.source(name, split)
        if source is None:
            return []
        if source not in self._questions:
            read = read_questions(source, skip_bad=self.skip_bad)
            self._questions[source] = [question for question in read if question.metadata.get("answerable", True)]
        return self._questions[source]

    def index(self, name: str) -> Index | None:
        """Return the index of a benchmark's corpus; None if it has none."""
        source = DEMO if self.stands_in else self.given[name].corpus
        if str(source) not in self._indexes:
            self._indexes[str(source)] = open_index(source, self.skip_bad)
        return self._indexes[str(source)]


def find_benchmarks(folder: str | Path) -> dict[str, Benchmark]:
    """Find the benchmarks of a folder. ``DataError`` if it holds none."""
    folder = Path(folder)
    found = {}
    for name in BENCHMARKS:
        for home in (folder / home for home in _FOLDERS.get(name, (name,))):
            splits = {split: path for split in SPLITS if (path := _first(home, [split + end for end in _QUESTIONS]))}
            if splits and name not in found:
                found[name] = Benchmark(splits, _first(home, _CORPORA))
    if not found:
        homes = ", ".join(home for name in BENCHMARKS for home in _FOLDERS.get(name, (name,)))
        raise DataError(f"no benchmark found: it needs a folder {homes}, with a dev.jsonl and a corpus.jsonl", folder)
    return found


def select_benchmarks(
    folder: str | Path | None = None,
    datasets: Mapping[str, str] | None = None,
    corpora: Mapping[str, str] | None = None,
) -> dict[str, Benchmark]:
    """Combine the benchmarks of a folder with those named one by one, which take precedence.

    ``datasets`` maps ``hotpotqa`` or ``hotpotqa/train`` to a file of questions, ``corpora`` maps ``hotpotqa`` to a
    corpus.

    Raises:
        UnknownName: no benchmark or split of that name.
        DataError: the folder holds none.
    """
    found = find_benchmarks(folder) if folder is not None else {}
    for name, path in (datasets or {}).items():
        benchmark, _, split = name.partition("/")
        split = split or "dev"
        if split not in SPLITS:
            raise UnknownName("split", split, SPLITS)
        before = found.get(_known(benchmark), Benchmark({}))
        found[benchmark] = Benchmark({**before.splits, split: path}, before.corpus)
    for name, path in (corpora or {}).items():
        before = found.get(_known(name), Benchmark({}))
        found[name] = Benchmark(before.splits, path)
    return found


def _known(name: str) -> str:
    if name not in BENCHMARKS:
        raise UnknownName("benchmark", name, BENCHMARKS)
    return name


def _first(home: Path, names: tuple[str, ...] | list[str]) -> Path | None:
    return next((home / name for name in names if (home / name).exists()), None)
