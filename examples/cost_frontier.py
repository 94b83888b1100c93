"""Compare accuracy and cost: find the methods and settings that no other beats at the same cost.

Every run counts its calls, tokens and seconds; `polyhop.frontier` sorts runs by cost and names the run that beats
each one behind. `polyhop report DIR… --frontier tokens` prints such a table for runs on disk, and `--out FILE.html`
draws it. The ten questions here need three passages or more.

    python examples/cost_frontier.py

prints

    closed book                169 tokens a question   exact match   0 %   on the frontier
    paths of passages         1010 tokens a question   exact match  50 %   on the frontier
    one search                1127 tokens a question   exact match  40 %   behind paths of passages
    a tree of reviews        10144 tokens a question   exact match  40 %   behind paths of passages
"""

from typing import Any

import polyhop
from polyhop.data.questions import read_questions

RUNS: dict[str, dict[str, Any]] = {
    "closed book": {"method": "direct"},
    "one search": {"method": "one-r", "k": 3},
    "paths of passages": {"method": "hops", "k": 2, "scorer": "reasons"},
    "a tree of reviews": {"method": "tor", "widths": (3, 2, 2)},
}

questions = [question for question in read_questions("demo") if len(question.gold_ids) > 2][:10]
reports = {name: polyhop.evaluate(questions, "demo", **options) for name, options in RUNS.items()}

for name, point in polyhop.frontier(reports, cost="tokens", metric="em").items():
    position = f"behind {point.behind}" if point.behind else "on the frontier"
    print(f"{name:21} {point.cost:8.0f} tokens a question   exact match {100 * point.score.value:3.0f} %   {position}")
