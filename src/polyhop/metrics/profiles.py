"""Named profiles of metrics, each computed as one paper's or benchmark's own script does.

Toolkits disagree on the meaning of F1 and recall. A profile's metrics carry its name (``hotpot.f1``, ``squad.f1``);
those of ``default`` and ``recall``, which are ours, have no prefix. Scores are per question, 0 to 1, and never rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from polyhop.errors import UnknownName
from polyhop.metrics import official
from polyhop.metrics.answers import (
    FEVER_LABELS,
    best_rouge_l,
    contains,
    cover_em,
    cover_em_token,
    exact_match,
    f1,
    label_accuracy,
    rouge_l,
)
from polyhop.metrics.predictions import Prediction
from polyhop.metrics.rankings import (
    ORDERED,
    RECALL_AT,
    RECALLS,
    at_ranks,
    score_answer_rank,
    score_citations,
    score_gold,
    score_order,
)
from polyhop.types import Question

Scores: TypeAlias = dict[str, float]
Score: TypeAlias = Callable[[Sequence[Prediction]], list[Scores]]

GOLD_ANSWERS = "questions with gold answers, and a method that gives one"
GOLD_PASSAGES = "questions with gold passages"
SPANS = "questions whose gold answer is a span"


@dataclass(frozen=True, slots=True)
class Profile:
    """A way to score a run.

    Attributes:
        source: the script or paper that it follows; ``traps``, the details that other scripts do differently.
        score: takes all predictions of a run, since some metrics pair questions, and returns the scores of prediction.
        needs: the data that metrics require, by a prefix of their names; the longest prefix applies.
        bare: metrics are reported without the profile's name.
    """

    name: str
    metrics: tuple[str, ...]
    source: str
    traps: str
    score: Score
    needs: Mapping[str, str] = field(default_factory=lambda: {"": GOLD_ANSWERS})
    bare: bool = False

    def full_name(self, metric: str) -> str:
        """Return a metric's name in a report."""
        return metric if self.bare else f"{self.name}.{metric}"

    def requirement(self, metric: str) -> str:
        """Return the data that a metric requires."""
        return self.needs[max((prefix for prefix in self.needs if metric.startswith(prefix)), key=len)]


def _each(score: Callable[[Prediction], Scores]) -> Score:
    return lambda predictions: [score(prediction) for prediction in predictions]


def _answers(*, kinds: Iterable[str] = (), **metrics: Callable[[str, Sequence[str]], float]) -> Score:
    """Return a score of the answer by the given metrics, for questions of the given kinds only (default: all)."""
    only = frozenset(kinds)

    def score(prediction: Prediction) -> Scores:
        question = prediction.question
        if not prediction.is_scored or (only and question.kind not in only):
            return {}
        return {name: metric(prediction.text, question.answers) for name, metric in metrics.items()}

    return _each(score)


def score_answer(prediction: str, question: Question) -> Scores:
    """Compute ``em``, ``f1`` and ``cover_em`` of a prediction, and ``rouge_l`` (F, best over the gold answers) if the
    question asks for a long answer; nothing for a question without gold answers."""
    if not question.answers:
        return {}
    golds = question.answers
    scores = {
        "em": exact_match(prediction, golds),
        "f1": f1(prediction, golds),
        "cover_em": cover_em(prediction, golds),
    }
    if question.kind == "long":
        scores["rouge_l"] = max(rouge_l(prediction, answer) for answer in golds)
    return scores


def _default(prediction: Prediction) -> Scores:
    scores = score_answer(prediction.text, prediction.question) if prediction.answers else {}
    ranked = score_gold(prediction.passages, prediction.question) | score_answer_rank(
        prediction.answer_rank, prediction.question
    )
    return scores | ranked


def _recall(prediction: Prediction) -> Scores:
    return score_gold(prediction.passages, prediction.question)


def _ranking(prediction: Prediction) -> Scores:
    return score_order(prediction.passages, prediction.question)


def _citations(prediction: Prediction) -> Scores:
    return score_citations(prediction.cited, prediction.question) if prediction.answers else {}


def _promptrank(prediction: Prediction) -> Scores:
    gold = score_gold(prediction.passages, prediction.question, PROMPTRANK_AT)
    found = score_answer_rank(prediction.answer_rank, prediction.question, PROMPTRANK_AT)
    return {name.replace("recall_all", "r"): value for name, value in gold.items() if "_all@" in name} | found


def _tor(prediction: Prediction) -> Scores:
    scores = score_gold(prediction.passages, prediction.question, (15,))
    return {"recall@15": scores["recall_mean@15"]} if scores else {}


PROMPTRANK_AT = (2, 10, 20)
_RANKED = {"recall": GOLD_PASSAGES, "r@": GOLD_PASSAGES, "ar": SPANS}
_FACTS = (
    "supporting facts in the dataset, and a corpus that marks where a passage's sentences begin "
    "(metadata: sentences), such as one made from a dataset's contexts"
)
_TRIPLES = "evidence triples in the dataset, and a method that composes its answer from triplets (ge)"
_HOTPOT = ("em", "f1", "prec", "recall")
_FACT_METRICS = {"": GOLD_ANSWERS, "sp_": _FACTS, "joint_": _FACTS}

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "default",
            (
                "em",
                "f1",
                "cover_em",
                "rouge_l",
                *at_ranks(RECALLS, RECALL_AT),
                *at_ranks(("ar", "ar_comparison"), RECALL_AT),
            ),
            "ours: HotpotQA's EM and F1, SearChain's cover-EM, recall of gold passages and of the answer",
            "rouge_l only for questions of kind long",
            _each(_default),
            {"": GOLD_ANSWERS, "rouge_l": "questions of kind long", **_RANKED},
            bare=True,
        ),
        Profile(
            "hotpot",
            (*_HOTPOT, *(f"sp_{name}" for name in _HOTPOT), *(f"joint_{name}" for name in _HOTPOT)),
            "HotpotQA's hotpot_evaluate_v1.py (Yang et al., 2018)",
            "yes, no and noanswer get no partial credit; two empty texts are equal, but F1 is 0",
            official.hotpot,
            _FACT_METRICS,
        ),
        Profile(
            "2wiki",
            tuple(f"{part}{name}" for part in ("", "sp_", "evi_", "joint_") for name in _HOTPOT),
            "2WikiMultiHopQA's 2wikimultihop_evaluate_v1.1.py (Ho et al., 2020)",
            "joint includes evidence; titles in lower case; triples without punctuation, but with articles",
            official.two_wiki,
            {**_FACT_METRICS, "evi_": _TRIPLES, "joint_": f"{_FACTS}; {_TRIPLES}"},
        ),
        Profile(
            "musique",
            ("answer_em", "answer_f1", "support_f1", "answerability", *official.GROUPED),
            "MuSiQue's evaluate_v1.0.py (Trivedi et al., 2022)",
            "no guard for yes and no; answer and support only over answerable questions; group scores over pairs of an "
            "answerable question and its twin, 0 unless both are judged correctly; answerability (ours): the share "
            "judged correctly",
            official.musique,
            {
                "": GOLD_ANSWERS,
                "support": GOLD_PASSAGES,
                "answerability": "questions of which some are unanswerable",
                "group": "answerable questions with their unanswerable twins",
            },
        ),
        Profile(
            "squad",
            ("em", "f1"),
            "SQuAD 2.0's evaluation (Rajpurkar et al., 2018)",
            "no guard for yes and no; F1 of two texts without a token is 1; an unanswerable question has an empty gold",
            official.squad,
        ),
        Profile(
            "cover-em",
            ("cover_em",),
            "SearChain (Xu et al., 2024)",
            "gold within the answer, also inside a word; yes, no and labels as whole words; an empty gold never",
            _answers(cover_em=cover_em),
        ),
        Profile(
            "cover-em-token",
            ("cover_em",),
            "ours",
            "gold within the answer as whole tokens; an empty gold never",
            _answers(cover_em=cover_em_token),
        ),
        Profile(
            "flashrag",
            ("em", "f1", "acc"),
            "FlashRAG's metrics.py (Jin et al., 2024)",
            'accuracy is containment: "no" is part of "Norway", an empty gold of everything',
            _answers(em=exact_match, f1=f1, acc=contains),
        ),
        Profile(
            "promptrank",
            at_ranks(("r", "ar", "ar_comparison"), PROMPTRANK_AT),
            "PromptRank (Khalifa et al., 2023)",
            "R@k requires all gold passages; AR@k leaves out yes, no and comparisons (ar_comparison keeps the latter)",
            _each(_promptrank),
            _RANKED,
        ),
        Profile(
            "recall",
            at_ranks(RECALLS, RECALL_AT),
            "ours",
            "by passage id if the question has ids, else by title; a gold passage listed twice is one",
            _each(_recall),
            _RANKED,
            bare=True,
        ),
        Profile(
            "ranking",
            at_ranks(ORDERED, RECALL_AT),
            "trec_eval's recip_rank, ndcg_cut, map_cut and P, gold passages as the relevant ones",
            "map divides by all gold passages, not by those that fit; of passages with one gold title the first counts",
            _each(_ranking),
            {"": GOLD_PASSAGES},
            bare=True,
        ),
        Profile(
            "citations",
            ("precision", "recall", "f1"),
            "ours: the passages that the answer cites, against the gold passages",
            "all are 0 if nothing is cited; of several passages with one gold title one is counted",
            _each(_citations),
            {"": f"{GOLD_PASSAGES}, and a method that answers"},
        ),
        Profile(
            "tor",
            ("recall@15",),
            "Tree of Reviews (Jiang et al., 2024)",
            "mean share of gold in the first 15, not if all are there",
            _each(_tor),
            _RANKED,
        ),
        Profile(
            "fever",
            ("accuracy",),
            "FEVER's label accuracy (Thorne et al., 2018)",
            "the label that an answer begins with, else the only one it contains, as whole tokens; two labels are none",
            _answers(kinds=("fact",), accuracy=lambda text, golds: label_accuracy(text, golds, FEVER_LABELS)),
            {"": "questions of kind fact, with gold labels"},
        ),
        Profile(
            "strategyqa",
            ("accuracy",),
            "StrategyQA's accuracy (Geva et al., 2021)",
            "yes or no as for labels: the one that the answer begins with, else the only one it contains",
            _answers(kinds=("boolean",), accuracy=lambda text, golds: label_accuracy(text, golds, ("yes", "no"))),
            {"": "questions of kind boolean, with gold answers"},
        ),
        Profile(
            "rouge-l",
            ("f",),
            "ROUGE-L F (Lin, 2004) as Google's rouge-score computes it, the best over the references (ELI5)",
            "only ASCII letters and digits form words; no stemming",
            _answers(f=best_rouge_l),
        ),
    )
}
"""Every profile by its name."""

DEFAULT = "default"


def profiles_named(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the profiles named by ``"hotpot,recall"`` or by a list; ``UnknownName`` lists all profiles.

    >>> profiles_named("hotpot, recall")
    ('hotpot', 'recall')
    """
    given = names.split(",") if isinstance(names, str) else names
    wanted = tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
    for name in wanted or ("",):
        if name not in PROFILES:
            raise UnknownName("metric profile", name, PROFILES)
    return wanted


def score(predictions: Sequence[Prediction], names: Iterable[str] = (DEFAULT,)) -> tuple[list[Scores], dict[str, str]]:
    """Return the scores of every prediction by the profiles, and, by metric, the reason that it is on no question.

    ``default`` reports only the metrics that apply. A metric that some questions lack (no gold, another kind) is
    averaged over the others. An unforeseen error costs the metrics of its profile alone, and is their reason.
    """
    rows: list[Scores] = [{} for _ in predictions]
    missing: dict[str, str] = {}
    for profile in (PROFILES[name] for name in names):
        try:
            profile_scores = profile.score(predictions)
        except Exception as error:  # noqa: BLE001 - named
            missing |= {profile.full_name(name): f"could not be computed: {error!r}" for name in profile.metrics}
            continue
        for row, scores in zip(rows, profile_scores, strict=True):
            row |= {profile.full_name(name): value for name, value in scores.items()}
        if profile.name == DEFAULT:
            continue
        found = set().union(*rows)
        absent = [name for name in profile.metrics if profile.full_name(name) not in found]
        missing |= {profile.full_name(name): f"needs {profile.requirement(name)}" for name in absent}
    return rows, missing


# --- the choice of profiles for a dataset, by the contents of its questions

_OF_KIND = {"boolean": "strategyqa", "fact": "fever", "long": "rouge-l"}
_MUSIQUE_ID = re.compile(r"[2-4]hop\d?__\d")


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """The profiles of a run, and the reason for them."""

    names: tuple[str, ...]
    why: str

    def to_dict(self) -> dict[str, object]:
        """Return the choice as in ``run.json``."""
        return {"profiles": list(self.names), "why": self.why}


Metrics: TypeAlias = str | Sequence[str] | ProfileChoice | None
"""Profiles as a caller names them: ``"hotpot,recall"``, a list, or an earlier choice; None lets the dataset decide."""


def choose_profiles(questions: Sequence[Question], metrics: Metrics = None) -> ProfileChoice:
    """Return the profiles that ``metrics`` names, else ``default`` and that of the questions' benchmark.

    >>> choose_profiles([Question("q", "Is it so?", ("yes",), "boolean")])
    ProfileChoice(names=('default', 'strategyqa'), why='every question is of kind boolean')
    """
    if isinstance(metrics, ProfileChoice):
        return metrics
    if metrics is not None:
        return ProfileChoice(profiles_named(metrics), "asked for")
    name, why = _benchmark(questions)
    names = [DEFAULT, name] if name else [DEFAULT]
    if "musique" not in names and any(question.answerable is False for question in questions):
        names.append("musique")
    return ProfileChoice(tuple(names), why)


def _benchmark(questions: Sequence[Question]) -> tuple[str | None, str]:
    kinds = {question.kind for question in questions}
    if len(kinds) == 1 and (name := _OF_KIND.get(kind := next(iter(kinds)))):
        return name, f"every question is of kind {kind}"
    if any(question.metadata.get("evidences") for question in questions):
        return "2wiki", "questions have evidence triples"
    if any("answerable" in question.metadata for question in questions):
        return "musique", "questions say whether they can be answered"
    if any(_MUSIQUE_ID.match(question.id) for question in questions):
        return "musique", "questions have MuSiQue's ids"
    if any(question.supporting for question in questions):
        return "hotpot", "questions have supporting facts"
    return None, "nothing in the questions indicates a benchmark with its own metrics"
