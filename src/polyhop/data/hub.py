"""Datasets of the Hugging Face Hub by name: ``hf:DATASET``, ``hf:DATASET:SPLIT`` or ``hf:DATASET:CONFIG:SPLIT``.

Requires ``polyhop[datasets]`` and, unless the dataset is in its cache, the network. Rows are streamed, so that only the
rows that are read are downloaded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from polyhop.common.extras import require
from polyhop.data.lines import json_type
from polyhop.data.sources import Rows, Source
from polyhop.errors import DataError, UsageError

PREFIX = "hf:"
SPLIT = "validation"
_COLON = re.compile(r":(?![^\[]*\])")  # not those of a slice, as in train[:100]


def parse_hub_name(name: str) -> tuple[str, str | None, str]:
    """Return the dataset, its configuration and its split.

    >>> parse_hub_name("hf:hotpotqa/hotpot_qa:distractor:validation")
    ('hotpotqa/hotpot_qa', 'distractor', 'validation')
    >>> parse_hub_name("hf:owner/name:train[:100]"), parse_hub_name("hf:owner/name")
    (('owner/name', None, 'train[:100]'), ('owner/name', None, 'validation'))

    Raises:
        UsageError: it has too many parts, or an empty part.
    """
    parts = _COLON.split(name.removeprefix(PREFIX))
    if len(parts) > 3 or not all(parts):
        raise UsageError(f"{name}: must be hf:DATASET, hf:DATASET:SPLIT or hf:DATASET:CONFIG:SPLIT")
    return parts[0], parts[1] if len(parts) == 3 else None, parts[-1] if len(parts) > 1 else SPLIT


def open_hub(name: str) -> Source:
    """Open the rows of a Hub dataset.

    Raises:
        MissingExtra: the ``datasets`` package is not installed.
        DataError: the dataset, configuration or split does not exist or cannot be reached.
    """
    dataset, config, split = parse_hub_name(name)
    datasets = require("datasets", "datasets", "a dataset of the Hub")

    def rows() -> Rows:
        try:
            sliced = "[" in split  # a slice cannot be streamed
            found: Any = datasets.load_dataset(dataset, config, split=split, streaming=not sliced)
            for number, row in enumerate(found, 1):
                yield number, row if isinstance(row, dict) else DataError(f"row {number}: is {json_type(row)}", name)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"cannot be loaded: {str(error).strip().partition(chr(10))[0]}", name) from error

    return Source(Path(name), "Hub dataset", rows)
