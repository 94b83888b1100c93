"""Traces for OpenTelemetry: a question is a span, and its branches, model calls and searches are spans below it.

Names and attributes follow the GenAI semantic conventions (in development; as of July 2026): ``invoke_workflow
{method}``, ``chat {model}``, ``retrieval {corpus}``; attributes without a convention begin with ``polyhop.``.
Questions, prompts, replies and passages are reported only if ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``
asks for them.
"""

from polyhop.telemetry.tracing import start as start
from polyhop.telemetry.tracing import traced as traced
