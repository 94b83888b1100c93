"""Two judgements on a path of passages: does it bear on the question, and is it enough to answer it.

Each is a small logistic model over reasons a person could give, fitted by ``benchmarks/pocket_fit.py``, blended with
what the encoder sees.
"""

from __future__ import annotations

import math

from polyhop.common.text import fold
from polyhop.lm.pocket.reading import blends
from polyhop.lm.pocket.reading.candidates import mentions
from polyhop.lm.pocket.reading.passage import Page
from polyhop.lm.pocket.reading.study import Study
from polyhop.lm.pocket.reading.weights import RELEVANT, SUFFICIENT


def relevance_features(study: Study) -> dict[str, float]:
    """Reasons for the last passage of the path to belong there."""
    pages, asked, seen = study.pages, study.asked, study.seen
    last, before = pages[-1], pages[:-1]
    sight = seen.sights[min(len(pages), len(seen.sights)) - 1]
    linked = any(mentions(page, last) for page in before)
    others = {root for page in before for root in (*page.positions, *page.title_roots)}
    new = sum(v for root, v in asked.terms.items() if root not in others and _has(last, root)) / asked.total
    folded = f"{fold(last.title)} {last.folded}"
    named = [fold(name) for name in asked.names]
    used = _used(study)
    return {
        "one": 1.0,
        "later": float(bool(before)),
        "title in question": float(sight.title_in_question),
        "title close to a name": _title_share(study, last),
        "linked": float(linked),
        "links back": float(any(mentions(last, page) for page in before)),
        "coverage": sight.coverage,
        "new": new if before else 0.0,
        "names": sum(name in folded for name in named) / len(named) if named else 0.0,
        "best sentence": max(sight.by_sentence.values(), default=0.0),
        "solves": float(study.solution.complete),
        "on the chain": float(last in used),
        "off the chain": float(bool(study.solution.hops) and last not in used and not linked),
        "comparison": float(asked.comparison is not None),
        "comparison, title absent": float(asked.comparison is not None and not sight.title_in_question and not linked),
        "class asked for": float(asked.head is not None and asked.head in last.classes),
    }


def sufficiency_features(study: Study) -> dict[str, float]:
    """Reasons for the path to hold everything the answer needs."""
    pages, asked, solution = study.pages, study.asked, study.solution
    sights = study.seen.sights
    folded = " ".join(f"{fold(page.title)} {page.folded}" for page in pages)
    named = [fold(name) for name in asked.names]
    best = solution.ranked[0] if solution.ranked else None
    linked = any(
        mentions(one, other) or mentions(other, one) for i, one in enumerate(pages) for other in pages[i + 1 :]
    )
    steps, verdict = len(solution.hops), solution.verdict
    return {
        "one": 1.0,
        "several": float(len(pages) > 1),
        "three or more": float(len(pages) > 2),
        "complete": float(solution.complete),
        "guess on several": float(len(pages) > 1 and not solution.complete),
        "comparison": float(asked.comparison is not None),
        "comparison complete": float(asked.comparison is not None and solution.complete),
        "chain stuck": float(steps > 0 and not solution.complete),
        "chain waits": float(steps > 0 and not solution.complete and solution.hops[-1].page is None),
        "last step's coverage": _narrowed_coverage(study),
        "last step open": float(solution.narrowed is not None),
        "side missing": float(verdict is not None and any(side.missing for side in verdict.sides)),
        "coverage": study.coverage,
        "names": sum(name in folded for name in named) / len(named) if named else 0.0,
        "linked": float(linked and len(pages) > 1),
        "all titles in question": float(all(sight.title_in_question for sight in sights)),
        "answer on last page": float(best is not None and len(pages) > 1 and best.page is pages[-1]),
        "margin": min(solution.margin, 4.0) if best else 0.0,
        "score": max(-4.0, min(best.score, 8.0)) if best else 0.0,
    }


def relevant(study: Study) -> float:
    """The probability that the path bears on the question; 0 for an empty path."""
    if not study.pages:
        return 0.0
    odds = log_odds(RELEVANT, relevance_features(study))
    return _chance(odds if study.look is None else blends.RELEVANCE.odds(odds, study.look.relevance))


def sufficient(study: Study) -> float:
    """The probability that the path is enough; 0 where it gives no answer."""
    solution = study.solution
    undecided = solution.verdict is not None and solution.verdict.answer is None and not solution.ranked
    if not study.pages or solution.answer is None or undecided:
        return 0.0
    odds = log_odds(SUFFICIENT, sufficiency_features(study))
    return _chance(odds if study.look is None else blends.SUFFICIENCY.odds(odds, study.look.sufficiency))


def log_odds(weights: dict[str, float], reasons: dict[str, float]) -> float:
    """The log-odds that the reasons come to."""
    return sum(weights[name] * value for name, value in reasons.items())


def _chance(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(odds, 30.0))))


def _has(page: Page, root: str) -> bool:
    return root in page.positions or root in page.title_roots


def _title_share(study: Study, page: Page) -> float:
    """The share of the title's words that are in the question."""
    roots = page.title_roots
    return sum(root in study.asked.terms for root in roots) / len(roots) if roots else 0.0


def _narrowed_coverage(study: Study) -> float:
    """The share of the last step's own question that one page of the path has."""
    narrowed = study.solution.narrowed
    if narrowed is None:
        return 0.0
    shares = (sum(v for root, v in narrowed.terms.items() if _has(page, root)) / narrowed.total for page in study.pages)
    return max(shares, default=0.0)


def _used(study: Study) -> list[Page]:
    """The pages a comparison or chain found its names on."""
    verdict = study.solution.verdict
    if verdict:
        return [page for side in verdict.sides for page in (side.page, side.source) if page]
    return [hop.page for hop in study.solution.hops if hop.page]
