"""Hooks for MkDocs (``mkdocs.yml`` names this file): pages made from the code, the icon and the type of the server's
page, folders in the navigation, pictures of two themes, and the targets of links out of ``docs/``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tests.kit import doc_reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
UNSHOWN = {".py", ".json"}
"""Files under ``docs/`` that are no pages: ``exclude_docs`` names them."""
LINK = re.compile(r"(\]\()(?!https?://)([^)#\s]+)")
PICTURE = re.compile(r'<picture>\s*<source[^>]*srcset="([^"]+)">\s*<img alt="([^"]+)" src="([^"]+)">\s*</picture>')
LONG_CODE = re.compile(r"(?<!<span></span>)<code>(?=[^<]{50,}</code>)")
DRAWING = re.compile(r'<p><img(?=[^>]* src="[^"]*\.svg)')
ICON = ROOT / "src" / "polyhop" / "serve" / "page" / "icon.svg"
VIEW = ROOT / "src" / "polyhop" / "trace" / "view"
_FENCED = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)~*$)", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """A folder in the navigation stands for its pages, the first of them first."""
    config.nav = [_opened(entry) for entry in config.nav]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Make the reference again, and use the icon and the type of the server's page."""
    files.append(File.generated(config, "images/icon.svg", abs_src_path=str(ICON)))
    for path in (VIEW / "fonts.css", *(VIEW / "fonts").iterdir()):
        files.append(File.generated(config, path.relative_to(VIEW).as_posix(), abs_src_path=str(path)))
    for name, make in doc_reference.PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files of the repository outside the documentation lead to the repository, and a picture of two themes
    follows the site's; blocks stay as they are."""
    folder = (DOCS / page.file.src_uri).parent
    markdown = PICTURE.sub(r"![\2](\3#only-light)![\2](\1#only-dark)", markdown)
    parts = _FENCED.split(markdown)
    parts[::2] = [
        LINK.sub(lambda found: found[1] + _outside(folder, found[2], config.extra["repository"]), part)
        for part in parts[::2]
    ]
    return "".join(parts)


def on_page_content(html: str, **_: Any) -> str:
    """Let wide drawings and tables scroll by keys too, and long code in a sentence wrap; an empty heading of a table is
    a plain cell."""
    html = DRAWING.sub('<p class="drawing" tabindex="0"><img', html).replace("<th></th>", "<td></td>")
    html = LONG_CODE.sub('<code class="long">', html)
    return html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")


def on_post_page(output: str, **_: Any) -> str:
    """Name the search dialog, which the theme leaves unnamed."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_post_template(output: str, **_: Any) -> str:
    """Do the same in the page of a wrong address."""
    return on_post_page(output)


def _outside(folder: Path, target: str, repository: str) -> str:
    path = Path(os.path.normpath(folder / target))
    if not path.exists() or (path.is_relative_to(DOCS) and path.suffix not in UNSHOWN):
        return target
    return f"{repository}/{'tree' if path.is_dir() else 'blob'}/main/{path.relative_to(ROOT).as_posix()}"


def _opened(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    ((title, below),) = entry.items()
    if isinstance(below, list):
        return {title: [_opened(each) for each in below]}
    if not below.endswith("/"):
        return entry
    pages = sorted(
        (DOCS / below).glob("*.md"), key=lambda page: (page.name not in {"README.md", "index.md"}, page.name)
    )
    return {title: [page.relative_to(DOCS).as_posix() for page in pages]}
