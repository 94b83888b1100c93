"""The words by which a prompt says the form of its answer, for every kind of question but the usual one."""

from __future__ import annotations

from polyhop.prompts.tasks import TASKS
from polyhop.types import Kind

WORDS: dict[Kind, str] = {
    "boolean": "in one word: yes or no",
    "slot": "the value of the relation",
    "fact": "SUPPORTS",
    "long": "paragraph",
}
PARAGRAPH = """Ice forms where water freezes. Salt lowers the point at which it does.

The answer is not salt alone: sand helps, too."""
GUESSING = sorted(
    name for name, task in TASKS.items() if "kind" in task.fields and (task.output.ANSWER or name == "sure.candidates")
)
"""The tasks that are told the kind because their reply holds an answer."""
