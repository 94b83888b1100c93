"""Datasets of the Hub by name: over a package that behaves like the real one, and over the real one without network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from polyhop.data.questions import open_questions, read_questions
from polyhop.data.sources import parse_hub_name
from polyhop.errors import DataError, MissingExtra, UsageError
from tests.data.test_formats import HOTPOTQA, lines


class FakeDatasets(ModuleType):
    """``datasets`` with one dataset: a config is needed, splits are checked, a stream cannot be sliced."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__("datasets")
        self.rows: list[dict[str, Any]] = rows
        self.asked: list[tuple[str, str | None, str, bool]] = []

    def load_dataset(self, path: str, name: str | None = None, *, split: str, streaming: bool) -> Iterator[Any]:
        self.asked.append((path, name, split, streaming))
        if path != "hotpotqa/hotpot_qa":
            raise FileNotFoundError(f"Dataset '{path}' doesn't exist on the Hub or cannot be accessed.\nmore")
        if name is None:
            raise ValueError("Config name is missing.\nPlease pick one among the available configs: ['distractor']")
        if streaming and "[" in split:
            raise ValueError('Bad split: validation[:1]. Available splits: ["validation"]')
        return iter(self.rows[:1] if "[" in split else self.rows)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> FakeDatasets:
    fake = FakeDatasets([{**HOTPOTQA, "id": id, "_id": None} for id in ("a", "b")])
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return fake


def test_a_hub_dataset_is_recognised_by_its_rows(hub: FakeDatasets) -> None:
    dataset = open_questions("hf:hotpotqa/hotpot_qa:distractor:validation")
    assert (dataset.format.name, [question.id for question in dataset]) == ("hotpotqa", ["a", "b"])
    assert dataset.reason.startswith("Hub dataset; ")
    assert hub.asked[-1] == ("hotpotqa/hotpot_qa", "distractor", "validation", True)
    assert len(read_questions(Path("hf:hotpotqa/hotpot_qa:distractor:validation[:1]"))) == 1


def test_faults_are_reported_with_the_hub_name(hub: FakeDatasets) -> None:
    with pytest.raises(
        DataError, match=r"^hf:no/such: cannot be loaded: Dataset 'no/such' doesn't exist .*accessed\.$"
    ):
        read_questions("hf:no/such")
    with pytest.raises(DataError, match=r"hf:hotpotqa/hotpot_qa: cannot be loaded: Config name is missing"):
        read_questions("hf:hotpotqa/hotpot_qa")
    hub.rows[1]["question"] = None
    with pytest.raises(DataError, match=r"^hf:hotpotqa/hotpot_qa:distractor:train: row 2: missing field 'question'"):
        read_questions("hf:hotpotqa/hotpot_qa:distractor:train")


@pytest.mark.parametrize("name", ["hf:", "hf:a::b", "hf:a:b:c:d"])
def test_a_malformed_hub_name_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match="must be hf:DATASET, hf:DATASET:SPLIT or hf:DATASET:CONFIG:SPLIT"):
        parse_hub_name(name)


def test_without_the_package_the_error_gives_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"a dataset of the Hub needs .* pip install 'polyhop\[datasets\]'"):
        open_questions("hf:owner/name")


def test_an_existing_file_wins_over_a_hub_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines(Path("hf:mine"), {"question": "Who?"})
    assert len(read_questions("hf:mine")) == 1


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore")
def test_the_real_package_streams_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    lines(Path("mine/validation.jsonl"), HOTPOTQA, {**HOTPOTQA, "_id": "second"})
    dataset = open_questions("hf:./mine")
    assert (dataset.format.name, [question.id for question in dataset]) == ("hotpotqa", ["5a8b", "second"])
    assert [question.id for question in open_questions("hf:./mine:validation[1:]")] == ["second"]
    with pytest.raises(DataError, match=r"hf:\./mine:test: cannot be loaded: .*split"):
        read_questions("hf:./mine:test")
