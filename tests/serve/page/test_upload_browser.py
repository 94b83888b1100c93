"""Uploads on the page, in a real browser: chosen, dropped, refused, cancelled, by keys; then asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from polyhop.common.progress import report_progress
from polyhop.retrieval import index
from polyhop.serve import uploads
from polyhop.serve.drafts import UploadLimits
from polyhop.serve.service import Service
from tests.kit.browser import PATIENCE, axe, needs_axe, press, serving, tab_to
from tests.kit.served_page import MARKS, Open, answered, go

pytestmark = MARKS

LIMITS = UploadLimits(files=5, file_bytes=2_000, total_bytes=8_000)
OPEN, READ = "button >> text=Ask your own files", "text=Read these files"
FILES: dict[str, bytes] = {
    "miffy.md": b"# Miffy\n\nMiffy is a rabbit in picture books. Miffy was created by Dick Bruna in 1955.\n",
    "people/bruna.txt": b"Dick Bruna\n\nDick Bruna was a Dutch artist and writer, born in Utrecht in 1927 (\xa9 us).\n",
    "towns/utrecht.html": b"<h1>Utrecht</h1><p>Utrecht is a city in the Netherlands.</p>",
    "bad.xlsx": b"no zip",
    "photo.png": b"x" * 9_000,
    "long.txt": b"x" * 2_001,
    ".hidden.md": b"hidden",
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "notes"


@pytest.fixture
def address() -> Iterator[str]:
    with serving(Service({"demo": "demo"}, uploads=LIMITS)) as served:
        yield served


class Held:
    """Indexing that goes on until it is let on or stopped."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build, self.gate, self.ended = build, threading.Event(), threading.Event()

    def __call__(self, corpus: Any, folder: Path) -> Any:
        try:
            with report_progress("files") as report:
                while not self.gate.wait(0.02):
                    report(1, 4)
            return self._build(corpus, folder)
        finally:
            self.ended.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    held = Held(index.build_index)
    monkeypatch.setattr(uploads, "build_index", held)
    return held


def choose(tab: Any, *paths: Path, by: str = "Choose files") -> None:
    if not tab.locator(".drop").is_visible():
        tab.click(OPEN)
    with tab.expect_file_chooser() as chooser:
        tab.click(f"text={by}")
    chooser.value.set_files([str(path) for path in paths])
    tab.wait_for_selector(".upload form.bar, .upload .problem")


def test_a_folder_is_uploaded_and_asked(opened: Open, address: str, notes: Path, complaints: list[str]) -> None:
    tab = opened(address)
    assert not tab.locator("select[name=corpus]").is_visible(), "there is one corpus"
    choose(tab, notes, by="Choose a folder")
    shown = tab.locator(".upload").inner_text()
    assert "4 files, 1 kB" in shown
    assert "1 .png (not a supported kind)" in shown
    assert "1 file larger than 2 kB" in shown
    assert tab.input_value("input[name=name]") == "notes"
    tab.click(READ)
    tab.wait_for_selector(".start h2 >> text=3 passages of 3 files")
    assert tab.input_value("select[name=corpus]") == "notes"
    assert tab.locator(".titles li").all_inner_texts() == ["Miffy", "Dick Bruna", "Utrecht"]
    left_out = tab.locator(".left-out").inner_text()
    for what in ("bad.xlsx (damaged", "1 .png (not a supported kind)", "1 file larger than 2 kB"):
        assert what in left_out
    assert tab.locator(".guessed").inner_text() == "Encoding guessed: people/bruna.txt (Windows-1252)."
    assert "notes is ready: 3 files, 3 passages." in tab.locator("form.question [role=status]").text_content()
    assert tab.evaluate("document.activeElement.name") == "question"
    answered(tab, "Where was the creator of Miffy born?")
    assert tab.locator(".reply").inner_text().startswith("Utrecht")
    assert any("people/bruna.txt" in source for source in tab.locator(".source").all_inner_texts())
    again = opened(address, tab.evaluate("location.hash"))
    assert again.input_value("select[name=corpus]") == "notes"
    go(tab, "#/", ".start h2")
    tab.click("text=Delete these files")
    tab.wait_for_selector(".examples button")
    assert not tab.locator("select[name=corpus]").is_visible()
    assert complaints == []


def test_files_are_dropped(opened: Open, address: str, complaints: list[str]) -> None:
    tab = opened(address)
    carried = tab.evaluate_handle(
        """() => {
            const carried = new DataTransfer();
            carried.items.add(new File(["# Mill\\n\\nThe mill is old.\\n"], "mill.md"));
            return carried;
        }"""
    )
    for kind in ("dragover", "drop"):
        tab.dispatch_event(".ask", kind, {"dataTransfer": carried})
    tab.wait_for_selector("text=1 file, 1 kB")
    tab.click("text=Read this file")
    tab.wait_for_selector(".start h2 >> text=1 passage of 1 file")
    assert tab.locator(".start h2").inner_text().startswith("mill")
    assert complaints == []


def test_an_upload_after_an_answer_leads_back_to_the_question(opened: Open, address: str, notes: Path) -> None:
    tab = answered(opened(address), "Who was born first, Ada Lovelace or Charles Darwin?", "one-r")
    choose(tab, notes / "miffy.md")
    tab.click("text=Read this file")
    tab.wait_for_selector(".start h2 >> text=1 passage")
    assert tab.locator(".reply").count() == 0 or not tab.locator(".stage").is_visible()


def test_what_cannot_be_sent_is_said_before_it_is(
    opened: Open, address: str, notes: Path, tmp_path: Path, complaints: list[str]
) -> None:
    tab = opened(address)
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    choose(tab, notes / "photo.png")
    tab.wait_for_selector(".upload .problem >> text=None of these files can be read.")
    tab.click("text=Choose others")
    many = [tmp_path / f"{number}.md" for number in range(6)]
    for path in many:
        path.write_text("x")
    choose(tab, *many)
    tab.wait_for_selector(".upload .problem >> text=At most 5 files can be sent at once.")
    assert sent == []
    tab.click("text=Choose others")
    choose(tab, notes / "bad.xlsx")
    tab.click("text=Read this file")
    tab.wait_for_selector(".upload .problem >> text=no passages in it")
    assert tab.locator("select[name=corpus] option").count() == 1
    assert [said for said in complaints if "400" not in said] == []


def test_progress_is_shown_and_cancelled(opened: Open, address: str, notes: Path, held: Held) -> None:
    tab = opened(address)
    choose(tab, notes, by="Choose a folder")
    tab.click(READ)
    tab.wait_for_selector(".upload [role=status] >> text=Reading: 1 of 4 files, 0 passages so far")
    assert tab.locator("progress").get_attribute("value") == "0.25"
    assert tab.evaluate("document.activeElement.textContent") == "Cancel"
    press(tab, "Enter")
    tab.wait_for_selector("text=Cancelled; nothing of it was kept.")
    assert held.ended.wait(PATIENCE / 1000)
    held.gate.set()
    tab.click(READ)
    tab.wait_for_selector(".start h2 >> text=3 passages of 3 files")
    assert tab.locator("select[name=corpus] option").all_inner_texts() == ["demo", "notes"]


def test_leaving_the_view_ends_the_upload(opened: Open, address: str, notes: Path, held: Held) -> None:
    tab = opened(address)
    choose(tab, notes, by="Choose a folder")
    tab.click(READ)
    tab.wait_for_selector(".upload [role=status] >> text=Reading: 1 of 4")  # before, the server may know of none
    tab.click("nav >> text=Runs")
    assert held.ended.wait(PATIENCE / 1000)


def test_keys_alone_upload(opened: Open, address: str, notes: Path, complaints: list[str]) -> None:
    tab = opened(address)
    tab_to(tab, "it.textContent === 'Ask your own files'")
    press(tab, "Enter")
    with tab.expect_file_chooser() as chooser:
        # The answer comes after the browser has begun to wait for a chooser; a key alone could be faster.
        assert tab.evaluate("document.activeElement.textContent") == "Choose files"
        press(tab, "Enter")
    chooser.value.set_files([str(notes / "miffy.md")])
    tab.wait_for_selector("text=Read this file")
    assert tab.evaluate("document.activeElement.textContent") == "Read this file"
    press(tab, "Enter")
    tab.wait_for_selector(".start h2 >> text=1 passage")
    assert tab.evaluate("document.activeElement.name") == "question"
    tab.keyboard.type("Who created Miffy?")
    press(tab, "Enter")
    tab.wait_for_url("**#/trace/*")
    assert complaints == []


def test_hostile_names_are_text(opened: Open, address: str, tmp_path: Path, complaints: list[str]) -> None:
    folder = tmp_path / "<img src=x onerror=window.hurt=1>"
    folder.mkdir()
    (folder / "<b>mill<b>.md").write_text("The mill is old.")
    (folder / ("W" * 200 + ".xlsx")).write_text("no zip")
    tab = opened(address, viewport={"width": 390, "height": 900})
    choose(tab, folder, by="Choose a folder")
    tab.click(READ)
    tab.wait_for_selector(".start h2 >> text=1 passage of 1 file")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.evaluate("window.hurt") is None
    assert tab.locator("main img, main b").count() == 0
    assert complaints == []


def test_a_server_without_uploads_does_not_offer_them(opened: Open) -> None:
    with serving(Service({"demo": "demo"})) as address:
        tab = opened(address)
        assert tab.locator("text=Ask your own files").count() == 0


@needs_axe
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_axe_finds_nothing_in_any_state(
    opened: Open, address: str, notes: Path, held: Held, scheme: str, width: int
) -> None:
    tab = opened(address, color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    tab.click(OPEN)
    found = {"offer": axe(tab)}
    choose(tab, notes / "photo.png")
    found["problem"] = axe(tab)
    tab.click("text=Choose others")
    choose(tab, notes, by="Choose a folder")
    found["ready"] = axe(tab)
    tab.click(READ)
    tab.wait_for_selector(".upload [role=status] >> text=Reading: 1 of 4")
    found["progress"] = axe(tab)
    held.gate.set()
    tab.wait_for_selector(".start h2 >> text=3 passages")
    found["added"] = axe(tab)
    assert {state: faults for state, faults in found.items() if faults} == {}
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
