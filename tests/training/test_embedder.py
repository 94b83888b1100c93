"""Training the embedder: which sentences belong to a question, which compete, and that they come nearer."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from training.facts import SetOf
from training.sets import HELD_OUT, Question, Step, corpus_of, read_set

from polyhop.lm.pocket.encoder.wordpiece import WordPiece

pytestmark = pytest.mark.extra

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from training.embedder import Pair, embedded, learnt_sets, nearness, pairs_of, planned, with_others  # noqa: E402
from training.network import Network, Shape  # noqa: E402
from training.train import Masters  # noqa: E402

from training import embedder as module  # noqa: E402
from training import longer  # noqa: E402

SET = """\
=== keys.md
The key was found by Ann Lee. It opens the boathouse. Ann Lee keeps it in a drawer of the boathouse.
=== staff.md
Ann Lee is a carpenter in Larn. Tom Reed is a cook in Ostwik.
=== questions
? Who found the key?
kind: one
= Ann Lee
- keys.md :: found by Ann Lee
? Where does Tom Reed cook?
kind: one
= Ostwik
- staff.md :: a cook in Ostwik
? Who made the key?
kind: unanswerable
=
- keys.md :: The key was found
"""
OTHER = Question(
    "What is Ann Lee by trade?", "one", ("carpenter",), (Step("staff.md", "a carpenter", "", "carpenter"),)
)
FOUND = Pair("Who found the key?", "Ann Lee", "The key was found by Ann Lee.")
TEXT = "the key was found by ann lee it opens a boathouse tom reed is cook in ostwik who where does"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", "?", *dict.fromkeys(TEXT.split())]
PIECES = WordPiece(VOCAB)


def tiny() -> Network:
    torch.manual_seed(0)
    return Network(Shape(pieces=len(VOCAB), positions=64, width=32, layers=1, heads=2, inner=64))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for domain in ("office", HELD_OUT[0]):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "boats.txt").write_text(SET, encoding="utf-8")
    return tmp_path


def test_a_question_belongs_to_the_sentence_with_its_answer_that_is_most_like_it(folder: Path) -> None:
    held = read_set(folder / "office" / "boats.txt")
    pairs = pairs_of(held, list(corpus_of(held)), [OTHER])
    assert [(each.question, each.answer) for each in pairs] == [
        ("Who found the key?", "Ann Lee"),
        ("Where does Tom Reed cook?", "Ostwik"),
        ("What is Ann Lee by trade?", "carpenter"),
    ]
    assert pairs[0].sentence.endswith("The key was found by Ann Lee.")
    assert pairs[2].sentence.endswith("Ann Lee is a carpenter in Larn.")


def test_domains_that_are_held_out_are_not_learnt_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FOLDER", folder)
    monkeypatch.setattr(longer, "FOLDER", folder / "none")
    monkeypatch.setattr(module, "facts", lambda *_: {SetOf("office", "boats"): [OTHER]})
    monkeypatch.setattr(module, "FACTS", 1.0)
    ((pairs, sentences),) = learnt_sets(random.Random(0))
    assert len(pairs) == 3
    assert {each.sentence for each in pairs} < set(sentences)


def test_a_near_sentence_with_the_answer_does_not_compete() -> None:
    sentences = [FOUND.sentence, "It opens the boathouse.", "Ann Lee is in Ostwik."]
    for seed in range(4):
        (found,) = with_others([FOUND], sentences, tiny(), PIECES, random.Random(seed))
        assert found.other == "It opens the boathouse."
    (found,) = with_others([FOUND], sentences[:1], tiny(), PIECES, random.Random(0))
    assert found.other is None


def test_also_in_a_batch() -> None:
    other = Pair("Where is Ann Lee?", "Ostwik", "Ann Lee is in Ostwik.")
    alone, both = (nearness(tiny(), batch, PIECES)["nearness"].item() for batch in ([FOUND], [FOUND, other]))
    assert alone == pytest.approx(0.0, abs=1e-5)
    one_of_two = nearness(tiny(), [other._replace(other=FOUND.sentence)], PIECES)["nearness"].item()
    assert both == pytest.approx(one_of_two, rel=1e-4)


def test_a_question_comes_nearer_to_its_sentence() -> None:
    network = tiny()
    masters = Masters(network)
    batch = [
        FOUND._replace(other="It opens the boathouse."),
        Pair("Where does Tom Reed cook?", "Ostwik", "Tom Reed is cook in Ostwik."),
    ]
    loss = partial(nearness, network, batch, PIECES)
    before = loss()["nearness"].item()
    for _ in range(12):
        loss()["nearness"].backward()
        masters.step(3e-3)
    assert loss()["nearness"].item() < before / 2


def test_vectors_have_length_one_and_do_not_depend_on_padding() -> None:
    network, texts = tiny(), ["Ann Lee", "The key was found by Ann Lee. It opens the boathouse."]
    with torch.no_grad():
        together = embedded(network, texts, PIECES)
        assert torch.allclose(together.norm(dim=1), torch.ones(2))
        assert torch.allclose(together[0], embedded(network, texts[:1], PIECES)[0], atol=1e-4)


def test_a_batch_is_of_one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = [([FOUND._replace(question=f"{name} {i}") for i in range(40)], [FOUND.sentence]) for name in "ab"]
    sets.append(([FOUND] * 7, [FOUND.sentence]))
    monkeypatch.setattr(module, "learnt_sets", lambda _: iter(sets))
    plan = planned(tiny(), PIECES, 9, random.Random(0))
    assert sorted(len(batch) for batch in plan) == [8, 8, 32, 32]
    assert all(len({pair.question[0] for pair in batch}) == 1 for batch in plan)
    assert len(planned(tiny(), PIECES, 3, random.Random(0))) == 3
