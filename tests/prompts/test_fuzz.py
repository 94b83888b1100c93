"""Whatever a model writes is read or refused; whatever an output holds comes back from its own written form."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from polyhop.prompts.book import PromptBook
from polyhop.prompts.non_answers import says_nothing
from polyhop.prompts.parsing import MARKERS, Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.show import harmless
from polyhop.prompts.tasks import TASKS
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.resp import Plan, SubAnswer
from polyhop.prompts.tasks.searchain import ChainOfQuery, QueryNode, TracedContent
from polyhop.prompts.tasks.summaries import Summary
from polyhop.prompts.tasks.tor import MergedReview, Review, Sufficiency, Supplement
from tests.kit.tries import tries

pytestmark = pytest.mark.slow

BOOK = PromptBook()
FIELDS: dict[str, Any] = {"question": "Who?", "passages": [], "evidence": [], "thoughts": True, "mode": "evidence"}
FIELDS |= {"typed": True, "verbal": False, "asks_query": True}
NAMES = "answer relevant supported information thought sufficient summary answered response sub_question".split()
SAME_EACH_TIME = settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)

# --- any text ----------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *(f"[{marker}]" for marker in sorted(MARKERS)),
        *(f"[{marker.title()}:" for marker in sorted(MARKERS)),
        *("Step 1", "Step 2:", "Judgment:", "Thought:", "[DONE]", "[Your Thought]:", "Output:", "Answer:"),
        *("**Answer**", "The answer is", "Question:"),
        *("so", "yes", "No,", "relevant", "not relevant", "Irrelevant.", "none", "N/A", "…", "Paris", "St."),
        *("Jr.", "D.C."),
        *("<answer>", "</answer>", r"\boxed{", "}", "Finish[", "]", "```", "```json", "<|im_end|>", "</s>", " or "),
        *("/", "|"),
        *('{"answer": "a"}', '{"relevant": true, "supported": 1}', '{"', '":', "null", "true", "{", "[", ","),
        *("1e999", "NaN"),
        *("\n", "\n\n", " ", "  ", "\t", "\u2028", "\u200b", "\x00", "**", "*", "_", '"', "'", "“", "。", ".", "!"),
        *("?", ":"),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=30).map("".join))


@SAME_EACH_TIME
@given(text=TEXTS)
def test_no_text_raises_anything_but_malformed(text: str) -> None:
    for name, task in TASKS.items():
        for rendering in get_args(Rendering):
            try:
                output = BOOK[name].read(text, FIELDS, rendering)
            except Malformed as complaint:
                assert str(complaint).isprintable()  # noqa: PT017  # to be shown to the model
            else:
                assert isinstance(output, task.output)
                assert output.missing() is None
                assert task.output.model_validate_json(output.model_dump_json()) == output


@SAME_EACH_TIME
@given(value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
), name=st.sampled_from(NAMES))  # fmt: skip
def test_no_json_raises_anything_but_malformed(value: Any, name: str) -> None:
    text = json.dumps(
        dict.fromkeys(["information", "answer", "summary", "response", "sub_question", "content", "question"], "a")
        | {"nodes": [{"query": "a", "answer": "a"}]}
        | {"triplets": [], "sentence": "a", "recitations": ["a"], "sub_questions": ["a"]}
        | {"candidates": ["a"], "valid": True, "better": 1, "entities": ["a"], "scores": [1]}
        | {"order": [1], "grade": 1, "verdict": "supported", "claims": ["a"], "query": "a"}
        | {"strategy": "none", "pairs": ["a; b"]}
        | {"action": "Search", "argument": "a", "value": "sure", "correct": True}
        | {"relevant": True, "supported": False, "sufficient": True, "answered": True, name: value}
    )
    for task in TASKS:
        try:
            BOOK[task].read(text, FIELDS, "json")
        except Malformed as complaint:
            assert name in str(complaint)  # noqa: PT017


# --- there and back ----------------------------------------------------------------------------------------------

LETTERS = st.characters(categories=["Lu", "Ll", "Lo", "Nd"])
WORDS = st.text(LETTERS, min_size=1, max_size=8)


@st.composite
def phrases(draw: st.DrawFn) -> str:
    """A few words with what stands between the words of names, titles and dates."""
    first, *others = draw(st.lists(WORDS, min_size=1, max_size=6))
    joints = st.sampled_from([" ", " ", ", ", "-", "'", " (", ") ", " & ", ": ", "/", "! "])
    phrase = first + "".join(draw(joints) + word for word in others)
    assume(not says_nothing(phrase))
    assume(
        phrase.split(" ")[0].lower().strip(",:!") not in ("yes", "no", "step", "thought", "answer", "output", "query")
    )
    assume(phrase[-2:].lower() not in ("jr", "sr", "co", "st", "mt"))  # "Jr." keeps its stop
    return phrase


PHRASES = phrases()
MAYBE = st.none() | PHRASES
SENTENCES = PHRASES.map(lambda phrase: f"{phrase}.")
REVIEWS = st.builds(
    lambda relevant, supported, lines, analysis, phrase: Review(
        relevant=relevant,
        supported=supported,
        thought="\n".join(lines) or None,
        analysis=analysis if supported else None,
        answer=phrase if supported else None,
        query=None if supported else phrase,
    ),
    st.booleans(),
    st.booleans(),
    st.lists(SENTENCES, max_size=2),
    st.none() | SENTENCES,
    PHRASES,
)
OUTPUTS: dict[type, st.SearchStrategy[Any]] = {
    Review: REVIEWS,
    MergedReview: REVIEWS.map(
        lambda review: MergedReview(**review.model_dump(exclude={"query"}), information=review.query)
    ),
    Supplement: st.builds(
        lambda thought, information, answer: Supplement(
            thought=thought, information=" ".join(information), answer=answer
        ),
        st.none() | SENTENCES,
        st.lists(SENTENCES, min_size=1, max_size=3),
        MAYBE,
    ),
    Summary: st.builds(lambda sentences: Summary(summary=" ".join(sentences)), st.lists(SENTENCES, max_size=3)),
    SubAnswer: st.builds(lambda phrase: SubAnswer(answered=phrase is not None, response=phrase), MAYBE),
    Plan: st.builds(lambda phrase: Plan(sub_question=f"{phrase}?"), PHRASES),
    ChainOfQuery: st.builds(
        lambda nodes, final: ChainOfQuery(nodes=nodes, final=final),
        st.lists(
            st.builds(lambda query, answer: QueryNode(query=f"{query}?", answer=answer), PHRASES, MAYBE),
            min_size=1,
            max_size=4,
            unique_by=lambda node: node.query,
        ),
        MAYBE,
    ),
    TracedContent: st.builds(
        lambda sentences, answer: TracedContent(
            content=" ".join(f"{sentence} [{n}]" for n, sentence in enumerate(sentences, 1)), answer=answer
        ),
        st.lists(SENTENCES, max_size=3),
        PHRASES,
    ),
    Sufficiency: st.builds(lambda sufficient: Sufficiency(sufficient=sufficient), st.booleans()),
    Response: st.builds(
        lambda rationale, answer: Response(rationale=" ".join(rationale) or None, answer=answer),
        st.lists(SENTENCES, max_size=3),
        PHRASES,
    ),
}


@settings(SAME_EACH_TIME, max_examples=tries(100))
@given(data=st.data())
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    for name, task in TASKS.items():
        if task.output not in OUTPUTS:
            continue
        output = data.draw(OUTPUTS[task.output])
        unasked = set(task.output.model_fields).difference(task.asked(FIELDS))
        output = output.model_copy(update=dict.fromkeys(unasked))
        written = task.write_text(output, FIELDS)
        assert BOOK[name].read(written, FIELDS) == output
        for dumped in (json.dumps(output.model_dump()), output.model_dump_json(indent=2)):
            assert BOOK[name].read(f"Here it is:\n{dumped}\nDone.", FIELDS, "json") == output


# --- what is shown -----------------------------------------------------------------------------------------------


BRACKETS = st.sampled_from("< > / [ ] | ＜ ／ passage evidence s SYS INST \u200b 1".split(" "))


@SAME_EACH_TIME
@given(text=st.lists(BRACKETS | st.text(max_size=3), max_size=12).map("".join))
def test_harmless_text_is_as_long_and_stays_as_it_is(text: str) -> None:
    shown = harmless(text)
    assert len(shown) == len(text)
    assert harmless(shown) == shown
    assert {a for a, b in zip(text, shown, strict=True) if a != b} <= set("<＜﹤[［")
    assert {b for a, b in zip(text, shown, strict=True) if a != b} <= set("‹⁅")
