"""PromptRank's scored tasks (Khalifa et al., 2023, §2.1): the question after a path, and a path after the question."""

from __future__ import annotations

from polyhop.prompts.tasks.base import ScoredTask

PROMPTRANK_PATH = ScoredTask(
    "promptrank.path",
    target="question",
    fields=("passages", "titles", "instruction", "position", "demonstrations"),
    optional=("titles", "demonstrations"),  # a file may always show titles; demonstrations come before the prompt
)
PROMPTRANK_QUESTION = ScoredTask("promptrank.question", target="passages", fields=("question",))
