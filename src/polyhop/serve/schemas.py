"""JSON-ready values of a question, its answer and its trace, shared by all interfaces."""

from __future__ import annotations

from typing import Any

from polyhop.answer import NO_ANSWER, UNREAD_NOTICE, Answer, declined, support_notice
from polyhop.serve.service import AskResponse, AskStarted
from polyhop.trace import CALLS, plain

ABSTAINED = f"{NO_ANSWER} The best answer found was withheld: it is too unsure."
DECLINED = f"{NO_ANSWER} Nothing that was read answers the question."
POCKET = (
    "Answered by pocket, a small trained reader with rules: it has no general knowledge and writes no prose; "
    "for a language model, serve with --lm openai:MODEL."
)


def notice_of(answer: Answer) -> str | None:
    """Return a warning to read before trusting the answer, if any."""
    notices = [*filter(None, [support_notice(answer)])]
    if answer.text and not answer.parsed:
        notices.append(UNREAD_NOTICE)
    if answer.abstained:
        notices = [DECLINED if declined(answer) else ABSTAINED]
    if any(isinstance(step, CALLS) and step.model == "pocket" for step in answer.trace.steps):
        notices.append(POCKET)
    return " ".join(notices) or None


def answer_row(response: AskResponse) -> dict[str, Any]:
    """Return an answer without its trace."""
    row = response.answer.to_dict(with_trace=False)  # writing it is slow
    notice = notice_of(response.answer)
    named = {"trace_id": response.trace_id, "method": response.request.method, "corpus": response.request.corpus}
    return {**named, **row, **({"notice": notice} if notice else {})}


def started_row(started: AskStarted | AskResponse) -> dict[str, Any]:
    """Return an accepted question with the settings in use."""
    request = started.request
    fields = {name: getattr(request, name) for name in ("question", "method", "corpus")}
    return {"trace_id": started.trace_id, **fields, "settings": plain(request.settings)}


def trace_row(response: AskResponse) -> dict[str, Any]:
    """Return an answer with its trace; the trace's ``passages`` maps ids to passages."""
    return {**started_row(response), "answer": answer_row(response), "trace": response.answer.trace.to_dict()}


def summary_row(response: AskResponse) -> dict[str, Any]:
    """Return an answer as an entry of a list."""
    row = started_row(response)
    del row["settings"]
    return {**row, "answer": response.answer.text, "seconds": response.answer.usage.elapsed}
