"""Adaptive-RAG's router: no retrieval, one retrieval or an iterative method, by how complex a question is.

Jeong, Baek, Cho, Hwang, Park: "Adaptive-RAG: Learning to Adapt Retrieval-Augmented Large Language Models through
Question Complexity", 2024. Code: github.com/starsuzi/Adaptive-RAG.

Followed: three strategies, by default those of the paper: the model alone, one retrieval, IRCoT (§3.1). A classifier
that sees the question alone decides between them (§3.2). It is trained on labelled questions: the label is the simplest
strategy that answers right; if none does, it comes from the dataset, whose questions have one hop or several.
Settled here: who decides. ``by=prompt`` asks the model, without training. ``by=classifier`` is the paper's, but linear:
the paper trains a T5-large; here ``features_of`` a question, its length, names and function words, are weighed by three
logistic models that ``polyhop tune route`` fits on the runs of the three strategies. ``by=confidence``, which the paper
does not have, answers without retrieval first: that answer is kept from ``sure_from`` on, and from ``single_from`` on
one retrieval will do. The strategies are methods by name, with their own defaults and the settings that ``route``
shares with them. They run within this question's budget. A decision that cannot be read, or paid, is one retrieval.

Example: "Who wrote Hamlet?" is answered from memory. "When did the Vasa sink?" is searched once. "In which town was the
leader of the Kon-Tiki expedition born?" goes to IRCoT, as one page names the leader and another his birthplace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import orjson
from annotated_types import Ge, Le
from pydantic import AfterValidator

from polyhop.answer import Answer
from polyhop.errors import DataError, SettingError
from polyhop.methods.registry import Method, method, method_named
from polyhop.prompts.tasks.answers import ANSWER_DIRECT
from polyhop.prompts.tasks.judging import ROUTE_CHOOSE, Strategy
from polyhop.types import FileName, NonNegative, Positive

if TYPE_CHECKING:
    from polyhop.engine.run import Run


def _strategy(name: str) -> str:
    """Check that there is a method of this name, and that it is not ``route``."""
    if method_named(name).name == "route":
        raise SettingError("route: a strategy must be another method")
    return name


MethodName: TypeAlias = Annotated[str, AfterValidator(_strategy)]
Share: TypeAlias = Annotated[float, Ge(0), Le(1)]
STRATEGIES: tuple[Strategy, ...] = ("none", "single", "multi")
"""From the simplest on."""
SHARED = ("k", "max_turns", "shots", "context_tokens", "rank_limit")
"""Settings of ``route`` that its strategies take, if they have them."""


def _routes(settings: Mapping[str, Any]) -> list[tuple[Method, dict[str, Any]]]:
    """Return the method of each strategy, with its settings."""
    known = [method_named(settings[name]) for name in STRATEGIES]
    return [
        (route, route.resolve({name: settings[name] for name in SHARED if name in route.settings})) for route in known
    ]


def _needs(settings: Mapping[str, Any]) -> set[str]:
    if (settings["by"] == "classifier") is not bool(settings["classifier"]):
        raise SettingError("route: by=classifier and classifier=FILE go together; 'polyhop tune route' writes the file")
    own = {"token_logprobs:answer.direct"} if settings["by"] == "confidence" else set()
    return own.union(*(route.needs(given) for route, given in _routes(settings)))


@method(
    "route",
    family="iterative",
    calls=2,
    paper="Adaptive-RAG (Jeong et al., 2024)",
    layers=lambda settings: (
        (settings["by"] != "classifier") + max(route.layers(given) for route, given in _routes(settings))
    ),
    needs=_needs,
)
async def adaptive_retrieval(
    question: str,
    run: Run,
    *,
    by: Literal["prompt", "confidence", "classifier"] = "prompt",
    none: MethodName = "direct",  # §3.1: a method without retrieval
    single: MethodName = "one-r",  # §3.1: with one
    multi: MethodName = "ircot",  # §3.1: with several
    sure_from: Share = 0.9,  # minimum confidence to keep the answer without retrieval
    single_from: Share = 0.5,  # minimum confidence for a single retrieval
    classifier: FileName = "",  # the file of `polyhop tune route`
    k: Positive = 5,  # ToR §4.3; this and the following are the strategies'
    max_turns: Positive = 3,  # ToR §4.3
    shots: NonNegative = 3,  # ToR §4.4
    context_tokens: Positive = 4096,  # ToR §4.4
    rank_limit: Positive = 15,  # ToR §4.2
) -> Answer:
    """Decide how much retrieval the question needs, and answer it with that strategy (§3)."""
    strategy: Strategy = "single"
    answer: Answer | None = None
    settings = dict(locals())
    with run.gathering():
        if by == "classifier":
            strategy = classified(question, read_classifier(classifier))
        elif by == "prompt":
            strategy = (await run.ask(ROUTE_CHOOSE, options={"shots": shots}, question=question)).strategy
        else:
            reply = await run.ask(ANSWER_DIRECT, options={"shots": shots, "logprobs": True}, question=question)
            sure = 0.0 if reply.declines(reply.answer) else reply.probability(reply.answer) or 0.0
            strategy = "none" if sure >= sure_from else "single" if sure >= single_from else "multi"
            answer = Answer(reply.answer) if strategy == "none" else None
    route, given = _routes(settings)[STRATEGIES.index(strategy)]
    run.note("route", strategy=strategy, method=route.name)
    answer = answer or await route.function(question, run, **given)
    chosen = {str(name): float(name == strategy) for name in STRATEGIES}
    return replace(answer, statistics={**answer.statistics, **chosen})


# --- the classifier (§3.2) --------------------------------------------------------------------------------------------

_NAME = re.compile(r"(?<=[^.?!] )[^\W\d_a-z][\w'’-]*(?: [^\W\d_a-z][\w'’-]*)*")
_FUNCTION_WORDS = (
    "who what when where which why how whose whom many much is was are were did does do or and both either same "
    "different than more first earlier later older younger of in by for from with that in at on the a his her its"
).split()


def features_of(question: str) -> dict[str, float]:
    """Return the features of a question, the same for all: its length, its names and its function words.

    >>> {name: value for name, value in features_of("Who wrote The Trial?").items() if value}
    {'constant': 1.0, 'words': 0.4, 'names': 1.0, 'who': 1.0, 'the': 1.0}
    """
    words = re.findall(r"\w+", question.lower())
    own = {"constant": 1.0, "words": len(words) / 10, "names": float(len(_NAME.findall(question)))}
    return own | {word: float(words.count(word)) for word in _FUNCTION_WORDS}


def classified(question: str, classifier: Mapping[Strategy, Mapping[str, float]]) -> Strategy:
    """Return the strategy whose logistic model gives the question the highest probability; of several the simplest."""
    features = features_of(question)
    return max(
        STRATEGIES,
        key=lambda name: sum(weight * features.get(word, 0.0) for word, weight in classifier[name].items()),
    )


@cache
def read_classifier(path: str) -> Mapping[Strategy, Mapping[str, float]]:
    """Read the classifier that ``polyhop tune route`` wrote. Raises ``DataError`` if the file holds none."""
    try:
        found = orjson.loads(Path(path).read_bytes())["strategies"]
        return {name: {word: float(weight) for word, weight in found[name].items()} for name in STRATEGIES}
    except OSError as error:
        raise DataError(f"the classifier cannot be read: {error.strerror}", path) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            "not a classifier of route: 'polyhop tune route RUN RUN RUN --out FILE' writes one", path
        ) from None
