"""PromptRank said a second time, from its paper's words: plain loops, prompts put together by hand, no engine.

Lengths are 4 characters a token, as for a model without a tokenizer.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path as FilePath
from statistics import mean, median
from typing import Any

from polyhop.common.text import normalise
from polyhop.lm.base import ScoreRequest
from polyhop.retrieval.tfidf import similarities
from polyhop.types import Passage, Span
from tests.kit.random_web import Web

INSTRUCTION = "Work out which question all of these documents answer together."
DEMOS = [
    json.loads(line)
    for line in (resources.files("polyhop.prompts") / "files" / "promptrank.path.demos.jsonl").read_text().splitlines()
]
Ids = tuple[str, ...]


@dataclass
class Ranking:
    """Scored paths by the ids of their passages, in the order they came to be; every prompt that was scored."""

    scores: dict[Ids, float] = field(default_factory=dict)
    prompts: Counter[tuple[str, str, float]] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)


def cut(text: str, tokens: int) -> str:
    if len(text) <= 4 * tokens:
        return text
    text = text[: 4 * tokens].rstrip()
    return text + "." if text and text[-1] != "." else text


def one_prompt(texts: Sequence[tuple[str, str]], instruction: str, position: str, titles: bool) -> str:
    pieces = [f"Document: {title}. {text}" if titles else f"Document: {text}" for title, text in texts]
    if position == "before":
        pieces.insert(0, instruction)
    if position == "after":
        pieces.append(instruction)
    return " ".join(" ".join([*pieces, "Question:"]).split())


def whole_prompt(path: Sequence[Passage], most: int, instruction: str, position: str, shown: list[Any], s: Any) -> str:
    lines = []
    for demo in shown:
        texts = [(row["title"], cut(row["text"], 100)) for row in demo["passages"]]
        lines.append(one_prompt(texts, instruction, position, s["titles"]) + " " + demo["question"])
    texts = [(passage.title, cut(passage.text, most)) for passage in path]
    return " ".join([*lines, one_prompt(texts, instruction, position, s["titles"])])


def instructions_of(s: Mapping[str, Any]) -> list[tuple[str, str]]:
    given = list(s["instructions"])
    if not given and s["instructions_from"]:
        given = FilePath(s["instructions_from"]).read_text().splitlines()[: s["ensemble_size"]]
    given = given or [s["instruction"]]
    placed = []
    for demonstration in given:
        if demonstration == "none":
            placed.append(("", "nowhere"))
        elif demonstration is None:
            placed.append((INSTRUCTION, s["instruction_position"]))
        elif demonstration.startswith(("before:", "after:")):
            position, _, text = demonstration.partition(":")
            placed.append((text.strip(), position))
        else:
            placed.append((demonstration, s["instruction_position"]))
    return placed


def demonstrations_of(s: Mapping[str, Any], question: str) -> list[list[Any]]:
    if not s["demos"]:
        return [[]]
    rows = DEMOS
    if s["demos_from"]:
        rows = [json.loads(line) for line in FilePath(s["demos_from"]).read_text().splitlines()]
    kinds = [[demo for demo in rows if demo["kind"] == kind] for kind in ("comparison", "bridge")]
    if s["demo_seed"] is not None:
        draw = random.Random(s["demo_seed"])
        kinds = [draw.sample(demos, len(demos)) for demos in kinds]
    comparisons, bridges = [[demo for demo in demos if demo["question"] != question + "?"] for demos in kinds]
    return [[comparisons[n], bridges[n]] for n in range(s["demos"] // 2)]


def score(web: Web, path: Sequence[Passage], s: Mapping[str, Any], ranking: Ranking) -> float:
    """The path's score by the model, all instructions and demonstrations together."""
    question = web.question.rstrip()
    question += "" if question.endswith("?") else "?"
    instructions = instructions_of(s)
    warm = s["temperature"] or (1.0 if {position for _, position in instructions} == {"nowhere"} else 1.4)
    limit = s["prompt_tokens"] or (1024 if s["demos"] else 600)
    path = list(path)[::-1] if s["order"] == "inverted" else list(path)
    by_demos = []
    for shown in demonstrations_of(s, web.question):
        rows = []
        for instruction, position in instructions:
            most = s["passage_tokens"]
            while most and -(-len(whole_prompt(path, most, instruction, position, shown, s)) // 4) > limit:
                most -= 1
            prompt = whole_prompt(path, most, instruction, position, shown, s)
            ranking.prompts[prompt, f" {question}", warm] += 1
            request = ScoreRequest(task="", prompt=prompt, target=f" {question}", temperature=warm)
            rows.append(web.score(request))
        by_demos.append(pooled(rows, s))
    return max(by_demos) if s["demo_ensemble"] == "max" else mean(by_demos)


def pooled(rows: list[list[float]], s: Mapping[str, Any]) -> float:
    def value(row: Sequence[float]) -> float:
        return sum(row) / len(row) if s["normalise"] == "mean" else sum(row)

    match s["ensemble"]:
        case "max":
            return max(map(value, rows))
        case "mean":
            return mean(map(value, rows))
        case "token-mean":
            return value([mean(column) for column in zip(*rows, strict=True)])
        case "token-max":
            return value([max(column) for column in zip(*rows, strict=True)])
        case _:
            return value([median(column) for column in zip(*rows, strict=True)])


def rank(web: Web, s: Mapping[str, Any]) -> Ranking:
    """Every path that is scored."""
    ranking = Ranking()
    by_id = {passage.id: passage for passage in web.passages}

    def score_all(paths: list[Ids]) -> None:
        for path in paths:
            if s["joint"]:
                ranking.scores[path] = score(web, [by_id[each] for each in path], s, ranking)
                continue
            for each in path:
                if (each,) not in ranking.scores:
                    ranking.scores[each,] = score(web, [by_id[each]], s, ranking)
        for path in [] if s["joint"] else paths:
            ranking.scores.setdefault(path, mean(ranking.scores[each,] for each in path))

    ranking.found = [passage.id for passage in web.search(web.question, s["first"])]
    paths: list[Ids] = [(each,) for each in ranking.found]
    score_all(paths)
    for _ in range(s["hops"] - 1):
        longer: list[Ids] = []
        for path in sorted(paths, key=lambda path: -ranking.scores[path])[: s["keep"]]:
            targets = [each for each in dict.fromkeys(web.linked[path[-1]]) if each not in path]
            alike = similarities(web.question, [f"{by_id[each].title}\n{by_id[each].text}" for each in targets])
            order = sorted(zip(targets, alike, strict=True), key=lambda pair: -pair[1])
            longer += [(*path, each) for each, _ in order[: s["links"]]]
        score_all(longer)
        paths = longer
    return ranking


def best_paths(ranking: Ranking) -> list[Ids]:
    """All scored paths, the likeliest first."""
    return sorted(ranking.scores, key=lambda path: -ranking.scores[path])


def best_passages(ranking: Ranking, s: Mapping[str, Any]) -> list[str]:
    """All passages, those of scored paths by their document score (Appendix B), then what was only found."""
    if not s["joint"]:  # §4.1: by their own score
        return sorted((id for (id, *more) in best_paths(ranking) if not more), key=lambda id: -ranking.scores[id,])
    paths = best_paths(ranking)
    worth: dict[str, float] = {}
    for each in dict.fromkeys(passage for path in paths for passage in path):
        held = [path for path in paths if each in path]
        scores = [ranking.scores[path] for path in held]
        longest = max(map(len, held))
        worth[each] = {
            "max": max(scores),
            "mean": mean(scores),
            "min": min(scores),
            "longest": max(ranking.scores[path] for path in held if len(path) == longest),
        }[s["document_score"]]
    ranked = sorted(worth, key=lambda each: -worth[each])
    return ranked + [each for each in ranking.found if each not in worth]


def answer(web: Web, ranking: Ranking, s: Mapping[str, Any]) -> tuple[str, Ids]:
    """The reader's answer and the path it came from (Appendix C.1)."""
    by_id = {passage.id: passage for passage in web.passages}
    answers: list[tuple[Ids, Span]] = []
    for path in best_paths(ranking)[: s["read_paths"]]:
        for span in web.read(web.question[: 4 * 64], [by_id[each] for each in path]):
            if span.answerable and span.end > 0 and normalise(span.text) and len(span.text) <= 120:
                answers.append((path, span))
                break
    if not answers:
        return "", ()
    path_scores = [ranking.scores[path] for path, _ in answers]
    sures = [span.confidence for _, span in answers]

    def share(value: float, values: list[float]) -> float:
        if s["combine"] == "raw":
            return value
        return (value - min(values)) / (max(values) - min(values)) if max(values) > min(values) else 0.0

    weight = s["path_weight"]
    worth = [
        weight * share(p, path_scores) + (1 - weight) * share(c, sures) for p, c in zip(path_scores, sures, strict=True)
    ]
    path, span = answers[worth.index(max(worth))]
    return span.text.strip(), path
