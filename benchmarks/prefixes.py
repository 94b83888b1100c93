"""The share of each method's prompts that prefix caches save, because a server has read it before.

    python -m benchmarks.prefixes [--questions 6] [--methods tor,resp]

Servers that cache the state of prompt prefixes (vLLM, SGLang, llama.cpp, the large providers) compute only the rest.
``pocket`` answers questions of the demo set in sequence, and every prompt is compared with the earlier ones, in words
and punctuation marks; tokenizers split more finely, but uniformly.

- *question*: the share of prompt tokens that begin an earlier prompt of the same question;
- *run*: the same for the same question or an earlier one. Most of it is instructions and demonstrations;
- *elsewhere*: beyond that prefix, the share in lines that an earlier prompt of the same question and task also has.
  This is the most that another order of the prompt's parts could gain.

Concurrent prompts are counted in the order of their calls. No time is measured: the figures are the same on every
machine.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.figures import Figure, conclude, parser
from benchmarks.methods import asking_methods
from tests.kit.openai_server import tokenise

from polyhop import Pipeline
from polyhop.data.questions import read_questions
from polyhop.lm.base import Completion, Request, ScoreRequest, TokenScores
from polyhop.lm.pocket import Pocket

LEAST = 0.25
"""The share of a run's prompt tokens that should be known: of passages that are new each time, only what stands before
them is."""
WORTH = 0.1
"""Minimum share elsewhere for a task to be shown."""
A_LINE = 5
"""Minimum number of tokens for a repeated line to count."""


class Noting(Pocket):
    """``pocket``, recording every prompt with its task."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, str]] = []

    async def complete(self, request: Request) -> Completion:
        text = "".join(f"<{message['role']}>\n{message['content']}\n" for message in request.messages)
        self.noted.append((request.task, text))
        return await super().complete(request)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        self.noted += [(request.task, f"{request.prompt} {request.target}") for request in requests]
        return await super().score(requests)


class Known:
    """All prefixes of the texts so far."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def take(self, tokens: Iterable[str]) -> int:
        """Return how many of these tokens begin an earlier text, and add them.

        >>> known = Known()
        >>> known.take("abc"), known.take("abd"), known.take("bcd")
        (0, 2, 0)
        """
        node, shared, new = self._root, 0, False
        for token in tokens:
            new = new or token not in node
            shared += not new
            node = node.setdefault(token, {})
        return shared


@dataclass
class Shares:
    """Counts of prompt tokens, and of those that were known."""

    prompts: int = 0
    tokens: int = 0
    question: int = 0
    run: int = 0
    elsewhere: int = 0

    def add(self, tokens: int, question: int, run: int, elsewhere: int) -> None:
        """Add a prompt."""
        self.prompts += 1
        self.tokens += tokens
        self.question += question
        self.run += run
        self.elsewhere += elsewhere

    def of(self, name: str) -> float:
        """Return the share of the tokens that are ``question``, ``run`` or ``elsewhere``."""
        count: int = getattr(self, name)
        return count / self.tokens if self.tokens else 0.0


@dataclass
class Lines:
    """The lines in a question's prompts for a task so far."""

    seen: set[str] = field(default_factory=set)

    def take(self, text: str, beyond: int) -> int:
        """Return the number of tokens after the first ``beyond`` that are in known lines, and add the lines."""
        found, start = 0, 0
        lines = text.splitlines(keepends=True)
        for line in lines:
            count = len(tokenise(line))
            if start >= beyond and count >= A_LINE and line.strip() in self.seen:
                found += count
            start += count
        self.seen |= {line.strip() for line in lines}
        return found


def shares(questions: Iterable[Sequence[tuple[str, str]]]) -> dict[str, Shares]:
    """Return each task's shares, from the prompts of the questions in sequence."""
    found: defaultdict[str, Shares] = defaultdict(Shares)
    run = Known()
    for prompts in questions:
        question, lines = Known(), defaultdict[str, Lines](Lines)
        for task, text in prompts:
            tokens = tokenise(text)
            begun = question.take(tokens)
            found[task].add(len(tokens), begun, run.take(tokens), lines[task].take(text, begun))
    return dict(found)


def total(tasks: Mapping[str, Shares]) -> Shares:
    """Return the shares of all tasks together."""
    whole = Shares()
    for task in tasks.values():
        for name in vars(whole):
            setattr(whole, name, getattr(whole, name) + getattr(task, name))
    return whole


async def prompts_of(method: str, questions: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return the prompts of each question, in the order of their calls."""
    lm, prompts = Noting(), []
    async with Pipeline("demo", method, lm) as qa:
        for question in questions:
            lm.noted = []
            await qa.aask(question)
            prompts.append(lm.noted)
    return prompts


def table(names: Sequence[str], questions: Sequence[str]) -> Iterator[Figure]:
    """Measure and print one line per method, then the tasks whose prompts have a large share elsewhere."""
    by_method = {name: shares(asyncio.run(prompts_of(name, questions))) for name in names}
    print(f"{'method':<15}{'prompts':>9}{'tokens':>9}{'question':>10}{'run':>7}{'elsewhere':>11}")
    for name, tasks in by_method.items():
        whole = total(tasks)
        print(f"{name:<15}{_row(whole)}")
        yield Figure(f"{name}: prompt tokens known", whole.of("run"), least=LEAST)
    print(f"\n{'method':<15}{'task':<24}{'prompts':>9}{'tokens':>9}{'question':>10}{'run':>7}{'elsewhere':>11}")
    for name, tasks in by_method.items():
        for task, found in tasks.items():
            if found.of("elsewhere") >= WORTH:
                print(f"{name:<15}{task:<24}{_row(found)}")


def _row(found: Shares) -> str:
    question, run, elsewhere = (found.of(name) for name in ("question", "run", "elsewhere"))
    return f"{found.prompts:>9}{found.tokens:>9}{question:>10.0%}{run:>7.0%}{elsewhere:>11.0%}"


def main() -> None:
    """Measure, print the tables and, with ``--check``, check the bar."""
    made = parser(__doc__)
    made.add_argument("--methods", type=lambda text: text.split(","), help="by default all that call a model")
    made.add_argument("--questions", type=int, default=6, help="questions of the demo set")
    options = made.parse_args()
    questions = [question.text for question in read_questions("demo")][: options.questions]
    conclude(table(options.methods or asking_methods(), questions), options)


if __name__ == "__main__":
    main()
