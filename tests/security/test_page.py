"""Every danger that docs/security.md tells of has a test, and those it names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = [row.split(" | ") for row in re.findall(r"^\| (.+?) \|$", PAGE.partition("## Tests")[2], re.M)][1:]


def test_each_danger_has_a_test_that_is_there() -> None:
    assert len(ROWS) >= 20
    for danger, _, test, *more in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", test)
        assert len(named) == 1, danger
        for file, name in [*named, *re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", " ".join(more))]:
            text = (ROOT / file).read_text()
            assert re.search(rf"def {name or 'test_'}", text), (danger, file, name)
