"""Outputs of real language models from the shared samples: one list per source."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from tests.conftest import SHARED

TRANSCRIPTS = SHARED / "transcripts"
TREES = ("2wiki", "hotpotqa", "musique")
AGENTS = ("2wiki_qwen", "hotpotqa_llama")
STYLES = (
    "empty", "direct_answer", "chain_of_thought", "chain_of_thought_zero_shot",
    "self_ask", "self_ask_zero_shot", "self_ask_two_hop_zero_shot",
)  # fmt: skip


@cache
def rows(name: str) -> list[Any]:
    """The rows of a file of JSON lines, or of the list that a file of JSON holds."""
    text = (TRANSCRIPTS / name).read_text(encoding="utf-8")
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    value = json.loads(text)
    return list(value["per_question_results"] if isinstance(value, dict) else value)


def bamboogle(style: str) -> list[dict[str, Any]]:
    """125 outputs (``returned``) with the gold ``answer`` and the authors' own verdicts, in one prompting style."""
    return [result[style] for result in rows("bamboogle_gpt-4.json")]


def answers_and_reasoning(name: str) -> list[tuple[str, str]]:
    """Pairs of the answer that a question tree's authors read, and the reasoning they read it from."""
    answers = (answer for node in nodes(name) for answer in _answers(node))
    return [(answer[0], answer[2]) for answer in answers if len(answer) > 2]


def short_answers(name: str) -> list[str]:
    """All answers in a file of question trees."""
    return [answer[0] for node in nodes(name) for answer in _answers(node)]


def questions(name: str) -> list[str]:
    """All questions of the trees, those of the leaves with references such as "#1"."""
    return [node["question_text"] for node in nodes(name)]


def nodes(name: str) -> list[dict[str, Any]]:
    """Every node of the question trees."""
    return [node for tree in rows(f"probtree_{name}.json") for node in tree]


def _answers(node: dict[str, Any]) -> list[list[Any]]:
    return [node[kind] for kind in ("cb_answer", "ob_answer", "child_answer") if node.get(kind)]


def steps() -> list[str]:
    """Every step of the ReAct paths: path, thought and action, without what was observed."""
    shown = [row["prompt"].partition("(END OF EXAMPLES)")[2] for row in rows("react_llama2_13b.jsonl")]
    own = [re.split(r"^(?=ActionPath)", text, flags=re.M)[1:] for text in shown]
    return [re.split(r"^Observation \d+:", step, flags=re.M)[0] for path in own for step in path]


def turns(name: str) -> list[str]:
    """Every turn of the search agents, without the documents they were given."""
    parts = (re.split(r"(?s)<\|begin_of_documents\|>.*?<\|end_of_documents\|>", run) for run in runs(name))
    return [turn.strip() for run in parts for turn in run if turn.strip()]


def runs(name: str) -> list[str]:
    """The whole runs of the search agents, documents included."""
    return [row["gen_text_store"] for row in rows(f"search_agent_{name}.jsonl")]


@cache
def outputs() -> dict[str, list[str]]:
    """Every source, by name."""
    found = {f"bamboogle {style}": [result["returned"] for result in bamboogle(style)] for style in STYLES}
    for name in TREES:
        found[f"tree {name} questions"] = questions(name)
        found[f"tree {name} answers"] = short_answers(name)
        found[f"tree {name} reasoning"] = [reasoning for _, reasoning in answers_and_reasoning(name)]
    for name in AGENTS:
        found[f"agent {name} turns"] = turns(name)
        found[f"agent {name} runs"] = runs(name)
    return {**found, "react": steps()}
