"""Search and links in other languages than English: each over a few passages of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import polyhop
from polyhop.data.corpora import open_corpus
from polyhop.errors import IndexFolderError, UnknownName
from polyhop.retrieval import Index, build_index, index_for, open_index, open_plain_retriever
from polyhop.retrieval import sealed_folder as folder
from polyhop.retrieval.analysis import BIGRAMS, LANGUAGES, WITHOUT_STOP_WORDS, Analysis
from polyhop.retrieval.tfidf import similarities
from polyhop.types import Passage
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

PASSAGES = {
    "english": [
        Passage("mill", "The Mill on the Floss", "George Eliot wrote of mills and of a brother and his sister."),
        Passage("eliot", "George Eliot", "She was born in Warwickshire and studied languages."),
        Passage("brontë", "Emily Brontë", "The author of one novel lived in Haworth."),
    ],
    "german": [
        Passage("buddenbrooks", "Buddenbrooks", "Thomas Mann erzählt vom Verfall einer Familie und ihrer Häuser."),
        Passage("mann", "Thomas Mann", "Der Schriftsteller wurde in Lübeck geboren und starb bei Zürich."),
        Passage("strauß", "Johann Strauß", "Über die Straßen Wiens klangen seine Walzer."),
    ],
    "french": [
        Passage("germinal", "Germinal", "Émile Zola y raconte la grève des mineurs du nord."),
        Passage("zola", "Émile Zola", "L'écrivain est né à Paris ; ses journaux étaient célèbres."),
        Passage("sand", "George Sand", "Elle écrivait des romans champêtres à Nohant."),
    ],
    "chinese": [
        Passage("呐喊", "呐喊", "《呐喊》是鲁迅的第一部小说集，出版于1923年。"),
        Passage("鲁迅", "鲁迅（作家）", "他生于浙江绍兴，曾在日本学医。"),
        Passage("绍兴", "绍兴", "绍兴是一座水城，以黄酒闻名。"),
        Passage("unicode", "Unicode", "UTF-8 是 Unicode 的一种编码，网页大多使用它。"),
    ],
    "japanese": [
        Passage("心", "こころ", "『こころ』は夏目漱石が書いた長編小説である。"),
        Passage("漱石", "夏目漱石", "江戸の牛込に生まれ、ロンドンに留学した。"),
    ],
    "korean": [
        Passage("진달래꽃", "진달래꽃", "김소월이 쓴 시로 1922년에 발표되었다."),
        Passage("김소월", "김소월", "평안북도에서 태어난 시인이다."),
    ],
}


def built(language: str, folder: Path, *, stem: bool = True, stop_words: bool = True) -> Index:
    corpus = open_corpus(PASSAGES[language], language=language)
    return build_index(corpus, folder / "index", stem=stem, stop_words=stop_words)


def found(index: Index, query: str, retriever: str = "bm25") -> list[str]:
    return [passage.id for passage in open_plain_retriever(retriever, index).search(query, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("retriever", ["bm25", "tfidf"])
@pytest.mark.parametrize(
    ("language", "query", "expected"),
    [
        ("english", "which language did she study", ["eliot"]),
        ("english", "Emily Bronte", ["brontë"]),
        ("english", "the of and", []),
        ("german", "ein Haus", ["buddenbrooks"]),
        ("german", "Welche Schriftstellerin ist gebürtig aus Lubeck?", ["mann"]),
        ("german", "STRASSE", ["strauß"]),
        ("german", "Zurich", ["mann"]),
        ("german", "und die der über", []),
        ("french", "une écrivaine et son journal", ["zola"]),
        ("french", "emile zola raconter", ["germinal", "zola"]),
        ("french", "roman champêtre", ["sand"]),
        ("french", "les greves d'un mineur", ["germinal"]),
        ("french", "à la qu'il", []),
        ("chinese", "黄酒", ["绍兴"]),
        ("chinese", "小说集的作者", ["呐喊"]),
        ("chinese", "ｕｔｆ 编码", ["unicode"]),
        ("chinese", "unicode", ["unicode"]),
        ("chinese", "兴绍", []),
        ("japanese", "長編小説", ["心"]),
        ("japanese", "ﾛﾝﾄﾞﾝ", ["漱石"]),
        ("korean", "시인", ["김소월"]),
    ],
)
def test_words_are_found_in_other_forms_and_stop_words_are_not(
    tmp_path: Path, language: str, query: str, expected: list[str], retriever: str
) -> None:
    assert sorted(found(built(language, tmp_path), query, retriever)) == sorted(expected)


def test_stems_and_stop_words_are_switched_off_in_any_language(tmp_path: Path) -> None:
    plain = built("german", tmp_path, stem=False, stop_words=False)
    assert found(plain, "Haus") == []
    assert found(plain, "Häuser") == ["buddenbrooks"]
    assert found(plain, "die") == ["strauß"]
    assert plain.facts["stemmer"] is None


def test_letters_written_as_two_characters_are_the_same_letters() -> None:
    for language in ("german", "turkish", "chinese"):
        assert Analysis(language, stem=False).terms("Zu\u0308rich") == Analysis(language, stem=False).terms("Zürich")
    assert Analysis("turkish").terms("İstanbul") == Analysis("turkish").terms("Istanbul")
    assert Analysis("tamil", stem=False).terms("எழுத்தாளர்") == ["எழுத்தாளர்"]


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_each_language_has_an_analysis_and_its_stop_words(language: str) -> None:
    import tantivy

    analysis = Analysis(language)
    assert analysis.terms("Berlin 1884")
    assert (analysis.stemmer is None) == (language in BIGRAMS)
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    if language in BIGRAMS | WITHOUT_STOP_WORDS:
        with pytest.raises(ValueError, match="language"):
            builder.filter(tantivy.Filter.stopword(language)).build()


def test_an_unknown_language_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownName, match=r"unknown language 'klingon'\. Valid: arabic, chinese, danish, .*, turkish\."
    ):
        index_for(open_corpus(PASSAGES["german"], language="klingon"))


# --- links ----------------------------------------------------------------------------------------------------------


def linked(index: Index, id: str) -> list[str]:
    passage = index.passages.by_id(id)
    assert passage is not None
    return [target.id for target in index.links(passage)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "id", "targets"),
    [
        ("german", "buddenbrooks", ["mann"]),
        ("french", "germinal", ["zola"]),
        ("chinese", "呐喊", ["鲁迅"]),
        ("chinese", "鲁迅", ["绍兴"]),
        ("chinese", "绍兴", []),
        ("japanese", "心", ["漱石"]),
        ("korean", "진달래꽃", ["김소월"]),
    ],
)
def test_titles_are_found_in_texts(tmp_path: Path, language: str, id: str, targets: list[str]) -> None:
    assert linked(built(language, tmp_path), id) == targets


def test_a_stop_word_of_the_language_names_no_page(tmp_path: Path) -> None:
    passages = [Passage("die", "Über", "Ein Buch."), Passage("it", "Anderes", "Über allen Gipfeln ist Ruh.")]
    assert linked(build_index(open_corpus(passages, language="german"), tmp_path / "german"), "it") == []
    assert linked(build_index(open_corpus(passages), tmp_path / "english"), "it") == ["die"]


def test_a_word_that_many_passages_hold_names_no_page_in_chinese_too(tmp_path: Path) -> None:
    many = [Passage(f"p{number}", f"第{number}页", "中国的绍兴。") for number in range(51)]
    passages = [Passage("中国", "中国", "国家。"), Passage("绍兴", "绍兴", "城市。"), *many]
    index = build_index(open_corpus(passages, language="chinese"), tmp_path / "index")
    assert linked(index, "p0") == []
    fewer = build_index(open_corpus(passages[:40], language="chinese"), tmp_path / "fewer")
    assert linked(fewer, "p0") == ["中国", "绍兴"]


def test_the_longest_title_wins_and_one_character_is_none(tmp_path: Path) -> None:
    titles = ["水", "黄酒", "绍兴黄酒"]
    passages = [Passage(title, title, "其他") for title in titles] + [Passage("it", "其它", "绍兴黄酒用鉴湖的水。")]
    assert linked(build_index(open_corpus(passages, language="chinese"), tmp_path / "index"), "it") == ["绍兴黄酒"]


def test_two_hops_in_chinese(tmp_path: Path) -> None:
    index = built("chinese", tmp_path)
    (first,) = open_plain_retriever("bm25", index).search("小说集的作者", 1)
    (author,) = index.links(first)
    (birthplace,) = index.links(author)
    assert (first.id, author.id, birthplace.id) == ("呐喊", "鲁迅", "绍兴")


# --- one language from the corpus to the query ----------------------------------------------------------------------


def test_an_index_keeps_its_language(tmp_path: Path) -> None:
    german = built("german", tmp_path)
    again = open_index(german.folder)
    assert again.analysis == Analysis("german")
    assert found(again, "ein Haus") == ["buddenbrooks"]
    with pytest.raises(IndexFolderError, match="it was built in german, not french"):
        index_for(open_corpus(german.folder, language="french"))
    assert index_for(open_corpus(german.folder)).analysis.language == "german"
    with pytest.raises(UnknownName, match="unknown language 'frensh'; did you mean 'french'"):
        index_for(open_corpus(german.folder, language="frensh"))


def test_an_index_of_before_there_were_languages_is_english(tmp_path: Path) -> None:
    index = built("english", tmp_path)
    facts = {name: value for name, value in index.facts.items() if name not in ("language", "files", "checksum")}
    folder.write_manifest(index.folder, kind="index", version=2, facts=facts, state=index.state.name)
    old = open_index(index.folder)
    assert "language" not in old.facts
    assert old.analysis == Analysis()
    assert found(old, "languages") == ["eliot"]


@pytest.mark.slow
def test_each_language_has_an_index_of_its_own_in_the_cache() -> None:
    folders = {
        index_for(open_corpus(PASSAGES["german"], language=each)).folder
        for each in (None, "english", "german", "dutch")
    }
    assert len(folders) == 3  # None is English
    unstemmed = [index_for(open_corpus(PASSAGES["german"], language=each), stem=False) for each in (None, "chinese")]
    assert len({index.folder for index in unstemmed}) == 2


def test_a_run_measures_likeness_in_its_corpus_language() -> None:
    texts = ["鲁迅生于绍兴。", "黄酒"]
    assert similarities("鲁迅的出生地", texts) == [0.0, 0.0]
    assert similarities("鲁迅的出生地", texts, Analysis("chinese"))[0] > 0
    with polyhop.Pipeline(open_corpus(PASSAGES["chinese"], language="chinese"), "direct", "pocket") as qa:
        assert qa.engine.analysis.language == "chinese"


def test_an_answer_is_cited_where_chinese_text_holds_it() -> None:
    from polyhop.answer import Answer, cite
    from polyhop.types import Evidence

    (citation,) = cite(Answer("绍兴", evidence=(Evidence((PASSAGES["chinese"][1],)),)))
    assert PASSAGES["chinese"][1].text[citation.start : citation.end] == "绍兴"


@pytest.mark.slow
def test_the_command_line_takes_a_language(tmp_path: Path, cli: Cli) -> None:
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "index"
    corpus.write_text("".join(json.dumps(p.to_dict()) + "\n" for p in PASSAGES["german"]))
    assert "language: german" in cli("index", "build", corpus, "--out", out, "--language", "german").out
    assert json.loads(cli("index", "info", out, "--json").out)["language"] == "german"
    for where, *language in ([out], [corpus, "--language", "german"]):
        rows = json.loads(cli("search", where, "ein Haus", "--json", *language).out)
        assert [row["id"] for row in rows] == ["buddenbrooks"]
    wrong = cli("search", corpus, "ein Haus", "--language", "germn")
    assert (wrong.code, "did you mean 'german'? Valid: arabic" in wrong.err) == (2, True)
    asked = ("--corpus", corpus, "--method", "one-r", "--language", "german", "--json")
    printed = json.loads(cli("ask", "Wer schrieb die Buddenbrooks?", *asked).out)
    assert printed["passages"]
