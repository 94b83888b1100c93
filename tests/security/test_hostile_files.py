"""Files of settings that wish harm: protocols, prompts, sweeps and prices, too deep, too large or too slow.

They are their user's own, and may come from a paper's repository: each is read, or an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyhop.engine.budget import Prices
from polyhop.errors import PolyhopError
from polyhop.evaluation.sweeps.plan import read_plan
from polyhop.prompts.loading import Template, parse_file
from polyhop.prompts.protocol import FOLDER, named

PROTOCOL = (FOLDER / "search-r1.toml").read_text()
DEEP = {
    "arrays": f"zz = {'[' * 5000}{']' * 5000}\n",
    "tables": f"zz = {'{a=' * 5000}1{'}' * 5000}\n",
    "digits": f"zz = {'9' * 5000}\n",
    "a bracket": "zz = [\n" * 5000,
}
SUITABLE: dict[str, Callable[[Path, str], Any]] = {
    "protocol": lambda path, bad: named(_write(path, f"{PROTOCOL}\n{bad}")),
    "prompt": lambda path, bad: parse_file(f"+++\n{bad}+++\nAnswer.\n# Output\nx\n# Input\n{{question}}\n", path.name),
    "sweep": lambda path, bad: read_plan(Path(_write(path, f"[run]\ndataset = 'demo'\n{bad}"))),
    "prices": lambda path, bad: Prices.of(_write(path, bad)),
}


def _write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("bad", DEEP)
@pytest.mark.parametrize("kind", SUITABLE)
def test_a_file_of_settings_that_is_nested_too_deeply_is_named(kind: str, bad: str, tmp_path: Path) -> None:
    with pytest.raises(PolyhopError, match=r"file\.toml") as caught:
        SUITABLE[kind](tmp_path / "file.toml", DEEP[bad])
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("<search>", f"<{'search' * 99}>", "a tag has 2 to 100 characters"),
        ("<search>", " ", "a tag has 2 to 100 characters"),
        ("{question}", "{question}" + "{?question}" * 9999, "more than 20 parts are open"),
        ("{question}", "{question}" + "{?question}" * 21 + "{/}" * 21, "more than 20 parts are open"),
        ("{question}", "{question}{0.__class__}{passages}", "unknown field in 'prompt' 'passages'"),
    ],
)
def test_a_protocol_out_of_bounds_says_which(old: str, new: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(PolyhopError, match=rf"file\.toml: .*{why}"):
        named(_write(tmp_path / "file.toml", PROTOCOL.replace(old, new)))


def test_a_tag_is_text_and_no_pattern(tmp_path: Path) -> None:
    protocol = named(_write(tmp_path / "file.toml", PROTOCOL.replace("<search>", "(a+)+$")))
    assert protocol.safe("a" * 5000 + "!") == "a" * 5000 + "!"
    assert "(a+)+$" not in protocol.safe("so (a+)+$ it is")


def test_a_template_takes_any_text_for_text() -> None:
    for text in ("{" + " " * 50_000, "{ ?" * 20_000, "{}" * 20_000, "{!x}", "{question.__class__}", "%s $HOME"):
        assert Template.parse(text).render({}, {}) == text
