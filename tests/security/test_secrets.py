"""No key, and no user or password of a URL, in what a run writes, logs or says, even where a server repeats them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import polyhop
from polyhop import Passage, Question
from polyhop.common.aio import LoopThread
from polyhop.errors import LMError
from polyhop.lm.openai import OpenAICompatible
from tests.kit.openai_server import FakeServer
from tests.kit.retrieval_services import failing

SECRETS = ("sk-secret-0123456789", "hunter2", "tag-secret")


@pytest.mark.parametrize("broken", [False, True])
def test_a_run_tells_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], broken: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    thread, server = LoopThread(), FakeServer()
    url = thread.run(server.start())
    try:
        if broken:
            server.faults.extend([failing(401, {"error": {"message": f"wrong key {' '.join(SECRETS)}"}})] * 9)
        lm = OpenAICompatible("tiny", url.replace("://", "://ada:hunter2@") + "?tag=tag-secret", SECRETS[0], retries=0)
        said = ""
        try:
            polyhop.evaluate(
                [Question("q", "Who?")],
                method="one-r",
                lm=lm,
                cache=True,
                retriever=lambda query, k: [Passage("p", "Title", "Text.")],
                out=tmp_path / "run",
            )
        except LMError as error:
            said = str(error)
        assert bool(said) == broken
    finally:
        thread.run(server.stop())
        thread.stop()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    printed = "".join(capsys.readouterr())
    for secret in SECRETS:
        assert secret.encode() not in written
        assert secret not in said + printed + caplog.text + repr(lm) + lm.identity


def test_server_and_settings_enter_the_cache_key_but_no_api_key_does() -> None:
    def kept(**options: object) -> str:
        return OpenAICompatible("m", **{"url": "http://one.example/v1", "api_key": "k" * 20, **options}).identity  # type: ignore[arg-type]

    assert kept() == kept(api_key="j" * 20)
    assert len({kept(), kept(url="http://two.example/v1"), kept(extra_body={"top_p": 0.1}), kept(chat=False)}) == 4
