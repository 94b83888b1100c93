"""Ask a question that no single passage answers, and look at how the answer was found.

The corpus and the model, `pocket`, are built in. An answer is a plain value: its text, its confidence, the passages it
cites, the chains of passages that led to it, and a trace of every step.

    python examples/ask.py

prints

    Vienna (supported)

    Cited:
    [1] Metropolis (film): Metropolis is a German silent science-fiction film released in 1927 and …
    [2] Fritz Lang: Fritz Lang was a film director born in Vienna in 1890. In Berlin he made …

    Chains of passages:
    Metropolis (film) → Fritz Lang: Vienna

    What was done:
    search: In which city was the director of the science-fiction film Metropolis born?
    Metropolis (film): search
    search: Fritz Lang
    Fritz Lang: accept
    2001: A Space Odyssey: reject
    2 searches, 5 calls of the model
"""

import textwrap

import polyhop
from polyhop.answer import references
from polyhop.trace import Branch, Searched

QUESTION = "In which city was the director of the science-fiction film Metropolis born?"

with polyhop.Pipeline("demo", method="tor", lm="pocket", widths=(2, 1)) as qa:
    answer = qa.ask(QUESTION)

print(f"{answer.text} ({answer.support})")

print("\nCited:")
for reference in references(answer):
    passage = reference.passage
    print(reference.marks, f"{passage.title}: {textwrap.shorten(passage.text, 75, placeholder=' …')}")

print("\nChains of passages:")
for chain in answer.evidence:
    print(" → ".join(passage.title for passage in chain.passages) + f": {chain.answer}")

print("\nWhat was done:")
for step in answer.trace.steps:
    if isinstance(step, Searched):
        print(f"search: {step.query}")
    elif isinstance(step, Branch):
        print(f"{step.label}: {step.verdict}")
print(f"{answer.usage.searches} searches, {answer.usage.calls} calls of the model")
