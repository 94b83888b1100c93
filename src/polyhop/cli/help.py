"""The verbs of the command line and the text of ``polyhop --help``, without the parser: importing that is slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import fill, wrap
from typing import NamedTuple

SUMMARY = "Multi-hop question answering over your own documents, with published methods and any language model."
EPILOG = "Options can also be set in the environment: --lm of run as POLYHOP_RUN_LM."
VERSION = "Show the version and exit."

_MIN_WIDTH, _MAX_WIDTH = 50, 78


class Verb(NamedTuple):
    """The module of ``polyhop.cli`` that has the verb, and the first sentence of its help."""

    module: str
    summary: str


VERBS: Mapping[str, Verb] = {
    "demo": Verb("ask", "Answer three questions, one with its tree, and measure 20."),
    "ask": Verb("ask", "Answer one question over a corpus, with citations."),
    "run": Verb("run", "Run a method, or several, over a dataset and measure it."),
    "sweep": Verb("sweep", "Run methods at many settings and show one table."),
    "reproduce": Verb("reproduce", "Reproduce a table of the five papers."),
    "report": Verb("report", "Show the scores and costs of runs."),
    "compare": Verb("report", "Compare runs with the first one, question by question."),
    "search": Verb("corpora", "Search a corpus."),
    "index": Verb("corpora", "Build, update or inspect an index folder."),
    "data": Verb("data", "Convert, check, count and sample datasets; export predictions."),
    "serve": Verb("serve", "Serve a web page, an HTTP API and OpenAI's chat API."),
    "mcp": Verb("serve", "Serve tools to agents over MCP."),
    "tune": Verb("tune", "Fit settings that the papers leave open, on labelled questions."),
    "methods": Verb("about", "List the methods by family: papers, needs, calls, settings."),
    "doctor": Verb("doctor", "Check the installation, and test a language model."),
    "prompts": Verb("about", "Show the prompts, which are text files."),
}


def help_text(program: str, columns: int) -> str:
    """Return the text of ``polyhop --help`` for a terminal of this width."""
    width = max(min(columns - 2, _MAX_WIDTH), _MIN_WIDTH)
    options = _table({"--version": VERSION, "-h, --help": "Show this message and exit."}.items(), width)
    verbs = _table(((name, verb.summary) for name, verb in VERBS.items()), width)
    return (
        f"Usage: {program} [OPTIONS] COMMAND [ARGS]...\n\n{_indented(SUMMARY, width)}\n\n"
        f"Options:\n{options}\n\nCommands:\n{verbs}\n\n{_indented(EPILOG, width)}\n"
    )


def _indented(text: str, width: int) -> str:
    return fill(text, width, initial_indent="  ", subsequent_indent="  ")


def _table(rows: Iterable[tuple[str, str]], width: int) -> str:
    rows = list(rows)
    start = max(len(name) for name, _ in rows) + 4
    lines = []
    for name, text in rows:
        first, *others = wrap(text, width - start)
        lines += [f"  {name}".ljust(start) + first, *(" " * start + line for line in others)]
    return "\n".join(lines)
