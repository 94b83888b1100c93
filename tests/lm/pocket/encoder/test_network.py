"""The network: the same output alone and beside others, spans inside their passages, and every odd input."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from polyhop.errors import DataError
from polyhop.lm.pocket.encoder.inputs import KINDS, MAX_PIECES, PLACES, EncoderInput
from polyhop.lm.pocket.encoder.network import (
    EMBEDDER,
    ENCODER,
    FOLDER,
    PIECES,
    VOCABULARY,
    WIDTH,
    Embedder,
    Encoder,
    embedder,
    encoder,
    fingerprint,
)
from polyhop.retrieval.encoders.local import PocketEncoder
from polyhop.types import Passage

MILL = Passage("mill", "Dark Mill", "Dark Mill is a 1931 German drama film directed by Rolf Anders.")
ANDERS = Passage("anders", "Rolf Anders", "Rolf Anders (4 May 1899 – 1950) was a film director. He was born in Bremen.")
QUESTION = "Where was the director of Dark Mill born?"
ODD = {
    "no text": Passage("o", "Dark Mill", ""),
    "no title": Passage("o", "", MILL.text),
    "nothing": Passage("o", "", ""),
    "only spaces": Passage("o", " \t", " \n\u00a0 "),
    "long": Passage("o", "Dark Mill", "He was born in Bremen, they say. " * 3000),
    "one long word": Passage("o", "x" * 500, "y" * 100_000),
    "other scripts": Passage("o", "Дом 東京", "Ángström naïve 東京 は 🏭🎬 \U0001f468\u200d\U0001f469 ﷽ العربية हिन्दी"),
    "controls": Passage("o", "a\x00b\x07", "\x00\x01\ufffd\u202e\ufeff [SEP] [CLS] [PAD] ##s\ud800"),
    "marks": Passage("o", "?!", "... --- ,,, ''' \"\" <<>>"),
}
PATHS = {
    **{name: [passage] for name, passage in ODD.items()},
    "none": [],
    "one": [MILL],
    "two": [MILL, ANDERS],
    "twice the same": [MILL, MILL],
    "four": [MILL, ANDERS, ODD["other scripts"], ODD["long"]],
}


@pytest.fixture(scope="module")
def network() -> Encoder:
    return encoder()


@pytest.fixture(scope="module")
def rows(network: Encoder) -> list[EncoderInput]:
    """Inputs from three pieces to the maximum, in no order of length."""
    texts = ["", MILL.text, f"{MILL.text} {ANDERS.text}", " ".join([ANDERS.text] * 3)]
    paths = [[], [MILL], [MILL, ANDERS], [ODD["long"]], *([Passage("t", "", text)] for text in texts)]
    return [network.build_input(question, path) for path in paths for question in (QUESTION, "Who?")]


def test_an_input_gets_the_same_bits_alone_and_beside_others(network: Encoder, rows: list[EncoderInput]) -> None:
    def bits(row: EncoderInput) -> list[bytes]:
        return [np.asarray(output).tobytes() for output in network._outputs(row)]

    alone = list(map(bits, rows))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(bits, rows * 3)) == alone * 3


def test_inputs_run_side_by_side(rows: list[EncoderInput], monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=10)
    monkeypatch.setattr(Encoder, "_predict", lambda *_: both.wait())
    assert len(Encoder(threads=2).predict(rows[:4])) == 4


def test_outputs_keep_the_order_of_their_inputs(network: Encoder, rows: list[EncoderInput]) -> None:
    alone = [network.predict([row])[0] for row in rows]
    order = random.Random(1).sample(range(len(rows)), len(rows))
    assert network.predict([rows[i] for i in order]) == [alone[i] for i in order]
    twice = [rows[1], rows[0], rows[1]]
    assert network.predict(twice) == [alone[1], alone[0], alone[1]]
    assert network.predict([]) == []


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("question", [QUESTION, "", "¿東京? " * 300], ids=["asked", "empty", "long"])
def test_an_output_is_complete_for_any_path(network: Encoder, name: str, question: str) -> None:
    path = PATHS[name]
    row = network.build_input(question, path)
    (output,) = network.predict([row])
    assert len(row.ids) <= MAX_PIECES
    assert tuple(output.kinds) == KINDS
    assert sum(output.kinds.values()) == pytest.approx(1.0, abs=1e-3)
    numbers = [
        output.relevance,
        output.sufficiency,
        output.answerable,
        *output.kinds.values(),
        *(span.log_probability for span in output.spans),
    ]
    assert np.isfinite(numbers).all()
    assert numbers == [round(number, PLACES) for number in numbers]
    for span in output.spans:
        within = path[span.passage].title if span.in_title else path[span.passage].text
        assert 0 <= span.start < span.end <= len(within)
        assert span.text(path) == within[span.start : span.end]
        assert span.log_probability <= 0.0
    spans = [span[:4] for span in output.spans]
    assert len(set(spans)) == len(spans)
    assert [span.log_probability for span in output.spans] == sorted(
        (span.log_probability for span in output.spans), reverse=True
    )
    assert bool(output.spans) == any(row.origins)


def test_it_reads(network: Encoder) -> None:
    """The minimum for any network that ships: it prefers a passage that answers, and finds a name."""
    asked = "Who directed Dark Mill?"
    other = Passage("o", "Ferry transport", "A ferry carries passengers across water.")
    right, wrong = network.predict([network.build_input(asked, [MILL]), network.build_input(asked, [other])])
    assert right.relevance > wrong.relevance
    assert right.sufficiency > wrong.sufficiency
    assert right.answerable > 0.0 > wrong.answerable
    assert right.kinds["none"] < wrong.kinds["none"]
    assert right.spans[0].text([MILL]) == "Rolf Anders"


# --- embeddings ---------------------------------------------------------------------------------------------------


def test_an_embedding_is_of_length_one_and_the_same_beside_others() -> None:
    network = embedder()
    texts = [passage.text for passage in ODD.values()] + [MILL.text, ANDERS.text, QUESTION]
    alone = np.concatenate([network.embed([text]) for text in texts])
    assert alone.shape == (len(texts), WIDTH)
    assert np.abs(np.linalg.norm(alone, axis=1) - 1.0).max() < 1e-3
    assert np.array_equal(network.embed(texts), alone)
    order = random.Random(2).sample(range(len(texts)), len(texts))
    assert np.array_equal(network.embed([texts[i] for i in order]), alone[order])
    assert network.embed([]).shape == (0, WIDTH)


def test_texts_about_the_same_are_nearer_than_others() -> None:
    asked, near, far = embedder().embed(
        ["Who directed the film?", "The director of the movie was Ann Lee.", "Ferries cross the water every hour."]
    )
    assert asked @ near > asked @ far


# --- opening ------------------------------------------------------------------------------------------------------


def imported(code: str, *names: str) -> str:
    """The modules among ``names`` that a new interpreter has loaded after some code."""
    code = f"import sys\n{code}\nprint([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_polyhop_opens_nothing() -> None:
    code = (
        "import polyhop, polyhop.lm.pocket, polyhop.retrieval.encoders.local\n"
        "from polyhop.retrieval.encoders import open_encoder\n"
        "open_encoder('pocket')"
    )
    assert imported(code, "onnxruntime", "onnx", "torch", "tokenizers") == "[]"


def test_it_needs_no_torch() -> None:
    code = (
        "from polyhop.lm.pocket.encoder.network import embedder, encoder\n"
        "network = encoder()\n"
        "network.predict([network.build_input('Who?', [])]), embedder().embed(['who'])"
    )
    assert imported(code, "torch", "transformers", "tokenizers", "onnx") == "[]"
    assert imported(code, "onnxruntime") == "['onnxruntime']"


def copied(folder: Path, **other: bytes) -> Path:
    """A folder with the shipped files, or with others instead."""
    names = {"network": ENCODER, "embedder": EMBEDDER, "pieces": PIECES, "vocabulary": VOCABULARY}
    for what, name in names.items():
        (folder / name).write_bytes(other.get(what, (FOLDER / name).read_bytes()))
    return folder


@pytest.mark.parametrize(
    ("opened", "broken"),
    [
        (Encoder, {"network": b""}),
        (Encoder, {"network": b"version https://git-lfs.github.com/spec/v1\n"}),
        (Encoder, {"network": (FOLDER / ENCODER).read_bytes()[:100_000]}),
        (Encoder, {"pieces": b"cut short"}),
        (Encoder, {"vocabulary": b"a\nb\n"}),
        (Encoder, {"vocabulary": b"\xff\xfe\x00"}),
        (Embedder, {"embedder": b""}),
        (Embedder, {"pieces": b""}),
    ],
    ids=["empty", "pointer", "cut short", "pieces cut short", "other words", "no text", "embedder", "no pieces"],
)
def test_a_broken_file_is_an_error_that_says_what_to_do(
    tmp_path: Path, opened: type[Encoder | Embedder], broken: dict[str, bytes]
) -> None:
    with pytest.raises(DataError, match="install polyhop again") as raised:
        opened(copied(tmp_path, **broken))
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize("opened", [Encoder, Embedder])
def test_a_missing_file_is_an_error_that_says_what_to_do(tmp_path: Path, opened: type[Encoder | Embedder]) -> None:
    with pytest.raises(DataError, match="install polyhop again"):
        opened(tmp_path)
    with pytest.raises(DataError, match="install polyhop again"):
        fingerprint(tmp_path / ENCODER)


def test_a_network_is_known_by_the_hash_of_its_file(tmp_path: Path) -> None:
    assert PocketEncoder().key == fingerprint(copied(tmp_path) / EMBEDDER) != fingerprint()
    (tmp_path / EMBEDDER).write_bytes(b"another")
    assert PocketEncoder().key != fingerprint(tmp_path / EMBEDDER)


def test_the_shipped_networks_are_small_and_have_a_card() -> None:
    assert sum((FOLDER / name).stat().st_size for name in (ENCODER, EMBEDDER, PIECES)) < 40e6
    assert "licence" in (FOLDER / "CARD.md").read_text(encoding="utf-8")
    assert KINDS == ("span", "yes", "no", "none")  # the order of the network's outputs
