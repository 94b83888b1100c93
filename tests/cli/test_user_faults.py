"""A newcomer's mistakes are reported before any call: what is wrong, and what would work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from polyhop import Passage, Pipeline, Question, ScriptedLM, evaluate, open_corpus
from polyhop.errors import DataError, SettingError, UnknownName, UsageError
from polyhop.evaluation.store import read_report, run_folders
from polyhop.lm.base import Capabilities, Request
from polyhop.methods.registry import method_named
from polyhop.retrieval.engines.base import address_of
from polyhop.retrieval.index import build_index
from tests.kit.terminal import run_cli

CORPUS = [Passage("1", "Elstow", "Elstow is the village where John Bunyan was born.")]


@pytest.mark.parametrize(
    ("name", "meant"), [("reviwer", "reviewer"), ("tor.revew", "tor.review"), ("promptrank.pth", "promptrank.path")]
)
def test_a_misspelt_role_or_task_is_no_model_left_unasked(name: str, meant: str) -> None:
    with pytest.raises(UnknownName, match=f"did you mean '{meant}'"):
        Pipeline(CORPUS, lm={"default": "pocket", name: "pocket"})
    Pipeline(CORPUS, lm={"default": "pocket", meant: "pocket"}).close()


def test_a_role_that_ones_own_prompt_file_names_is_known(tmp_path: Path) -> None:
    from polyhop.prompts.book import PromptBook

    own = PromptBook()["tor.review"].text.replace('role = "reviewer"', 'role = "critic"')
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "tor.review.md").write_text(own)
    lm = {"default": "pocket", "critic": "pocket"}
    Pipeline(CORPUS, lm=lm, prompts=folder).close()
    with pytest.raises(UnknownName, match="critic"):
        Pipeline(CORPUS, lm=lm)


@pytest.mark.parametrize("question", [None, 3, ["Where?"]])
def test_a_question_is_a_text(question: Any) -> None:
    with Pipeline(CORPUS) as pipeline, pytest.raises(UsageError, match=f"not a {type(question).__name__}"):
        pipeline.ask(question)


def test_what_cannot_search_is_no_retriever_and_what_cannot_read_no_reader() -> None:
    with pytest.raises(UsageError, match=r"retriever=42: must be a name, a callable"):
        Pipeline(retriever=42)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"reader=42: must be a name, a callable"):
        Pipeline(CORPUS, "searchain", reader=42)  # type: ignore[arg-type]


def test_a_retriever_of_ones_own_is_told_what_it_must_have() -> None:
    class Half:
        name = "half"

        def search(self, query: str, k: int) -> list[Passage]:
            return CORPUS[:k]

        def links(self, passage: Passage) -> list[Passage]:
            return []

    with pytest.raises(UsageError, match=r"Half object .*, which has name, search, search_many and links$"):
        Pipeline(retriever=Half())  # type: ignore[arg-type]


class Plain:
    """A model as one writes it at first: its capabilities and its reply are of no type of ours."""

    name = "plain"

    def __init__(self, capabilities: object) -> None:
        self.capabilities = capabilities

    async def complete(self, request: Request) -> str:
        return f"a reply to {request.task}"


def test_a_model_of_ones_own_is_told_what_it_must_have_and_return() -> None:
    with pytest.raises(UsageError, match=r"'capabilities' must be polyhop\.lm\.base\.Capabilities"):
        Pipeline(CORPUS, "one-r", Plain(frozenset()))  # type: ignore[arg-type]
    lm: Any = Plain(Capabilities())
    wrong = r"plain: complete must return a polyhop\.lm\.base\.Completion, not a str"
    with Pipeline(CORPUS, "one-r", lm) as pipeline, pytest.raises(UsageError, match=wrong):
        pipeline.ask("Where was John Bunyan born?")


@pytest.mark.parametrize(
    ("dataset", "limit", "error"), [([Question("1", "Where?")], -1, SettingError), (["Where?"], None, UsageError)]
)
def test_a_dataset_is_questions_and_a_limit_none_below_0(
    dataset: Sequence[Any], limit: int | None, error: type[UsageError]
) -> None:
    with pytest.raises(error, match="limit=-1" if limit else "polyhop.Question objects, not a list with a str"):
        evaluate(dataset, CORPUS, limit=limit)


def test_a_folder_is_no_dataset_and_no_passages_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name the file of the questions"):
        evaluate(tmp_path, CORPUS)
    with pytest.raises(DataError, match=r"no passages in it$"):
        Pipeline([])


def test_a_cache_or_an_index_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"file/index: the folder cannot be made: .*; name another folder"):
        build_index(open_corpus(CORPUS), tmp_path / "file" / "index" / "mine")
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"the folder cannot be made: .*; set POLYHOP_CACHE"):
        Pipeline(CORPUS)


@pytest.mark.parametrize("lost", ["manifest.json", "state-*/passages.jsonl"])
def test_a_damaged_index_is_told_from_a_folder_of_no_corpus(tmp_path: Path, lost: str) -> None:
    build_index(open_corpus(CORPUS), tmp_path / "mine")
    (found,) = (tmp_path / "mine").glob(lost)
    found.unlink()
    with pytest.raises(DataError, match="an index, but a partial or damaged one; build the index again"):
        Pipeline(tmp_path / "mine")


@pytest.mark.parametrize("asked", [["search", "{}", "Elstow"], ["ask", "Where is Elstow?", "--corpus", "{}"]])
def test_what_was_skipped_is_reported(
    tmp_path: Path, asked: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bad.jsonl").write_text('{"id": "1", "text": "Elstow is a village."}\n{"id":\n')
    asked = [part.format(tmp_path / "bad.jsonl") for part in asked]
    assert "1 passage; left out: 1 malformed line\n" in run_cli(capsys, monkeypatch, *asked, "--skip-bad")[1]


def test_a_database_without_a_table_names_no_place_to_search() -> None:
    with pytest.raises(SettingError, match=r"does not say what to search: write postgres://localhost/DATABASE#TABLE"):
        address_of("postgres", "//ada:secret@localhost/mydb")


def test_a_folder_of_runs_is_told_from_a_run(tmp_path: Path) -> None:
    evaluate([Question("1", "Where was John Bunyan born?")], CORPUS, "one-r", out=tmp_path / "runs" / "one-r")
    with pytest.raises(DataError, match=r"not a run's folder"):
        read_report(tmp_path / "runs")
    assert run_folders(tmp_path / "runs") == [tmp_path / "runs" / "one-r"]


def test_a_setting_is_quoted_as_it_was_given() -> None:
    with pytest.raises(SettingError, match="tor: widths='5,x': "):
        method_named("tor").resolve({"widths": "5,x"})
    with pytest.raises(UnknownName, match=r"unknown setting of direct 'zzz'\. Valid: "):
        method_named("direct").resolve({"zzz": 1})


@pytest.mark.parametrize("option", ["timeout", "retries"])
def test_an_option_of_a_served_model_is_blamed_alone(option: str) -> None:
    with pytest.raises(SettingError, match=f"^{option}=-1: must be (above|at least) 0$"):
        Pipeline(CORPUS, lm="openai:m@http://127.0.0.1:9/v1", lm_options={option: -1})


def test_what_cannot_score_is_told_what_can() -> None:
    with pytest.raises(UsageError, match="a server that scores given text"):
        Pipeline(CORPUS, "promptrank", ScriptedLM({}))


def test_a_methods_settings_are_shown_as_the_command_line_takes_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out = run_cli(capsys, monkeypatch, "methods", "tor")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "widths=5,3,3 depth 3, nodes per layer (§4.4)" in lines
    assert any(line.startswith("expansion=mpc mpc: the missing paragraph") for line in lines)
    assert "or direct, cot" in " ".join(lines)
    assert "early_stop=(not set)" in out
    resolved = method_named("tor").resolve({"expansion": "direct", "relevance_pruning": "false", "early_stop": "judge"})
    assert (resolved["expansion"], resolved["relevance_pruning"], resolved["early_stop"]) == ("direct", False, "judge")


@pytest.mark.parametrize(("columns", "shown"), [("60", False), ("160", True)])
def test_the_list_of_methods_fits_the_terminal(
    columns: str, shown: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out = run_cli(capsys, monkeypatch, "methods", columns=columns)
    assert ("paper" in out.splitlines()[0]) == shown
    assert "Rank passages by BM25." in out
    assert all(len(line) <= int(columns) for line in out.splitlines())
    assert "toolformer" in out


def test_help_is_whole_lines_and_names_no_environment_variable_at_each_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb in ((), ("data",), ("tune",), ("index",), ("prompts",)):
        _, listed = run_cli(capsys, monkeypatch, *verb, "--help")[1].split("Commands:")
        assert "..." not in listed
    for line in ("run", "tune ge", "index build"):
        assert "env var" not in run_cli(capsys, monkeypatch, *line.split(), "--help")[1]


def test_the_environment_sets_options_but_not_what_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYHOP_VERSION", "1.2.3")  # as a build may have it
    monkeypatch.setenv("POLYHOP_METHODS_AS_JSON", "1")
    code, out = run_cli(capsys, monkeypatch, "methods", "bm25")
    assert code == 0
    assert out.startswith("{")
