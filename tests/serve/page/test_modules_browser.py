"""Modules of the page, called in the browser."""

from __future__ import annotations

from tests.kit.served_page import MARKS, Open

pytestmark = MARKS


def test_a_step_of_any_name_is_shown(opened: Open, demo: str) -> None:
    """Run files are not trusted: a name that every object inherits is no verdict and no kind of step."""
    tab = opened(demo)
    made = """async (name) => {
        const { verdictOf } = await import("./static/view/words.js");
        const { step } = await import("./static/view/steps.js");
        return [verdictOf(name), step({}, { kind: name }).querySelector(".task").textContent];
    }"""
    for name in ("constructor", "toString", "__proto__", "valueOf"):
        assert tab.evaluate(made, name) == [[name, "still"], name]


def test_a_text_cannot_reverse_its_neighbours(opened: Open, demo: str) -> None:
    tab = opened(demo)
    made = """async (text) => {
        const { el } = await import("./static/view/dom.js");
        return [...el("p", {}, text, "and on").childNodes].map((node) => node.data);
    }"""
    rlo, fsi, pdf, pdi = "\u202e", "\u2068", "\u202c", "\u2069"
    for text, shown in {
        f"a {rlo}b": f"a {rlo}b{pdf}",
        f"a {fsi}{rlo}b": f"a {fsi}{rlo}b{pdf}{pdi}",
        f"{pdi}a{pdf}": "a",
        f"{rlo}a{pdi}b{pdf}": f"{rlo}ab{pdf}",
        f"{fsi}שלום{pdi} {rlo}x{pdf}": f"{fsi}שלום{pdi} {rlo}x{pdf}",
        f"{fsi}{rlo}a{pdi}b": f"{fsi}{rlo}a{pdf}{pdi}b",
    }.items():
        assert tab.evaluate(made, text) == [shown, "and on"]


def test_events_are_read_however_they_are_cut(opened: Open, demo: str) -> None:
    tab = opened(demo)
    read = """async ([text, size]) => {
        const { events } = await import("./static/js/sse.js");
        const bytes = new TextEncoder().encode(text);
        const body = new ReadableStream({ start(to) {
            for (let at = 0; at < bytes.length; at += size) to.enqueue(bytes.slice(at, at + size));
            to.close();
        } });
        return Array.fromAsync(events(body));
    }"""
    step = ': hello\r\n\r\nevent: step\r\ndata: {"a":\r\ndata: "é🎬"}\r\n\r\n'
    text = f"{step}data: 1\n\nevent: end\ndata:[]\n\nevent: lost\ndata: 2"
    expected = [{"event": "step", "data": {"a": "é🎬"}}, {"event": "message", "data": 1}, {"event": "end", "data": []}]
    for size in (1, 2, 3, 7, 1000):
        assert tab.evaluate(read, [text, size]) == expected


def test_spans_count_characters_as_python_does(opened: Open, demo: str) -> None:
    tab = opened(demo)
    mark = """async ([text, spans, words]) => {
        const { marked, found } = await import("./static/view/passages.js");
        const all = [...spans, ...found(words, text)];
        return marked(text, all).map((part) => (part instanceof Node ? `<${part.textContent}>` : part)).join("");
    }"""
    text = "🎬 Ann Lee was born in Bern."
    start = text.index("Bern")
    assert tab.evaluate(mark, [text, [[start, start + 4]], "ANN LEE"]) == "🎬 <Ann Lee> was born in <Bern>."
    assert (
        tab.evaluate(mark, [text, [[2, 5], [4, 9], [-1, 3], [3, 99], [6, 6]], None]) == "🎬 <Ann Lee> was born in Bern."
    )
    assert tab.evaluate(mark, ["", [[0, 1]], ""]) == ""
