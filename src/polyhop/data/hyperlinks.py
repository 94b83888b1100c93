"""The hyperlinks in Wikipedia text: anchors whose target is a percent-encoded title, as WikiExtractor writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

_TARGET = re.compile(r"""<a\s[^<>]*?href\s*=\s*["']?([^"'<>]*)""", re.IGNORECASE)
_ANCHOR = re.compile(r"</?a(?:\s[^<>]*)?>", re.IGNORECASE)


def unlinked(markup: str) -> tuple[str, tuple[str, ...]]:
    """A text without its anchors, and the titles they lead to. Anchors may be nested, unclosed or without a target.

    >>> unlinked('He met <a href="ada%20Lovelace%23Life">Ada</a> in <a href="Paris">Paris</a>.')
    ('He met Ada in Paris.', ('Ada Lovelace', 'Paris'))
    """
    return _ANCHOR.sub("", markup), linked_titles(markup)


def linked_titles(markup: str) -> tuple[str, ...]:
    """The titles that a text's anchors lead to, in order, each once."""
    return page_titles(map(unquote, _TARGET.findall(markup)))


def page_titles(targets: Iterable[str]) -> tuple[str, ...]:
    """The titles of the pages that links lead to, in order, each once: without the section, the first letter a capital,
    as Wikipedia keeps titles.

    >>> page_titles(["political philosophy", "Émile_Zola#Works", "Political philosophy", "#top"])
    ('Political philosophy', 'Émile Zola')
    """
    titles = (" ".join(target.partition("#")[0].replace("_", " ").split()) for target in targets)
    return tuple(dict.fromkeys(title[0].upper() + title[1:] for title in titles if title))
