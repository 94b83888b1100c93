"""Which parts of documents refer to which, in folders made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.retrieval import Index, build_index
from polyhop.retrieval.links import LinkMode
from polyhop.retrieval.references import MAX_ADDRESSED, MAX_REFERENCES
from polyhop.retrieval.updating import add_passages, remove_passages
from polyhop.types import Passage


def index_of(folder: Path, files: dict[str, str], links: LinkMode = "titles") -> Index:
    """The index of a folder with these files."""
    for name, text in files.items():
        (folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "files" / name).write_text(text, encoding="utf-8")
    return build_index(open_corpus(folder / "files"), folder / "index", links=links)


def linked(index: Index, id: str) -> list[str]:
    passage = index.passages.by_id(id)
    assert passage is not None
    return [target.id for target in index.links(passage)]


REFERRED = {
    "notes.md": "# What to know\n\nPriya Raman lives in Malmö.\n\n## Night shift\n\nIt begins at ten.",
    "tickets.csv": "id,summary,state\nINC-203,Slow page,open\nINC-204,Wrong totals,shut",
    "contract.txt": "Contract with Voltkraft\n\n7.1 Payment is due in May.\n7.2 The limit of liability is 40 EUR.",
    "people.csv": "name,desk,floor\nOmar Haddad,4,2\nIda Lund,5,2",
}
REFERRING = [
    ("own/a.md", "Read [this](../notes.md).", ["notes.md#1", "notes.md#2"]),
    ("own/b.md", "Read [this](../notes.md#night-shift).", ["notes.md#2"]),
    ("own/c.md", "Read [this](/notes.md#gone).", ["notes.md#1", "notes.md#2"]),
    ("own/d.html", "<p>Read <a class=x href='../notes.md#Night%20shift'>this</a>.", ["notes.md#2"]),
    ("own/e.md", "| Name | See |\n|-|-|\n| one | [this](../notes.md#night-shift) |", ["notes.md#2"]),
    ("own/f.md", "Read [this](https://example.com/notes.md) or [that](../../notes.md).", []),
    ("own/g.txt", "Read Notes.md.", ["notes.md#1", "notes.md#2"]),
    ("own/h.txt", "Read ../notes.md, mail me at x@notes.me.", ["notes.md#1", "notes.md#2"]),
    ("own/i.txt", "It was seen before as INC-204, too.", ["tickets.csv#1"]),
    ("own/j.txt", "It was seen before as INC-20 and INC-2041.", []),
    ("own/k.txt", "They cite clause 7.2 of it.", ["contract.txt#1"]),
    ("own/l.txt", "They cite clause 7 of it, in 7.2 days.", []),
    ("own/m.txt", "We asked Omar Haddad's team, not Ada.", ["people.csv#1"]),
    ("own/n.txt", "We asked Omar about Priya Raman.", ["notes.md#1"]),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return index_of(tmp_path_factory.mktemp("folder"), REFERRED | {name: text for name, text, _ in REFERRING})


@pytest.mark.parametrize(("name", "text", "expected"), REFERRING)
def test_a_passage_of_a_document_links_to_what_it_refers_to(
    index: Index, name: str, text: str, expected: list[str]
) -> None:
    assert linked(index, f"{name}#1") == expected


def test_a_number_means_a_heading_of_the_same_file_first(tmp_path: Path) -> None:
    rules = "# Rules\n\n## 1. Scope\n\nSee section 2 and section 3.1.\n\n## 2. Fees\n\nNone.\n\n## 3.1 Dues\n\nTen."
    index = index_of(tmp_path, {"rules.md": rules, "more.md": rules.replace("Rules", "More rules")})
    assert linked(index, "rules.md#1") == ["rules.md#2", "rules.md#3"]
    assert linked(index, "more.md#1") == ["more.md#2", "more.md#3"]


def test_an_identifier_of_many_passages_leads_nowhere(tmp_path: Path) -> None:
    files = {f"{number}.txt": f"INC-204 was seen in week {number}." for number in range(MAX_ADDRESSED)}
    index = index_of(tmp_path / "few", files | {"it.txt": "This may well be the INC-204 again."})
    assert linked(index, "it.txt#1") == [f"{name}#1" for name in files]
    index = index_of(
        tmp_path / "many", files | {"x.txt": "INC-204 is back.", "it.txt": "This may well be the INC-204 again."}
    )
    assert linked(index, "it.txt#1") == []


def test_a_list_of_many_files_links_to_the_first(tmp_path: Path) -> None:
    files = {f"n{number:02}.txt": f"About a thing of number {number}." for number in range(MAX_REFERENCES + 5)}
    index = index_of(tmp_path, files | {"it.txt": f"We have {', '.join(files)}."})
    assert linked(index, "it.txt#1") == [f"{name}#1" for name in list(files)[:MAX_REFERENCES]]


def test_articles_link_by_titles_alone(tmp_path: Path) -> None:
    text = "Ada Byron wrote INC-204, clause 7.2 and it.md."
    passages = [Passage("it.md", "One", text), Passage("b", "Two", text), Passage("c", "Three", "One.")]
    index = build_index(open_corpus(passages), tmp_path / "index")
    assert [linked(index, id) for id in ("it.md", "b", "c")] == [[], [], ["it.md"]]


def test_own_links_are_hyperlinks_alone(tmp_path: Path) -> None:
    files = {"it.md": "Read [this](a.md), not b.md or B.", "a.md": "First.", "b.md": "# B\n\nSecond."}
    assert linked(index_of(tmp_path, files, "own"), "it.md#1") == ["a.md#1"]


def test_targets_are_metadata_of_the_passage_with_the_link_and_leave_texts_alone(tmp_path: Path) -> None:
    (tmp_path / "it.md").write_text(f"See [a](x/a.md#b) or [web](https://a.b).\n\n{'Words of it. ' * 60}\n\n[c](c.md)")
    first, *others, last = open_corpus(tmp_path)
    assert first.text.startswith("See a or web.\nWords of it. ")
    assert first.metadata == {"source": "it.md", "targets": ["x/a.md#b"]}
    assert last.metadata["targets"] == ["c.md"]
    assert all("targets" not in passage.metadata for passage in others)


def test_updates_find_new_targets_and_fall_back_from_removed_ones(tmp_path: Path) -> None:
    files = {"it.md": "See [a](a.md#life) and INC-204.", "a.md": "First words."}
    folder = index_of(tmp_path, files).folder
    life = Passage("a.md#2", "a › Life", "INC-204 is there.", metadata={"source": "a.md", "heading": "Life"})
    assert linked(add_passages(folder, open_corpus([life])).index, "it.md#1") == ["a.md#2"]
    assert linked(remove_passages(folder, ["a.md#2"]).index, "it.md#1") == ["a.md#1"]
