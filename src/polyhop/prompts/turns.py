"""Demonstrations drawn from solved questions: the fields that each task shows of a question, and the output.

What prompts show of a question has one name in all tasks, so a demonstration is the fields of the task and of its
output, picked by name; some tasks change a few of them. A task of a single turn (an action, a review, a plan) is shown
the question after its first ``seen`` steps, any other task with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from polyhop.common.sentences import sentences
from polyhop.prompts.loading import Demonstration
from polyhop.prompts.solved import Solved, Step, solved
from polyhop.prompts.tasks import TASKS


@cache
def drawn(task: str) -> tuple[Demonstration, ...]:
    """Draw a task's demonstrations of every kind but ``qa``; none for a task that shows no solved questions."""
    if task not in _TURNS:
        return ()
    fields, output = TASKS[task].fields, TASKS[task].output
    return tuple(
        Demonstration(
            {name: turn.fields[name] for name in fields if name in turn.fields},
            output.model_validate({name: turn.output[name] for name in output.model_fields if name in turn.output}),
            {"kind": (question.kind,), **turn.when},
        )
        for question in solved()
        for turn in _TURNS[task](question)
    )


class Turn(NamedTuple):
    """The fields of a call and of its output, by name, and the switches of the calls that show it."""

    fields: Mapping[str, Any]
    output: Mapping[str, Any]
    when: Mapping[str, tuple[str, ...]] = {}

    def showing(self, **fields: Any) -> Turn:
        """Return the turn with other fields."""
        return self._replace(fields={**self.fields, **fields})

    def giving(self, **output: Any) -> Turn:
        """Return the turn with another output."""
        return self._replace(output={**self.output, **output})


@cache
def after(q: Solved, seen: int) -> Turn:
    """Return the turn after ``seen`` of a question's steps, which tasks share."""
    return Turn(_fields(q, q.steps[:seen]), _output(q, seen))


def _fields(q: Solved, known: Sequence[Step]) -> dict[str, Any]:
    right = {"passages": [step.passage for step in q.steps], "analysis": q.analysis, "answer": q.answer}
    evidence = [right, {"passages": [q.other], "analysis": "", "answer": q.wrong}]
    summaries = [q.summary, sentences(q.other.text)[0]]
    responses = [(step.query, step.sentence if step.is_known else None) for step in known[1:]]
    ends = [end for head, _, tail in (step.triplet for step in q.steps) for end in (head, tail)]
    return {
        "question": q.question,
        "sub_question": q.question,
        "passages": q.passages,
        "history": [{"sub_question": step.query, "sentence": step.sentence, "answer": step.answer} for step in known],
        "reasoning": q.sentences[: len(known)] if len(known) < len(q.steps) else q.sentences,
        "plan": [step.planned for step in q.steps],
        "recitations": [step.passage.text for step in q.steps],
        "rationale": q.rationale,
        "summary": summaries[0],
        "summaries": summaries[::-1] if q.odd else summaries,
        "candidates": [q.answer, q.wrong],
        "candidate": q.wrong if q.odd else q.answer,
        "count": 2,
        "memory": {
            "global_evidence": [step.sentence for step in known],
            "local_pathway": [{"sub_question": query, "response": response} for query, response in responses],
        },
        "asked": [q.question, *(query for query, _ in responses)],
        "evidence": evidence[::-1] if q.odd else evidence,
        "entities": list(dict.fromkeys(ends)),
        "triplets": [
            {"head": _name(step.triplet[0]), "relation": step.triplet[1], "tail": _name(step.triplet[2])}
            for step in q.steps
        ],
        "nodes": [{"query": step.query, "answer": step.answer, "passage": step.passage} for step in q.steps],
        "steps": [
            {"thought": " ".join(q.thought(i)), "action": "Search", "argument": step.query, "passages": [step.passage]}
            for i, step in enumerate(known)
        ],
        "written": [
            {"text": q.said(i), "query": step.query, "passages": [step.passage]} for i, step in enumerate(known)
        ],
    }


def _name(entity: str) -> str:
    return entity.partition(" (")[0]


def _output(q: Solved, seen: int) -> dict[str, Any]:
    missing = q.steps[seen:]
    query = missing[0].query if missing else None
    marked = [f"{step.sentence.removesuffix('.')} [{number}]." for number, step in enumerate(q.steps, 1)]
    return {
        "rationale": q.rationale,
        "answer": None if missing else q.answer,
        "plan": [step.planned for step in q.steps],
        "sub_questions": [step.planned for step in q.steps],
        "steps": [{"sub_question": step.query, "answer": step.sentence} for step in q.steps],
        "recitations": [step.passage.text for step in q.steps],
        "content": " ".join([*marked, *(q.sentences[len(q.steps) :] if q.kind == "long" else ())]),
        "candidates": [q.answer, q.wrong],
        "summary": "" if q.odd else " ".join(q.sentences),
        "valid": not q.odd,
        "better": 2 if q.odd else 1,
        "sufficient": not missing,
        "relevant": seen > 0,
        "supported": not missing,
        "thought": "\n".join(q.thought(seen)),
        "analysis": None if missing else q.analysis,
        "information": " ".join(step.sentence for step in missing) or None,
        "query": query,
        "sub_question": query,
        "follow_up": query,
        "action": "Search" if missing else "Finish",
        "argument": query or q.answer,
        "text": q.said(seen) if missing else " ".join(q.sentences[seen - 1 :]),
        "sentence": q.steps[seen].sentence if missing else f"So the answer is {_closing(q)}.",
    }


def _closing(q: Solved) -> str:
    return "complete" if q.kind == "long" else q.answer


# --- the turns of tasks ------------------------------------------------------------------------------------------


def _whole(q: Solved) -> Iterator[Turn]:
    yield after(q, len(q.steps))


def _single(q: Solved) -> Iterator[Turn]:
    yield after(q, q.seen)


def _unfinished(q: Solved) -> Iterator[Turn]:
    yield after(q, min(q.seen, len(q.steps) - 1))


def _reviewed(q: Solved) -> Iterator[Turn]:
    """A path of the steps seen; if there are none, of the passage that does not help."""
    yield after(q, q.seen).showing(passages=[step.passage for step in q.steps[: q.seen]] or [q.other])


def _completed(q: Solved) -> Iterator[Turn]:
    seen = min(q.seen, len(q.steps) - 1)
    path = [step.passage for step in q.steps[:seen]] or [q.other]
    yield after(q, seen).showing(passages=path).giving(thought=q.thought(seen)[1], answer=q.answer)


def _judged(q: Solved) -> Iterator[Turn]:
    """The evidence for the right answer, or for the wrong one."""
    found = after(q, len(q.steps))
    yield found.showing(evidence=found.fields["evidence"][:1]).giving(sufficient=not q.odd)


def _checked(q: Solved) -> Iterator[Turn]:
    """The right answer proposed, or the wrong one."""
    found = after(q, len(q.steps)).showing(prediction=q.wrong if q.odd else q.answer)
    if all(step.is_known for step in q.steps):
        verdict = "contradicted" if q.odd else "supported"
        yield found.giving(quotation=q.quotation, answer=q.short, verdict=verdict)
    else:
        yield found.giving(quotation=None, answer=None, verdict="missing")


def _acted(q: Solved) -> Iterator[Turn]:
    yield after(q, q.seen).giving(thought=" ".join(q.thought(q.seen)))


def _concluded(q: Solved) -> Iterator[Turn]:
    """Each step was answered before, in a sentence: only the conclusion is missing."""
    answered = [{"sub_question": step.query, "sentence": step.sentence, "answer": step.sentence} for step in q.steps]
    yield after(q, len(q.steps)).showing(history=answered).giving(rationale=q.conclusion or None)


def _summarized(q: Solved) -> Iterator[Turn]:
    """The facts of the passages; the passage that does not help has none."""
    found = after(q, len(q.steps)).showing(passages=[q.other] if q.odd else q.passages)
    yield found.giving(summary="" if q.odd else q.summary)


def _responded(q: Solved) -> Iterator[Turn]:
    """The summary and the response of the first step."""
    step = q.steps[0]
    if q.odd:
        yield after(q, 0).showing(sub_question=step.query, passages=[q.other]).giving(answered=False)
    else:
        shown = after(q, 0).showing(sub_question=step.query, passages=[q.other, step.passage])
        yield shown.giving(summary=step.sentence, answered=True, response=step.sentence)


def _sentence(q: Solved) -> Iterator[Turn]:
    yield after(q, q.seen)
    yield after(q, q.seen).showing(passages=[])


def _finished(q: Solved) -> Iterator[Turn]:
    """The rest of a text, and a text from its beginning."""
    found = after(q, len(q.steps))
    yield found.giving(rationale=found.output["text"])
    yield found.showing(written=[])


def _explored(q: Solved) -> Iterator[Turn]:
    """The facts of the steps seen, at least one, and the next pair to look up or the answer."""
    seen = max(q.seen, 1)
    triplets = after(q, seen).fields["triplets"]
    pairs = [f"{row['head']}; {row['relation']}" for row in triplets[seen : seen + 1]]
    found = after(q, seen).showing(triplets=triplets[:seen])
    yield found.giving(pairs=pairs, rationale=None if pairs else q.rationale)


def _hop(q: Solved) -> Iterator[Turn]:
    """The hop of the last step seen, and the first hop, before anything is searched."""
    seen = max(q.seen, 1)
    step = q.steps[seen - 1]
    shown = after(q, seen).showing(passages=[step.passage, q.other], summaries=q.sentences[: seen - 1])
    yield shown.giving(summary=step.sentence)
    yield after(q, 0).showing(passages=[], summaries=[]).giving(summary=None)


def _proposed(q: Solved) -> Iterator[Turn]:
    """The next step, and another that is clear on its own by then."""
    first, *others = q.steps[min(q.seen, len(q.steps) - 1) :]
    able = [step.query for step in others if step.planned == step.query]
    yield after(q, min(q.seen, len(q.steps) - 1)).giving(sub_questions=[first.query, *able][:2])


def _valued(q: Solved) -> Iterator[Turn]:
    """The newest step with its value; if none was seen, the first step with the passage that does not help."""
    newest = q.steps[max(q.seen, 1) - 1]
    shown = after(q, max(q.seen, 1) - 1).showing(sub_question=newest.query)
    if not q.seen:
        yield shown.showing(passages=[q.other]).giving(answer=None, value="impossible")
    else:
        value = "sure" if q.seen == len(q.steps) else "likely"
        yield shown.showing(passages=[newest.passage, q.other]).giving(answer=newest.answer, value=value)


def _asked(q: Solved) -> Iterator[Turn]:
    """A turn of follow-ups after the steps seen, and the last turn."""
    last = len(q.steps)
    yield _follow_up(q, last)._replace(when={} if q.seen == last else {"conclude": ("True",)})
    if q.seen < last:
        yield _follow_up(q, q.seen)._replace(when={"conclude": ("False",)})


def _follow_up(q: Solved, seen: int) -> Turn:
    """The last of the follow-ups seen has no answer yet."""
    known = q.steps[:seen]
    history = [{"sub_question": step.query, "answer": step.answer} for step in known]
    if not known:
        return after(q, 0).showing(history=[], passages=[])
    history[-1]["answer"] = None  # type: ignore[assignment]
    shown = after(q, seen).showing(history=history, passages=[*(step.passage for step in known[::-1]), q.other])
    return shown.giving(intermediate=known[-1].answer)


def _chains(q: Solved) -> Iterator[Turn]:
    """A whole chain; with an open book a chain that ends in an unsolved query, or the one after the feedback to it."""
    whole = after(q, len(q.steps)).giving(**_chain(q, len(q.steps)))
    yield whole._replace(when={} if q.seen == len(q.steps) else {"open_book": ("False",)})
    if q.seen == len(q.steps):
        return
    unsolved = _chain(q, q.seen)
    if not q.odd:
        yield Turn(whole.fields, unsolved, {"open_book": ("True",)})
        return
    step = q.steps[q.seen]
    answer = step.answer if step.is_known and q.kind != "long" else None
    feedback = {"query": step.query, "answer": answer, "passage": step.passage, "reason": "complete"}
    shown = whole.showing(chains=[unsolved["nodes"]], feedback=[feedback])
    yield shown.giving(nodes=whole.output["nodes"][q.seen :])._replace(when={"open_book": ("True",)})


def _chain(q: Solved, end: int) -> dict[str, Any]:
    """The nodes up to one; if it is the last, there is a final answer, else it is unsolved."""
    nodes = [{"query": step.query, "answer": step.answer if i < end else None} for i, step in enumerate(q.steps)]
    return {"nodes": nodes[: end + 1], "final": q.answer if end == len(q.steps) else None}


_WHOLE = """
    agent.act agent.finish
    answer.cot answer.direct answer.read answer.read_cot auto_cot.answer era_cot.answer least_to_most.decompose
    plan_solve.solve plan_solve_ir.plan plan_solve_ir.solve react.finish recite.answer recite.recall recomp.answer
    resp.generate searchain.trace self_ask.chain sure.candidates sure.rank sure.summarize sure.validate tor.fuse
    tot_ir.answer triplets.answer verify_edit.answer zero_shot.cot
""".split()
_TURNS: dict[str, Callable[[Solved], Iterator[Turn]]] = dict.fromkeys(_WHOLE, _whole) | {
    "cor.review": _reviewed,
    "cot.sentence": _sentence,
    "dsp.hop": _hop,
    "ge.answer": _concluded,
    "knowtrace.explore": _explored,
    "least_to_most.solve": _concluded,
    "react.act": _acted,
    "recomp.compress": _summarized,
    "resp.judge": _single,
    "resp.judge_plan": _single,
    "resp.plan": _unfinished,
    "resp.summarize": _summarized,
    "resp.summarize_respond": _responded,
    "searchain.chain": _chains,
    "self_ask.turn": _asked,
    "support.check": _checked,
    "toolformer.finish": _finished,
    "toolformer.write": _single,
    "tor.complete": _completed,
    "tor.enough": _judged,
    "tor.merged": _reviewed,
    "tor.review": _reviewed,
    "tot_ir.propose": _proposed,
    "tot_ir.value": _valued,
}
"""The tasks that show solved questions: not those about a sentence of the model's own, which may be wrong."""
