"""Iter-RetGen: each round searches the question with the answer of the round before, and answers from the results.

Shao, Gong, Shen, Huang, Duan, Chen: "Enhancing Retrieval-Augmented Large Language Models with Iterative
Retrieval-Generation Synergy", 2023.

Followed: the first round searches the question, each later one the question with the whole output of the round before,
reasoning and answer. Every round reads only the passages of its own search, by chain of thought. The number of rounds
is fixed, and the answer is that of the last (§3). The paper reads 5 passages and runs up to 7 rounds, with most of the
gain in the second; here there are 3, as in Tree of Reviews' comparison. Not followed: the paper's last step, in which
the retriever is adapted to what the model wrote. Settled here: an output that cannot be read adds nothing to the next
query; a round that finds the passages of an earlier one has its output, without a call. Needs nothing beyond
completion.

Example: "In which town was the leader of the Kon-Tiki expedition born?" The question finds the expedition; the answer
"It was led by Thor Heyerdahl. Oslo", a guess, finds his page in the second round, and that answers: Larvik.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyhop.answer import Answer
from polyhop.methods.context import Style, first_retrieved, reading
from polyhop.methods.registry import method
from polyhop.prompts.tasks.answers import Response
from polyhop.types import Evidence, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run


@method(
    "iter-retgen",
    family="iterative",
    calls=2,
    paper="Shao et al., 2023",
    layers=lambda settings: int(settings["max_turns"]),
    needs=("retriever",),
)
async def iterative_retrieval_generation(
    question: str,
    run: Run,
    *,
    k: Positive = 5,  # §4
    max_turns: Positive = 3,  # T, the number of rounds; ToR §4.3
    style: Style = "cot",
    shots: NonNegative = 3,
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Search with the question and the last output, answer from the results, repeat; the last answer counts (§3)."""
    options: Options = {"shots": shots, "logprobs": True}  # of every round: its reply may be the last round's too
    found: list[list[Passage]] = []
    response: Response | None = None

    async def answer(*, last: bool) -> Response:
        """Answer from the passages of the newest search."""
        newest = found[-1] if found else []
        task, fields = reading(question, newest, run, style=style, options=options, context_tokens=context_tokens)
        return await run.ask_once(task, options=options, final=last, **fields)

    with run.gathering():
        query = question
        while len(found) < max_turns:
            with run.branch("round", query):
                found.append(await run.search(query, k))
                response = None
                response = await answer(last=len(found) == max_turns)
            known = None if response.declines(response.answer) else response.answer
            query = " ".join(filter(None, (question, response.rationale, known)))

    if response is None:  # the budget was spent before the newest passages were read
        response = await answer(last=True)
    read = tuple(found[-1]) if found else ()
    evidence = (Evidence(read, response.answer),) if read and response.answer else ()
    return Answer(
        response.answer,
        passages=first_retrieved(found, rank_limit),
        evidence=evidence,
        statistics={"rounds": len(found)},
    )
