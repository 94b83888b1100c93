"""Calls written into files instead of being sent, in the form of OpenAI's Batch API, and their replies taken in.

The files are JSON lines. A request is ``{"custom_id", "method", "url", "body"}``, a result ``{"id", "custom_id",
"response": {"status_code", "request_id", "body"}, "error"}``, in any order; what failed or came too late has a file of
its own there. OpenAI's API, Azure's and vLLM's ``run-batch`` read and write them so.
"""

from __future__ import annotations

from polyhop.lm.batches.folder import BatchFolder
from polyhop.lm.batches.ledger import RequestFile
from polyhop.lm.batches.model import BatchedLM
from polyhop.lm.batches.results import ImportCounts

__all__ = ["BatchFolder", "BatchedLM", "ImportCounts", "RequestFile"]
