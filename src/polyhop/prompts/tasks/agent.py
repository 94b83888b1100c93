"""The tasks of the agent, whose model calls tools until it answers, or must answer.

``steps`` is ``[{"action": str, "argument": str, "passages": [Passage]}]``: the calls so far and what each showed. They
are not in the prompt, but in the turns after it.
"""

from __future__ import annotations

from polyhop.prompts.tasks.answers import reasoned_answer

AGENT_ACT = reasoned_answer("agent.act", fields=("question", "steps"), demonstrations="answer.cot", unshown=("steps",))
AGENT_FINISH = reasoned_answer(
    "agent.finish", fields=("question", "steps"), demonstrations="answer.cot", unshown=("steps",)
)
