"""The prompt tasks of ``pocket``: each a function from the fields of the task to a value in its output shape."""

from __future__ import annotations

from collections.abc import Callable

from polyhop.errors import CapabilityError
from polyhop.lm.pocket.reading.answer import UNKNOWN
from polyhop.lm.pocket.reading.comparison import canonical
from polyhop.lm.pocket.tasks import baselines, ge, reading, resp, searchain, tor
from polyhop.lm.pocket.tasks.kinds import if_likely, of_kind
from polyhop.lm.pocket.tasks.reading import Fields, Value, answer_without_passages
from polyhop.metrics import cover_em_token


def do(task: str, fields: Fields) -> Value:
    """Run a prompt task, and return the value of its output shape; ``CapabilityError`` for an unknown task."""
    if task not in _TASKS:
        raise CapabilityError(
            f"pocket cannot do the prompt task {task!r}, only {', '.join(TASKS)};"
            f' give it a model of its own: lm={{"default": "pocket", "{task}": "openai:MODEL"}}'
        )
    asked = {
        name: canonical(fields[name]) for name in ("question", "sub_question") if isinstance(fields.get(name), str)
    }
    fields = {**fields, **asked}  # no answer depends on which of two things is named first
    value = of_kind(fields, _TASKS[task](fields))
    return if_likely(fields, value) if fields.get("may_decline") else value


def _closed_book(fields: Fields) -> Value:
    return answer_without_passages(fields["question"])


def _answer_if_any(fields: Fields) -> Value:
    return baselines.answer_if_any(fields["question"], fields["passages"])


def _check_support(fields: Fields) -> Value:
    """Check an answer against the one that the passages give."""
    answer, confidence = do("answer.read", fields)[reading.ANSWER_CONFIDENCE]
    if answer == UNKNOWN or confidence < _SURE_FROM:
        return {"quotation": None, "answer": None, "verdict": "missing"}
    agrees = cover_em_token(fields["prediction"], [answer]) or cover_em_token(answer, [fields["prediction"]])
    verdict = "supported" if agrees else "contradicted"
    return {"quotation": None, "answer": answer, "verdict": verdict}


_SURE_FROM = 0.5  # the confidence in an answer that settles its support
_FOLLOWS = 8.0  # the score of a relation that two stated ones lead to


_TASKS: dict[str, Callable[[Fields], Value]] = {
    "tor.review": tor.review,
    "cor.review": tor.review,
    "tor.complete": tor.complete,
    "tor.enough": tor.enough,
    "tor.merged": tor.merged,
    "tor.fuse": tor.fuse,
    "searchain.chain": searchain.grow_chain,
    "searchain.trace": searchain.trace,
    "resp.summarize": lambda f: {"summary": resp.note(f["question"], f["passages"])},
    "resp.respond": resp.respond,
    "resp.judge": lambda f: {"sufficient": resp.is_enough(f["question"], f["memory"])},
    "resp.plan": lambda f: {"sub_question": resp.next_sub_question(f["question"], f["memory"], f["asked"])},
    "resp.judge_plan": lambda f: {
        "sufficient": (enough := resp.is_enough(f["question"], f["memory"])),
        "sub_question": None if enough else resp.next_sub_question(f["question"], f["memory"], f["asked"]),
    },
    "resp.summarize_respond": lambda f: {
        "summary": resp.note(f["question"], f["passages"]),
        **resp.respond({**f, "memory": None}),
    },
    "resp.generate": lambda f: {
        "rationale": None,
        "answer": resp.answer_from_memory(f["question"], f["memory"]) or UNKNOWN,
    },
    "ge.graph": lambda f: {"triplets": ge.question_triplets(f["question"])},
    "ge.subquestion": lambda f: {"sub_question": ge.next_sub_question(f["triplet"], f["question"], f["history"])},
    "ge.subanswer": ge.sub_answer,
    "ge.triplets": lambda f: {"triplets": ge.passage_triplets(f["passage"])},
    "ge.extract": lambda f: {"triplets": ge.triplets_about(f["passages"], f["sub_question"])},
    "ge.filter": lambda f: {"triplets": ge.relevant_triplets(f["triplets"], f["sub_question"])},
    "ge.answer": ge.answer,
    "answer.direct": _closed_book,
    "answer.cot": _closed_book,
    "answer.read": reading.read_answer,
    "answer.read_cot": reading.read_answer,
    "zero_shot.cot": lambda f: {**_closed_book(f), "rationale": "Without a passage nothing is known of it."},
    "auto_cot.answer": _closed_book,
    "recite.recall": lambda f: {"recitations": [UNKNOWN]},
    "recite.answer": _closed_book,
    "least_to_most.decompose": lambda f: {"sub_questions": baselines.sub_questions(f["question"])},
    "least_to_most.solve": lambda f: answer_without_passages(f["sub_question"]),
    "plan_solve.solve": lambda f: {"plan": baselines.sub_questions(f["question"]), **_closed_book(f)},
    "plan_solve_ir.plan": baselines.plan_searches,
    "plan_solve_ir.solve": _answer_if_any,
    "self_ask.chain": lambda f: {
        "steps": [{"sub_question": part, "answer": None} for part in baselines.sub_questions(f["question"])],
        "answer": _closed_book(f)["answer"],
    },
    "self_ask.turn": baselines.self_ask_turn,
    "react.act": baselines.react_act,
    "react.finish": baselines.react_finish,
    "agent.act": baselines.agent_act,
    "agent.finish": baselines.react_finish,
    "toolformer.write": baselines.toolformer_write,
    "toolformer.finish": baselines.toolformer_finish,
    "search_agent.write": baselines.search_agent_write,
    "tot_ir.propose": baselines.tot_propose,
    "tot_ir.value": baselines.tot_value,
    "tot_ir.answer": _answer_if_any,
    "cot.sentence": baselines.cot_sentence,
    "flare.question": baselines.flare_question,
    "dsp.hop": baselines.dsp_hop,
    "sure.candidates": baselines.sure_candidates,
    "sure.summarize": baselines.sure_summarize,
    "sure.validate": baselines.sure_validate,
    "sure.rank": baselines.sure_rank,
    "recomp.compress": lambda f: {"summary": resp.note(f["question"], f["passages"])},
    "recomp.answer": lambda f: baselines.answer_from_summary(f["question"], f["summary"]),
    "verify_edit.question": lambda f: {"sub_question": f["question"]},  # its chain is a bare answer
    "verify_edit.edit": lambda f: {"sentence": resp.note(f["sub_question"], f["passages"])},
    "verify_edit.answer": lambda f: baselines.answer_from_summary(f["question"], f["rationale"] or ""),
    "era_cot.entities": baselines.era_entities,
    "era_cot.relations": lambda f: {"triplets": baselines.stated_triplets(f["passages"])},
    "era_cot.infer": baselines.era_infer,
    "era_cot.score": lambda f: {"scores": [_FOLLOWS] * len(f["triplets"])},
    "era_cot.answer": reading.read_answer,
    "crag.rewrite": baselines.crag_rewrite,
    "route.choose": baselines.route_choose,
    "knowtrace.explore": baselines.knowtrace_explore,
    "triplets.answer": baselines.answer_from_triplets,
    "t2rag.decompose": lambda f: {"triplets": baselines.with_placeholders(ge.question_triplets(f["question"]))},
    "t2rag.resolve": baselines.resolve_triplets,
    "hipporag.entities": lambda f: baselines.era_entities({"passages": [f["passage"]]}),
    "hipporag.triplets": lambda f: {"triplets": baselines.stated_triplets([f["passage"]])},
    "hipporag.filter": lambda f: {"triplets": ge.relevant_triplets(f["triplets"], f["question"])},
    "reader.extract": reading.extract,
    "reader.path": reading.read_whole_path,
    "promptrank.relevance": reading.judge_path,
    "rerank.order": reading.order_passages,
    "rerank.grade": reading.grade_passage,
    "judge.answer": reading.grade_answer,
    "judge.faithful": reading.find_claims,
    "support.check": _check_support,
}
TASKS: tuple[str, ...] = tuple(sorted(_TASKS))
"""The prompt tasks that the model can do."""
