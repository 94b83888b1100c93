"""The API against its own OpenAPI document: the document is valid, and no request of any form makes the server fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from polyhop.common.aio import LoopThread
from polyhop.common.extras import is_installed
from polyhop.serve.service import Service
from tests.kit.hostile_runs import evil_run, plain_run
from tests.kit.polyhop_server import served
from tests.serve.test_chat import TOWNS, Model

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]

TRIED = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
KNOWN = {
    "run": ["set:one", "evil"],
    "question": ["q1", "<i>0</i>"],
    "model": ["polyhop", "direct"],
    "a": ["set:one"],
    "corpus": ["towns"],
}
"""Names that there are: what is made up finds nothing behind most paths."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with runs, in a loop on another thread, since the tool that asks it waits."""
    folder = tmp_path_factory.mktemp("served")
    plain_run(folder / "set" / "one", wrong=[1])
    plain_run(folder / "set" / "two", wrong=[2])
    evil_run(folder / "evil")
    (folder / "broken").mkdir()
    for name in ("run.json", "predictions.jsonl"):
        (folder / "broken" / name).write_text("{\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYHOP_CACHE", str(folder / "cache"))
        thread = LoopThread()
        server = served(Service({"towns": TOWNS}, method="one-r", lm=Model(), reader=None, runs=folder))
        yield thread.run(server.__aenter__())
        thread.run(server.__aexit__(None, None, None))
        thread.stop()


@pytest.fixture(scope="module")
def schema(url: str) -> Any:
    schemathesis = pytest.importorskip("schemathesis")
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


def test_the_document_is_valid_and_whole(schema: Any) -> None:
    schema.validate()
    labels = {result.ok().label for result in schema.get_all_operations()}
    assert {
        "POST /v1/ask",
        "POST /v1/search",
        "POST /retrieve",
        "POST /batch_search",
        "GET /v1/traces/{trace_id}",
        "GET /v1/methods",
        "GET /v1/corpora/{corpus}",
        "POST /v1/chat/completions",
        "GET /v1/models",
        "GET /v1/runs",
        "GET /v1/runs/compare",
        "GET /v1/runs/{run}/questions/{question}",
        "GET /health",
    } <= labels


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_makes_the_server_fail(schema: Any, mode: str) -> None:
    """Requests of the document's form, and of any other: what comes is no failure, and of the form that is told."""
    schemathesis = pytest.importorskip("schemathesis")
    checks = schemathesis.checks
    failures: list[str] = []
    documented = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]
    for result in schema.get_all_operations():
        operation = result.ok()
        takes_nothing = not (operation.body or operation.path_parameters or operation.query)
        if mode == "NEGATIVE" and takes_nothing:
            continue
        strategy = operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode])

        @TRIED
        @given(case=strategy, data=st.data())
        def answered(case: Any, data: st.DataObject) -> None:
            place_known_names(case, data)
            response = case.call()
            case.validate_response(response, checks=[checks.not_a_server_error, *documented])
            if response.status_code >= 400:
                error = response.json()["error"]
                assert error["type"]
                assert error["message"]

        try:
            answered()
        except Unsatisfiable:
            assert mode == "NEGATIVE", "any text is of the form"
        except (Exception, BaseExceptionGroup) as failure:  # noqa: BLE001 - one fault hides no other
            failures.append(f"{operation.label}: {failure!r} {getattr(failure, 'exceptions', '')}")
    assert not failures, "\n".join(failures)


def place_known_names(case: Any, data: st.DataObject) -> None:
    """Half of the time, names that there are."""
    for part in (case.path_parameters, case.query):
        for name in part.keys() & KNOWN.keys() if isinstance(part, dict) else ():
            if data.draw(st.booleans()):
                part[name] = data.draw(st.sampled_from(KNOWN[name]))
    if isinstance(case.body, dict) and "messages" in case.body and data.draw(st.booleans()):
        case.body["model"] = "direct"
