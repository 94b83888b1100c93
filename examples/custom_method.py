"""Write your own method and compare it with a built-in one.

A method is one async function of a question and its `Run`, which makes its searches and calls; `@polyhop.method`
gives it a name, and its keyword arguments are its settings. Budget, trace, citations, cache and metrics work
automatically, and so do `polyhop run`, `serve` and the rest if a package names its module as an entry point
`polyhop.methods`.

    python examples/custom_method.py

prints

    one-r       exact match 60.0 %  calls a question 1.0
    look-twice  exact match 70.0 %  calls a question 2.0
    difference  +10.0 points, 95 % interval +0.0 … +30.0

Ten questions are too few to say whether a second look helps.
"""

import polyhop
from polyhop import Answer, Evidence, Passage
from polyhop.engine.run import Run


@polyhop.method("look-twice", paper="this example", family="iterative", layers=lambda settings: 2, needs=("retriever",))
async def look_twice(question: str, run: Run, *, k: int = 3) -> Answer:
    """Answer from one search, search again with that answer beside the question, and answer from both."""
    passages: list[Passage] = []
    with run.gathering():  # left where the budget is spent
        passages = await run.search(question, k)
        first = await run.ask("answer.read", question=question, passages=passages)
        found = await run.search(f"{question} {first.answer}", k)
        passages = list(dict.fromkeys([*passages, *found]))
    last = await run.ask("answer.read", final=True, question=question, passages=passages)
    return Answer(last.answer, tuple(passages), (Evidence(tuple(passages), last.answer),))


usual = polyhop.evaluate("demo", "demo", method="one-r", k=3, limit=10)
ours = polyhop.evaluate("demo", "demo", method="look-twice", k=3, limit=10)

for report in (usual, ours):
    em, calls = 100 * report.metrics["em"].value, report.usage.calls / len(report.rows)
    print(f"{report.method:10}  exact match {em:.1f} %  calls a question {calls:.1f}")

gain = polyhop.compare(usual, ours).metrics["em"]
points, low, high = (100 * value for value in (gain.second - gain.first, gain.low, gain.high))
print(f"difference  {points:+.1f} points, 95 % interval {low:+.1f} … {high:+.1f}")
