"""The report of a run: metrics over its predictions, the method's own statistics, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from polyhop.errors import UnknownName
from polyhop.evaluation.errors import count_errors
from polyhop.evaluation.statistics import Mean, means, ratio
from polyhop.trace import Usage, add_usage

QUESTION_KEYS = ("type", "hops")
"""Keys of a prediction's row that describe its question, not the answer."""


@dataclass(frozen=True, slots=True)
class Report:
    """A summary of a run.

    ``rows``: its predictions, in dataset order. ``failed``: the questions without an answer, and why. ``unscored``: the
    requested metrics that no question has, and what they need. ``judge``: the model that judged the answers, if one did
    (``judging.judge_answers``). ``waiting``: the number of questions that wait for the results of a batch; the run is
    complete when it is 0. ``concurrency``: the maximum number of questions that were under way at once; None if it is
    not known.
    """

    method: str
    lm: str
    dataset: str
    metrics: Mapping[str, Mean]
    statistics: Mapping[str, Mean]
    usage: Usage
    rows: Sequence[Mapping[str, Any]]
    failed: Mapping[str, str]
    unscored: Mapping[str, str] = field(default_factory=dict)
    judge: Mapping[str, Any] = field(default_factory=dict)
    waiting: int = 0
    concurrency: int | None = 1

    @classmethod
    def of(
        cls,
        rows: Sequence[Mapping[str, Any]],
        failed: Mapping[str, str],
        *,
        method: str,
        lm: str,
        dataset: str,
        unscored: Mapping[str, str] | None = None,
        waiting: int = 0,
        concurrency: int | None = 1,
    ) -> Report:
        """Summarise the rows of a predictions file."""
        statistics = means(row["statistics"] for row in rows)
        if "reviews" in statistics and statistics["reviews"].value:  # ToR Table 5: #Doc / #API, in percent
            both = [row["statistics"] for row in rows if "reviews" in row["statistics"]]
            documents = [100 * counts["documents"] for counts in both]
            statistics["rate"] = ratio(documents, [counts["reviews"] for counts in both])
        return cls(
            method=method,
            lm=lm,
            dataset=dataset,
            metrics=means(row["metrics"] for row in rows),
            statistics=statistics,
            usage=add_usage(Usage.from_dict(row["usage"]) for row in rows),
            rows=rows,
            failed=failed,
            unscored=unscored or {},
            waiting=waiting,
            concurrency=concurrency,
        )

    @property
    def queued(self) -> bool:
        """True if a question's seconds may include waiting for other questions."""
        return self.concurrency != 1

    @property
    def parsed_at_first_try(self) -> float | None:
        """The share of model replies that could be read without asking again; None if nothing was asked."""
        return self.usage.parsed_first_try / self.usage.asked if self.usage.asked else None

    def only(self, keep: Callable[[Mapping[str, Any]], bool]) -> Report:
        """Restrict the report to the questions whose prediction row is kept; failed questions have none."""
        rows = [row for row in self.rows if keep(row)]
        only = Report.of(rows, {}, method=self.method, lm=self.lm, dataset=self.dataset)
        return replace(only, concurrency=self.concurrency)

    def by(self, key: str) -> dict[str, Report]:
        """A report for each value of ``key``, in order: ``type`` (the dataset's own), ``hops`` (gold steps, else gold
        passages) or a statistic of the method.

        Questions without a value are left out. ``UnknownName`` when none has one.
        """

        def value(row: Mapping[str, Any]) -> str | None:
            level = row.get(key) if key in QUESTION_KEYS else row["statistics"].get(key)
            return level if level is None or isinstance(level, str) else f"{level:g}"

        found = {level for row in self.rows if (level := value(row)) is not None}
        if not found:
            raise UnknownName("key to group by", key, sorted({*QUESTION_KEYS, *self.statistics} - {key}))
        order = sorted(found) if key == "type" else sorted(found, key=float)
        return {level: self.only(lambda row, level=level: value(row) == level) for level in order}  # type: ignore[misc]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``metrics.json``."""
        usage = self.usage.to_dict()
        volatile = usage.pop("volatile")
        return {
            "method": self.method,
            "lm": self.lm,
            "dataset": self.dataset,
            "questions": len(self.rows),
            "failed": dict(self.failed),
            **({"waiting": self.waiting} if self.waiting else {}),
            "metrics": {name: mean.to_dict() for name, mean in self.metrics.items()},
            "unscored": dict(self.unscored),
            **({"judge": dict(self.judge)} if self.judge else {}),
            "statistics": {name: mean.to_dict() for name, mean in self.statistics.items()},
            "errors": count_errors(self.rows),
            "parsed_at_first_try": self.parsed_at_first_try,
            "usage": usage,
            "volatile": volatile,
        }
