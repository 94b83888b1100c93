"""Blend the rules of ``pocket`` with its encoder, and write the weights into ``lm/pocket/tables/blends.toml``.

    python -m benchmarks.pocket_blend DATA [--limit N] [--out FILE] [--leading]

DATA as in ``benchmarks/pocket_data.py``; only the split ``held`` is read, because the network has seen the answers of
the other training questions. The two judgements, the reading and the confidence of an answer are fitted one after
another, each with the previous ones in place, over gold passages and hits of ``hops``; the judgements for everyday
documents are fitted over the sets of ``training/documents`` that the network has not seen. ``document_reading`` and
``bridge`` are unchanged.
``--out`` writes a file other than ``blends.toml``; ``--leading`` writes none, and prints R@5 of ``hops`` for values
around those in ``lm/pocket/paths.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks.pocket_data import there
from benchmarks.pocket_fit import Reasons, fit_decision
from benchmarks.pocket_parts import Job
from training.everyday import nearest, passage_of
from training.sets import FOLDER, HELD_OUT, corpus_of, sets

from polyhop import Passage, Pipeline, Question, metrics
from polyhop.evaluation.calibration import auroc, calibration_bins, calibration_error
from polyhop.lm.pocket import paths as path_scorer
from polyhop.lm.pocket.encoder.cache import MAX_PASSAGES, predict
from polyhop.lm.pocket.reading import correctness, judge, weighing
from polyhop.lm.pocket.reading.answer import clear_cache, read_path
from polyhop.lm.pocket.reading.tables import BLENDS, Blend, CorrectWeights, blends, weights
from polyhop.metrics.rankings import score_gold

FOLDS, PENALTY, PLACES = 5, 0.3, 2
CLIP = 8.0  # log-odds by the reasons that are as sure as any
READ = 5  # hits that an answer is read off
COUNTS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)  # tried of a candidate's reasons in ``reading``
LEADING, FACTORS = ("ENCODER_WEIGHT", "LEAD_WEIGHT", "UNNAMED_PENALTY"), (0.5, 0.75, 1.5, 2.0)
JUDGED = {"relevance": judge.relevance_features, "sufficiency": judge.sufficiency_features}
NOTES = {
    "relevance": "Log-odds that a path bears on the question (judge.relevance).",
    "sufficiency": "Log-odds that a path is enough (judge.sufficiency).",
    "document_relevance": "The same of parts of files, whose titles are no names (relevance).",
    "document_sufficiency": "The same of parts of files (sufficiency).",
    "reading": "A candidate's score, and its log-probability by the encoder, at least floor (candidates._blended).",
    "document_reading": "The same of parts of files. Set by hand.",
    "bridge": "The same of a name that leads on (answer.bridge_score). Set by hand.",
    "correct": "Log-odds that an answer is correct (correctness.correct_probability).",
}
"""The blends of ``blends.toml``, in their order, and the comment above each."""
FITTED = (*JUDGED, *(f"document_{what}" for what in JUDGED), "reading", "correct")


class Judged(NamedTuple):
    """A judgement of a case: its data set and fold, the features, and whether it is true."""

    name: str
    fold: int
    reasons: Reasons
    is_so: bool


class Case(NamedTuple):
    """A question of a data set, its fold, its gold passages, and the hits of ``hops``, best first."""

    name: str
    fold: int
    question: Question
    gold: list[Passage]
    hits: list[Passage]

    def f1(self, passages: Sequence[Passage]) -> float:
        """Return the F1 of the answer read from passages."""
        answer, _ = weighing.best_answer(self.question.text, passages)
        return metrics.f1(answer or "", self.question.answers)

    def paths(self) -> list[tuple[Passage, ...]]:
        """Return paths: single hits, hits after a gold passage and after another, and the gold passages."""
        top, wrong = self.hits[:READ], [hit for hit in self.hits[: 2 * READ] if hit not in self.gold]
        pairs = [(root, hit) for root in (*self.gold[:1], *wrong[:1]) for hit in [h for h in top if h != root][:2]]
        return list(dict.fromkeys([*((hit,) for hit in top), *pairs, tuple(self.gold[:3]), tuple(self.gold[:2])]))


def cases(data: Path, limit: int | None) -> list[Case]:
    """The held-out questions of all data sets. Raises ``SystemExit`` if they are fewer than the folds."""
    found: list[Case] = []
    for job in (Job(data, name, "held", limit) for name in there(data)):
        with Pipeline(job.index, "hops", "pocket", k=1) as pipeline:
            for asked in job.questions:
                hits = list(pipeline.ask(asked).passages)
                found.append(Case(job.name, len(found) % FOLDS, asked, job.gold(asked), hits))
    if len(found) < FOLDS:
        raise SystemExit(f"{data} has {len(found)} held-out questions; it takes {FOLDS} at least")
    return found


def judgements(case: Case, what: str) -> Iterator[Judged]:
    """Return a question's paths: those with only gold passages are relevant, those with all of them sufficient."""
    for path in case.paths():
        yield _judged(case.name, case.fold, case.question.text, path, set(case.gold), what)


def document_judgements(what: str) -> Iterator[Judged]:
    """Return the paths of questions on everyday documents: of gold passages, of others, and of both."""
    for held in sets(FOLDER):
        passages = list(corpus_of(held)) if held.domain in HELD_OUT else []
        files = {passage.metadata["source"] for passage in passages}
        for number, asked in enumerate(held.questions if passages else ()):
            if not asked.answers or not files >= {step.path for step in asked.steps}:
                continue
            gold = list(dict.fromkeys(passage_of(step, passages) for step in asked.steps))
            near = nearest(asked.text, [passage for passage in passages if passage not in gold])[:2]
            mixed = [(gold[0], near[0]), (near[0], gold[0])]
            paths = [tuple(gold), *((passage,) for passage in (*gold, *near)), *mixed, tuple(near)]
            for path in dict.fromkeys(path for path in paths if len(path) <= MAX_PASSAGES):
                yield _judged("documents", number % FOLDS, asked.text, path, set(gold), what)


def _judged(name: str, fold: int, question: str, path: Sequence[Passage], gold: set[Passage], what: str) -> Judged:
    (output,) = predict(question, [path])
    odds = judge.log_odds(getattr(weights(), what), JUDGED[what](read_path(question, path)))
    features = Blend(max(-CLIP, min(odds, CLIP)), getattr(output, what), 1.0)._asdict()
    return Judged(name, fold, features, set(path) <= gold if what == "relevance" else gold <= set(path))


def answers(case: Case) -> Iterator[Judged]:
    """Return the answer read from the first hits, and whether it is right; nothing if there is none."""
    question, passages = case.question, case.hits[:READ]
    weighed = weighing.weigh_answers(question.text, passages)
    if weighed.answer is not None:
        features = correctness.correct_features(question.text, passages, weighed)
        reasons = dict(zip(CorrectWeights._fields, features, strict=True))
        yield Judged(case.name, case.fold, reasons, metrics.exact_match(weighed.answer, question.answers) == 1)


def fit_logistic(what: str, judged: Sequence[Judged]) -> list[float]:
    """Fit the weight of each feature; print AUROC and ECE in cross-validation by questions, and AUROC of each alone."""
    fits = [_fit([item for item in judged if item.fold != fold]) for fold in range(FOLDS)]
    print(f"{what}: AUROC, ECE;", *judged[0].reasons)
    for name in dict.fromkeys([*(item.name for item in judged), "all"]):
        chosen = [item for item in judged if name in (item.name, "all")]
        so = [item.is_so for item in chosen]
        odds = [sum(fits[item.fold][reason] * value for reason, value in item.reasons.items()) for item in chosen]
        sure = (1 / (1 + np.exp(-np.array(odds)))).tolist()
        figures = [auroc(sure, so), calibration_error(calibration_bins(sure, so))]
        figures += [auroc([item.reasons[reason] for item in chosen], so) for reason in chosen[0].reasons]
        print(f"  {name}, {sum(so)} of {len(so)}:", *("–" if item is None else f"{item:.3f}" for item in figures))
    return list(_fit(judged).values())


def _fit(judged: Sequence[Judged]) -> Reasons:
    return fit_decision([item.reasons for item in judged], [item.is_so for item in judged], PENALTY)


def fit_reading(every: Sequence[Case]) -> float:
    """Fit the weight of a candidate's score by rules: the best F1 over gold passages and first hits together; print
    all."""
    print(f"reading: F1 over gold passages and over the first {READ} hits")
    f1_scores = []
    for count in COUNTS:
        install("reading", (count, *blends().reading[1:]))
        f1_scores.append([[case.f1(case.gold), case.f1(case.hits[:READ])] for case in every])
        print(f"  {count}:", _by_set(every, np.array(f1_scores[-1])))
    scores, folds = np.array(f1_scores), np.array([case.fold for case in every])
    both = scores.sum(axis=2)  # count × question
    best = [both[:, folds != fold].sum(axis=1).argmax() for fold in range(FOLDS)]
    chosen = np.stack([scores[best[fold], at] for at, fold in enumerate(folds)])
    print("  chosen in cross-validation:", _by_set(every, chosen))
    return COUNTS[both.sum(axis=1).argmax()]


def _by_set(every: Sequence[Case], scores: np.ndarray) -> str:
    """Return the mean scores (question × score) of each data set, in percent."""
    means = {name: 100 * scores[[case.name == name for case in every]].mean(axis=0) for name in {c.name for c in every}}
    return ", ".join(" ".join([name, *(f"{mean:.1f}" for mean in figures)]) for name, figures in sorted(means.items()))


def install(name: str, numbers: Iterable[float]) -> None:
    """Put the numbers of a blend into use, rounded as they will be written."""
    blend = type(getattr(blends(), name))
    setattr(blends(), name, blend(*(round(number, PLACES) for number in numbers)))
    clear_cache()


def blends_page() -> str:
    """Return the text of ``blends.toml`` for the blends in use."""
    page = ["# The weights of rules and encoder beside each other. Written by benchmarks/pocket_blend.py.\n"]
    for name, note in NOTES.items():
        numbers = getattr(blends(), name)._asdict()
        rows = "".join(f"{key} = {value:.{PLACES}f}\n" for key, value in numbers.items())
        page.append(f"\n# {note}\n[{name}]\n{rows}")
    return "".join(page)


def fit(data: Path, limit: int | None, out: Path) -> None:
    """Fit each part, put it into use, and write all."""
    every = cases(data, limit)
    for what in JUDGED:
        install(what, fit_logistic(what, [each for case in every for each in judgements(case, what)]))
        install(f"document_{what}", fit_logistic(what, list(document_judgements(what))))
    install("reading", (fit_reading(every), *blends().reading[1:]))
    install("correct", fit_logistic("correct", [each for case in every for each in answers(case)]))
    print(*(f"{name} {tuple(getattr(blends(), name))}" for name in FITTED), sep="\n")
    out.write_text(blends_page(), encoding="utf-8")


def try_leading(data: Path, limit: int | None) -> None:
    """Print R@5 of ``hops`` with smaller and larger values of each number in ``paths``, one at a time."""
    for name, factor in [(LEADING[0], 1.0), *((name, factor) for name in LEADING for factor in FACTORS)]:
        own = getattr(path_scorer, name)
        setattr(path_scorer, name, factor * own)
        every = cases(data, limit)
        recalls = [[score_gold(case.hits, case.question, [READ])[f"recall_mean@{READ}"]] for case in every]
        print(f"{name} {factor * own:g}: R@{READ}", _by_set(every, np.array(recalls)))
        setattr(path_scorer, name, own)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int, help="of each data set's held-out questions, the first")
    parser.add_argument("--out", type=Path, default=BLENDS)
    parser.add_argument("--leading", action="store_true")
    asked = parser.parse_args()
    if asked.leading:
        try_leading(asked.data, asked.limit)
    else:
        fit(asked.data, asked.limit, asked.out)
