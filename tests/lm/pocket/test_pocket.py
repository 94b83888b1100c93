"""Pocket from the outside: its tasks, the shapes of its outputs, and that they are always the same."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from polyhop.errors import CapabilityError
from polyhop.lm.base import LanguageModel, Request, ScoreRequest
from polyhop.lm.pocket import TASKS, Pocket
from polyhop.lm.pocket.reading.answer import clear_cache
from polyhop.prompts.tasks import TASKS as PROMPT_TASKS
from polyhop.types import Passage

MILL = Passage(
    "mill", "Dark Mill", "Dark Mill is a 1931 German drama film directed by Rolf Anders and starring Ida Kuhn."
)
ANDERS = Passage(
    "anders", "Rolf Anders", "Rolf Anders (4 May 1899 – 1950) was a German film director. He was born in Bremen."
)
FERRY = Passage("ferry", "Ferry transport", "A ferry carries passengers and goods across water. Many cities run them.")
QUESTION = "Where was the director of Dark Mill born?"


def request(task: str, **fields: Any) -> Request:
    return Request(task=task, fields=fields, messages=[{"role": "user", "content": "x" * 40}])


def fields_of(task: str, passages: list[Passage], question: str = QUESTION) -> dict[str, Any]:
    evidence = [{"passages": passages, "analysis": "Bremen"}]
    nodes = [{"query": f"What is {p.title}?", "answer": p.title, "passage": p, "reason": "complete"} for p in passages]
    return {
        **graph_fields(question, passages),
        **summary_fields(passages),
        **acting_fields(passages),
        "question": question,
        "passages": passages,
        "thoughts": True,
        "evidence": evidence,
        "mode": "evidence",
        "sub_question": question,
        "asked": [question],
        "rejected": None,
        "memory": memory_of(passages, question),
        "kind": "qa",
        "chains": [[] for _ in nodes],
        "feedback": nodes,
        "nodes": nodes,
        "conclude": False,
        "reasoning": ["What is the director of Dark Mill? Rolf Anders."],
        "phrase": "Bremen",
        "answers": ["Bremen"],
        "prediction": "It was Bremen.",
    }


def summary_fields(passages: list[Passage]) -> dict[str, Any]:
    """Fields of the tasks of SuRe, RECOMP, Verify-and-Edit and ERA-CoT."""
    texts = [passage.text for passage in passages]
    values = {"candidate": "Bremen", "summary": " ".join(texts), "summaries": [" ".join(texts), "Nothing."], "count": 2}
    return {**values, "sentence": "He was born in Bremen.", "rationale": " ".join(texts), "entities": ["Bremen (city)"]}


def acting_fields(passages: list[Passage]) -> dict[str, Any]:
    """Fields of the tasks of ReAct, Toolformer and plans: a search per passage."""
    step: dict[str, Any] = {"thought": None, "action": "Search", "text": None}
    steps = [{**step, "argument": p.title, "query": p.title, "passages": [p]} for p in passages]
    return {"steps": steps, "written": steps, "plan": [p.title for p in passages]}


def graph_fields(question: str, passages: list[Passage]) -> dict[str, Any]:
    """Fields of the tasks of GE-Reasoning."""
    triplets = [{"head": p.title, "relation": "states", "tail": p.text} for p in passages]
    history = [{"sub_question": "Who directed Dark Mill?", "sentence": "Rolf Anders did.", "answer": "Rolf Anders"}]
    values = {"typed": True, "verbal": True, "sub_question": question, "history": history[: len(passages)]}
    return {
        **values,
        "triplet": triplets[0] if triplets else None,
        "triplets": triplets,
        "passage": [*passages, MILL][0],
    }


def memory_of(passages: list[Passage], question: str) -> dict[str, Any]:
    """A memory of ReSP: a note per passage, and a sub-question without a response."""
    notes = [f"[{passage.title}] {passage.text}" for passage in passages]
    return {"global_evidence": notes, "local_pathway": [{"sub_question": question, "response": None}]}


async def ask(task: str, **fields: Any) -> dict[str, Any]:
    completion = await Pocket().complete(request(task, **fields))
    assert completion.value is not None
    return dict(completion.value)


def test_it_is_a_language_model_with_the_capabilities_it_names() -> None:
    pocket = Pocket()
    assert isinstance(pocket, LanguageModel)
    assert pocket.name == "pocket"
    assert pocket.capabilities.score
    assert pocket.capabilities.score_temperature
    assert pocket.capabilities.token_logprobs


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("passages", [[], [MILL], [MILL, ANDERS, FERRY]], ids=["none", "one", "three"])
async def test_every_task_gives_its_output_shape(task: str, passages: list[Passage]) -> None:
    completion = await Pocket().complete(request(task, **fields_of(task, passages)))
    assert completion.value == json.loads(completion.text)
    output = PROMPT_TASKS[task].output.model_validate(completion.value)
    assert set(completion.value or {}) == set(type(output).model_fields)


async def test_usage_is_estimated_from_the_rendered_prompt() -> None:
    completion = await Pocket().complete(request("answer.direct", question="Who?"))
    assert completion.usage is not None
    assert completion.usage.estimated
    assert completion.usage.prompt_tokens == 10


async def test_an_unknown_task_is_named_with_those_it_can_do() -> None:
    with pytest.raises(CapabilityError, match=r"'ge\.dance'.*tor\.review"):
        await Pocket().complete(request("ge.dance", question="Who?"))


@pytest.mark.parametrize("task", TASKS)
async def test_the_same_request_gives_the_same_reply(task: str) -> None:
    fields = fields_of(task, [MILL, ANDERS, FERRY])
    first = await Pocket().complete(request(task, **fields))
    clear_cache()
    assert await Pocket().complete(request(task, **fields)) == first


async def test_a_path_is_rejected_extended_or_accepted() -> None:
    wrong = await ask("tor.review", question=QUESTION, passages=[FERRY], thoughts=False)
    begun = await ask("tor.review", question=QUESTION, passages=[MILL], thoughts=False)
    done = await ask("tor.review", question=QUESTION, passages=[MILL, ANDERS], thoughts=False)
    assert (wrong["relevant"], wrong["supported"]) == (False, False)
    assert (begun["relevant"], begun["supported"], begun["query"]) == (True, False, "Rolf Anders")
    assert (done["relevant"], done["supported"], done["answer"]) == (True, True, "Bremen")
    assert done["query"] is None


async def test_thoughts_are_written_only_on_request() -> None:
    silent = await ask("tor.review", question=QUESTION, passages=[MILL], thoughts=False)
    spoken = await ask("tor.review", question=QUESTION, passages=[MILL], thoughts=True)
    assert silent["thought"] is None
    assert "Rolf Anders" in spoken["thought"]


async def test_completion_names_what_is_missing_and_invents_nothing() -> None:
    supplement = await ask("tor.complete", question=QUESTION, passages=[MILL])
    known = f"{QUESTION} {MILL.title} {MILL.text}".lower()
    assert supplement["information"] == "Rolf Anders"
    assert all(word.lower() in known for word in supplement["information"].split())
    assert supplement["answer"] is None


async def test_the_merged_review_holds_review_and_missing_piece() -> None:
    merged = await ask("tor.merged", question=QUESTION, passages=[MILL])
    assert (merged["relevant"], merged["supported"], merged["information"]) == (True, False, "Rolf Anders")
    accepted = await ask("tor.merged", question=QUESTION, passages=[MILL, ANDERS])
    assert (accepted["answer"], accepted["information"]) == ("Bremen", None)


async def test_fusion_reads_the_evidence_again_and_counts_the_analyses() -> None:
    good = {"passages": [MILL, ANDERS], "analysis": "Bremen"}
    stray = {"passages": [FERRY], "analysis": "Lisbon"}
    fused = await ask("tor.fuse", question=QUESTION, evidence=[stray, good], mode="evidence")
    assert fused["answer"] == "Bremen"
    bare = [{"passages": [], "analysis": "Lisbon"}, {"passages": [], "analysis": "Bremen"}] * 2
    heard = await ask("tor.fuse", question=QUESTION, evidence=[*bare, bare[1]], mode="analysis")
    assert heard["answer"] == "Bremen"


async def test_fusion_by_paragraph_reads_all_passages_as_one() -> None:
    split = [{"passages": [MILL, FERRY], "analysis": None}, {"passages": [ANDERS], "analysis": None}]
    assert (await ask("tor.fuse", question=QUESTION, evidence=split, mode="paragraph"))["answer"] == "Bremen"


async def test_enough_needs_agreement() -> None:
    sure = {"passages": [MILL, ANDERS], "analysis": "Bremen"}
    assert (await ask("tor.enough", question=QUESTION, evidence=[sure, sure]))["sufficient"]
    assert not (await ask("tor.enough", question=QUESTION, evidence=[{"passages": [FERRY], "analysis": "x"}]))[
        "sufficient"
    ]
    assert not (await ask("tor.enough", question=QUESTION, evidence=[]))["sufficient"]


async def test_reading_gives_the_answer_and_its_rationale() -> None:
    read = await ask("answer.read_cot", question=QUESTION, passages=[FERRY, ANDERS, MILL])
    assert read["answer"] == "Bremen"
    assert "Rolf Anders" in read["rationale"]
    one = await ask("answer.read", question="Who directed Dark Mill?", passages=[MILL])
    assert one["answer"] == "Rolf Anders"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who built the Ost bridge?", "unknown"),
        ("Is Ost a town in Norland?", "no"),
        ("Who is older, Ann Lee or Ida Kuhn?", "Ann Lee"),
        ("", "unknown"),
    ],
)
async def test_closed_book_it_knows_nothing_and_says_so(question: str, answer: str) -> None:
    assert (await ask("answer.direct", question=question))["answer"] == answer
    assert (await ask("answer.cot", question=question))["answer"] == answer


async def test_a_target_is_likelier_after_a_prompt_with_its_words() -> None:
    target = "Who directed Dark Mill?"
    near, far = await Pocket().score(
        [ScoreRequest(task="promptrank.path", prompt=passage.text, target=target) for passage in (MILL, FERRY)]
    )
    assert near.tokens == ("who", "directed", "dark", "mill")
    assert len(near.logprobs) == 4
    assert all(value < 0 for value in near.logprobs)
    assert sum(near.logprobs) > sum(far.logprobs)


async def test_temperature_flattens_the_scores() -> None:
    def requests(temperature: float) -> list[ScoreRequest]:
        target = "mill kaleidoscope"
        return [ScoreRequest(task="t", prompt=MILL.text, target=target, temperature=temperature)]

    (sharp,), (flat,) = await Pocket().score(requests(1.0)), await Pocket().score(requests(2.0))
    spread = [scores.logprobs[0] - scores.logprobs[1] for scores in (sharp, flat)]
    assert spread[1] == pytest.approx(spread[0] / 2)


async def test_an_empty_target_has_no_tokens() -> None:
    (scores,) = await Pocket().score([ScoreRequest(task="t", prompt="", target="")])
    assert (scores.tokens, scores.logprobs) == ((), ())


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, polyhop.lm.pocket\n"
        "print([name for name in ('numpy', 'tantivy', 'aiohttp', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- ReSP --------------------------------------------------------------------------------------------------------


async def test_a_note_keeps_helpful_passages_only() -> None:
    noted = await ask("resp.summarize", question=QUESTION, passages=[FERRY, MILL])
    assert noted == {"summary": f"[Dark Mill] {MILL.text}"}
    assert (await ask("resp.summarize", question=QUESTION, passages=[FERRY])) == {"summary": ""}


async def test_memories_are_judged_planned_on_and_answered() -> None:
    begun = {"global_evidence": [f"[Dark Mill] {MILL.text}"], "local_pathway": []}
    assert await ask("resp.judge", question=QUESTION, memory=begun) == {"sufficient": False}
    planned = await ask("resp.plan", question=QUESTION, memory=begun, asked=[QUESTION], rejected=None)
    assert planned == {"sub_question": "Where was Rolf Anders born?"}
    other = await ask("resp.plan", question=QUESTION, memory=begun, asked=[QUESTION, *planned.values()], rejected=None)
    assert other == {"sub_question": "Rolf Anders"}  # the same is never asked twice
    reply = await ask("resp.respond", **planned, passages=[FERRY, ANDERS], memory=None)
    assert reply == {"answered": True, "response": "Bremen"}
    done = {**begun, "local_pathway": [{**planned, "response": reply["response"]}]}
    assert await ask("resp.judge", question=QUESTION, memory=done) == {"sufficient": True}
    assert (await ask("resp.generate", question=QUESTION, memory=done))["answer"] == "Bremen"


async def test_a_sub_question_without_an_answer_is_not_answered() -> None:
    reply = await ask("resp.respond", sub_question="Where was Rolf Anders born?", passages=[FERRY], memory=None)
    assert reply == {"answered": False, "response": None}
    nothing: dict[str, list[Any]] = {"global_evidence": [], "local_pathway": []}
    reply = await ask("resp.respond", sub_question="Where was Rolf Anders born?", passages=None, memory=nothing)
    assert reply == {"answered": False, "response": None}
    assert await ask("resp.plan", question="Why?", memory=nothing, asked=["Why?"], rejected=None) == {
        "sub_question": ""
    }
    assert (await ask("resp.generate", question=QUESTION, memory=nothing))["answer"] == "unknown"
