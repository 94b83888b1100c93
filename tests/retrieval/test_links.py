"""Which passages link to which, on corpora made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.retrieval import Index, build_index
from polyhop.retrieval.links import LinkMode
from polyhop.retrieval.title_mentions import MAX_NAMESAKES, names_of
from polyhop.types import Passage


def make(folder: Path, passages: Sequence[Passage], links: LinkMode = "titles") -> Index:
    return build_index(open_corpus(passages), folder / "index", links=links)


def linked(index: Index, id: str) -> list[str]:
    passage = index.passages.by_id(id)
    assert passage is not None
    return [target.id for target in index.links(passage)]


def links_of(folder: Path, text: str, *titles: str) -> list[str]:
    """The titles that ``text`` links to, in order."""
    passages = [Passage(f"t{number}", title, "something else") for number, title in enumerate(titles)]
    index = make(folder, [Passage("it", "The page itself", text), *passages])
    return [titles[int(id[1:])] for id in linked(index, "it")]


@pytest.mark.parametrize(
    ("text", "titles", "expected"),
    [
        ("Directed by Jean Renoir in France.", ["France", "Jean Renoir"], ["Jean Renoir", "France"]),
        ("Jean Renoir's films", ["Jean Renoir"], ["Jean Renoir"]),
        ("It lies in New York City.", ["New York", "New York City", "York"], ["New York City"]),
        ("New York, New York City", ["New York", "New York City"], ["New York", "New York City"]),
        ("by jean renoir", ["Jean Renoir"], []),
        ("Renoirs", ["Renoir"], []),
        ("They starred in Chatterbox.", ["Chatterbox (1936 film)"], ["Chatterbox (1936 film)"]),
        (
            "In Chatterbox (1936 film) she",
            ["Chatterbox (1977 film)", "Chatterbox (1936 film)"],
            ["Chatterbox (1936 film)"],
        ),
        ("the 2001 film", ["2001 (film)"], []),
        (
            "by Ledgerline and Team Heron",
            ["Ledgerline › Ownership", "Teams › Team Heron (Oslo)"],
            ["Ledgerline › Ownership", "Teams › Team Heron (Oslo)"],
        ),
        ("In Oakdale Park he", ["Oakdale Park, New York"], ["Oakdale Park, New York"]),
        ("King John died", ["John, King of England"], []),
        ("by Emile Chautard", ["Émile Chautard"], ["Émile Chautard"]),
        ("by Émile Chautard", ["Emile Chautard"], ["Emile Chautard"]),
        ("Beck, Bogert & Appice", ["Beck, Bogert & Appice"], ["Beck, Bogert & Appice"]),
        ("directed by O'Brien; AC/DC sang", ["O'Brien", "AC/DC"], ["O'Brien", "AC/DC"]),
        ("It was his. The end of 1984 was near", ["It", "The", "1984", "near", "A"], []),
        ("上海 的 city", ["上海"], ["上海"]),
    ],
)
def test_mentions(tmp_path: Path, text: str, titles: list[str], expected: list[str]) -> None:
    assert links_of(tmp_path, text, *titles) == expected


def test_a_passage_never_links_to_itself_and_to_another_only_once(tmp_path: Path) -> None:
    passages = [
        Passage("a", "Ada Byron", "Ada Byron met Paris and Paris."),
        Passage("p", "Paris", "Ada Byron in Paris"),
    ]
    index = make(tmp_path, passages)
    assert linked(index, "a") == ["p"]
    assert linked(index, "p") == ["a"]


@pytest.mark.slow
def test_a_title_of_several_passages_links_to_all_up_to_a_few(tmp_path: Path) -> None:
    pages = [Passage(f"w{number:02}", "Warsaw", f"Part {number}") for number in range(MAX_NAMESAKES + 5)]
    films = [Passage("film", "Warsaw (1952 film)", "A film.")]
    index = make(tmp_path, [*films, *pages, Passage("it", "Chopin", "He left Warsaw.")])
    assert linked(index, "it") == [page.id for page in pages[:MAX_NAMESAKES]]
    few = make(tmp_path / "few", [*films, *pages[:2], Passage("it", "Chopin", "He left Warsaw.")])
    assert linked(few, "it") == ["w00", "w01", "film"]  # the exact title first, then its namesakes


def test_a_single_word_that_many_passages_hold_links_nowhere(tmp_path: Path) -> None:
    texts = ["The United Nations and Oslo in United Airlines."] * 60
    passages = [Passage(f"p{number}", f"Page {number} of it", text) for number, text in enumerate(texts)]
    titles = [
        Passage("u", "United", "A club."),
        Passage("n", "United Nations", "A body."),
        Passage("o", "Oslo", "City."),
    ]
    index = make(tmp_path, [*passages[:40], *titles])
    assert linked(index, "p0") == ["n", "o", "u"]
    index = make(tmp_path / "more", [*passages, *titles])
    assert linked(index, "p0") == ["n"]  # more than 50 passages, and more than 3 % of them


@pytest.mark.slow
def test_hyperlinks_of_the_corpus_are_kept_instead(tmp_path: Path) -> None:
    passages = [
        Passage(
            "a", "Ada", "She knew Paris and Rome.", links=("Rome", "Nowhere", "Émile (book)", "Rome", "Ada", "1984")
        ),
        Passage("p", "Paris", "Rome is older."),
        Passage("r", "Rome", "A city."),
        Passage("e", "Émile (book)", "A book."),
        Passage("e2", "Émile (film)", "A film."),
        Passage("r2", "Rome (film)", "A film."),
        Passage("n", "1984", "A novel.", links=("Émile", "1984", "ADA", "Paris")),
    ]
    for mode in ("titles", "own"):
        index = make(tmp_path / mode, passages, links=mode)
        assert index.link_mode == "own"
        assert linked(index, "a") == ["r", "e", "n"]
        assert linked(index, "p") == []
        assert linked(index, "n") == ["p"]


@pytest.mark.slow
def test_own_links_alone_or_none(tmp_path: Path) -> None:
    passages = [Passage("a", "Ada", "She knew Paris."), Passage("p", "Paris", "A city.")]
    assert linked(make(tmp_path / "1", passages), "a") == ["p"]
    assert linked(make(tmp_path / "2", passages, links="own"), "a") == []
    assert linked(make(tmp_path / "3", passages, links=False), "a") == []


def test_a_passage_the_index_does_not_hold_has_no_links(tmp_path: Path) -> None:
    index = make(tmp_path, [Passage("p", "Paris", "A city.")])
    assert index.links(Passage("new", "New", "She knew Paris.")) == []


@pytest.mark.parametrize("title", ["", " ", "()", "(film)", "?!", "it", "The", "12", "x", "X", "lower"])
def test_a_title_that_singles_nothing_out_has_no_name(title: str) -> None:
    assert names_of(title) == []
