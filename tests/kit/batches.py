"""A model that answers in the requested shape, on loopback or from files: the same body gives the same reply.

What it says is drawn from a hash of the messages and the seed, so that every turn a method can take comes up. Bodies
tell the shape where prompts are rendered as JSON.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.kit.openai_server import FakeServer, Reply

Row = dict[str, Any]


def say(body: Mapping[str, Any]) -> str:
    """Return the reply to a body, as JSON in the requested shape."""
    schema = body["response_format"]["json_schema"]["schema"]
    draw = random.Random(json.dumps(body["messages"]) + str(body.get("seed", "")))
    return json.dumps(_value(schema, schema.get("$defs", {}), draw))


def _value(schema: Mapping[str, Any], others: Mapping[str, Any], draw: random.Random) -> Any:
    if "$ref" in schema:
        return _value(others[schema["$ref"].rpartition("/")[2]], others, draw)
    if "anyOf" in schema:
        return _value(draw.choice(schema["anyOf"]), others, draw)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            return {name: _value(each, others, draw) for name, each in schema["properties"].items()}
        case "array":
            return [_value(schema["items"], others, draw) for _ in range(draw.randint(1, 2))]
        case "boolean":
            return draw.random() < 0.4
        case "integer" | "number":
            return draw.randint(0, 1)
        case "null":
            return None
        case _:
            return f"word {draw.randint(1, 99)}"


def requests(folder: Path, number: int | None = None) -> list[Row]:
    """Return the requests of one file or of all files."""
    files = sorted(folder.glob(f"requests-{number:04d}.jsonl" if number else "requests-*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def result(row: Row, say: Callable[[Mapping[str, Any]], str | Reply] = say) -> Row:
    """Return the result of a request in the form of OpenAI's API."""
    said = say(row["body"])
    reply = json.loads(FakeServer()._chat(row["body"], said if isinstance(said, Reply) else Reply(text=said)))
    response = {"status_code": 200, "request_id": "req_1", "body": reply}
    return {"id": "batch_req_1", "custom_id": row["custom_id"], "response": response, "error": None}


def failure(row: Row, status: int, message: str, **more: Any) -> Row:
    """Return the result of a refused request."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}
    response = {"status_code": status, "request_id": "req_1", "body": body}
    return {"id": "batch_req_1", "custom_id": row["custom_id"], "response": response, "error": None}


def expired(row: Row) -> Row:
    """Return the line in the file of errors for a request that expired."""
    error = {"code": "batch_expired", "message": "This request could not be executed in time."}
    return {"id": "batch_req_1", "custom_id": row["custom_id"], "response": None, "error": error}


def write(path: Path, rows: list[Row]) -> Path:
    """Write a file of results."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def serve(folder: Path, seed: int = 0) -> int:
    """Answer every file of requests that has no results yet, out of order; return the number of requests."""
    count = 0
    for asked in unanswered(folder):
        rows = [result(row) for row in requests(folder, int(asked.stem.rpartition("-")[2]))]
        random.Random(seed).shuffle(rows)
        write(folder / asked.name.replace("requests", "results"), rows)
        count += len(rows)
    return count


def unanswered(folder: Path) -> Iterator[Path]:
    """Return the files of requests without results."""
    for path in sorted(folder.glob("requests-*.jsonl")):
        if not (folder / path.name.replace("requests", "results")).exists():
            yield path
