"""Texts with light markup, from a file to its passages: reStructuredText, AsciiDoc and Org."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyhop.data.converting.outlines import rst_blocks
from polyhop.data.corpora import open_corpus

RST = """\
.. _top:

======
 Mill
======
:Author: Ann

Built in 1815.

Parts
=====

Wheels
------
See :ref:`the dam <dam>`, :py:func:`~mill.turn` and `Lund <https://lund.example>`_.
It has ``*two* wheels``, **both** *old*.

.. note:: Mind the step.
   :class: loud

   It is wet.

.. A comment
   that goes on.

Dam
===

.. code-block:: python
   :linenos:

   if wet:
       stop()

----

Run this::

    turn --fast

Done. |flood|

.. |flood| image:: flood.png
.. [1] Said Bo.
"""

ADOC = """\
= Mill
:toc: left

Built in 1815.

[[parts]]
== Parts
// nobody sees this
=== Wheels
It has two.

----
== turn
----
"""

ORG = """\
#+TITLE: Mill
#+AUTHOR: Ann
Built in 1815.
* Parts
:PROPERTIES:
:ID: 7
:END:
** TODO Wheels :wood:
It has two.
#+BEGIN_SRC sh
* turn
#+END_SRC
"""


@pytest.mark.parametrize(
    ("name", "text", "passages"),
    [
        (
            "mill.rst",
            RST,
            [
                ("Mill", ":Author: Ann.\nBuilt in 1815."),
                (
                    "Mill › Parts › Wheels",
                    "See the dam, mill.turn and Lund. It has *two* wheels, both old.\nNote: Mind the step.\nIt is wet.",
                ),
                ("Mill › Dam", "   if wet:\n       stop()\nRun this:\n    turn --fast\nDone. |flood|\n[1] Said Bo."),
            ],
        ),
        ("mill.adoc", ADOC, [("Mill", "Built in 1815."), ("Mill › Parts › Wheels", "It has two.\n== turn")]),
        ("mill.org", ORG, [("Mill", "Built in 1815."), ("Mill › Parts › Wheels", "It has two.\n* turn")]),
    ],
)
def test_headings_title_their_passages(tmp_path: Path, name: str, text: str, passages: list[tuple[str, str]]) -> None:
    (tmp_path / name).write_text(text)
    assert [(p.title, p.text) for p in open_corpus(tmp_path)] == passages


@pytest.mark.parametrize(
    "text",
    [
        "A title\n=====",  # shorter than the title
        "A title\n=-=-=-=",
        "Some text\nA title\n=======",  # a line of a paragraph
        "  A title\n=======",  # set in, but not overlined
        "=======\n\n=======",
        "It\n::",
        "It\n..",
    ],
)
def test_a_line_above_other_marks_is_no_heading(text: str) -> None:
    assert not any(block.level for block in rst_blocks(f"First.\n\n{text}\n\nLast."))
