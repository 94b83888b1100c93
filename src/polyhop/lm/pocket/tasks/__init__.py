"""The prompt tasks of ``pocket``: each a function from the fields of the task to a value in its output shape."""

from __future__ import annotations

from collections.abc import Callable

from polyhop.errors import CapabilityError
from polyhop.lm.pocket.reading.answer import UNKNOWN
from polyhop.lm.pocket.tasks import baselines, ge, reading, resp, searchain, tor
from polyhop.lm.pocket.tasks.reading import Fields, Value, answer_without_passages


def do(task: str, fields: Fields) -> Value:
    """Run a prompt task, and return the value of its output shape; ``CapabilityError`` for an unknown task."""
    if task not in _TASKS:
        raise CapabilityError(
            f"pocket cannot do the prompt task {task!r}, only {', '.join(TASKS)};"
            f' give it a model of its own: lm={{"default": "pocket", "{task}": "openai:MODEL"}}'
        )
    return _TASKS[task](fields)


def _closed_book(fields: Fields) -> Value:
    return answer_without_passages(fields["question"])


_TASKS: dict[str, Callable[[Fields], Value]] = {
    "tor.review": tor.review,
    "cor.review": tor.review,
    "tor.complete": tor.complete,
    "tor.enough": tor.enough,
    "tor.merged": tor.merged,
    "tor.fuse": tor.fuse,
    "searchain.chain": searchain.grow_chain,
    "searchain.trace": searchain.trace,
    "resp.summarize": resp.summarize,
    "resp.respond": resp.respond,
    "resp.judge": resp.judge,
    "resp.plan": resp.plan,
    "resp.generate": resp.generate,
    "ge.graph": ge.graph,
    "ge.subquestion": ge.sub_question,
    "ge.subanswer": ge.sub_answer,
    "ge.triplets": ge.triplets,
    "ge.filter": ge.filter_triplets,
    "ge.answer": ge.answer,
    "answer.direct": _closed_book,
    "answer.cot": _closed_book,
    "answer.read": reading.read_answer,
    "answer.read_cot": reading.read_answer,
    "zero_shot.cot": baselines.zero_shot_cot,
    "auto_cot.answer": _closed_book,
    "recite.recall": lambda fields: {"recitations": [UNKNOWN]},
    "recite.answer": _closed_book,
    "least_to_most.decompose": lambda fields: {"sub_questions": baselines.sub_questions(fields["question"])},
    "least_to_most.solve": lambda fields: answer_without_passages(fields["sub_question"]),
    "plan_solve.solve": baselines.plan_and_solve,
    "plan_solve_ir.plan": baselines.plan_searches,
    "plan_solve_ir.solve": baselines.answer_if_any,
    "self_ask.chain": baselines.self_ask_chain,
    "self_ask.turn": baselines.self_ask_turn,
    "react.act": baselines.react_act,
    "react.finish": baselines.react_finish,
    "toolformer.write": baselines.toolformer_write,
    "toolformer.finish": baselines.toolformer_finish,
    "tot_ir.propose": baselines.tot_propose,
    "tot_ir.value": baselines.tot_value,
    "tot_ir.answer": baselines.answer_if_any,
    "cot.sentence": baselines.cot_sentence,
    "flare.question": baselines.flare_question,
    "dsp.hop": baselines.dsp_hop,
    "sure.candidates": baselines.sure_candidates,
    "sure.summarize": baselines.sure_summarize,
    "sure.validate": baselines.sure_validate,
    "sure.rank": baselines.sure_rank,
    "recomp.compress": resp.summarize,
    "recomp.answer": baselines.answer_from_summary,
    "verify_edit.question": lambda fields: {"sub_question": fields["question"]},  # its chain is a bare answer
    "verify_edit.edit": baselines.verify_edit,
    "verify_edit.answer": baselines.answer_from_rationale,
    "era_cot.entities": baselines.era_entities,
    "era_cot.relations": baselines.era_relations,
    "era_cot.infer": baselines.era_infer,
    "era_cot.score": baselines.era_score,
    "era_cot.answer": reading.read_answer,
    "reader.extract": reading.extract,
    "rerank.order": reading.order_passages,
    "rerank.grade": reading.grade_passage,
    "judge.answer": reading.grade_answer,
}
TASKS: tuple[str, ...] = tuple(sorted(_TASKS))
"""The prompt tasks that the model can do."""
