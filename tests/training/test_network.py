"""The network in small: its shapes, that it learns, goes on as if never stopped, and is the same once exported."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.data import Example, answered, spans_of, unanswered, write

from polyhop.lm.pocket.encoder.inputs import KINDS
from polyhop.lm.pocket.encoder.network import ENCODER, VOCABULARY, Embedder, Encoder
from polyhop.lm.pocket.encoder.wordpiece import WordPiece
from polyhop.types import Passage
from tests.kit.training_data import BORN, PAGES

pytestmark = pytest.mark.extra

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("safetensors")

from training.average import average  # noqa: E402
from training.embedder import embedded  # noqa: E402
from training.export import export  # noqa: E402
from training.network import Network, Shape  # noqa: E402
from training.restore import restore  # noqa: E402
from training.rows import Row, batches, row_of, tensors  # noqa: E402
from training.train import Masters, fit, load_network, losses, planned, train  # noqa: E402

from training import rows as laid  # noqa: E402
from training import train as trains  # noqa: E402

WORDS = sorted(
    {word.strip(".").lower() for text in (BORN, *PAGES.values(), *PAGES) for word in text.strip("?").split()}
)
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", ":", "?", *WORDS]
PIECES = WordPiece(VOCAB)
SHAPE = Shape(pieces=len(VOCAB), positions=328, width=32, layers=2, heads=4, inner=64)
GOLD_PATH = [(title, PAGES[title]) for title in ("Dark Mill", "Ann Lee")]
OTHER = [("Ferry transport", PAGES["Ferry transport"])]


def some_examples() -> list[Example]:
    span = spans_of(["Elstow"], GOLD_PATH, [1])
    titles = spans_of(["Ann Lee"], [("Ann Lee", "She was born.")], [0])
    return [
        answered("a", BORN, GOLD_PATH, span),
        answered("a", "who was born?", [("Ann Lee", "She was born.")], titles),
        Example("a", BORN, GOLD_PATH[:1], relevant=1, enough=0),
        unanswered("a", BORN, OTHER),
        answered("a", "is a ferry a film?", OTHER, [], "no"),
    ]


def some_rows(times: int = 1) -> list[Row]:
    made = [row_of(example, PIECES, random.Random(0)) for example in some_examples() * times]
    return [row for row in made if row is not None]


def tiny(seed: int = 0) -> Network:
    torch.manual_seed(seed)
    return Network(SHAPE)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# --- rows ---------------------------------------------------------------------------------------------------------


def named(row: Row) -> list[set[str]]:
    """The pieces of each span."""
    return [{" ".join(VOCAB[piece] for piece in row.ids[low : high + 1])} for low, high in row.spans]


def test_a_row_is_laid_out_as_pocket_lays_it_out() -> None:
    from polyhop.lm.pocket.encoder.inputs import InputBuilder

    row = some_rows()[0]
    path = [Passage("", title, text) for title, text in GOLD_PATH]
    asked = InputBuilder(PIECES).build(BORN, path)
    assert row.ids == asked.ids
    assert row.segments == [0] * asked.first + [1] * (len(asked.ids) - asked.first)
    assert named(row) == [{"elstow"}]
    assert (KINDS[row.kind], row.relevant, row.enough) == ("span", 1, 1)


def test_spans_in_titles_and_judgements_not_known() -> None:
    _, title, part, none, no = some_rows()
    assert named(title) == [{"ann lee"}]
    assert (part.kind, part.relevant, part.enough) == (-1, 1, 0)
    assert [KINDS[row.kind] for row in (none, no)] == ["none", "no"]
    assert [row.spans for row in (none, no)] == [[(0, 0)], []]


@pytest.mark.parametrize("seed", range(5))
def test_the_part_of_a_long_text_with_the_answer_is_taken(seed: int) -> None:
    text = "a ferry " * 400 + "elstow " + "a film " * 300
    example = answered("a", BORN, [("Dark Mill", text)], spans_of(["elstow"], [("", text)], [0]))
    row = row_of(example, PIECES, random.Random(seed))
    assert row is not None
    assert len(row.ids) <= 320
    assert named(row) == [{"elstow"}]


def test_a_row_without_its_answer_is_left_out() -> None:
    assert row_of(answered("a", BORN, GOLD_PATH, []), PIECES, random.Random(0)) is None


def test_batches_hold_every_row_once_and_not_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laid, "BATCH", 120)
    rows = some_rows(5)
    plan = batches(rows, 0)
    assert sorted(at for batch in plan for at in batch) == list(range(len(rows)))
    assert all(len(batch) == 1 or max(len(rows[at].ids) for at in batch) * len(batch) <= 120 for batch in plan)
    assert batches(rows, 0) == plan != batches(rows, 1)


def test_rows_of_a_group_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laid, "BATCH", 120)
    monkeypatch.setattr(laid, "TOGETHER", 3)
    rows = some_rows(5)
    for at in (0, 7, 19):
        rows[at] = replace(rows[at], group="a")
    plan = batches(rows, 0)
    assert sorted(at for batch in plan for at in batch) == list(range(len(rows)))
    assert [{0, 7, 19} <= set(batch) for batch in plan if 7 in batch] == [True]


# --- the network --------------------------------------------------------------------------------------------------


def test_it_gives_what_it_says_in_the_shapes_it_says() -> None:
    rows = some_rows()
    ids, segments, mask = tensors(rows, PIECES.padding)
    found = tiny()(ids, segments, mask)
    count, length = ids.shape
    assert [tuple(each.shape) for each in found] == [
        (count, length), (count, length), (count, len(KINDS)), (count,), (count,),
    ]  # fmt: skip


def test_padding_changes_nothing() -> None:
    network, rows = tiny().eval(), some_rows()
    with torch.no_grad():
        together = network(*tensors(rows, PIECES.padding))
        for at, row in enumerate(rows):
            for whole, own in zip(together, network(*tensors([row], PIECES.padding)), strict=True):
                expected = whole[at][: own.shape[1]] if own.ndim > 1 else whole[at]
                assert torch.allclose(expected, own[0], atol=1e-4)


def test_it_takes_over_a_berts_weights_by_their_names() -> None:
    network = tiny()
    own = network.state_dict()
    theirs = {name: torch.randn_like(own[ours]) for ours, name in network._names().items()}
    network.load_base(theirs)
    assert torch.equal(network.words.weight, theirs["embeddings.word_embeddings.weight"])
    assert torch.equal(network.layers[1].down.bias, theirs["encoder.layer.1.output.dense.bias"])
    heads = {name for name in own if name.startswith(("span", "judge", "verdict"))}
    assert set(network._names()) | heads == set(own)


def test_another_base_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(SystemExit, match="pinned"):
        trains.base_weights(tmp_path)


# --- training -----------------------------------------------------------------------------------------------------


def test_a_few_steps_lower_every_loss() -> None:
    rows = some_rows()
    network = tiny().to(torch.bfloat16)
    masters = Masters(network)

    def current() -> dict[str, Any]:
        return losses(network, rows, PIECES.padding)

    before = {name: loss.item() for name, loss in current().items()}
    assert set(before) == {"span", "kind", "relevance", "sufficiency"}
    for _ in range(12):
        sum(current().values()).backward()
        masters.step(3e-3)
    after = {name: loss.item() for name, loss in current().items()}
    assert all(after[name] < before[name] for name in before), (before, after)


def span_loss(network: Network, row: Row) -> float:
    return float(losses(network, [row], PIECES.padding)["span"].item())


def test_no_answer_competes_with_spans_where_it_is_known() -> None:
    network = tiny()
    span, _, _, none, *_ = some_rows()
    assert span_loss(network, span) > span_loss(network, replace(span, kind=-1))
    assert 0.0 < span_loss(network, none) < 100.0


def group_loss(*rows: Row) -> float | None:
    parts = losses(tiny(), [replace(row, group=row.group or "a") for row in rows], PIECES.padding)
    return float(parts["group"].item()) if "group" in parts else None


def test_the_spans_of_all_passages_of_a_group_compete() -> None:
    span, _, _, none, _ = some_rows()
    with torch.no_grad():
        starts, ends, *_ = tiny()(*tensors([span, none], PIECES.padding))
    scores = {
        (at, low, high): float(starts[at, low] + ends[at, high] - starts[at, 0] - ends[at, 0])
        for at, row in enumerate((span, none))
        for low, high in product(range(row.segments.index(1), len(row.ids)), repeat=2)
    }
    every = torch.tensor(list(scores.values())).logsumexp(0)
    right = torch.tensor([scores[0, low, high] for low, high in span.spans]).logsumexp(0)
    expected = pytest.approx(float(every - right), rel=1e-4)
    assert group_loss(span, none) == group_loss(none, span) == expected
    assert group_loss(span, none, replace(none, group="b")) == expected


def test_a_group_needs_a_right_answer_and_another_passage() -> None:
    span, _, _, none, _ = some_rows()
    assert group_loss(span) is None
    assert group_loss(none, none) is None
    assert "group" not in losses(tiny(), [span, none], PIECES.padding)


def learn(folder: Path, times: int, rounds: float, loss: Callable[..., dict[str, Any]] = losses) -> None:
    """Train a tiny network on so many times some rows."""
    fit(tiny(), planned(some_rows(times), rounds), partial(loss, padding=PIECES.padding), folder)


def masters_of(folder: Path) -> list[Any]:
    return list(torch.load(folder / "network.pt", weights_only=True)["masters"])


def test_stopped_and_gone_on_it_ends_as_if_never_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laid, "BATCH", 150)
    learn(tmp_path / "whole", 2, 1.5)
    made = 0

    def stopping(*given: Any, **more: Any) -> Any:
        nonlocal made
        made += 1
        if made == 4:
            raise KeyboardInterrupt
        return losses(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(trains, "SAVE_EVERY", -1.0)
        with pytest.raises(KeyboardInterrupt):
            learn(tmp_path / "stopped", 2, 1.5, stopping)
    assert torch.load(tmp_path / "stopped" / "network.pt", weights_only=True)["step"] == 3
    learn(tmp_path / "stopped", 2, 1.5)
    whole, stopped = masters_of(tmp_path / "whole"), masters_of(tmp_path / "stopped")
    assert all(torch.equal(one, other) for one, other in zip(whole, stopped, strict=True))
    first = dict(tiny().named_parameters())["span.weight"]
    assert not torch.equal(load_network(tmp_path / "whole" / "network.pt").span.weight, first)


def test_training_starts_from_given_weights(exported: Path, tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    restore(exported / ENCODER, begin)
    train(exported / "examples.jsonl", exported, tmp_path / "more", 1.0, begin / "network.pt", rate=0.0)
    meant = [each.to(torch.bfloat16).float() for each in masters_of(begin)]
    assert all(torch.equal(one, other) for one, other in zip(masters_of(tmp_path / "more"), meant, strict=True))


def test_another_trainings_checkpoint_is_refused(tmp_path: Path) -> None:
    learn(tmp_path, 1, 1.0)
    with pytest.raises(SystemExit, match="remove it to start again"):
        learn(tmp_path, 1, 4.0)


# --- export -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny network that has learnt a little, exported, and its vocabulary."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / VOCABULARY).write_text("\n".join(VOCAB), encoding="utf-8")
    write(some_examples() * 8, folder / "examples.jsonl")
    learn(folder, 2, 2.0)
    export(folder / "network.pt", folder / "network.pt", folder / "examples.jsonl", folder, folder)
    return folder


def test_once_exported_it_says_nearly_the_same(exported: Path) -> None:
    network, opened = load_network(exported / "network.pt"), Encoder(exported, threads=1)
    for row in some_rows():
        found = opened._run(ids=row.ids, segments=row.segments)
        with torch.no_grad():
            meant = [each.numpy()[0] for each in network(*tensors([row], PIECES.padding))]
        assert all(np.abs(ours - theirs).max() < 0.1 for ours, theirs in zip(found, meant, strict=True))


def test_the_embedder_gives_the_mean_of_its_networks_vectors(exported: Path, tmp_path: Path) -> None:
    (tmp_path / VOCABULARY).write_bytes((exported / VOCABULARY).read_bytes())
    network = tiny(1)
    trains.save(tmp_path, network, Masters(network), 1, 1)
    export(exported / "network.pt", tmp_path / "network.pt", exported / "examples.jsonl", exported, tmp_path)
    network.words.weight.copy_(load_network(exported / "network.pt").words.weight)
    opened = Embedder(tmp_path, threads=1)
    for text in PAGES.values():
        with torch.no_grad():
            mean = embedded(network, [text], PIECES)
        assert torch.nn.functional.cosine_similarity(mean, torch.from_numpy(opened._embed(text))[None]).item() > 0.99


def test_restored_it_says_nearly_the_same(exported: Path, tmp_path: Path) -> None:
    trained, restored = load_network(exported / "network.pt"), restore(exported / ENCODER, tmp_path)
    assert restored.shape == load_network(tmp_path / "network.pt").shape == SHAPE
    with torch.no_grad():
        before, after = (each(*tensors(some_rows(), PIECES.padding)) for each in (trained, restored))
    for meant, found in zip(before, after, strict=True):
        assert (meant - found).abs().max() < 0.1


def test_checkpoints_are_averaged_weight_by_weight(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.pt" for name in ("first", "second", "both")]
    networks = [tiny(seed) for seed in (0, 1)]
    for file, network in zip(files, networks, strict=False):
        trains.save(tmp_path, network, Masters(network), 1, 1)
        (tmp_path / "network.pt").rename(file)
    first_file, second_file, out = files
    average(first_file, second_file, out, share=0.75)
    first, second = (dict(network.named_parameters()) for network in networks)
    for name, weight in load_network(out).named_parameters():
        if weight.requires_grad:
            assert torch.allclose(weight, 0.25 * first[name] + 0.75 * second[name], atol=1e-6)


def test_checkpoints_of_other_networks_are_not_averaged(tmp_path: Path) -> None:
    for name in ("first", "second"):
        torch.save({"names": [name], "masters": []}, tmp_path / f"{name}.pt")
    with pytest.raises(ValueError, match="different networks"):
        average(tmp_path / "first.pt", tmp_path / "second.pt", tmp_path / "out.pt", 0.5)
