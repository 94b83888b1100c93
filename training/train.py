"""Training: the network over all examples, in bf16 with fp32 masters; a stopped training continues.

    python -m training.train EXAMPLES BASE OUT [--begin NETWORK] [--rate 2e-4] [--rounds 1.0] [--threads 2]

EXAMPLES: what ``training.examples`` or a later stage wrote. BASE: the folder of all-MiniLM-L6-v2, whose weights it
begins with; with NETWORK, the checkpoint of an earlier training, it begins with that one's, and BASE needs only
``vocab.txt``. OUT: a folder for the checkpoint, ``network.pt``. Sequences of like length go together, so that little of
a batch is padding.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from polyhop.lm.pocket.encoder.inputs import KINDS
from polyhop.lm.pocket.encoder.wordpiece import WordPiece
from training.data import read
from training.network import Network, Shape, trained
from training.rows import MAX_SPANS, Row, batches, row_of, tensors

BASE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS = "model.safetensors"
RATE, HEADS, WARM_UP, DECAY = 2e-4, 3.0, 100, 0.01  # learning rate, its factor for the heads, steps, weight decay
USUAL = 24.0  # rows of a batch
SAVE_EVERY, LOG_EVERY = 300.0, 50  # seconds, steps

Learnt = TypeVar("Learnt")
"""One of a batch: a row, or a question and its sentence."""


def losses(network: Network, rows: Sequence[Row], padding: int) -> dict[str, Tensor]:
    """The losses of a batch by skill, each summed over the batch's rows."""
    ids, segments, mask = tensors(rows, padding)
    starts, ends, kind, relevance, sufficiency = (each.float() for each in network(ids, segments, mask))
    parts: dict[str, Tensor] = {}
    reads = [at for at, row in enumerate(rows) if row.spans]
    if reads:
        seen = (segments * mask)[reads]
        seen[:, 0] = torch.tensor([int(rows[at].kind >= 0) for at in reads])  # no answer, where that is known
        hide = torch.where(seen > 0, 0.0, -1e4)
        first, last = F.log_softmax(starts[reads] + hide, -1), F.log_softmax(ends[reads] + hide, -1)
        spans = torch.zeros(len(reads), MAX_SPANS, 2, dtype=torch.long)
        real = torch.full((len(reads), MAX_SPANS), -1e4)
        for at, row in enumerate(reads):
            own = rows[row].spans
            spans[at, : len(own)] = torch.tensor(own)
            real[at, : len(own)] = 0.0
        chances = first.gather(1, spans[:, :, 0]) + last.gather(1, spans[:, :, 1]) + real
        parts["span"] = -chances.logsumexp(1).sum()
        if competing := _competition([rows[at] for at in reads], starts[reads], ends[reads], hide, spans, real):
            parts["group"] = torch.stack(competing).sum()
    known = [at for at, row in enumerate(rows) if row.kind >= 0]
    if known:
        truth = torch.tensor([rows[at].kind for at in known])
        parts["kind"] = F.cross_entropy(kind[known], truth, reduction="sum")
    for name, logits, field in (("relevance", relevance, "relevant"), ("sufficiency", sufficiency, "enough")):
        known = [at for at, row in enumerate(rows) if getattr(row, field) >= 0]
        if known:
            truth = torch.tensor([float(getattr(rows[at], field)) for at in known])
            parts[name] = F.binary_cross_entropy_with_logits(logits[known], truth, reduction="sum")
    return parts


def _competition(
    rows: Sequence[Row], starts: Tensor, ends: Tensor, hide: Tensor, spans: Tensor, real: Tensor
) -> list[Tensor]:
    """The loss of each group: of its right spans among those of all its passages, each scored against no answer in its
    own (the shared normalisation of Clark and Gardner, 2018, §3.2, with the score by which passages are compared)."""
    groups: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        if row.group:
            groups[row.group].append(at)
    nothing = starts[:, 0] + ends[:, 0]
    within = hide.clone()
    within[:, 0] = -1e4
    every = (starts + within).logsumexp(1) + (ends + within).logsumexp(1) - nothing
    own = (starts.gather(1, spans[:, :, 0]) + ends.gather(1, spans[:, :, 1]) + real).logsumexp(1) - nothing
    found = []
    for group in groups.values():
        right = [at for at in group if KINDS[rows[at].kind] == "span"]
        if right and len(group) > 1:
            found.append(every[group].logsumexp(0) - own[right].logsumexp(0))
    return found


class Masters:
    """fp32 copies of bf16 parameters, stepped by AdamW and copied back."""

    def __init__(self, network: Network) -> None:
        self.parameters = [each for _, each in trained(network)]
        self.masters = [each.detach().float().clone() for each in self.parameters]
        names = [name for name, _ in trained(network)]
        groups: dict[tuple[float, float], list[Tensor]] = defaultdict(list)
        for name, master in zip(names, self.masters, strict=True):
            head = name.startswith(("span", "judge", "verdict"))
            groups[HEADS if head else 1.0, DECAY if master.ndim > 1 else 0.0].append(master)
        groups_of = [
            {"params": held, "factor": factor, "weight_decay": decay} for (factor, decay), held in groups.items()
        ]
        self.adam = torch.optim.AdamW(groups_of, lr=RATE, betas=(0.9, 0.98), fused=True)

    def step(self, rate: float) -> None:
        """Take a step by the parameters' gradients, and clear them."""
        for group in self.adam.param_groups:
            group["lr"] = rate * group["factor"]
        for master, parameter in zip(self.masters, self.parameters, strict=True):
            master.grad = None if parameter.grad is None else parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_([each for each in self.masters if each.grad is not None], 1.0)
        self.adam.step()
        self.write()

    def write(self) -> None:
        """Copy the masters into the parameters."""
        with torch.no_grad():
            for master, parameter in zip(self.masters, self.parameters, strict=True):
                parameter.copy_(master)


def rate_at(step: int, steps: int, rate: float = RATE) -> float:
    """Return the learning rate: linear warm-up to ``rate``, then linear decay."""
    return rate * min(1.0, (step + 1) / WARM_UP) * max(0.0, 1.0 - step / steps)


def base_weights(folder: Path) -> dict[str, Tensor]:
    """Load the base model's weights; ``SystemExit`` if they are not the pinned ones."""
    file = folder / WEIGHTS
    if hashlib.sha256(file.read_bytes()).hexdigest() != BASE_SHA256:
        raise SystemExit(f"{file} is not the all-MiniLM-L6-v2 that the recipe is pinned to (sha256 {BASE_SHA256})")
    weights: dict[str, Tensor] = load_file(file)
    return weights


def train(
    examples: Path, base: Path, out: Path, rounds: float, begin: Path | None = None, seed: int = 0, rate: float = RATE
) -> None:
    """Train the base model, or what was made of it before, and save it in ``out``; see the module."""
    torch.manual_seed(seed)
    pieces, chance = WordPiece.read(base / "vocab.txt"), random.Random(seed)
    rows = [row for example in read(examples) if (row := row_of(example, pieces, chance))]
    if begin is None:
        network = Network()
        network.load_base(base_weights(base))
    else:
        network = load_network(begin)
    print(f"{len(rows)} rows, {sum(len(row.ids) for row in rows) / 1e6:.1f} M pieces", flush=True)
    fit(network, planned(rows, rounds, seed), partial(losses, padding=pieces.padding), out, rate)


def planned(rows: Sequence[Row], rounds: float, seed: int = 0) -> list[list[Row]]:
    """The batches of so many rounds over rows."""
    plan = [[rows[at] for at in batch] for turn in range(math.ceil(rounds)) for batch in batches(rows, seed + turn)]
    return plan[: math.ceil(len(plan) * rounds / math.ceil(rounds))]


def fit(
    network: Network, plan: Sequence[Sequence[Learnt]],
    loss: Callable[[Network, Sequence[Learnt]], Mapping[str, Tensor]], out: Path, rate: float = RATE,
) -> None:  # fmt: skip
    """Train a network on the batches of a plan, in bf16. ``loss``: a batch's losses by skill, each summed over it.
    Goes on from the checkpoint in ``out`` and leaves its last one there."""
    network.to(torch.bfloat16)
    masters, log = Masters(network), Log(len(plan))
    begun = _resume(out, masters, len(plan))
    saved = time.monotonic()
    for step in range(begun, len(plan)):
        parts = loss(network, plan[step])
        (sum(parts.values(), torch.zeros(())) / USUAL).backward()
        masters.step(rate_at(step, len(plan), rate))
        log.add(step, {name: part.item() / len(plan[step]) for name, part in parts.items()})
        if time.monotonic() - saved > SAVE_EVERY:
            save(out, network, masters, step + 1, len(plan))
            saved = time.monotonic()
    save(out, network, masters, len(plan), len(plan))


class Log:
    """Prints the mean losses and the speed every N steps."""

    def __init__(self, steps: int) -> None:
        self.steps, self.since = steps, time.monotonic()
        self.losses: dict[str, list[float]] = defaultdict(list)

    def add(self, step: int, losses: Mapping[str, float]) -> None:
        """Add a step's losses, each the mean of its rows."""
        for name, loss in losses.items():
            self.losses[name].append(loss)
        if (step + 1) % LOG_EVERY:
            return
        means = "  ".join(f"{name} {np.mean(values):.3f}" for name, values in sorted(self.losses.items()))
        seconds = (time.monotonic() - self.since) / LOG_EVERY
        print(f"{step + 1}/{self.steps}  {means}  {seconds:.1f} s/step", flush=True)
        self.losses.clear()
        self.since = time.monotonic()


def save(out: Path, network: Network, masters: Masters, step: int, steps: int) -> None:
    """Write a checkpoint, atomically."""
    out.mkdir(parents=True, exist_ok=True)
    state: dict[str, Any] = {
        "step": step, "steps": steps, "masters": masters.masters, "adam": masters.adam.state_dict(),
        "names": [name for name, _ in trained(network)], "network": network.state_dict(),
        "shape": asdict(network.shape),
    }  # fmt: skip
    torch.save(state, out / "network.new")
    (out / "network.new").rename(out / "network.pt")


def _resume(out: Path, masters: Masters, steps: int) -> int:
    """Load the last checkpoint and return its step; ``SystemExit`` if it belongs to another training."""
    file = out / "network.pt"
    if not file.exists():
        return 0
    state = torch.load(file, weights_only=True)
    if state.get("steps") != steps:
        raise SystemExit(
            f"{file} is of a training of {state.get('steps')} steps, not of {steps}: remove it to start again"
        )
    for own, theirs in zip(masters.masters, state["masters"], strict=True):
        own.copy_(theirs)
    masters.adam.load_state_dict(state["adam"])
    masters.write()
    return int(state["step"])


def load_network(file: Path) -> Network:
    """Load the network of a checkpoint, in fp32 from its masters."""
    state = torch.load(file, weights_only=True)
    network = Network(Shape(**state.get("shape", {})))
    network.load_state_dict({name: each.float() for name, each in state["network"].items()})
    own = dict(network.named_parameters())
    with torch.no_grad():
        for name, master in zip(state["names"], state["masters"], strict=True):
            own[name].copy_(master)
    network.eval()
    return network


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=float, default=1.0, help="how often all examples are learnt from")
    parser.add_argument("--rate", type=float, default=RATE, help="the highest learning rate")
    parser.add_argument("--begin", type=Path, help="a checkpoint whose weights to begin with")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    parser.add_argument("--device", default="cpu", help="torch's name of what computes: cpu, cuda")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.set_default_device(given.device)
    train(given.examples, given.base, given.out, given.rounds, given.begin, rate=given.rate)
