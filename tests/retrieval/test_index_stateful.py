"""An index folder against a dictionary: built, changed, read, killed at any file operation and refused by the disk.

``POLYHOP_TRIES=10`` makes ten times as many stories, ``POLYHOP_HYPOTHESIS=exploring`` others in every run.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from polyhop.data.corpora import open_corpus
from polyhop.data.passages import read_passage
from polyhop.errors import DataError, IndexFolderError
from polyhop.retrieval import Index, build_index, open_index
from polyhop.retrieval import sealed_folder as states
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.links import LinkMode
from polyhop.retrieval.updating import add_passages, remove_passages
from polyhop.types import Passage
from tests.kit.stories import Story, tell
from tests.kit.tally import count
from tests.kit.tries import tries
from tests.kit.victims import ERRORS, Fault, victims

WORDS = ("kiln", "oboe", "zinc", "walnut")
TITLES = {id: f"{name} Ridge" for id, name in zip("abcdefgh", "Anvo Brusk Crelt Dorm Elka Fyst Grond Hulp".split())}  # noqa: B905
Content: TypeAlias = dict[str, Passage]
"""The model of an index: its passages by id, in their order."""

ids = st.sampled_from(sorted(TITLES))
texts = st.lists(st.sampled_from([*WORDS, *TITLES.values()]), min_size=1, max_size=5).map(", ".join)
own_links = st.just(()) | st.lists(st.sampled_from(sorted(TITLES.values())), max_size=2).map(tuple)
passages = st.builds(lambda id, text, links: Passage(id, TITLES[id], text, links), ids, texts, own_links)
corpora = st.lists(passages, min_size=1, max_size=6, unique_by=lambda passage: passage.id)
kills = st.builds(Fault, at=st.integers(0, 110))
refusals = st.builds(Fault, at=st.integers(0, 40), number=st.sampled_from(ERRORS))
limits = st.builds(Fault, limit=st.integers(0, 6000), number=st.none() | st.just(27))


def change(folder: Path, kind: str, given: Sequence[Any], option: Any) -> None:
    """Make one change of the index: the work of the victims, who wait for no disk."""
    states._on_disk = lambda path: None
    index = folder / "index"
    match kind:
        case "build":
            build_index(open_corpus([*map(read_passage, given)]), index, links=option, overwrite=True)
        case "add":
            add_passages(index, open_corpus([*map(read_passage, given)]), replace=option)
        case "remove":
            remove_passages(index, given, missing_ok=option)


def warm_up() -> None:
    """Do all that a first change imports."""
    with tempfile.TemporaryDirectory() as folder:
        one, other = ({"id": id, "title": TITLES[id], "text": "kiln"} for id in "ab")
        change(Path(folder), "build", [one], "titles")
        change(Path(folder), "add", [other], True)
        change(Path(folder), "remove", ["a"], True)


def after(content: Content, kind: str, given: Sequence[Any], option: Any) -> Content | None:
    """The content of an index after a change; None if the change is refused."""
    if kind == "build":
        return {passage.id: passage for passage in given}
    if kind == "remove":
        if not option and any(id not in content for id in given):
            return None
        return {id: passage for id, passage in content.items() if id not in given} or None
    new = [passage for passage in given if not _is_same(content.get(passage.id), passage)]
    if not option and any(passage.id in content for passage in new):
        return None
    replaced = {passage.id for passage in new}
    kept = {id: passage for id, passage in content.items() if id not in replaced}
    return {**kept, **{passage.id: passage for passage in new}}


def linked(content: Content, passage: Passage, mode: LinkMode) -> set[str]:
    """The passages that a passage links to: by its own links, or by the titles that its text mentions."""
    own = mode == "own" or any(each.links for each in content.values())
    titles = {other.id: other.title for other in content.values() if other.id != passage.id}
    if not mode:
        return set()
    return {id for id, title in titles.items() if title in (passage.links if own else passage.text.split(", "))}


def check(index: Index, content: Content, mode: LinkMode) -> None:
    """Compare all that an index holds and finds with the model."""
    assert [passage.to_dict() for passage in index.passages] == [passage.to_dict() for passage in content.values()]
    assert (len(index), index.facts["passages"]) == (len(content), len(content))
    assert index.facts["linking"] == sum(bool(passage.links) for passage in content.values())
    for id in TITLES:
        found = index.passages.by_id(id)
        assert (found and found.to_dict()) == (content[id].to_dict() if id in content else None)
    for passage in content.values():
        assert {target.id for target in index.links(passage)} == linked(content, passage, mode)
    bm25 = BM25(index)
    for word in WORDS:
        hits = [passage.id for passage in bm25.search(word, 20)]
        assert len(hits) == len({*hits})
        assert {*hits} == {passage.id for passage in content.values() if word in passage.text.split(", ")}


class IndexStory(Story):
    """The life of one index folder."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="index-story-"))
        self.content: Content = {}
        self.mode: LinkMode = "titles"
        self.held: list[tuple[Index, Content, LinkMode]] = []
        self.clean = True

    @initialize(first=corpora, mode=st.sampled_from(["titles", "titles", "own", False]))
    def begin(self, first: list[Passage], mode: LinkMode) -> None:
        self.mode = mode
        self.content = {passage.id: passage for passage in first}
        build_index(open_corpus(first), self.folder / "index", links=mode)

    @rule(given=corpora, mode=st.sampled_from(["titles", "own", False]), fault=st.none() | kills | refusals | limits)
    def build_over(self, given: list[Passage], mode: LinkMode, fault: Fault | None) -> None:
        before = self.mode
        self.mode = mode if self._change("build", given, mode, fault) else before

    @rule(given=corpora, replace=st.booleans(), fault=st.none() | kills | refusals | limits)
    def add(self, given: list[Passage], replace: bool, fault: Fault | None) -> None:
        self._change("add", given, replace, fault)

    @rule(
        given=st.sets(ids, min_size=1, max_size=4).map(sorted),
        missing_ok=st.sampled_from([True, True, False]),
        fault=st.none() | kills | refusals,
    )
    def remove(self, given: list[str], missing_ok: bool, fault: Fault | None) -> None:
        self._change("remove", given, missing_ok, fault)

    @rule()
    def hold(self) -> None:
        """A reader keeps its state, whatever becomes of the folder."""
        self.held.append((open_index(self.folder / "index"), dict(self.content), self.mode))

    @rule()
    def let_go(self) -> None:
        self.held.clear()
        self.clean = False  # the states of the readers stay until the next change

    @invariant()
    def it_is_the_model(self) -> None:
        if not self.content:
            return
        check(open_index(self.folder / "index"), self.content, self.mode)
        for index, content, mode in self.held:
            check(index, content, mode)
        if self.clean:
            assert [path.name for path in self.folder.iterdir()] == ["index"]
            there = [path for path in (self.folder / "index").iterdir() if path.name.startswith("state-")]
            assert len(there) <= 1 + len(self.held)

    def teardown(self) -> None:
        self.held.clear()
        shutil.rmtree(self.folder)

    def _change(self, kind: str, given: Sequence[Any], option: Any, fault: Fault | None) -> bool:
        """Make a change, here or in a victim; True if the index holds it now."""
        new = after(self.content, kind, given, option)
        if fault is None:
            self.clean = True
            if new is None:
                with pytest.raises(DataError, match=r"nothing is|all its passages would be removed"):
                    change(self.folder, kind, _plain(given), option)
                return False
            change(self.folder, kind, _plain(given), option)
            self.content = new
            return True
        outcome = self.processes.run(self.folder, kind, _plain(given), option, fault=fault)
        self.clean = outcome.status == 0
        if outcome.status == 0:
            assert new is not None
            self.content = new
            return True
        if outcome.status == 2:
            assert outcome.error.count("\n") == 1
            count("changes refused")
            return False  # and the invariant finds the old index
        count("changes killed")
        try:
            check(open_index(self.folder / "index"), self.content, self.mode)
        except (AssertionError, IndexFolderError):
            assert new is not None
            self.content = new
            return True
        return False


def _is_same(one: Passage | None, other: Passage) -> bool:
    """True if all of two passages is equal; they compare by their ids alone."""
    return one is not None and one.to_dict() == other.to_dict()


def _plain(given: Sequence[Any]) -> list[Any]:
    return [each.to_dict() if isinstance(each, Passage) else each for each in given]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")
def test_an_index_is_always_what_its_changes_made_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_on_disk", lambda path: None)
    with victims(f"{__name__}:change", tmp_path) as processes:
        tell(IndexStory, processes, examples=tries(12), steps=12)
