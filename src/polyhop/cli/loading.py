"""``polyhop index load``."""

from __future__ import annotations

from polyhop.cli import show as draw
from polyhop.cli.ask import say_left_out
from polyhop.cli.printing import say
from polyhop.cli.progress import ProgressBar
from polyhop.data.corpora import Corpus
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.engines import load, open_store, parse_address
from polyhop.retrieval.index import index_for


def run_load(corpus: Corpus, engine: str, dense: str | None, overwrite: bool, as_json: bool) -> None:
    """Load a corpus into an engine, with progress; one that is no index is indexed in the cache first."""
    address = parse_address(engine)
    store = open_store(address)  # first, so that an error comes before the work
    try:
        encoder = open_encoder(wanted) if (wanted := dense or address.dense) else None
        with ProgressBar("passages indexed") as progress:
            index = index_for(corpus, progress=progress.update)
        say_left_out(corpus)
        outcome = load(index, store, encoder, overwrite=overwrite)
    finally:
        store.close()
    if as_json:
        draw.print_json({"place": address.shown, "outcome": outcome, **store.manifest.to_dict()})
        return
    say(f"{outcome}: {store.manifest} at {address.shown}")
