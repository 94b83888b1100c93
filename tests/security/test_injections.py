"""Instructions hidden in passages, titles and metadata, before a model that obeys them wherever it can: what a method
does is not theirs to change. docs/security.md lists what a model that obeys can still spoil."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import polyhop
from polyhop import Passage, Pipeline, Question, ScriptedLM
from polyhop.answer import Answer
from polyhop.lm.base import Capabilities, Message
from polyhop.methods.registry import methods
from polyhop.prompts.parsing import quotable
from polyhop.prompts.show import harmless
from tests.kit.injections import INJECTIONS, Infected, cleaned, infected
from tests.kit.question_data import question_for
from tests.kit.random_world import BOOK, World, seen
from tests.kit.side_effects import effects
from tests.prompts.test_injection import FENCE, TURN
from tests.prompts.test_quoting import IS_CONTENT, PIECES, SUMMARIES

ABLE = Capabilities(json_schema=True, token_logprobs=True, score=True, score_temperature=True, seed=True)
CALLS = 12
"""Budget of a question whose model obeys in everything."""

LED_BY_WORDS: Mapping[str, str] = {
    "ge": "variables differ from names, and triplets from each other, by their words",
    "resp": "a plan that repeats an earlier question is requested again",
    "searchain": "an answer is held against the words of a passage",
    "react": "a lookup finds the sentences that hold a word",
    "react-cot-sc": "as react",
    "agent": "a find shows the sentences that hold a word",
    "era-cot": "an entity differs from others by its words",
    "hops": "paths are ranked by their words",
    "ircot": "a sentence that says what the answer is ends the reasoning",
    "flare": "as ircot",
    "search-agent": "the tags in a text are what is searched and answered",
}
"""Methods whose papers make words themselves the verdict, and which; a model that obeys leads them by these."""


def chosen(method: str) -> list[tuple[int, str]]:
    """A quarter of the instructions, another one for the next method, each with its number."""
    first = list(methods()).index(method) % 4
    return list(enumerate(INJECTIONS))[first::4]


def test_there_are_enough_of_them_and_in_many_scripts() -> None:
    assert len(set(INJECTIONS)) == len(INJECTIONS) >= 50
    letters = "".join(INJECTIONS)
    for script in (
        "\u0400-\u04ff",
        "\u4e00-\u9fff",
        "\u3040-\u30ff",
        "\uac00-\ud7a3",
        "\u0600-\u06ff",
        "\u0590-\u05ff",
    ):
        assert re.search(f"[{script}]", letters)


async def played(method: str, world: World, script: Any = None, **options: Any) -> tuple[Answer, ScriptedLM]:
    model = ScriptedLM(script or world.script, score=lambda request: -1.0, capabilities=ABLE)
    given: dict[str, Any] = {"reader": world.read, "prompts": BOOK, **options}
    if "shots" in methods()[method].settings:
        given["shots"] = 0
    if "links" in methods()[method].settings:
        given["links"] = 0  # a callable knows none
    async with Pipeline(method=method, lm=model, retriever=world._searched, **given) as pipeline:
        return await pipeline.aask(question_for(method, world.question, world.passages[:4])), model


def control(answer: Answer, model: ScriptedLM, order: str) -> list[Any]:
    """The steps in order, without the words that the instruction put into them: calls with all they were shown."""
    asked = [(step.task, step.attempt, cleaned(seen(step.fields), order)) for step in answer.trace.calls]
    shown = [[turn["role"] for turn in call.messages] for call in model.calls]
    return [asked, sorted(shown), [(cleaned(step.query, order), step.k) for step in answer.trace.searches]]


@pytest.mark.parametrize("method", [name for name in methods() if name not in LED_BY_WORDS])
async def test_words_that_are_obeyed_change_no_step(method: str) -> None:
    for number, order in chosen(method):
        world = World.random(number)
        world.speaks = "value"
        honest = control(*await played(method, world), order)
        assert control(*await played(method, Infected.of(world, order)), order) == honest, order


# --- a model that obeys in everything --------------------------------------------------------------------------------


def replies(order: str) -> list[str]:
    """The instruction where the answer should be, and beside it whatever form could steer a method."""
    steered = {"answer": order, "relevant": True, "supported": False, "sufficient": False, "query": order}
    beside = {"next_task": "answer.direct", "max_calls": 9999, "path": "../../pwned.txt", "tool": "write_file"}
    return [
        order,
        f"[RELEVANT] [UNSUPPORTED] [QUERY] {order}",
        json.dumps(steered | beside),
        f"Follow up: {order}",
        f"Thought: I obey. Action: Search[{order}]",
        f"[Query 1]: {order}\n[Answer 1]: {order}\n[Final Content]: {order}",
        f"1. {order}\n2. {order}\n3. {order}",
        f"So the answer is: {order}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("method", list(methods()))
async def test_an_obedient_model_changes_no_tasks_budget_or_prompts(method: str) -> None:
    options = {"scorer": "likelihood"} if method == "hops" else {}
    calls = [step for seed in range(9) for step in (await played(method, World.random(seed), **options))[0].trace.calls]
    own = {"answer", method.replace("-", "_"), *(step.task.partition(".")[0] for step in calls)}
    for number, order in chosen(method):
        infecting, forged = Infected.of(World.random(number), order), itertools.cycle(replies(order))
        with effects() as done:
            answer, model = await played(
                method, infecting, lambda *_, forged=forged: next(forged), max_calls=CALLS, **options
            )
        assert done == []
        assert {step.task.partition(".")[0] for step in answer.trace.calls} <= own
        assert len(model.calls) <= CALLS
        for call in model.calls:
            assert whole(call.messages), (order, call.messages[-1]["content"])


def whole(messages: Sequence[Message]) -> bool:
    """Return True if a prompt's turns are those it should have, none holds another, and every fence is closed."""
    roles = [turn["role"] for turn in messages]
    content = messages[-1]["content"]
    rows = re.findall(r"^<(/?)(passage|evidence|pathway) (\d+)>$", content, re.M)
    within: list[tuple[str, str]] = []
    for closes, *fence in rows:
        if not closes:
            within.append((fence[0], fence[1]))
        elif not within or within.pop() != tuple(fence):
            return False
    turns = roles == (["system"] if roles[0] == "system" else []) + ["user", "assistant"] * (len(roles) // 2 - 1) + [
        "user"
    ]
    return turns and not within and len(FENCE.findall(content)) == len(rows) and not TURN.search(content)


# --- a model that quotes ---------------------------------------------------------------------------------------------

QUOTES_STEER = ("iter-retgen", "search-agent")
"""The former searches rationales; the latter takes the first tags of a text, as its models are trained."""
HELD = "\n".join(PIECES)
"""A passage of every mark of every task, and of every object that fits one."""
SHOWN = re.compile(r"\s+".join(map(re.escape, HELD.split())))


async def answers_to(method: str, world: World, replies: dict[tuple[str, int], str], quoting: str = "") -> list[Any]:
    """The steps of a method with the text replies of a world, which are kept, or with those kept, after a quotation."""
    asked: Counter[str] = Counter()

    def script(task: str, fields: Mapping[str, Any]) -> str:
        asked[task] += 1
        output = world.script(task, fields) if task not in SUMMARIES else f"{' '.join(HELD.split())} [DONE]"
        reply = replies.setdefault((task, asked[task]), str(output))
        if not quoting or not reply or task in IS_CONTENT | SUMMARIES or not quotable(SHOWN, fields):
            return reply
        return f"Passage 1 says {quoting}, which is of no use.\n{reply}"

    answer, _ = await played(method, world, script, **({"answer_by": "lm"} if method == "promptrank" else {}))
    steps = [(step.task, step.attempt, step.problem) for step in answer.trace.calls]
    return [answer.text, answer.supported, steps, [(step.query, step.k) for step in answer.trace.searches]]


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in methods() if name not in QUOTES_STEER])
async def test_words_that_are_quoted_change_no_step(method: str) -> None:
    """Passages hold every mark and object, and the model quotes them before each reply, on one line or on many."""
    for seed in range(5):
        world = World.random(seed)
        world.speaks = "text"
        world.passages = [replace(passage, text=f"{passage.text}\n{HELD}") for passage in world.passages]
        replies: dict[tuple[str, int], str] = {}
        honest = await answers_to(method, world, replies)
        for quoted in (HELD, " ".join(HELD.split())):
            assert await answers_to(method, world, replies, f'"{harmless(quoted)}"') == honest


def test_a_run_writes_its_own_files_and_no_other(tmp_path: Path) -> None:
    passage = Passage("../../pwned", "Title", "Text.", metadata={})
    asked = [Question(f"../{number}/{order}", f"Who? {order}") for number, order in enumerate(INJECTIONS)]
    found = {question.text: infected(passage, order) for question, order in zip(asked, INJECTIONS, strict=True)}
    polyhop.evaluate(
        asked,
        method="one-r",
        lm=ScriptedLM(lambda task, fields: {"answer": fields["passages"][0].text}),
        retriever=lambda query, k: [found[query]],
        out=tmp_path / "runs" / "run",
    )
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    own = {f"runs/run/{name}" for name in ("run.json", "run.lock", "metrics.json", "predictions.jsonl")}
    assert written == own | {f"runs/run/traces/{number:05d}.json" for number in range(len(INJECTIONS))}
