"""The modules of the optional extras, and their import where they are used."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType

from polyhop.errors import MissingExtra

EXTRA_MODULES: dict[str, tuple[str, ...]] = {
    "hf": ("torch", "transformers"),
    "onnx": ("onnxruntime", "tokenizers"),
    "dense": ("faiss",),
    "datasets": ("datasets",),
    "docs": ("mammoth", "pypdfium2"),
    "serve": ("fastapi", "uvicorn", "python_multipart"),
    "mcp": ("mcp",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "pgvector": ("psycopg",),
    "qdrant": ("qdrant_client",),
    "elastic": ("elasticsearch", "opensearchpy"),
    "ray": ("ray",),
    "langchain": ("langchain_core",),
    "llamaindex": ("llama_index.core",),
    "haystack": ("haystack",),
}
"""The modules of each extra, which ``pip install 'polyhop[NAME]'`` installs."""


def is_installed(extra: str) -> bool:
    """Check that all modules of an extra can be found, without importing them.

    >>> is_installed("hf") in (True, False)
    True
    """
    return all(find_spec(module.partition(".")[0]) is not None for module in EXTRA_MODULES[extra])


def require(module: str, extra: str, feature: str) -> ModuleType:
    """Import a module of an extra. Raises ``MissingExtra``, which names the install command, if it is missing."""
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(feature, extra) from error
    if module == "transformers":
        loaded.utils.logging.disable_progress_bar()  # otherwise it draws one per checkpoint, even into a pipe
    return loaded
