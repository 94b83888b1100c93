"""The pictures of the server's page in ``docs/images``, all made again by

    python -m tests.kit.screenshots

It takes the extra ``serve``, Playwright, Pillow and a Chromium. It serves the demo's corpus and runs some methods on
its questions, which takes two minutes on two cores.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polyhop
from polyhop.serve.drafts import UploadLimits
from polyhop.serve.service import Service
from tests.kit.browser import PATIENCE, launched, serving
from tests.kit.drawings import misdrawn

IMAGES = Path(__file__).parents[2] / "docs" / "images"
QUESTION = "In which city was the director of the science-fiction film Metropolis born?"
OWN_QUESTION = "Where was the creator of Miffy born?"
OWN_FILES = {
    "miffy.md": "# Miffy\n\nMiffy is a rabbit in a series of picture books. Miffy was created by Dick Bruna in 1955.\n",
    "people/bruna.md": "# Dick Bruna\n\nDick Bruna was a Dutch artist and writer. Bruna was born in Utrecht in 1927.\n",
    "towns/utrecht.md": "# Utrecht\n\nUtrecht is a city in the Netherlands. Its Dom Tower is 112 metres high.\n",
}
METHODS = ("bm25", "one-r", "hops", "tor")
QUESTIONS = 60
WIDE, PHONE = {"width": 1440, "height": 1050}, {"width": 390, "height": 1180}
LARGEST = 200_000  # bytes of a picture


def first(tab: Any) -> None:
    """The view before anything is asked."""
    tab.wait_for_selector(".examples button")


def asked(tab: Any, method: str, beside: str = "", question: str = QUESTION) -> None:
    """An answer and its reasoning."""
    tab.fill("textarea[name=question]", question)
    tab.select_option("select[name=method]", method)
    tab.select_option("select[name=beside]", beside)
    tab.click("button.go")
    tab.wait_for_url("**#/trace/*")


def tree(tab: Any) -> None:
    """A tree of reviews, an accepted step of it opened."""
    asked(tab, "tor")
    tab.locator(".node[data-tone=good]").first.click()


def graph(tab: Any) -> None:
    """A graph whose variables are bound, a triplet of it opened."""
    asked(tab, "ge")
    tab.locator(".node[data-kind=relation]").first.click()


def beside(tab: Any) -> None:
    """Show two methods side by side."""
    asked(tab, "tor", "searchain")


def phone(tab: Any) -> None:
    """A tree on a phone, from its answer on."""
    asked(tab, "tor")
    tab.evaluate("document.querySelector('.stage').scrollIntoView()")


def runs(tab: Any) -> None:
    """The table of runs and what they cost."""
    tab.click("text=Runs")
    tab.wait_for_selector(".plot img")


def uploaded(tab: Any) -> None:
    """An answer over an uploaded folder."""
    with TemporaryDirectory() as made:
        for name, text in OWN_FILES.items():
            path = Path(made) / "Picture books" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        tab.click("text=Ask your own files")
        with tab.expect_file_chooser() as chooser:
            tab.click("text=Choose a folder")
        chooser.value.set_files(Path(made) / "Picture books")
        tab.click("text=Read these files")
        tab.wait_for_selector(".titles")
    asked(tab, "tor", question=OWN_QUESTION)


PICTURES: Mapping[str, tuple[Callable[[Any], None], Mapping[str, Any]]] = {
    "page-first": (first, {"viewport": {**WIDE, "height": 700}}),
    "page-tree": (tree, {"viewport": {**WIDE, "height": 1280}}),
    "page-graph": (graph, {"viewport": WIDE}),
    "page-beside": (beside, {"viewport": WIDE, "color_scheme": "dark"}),
    "page-runs": (runs, {"viewport": {**WIDE, "height": 1120}}),
    "page-phone": (phone, {"viewport": PHONE}),
    "page-upload": (uploaded, {"viewport": {**WIDE, "height": 960}}),  # the last: others do not offer its corpus
}


def main(folder: Path) -> None:
    """Write every picture into a folder."""
    with TemporaryDirectory() as made:
        for method in METHODS:
            polyhop.evaluate("demo", "demo", method, limit=QUESTIONS, out=Path(made) / method)
        service = Service({"demo": "demo"}, runs=Path(made), uploads=UploadLimits())
        with launched() as browser, serving(service) as address:
            for name, (go, context) in PICTURES.items():
                tab = browser.new_context(reduced_motion="reduce", **context).new_page()
                tab.set_default_timeout(PATIENCE)
                tab.goto(address)
                tab.wait_for_selector("main:not([aria-busy])")
                go(tab)
                if faults := misdrawn(tab):
                    raise SystemExit(f"{name}: {faults}")
                (folder / f"{name}.png").write_bytes(small(tab.screenshot()))
                tab.context.close()


def small(png: bytes) -> bytes:
    """The PNG with a palette, in which rare colours stay; ``SystemExit`` if it is larger than ``LARGEST``."""
    image = import_module("PIL.Image")
    written = io.BytesIO()
    drawn = image.open(io.BytesIO(png)).convert("RGB")
    drawn.quantize(256, image.Quantize.MAXCOVERAGE, dither=image.Dither.NONE).save(written, "PNG", optimize=True)
    found = written.getvalue()
    if len(found) > LARGEST:
        raise SystemExit(f"{len(found)} bytes: a picture is to have {LARGEST} at most")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
