"""Sweeps: what a file says, what points share, and that sharing changes nothing but the number of calls."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from polyhop import Passage, Question
from polyhop.cli.app import app
from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, LMError, PolyhopError, SettingError, UnknownName, UsageError
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.runs import combinations, folder_name
from polyhop.evaluation.sweeps.estimate import estimate
from polyhop.evaluation.sweeps.plan import Plan, read_plan
from polyhop.evaluation.sweeps.sweep import REPLIES, sweep
from polyhop.lm import names
from polyhop.lm.cache import request_key
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import methods
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import Index, index_for

EXAMPLE = Path(__file__).parents[3] / "examples" / "tor-tables.toml"
run = CliRunner().invoke

PASSAGES = [
    Passage("film", "Alien", "Alien is a film directed by Ridley Scott."),
    Passage("man", "Ridley Scott", "Ridley Scott is a director born in South Shields."),
    Passage("town", "South Shields", "South Shields is a town, born of the sea trade."),
    Passage("other", "Blade Runner", "Blade Runner is another film directed by Ridley Scott."),
]
QUESTIONS = [
    Question("q1", "Where was the director of Alien born?", ("South Shields",), gold_ids=("film", "man")),
    Question("q2", "Who directed the film Blade Runner?", ("Ridley Scott",), gold_ids=("other",)),
    Question("q3", "Is the town of South Shields by the sea?", ("yes",), gold_ids=("town",)),
]


@pytest.fixture(scope="module")
def index() -> Index:
    return index_for(open_corpus(PASSAGES))


def script(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Every passage but the town is relevant, and a path through the man is enough."""
    if task == "tor.review":
        ids = [passage.id for passage in fields["passages"]]
        query = "who is the director" if len(fields["question"]) % 2 else "films"
        return {"relevant": ids[-1] != "town", "supported": "man" in ids, "answer": ids[0], "query": query}
    if task == "tor.complete":
        return {"information": "a director born in a town"}
    return {"answer": f"{len(fields.get('evidence', ()))}"}


def lm(**options: Any) -> ScriptedLM:
    return ScriptedLM(script, **options)


def tables(index: Index, model: Any, **more: Any) -> dict[str, Any]:
    """A cut of the shipped example: its settings at smaller widths."""
    grids = [
        {"fusion": ["evidence", "paragraph"]},
        {"expansion": ["mpc", "direct"]},
        {"repetitive_pruning": [True, False], "relevance_pruning": [True, False]},
        {"widths": [[2, 2], [3, 2]]},
    ]
    base = {"dataset": QUESTIONS, "corpus": index, "lm": model, "method": "tor", "widths": [2, 2]}
    return {"run": {**base, **more}, "grid": grids}


def write(folder: Path, text: str) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text)
    return path


# --- the file --------------------------------------------------------------------------------------------------------


def test_grids_are_combined_one_by_one_and_points_stand_by_themselves(tmp_path: Path) -> None:
    plan = read_plan(
        write(
            tmp_path,
            """
            [run]
            dataset = "demo"
            limit = 4
            shots = 1
            [[grid]]
            fusion = ["evidence", "paragraph"]
            widths = [[5, 3], [5]]
            [[grid]]
            method = ["one-r", "direct"]
            [[point]]
            [[point]]
            method = "one-r"
            k = 2
            retriever = "tfidf"
            """,
        )
    )
    assert [point.name for point in plan.points] == [
        "widths=5-3",
        "widths=5",
        "fusion=paragraph,widths=5-3",
        "fusion=paragraph,widths=5",
        "method=one-r",
        "method=direct",
        "base",
        "method=one-r,k=2,retriever=tfidf",
    ]
    assert (plan.dataset, plan.corpus, plan.limit, plan.title) == ("demo", "demo", 4, "demo")
    assert plan.points[2].settings == {"shots": 1, "fusion": "paragraph", "widths": (5, 3)}
    assert plan.points[-1].settings == {"shots": 1, "k": 2}
    assert plan.points[-1].options["retriever"] == "tfidf"


def test_points_that_come_to_the_same_are_one() -> None:
    base = {"dataset": "demo", "widths": [5, 3]}
    same = {"expansion": "mpc", "widths": "5,3"}
    plan = read_plan({"run": base, "grid": {"fusion": ["evidence", "evidence"]}, "point": [{}, same, {"seed": 1}]})
    assert [point.name for point in plan.points] == ["base", "seed=1"]


def test_a_setting_of_run_goes_to_the_methods_that_have_it() -> None:
    plan = read_plan(
        {"run": {"dataset": "demo", "k": 3, "widths": [2]}, "grid": {"method": ["tor", "one-r", "direct"]}}
    )
    assert [dict(point.settings) for point in plan.points] == [{"widths": (2,)}, {"k": 3}, {}]


def test_a_settings_file_stands_below_what_is_set(tmp_path: Path) -> None:
    held = {"method": "tor", "settings": {"widths": [4, 2], "shots": 2}}
    (tmp_path / "tuned.json").write_text(json.dumps(held))
    path = str(tmp_path / "tuned.json")
    plan = read_plan({"run": {"dataset": "demo", "set_from": path}, "point": [{}, {"shots": 0}, {"widths": [4, 2]}]})
    assert [dict(point.settings) for point in plan.points] == [
        {"widths": (4, 2), "shots": 2},
        {"widths": (4, 2), "shots": 0},
    ]
    with pytest.raises(SettingError, match=r"\[point\].*set_from.*of tor, not of ge"):
        read_plan({"run": {"dataset": "demo"}, "point": [{"method": "ge", "set_from": path}]})


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[run", DataError, "not a sweep"),
        ('[run]\ndataset = "demo"', DataError, "a sweep needs points"),
        ("[[point]]", DataError, "names no dataset"),
        ("[runs]", UnknownName, r"unknown table in .*sweep.toml: 'runs'; did you mean 'run'"),
        ('[run]\ndataset = "demo"\nwidhts = [5]\n[[point]]', UnknownName, r"sweep.toml, \[run\]: 'widhts'.*'widths'"),
        ('[run]\ndataset = "demo"\nk = 5\n[[point]]', UnknownName, r"\[run\]: 'k'"),
        ('[run]\ndataset = "demo"\n[grid]\nfusoin = ["a"]', UnknownName, r"sweep.toml, \[grid\]: 'fusoin'.*'fusion'"),
        ('[run]\ndataset = "demo"\n[[point]]\n[[point]]\nk = 2', UnknownName, r"\[\[point\]\] 2: 'k'.*method is tor"),
        ('[run]\ndataset = "demo"\n[[point]]\nlimit = 2', SettingError, r"\[\[?point\]?\]: limit is common"),
        ('[run]\ndataset = "demo"\n[grid]\nfusion = "evidence"', SettingError, r"\[grid\]: fusion='evidence': must be"),
        ('[run]\ndataset = "demo"\n[grid]\nfusion = []', SettingError, r"\[grid\]: fusion: no value"),
        ('[run]\ndataset = "demo"\n[grid]\nfusion = ["x"]', SettingError, r"\[grid\]: tor: fusion='x'"),
        ('[run]\ndataset = "demo"\nshots = "x"\n[[point]]', SettingError, r"\[run\]: tor: shots='x'"),
        ('[run]\ndataset = "demo"\nlimit = "x"\n[[point]]', SettingError, r"\[run\]: limit='x'"),
        ('[run]\ndataset = "demo"\nlimit = 0\n[[point]]', SettingError, r"\[run\]: limit=0"),
        ("[run]\ndataset = 5\n[[point]]", SettingError, r"\[run\]: dataset=5: .*must be a name"),
        ('[run]\ndataset = ["a", "b"]\n[[point]]', SettingError, r"\[run\]: dataset=.*must be a name"),
        ('[run]\ndataset = "demo"\nlm = {default = 1}\n[[point]]', SettingError, r"\[run\]: lm=.*must be a name"),
        ('[run]\ndataset = "demo"\nseed = true\n[[point]]', SettingError, r"\[run\]: seed=True"),
        ('[run]\ndataset = "demo"\nmethod = "tro"\n[[point]]', UnknownName, r"'tro'; did you mean 'tor'"),
        ('[run]\ndataset = "demo"\n[[point]]\nmethod = ["tor"]', UnknownName, r"method in .*\[point\]"),
        ("grid = 5", SettingError, r"\[grid\]: must be a table"),
        ("run = 5", SettingError, r"\[run\]: must be a table"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(
    tmp_path: Path, text: str, error: type[PolyhopError], message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(error, match=message) as raised:
        read_plan(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.toml: the sweep cannot be read: No such file"):
        read_plan(tmp_path / "none.toml")


def test_what_a_point_cannot_do_is_found_before_the_first_call(index: Index, tmp_path: Path) -> None:
    model = lm()
    last: dict[str, Any]
    for last, message in (
        ({"method": "promptrank"}, "score"),
        ({"retriever": "bm52"}, r"bm52.*bm25"),
        ({"method": "tfidf", "retriever": "bm25"}, "a retriever itself"),
        ({"max_cost": 1.0}, "prices"),
        ({"timeout": 3}, "behind a server only"),
    ):
        plan = read_plan({"run": {"dataset": QUESTIONS, "corpus": index, "lm": model}, "point": [{}, last]})
        with pytest.raises(UsageError, match=rf"\[\[point\]\] 2: .*{message}"):
            sweep(plan, tmp_path / "out")
    assert not model.calls
    assert not list((tmp_path / "out").glob("base"))


def test_folder_names_are_safe_and_differ_by_value() -> None:
    names = [
        folder_name({"lm": name}) for name in ("openai:M@http://h/v1", "openai:m@http://h/v1", "a/../b", "é", "x" * 300)
    ]
    assert len(set(names)) == 5
    for name in names:
        assert Path(name).name == name
        assert len(name) < 120
    assert combinations({"a": (1, 2), "b": (3,)}) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]


# --- sharing ---------------------------------------------------------------------------------------------------------


def keys(model: ScriptedLM) -> list[bytes | None]:
    return [request_key("scripted", call) for call in model.calls]


def alone(plan: Plan, index: Index, out: Path, model: ScriptedLM) -> None:
    """Every point as a run by itself."""
    for point in plan.points:
        evaluate(QUESTIONS, index, point.method, model, out=out / point.name, title="questions", **point.settings)


@pytest.mark.slow
def test_each_distinct_request_is_asked_once_over_the_whole_sweep(index: Index, tmp_path: Path) -> None:
    apart, together = lm(), lm(latency=0.001)
    plan = read_plan(tables(index, together))
    alone(plan, index, tmp_path / "alone", apart)
    swept = sweep(plan, tmp_path / "swept")
    assert max(Counter(keys(together)).values()) == 1
    assert set(keys(together)) == set(keys(apart))
    content = swept.to_dict()
    assert (content["calls"], content["asked"]) == (len(apart.calls), len(together.calls))
    assert content["shared"] == content["calls"] - content["asked"]
    assert len(together.calls) <= 0.4 * len(apart.calls)
    seen: set[bytes | None] = set()
    for point, row in zip(plan.points, content["points"], strict=True):  # each point asks what none before it asked
        model = lm()
        evaluate(QUESTIONS, index, point.method, model, **point.settings)
        assert row["asked"] == len(set(keys(model)) - seen), point.name
        seen |= set(keys(model))


def test_points_are_to_the_byte_what_runs_by_themselves_are(index: Index, tmp_path: Path) -> None:
    model = lm()
    plan = read_plan(tables(index, model))
    alone(plan, index, tmp_path / "alone", lm())
    sweep(plan, tmp_path / "swept")
    for point in plan.points:
        one, other = files_of(tmp_path / "alone" / point.name), files_of(tmp_path / "swept" / point.name)
        assert one == other


def files_of(folder: Path) -> dict[str, bytes]:
    """A run's files, without what may differ from run to run."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".jsonl"))
    assert len(files) == 3 + len(QUESTIONS)
    return {str(path.relative_to(folder)): _steady(path) for path in files}


def _steady(path: Path) -> bytes:
    texts = path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]
    return b"\n".join(orjson.dumps(_without_volatile(orjson.loads(text))) for text in texts)


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_volatile(item) for name, item in value.items() if name not in ("volatile", "crc")}
    return [_without_volatile(item) for item in value] if isinstance(value, list) else value


def test_a_setup_gives_budgets_that_settings_win_over(index: Index, tmp_path: Path) -> None:
    base = {"dataset": QUESTIONS, "corpus": index, "lm": lm(), "setup": "searchain", "shots": 2}
    sweep(read_plan({"run": base, "point": [{}, {"setup": "tor", "widths": [2]}]}), tmp_path)
    first, second = (json.loads(path.read_bytes())["settings"] for path in sorted(tmp_path.glob("*/run.json")))
    assert (first["widths"], first["shots"]) == ([1, 1, 1], 2)
    assert (second["widths"], second["shots"], second["rank_limit"]) == ([2], 2, 15)


def test_a_query_is_searched_once_for_all_points(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[str, int]] = []
    found = BM25.search

    def watched(self: BM25, query: str, k: int) -> list[Passage]:
        searched.append((query, k))
        return found(self, query, k)

    monkeypatch.setattr(BM25, "search", watched)
    swept = sweep(read_plan(tables(index, lm(), concurrency=1)), tmp_path)
    assert len(searched) == len(set(searched))
    assert sum(report.usage.searches for report in swept.reports.values()) > 2 * len(searched)


def test_pocket_shares_its_replies_in_the_folder_of_the_sweep(index: Index, tmp_path: Path) -> None:
    swept = sweep(read_plan(tables(index, "pocket")), tmp_path)
    assert (tmp_path / REPLIES).exists()
    counts = swept.to_dict()
    assert counts["asked"] <= 0.4 * counts["calls"]


def test_a_model_a_role_is_opened_once_and_asked_apart(index: Index, tmp_path: Path) -> None:
    first, second = lm(name="first"), lm(name="second")
    plan = read_plan(tables(index, {"default": first, "tor.fuse": second}))
    swept = sweep(plan, tmp_path)
    assert {call.task for call in second.calls} == {"tor.fuse"}
    assert "tor.fuse" not in {call.task for call in first.calls}
    assert swept.to_dict()["asked"] == len(first.calls) + len(second.calls)
    assert next(iter(swept.reports.values())).lm == "first, tor.fuse=second"


def test_equal_requests_under_way_at_once_are_one(index: Index, tmp_path: Path) -> None:
    model = lm(latency=0.005)
    twice = [*QUESTIONS, *(replace(question, id=f"{question.id}-again") for question in QUESTIONS)]
    swept = sweep(read_plan(tables(index, model, dataset=twice, concurrency=6)), tmp_path)
    assert max(Counter(keys(model)).values()) == 1
    assert swept.to_dict()["asked"] == len(model.calls)


@pytest.mark.slow
@pytest.mark.parametrize("cache", [None, True, False, "FILE"])
def test_a_named_model_is_opened_once_and_its_replies_are_cached_as_asked(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: bool | str | None
) -> None:
    opened: list[Served] = []

    def opener(rest: str, timeout: float = 1.0) -> Served:
        opened.append(Served(script, name=f"served:{rest}"))
        return opened[-1]

    monkeypatch.setattr(names, "_openers", {**names._openers, "served": opener})
    monkeypatch.setattr("polyhop.evaluation.sweeps.sweep.cache_folder", lambda: tmp_path / "usual")
    file = tmp_path / "mine.sqlite"
    own = {} if cache is None else {"cache": str(file) if cache == "FILE" else cache}
    content = sweep(read_plan(tables(index, "served:m", timeout=2.0, **own)), tmp_path / "out").to_dict()
    (model,) = opened
    assert model.closed == 1
    assert content["asked"] == len(model.calls) == len(set(keys(model)))
    usual, own_file = tmp_path / "usual" / "lm.sqlite", tmp_path / "out" / REPLIES
    paths = {None: usual, True: usual, False: own_file, "FILE": file}
    assert [path for path in (usual, own_file, file) if path.exists()] == [paths[cache]]


class Served(ScriptedLM):
    """A model that holds something open."""

    closed = 0

    async def aclose(self) -> None:
        """Count it; nothing may be asked after."""
        self.closed += 1


def test_two_models_of_one_name_would_answer_for_each_other(index: Index, tmp_path: Path) -> None:
    plan = read_plan(tables(index, {"default": lm(), "tor.fuse": lm()}))
    with pytest.raises(UsageError, match="two models of this sweep are both named scripted"):
        sweep(plan, tmp_path)


def test_points_with_other_models_share_nothing_but_the_index(index: Index, tmp_path: Path) -> None:
    one, two = lm(name="one"), lm(name="two")
    plan = read_plan(
        {"run": {"dataset": QUESTIONS, "corpus": index, "widths": [2, 2]}, "grid": {"lm": [one, two]}},
    )
    sweep(plan, tmp_path)
    assert len(one.calls) == len(two.calls) > 0


# --- going on --------------------------------------------------------------------------------------------------------


class Stopped(PolyhopError):
    """An error that stops a sweep in a test."""


@pytest.mark.slow
def test_a_sweep_that_was_stopped_goes_on_wherever_it_was(index: Index, tmp_path: Path) -> None:
    whole = lm()
    grid = {"fusion": ["evidence", "paragraph"], "expansion": ["mpc", "direct"]}
    plan = read_plan({**tables(index, whole, concurrency=2), "grid": grid})
    sweep(plan, tmp_path / "whole")
    answers = len(plan.points) * len(QUESTIONS)
    for stop in range(2, answers, len(QUESTIONS)):
        model, out = lm(), tmp_path / "stopped"
        plan = read_plan({**tables(index, model, concurrency=2), "grid": grid})

        def halt(done: int, total: int, stop: int = stop) -> None:
            if done >= stop:
                raise Stopped

        with pytest.raises(Stopped):
            sweep(plan, out, progress=halt)
        assert len(model.calls) < len(whole.calls) or stop > answers / 2
        sweep(plan, out)
        assert Counter(keys(model)) == Counter(keys(whole)), stop  # nothing was asked twice, nothing left out
        for point in plan.points:
            assert files_of(out / point.name) == files_of(tmp_path / "whole" / point.name)
        shutil.rmtree(out)


def test_a_sweep_that_is_done_asks_nothing(index: Index, tmp_path: Path) -> None:
    first = sweep(read_plan(tables(index, lm())), tmp_path).to_dict()
    model = lm()
    again = sweep(read_plan(tables(index, model)), tmp_path).to_dict()
    assert not model.calls
    assert again == first


def test_points_may_be_added_in_any_order(index: Index, tmp_path: Path) -> None:
    model = lm()
    plan = tables(index, model)
    sweep(read_plan({**plan, "grid": plan["grid"][:2]}), tmp_path)
    before = len(model.calls)
    swept = sweep(read_plan({**plan, "grid": list(reversed(plan["grid"]))}), tmp_path)
    assert max(Counter(keys(model)).values()) == 1
    assert len(model.calls) > before
    assert swept.to_dict()["asked"] == len(model.calls)


@pytest.mark.parametrize("calls", [2, 16])
def test_a_model_that_is_gone_ends_the_sweep_and_what_was_answered_stays(
    index: Index, tmp_path: Path, calls: int
) -> None:
    left = calls

    def tired(task: str, fields: Mapping[str, Any]) -> Any:
        nonlocal left
        left -= 1
        return script(task, fields) if left >= 0 else LMError("gone")

    model = ScriptedLM(tired)
    plan = read_plan(tables(index, model, concurrency=1))
    with pytest.raises(LMError, match="gone"):
        sweep(plan, tmp_path)
    assert len(model.calls) == calls + 1
    left = 10_000
    sweep(plan, tmp_path)
    answered = Counter(keys(model))
    assert sum(answered.values()) - len(answered) == 1  # only the call that failed was made again


# --- the dry run -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_estimate_is_what_pocket_would_ask_and_asks_no_model(index: Index, tmp_path: Path) -> None:
    model = lm()
    plan = read_plan(tables(index, model, price="1:2"))
    found = estimate(plan, sample=len(QUESTIONS))
    assert not model.calls
    swept = sweep(read_plan(tables(index, "pocket")), tmp_path).to_dict()
    assert {name: cost.calls for name, cost in found.alone.items()} == {
        row["name"]: row["calls"] for row in swept["points"]
    }
    assert {name: cost.calls for name, cost in found.asked.items()} == {
        row["name"]: row["asked"] for row in swept["points"]
    }
    alone, asked = found.totals()
    tokens = sum(row["report"]["usage"]["prompt_tokens"] for row in swept["points"])
    assert alone.prompt_tokens == tokens
    assert alone.money == pytest.approx((alone.prompt_tokens + 2 * alone.completion_tokens) / 1e6)
    assert asked.money == pytest.approx((asked.prompt_tokens + 2 * asked.completion_tokens) / 1e6)
    assert asked.calls < alone.calls


def test_an_estimate_is_scaled_to_all_questions(index: Index) -> None:
    plan = read_plan(tables(index, lm()))
    few = estimate(plan, sample=1, questions=QUESTIONS[:1])
    scaled = estimate(plan, sample=1)
    assert (scaled.questions, scaled.sample) == (3, 1)
    assert scaled.totals()[0].calls == 3 * few.totals()[0].calls
    assert scaled.totals()[0].money is None
    assert json.loads(json.dumps(scaled.to_dict()))["alone"]["calls"] == scaled.totals()[0].calls


def test_a_point_that_fails_in_an_estimate_is_named(index: Index) -> None:
    plan = read_plan({**tables(index, lm()), "grid": {"mpc_merged": [False, True], "expansion": ["mpc", "cot"]}})
    with pytest.raises(PolyhopError, match=r"\[grid\]: the question q1 fails: mpc_merged .*expansion=mpc"):
        estimate(plan, sample=1)


def test_an_estimate_needs_no_key_of_the_model_it_is_for(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    price = {"any-model": {"prompt": 1.0, "completion": 2.0}}
    plan = read_plan(tables(index, "openai:any-model", price=price, timeout=5.0))
    assert (estimate(plan, sample=1).totals()[1].money or 0) > 0


# --- the command -----------------------------------------------------------------------------------------------------

SMALL = """
[run]
dataset = "demo"
limit = 3
[[grid]]
fusion = ["evidence", "paragraph"]
expansion = ["mpc", "direct"]
"""


@pytest.mark.slow
def test_the_verb_prints_one_table_and_goes_on(tmp_path: Path) -> None:
    path, out = write(tmp_path, SMALL), tmp_path / "out"
    first = run(app, ["sweep", str(path), "--out", str(out)])
    assert first.exit_code == 0, first.output
    for name in ("base", "expansion=direct", "fusion=paragraph", "+ expansion=direct"):
        assert name in first.stdout
    assert "calls asked" in first.stdout
    assert "runs kept in" in first.stderr
    page = (out / "sweep.html").read_text()
    assert "<svg" in page
    for name in ("base", "expansion=direct", "fusion=paragraph"):
        assert name in page
    again = run(app, ["sweep", str(path), "--out", str(out), "--json"])
    held = json.loads(again.stdout)
    assert held["points"][0]["name"] == "base"
    assert held["points"][-1]["changes"] == {"fusion": "paragraph", "expansion": "direct"}
    assert f"{held['asked']:,} of {held['calls']:,} calls asked" in first.stdout
    whole = run(app, ["report", *(str(out / row["name"]) for row in held["points"])])
    assert whole.exit_code == 0, whole.output


def test_the_verb_estimates_before_anything_is_asked(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL.replace("limit", 'lm = "openai:any"\nlimit'))
    done = run(app, ["sweep", str(path), "--dry-run", "--sample", "2", "--price", "1:2"])
    assert done.exit_code == 0, done.output
    assert "all points" in done.stdout
    assert "money" in done.stdout
    assert "estimated from 2 of 3 questions, answered by pocket" in done.stderr


def test_the_verb_refuses_wrong_use(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    lacking = run(app, ["sweep", str(path)])
    assert "--out" in str(lacking.exception)
    assert "--dry-run" in str(lacking.exception)
    wrong = run(app, ["sweep", str(write(tmp_path, SMALL.replace("fusion", "fuson")))])
    assert isinstance(wrong.exception, UnknownName)


def test_an_interrupt_says_how_the_sweep_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polyhop.evaluation.sweeps.sweep.sweep", interrupted)
    done = run(app, ["sweep", str(write(tmp_path, SMALL)), "--out", str(tmp_path / "out")])
    assert done.exit_code == 130
    assert "the same command resumes it" in done.stderr


@pytest.mark.slow
def test_the_shipped_example_is_the_settings_of_four_tables(tmp_path: Path) -> None:
    plan = read_plan(EXAMPLE)
    assert len(plan.points) == 11
    swept = sweep(plan, tmp_path, questions=plan.read_questions()[::15]).to_dict()
    assert swept["asked"] <= 0.4 * swept["calls"]


COMPARED = {name for name, method in methods().items() if method.family != "control"}


def test_the_baselines_are_all_methods_under_one_setup() -> None:
    plan = read_plan(EXAMPLE.with_name("baselines.toml"))
    assert {point.method for point in plan.points} == COMPARED
    assert len(plan.points) == len(COMPARED) + 1
    assert {point.options["setup"] for point in plan.points} == {"tor"}
    assert plan.limit == 500


@pytest.mark.slow
def test_the_cost_of_the_baselines_is_estimated(tmp_path: Path) -> None:
    """On another dataset than the file's."""
    dataset, corpus = tmp_path / "questions.jsonl", tmp_path / "corpus.jsonl"
    dataset.write_bytes(
        b"".join(orjson.dumps({"id": q.id, "question": q.text, "answers": q.answers}) + b"\n" for q in QUESTIONS)
    )
    corpus.write_bytes(b"".join(orjson.dumps(passage.to_dict()) + b"\n" for passage in PASSAGES))
    options = ["--dataset", str(dataset), "--corpus", str(corpus), "--limit", "2", "--sample", "1"]
    done = run(
        app, ["sweep", str(EXAMPLE.with_name("baselines.toml")), *options, "--dry-run", "--price", "1:1", "--json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["questions"] == 2
    assert len(found["points"]) == len(COMPARED) + 1


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=40) | st.integers() | st.none(), max_size=3))
def test_no_value_of_a_point_leads_out_of_the_sweeps_folder(point: dict[str, Any]) -> None:
    name = folder_name(point)
    assert Path(name).name == name
    assert name not in (".", "..")
    assert name.isprintable()
