"""MDR over checkpoints of random weights, against a plain restatement: one text encoded at a time, every product."""

from __future__ import annotations

import json
import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyhop
from polyhop.cli import main
from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, MissingExtra, SettingError, UsageError
from polyhop.retrieval import Index, build_index, mdr, open_retriever, retrievers
from polyhop.retrieval import vectors as vectors_module
from polyhop.retrieval.base import Retriever
from polyhop.retrieval.mdr import CONVERT, MDR, MdrCheckpoint
from polyhop.types import Passage
from tests.kit import mdr as kit
from tests.kit import tiny_models

extra = pytest.mark.extra

QUESTIONS = [
    "Who made the Dark Mill?",
    "born in Paris",
    "who was Dvořák " * 40,
    "what is the river of 東京? by xyzzy?",
    tiny_models.text(random.Random(5), 400),
]


def passages(count: int, seed: int = 0) -> list[Passage]:
    """Passages from a word to more than is read, titles from none to a long one, accents and unknown words."""
    draw = random.Random(seed)
    return [
        Passage(
            f"p{number:03}",
            draw.choice(["", "Café Dvořák", tiny_models.text(draw, 3), tiny_models.text(draw, 120)]),
            f" {tiny_models.text(draw, draw.choice([1, 4, 20, 60, 250]))}\n",
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch").set_num_threads(1)
    pytest.importorskip("transformers")
    return kit.make(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return build_index(open_corpus(passages(60)), tmp_path_factory.mktemp("mdr") / "index")


@pytest.fixture(scope="module")
def retriever(index: Index, folder: Path) -> MDR:
    return MDR(index, str(folder))


@pytest.fixture(scope="module")
def plain(index: Index, folder: Path) -> kit.Plain:
    return kit.Plain(folder, list(index.passages))


@pytest.fixture(scope="module")
def matrix(retriever: MDR) -> Any:
    return np.asarray(retriever._vectors)


@extra
def test_passages_are_encoded_as_one_by_one(plain: kit.Plain, matrix: Any) -> None:
    fresh = np.array([plain.passage(passage) for passage in plain.passages])
    assert np.abs(matrix - fresh).max() <= np.abs(fresh).max() * 2**-11 + 1e-5  # half a step of 16 bits
    assert len(np.unique(matrix, axis=0)) == len(matrix)


@extra
@pytest.mark.parametrize("beam", [1, 3, 5])
@pytest.mark.parametrize("question", QUESTIONS, ids=range(len(QUESTIONS)))
def test_paths_are_those_of_a_plain_beam_search(
    index: Index, folder: Path, plain: kit.Plain, matrix: Any, beam: int, question: str
) -> None:
    found = MDR(index, str(folder), beam=beam).paths(question)
    expected = plain.paths(question, beam, matrix)
    assert [[passage.id for passage in path.passages] for path in found] == [ids for ids, _ in expected]
    assert [path.score for path in found] == pytest.approx([score for _, score in expected], abs=1e-4)
    assert len(found) == beam**2


@extra
def test_a_beam_wider_than_the_corpus_scores_every_path(
    index: Index, folder: Path, plain: kit.Plain, matrix: Any
) -> None:
    found = MDR(index, str(folder), beam=100).paths(QUESTIONS[0])
    expected = {tuple(ids): score for ids, score in plain.paths(QUESTIONS[0], 100, matrix)}
    assert {tuple(passage.id for passage in path.passages): path.score for path in found} == {
        ids: pytest.approx(score, abs=1e-4) for ids, score in expected.items()
    }
    assert len(found) == 60**2


@extra
@pytest.mark.parametrize("k", [1, 2, 5, 20, 60, 200])
def test_passages_rank_by_their_best_path(retriever: MDR, plain: kit.Plain, matrix: Any, k: int) -> None:
    found = retriever.search_many(QUESTIONS, k)
    assert [[passage.id for passage in one] for one in found] == [
        plain.search(question, k, 5, matrix) for question in QUESTIONS
    ]
    assert all(len(one) == len(set(one)) == min(k, 60) for one in found)


@extra
def test_fewer_passages_are_the_first_of_more(retriever: MDR) -> None:
    most = retriever.search_scored(QUESTIONS[0], 60)
    assert all(retriever.search_scored(QUESTIONS[0], k) == most[:k] for k in (1, 2, 7, 11, 30, 59))
    best = retriever.paths(QUESTIONS[0])[0]
    assert most[0] == (best.passages[0], best.score)


@extra
def test_both_hops_and_both_encoders_matter(retriever: MDR, index: Index, tmp_path: Path, folder: Path) -> None:
    question = QUESTIONS[0]
    seconds = {path.passages[0].id: [] for path in retriever.paths(question)}  # type: dict[str, list[str]]
    for path in retriever.paths(question):
        seconds[path.passages[0].id].append(path.passages[1].id)
    assert len({tuple(sorted(found)) for found in seconds.values()}) > 1  # not what the question alone finds
    one = shutil.copytree(folder, tmp_path / "one")
    (one / "doc_encoder.safetensors").unlink()
    (one / "q_encoder.safetensors").rename(one / "encoder.safetensors")
    assert MDR(index, str(one)).paths(question) != retriever.paths(question)


@extra
def test_one_encoder_for_both(index: Index, folder: Path, tmp_path: Path) -> None:
    shared = kit.make(tmp_path / "shared", shared=True)
    retriever, plain = MDR(index, str(shared)), kit.Plain(shared, list(index.passages))
    expected = plain.paths(QUESTIONS[1], 5, np.asarray(retriever._vectors))
    assert [[p.id for p in path.passages] for path in retriever.paths(QUESTIONS[1])] == [ids for ids, _ in expected]


@extra
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_what_is_in_a_batch_changes_nothing(retriever: MDR, tmp_path: Path, folder: Path, batch_size: int) -> None:
    given = list(retriever._index.passages)
    other = MDR(build_index(open_corpus(given), tmp_path / "index"), str(folder), batch_size=batch_size)
    assert np.abs(np.float32(other._vectors) - np.float32(retriever._vectors)).max() <= 2**-9  # a step of 16 bits
    other._vectors = retriever._vectors
    assert other.search_many(QUESTIONS, 20) == [retriever.search(question, 20) for question in QUESTIONS]
    for question in QUESTIONS:
        scores = [path.score for path in retriever.paths(question)]
        assert [path.score for path in other.paths(question)] == pytest.approx(scores, abs=1e-4)


@extra
def test_ties_are_broken_by_id_also_at_the_beam(tmp_path: Path, folder: Path) -> None:
    same = [Passage(f"p{9 - number}", "Dark Mill", "a film by rolf anders") for number in range(9)]
    retriever = MDR(build_index(open_corpus(same), tmp_path / "index"), str(folder), beam=2, batch_size=1)
    ids = [[passage.id for passage in path.passages] for path in retriever.paths("who made it?")]
    assert ids == [["p1", "p1"], ["p1", "p2"], ["p2", "p1"], ["p2", "p2"]]
    assert [passage.id for passage in retriever.search("who made it?", 9)] == [f"p{number}" for number in range(1, 10)]


@extra
def test_threads_give_equal_results(retriever: MDR) -> None:
    questions = [f"{question} {number}" for number in range(6) for question in QUESTIONS[:2]]
    expected = [retriever.search(question, 9) for question in questions]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda question: retriever.search(question, 9), questions)) == expected


@extra
def test_queries_without_a_word_find_nothing(retriever: MDR) -> None:
    assert retriever.search("", 3) == retriever.search(" \n", 3) == retriever.paths("?") == []
    found = retriever.search_many(["", QUESTIONS[0], "?"], 3)
    assert found == [[], retriever.search(QUESTIONS[0], 3), []]
    with pytest.raises(UsageError, match="k is 0"):
        retriever.search("who", 0)


@extra
def test_a_question_mark_at_the_end_is_left_out(retriever: MDR) -> None:
    assert retriever.paths("who made it?") == retriever.paths("who made it") == retriever.paths(" who made it?\n")
    assert retriever.paths("who made it??") != retriever.paths("who made it")


@extra
def test_it_is_a_retriever_by_name_and_answers(index: Index, folder: Path) -> None:
    engine = open_retriever(f"mdr:{folder}", index)
    assert isinstance(engine, Retriever)
    assert engine.name == f"mdr:{folder}"
    assert engine.links(index.passages.get(0)) == index.links(index.passages.get(0))
    with polyhop.Pipeline(index, "one-r", "pocket", retriever=f"mdr:{folder}", reader=None, k=4) as qa:
        answer = qa.ask(QUESTIONS[0])
    assert list(answer.passages[:4]) == engine.search(QUESTIONS[0], 4)


@extra
def test_the_command_line_shows_how_far_encoding_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(passage.to_dict()) + "\n" for passage in passages(9)))
    monkeypatch.setattr(
        sys, "argv", ["polyhop", "search", str(corpus), "who", "--retriever", f"mdr:{folder}", "--json"]
    )
    for message in ("9/9 passages encoded, ", ""):
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        assert not ended.value.code
        assert len(json.loads(shown.out)) == 5
        assert shown.err.startswith(message) if message else shown.err == ""


@extra
def test_a_stopped_encoding_goes_on_to_the_same_vectors(
    folder: Path, retriever: MDR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_module, "_SHARD", 8)
    given = list(retriever._index.passages)
    whole = MDR(build_index(open_corpus(given), tmp_path / "whole"), str(folder))
    index = build_index(open_corpus(given), tmp_path / "index")
    embed, calls = MdrCheckpoint._embed, 0

    def stopping(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return embed(*given)

    monkeypatch.setattr(MdrCheckpoint, "_embed", stopping)
    with pytest.raises(KeyboardInterrupt):
        MDR(index, str(folder))
    calls = 10
    assert np.array_equal(MDR(index, str(folder))._vectors, whole._vectors)
    assert calls == 10 + 5  # of 8 shards 4 were written, the last of them is not trusted


@extra
def test_only_what_changes_passages_encodes_them_again(
    folder: Path, retriever: MDR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build_index(open_corpus(list(retriever._index.passages)), tmp_path / "index")
    own = shutil.copytree(folder, tmp_path / "own")
    counted: list[str] = []
    opened = MdrCheckpoint.passage_encoder

    def counting(checkpoint: MdrCheckpoint) -> Any:
        counted.append(checkpoint.name)
        return opened(checkpoint)

    monkeypatch.setattr(MdrCheckpoint, "passage_encoder", counting)

    def encodes(index: Index, **settings: Any) -> bool:
        before = len(counted)
        MDR(index, str(own), **settings)
        return len(counted) > before

    assert encodes(index)
    assert not encodes(index, beam=2, batch_size=7)
    assert encodes(index, dtype="bfloat16")
    other = kit.make(tmp_path / "other", seed=1)
    shutil.copy(other / "q_encoder.safetensors", own)
    assert not encodes(index)
    shutil.copy(other / "doc_encoder.safetensors", own)
    assert encodes(index)
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 0.1}))
    assert encodes(index)
    assert not encodes(index)
    changed = [*retriever._index.passages][:-1]
    assert encodes(build_index(open_corpus(changed), tmp_path / "index", overwrite=True))


def test_the_guide_says_how_to_convert() -> None:
    guide = Path(__file__).parents[2] / "docs" / "retrievers.md"
    assert f"```python\n{CONVERT.format('q_encoder.pt', 'q_encoder')}\n```" in guide.read_text()


def test_it_needs_an_extra(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mdr:" in retrievers()
    monkeypatch.setattr(mdr, "is_installed", lambda _: False)
    with pytest.raises(MissingExtra, match=r"the retriever mdr:some needs .* pip install 'polyhop\[hf\]'"):
        open_retriever("mdr:some", index)


@extra
@pytest.mark.parametrize("path", ["", "nowhere"])
def test_a_missing_folder_is_an_error(index: Index, folder: Path, path: str) -> None:
    with pytest.raises(DataError, match=r"mdr:.*no such folder; as in mdr:FOLDER"):
        open_retriever(f"mdr:{path}", index)


@extra
@pytest.mark.parametrize(
    ("gone", "put", "message"),
    [
        (["q_encoder", "doc_encoder"], [], r"q_encoder\.safetensors is missing; questions and passages need"),
        (["doc_encoder"], [], r"doc_encoder\.safetensors is missing; questions and passages need q_encoder and"),
        (["q_encoder", "doc_encoder"], ["q_encoder.pt", "doc_encoder.pt"], r"and q_encoder\.pt is a pickle, .* never"),
        (["doc_encoder"], ["q_encoder.pt", "doc_encoder.pt"], r"and doc_encoder\.pt is a pickle"),
        (["q_encoder", "doc_encoder"], ["pytorch_model.bin"], r"and pytorch_model\.bin is a pickle"),
    ],
)
def test_missing_weights_are_named_and_pickles_never_read(
    index: Index, folder: Path, tmp_path: Path, gone: list[str], put: list[str], message: str
) -> None:
    own = shutil.copytree(folder, tmp_path / "own")
    for stem in gone:
        (own / f"{stem}.safetensors").unlink()
    for name in put:
        (own / name).write_bytes(b"cos\nsystem\n(S'exit 3'\ntR.")
    with pytest.raises(DataError, match=message):
        MDR(index, str(own))


@extra
def test_the_advice_on_pickles_works(
    index: Index, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    load_file = pytest.importorskip("safetensors.torch").load_file
    own = shutil.copytree(folder, tmp_path / "own")
    for stem in ("q_encoder", "doc_encoder"):
        released = {f"module.{key}": value for key, value in load_file(own / f"{stem}.safetensors").items()}
        torch.save(released, own / f"{stem}.pt")
        (own / f"{stem}.safetensors").unlink()
    monkeypatch.chdir(own)
    for stem in ("q_encoder", "doc_encoder"):
        with pytest.raises(DataError) as raised:
            MDR(index, str(own))
        advice = "\n".join(str(raised.value).splitlines()[-len(CONVERT.splitlines()) :])
        assert advice == CONVERT.format(f"{stem}.pt", stem)
        exec(advice, {})  # noqa: S102 - what the message tells its reader to run
    assert MDR(index, str(own)).search(QUESTIONS[0], 9) == MDR(index, str(folder)).search(QUESTIONS[0], 9)


@extra
def test_weights_that_are_not_mdrs_are_refused(index: Index, folder: Path, tmp_path: Path) -> None:
    load_file = pytest.importorskip("safetensors.torch").load_file
    own = shutil.copytree(folder, tmp_path / "own")
    whole = load_file(folder / "doc_encoder.safetensors")
    kit.save(own / "doc_encoder.safetensors", {k: v for k, v in whole.items() if not k.startswith("project.1")})
    with pytest.raises(DataError, match=r"it is not an MDR encoder: it lacks 2 weights, such as project\.1\.bias"):
        MDR(index, str(own))
    kit.save(own / "doc_encoder.safetensors", {**whole, "project.0.bias": whole["project.0.bias"][:5]})
    with pytest.raises(DataError, match=r"of another shape than config\.json says"):
        MDR(index, str(own))
    kit.save(own / "doc_encoder.safetensors", {**whole, "project.1.bias": whole["project.1.bias"] * float("nan")})
    with pytest.raises(UsageError, match="vectors that are not numbers"):
        MDR(index, str(own))
    (own / "doc_encoder.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(DataError, match=r"doc_encoder\.safetensors cannot be read"):
        MDR(index, str(own))


@extra
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "bert"}, "its config.json is of bert; MDR needs roberta"),
        ({"max_position_embeddings": 130}, "takes at most 128 tokens; MDR reads 350"),
        (None, "cannot be opened"),
    ],
)
def test_other_configs_are_refused(
    index: Index, folder: Path, tmp_path: Path, config: dict[str, Any] | None, message: str
) -> None:
    own = shutil.copytree(folder, tmp_path / "own")
    original = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text("{" if config is None else json.dumps({**original, **config}))
    with pytest.raises(UsageError, match=message):
        MDR(index, str(own))


@extra
@pytest.mark.parametrize("setting", [{"beam": 0}, {"batch_size": 0}, {"dtype": "int8"}])
def test_settings_are_checked(index: Index, folder: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"{next(iter(setting))}="):
        MDR(index, str(folder), **setting)
