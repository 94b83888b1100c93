"""A question shown while it is answered: what the small tree says, and that the terminal is left as it was."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from polyhop.cli import live
from polyhop.cli.live import Steps, can_show
from polyhop.common.progress import report_progress, show_progress
from polyhop.trace import Ask, Branch, Note, Score, Searched, Step
from polyhop.types import Passage
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

FILM = Passage("film", "Dark Mill", "Dark Mill is a film by Rolf Anders.")
SCRIPT = """
import signal
import sys
import polyhop.engine.parts
from polyhop.cli import main
from polyhop.lm.scripted import ScriptedLM
model = ScriptedLM({"answer.read": {"answer": "Bremen"}}, latency=float(sys.argv.pop(1)))
polyhop.engine.parts.open_lm = lambda name, **_: model
signal.signal(signal.SIGINT, signal.default_int_handler)  # as on a terminal; a job in the background ignores it
main()
"""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "QUIET", 0.0)


def ask(number: int, parent: int | None = None, **output: object) -> Ask:
    values = {"model": "m", "fields": {}, "text": "", "prompt_tokens": 100, "completion_tokens": 20}
    return Ask(id=number, parent=parent, task="tor.review", output=output, **values)  # type: ignore[arg-type]


def branch(number: int, label: str, verdict: str | None = None, parent: int | None = None) -> Branch:
    return Branch(id=number, parent=parent, name="passage", label=label, verdict=verdict)


def lines(*steps: Step, width: int = 60, height: int = 24) -> list[str]:
    tree = Steps()
    for step in steps:
        tree.add(step)
    return drawn(tree, width, height)


def drawn(tree: Steps, width: int = 60, height: int = 24) -> list[str]:
    to = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    to.print(tree)
    return to.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_open_branches_show_what_is_in_them_and_ended_ones_how_they_ended() -> None:
    *tree, status = lines(
        Searched(id=0, query="Who?", k=2, passages=(FILM,)),
        branch(1, "Dark Mill"),
        ask(2, 1, relevant=True, supported=False),
        branch(3, "Ann Lee", parent=1),
        ask(4, 3, relevant=False, supported=False),
        branch(3, "Ann Lee", "reject", parent=1),
        branch(5, "Rolf Anders", parent=1),
    )
    assert tree == [
        "search  Who?  → Dark Mill",
        "▸ Dark Mill",
        "  tor.review  relevant, not enough",
        "  ✗ Ann Lee  reject",
        "  ▸ Rolf Anders",
    ]
    assert status.endswith(" ms · 2 calls · 1 search · 240 tokens")


def test_a_long_tree_keeps_its_end_and_what_holds_it() -> None:
    asked = [ask(number, 0, relevant=True) for number in range(1, 40)]
    tree = lines(branch(0, "Dark Mill"), *asked, branch(40, "Rolf Anders", parent=0), height=10)
    assert len(tree) == 7  # of ten rows, some are left to what stands above
    assert tree[:2] == ["… 36 earlier steps", "▸ Dark Mill"]
    assert tree[-2] == "  ▸ Rolf Anders"


def test_many_scores_are_one_line_and_no_line_is_longer_than_the_terminal() -> None:
    scores = [Score(id=n, task="promptrank.path", model="m", targets=("Q",), logprobs=(-1.0,)) for n in range(9)]
    note = Note(id=10, name="memory", data={"said": "word " * 50})
    tree = lines(*scores, note, width=30)
    assert tree[0] == "score × 9  promptrank.path"
    assert tree[1].endswith("…")
    assert all(len(line) <= 30 for line in tree[:-1])


def test_what_a_search_asks_is_shown_before_the_search_is_reported() -> None:
    (inside, _) = lines(ask(1, 0, relevant=True))
    assert inside == "  tor.review  relevant"
    outer, _ = lines(ask(1, 0, relevant=True), Searched(id=0, query="Who?", k=1, passages=()))
    assert outer == "search  Who?  → nothing found"


def test_work_within_a_step_is_shown() -> None:
    tree = Steps()
    with show_progress(tree.working):
        with report_progress("passages") as tell:
            tell(1200, 5000)
            assert drawn(tree, 80)[-1].endswith("1,200/5,000 passages")
        assert "passages" not in drawn(tree)[-1]


def test_nothing_is_shown_of_a_question_that_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "QUIET", 60.0)
    assert lines(ask(0, relevant=True)) == []


def test_only_a_terminal_that_can_redraw_is_shown_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert can_show()
    monkeypatch.setenv("TERM", "dumb")
    assert not can_show()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert not can_show()


def test_a_kind_of_question_is_checked(cli: Cli) -> None:
    result = cli("ask", "Why?", "--corpus", "demo", "--kind", "essay")
    assert result.code == 2
    assert "unknown kind of question 'essay'" in result.err


class Terminal:
    """A process whose stderr is a terminal of 80 columns and 24 rows; ``shown``: what it was sent so far."""

    def __init__(self, *arguments: str) -> None:
        import pty
        import termios

        self._screen, held = pty.openpty()
        termios.tcsetwinsize(held, (24, 80))
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
        command = [sys.executable, "-c", SCRIPT, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=held, env=environment, text=True)
        os.close(held)
        os.set_blocking(self._screen, False)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + 120
        while text not in self.shown and time.monotonic() < end:
            self._read()
            time.sleep(0.02)
        assert text in self.shown

    def ended(self) -> tuple[int, str]:
        """The exit code, and what came on stdout."""
        out, _ = self.process.communicate(timeout=120)
        self._read()
        return self.process.returncode, out

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)

    def _read(self) -> None:
        try:
            while piece := os.read(self._screen, 65536):
                self.shown += piece.decode(errors="replace")
        except OSError:  # nothing there now, or closed at the other end
            return


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "title": "Rolf Anders", "text": "Rolf Anders was born in Bremen."}\n')
    return path


@pytest.fixture
def opened(corpus: Path) -> Iterator[list[Terminal]]:
    terminals: list[Terminal] = []
    yield terminals
    for terminal in terminals:
        terminal.close()


def started(opened: list[Terminal], corpus: Path, latency: str, *options: str) -> Terminal:
    question = ("ask", "Where was Rolf Anders born?", "--corpus", str(corpus), "--method", "one-r")
    opened.append(Terminal(latency, *question, *options))
    return opened[-1]


HIDDEN, VISIBLE, ERASED = "\x1b[?25l", "\x1b[?25h", "\x1b[2K"

on_a_terminal = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


@on_a_terminal
def test_the_steps_are_gone_when_the_answer_is_there(opened: list[Terminal], corpus: Path) -> None:
    terminal = started(opened, corpus, "1.0")
    code, out = terminal.ended()
    assert code == 0
    assert out.startswith("Answer: Bremen [1]")
    assert "\x1b" not in out  # stdout is no terminal
    assert "search  Where was Rolf Anders born?" in terminal.shown.replace("\x1b[34m", "").replace("\x1b[0m", "")
    assert terminal.shown.rindex(VISIBLE) > terminal.shown.rindex(HIDDEN)
    assert ERASED in terminal.shown[terminal.shown.rindex("calls") :]


@on_a_terminal
def test_an_interrupt_leaves_the_terminal_clean(opened: list[Terminal], corpus: Path) -> None:
    terminal = started(opened, corpus, "300")
    terminal.wait_for("calls")
    terminal.process.send_signal(signal.SIGINT)
    code, out = terminal.ended()
    assert (code, out) == (130, "")
    assert terminal.shown.rindex(VISIBLE) > terminal.shown.rindex(HIDDEN)
    assert ERASED in terminal.shown[terminal.shown.rindex("calls") :]
    assert "Traceback" not in terminal.shown


@pytest.mark.slow
@on_a_terminal
def test_quiet_shows_nothing(opened: list[Terminal], corpus: Path) -> None:
    terminal = started(opened, corpus, "0.5", "--quiet", "--json")
    code, out = terminal.ended()
    assert code == 0
    assert '"answer": "Bremen"' in out
    assert "\x1b" not in terminal.shown
