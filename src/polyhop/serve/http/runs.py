"""The runs under the service's folder of runs over HTTP: what ``polyhop.serve.runs`` tells.

Annotations are evaluated here, since FastAPI reads them, and it is imported where a router is made.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Le

from polyhop.serve.http.errors import WRONG_USE
from polyhop.serve.http.replies import reply
from polyhop.serve.runs import Runs
from polyhop.serve.service import Service

if TYPE_CHECKING:
    from fastapi import APIRouter

PAGE = 100
"""Default number of questions per page."""


def router(service: Service) -> "APIRouter":
    """The routes under ``/v1/runs``. They are plain functions, which FastAPI calls on threads: a large run takes a
    while to read, and two to compare."""
    from fastapi import APIRouter, Query, Response

    runs = Runs(service.runs)

    def rows() -> Response:
        """The runs, the newest first, with the metrics that tables show; one that cannot be read has an ``error``."""
        return reply({"runs": runs.rows()})

    def compare(a: str, b: str) -> Response:
        """Two runs on the questions both answered: the metrics' differences with intervals by paired bootstrap, and
        the questions that only one of them got right."""
        return reply(runs.compare(a, b))

    def frontier(
        run: Annotated[list[str], Query(default_factory=list)],
        cost: Literal["calls", "tokens", "seconds"] = "calls",
        metric: str | None = None,
    ) -> Response:
        """Draw runs, all or those named, by what a question cost and what they score. Runs without the metric are left
        out and named in the picture."""
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(runs.frontier(run, cost, metric), headers=policy, media_type="image/svg+xml")

    def one(run: str) -> Response:
        """A run's settings and all its figures."""
        return reply(runs.run(run))

    def questions(
        run: str,
        wrong: bool | None = None,
        type: str | None = None,
        search: str = "",
        offset: Annotated[int, Ge(0)] = 0,
        limit: Annotated[int, Ge(1), Le(1000)] = PAGE,
    ) -> Response:
        """A run's questions and what came of them: those judged wrong (or right), of a type, with these words."""
        return reply(runs.questions(run, wrong=wrong, type=type, search=search, offset=offset, limit=limit))

    def question(run: str, question: str) -> Response:
        """A question of a run, its answer and its trace."""
        return reply(runs.question(run, question))

    made = APIRouter(prefix="/v1/runs", responses=WRONG_USE)
    made.add_api_route("", rows)
    made.add_api_route("/compare", compare)
    picture = {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}
    made.add_api_route("/frontier.svg", frontier, response_class=Response, responses={200: picture})
    made.add_api_route("/{run}", one)
    made.add_api_route("/{run}/questions", questions)
    made.add_api_route("/{run}/questions/{question:path}", question)
    return made
