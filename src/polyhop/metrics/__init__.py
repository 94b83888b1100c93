"""Answer and retrieval metrics, each for one question, 0 to 1; over several gold answers the best counts.

EM and F1 are HotpotQA's official ones (normalised as SQuAD's; F1 is 0 when one side is yes, no or noanswer and the
other is not the same). Cover-EM is SearChain's: the normalised gold answer stands within the normalised prediction.
ROUGE-L compares long answers. PromptRank's R@k is ``recall_all@k`` here, its AR@k ``ar@k``; Tree of Reviews' recall is
``recall_mean@k``. ``profiles`` names the ways that others score, exactly as they do.
"""

from __future__ import annotations

from polyhop.metrics.answers import cover_em, cover_em_token, exact_match, f1, squad_f1
from polyhop.metrics.choosing import Chosen, Metrics, chosen
from polyhop.metrics.graphs import ge_graph_accuracy
from polyhop.metrics.predictions import Prediction
from polyhop.metrics.profiles import PROFILES, Profile, profiles_named, score, score_answer
from polyhop.metrics.rankings import RECALL_AT, answer_rank, found_gold, score_passages, span_rank
from polyhop.metrics.rouge import best_rouge_l, rouge_l

__all__ = [
    "PROFILES",
    "RECALL_AT",
    "Chosen",
    "Metrics",
    "Prediction",
    "Profile",
    "answer_rank",
    "best_rouge_l",
    "chosen",
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
