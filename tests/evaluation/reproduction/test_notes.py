"""The notes of recipes and the values named as ours are true: what they claim is what the rows run with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from polyhop.data.plain import LABELS
from polyhop.evaluation.reproduction.benchmarks import Benchmarks
from polyhop.evaluation.reproduction.jobs import UserInputs, jobs, runnable_rows
from polyhop.evaluation.reproduction.recipe import Sample, keys, recipe
from polyhop.evaluation.setups import SETUPS, demonstrations
from polyhop.evaluation.tuning.instructions import our_instructions
from polyhop.methods.ge import TRIES
from polyhop.methods.path_prompts import position_of
from polyhop.methods.registry import method_named
from polyhop.prompts.kinds import phrases
from tests.evaluation.test_demonstrations import KINDS, OWN_DEMONSTRATIONS, fewest

Runs = list[tuple[str, str, dict[str, Any]]]
"""Method, dataset and all settings of each run."""

NUMBERS = {"one": 1, "two": 2, "three": 3, "five": 5, "ten": 10}


def runs_of(key: str, method: str | None = None) -> Runs:
    """The runs of a recipe's rows, or those of one method."""
    table, given = recipe(key), UserInputs(Benchmarks({}))
    found = [
        (job.method, dataset, method_named(job.method).resolve(dict(job.settings)))
        for row in runnable_rows(table)
        for dataset in table.datasets
        for job in jobs(table, row, dataset, None, given)
        if method in (None, job.method)
    ]
    assert found, (key, method)
    return found


def have(key: str, method: str, **settings: Any) -> bool:
    """Return True if every run of a method has these settings, and shows as many demonstrations as it asks for."""
    for _, dataset, held in runs_of(key, method):
        if not settings.items() <= held.items():
            return False
        if "shots" in settings:
            job_settings = {name: value for name, value in held.items() if value is not None}
            if fewest(method, job_settings, KINDS.get(dataset, "qa")) != settings["shots"]:
                return False
    return True


def number(text: str) -> float:
    return NUMBERS.get(text, 0) or float(text.replace(",", ""))


def drawn(key: str, count: str, **others: int) -> bool:
    samples = [sample for sample in recipe(key).datasets.values() if sample.draw]
    return all((sample.draw, sample.after) == (number(count), others.get("after", 0)) for sample in samples)


def table_8(key: str) -> bool:
    """Every run that shows demonstrations asks for Table 8's number; searchain's own default is that."""
    for method, dataset, settings in runs_of(key):
        if "shots" in settings and method not in ("searchain", *OWN_DEMONSTRATIONS):
            assert settings["shots"] == demonstrations(method, settings, dataset), method
    return True


CLAIMS: dict[str, Callable[..., bool]] = {
    r"paper's set-up of (\d) passages and (\d) demonstrations here": lambda key, k, shots: all(
        have(key, name, k=int(k), shots=int(shots)) for name in ("verify-edit", "flare", "era-cot")
    ),
    r"flare: θ = (\S+) and β = (\S+),": lambda key, theta, beta: (
        have(key, "flare", retrieve_below=float(theta), mask_below=float(beta)) and "searches" in recipe(key).also
    ),
    r"its (\d) demonstrations; the confidence.*of the sub-answer's sentence": lambda key, shots: have(
        key, "ge", shots=int(shots), confidence="sentence", sample=True
    ),
    r"k1 = (\S+) and k2 = ([\d.]+)": lambda key, k1, k2: have(
        key, "ge", retrieve_below=float(k1), keep_above=float(k2)
    ),
    r"gives (\w+) sub-answers each time": lambda key, count: have(key, "ge", samples=number(count)),
    r"draws (\d+) questions of each dev set": drawn,
    r"draws (\d+) questions a dataset.*what follows the first (\d+)": lambda key, count, after: drawn(
        key, count, after=int(after)
    ),
    r"are means of (\d) runs; the paper searches Google": lambda key, runs: (
        recipe(key).datasets["bamboogle"].repeat == int(runs)
    ),
    r"dsp has the (two) hops .* samples (\d+) queries and (\d+) answers": lambda key, hops, queries, samples: have(
        key, "dsp", max_turns=number(hops), queries=int(queries), samples=int(samples)
    ),
    r"auto-cot clusters polyhop's own questions": lambda key: have(key, "auto-cot", pool=""),
    r"([\d,]+) of each other set": drawn,
    r"Demonstrations by dataset as in Table 8": table_8,
    r"FEVER: prompts offer its (three) labels": lambda key, count: (
        "fever" in recipe(key).datasets
        and sum(label in phrases()["form"]["fact"] for label in LABELS) == len(LABELS) == number(count)
    ),
    r"ircot, as in FlashRAG: (one) demonstration, .* (two) sentences, so (three) searches.* from (\d+) passages": (
        lambda key, shots, sentences, searches, ranked: have(
            key,
            "ircot",
            shots=number(shots),
            max_sentences=number(sentences),
            max_turns=number(searches),
            rank_limit=int(ranked),
            style="cot",
        )
    ),
    r"the only one in this table": lambda key: all(
        settings["shots"] == 0 for method, _, settings in runs_of(key) if method != "ircot"
    ),
    r"iter-retgen, as in FlashRAG: (three) rounds, answered directly": lambda key, rounds: have(
        key, "iter-retgen", max_turns=number(rounds), style="direct"
    ),
    r"replug: the candidates are scored .* with a model that scores": lambda key: have(
        key, "replug", probability="auto"
    ),
    r"unless --lm-for '([^=]+)=hf:PATH'": lambda key, name: name in recipe(key).lms,
    r"keeps (\d) k passages .* prompts hold ([\d,]+)": lambda key, times, tokens: all(
        (settings["rank_limit"], settings["context_tokens"]) == (int(times) * settings["k"], number(tokens))
        for _, _, settings in runs_of(key, "ircot")
    ),
    r"writes (two) sentences, (three) searches .* has (one) demonstration": lambda key, sentences, searches, shots: (
        have(key, "ircot", max_sentences=number(sentences), max_turns=number(searches), shots=number(shots))
    ),
    r"Level: within (\d) points": lambda key, points: (
        {shape.within for shape in recipe(key).shape if shape.level} == {float(points)}
    ),
    r"one-r returns 5 or 15 passages here; ours returns (\d+)": lambda key, ranked: have(
        key, "one-r", rank_limit=int(ranked)
    ),
    r"Questions are run one at a time": lambda key: recipe(key).one_at_a_time,
    r"MDR is a retriever here.*asked for (\d+) passages": lambda key, count: (
        next(row for row in recipe(key).rows if row.name == "MDR").checkpoint
        and SETUPS[recipe(key).setup].rank_limit == int(count)
    ),
    r"each of its (\d+) passages is read as a path of one": lambda key, count: have(
        key, "tfidf", rank_limit=int(count), answer_by="reader"
    ),
    r"^([\d,]+) questions of HotpotQA(?:; the|'s)": lambda key, count: (
        recipe(key).datasets["hotpotqa"].first == number(count)
    ),
    r"Here the best instruction at ([\d.]+)\.": lambda key, heat: have(key, "promptrank", temperature=float(heat)),
    r"whose values it does not give: ([\d.]+) here\. No demonstrations": lambda key, heat: have(
        key, "promptrank", temperature=float(heat), demos=0
    ),
    r"F=30, 1,000 training questions, T (\d)": lambda key, heat: (
        have(key, "promptrank", temperature=float(heat))
        and recipe(key).datasets["hotpotqa"] == Sample(split="train", first=1000)
    ),
    r"else our own (\d+)\.": lambda key, count: len(our_instructions()) == int(count),
    r"else our own, (\d+) after and (\d+) before": lambda key, *counts: (
        tuple(map(int, counts))
        == tuple(
            sum((position_of(line) or "after") == position for line in our_instructions())
            for position in ("after", "before")
        )
    ),
}
"""The claims of notes about our runs, and the check of each."""

OF_SETUPS: dict[tuple[str, str], Callable[..., bool]] = {
    ("tor", r"the same (three) for all"): lambda count: SETUPS["tor"].shots == number(count),
    ("resp", r"without demonstrations as the paper's"): lambda: (
        SETUPS["resp"].shots == method_named("resp").settings["shots"].default == 0
    ),
    ("resp", r"from the passages \(§3.1\)"): lambda: (
        method_named("resp").settings["local_source"].default == "passages"
    ),
    ("ge", r"The (ten) steps .* after (three) dropped draws"): lambda steps, tries: (
        (SETUPS["ge"].turns, TRIES) == (number(steps), number(tries))
    ),
    ("searchain", r"(One) passage per query"): lambda count: SETUPS["searchain"].k == number(count.lower()),
    ("searchain", r"similarity of ([\d.]+) on \(alike\); .* at most ([\d,]+) tokens"): lambda alike, tokens: (
        [method_named("searchain").settings[name].default for name in ("alike", "context_tokens")]
        == [float(alike), number(tokens)]
    ),
}
"""The claims of the values that set-ups call ours, and the check of each."""


def stated() -> list[tuple[str, str]]:
    return [
        (key, claim) for key in keys() for claim in CLAIMS if any(re.search(claim, note) for note in recipe(key).notes)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("key", "claim"), stated())
def test_a_note_says_what_the_rows_run_with(key: str, claim: str) -> None:
    for found in filter(None, (re.search(claim, note) for note in recipe(key).notes)):
        assert CLAIMS[claim](key, *found.groups())


def test_every_check_of_a_note_is_of_one_that_stands_somewhere() -> None:
    assert {claim for _, claim in stated()} == set(CLAIMS)


@pytest.mark.parametrize(("setup", "claim"), OF_SETUPS)
def test_what_a_set_up_calls_ours_is_what_its_methods_have(setup: str, claim: str) -> None:
    (found,) = filter(None, (re.search(claim, line) for line in SETUPS[setup].ours))
    assert OF_SETUPS[setup, claim](*found.groups())


WITHOUT_A_CLAIM = re.compile(
    r"\b\d[\d,]* (?:demonstrations?|passages?|samples|hops|rounds|searches|sentences|turns)\b|[θβλ] (?:= )?\d"
)
"""A number of demonstrations, passages, turns or a threshold: a note with one is checked, or about the paper alone."""
OF_THE_PAPER = ("The curves' values", "The paper's reader is", "Drawn from Table 1's values.")


def test_no_note_has_a_number_that_nothing_checks() -> None:
    for key in keys():
        for note in recipe(key).notes:
            if WITHOUT_A_CLAIM.search(note) and not note.startswith(OF_THE_PAPER):
                assert any(re.search(claim, note) for claim in CLAIMS), note
