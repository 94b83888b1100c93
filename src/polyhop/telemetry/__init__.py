"""Traces for OpenTelemetry: a question is a span, and its branches, model calls and searches are spans below it.

Names and attributes are those of the GenAI semantic conventions (in development; as of July 2026): ``invoke_workflow
{method}``, ``chat {model}``, ``retrieval {corpus}``; what they have no name for stands under ``polyhop.``. Questions,
prompts, replies and passages are told only where ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` asks for them.
"""

from polyhop.telemetry.exporting import start as start
from polyhop.telemetry.tracing import traced as traced
