"""The average of two checkpoints' weights.

    python -m training.average FIRST SECOND OUT [--share 0.72]

FIRST, SECOND: checkpoints of ``training.train``, the second trained from the first (Wortsman et al., 2022: robust
fine-tuning). ``--share``: the weight of the second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch


def average(first: Path, second: Path, out: Path, share: float) -> None:
    """Write a checkpoint with the weights of the second, each averaged with the first's.

    Raises:
        ValueError: the two have weights of other names.
    """
    one, other = (torch.load(file, weights_only=True) for file in (first, second))
    if one["names"] != other["names"]:
        raise ValueError(f"{first} and {second} are checkpoints of different networks")
    pairs = zip(one["masters"], other["masters"], strict=True)
    torch.save({**other, "masters": [(1.0 - share) * own + share * theirs for own, theirs in pairs]}, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("first", "second", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--share", type=float, default=0.72)
    given = parser.parse_args()
    average(given.first, given.second, given.out, given.share)
