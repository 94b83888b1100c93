"""Automatic chain of thought: demonstrations the model writes itself, for one question of each cluster of a pool.

Zhang, Zhang, Li, Smola: "Automatic Chain of Thought Prompting in Large Language Models", 2022.

Followed: the questions of a pool are clustered by k-means, and of each cluster the one nearest its centre gets a
rationale by zero-shot chain of thought; it is passed over for the next nearest where it is too long or its rationale
has too many steps (§4, Algorithms 1 and 2, with their limits). No gold is seen. Not followed: TF-IDF vectors instead of
Sentence-BERT's; at most 3 questions of a cluster are tried; ``shots`` clusters, as every baseline shows so many
demonstrations (the paper has 8 for most sets; ``shots=0`` is zero-shot). The pool is a file of questions, such as the
dataset's own, or questions of ours; the question asked is never its own demonstration.

The demonstrations are the same for every question, so that their calls are made once a run where replies are cached.
Closed-book. Needs nothing beyond completion.

Example: with the pool of ours and 3 clusters, "In which town was the leader of the Kon-Tiki expedition born?" is shown
three other questions, each with the rationale and the answer the model gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polyhop.answer import Answer
from polyhop.common.text import normalise, sentences
from polyhop.methods.baselines.question_clusters import cluster_questions
from polyhop.methods.registry import method
from polyhop.prompts.tasks.answers import AUTO_COT_ANSWER, ZERO_SHOT_COT
from polyhop.types import FileName, NonNegative, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run

TRIED = 3
"""Questions of a cluster that are tried, nearest to its centre first."""


@method(
    "auto-cot",
    family="closed book",
    calls=4,
    paper="Zhang et al., 2022",
    layers=lambda settings: 1 + TRIED * (settings["shots"] > 0),
)
async def automatic_chain_of_thought(
    question: str,
    run: Run,
    *,
    pool: FileName = "",  # a file of questions; ours where it is not given
    shots: NonNegative = 3,  # clusters, k: a demonstration of each
    question_tokens: Positive = 60,  # §4.2: no longer question is shown
    rationale_steps: Positive = 5,  # §4.2: nor a longer chain
) -> Answer:
    """Build demonstrations from clustered questions, then answer by chain of thought beside them (§4)."""

    async def demonstrate(cluster: Sequence[str]) -> None:
        """Algorithm 2, on one cluster: the first question, nearest first, that gets a fitting rationale."""
        short = [member for member in cluster if run.count_tokens(member) <= question_tokens]
        for member in [member for member in short if normalise(member) != normalise(question)][:TRIED]:
            response = await run.ask(ZERO_SHOT_COT, options={"shots": 0}, question=member)
            answered = not response.declines(response.answer)
            if answered and response.rationale and len(sentences(response.rationale)) <= rationale_steps:
                built[cluster[0]] = {"question": member, "rationale": response.rationale, "answer": response.answer}
                return

    built: dict[str, Mapping[str, Any]] = {}
    clusters = cluster_questions(pool, shots)  # Algorithm 1
    with run.gathering():
        await run.gather(*map(demonstrate, clusters))

    demonstrations = [built[cluster[0]] for cluster in clusters if cluster[0] in built]
    response = await run.ask(
        AUTO_COT_ANSWER, options={"shots": 0}, final=True, question=question, demonstrations=demonstrations
    )
    return Answer(response.answer, statistics={"demonstrations": len(demonstrations)})
