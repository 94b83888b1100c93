"""The export of spans, configured by environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from polyhop.common.extras import require
from polyhop.errors import SettingError, UnknownName

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON_SPANS = ("true", "span_only", "span_and_event")
_NOT_ON_SPANS = ("", "false", "no_content", "event_only")
_EXPORTERS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def start() -> None:
    """Export spans as the ``OTEL_*`` variables say, unless the program or ``opentelemetry-instrument`` has already
    configured an export.

    ``OTEL_TRACES_EXPORTER`` names ``otlp`` (the default), ``console`` (to stderr, since results go to stdout), ``none``
    or another package's exporter. Remaining spans are sent when the program ends. Raises ``MissingExtra``,
    ``UnknownName``, and ``SettingError`` for an invalid value.
    """
    captures_content()
    trace, sdk = (require(f"opentelemetry.{name}", "otel", "telemetry") for name in ("trace", "sdk.trace"))
    if isinstance(trace.get_tracer_provider(), sdk.TracerProvider):
        return
    export = require("opentelemetry.sdk.trace.export", "otel", "telemetry")
    provider = sdk.TracerProvider(resource=_resource())
    for exporter in _exporters(export):
        provider.add_span_processor(export.BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def captures_content() -> bool:
    """Return True if the environment asks for texts on spans. Raises ``SettingError`` for an unknown value."""
    value = os.environ.get(CAPTURE, "").strip().lower()
    if value not in (*_ON_SPANS, *_NOT_ON_SPANS):
        raise SettingError(
            f"{CAPTURE}={value}: must be NO_CONTENT, SPAN_ONLY, SPAN_AND_EVENT, EVENT_ONLY, true or false"
        )
    return value in _ON_SPANS


def _resource() -> Any:
    """Return the environment's description of this program, named polyhop unless it has another name."""
    resources = require("opentelemetry.sdk.resources", "otel", "telemetry")
    described = resources.Resource.create()
    unnamed = str(described.attributes.get("service.name", "")).startswith("unknown_service")
    return described.merge(resources.Resource({"service.name": "polyhop"})) if unnamed else described


def _exporters(export: Any) -> Iterator[Any]:
    installed = entry_points(group="opentelemetry_traces_exporter")
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        match name.strip():
            case "none" | "":
                pass
            case "console":
                yield export.ConsoleSpanExporter(out=sys.stderr)
            case other:
                known = _otlp() if other == "otlp" else other
                if known not in installed.names:
                    raise UnknownName("OTEL_TRACES_EXPORTER", known, {"console", "none", "otlp", *installed.names})
                yield installed[known].load()()


def _otlp() -> str:
    """Return the exporter for the OTLP protocol that the environment names; HTTP by default."""
    default = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", default)
    if protocol not in _EXPORTERS:
        raise UnknownName("OTEL_EXPORTER_OTLP_PROTOCOL", protocol, _EXPORTERS)
    return _EXPORTERS[protocol]
