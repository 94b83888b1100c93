"""Answer and retrieval metrics, each for one question and 0 to 1; of several gold answers the best counts.

EM and F1 are HotpotQA's official ones (SQuAD's normalisation; F1 is 0 if one side is yes, no or noanswer and the other
differs). Cover-EM is SearChain's: the normalised prediction contains the normalised gold answer. ROUGE-L compares long
answers. PromptRank's R@k is ``recall_all@k`` here, its AR@k ``ar@k``; Tree of Reviews' recall is ``recall_mean@k``.
``profiles`` reproduces the scores of other toolkits exactly.
"""

from __future__ import annotations

from polyhop.metrics.answers import best_rouge_l, cover_em, cover_em_token, exact_match, f1, rouge_l, squad_f1
from polyhop.metrics.facts import ge_graph_accuracy
from polyhop.metrics.predictions import Prediction
from polyhop.metrics.profiles import (
    PROFILES,
    Metrics,
    Profile,
    ProfileChoice,
    choose_profiles,
    profiles_named,
    score,
    score_answer,
)
from polyhop.metrics.rankings import RECALL_AT, answer_rank, found_gold, score_passages, span_rank

__all__ = [
    "PROFILES",
    "RECALL_AT",
    "Metrics",
    "Prediction",
    "Profile",
    "ProfileChoice",
    "answer_rank",
    "best_rouge_l",
    "choose_profiles",
    "cover_em",
    "cover_em_token",
    "exact_match",
    "f1",
    "found_gold",
    "ge_graph_accuracy",
    "profiles_named",
    "rouge_l",
    "score",
    "score_answer",
    "score_passages",
    "span_rank",
    "squad_f1",
]
