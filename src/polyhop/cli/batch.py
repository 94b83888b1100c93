"""``polyhop run --batch``: what was taken in, what is handed in next, and with which commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import typer

from polyhop.cli.printing import say
from polyhop.common.text import counted
from polyhop.errors import UsageError
from polyhop.evaluation.batches import Batch, batched
from polyhop.lm.batches import ImportCounts, RequestFile
from polyhop.lm.names import model_and_url
from polyhop.methods.registry import method_named

WAITS = 3
"""Exit code of a run that waits for results."""
SHOWN = 10
"""Number of files whose commands are shown; thousands of questions fill few files."""

_OPENAI = """\
  auth="Authorization: Bearer $OPENAI_API_KEY"; api=https://api.openai.com/v1
  curl $api/files -H "$auth" -F purpose=batch -F file=@{requests}
  curl $api/batches -H "$auth" -H "Content-Type: application/json" \\
    -d '{{"input_file_id": "FILE_ID", "endpoint": "{url}", "completion_window": "24h"}}'
  curl $api/batches/BATCH_ID -H "$auth"    # until its status is completed
  curl $api/files/OUTPUT_FILE_ID/content -H "$auth" -o {output}
  curl $api/files/ERROR_FILE_ID/content -H "$auth" -o {errors}    # where there is one"""
_VLLM = """\
  vllm run-batch -i {requests} -o {output}.part --model {model} --enable-prefix-caching && mv {output}.part {output}"""


@contextmanager
def through(folder: Path | None, methods: Sequence[str], arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of a run, its models' calls written into the folder; without one, as they are.

    Exits with 3 at the end where results are waited for, and says how they are had.
    """
    if folder is None:
        yield dict(arguments)
        return
    _check(folder, methods, arguments)
    options = {name: arguments.get(name) for name in ("cache", "lm_options")}
    with batched(folder, arguments["lm"], **options, skip_bad=arguments["skip_bad"]) as batch:
        say_taken(batch.taken)
        yield {**arguments, "lm": batch.models, "lm_options": None, "cache": None}
    if batch.waiting:
        say_next(batch)
        raise typer.Exit(WAITS)


def _check(folder: Path, methods: Sequence[str], arguments: Mapping[str, Any]) -> None:
    """Refuse what a batch cannot do, before anything is read."""
    out = arguments["out"]
    if out is None:
        raise UsageError("--batch needs --out, a folder of its own for what is finished")
    if out.resolve() == folder.resolve():
        raise UsageError(f"--batch and --out are both {folder}: name two folders")
    if arguments.get("engine") is not None:
        raise UsageError("--batch sends no call, so there is nothing to spread over a cluster: leave out --engine")
    if arguments.get("max_seconds") is not None:
        raise UsageError("--max-seconds bounds the waiting for replies, which a batch makes no sense of: leave it out")
    if len(methods) == 1:  # of several, ``evaluate_methods`` leaves out those that cannot run, and says why
        method = method_named(methods[0])
        given = {name: value for name, value in arguments.items() if name in method.settings}
        if any(need.startswith("score") for need in method.needs(method.resolve(given))):
            raise UsageError(
                f"{method.name} scores given texts, as it is set, which batches have no call for: leave out --batch or "
                "choose a method or settings that score none"
            )


def say_taken(taken: ImportCounts) -> None:
    """Say which results were read, and which had errors."""
    if taken.answered or taken.duplicates:
        again = f", {taken.duplicates:,} were there already" if taken.duplicates else ""
        say(f"{counted(taken.answered, 'replies')} taken in{again}")
    if wrong := taken.failed + taken.missing:
        say(f"{counted(wrong, 'requests')} failed, {taken.missing:,} without a result: asked again")
    if taken.refused:
        say(f"refused {counted(taken.refused, 'requests')}: questions that need them fail")
    for words, count in taken.reasons.most_common(3):
        say(f"  {count:,} x {words}")
    if taken.skipped:
        say(f"{counted(taken.skipped, 'lines')} passed over")


def say_next(batch: Batch) -> None:
    """Say which files to submit now, with which commands."""
    requests = sum(part.requests for part in batch.waiting)
    files = counted(len(batch.waiting), "files")
    waiting = f"{counted(requests, 'requests')}, {files} in {batch.folder}"
    say(f"\nwaiting for the results of {waiting}. Hand in what is not yet:")
    for part in batch.waiting[:SHOWN]:
        say(f"\n{part.file}: {counted(part.requests, 'requests')} to {part.model}\n{commands(batch.folder, part)}")
    if len(batch.waiting) > SHOWN:
        say(f"\nand {len(batch.waiting) - SHOWN} more in the same way")
    say("\nThen run the same command again.")


def commands(folder: Path, part: RequestFile) -> str:
    """Return the commands that submit a file and fetch its results: OpenAI's API, or vLLM's if the model has its own
    server."""
    model, server = model_and_url("openai", part.model.partition(":")[2])
    results = part.file.replace("requests", "results")
    names = {
        "requests": quote(str(folder / part.file)),
        "output": quote(str(folder / results)),
        "errors": quote(str(folder / results.replace("results", "errors"))),
        "model": quote(model),
        "url": part.url,
    }
    return (_VLLM if server else _OPENAI).format(**names)
