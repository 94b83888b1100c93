"""Documents that went wrong or wish harm: bombs of a size that grows with ``scale``, and small ones drawn by seed."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.kit.documents import epub, relations, write_zip
from tests.kit.hostile_json import SHOWN, VALUES
from tests.kit.office import pptx, shape, xlsx

KEPT = "Lighthouse"
"""A word that stands before anything hostile in each drawn document: a document that is read still has it."""

_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'


def changed(path: Path, change: Callable[[str, str], str]) -> Path:
    """Change the text of each part of a packed document by ``change(name, text)``."""
    with zipfile.ZipFile(path) as opened:
        parts = {name: opened.read(name).decode() for name in opened.namelist()}
    return write_zip(path, {name: change(name, text) for name, text in parts.items()})


def sheet(path: Path, rows: str, more: str = "") -> Path:
    """An XLSX whose only sheet has these rows, as XML."""
    whole = f'<worksheet xmlns="{_SHEET}"><sheetData>{rows}</sheetData>{more}</worksheet>'
    return changed(
        xlsx(path, {"Sheet": [["a"]]}), lambda name, text: whole if name.startswith("xl/worksheets") else text
    )


def write(path: Path, text: str) -> Path:
    """A file of this text."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return path


def repeated(path: Path, part: str, opening: str, closing: str, times: int) -> Path:
    """A packed document in which the first element between two texts of a part stands many times."""

    def change(name: str, text: str) -> str:
        if name != part:
            return text
        start = text.index(opening)
        end = text.index(closing, start)
        return text[:start] + text[start:end] * times + text[end:]

    return changed(path, change)


def _mail(headers: str, body: str = "Hello.") -> str:
    return f"Subject: Tides\n{headers}\n\n{body}\n"


def _nested_mail(levels: int) -> str:
    lines = [f"--b{n}\nContent-Type: multipart/mixed; boundary=b{n + 1}\n" for n in range(levels)]
    return _mail("Content-Type: multipart/mixed; boundary=b0", "\n".join(lines))


BOMBS: Mapping[str, Callable[[Path, int], Path]] = {
    "a caption that each row repeats": lambda folder, n: write(
        folder / "a.html", f"<table><caption>{'word ' * 20 * n}</caption>{'<tr><td>a<td>b</tr>' * 200 * n}</table>"
    ),
    "a caption of a sheet": lambda folder, n: xlsx(folder / "a.xlsx", {"S": [["w " * 200 * n], *[[1, 2]] * 200 * n]}),
    "a heading that each passage repeats": lambda folder, n: write(
        folder / "a.md", f"# {'word ' * 200 * n}\n\n" + "\n\n".join(f"## Part {i}\n\nText." for i in range(20 * n))
    ),
    "a name of a column that each row repeats": lambda folder, n: write(
        folder / "a.csv", f"Name,{'w' * 10_000 * n},C\n" + "x,1,2\n" * 200 * n
    ),
    "merged cells over and over": lambda folder, n: sheet(
        folder / "a.xlsx",
        '<row r="1"><c r="A1"><v>1</v></c></row>',
        "<mergeCells>" + '<mergeCell ref="A1:CV1000"/>' * 300 * n + "</mergeCells>",
    ),
    "rows and columns far away": lambda folder, n: sheet(
        folder / "a.xlsx", "".join(f'<row r="{9**i}"><c r="ZZZ1"><v>1</v></c></row>' for i in range(7)) * n
    ),
    "a sheet many times": lambda folder, n: repeated(
        xlsx(folder / "a.xlsx", {"S": [["a", "b"]] * 20 * n}), "xl/workbook.xml", "<sheet ", "</sheets>", 200 * n
    ),
    "many sheets": lambda folder, n: xlsx(folder / "a.xlsx", {f"s{i}": [["a", "b"]] for i in range(90 * n)}),
    "a slide many times": lambda folder, n: repeated(
        pptx(folder / "a.pptx", [("T", shape("text " * 10 * n))]),
        "ppt/presentation.xml",
        "<p:sldId ",
        "</p:sldIdLst>",
        200 * n,
    ),
    "notes many times": lambda folder, n: changed(
        pptx(folder / "a.pptx", [("T", shape("text"))], notes="w " * 2000 * n),
        lambda name, text: (
            relations(*((f"n{i}", "", "../notesSlides/notesSlide1.xml") for i in range(50 * n)))
            if "slides/_rels" in name
            else text
        ),
    ),
    "shapes in shapes": lambda folder, n: pptx(
        folder / "a.pptx",
        [("T", f"{'<p:sp><a:p>' * 30 * n}<a:r><a:t>x</a:t></a:r>{'</a:p></p:sp>' * 30 * n}")],
    ),
    "cells that span all": lambda folder, n: pptx(
        folder / "a.pptx",
        [
            (
                "T",
                '<a:tbl><a:tr><a:tc gridSpan="99999999" rowSpan="99999999"><a:p><a:r><a:t>x</a:t></a:r></a:p></a:tc>'
                f"</a:tr>{'<a:tr/>' * 200 * n}</a:tbl>",
            )
        ],
    ),
    "mail in mail": lambda folder, n: write(folder / "a.eml", _nested_mail(30 * n)),
    "messages in messages": lambda folder, n: write(
        folder / "a.eml", "Subject: x\nContent-Type: message/rfc822\n\n" * 200 * n + "Hello."
    ),
    "a mail of attachments": lambda folder, n: write(
        folder / "a.eml",
        _mail(
            "Content-Type: multipart/mixed; boundary=b",
            '--b\nContent-Disposition: attachment; filename="../../x"\n\nx\n' * 100 * n + "--b--",
        ),
    ),
    "a mail to everyone": lambda folder, n: write(folder / "a.eml", _mail(f"To: {'a@b.c, ' * 1000 * n}")),
    "a mail from comments": lambda folder, n: write(
        folder / "a.eml", _mail(f"From: {'(' * 50 * n}\nCc: {'<' * 9 * n}")
    ),
    "a mail of encoded words": lambda folder, n: write(folder / "a.eml", _mail(f"Cc: {'=?utf-8?q?a?= ' * 200 * n}")),
    "a mail of parameters": lambda folder, n: write(
        folder / "a.eml",
        _mail("Content-Type: text/plain; " + "".join(f"charset*{i}*=a;" for i in range(500 * n))),
    ),
    "a mailbox of nothing": lambda folder, n: write(folder / "a.mbox", "From \n" * 20_000 * n),
    "a notebook of pictures": lambda folder, n: write(
        folder / "a.ipynb",
        json.dumps(
            {
                "cells": [
                    {"cell_type": "markdown", "source": [f"![a](data:image/png;base64,{'A' * 9999 * n})", "Text."]},
                    {"cell_type": "code", "source": ["x"], "outputs": [{"data": {"image/png": "A" * 99_999 * n}}]},
                ]
            }
        ),
    ),
    "a notebook of brackets": lambda folder, n: write(folder / "a.ipynb", f'{{"cells": {"[" * 9999 * n}'),
    "a table of commas": lambda folder, n: write(folder / "a.csv", "a" + ("," * 1000 * n + "\n") * 50),
    "a quotation without an end": lambda folder, n: write(folder / "a.csv", 'a,b\n"' + "x\n" * 30_000 * n),
    "quotations in quotations": lambda folder, n: write(
        folder / "a.md", "> " * 1000 * n + "x\n" + "- " * 500 * n + "y"
    ),
    "marks of Markdown": lambda folder, n: write(
        folder / "a.md", "[" * 500 * n + "*" * 500 * n + "a\n\n" + "".join("`" * i + "a" for i in range(15 * n))
    ),
    "elements in elements": lambda folder, n: write(folder / "a.html", "<div><table><tr><td>" * 1000 * n + "x"),
    "a part that is nearly all blank": lambda folder, n: epub(
        folder / "a.epub", {"1.xhtml": f"<p>Text.{' ' * 10**5 * n}"}
    ),
}
"""Documents that take far more time or room to read than to send; ``scale`` 100 is as bad as it was tried by hand."""


# --- small ones, by seed ----------------------------------------------------------------------------------------------

_PIECES = (
    *(SHOWN, "\x00", "\ufeff", "\ud800", "\u202e", "\r", "\v\f", "\t", "&amp;", "&#0;", "&#x110000;", "&a;", "&x;"),
    *(
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?x",
        "</",
        "<p>",
        "<table><tr><td rowspan=9999 colspan=9999>",
        "<base href=/",
    ),
    *("<script>", "<style>", "<svg onload=x>", "<iframe srcdoc='", "<!DOCTYPE", _ENTITIES, "<meta charset=utf-7>"),
    *(
        '=HYPERLINK("http://x")',
        "=cmd|'/C calc'!A0",
        "+1",
        "-1",
        "@SUM(A1)",
        "../../../etc/passwd",
        "C:\\x",
        "file:///",
    ),
    *(
        "# ",
        "## " * 40,
        "> " * 60,
        "- " * 60,
        "```",
        "~~~",
        "---\n",
        "+++\n",
        "|a|b|\n|-|-|\n",
        "![x](http://x)",
        "[a]: x",
    ),
    *(
        "From x\n",
        "Subject: y\n",
        "Content-Type: text/html; charset=rot13\n",
        "--b\n",
        "=?x?q?y?=",
        '"',
        ",",
        ";",
        "\n",
    ),
    *("9" * 5000, "²", "1e999", "NaN", "word " * 300, "w" * 3000, "a\u0301" * 500, "\u0315" * 500, "ﷺ" * 50),
)


_TYPES = ("s", "str", "inlineStr", "b", "e", "n", "zz")  # of cells


def drawn(folder: Path, number: int, draw: random.Random, secret: Path) -> Path:
    """A document of a kind and with content drawn; ``KEPT`` comes first, and the file of ``secret`` is named in it."""
    outside = f'<!DOCTYPE x [<!ENTITY x SYSTEM "file://{secret}">]>'
    pieces = (*_PIECES, outside, f'<img src="{secret}">', f"![x]({secret})", f'<a href="file://{secret}">')

    def text() -> str:
        return "".join(draw.choice(pieces) for _ in range(draw.randint(0, 6)))

    def value() -> str:
        return draw.choice((draw.choice(VALUES), json.dumps(text())))

    suffix = draw.choice(("md", "html", "csv", "tsv", "txt", "eml", "mbox", "ipynb", "xlsx", "pptx", "epub", "py"))
    path = folder / f"{number}.{suffix}"
    match suffix:
        case "eml" | "mbox":
            first = "From a\n" if suffix == "mbox" else ""
            return write(path, f"{first}Subject: {KEPT}\nX: {text()}\n{text()}\n\n{text()}\n{text()}")
        case "ipynb":
            cells = f'{{"cell_type": "code", "source": "{KEPT}"}}, {{"cell_type": {value()}, "source": {value()}}}'
            return write(path, f'{{"cells": [{cells}], "metadata": {value()}}}')
        case "xlsx":
            rows = "".join(
                f'<row r="{draw.choice(("2", "x", "9" * 9, "1", ""))}">'
                f'<c r="{draw.choice(("A2", "XFD9", "ä", "A0", ""))}" t="{draw.choice(_TYPES)}" '
                f's="{draw.choice(("0", "1", "x", "²"))}">'
                f"<f>{_xml(text())}</f><v>{_xml(text())}</v><is><t>{_xml(text())}</t></is></c></row>"
                for _ in range(3)
            )
            first = f'<row r="1"><c r="A1" t="str"><v>{KEPT}</v></c></row>'
            return _damaged(sheet(path, first + rows, draw.choice(("", outside, "<x>"))), draw)
        case "pptx":
            return _damaged(pptx(path, [(KEPT, shape(_xml(text())) + draw.choice(("", "<p:sp>", outside)))]), draw)
        case "epub":
            name = draw.choice(("1.xhtml", "../1.xhtml", "/etc/passwd", "..\\x", "a" * 300, SHOWN.replace("\x00", "")))
            chapters = {"0.xhtml": f"<p>{KEPT}</p>{text()}", name: f"{outside}<p>&x;{text()}"}
            return _damaged(epub(path, {key: _whole(part) for key, part in chapters.items()}), draw)
        case _:
            return write(path, f"{KEPT}\n\n{text()}\n{text()}")


def _whole(text: str) -> str:
    """A text that UTF-8 can write."""
    return text.encode("utf-8", "replace").decode()


def _xml(text: str) -> str:
    """A text as a careless program puts it into XML: escaped, mostly."""
    kept = _whole("".join(c for c in text if c >= " "))
    return kept if len(kept) % 7 == 0 else kept.replace("&", "&amp;").replace("<", "&lt;")


def _damaged(path: Path, draw: random.Random) -> Path:
    """The file, now and then with bytes of it replaced."""
    data = bytearray(path.read_bytes())
    if draw.random() < 0.3:
        start = draw.randrange(len(data))
        data[start : start + draw.choice((1, 4, 40))] = draw.choice((b"", b"\0", b"\xff" * 4, b"PK\x03\x04", b"x" * 9))
        path.write_bytes(data)
    return path
