"""Try a method at many settings, and ask only what differs.

A sweep is a table of what all runs share and grids of what they try, in a TOML file (`polyhop sweep FILE`) or, as here,
in Python. A reply that one point got serves every other that asks the same: what the last call of Tree of Reviews is
shown (`fusion`) changes nothing in the tree before it. Each point is a run's folder; the same sweep goes on where it
was stopped.

    python examples/sweep.py

prints

                                                      exact match   calls   asked
    base                                                   80.0 %      42      42
    fusion=analysis                                        80.0 %      42       4
    fusion=paragraph                                       80.0 %      42       4
    repetitive_pruning=false                               80.0 %      45       4
    relevance_pruning=false                                80.0 %      53      13
    relevance_pruning=false,repetitive_pruning=false       80.0 %      59       3
    together                                                          283      70
"""

import tempfile

import polyhop

PLAN = {
    "run": {"dataset": "demo", "limit": 5, "method": "tor", "lm": "pocket", "widths": [3, 2]},
    "grid": [
        {"fusion": ["evidence", "analysis", "paragraph"]},
        {"relevance_pruning": [True, False], "repetitive_pruning": [True, False]},
    ],
}

with tempfile.TemporaryDirectory() as folder:
    swept = polyhop.sweep(PLAN, folder).to_dict()

print(f"{'':50}exact match   calls   asked")
for point in swept["points"]:
    em = 100 * point["report"]["metrics"]["em"]["value"]
    print(f"{point['name']:50} {em:8.1f} % {point['calls']:7} {point['asked']:7}")
print(f"{'together':50} {'':10} {swept['calls']:7} {swept['asked']:7}")
