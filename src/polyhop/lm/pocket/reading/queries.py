"""The next query of a path: what a comparison or chain still lacks, else the best bridge name with the unmet words."""

from __future__ import annotations

from collections.abc import Mapping

from polyhop.common.text import STOP_WORDS, fold, words
from polyhop.lm.pocket.reading import blends
from polyhop.lm.pocket.reading.candidates import features, kind_of
from polyhop.lm.pocket.reading.mentions import Mention
from polyhop.lm.pocket.reading.question import Asked
from polyhop.lm.pocket.reading.study import Study
from polyhop.lm.pocket.reading.text import stem, weight
from polyhop.lm.pocket.reading.weights import BRIDGE

_KINDS = ("name", "short name", "quoted")  # of mentions that can be a bridge
_MOST_UNMET = 12


def next_query(study: Study) -> str | None:
    """What to search next; None where nothing new suggests itself."""
    return missing_piece(study) or _bridge_query(study)


def missing_piece(study: Study) -> str | None:
    """The name a comparison or a chain is waiting for: alone, since a page seldom holds the relation's own words."""
    solution = study.solution
    if solution.verdict:
        waiting = [side for side in solution.verdict.sides if side.missing]
        waiting.sort(key=lambda side: side.page is None)  # finish the side begun: its film leads to its director
        return waiting[0].missing if waiting else None
    if solution.narrowed and solution.hops[-1].step.relation is None:
        return solution.narrowed.text
    return solution.hops[-1].subject if waits_for_page(study) else None


def bridge(study: Study) -> str | None:
    """The name in the path, not in the question, that most likely leads on to the missing passage."""
    candidates = bridge_candidates(study)
    if not candidates:
        return None
    return max(candidates, key=lambda candidate: bridge_score(study, *candidate))[0].text


def bridge_score(study: Study, mention: Mention, reasons: Mapping[str, float]) -> float:
    """How likely a name leads on: its reasons, and how likely the encoder reads it off the path."""
    _, seen, floor = blends.BRIDGE
    own = sum(BRIDGE.get(name, 0.0) * value for name, value in reasons.items())
    if study.look is None:
        return own
    read = [span.log_share for span in study.look.spans if fold(span.text(study.pages)) == mention.folded]
    return own + seen * (max([floor, *read]) - floor)


def bridge_candidates(study: Study) -> list[tuple[Mention, dict[str, float]]]:
    """Names of the path that the question does not hold, with the reasons for each."""
    asked = study.asked
    own = {page.folded_name for page in study.pages}
    found = []
    for at, page in enumerate(study.pages[: len(study.seen.sights)]):
        for mention in page.mentions:
            kind = kind_of(mention)
            if kind not in _KINDS or mention.folded in own or _within(asked, mention):
                continue
            reasons = features(study.seen, at, mention)
            reasons[f"kind {kind}"] = 1.0
            reasons["on last page"] = float(at == len(study.pages) - 1)
            found.append((mention, reasons))
    return found


def waits_for_page(study: Study) -> bool:
    """Whether a chain has found a name whose page the path does not hold."""
    solution = study.solution
    if not solution.hops or solution.complete:
        return False
    return bool(solution.hops[-1].subject) and solution.hops[-1].page is None


def _within(asked: Asked, mention: Mention) -> bool:
    return all(root in asked.terms for root in mention.roots)


def unmet_words(study: Study) -> list[str]:
    """The question's own words that no page of the path has, in order, at most a dozen."""
    kept = [
        word for word in dict.fromkeys(words(study.asked.text))
        if word not in STOP_WORDS and stem(word) in study.unmet and weight(stem(word)) > 0
    ]  # fmt: skip
    return kept[:_MOST_UNMET]


def _bridge_query(study: Study) -> str | None:
    name = bridge(study)
    rest = unmet_words(study)
    return " ".join(([name] if name else []) + rest) or None
