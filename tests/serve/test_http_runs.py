"""The runs over HTTP: their routes, names of any letters in paths, and a picture with its own policy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import aiohttp
import pytest

from polyhop import Passage, ScriptedLM
from polyhop.common.extras import is_installed
from polyhop.serve.service import Service
from tests.kit.hostile_runs import ATTACKS, evil_run, plain_run
from tests.kit.polyhop_server import served

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]


@asynccontextmanager
async def looking(folder: Path | None) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a server over runs."""
    service = Service(
        {"towns": [Passage("p", "Oslo", "A town.")]}, method="direct", lm=ScriptedLM({}), reader=None, runs=folder
    )
    async with served(service) as url, aiohttp.ClientSession(f"{url}/v1/") as session:
        yield session


async def test_runs_are_looked_at_from_the_list_to_a_trace(tmp_path: Path) -> None:
    plain_run(tmp_path / "set" / "one", wrong=[1, 2])
    plain_run(tmp_path / "set" / "two", wrong=[2, 3])
    async with looking(tmp_path) as session:
        async with session.get("runs") as response:
            rows = (await response.json())["runs"]
        assert {row["run"] for row in rows} == {"set:one", "set:two"}
        async with session.get("runs/set:one") as response:
            assert (await response.json())["metrics"]["em"]["value"] == 0.75
        async with session.get("runs/set:one/questions?wrong=true&search=town+2&limit=5") as response:
            found = await response.json()
        assert [row["id"] for row in found["questions"]] == ["q2"]
        async with session.get("runs/set:one/questions/q2") as response:
            assert (await response.json())["trace"]["steps"][0]["kind"] == "search"
        async with session.get("runs/compare?a=set:one&b=set:two") as response:
            assert [row["id"] for row in (await response.json())["flipped"]] == ["q1", "q3"]
        async with session.get("runs/frontier.svg?run=set:one&run=set:two&cost=tokens&metric=em") as response:
            assert response.content_type == "image/svg+xml"
            assert response.headers.getall("Content-Security-Policy") == [
                "default-src 'none'; style-src 'unsafe-inline'"
            ]
            assert len(ElementTree.fromstring(await response.text()).findall(".//{*}circle")) == 2


async def test_names_may_hold_anything(tmp_path: Path) -> None:
    evil_run(tmp_path / "<b>run ü?#%2F")
    async with looking(tmp_path) as session:
        async with session.get("runs") as response:
            rows = (await response.json())["runs"]
        assert [row["run"] for row in rows] == ["<b>run ü?#%2F"]
        folder = quote(rows[0]["run"], safe="")
        async with session.get(f"runs/{folder}/questions?type={quote(ATTACKS[3])}") as response:
            (found,) = (await response.json())["questions"]
        assert found["question"] == ATTACKS[3]
        async with session.get(f"runs/{folder}/questions/{quote(found['id'], safe='')}") as response:
            assert (await response.json())["answer"]["answer"] == ATTACKS[3]


WRONG = [
    ("runs/nowhere", 404, "unknown run 'nowhere'"),
    ("runs/..%2f..%2fetc", 404, ""),
    ("runs/one/questions/q99", 404, "unknown question"),
    ("runs/compare?a=one&b=nowhere", 404, "unknown run 'nowhere'"),
    ("runs/compare?a=one", 422, "b: Field required"),
    ("runs/one/questions?limit=0", 422, "limit"),
    ("runs/one/questions?offset=-1", 422, "offset"),
    ("runs/frontier.svg?cost=patience", 422, "cost"),
    ("runs/frontier.svg?metric=beauty", 400, "unknown metric"),
]


async def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    plain_run(tmp_path / "one")
    async with looking(tmp_path) as session:
        for path, status, said in WRONG:
            async with session.get(path) as response:
                assert (path, response.status) == (path, status)
                assert said in (await response.json())["error"]["message"]


async def test_a_server_without_runs_has_none() -> None:
    async with looking(None) as session:
        async with session.get("runs") as response:
            assert (await response.json()) == {"runs": []}
        async with session.get("runs/frontier.svg") as response:
            assert response.status == 400
