"""Files of triplets: HippoRAG's are read, what is written is read again, and what models get wrong is dropped."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from polyhop.data.openie import Extraction, content_of, key_of, read_openie, write_openie
from polyhop.errors import DataError
from polyhop.types import Passage

LED = {"head": "Raft", "relation": "leader", "tail": "Ann"}
DOC = {
    "idx": "chunk-0",
    "passage": "Raft\nThe raft was led by Ann.",
    "extracted_entities": ["Raft", "Ann"],
    "extracted_triples": [["Raft", "leader", "Ann"]],
}
"""A document as HippoRAG's released files have it, with two more fields around them."""


def written(path: Path, *docs: object) -> Path:
    path.write_bytes(orjson.dumps({"docs": docs, "avg_ent_chars": 3.5, "avg_ent_words": 1.0}))
    return path


def test_hipporags_files_are_read(tmp_path: Path) -> None:
    found = read_openie(written(tmp_path / "openie.json", DOC))
    passage = Passage("7", "Raft", "The  raft was led by Ann.\n")
    assert found[key_of(content_of(passage))] == Extraction(DOC["passage"], ("Raft", "Ann"), (LED,))  # type: ignore[arg-type]


def test_what_is_written_is_read_again_and_has_hipporags_names(tmp_path: Path) -> None:
    extraction = Extraction("Raft\nThe raft was led by Ann.", ("Raft", "Ann"), (LED,))
    write_openie(tmp_path / "own.json", [extraction])
    assert [*read_openie(tmp_path / "own.json").values()] == [extraction]
    (doc,) = orjson.loads((tmp_path / "own.json").read_bytes())["docs"]
    assert doc == {**DOC, "idx": "chunk-369a7b88dea6117d4ea2f9455d113906"}  # the MD5 of the passage


def test_rows_that_are_no_triplet_are_dropped(tmp_path: Path) -> None:
    rows = [
        ["a", "b"],
        ["a", "b", "c", "d"],
        ["a", "", "c"],
        "a b c",
        ["Year", "of", 1947],
        ["a", None, "c"],
        [["a"], 1, 2],
    ]
    found = read_openie(written(tmp_path / "openie.json", {**DOC, "extracted_triples": rows}))
    (extraction,) = found.values()
    assert extraction.triplets == ({"head": "Year", "relation": "of", "tail": "1947"},)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"docs": 1}', b'{"docs": [1]}', b'{"docs": [{}]}', b'{"docs": [{"passage": 1}]}']
)
def test_another_form_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"other\.json: is not a file of triplets"):
        read_openie(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_openie(tmp_path / "none.json")
