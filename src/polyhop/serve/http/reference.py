"""The page ``/docs``: the HTTP API as its OpenAPI document describes it. It has no script and loads only own styles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>API · polyhop</title>
<link rel="icon" href="static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="static/view/fonts.css"><link rel="stylesheet" href="static/view/tokens.css">
<link rel="stylesheet" href="static/view/base.css"><link rel="stylesheet" href="static/view/tables.css">
<link rel="stylesheet" href="static/css/reference.css"></head>
<body><main class="reference"><h1>HTTP API</h1>
<p>The same as a document for programs: <a href="openapi.json">openapi.json</a>. <a href="./">Back to the page</a>.</p>
"""


def reference(document: Mapping[str, Any]) -> str:
    """Return an OpenAPI document as HTML: first the API, then the routes of whoever runs the server."""
    paths = sorted(document["paths"].items(), key=lambda item: not item[0].startswith("/v1/"))
    operations = [
        _operation(verb.upper(), path, operation, document)
        for path, verbs in paths
        for verb, operation in verbs.items()
    ]
    return f"{_HEAD}{''.join(operations)}</main></body></html>"


def _operation(verb: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    about = escape(" ".join(operation.get("description", "").replace("``", "").split()))
    fields = [
        (parameter["name"], parameter["in"], parameter.get("schema", {}), parameter.get("required", False))
        for parameter in operation.get("parameters", [])
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        fields += _properties(content["schema"], document)
    rows = "".join(_row(*field) for field in fields)
    head = '<tr><th scope="col">field</th><th scope="col">in</th><th scope="col">type</th><th scope="col"></th></tr>'
    region = f'<div class="scroll" tabindex="0" role="region" aria-label="Fields of {escape(verb)} {escape(path)}">'
    table = f"{region}<table><thead>{head}</thead><tbody>{rows}</tbody></table></div>" if rows else ""
    return f"<section><h2><code>{escape(verb)} {escape(path)}</code></h2><p>{about}</p>{table}</section>"


def _properties(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, bool]]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    known = document.get("components", {}).get("schemas", {}).get(name, schema)
    for field, shape in known.get("properties", {}).items():
        yield field, "body", shape, field in known.get("required", [])


def _row(name: str, location: str, schema: Mapping[str, Any], required: bool) -> str:
    said = [schema.get("description", "").rstrip("."), "required" if required else "", _default(schema)]
    cells = [location, _type(schema), "; ".join(part for part in said if part)]
    shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row"><code>{escape(name)}</code></th>{shown}</tr>'


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else f"default: {str(default).lower() if isinstance(default, bool) else default}"


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    kinds = [kind for each in schema.get("anyOf", ()) if (kind := _type(each)) != "null"]
    return " or ".join(kinds) or str(schema.get("type") or schema.get("$ref", "").rpartition("/")[2])
