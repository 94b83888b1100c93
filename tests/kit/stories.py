"""Stories of Hypothesis: rules drawn one after another, each of which may happen in a process that dies."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.kit.victims import Victims


class Story(RuleBasedStateMachine):
    """A story whose rules may let the ``processes`` do their work."""

    processes: Victims


def tell(story: type[Story], processes: Victims, *, examples: int, steps: int) -> None:
    """Run so many stories of up to so many steps."""
    run_state_machine_as_test(
        type(story.__name__, (story,), {"processes": processes}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[*HealthCheck],
            phases=[Phase.reuse, Phase.generate],  # a story takes seconds, and its shrinking many minutes
        ),
    )
