"""Training the embedder: all-MiniLM-L6-v2, so that a question is nearest to the sentence that answers it.

    python -m training.embedder BASE OUT [--steps 900] [--threads 2]

BASE: the folder of all-MiniLM-L6-v2, with whose weights it begins. OUT: a folder for the checkpoint, ``network.pt``,
and one of the base model to average it with, ``base/network.pt``. A batch is of one set of everyday documents, so that
a question's sentence competes with those of the other questions and with one sentence for each question that the base
model finds near it (InfoNCE: van den Oord et al., 2018; negatives of the batch and hard ones: Karpukhin et al., 2020,
§3.2). Sentences that contain a question's answer do not compete.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from polyhop import Passage
from polyhop.common.text import words
from polyhop.lm.pocket.encoder.wordpiece import WordPiece
from polyhop.retrieval.encoders.base import shown
from polyhop.retrieval.sentences import sentences_of
from training import longer, phrasings
from training.data import occurs
from training.everyday import passage_of
from training.examples import pair
from training.facts import SetOf, facts
from training.network import Network
from training.rows import row_of_text, tensors
from training.sets import FOLDER, DocumentSet, Question, corpus_of, training_sets
from training.single import facts_of
from training.train import Masters, base_weights, fit, save

STEPS, RATE = 900, 4e-5
TOGETHER, LEAST = 32, 8  # questions of a batch, and the fewest
TEMPERATURE = 0.05
FACTS = 0.35  # share of the questions of ``training.facts`` that are learnt from
NEAREST, HARD = 14, 8  # sentences nearest to a question, and how many of them without the answer may compete


class Pair(NamedTuple):
    """A question, its answer, the sentence that contains it, and a sentence that is near and does not; None without
    one."""

    question: str
    answer: str
    sentence: str
    other: str | None = None


def pairs_of(held: DocumentSet, passages: Sequence[Passage], more: Iterable[Question]) -> list[Pair]:
    """The questions about single facts of a set, and the steps of more questions about it, each with its sentence."""
    asked = [(fact.question, fact.answer, fact.passage) for fact in facts_of(held, passages)]
    files = {passage.metadata["source"] for passage in passages}
    for question in more:
        steps = (step for step in question.steps if step.answer and step.path in files)
        asked += [(step.question or question.text, step.answer, pair(passage_of(step, passages))) for step in steps]
    sentences = {pair(passage): sentences_of(passage) for passage in passages}
    return [
        Pair(question, answer, sentence)
        for question, answer, passage in dict.fromkeys(asked)
        if (sentence := _sentence(question, answer, sentences[passage]))
    ]


def _sentence(question: str, answer: str, sentences: Sequence[Passage]) -> str | None:
    """The sentence with an answer that shares most words with its question; None without one."""
    asked = set(words(question))
    own = [shown(sentence) for sentence in sentences if occurs(answer, sentence.text)]
    return max(own, key=lambda text: len(asked & set(words(text))), default=None)


def learnt_sets(chance: random.Random) -> Iterator[tuple[list[Pair], list[str]]]:
    """The pairs of every set that is trained on, and the sentences of its documents."""
    phrased, known = phrasings.questions(), facts()
    for held in (*training_sets(FOLDER), *training_sets(longer.FOLDER)):
        passages, own = list(corpus_of(held)), SetOf(held.domain, held.name)
        drawn = [question for question in known.get(own, ()) if chance.random() < FACTS]
        more = [question for question in (*phrased.get(own, ()), *drawn) if question.kind != "unanswerable"]
        sentences = [shown(sentence) for passage in passages for sentence in sentences_of(passage)]
        yield pairs_of(held, passages, more), sentences


def with_others(
    pairs: Sequence[Pair], sentences: Sequence[str], network: Network, pieces: WordPiece, chance: random.Random
) -> Iterator[Pair]:
    """The pairs, each with one of the sentences nearest to its question by a network."""
    with torch.no_grad():
        vectors = torch.cat([embedded(network, sentences[i : i + 64], pieces) for i in range(0, len(sentences), 64)])
        for each in pairs:
            near = (vectors @ embedded(network, [each.question], pieces)[0]).topk(min(NEAREST, len(sentences)))
            others = [sentences[i] for i in near.indices.tolist() if not occurs(each.answer, sentences[i])][:HARD]
            yield each._replace(other=chance.choice(others) if others else None)


def embedded(network: Network, texts: Sequence[str], pieces: WordPiece) -> Tensor:
    """The vectors of texts, (texts, width), each of length 1: the mean of a text's pieces."""
    ids, segments, mask = tensors([row_of_text(text, pieces) for text in texts], pieces.padding)
    weights = mask.float()[:, :, None]
    return F.normalize((network.hidden(ids, segments, mask).float() * weights).sum(1) / weights.sum(1), dim=-1)


def nearness(network: Network, pairs: Sequence[Pair], pieces: WordPiece) -> dict[str, Tensor]:
    """The loss of a batch: of each question's sentence among all of the batch that do not contain its answer."""
    texts = (text for each in pairs for text in (each.sentence, each.other) if text)
    sentences = list(dict.fromkeys(texts))
    questions = embedded(network, [each.question for each in pairs], pieces)
    similarity = questions @ embedded(network, sentences, pieces).T / TEMPERATURE
    also_right = [[text != each.sentence and occurs(each.answer, text) for text in sentences] for each in pairs]
    right = torch.tensor([sentences.index(each.sentence) for each in pairs])
    similarity = similarity.masked_fill(torch.tensor(also_right), -1e4)
    return {"nearness": F.cross_entropy(similarity, right, reduction="sum")}


def planned(network: Network, pieces: WordPiece, steps: int, chance: random.Random) -> list[list[Pair]]:
    """Draw the batches."""
    plan: list[list[Pair]] = []
    for pairs, sentences in learnt_sets(chance):
        whole = list(with_others(chance.sample(pairs, len(pairs)), sentences, network, pieces, chance))
        plan += [whole[i : i + TOGETHER] for i in range(0, len(whole) - LEAST + 1, TOGETHER)]
    return chance.sample(plan, min(steps, len(plan)))


def train(base: Path, out: Path, steps: int) -> None:
    """Train the base model's embeddings and save them in ``out``; see the module."""
    torch.manual_seed(0)
    pieces, network = WordPiece.read(base / "vocab.txt"), Network()
    network.load_base(base_weights(base))
    save(out / "base", network, Masters(network), 0, 0)
    plan = planned(network, pieces, steps, random.Random(0))
    fit(network, plan, partial(nearness, pieces=pieces), out, RATE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("base", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    train(given.base, given.out, given.steps)
