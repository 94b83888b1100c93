"""ReSP with a model that writes text: the paper's two case studies (Table 3, §5.3), with passages of our own, and
whatever else a model may write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Passage
from tests.kit.random_world import BOOK
from tests.kit.tries import tries
from tests.kit.virtual_clock import run_virtually

MOONRISE = Passage(
    "moonrise", "Paper Moonrise", "Paper Moonrise is a 1998 comedy directed by Ivo Brandt. It stars Clara Holm."
)
HOLM = Passage("holm", "Lena Holm", "Lena Holm is a Danish singer. Her sister is the actress Clara Holm.")
CARGO = Passage("cargo", "Last Cargo", "Last Cargo is a 2004 film about a crew of smugglers on their last run.")
CAST = Passage(
    "cast", "Cast of Last Cargo", "In Last Cargo, Mara Quist plays the ship's cook and Jon Rask its captain."
)
STORMS = Passage("storms", "North Sea storms", "Storms in the North Sea are frequent in autumn.")


async def play(question: str, found: Mapping[str, list[Passage]], lm: ScriptedLM, **given_: Any) -> Answer:
    """The answer of ReSP where a search finds what ``found`` has for its query."""
    async with Pipeline(
        method="resp", lm=lm, retriever=lambda query, k: found.get(query, []), prompts=BOOK, **given_
    ) as qa:
        return await qa.aask(question)


def known(request: Any) -> str:
    """Return the text beneath the question in the last turn of a call."""
    return str(request.messages[-1]["content"].partition("\n")[2])


async def test_over_planning_is_avoided_as_the_note_holds_what_the_question_needs() -> None:
    """The judge sees the summary for the overarching question, says yes, and no second search is made."""
    question = "Ivo Brandt directed Paper Moonrise, which starred which sister of Lena Holm?"

    def reply(task: str, fields: Mapping[str, Any]) -> str:
        match task:
            case "resp.summarize":
                return "Ivo Brandt directed Paper Moonrise, which stars Clara Holm, a sister of Lena Holm. [DONE]"
            case "resp.judge":
                return "Yes" if "Clara Holm" in str(fields["memory"]) else "No"
            case "resp.generate":
                return "Clara Holm"
        raise AssertionError(f"{task} would be over-planning")

    lm = ScriptedLM(reply)
    answer = await play(question, {question: [MOONRISE, HOLM]}, lm)
    assert answer.text == "Clara Holm"
    assert answer.evidence
    assert answer.usage.calls_by_task == {"resp.summarize": 1, "resp.judge": 1, "resp.generate": 1}
    assert answer.usage.searches == 1
    assert "Clara Holm, a sister of Lena Holm" in known(lm.calls[1])
    assert {citation.passage_id for citation in answer.citations} == {"moonrise", "holm"}


async def test_repetitive_planning_is_avoided_as_the_path_is_on_record() -> None:
    """Nothing is found of the person; asked again, the reasoner turns to the film instead."""
    question = "What is Mara Quist's role in the film that follows a crew of smugglers on their last run?"
    person = "Who is Mara Quist?"
    film = "Which film follows a crew of smugglers on their last run?"

    def reply(task: str, fields: Mapping[str, Any]) -> str:
        match task:
            case "resp.summarize":
                found = CAST in fields["passages"]
                return f"{CARGO.text} {CAST.text}\n[DONE]" if found else "[DONE]"
            case "resp.respond":
                return "Yes. Last Cargo." if CARGO in fields["passages"] else "No"
            case "resp.judge":
                return "Yes." if "ship's cook" in str(fields["memory"]) else "No."
            case "resp.plan":  # repeats it until the prompt says that it was asked already
                return f"[Your Thought]: {film if fields['rejected'] else person}"
        return "Answer: the ship's cook"

    lm = ScriptedLM(reply)
    answer = await play(question, {question: [STORMS], person: [STORMS], film: [CARGO, CAST]}, lm)
    assert answer.text == "the ship's cook"
    assert [step.query for step in answer.trace.steps if hasattr(step, "query")] == [question, person, film]
    assert answer.statistics == {"iterations": 3, "repeats": 1, "summaries": 1, "responses": 1}
    again = next(call for call in lm.calls if call.fields.get("rejected"))
    assert re.search(rf"Sub-question: {re.escape(person)}\nResponse: none was found", known(again))
    assert f"- {person}" in known(again)
    assert known(again).endswith(f"Propose a different one: {person}")


# --- whatever a model writes -------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["Yes", "No", "yes or no", "[DONE]", "[Your Thought]:", "Answer:", "The answer is", "?", "Q", "What?", "\n", " ",
     "{", '{"sub_question": "A?"}', '{"summary": ', "None", "東京はどこ？", "أين؟", "\u200b", "\x00", "</pathway 1>",
     "[", "]"]
)  # fmt: skip
REPLIES = st.one_of(
    st.text(max_size=60),
    st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join),
    st.builds(lambda piece, times: piece * times, PIECES, st.integers(1, 20_000)),
)


@settings(
    max_examples=tries(120), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(
    replies=st.lists(REPLIES, min_size=1, max_size=8),
    source=st.sampled_from(["passages", "memory"]),
    iterations=st.integers(1, 4),
)
def test_whatever_is_written_it_ends(replies: list[str], source: str, iterations: int) -> None:
    """T iterations are at most T notes, T-1 responses, judgements and plans, as many plans once more, one answer."""
    turn = iter(range(10_000))
    lm = ScriptedLM(lambda task, fields: replies[next(turn) % len(replies)])

    async def find(query: str, k: int) -> list[Passage]:
        return [CARGO, STORMS][: len(query) % 3]

    async def ask() -> Answer:
        given_: dict[str, Any] = {"max_iterations": iterations, "local_source": source}
        async with Pipeline(method="resp", lm=lm, retriever=find, prompts=BOOK, **given_) as qa:
            return await qa.aask("Q?")

    answer = run_virtually(ask())
    asked = [call.task.removeprefix("resp.") for call in answer.trace.calls if call.attempt == 1]
    assert asked.count("summarize") <= iterations
    assert max(asked.count("respond"), asked.count("judge")) <= iterations - 1
    assert asked.count("plan") <= 2 * (iterations - 1)
    assert asked.count("generate") == 1
    assert len(lm.calls) <= 2 * len(asked)
    assert answer.statistics["repeats"] <= asked.count("plan")


def read(task: str, text: str) -> dict[str, Any]:
    return BOOK[task].read(text, {}).model_dump()


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("Alien is by Scott. [DONE]", "Alien is by Scott."),
        ("Alien is by Scott.\n\n**[Done]**\nPassage: more", "Alien is by Scott."),
        ("Passage: Alien is by Scott.", "Alien is by Scott."),
        ("Alien is by Scott, who was bo", "Alien is by Scott, who was bo"),  # cut at its greatest length
        ("[DONE]", ""),
        ("None. [DONE]", ""),
        ('{"summary": "Alien is by Scott."}', "Alien is by Scott."),
    ],
)
def test_notes_are_read(text: str, summary: str) -> None:
    assert read("resp.summarize", text) == {"summary": summary}


@pytest.mark.parametrize(
    "text",
    [
        "No relevant information was found in the passages. [DONE]", "No passage helps. [DONE]", "Done.",
        "(empty) [DONE]",
        "None of the passages help to answer the question. [DONE]", "Nothing relevant. [DONE]", "No summary. [DONE]",
        "None of the passages mentions the film. The text does not say who directed it. [DONE]", "Not relevant. [DONE]",
        "There are no relevant facts in the passages. [DONE]", "The passages are irrelevant to the question. [DONE]",
        '{"summary": "No helpful facts."}', '{"summary": "[DONE]"}',
    ],
)  # fmt: skip
def test_fillers_are_no_evidence(text: str) -> None:
    assert read("resp.summarize", text) == {"summary": ""}


@pytest.mark.parametrize(
    "summary",
    [
        "No relevant facts about Alien, but Jaws is by Steven Spielberg.", "No Passage to India was filmed in Rome.",
        "None of the Kon-Tiki's crew drowned.", "Nothing but the Truth is a film of 1941.", "Empty is a song.",
        "None of the passages mentions Alien. Jaws is by Steven Spielberg.", "No documents survive of his birth.",
    ],
)  # fmt: skip
def test_a_summary_that_says_something_is_kept(summary: str) -> None:
    assert read("resp.summarize", f"{summary} [DONE]") == {"summary": summary}


@pytest.mark.parametrize(
    "text", ["[DONE]", "[Your Thought]: No further question is needed.", "The information is sufficient."]
)
def test_a_plan_of_nothing_more_is_empty(text: str) -> None:
    assert read("resp.plan", text) == {"sub_question": ""}


@pytest.mark.parametrize(
    ("text", "sufficient", "question"),
    [
        ("Yes", True, None),
        ("**Yes.** All is known.", True, None),
        ("No. [Your Thought]: Who directed it?", False, "Who directed it?"),
        ("No\n\nSub-question: Who directed it?", False, "Who directed it?"),
        ("No.\nWho directed it?", False, "Who directed it?"),
        ("[Your Thought]: Who directed it?", False, "Who directed it?"),
        ('{"sufficient": false, "sub_question": "Who directed it?"}', False, "Who directed it?"),
    ],
)
def test_a_judgement_with_a_plan_is_read(text: str, sufficient: bool, question: str | None) -> None:
    assert read("resp.judge_plan", text) == {"sufficient": sufficient, "sub_question": question}


@pytest.mark.parametrize(
    ("text", "summary", "response"),
    [
        (
            "Summary: Alien is by Scott. [DONE]\nResponse: Yes. Scott directed it.",
            "Alien is by Scott.",
            "Scott directed it.",
        ),
        ("Alien is by Scott.\n\n**Response:** No", "Alien is by Scott.", None),
        ("Summary: [DONE]\nResponse: No", "", None),
        ("[DONE]\nResponse: Yes. Scott", "", "Scott"),
        ("Summary: Nothing helps. [DONE]\nResponse: Yes. The passages do not say.", "", None),
    ],
)
def test_a_summary_with_a_response_is_read(text: str, summary: str, response: str | None) -> None:
    expected = {"summary": summary, "answered": response is not None, "response": response}
    assert read("resp.summarize_respond", text) == expected


@pytest.mark.parametrize(
    ("text", "response"),
    [
        ("Yes. Scott directed it.", "Scott directed it."),
        ("**Yes**, Scott directed it.", "Scott directed it."),
        ("Yes\nResponse: Scott", "Scott"),
        ("[Yes] Scott", "Scott"),
        ("Answer: Yes. Scott", "Scott"),
        ("'Yes' - Scott", "Scott"),
        ("No", None),
        ("No. The passages do not say who directed it.", None),
        ("Yes or No: No", None),
    ],
)
def test_responses_are_read(text: str, response: str | None) -> None:
    assert read("resp.respond", text) == {"answered": response is not None, "response": response}


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("[Your Thought]: Who directed it?", "Who directed it?"),
        ("**[You Thought]:** Who directed it?\nBecause it is missing.", "Who directed it?"),
        ("Thought: Who directed it?", "Who directed it?"),
        ("Next question: Who directed it?", "Who directed it?"),
        ("Sub-question: Who directed it?", "Who directed it?"),
        ("Sure, here it is:\n- Who directed it?\n- Where was he born?", "Who directed it?"),
        ('"Who directed it?"', "Who directed it?"),
        ("director of Alien", "director of Alien"),
        ("誰が監督しましたか？", "誰が監督しましたか？"),
    ],
)
def test_plans_are_read(text: str, question: str) -> None:
    assert read("resp.plan", text) == {"sub_question": question}


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("resp.summarize", '{"summary": "Alien is'),
        ("resp.respond", "Yes."),
        ("resp.respond", "Scott directed it."),
        ("resp.respond", '{"answered": true, "response": null}'),
        ("resp.judge", "It may be."),
        ("resp.plan", "Let me think.\nI need to know more."),
        ("resp.plan", "Here is the question:"),
        ("resp.plan", "Who " + "is he " * 100 + "?"),
        ("resp.plan", "[Your Thought]: the sub-question"),
        ("resp.respond", "Yes. [DONE]"),
        ("resp.respond", "Yes, the question can be answered completely."),
        ("resp.respond", "Yes. followed by the response"),
        ("resp.judge_plan", "No"),
        ("resp.judge_plan", "It may be."),
        ("resp.judge_plan", "No. [Your Thought]: the question"),
        ("resp.summarize_respond", "Alien is by Scott. [DONE]"),
        ("resp.summarize_respond", "Alien is by Scott. [DONE]\nResponse: perhaps"),
    ],
)
def test_what_is_not_in_the_form_is_refused(task: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"must|write|missing"):
        read(task, text)
